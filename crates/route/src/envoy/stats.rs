//! The listeners for probes, for scrapers (in clear text and over TLS), and for the read-only admin pages.
//!
//! Any pod can often reach them, so a client costs little: one request per connection, a limit of connections, short time limits. Workers
//! answer `/ready`, so a busy main thread does not make an Envoy unready. Only known queries reach the admin interface, which
//! evaluates regular expressions in its main thread.

use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::listener::v3 as listener_v3;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::envoy::extensions::filters::http::health_check::v3 as health_check_v3;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm_v3;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher_v3;
use envoy_types::pb::envoy::r#type::v3 as type_v3;
use lockgate_xds::snapshot::Resource;
use matcher_v3::string_matcher::MatchPattern;

use super::cluster::CONNECTION_BUFFER_BYTES;
use super::hcm::{Codec, RouteFilters, RouteSource, http_connection_manager};
use super::socket::address;
use super::{downstream_tls, names, route, wire};
use crate::model::{Bind, Model, StatsTls};
use crate::settings::{Listeners, Settings};

/// The maximum number of connections of each listener. One with an unfinished request holds 20 KiB, for two seconds. With 256, a pod
/// with as many unfinished requests at a time made all Envoys unready.
pub const CONNECTIONS: u32 = 4096;

/// The path that probes request.
const READY: &str = "/ready";

/// The paths that scrapers request.
const STATISTICS: [&str; 2] = ["/stats", "/stats/prometheus"];

/// The read-only paths of the admin interface. Source: Contour, `AdminListener`.
const READ_ONLY: [&str; 11] = [
    "/certs",
    "/clusters",
    "/config_dump",
    "/listeners",
    "/memory",
    "/ready",
    "/runtime",
    "/server_info",
    "/stats",
    "/stats/prometheus",
    "/stats/recentlookups",
];

/// Builds the enabled listeners for probes and scrapers. The listener with TLS is absent if its key pair does not
/// exist.
pub fn listeners(model: &Model, settings: &Settings) -> Vec<Resource> {
    let mut resources = Vec::new();
    if settings.listeners.stats.port != 0 {
        resources.push(Resource::new(names::STATS, &listener(settings), vec![]));
    }
    if let Some(tls) = model.stats_tls.as_ref().filter(|_| settings.listeners.stats_tls.at.port != 0) {
        resources.push(Resource::new(names::STATS_TLS, &by_tls(tls, settings), vec![]));
    }
    if settings.listeners.readiness.port != 0 {
        resources.push(Resource::new(names::READINESS, &readiness(settings), vec![]));
    }
    if settings.listeners.overload_probe.port != 0 {
        resources.push(Resource::new(names::OVERLOAD_PROBE, &overload_probe(settings), vec![]));
    }
    if settings.listeners.admin.port != 0 {
        resources.push(Resource::new(names::ADMIN, &admin(settings), vec![]));
    }
    resources
}

/// Builds the listener for `GET` of `/ready`, and of `/stats` and `/stats/prometheus`, which the admin interface answers. If
/// the settings move statistics to TLS, it serves only `/ready`, even if TLS is not possible. `/ready` fails while
/// [`names::DRAINING`] is set, before Envoy itself drains, so that load balancers react first.
///
/// It answers under overload too, because an Envoy that sheds load must not be restarted.
fn listener(settings: &Settings) -> listener_v3::Listener {
    let Listeners { stats, stats_tls, .. } = &settings.listeners;
    let statistics = STATISTICS.iter().filter(|_| stats_tls.at.port == 0);
    let pages: Vec<Page> = [Page::Ready].into_iter().chain(statistics.map(|path| Page::Statistics(path))).collect();
    under_overload_too(of_pages(names::STATS, &pages, stats, settings))
}

/// Builds the listener for statistics over TLS, with the key pair and authorities of `tls`. It answers under overload
/// too.
fn by_tls(tls: &StatsTls, settings: &Settings) -> listener_v3::Listener {
    let mut listener =
        of_pages(names::STATS_TLS, &STATISTICS.map(Page::Statistics), &settings.listeners.stats_tls.at, settings);
    for chain in &mut listener.filter_chains {
        chain.transport_socket = Some(downstream_tls::for_scrapers(tls, settings));
    }
    under_overload_too(listener)
}

fn under_overload_too(listener: listener_v3::Listener) -> listener_v3::Listener {
    listener_v3::Listener { ignore_global_conn_limit: true, bypass_overload_manager: true, ..listener }
}

/// Builds the separate listener for `/ready`. Its connection limit is separate too, so clients of other listeners cannot make an Envoy
/// unready.
fn readiness(settings: &Settings) -> listener_v3::Listener {
    under_overload_too(of_pages(names::READINESS, &[Page::Ready], &settings.listeners.readiness, settings))
}

/// Builds another listener for `/ready`. Envoy rejects it during load shedding, like requests of clients.
fn overload_probe(settings: &Settings) -> listener_v3::Listener {
    of_pages(names::OVERLOAD_PROBE, &[Page::Ready], &settings.listeners.overload_probe, settings)
}

/// Builds the listener for the read-only admin pages. It answers under overload, so that an operator can inspect the
/// Envoy.
fn admin(settings: &Settings) -> listener_v3::Listener {
    under_overload_too(of_pages(names::ADMIN, &READ_ONLY.map(Page::Admin), &settings.listeners.admin, settings))
}

/// A page of such a listener.
#[derive(Debug, Clone, Copy)]
enum Page {
    /// `/ready`, which a worker answers.
    Ready,
    /// Statistics of the admin interface, without a query, or with `?usedonly`.
    Statistics(&'static str),
    /// A page of the admin interface, with any query.
    Admin(&'static str),
}

/// Returns the limits of a connection.
fn limits() -> Settings {
    let mut settings = Settings::default();
    settings.http.max_requests_per_connection = Some(1);
    settings.timeouts.request_headers = Some(Duration::from_secs(2));
    settings.timeouts.connection_idle = Some(Duration::from_secs(2));
    settings.timeouts.stream_idle = Some(Duration::from_secs(10));
    settings.timeouts.max_connection_duration = Some(Duration::from_secs(60));
    settings
}

/// Builds a listener with these pages. Settings for clients do not apply, so a change of them does not affect probes.
fn of_pages(name: &str, pages: &[Page], at: &Bind, settings: &Settings) -> listener_v3::Listener {
    let is_probe = pages.iter().any(|page| matches!(page, Page::Ready));
    let virtual_host = route_v3::VirtualHost {
        name: name.to_owned(),
        domains: vec!["*".to_owned()],
        routes: pages.iter().flat_map(|page| page.routes()).collect(),
        ..Default::default()
    };
    let routes = route_v3::RouteConfiguration {
        // The bootstrap defines the cluster. An Envoy with another bootstrap must answer 503 instead of rejecting the
        // listener.
        validate_clusters: Some(wire::boolean(false)),
        ..route::route_configuration(name, vec![virtual_host])
    };
    let routes = RouteSource::Inline(Box::new(routes));
    let filters = RouteFilters { health: is_probe, ..RouteFilters::default() };
    let manager = http_connection_manager(name, routes, Codec::Tcp, vec![], filters, &limits());
    listener_v3::Listener {
        name: name.to_owned(),
        address: Some(address(at, core_v3::socket_address::Protocol::Tcp, settings)),
        filter_chains: vec![listener_v3::FilterChain { filters: vec![manager], ..Default::default() }],
        per_connection_buffer_limit_bytes: Some(wire::uint32(CONNECTION_BUFFER_BYTES)),
        tcp_keepalive: Some(wire::tcp_keepalive()),
        ..Default::default()
    }
}

impl Page {
    fn routes(self) -> Vec<route_v3::Route> {
        match self {
            Self::Ready => vec![draining(), live()],
            Self::Statistics(path) => vec![admin_route(path, Some(r"[^?]*(\?usedonly)?"))],
            Self::Admin(path) => vec![admin_route(path, None)],
        }
    }
}

/// Builds the HTTP filter that answers `/ready` with 503 while Envoy's health check fails (`/healthcheck/fail`).
pub(super) fn health_filter() -> hcm_v3::HttpFilter {
    let filter = health_check_v3::HealthCheck {
        pass_through_mode: Some(wire::boolean(true)),
        headers: vec![header(":path", MatchPattern::Exact(READY.to_owned()))],
        ..Default::default()
    };
    hcm_v3::HttpFilter {
        name: "envoy.filters.http.health_check".to_owned(),
        config_type: Some(hcm_v3::http_filter::ConfigType::TypedConfig(wire::any(&filter))),
        ..Default::default()
    }
}

/// Builds the response of `/ready`, with the text that Envoy uses. Envoy has no listener before it is ready.
fn live() -> route_v3::Route {
    let answer =
        route_v3::DirectResponseAction { status: 200, body: Some(wire::inline_string("LIVE\n")), ..Default::default() };
    route_v3::Route {
        r#match: Some(route_v3::RouteMatch {
            path_specifier: Some(route_v3::route_match::PathSpecifier::Path(READY.to_owned())),
            headers: vec![header(":method", MatchPattern::Exact("GET".to_owned()))],
            ..Default::default()
        }),
        action: Some(route_v3::route::Action::DirectResponse(answer)),
        ..Default::default()
    }
}

/// Builds the response of `/ready` before a drain, with the text that Envoy uses.
fn draining() -> route_v3::Route {
    let answer = route_v3::DirectResponseAction {
        status: 503,
        body: Some(wire::inline_string("DRAINING\n")),
        ..Default::default()
    };
    route_v3::Route {
        r#match: Some(route_v3::RouteMatch {
            path_specifier: Some(route_v3::route_match::PathSpecifier::Path(READY.to_owned())),
            // A percentage of 0, unless the key is set.
            runtime_fraction: Some(core_v3::RuntimeFractionalPercent {
                default_value: Some(type_v3::FractionalPercent::default()),
                runtime_key: names::DRAINING.to_owned(),
            }),
            ..Default::default()
        }),
        action: Some(route_v3::route::Action::DirectResponse(answer)),
        ..Default::default()
    }
}

/// Builds a route for `GET` of one path of the admin interface. The admin interface has no access control, so no other
/// path is forwarded. `query` is the regular expression of paths with a query.
fn admin_route(path: &str, query: Option<&str>) -> route_v3::Route {
    let get = header(":method", MatchPattern::Exact("GET".to_owned()));
    let regex = |regex: &str| matcher_v3::RegexMatcher { regex: regex.to_owned(), ..Default::default() };
    let query = query.map(|query| header(":path", MatchPattern::SafeRegex(regex(query))));
    route_v3::Route {
        r#match: Some(route_v3::RouteMatch {
            path_specifier: Some(route_v3::route_match::PathSpecifier::Path(path.to_owned())),
            headers: [get].into_iter().chain(query).collect(),
            ..Default::default()
        }),
        action: Some(route_v3::route::Action::Route(route_v3::RouteAction {
            cluster_specifier: Some(route_v3::route_action::ClusterSpecifier::Cluster(names::ADMIN_CLUSTER.to_owned())),
            ..Default::default()
        })),
        ..Default::default()
    }
}

fn header(name: &str, pattern: MatchPattern) -> route_v3::HeaderMatcher {
    let text = matcher_v3::StringMatcher { match_pattern: Some(pattern), ..Default::default() };
    route_v3::HeaderMatcher {
        name: name.to_owned(),
        header_match_specifier: Some(route_v3::header_matcher::HeaderMatchSpecifier::StringMatch(text)),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_answered_under_overload() {
        let listener = listener(&Settings::default());
        assert!(listener.ignore_global_conn_limit && listener.bypass_overload_manager);
        for other in [admin(&Settings::default()), readiness(&Settings::default())] {
            assert!(other.ignore_global_conn_limit && other.bypass_overload_manager);
        }
        let other = overload_probe(&Settings::default());
        assert!(!other.ignore_global_conn_limit && !other.bypass_overload_manager);
    }
}
