//! The listeners for probes, for scrapers (in clear text and over TLS), and for the read-only admin pages.

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::listener::v3 as listener_v3;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher_v3;
use envoy_types::pb::envoy::r#type::v3 as type_v3;
use lockgate_xds::snapshot::Resource;

use super::cluster::CONNECTION_BUFFER_BYTES;
use super::hcm::{Codec, RouteFilters, Routes, http_connection_manager};
use super::listener::address;
use super::{downstream_tls, names, route, wire};
use crate::model::{Bind, Model, StatsTls};
use crate::settings::{Listeners, Settings};

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
    if settings.listeners.overload_probe.port != 0 {
        resources.push(Resource::new(names::OVERLOAD_PROBE, &overload_probe(settings), vec![]));
    }
    if settings.listeners.admin.port != 0 {
        resources.push(Resource::new(names::ADMIN, &admin(settings), vec![]));
    }
    resources
}

/// Builds the listener for `GET` of `/ready`, `/stats`, and `/stats/prometheus`, which the admin interface answers. If
/// the settings move statistics to TLS, it serves only `/ready`, even if TLS is not possible. `/ready` fails while
/// [`names::DRAINING`] is set, before Envoy itself drains, so that load balancers react first.
///
/// It answers under overload too, because an Envoy that sheds load must not be restarted.
fn listener(settings: &Settings) -> listener_v3::Listener {
    let Listeners { stats, stats_tls, .. } = &settings.listeners;
    let statistics = STATISTICS.iter().filter(|_| stats_tls.at.port == 0);
    let paths: Vec<&str> = ["/ready"].iter().chain(statistics).copied().collect();
    under_overload_too(of_admin(names::STATS, &paths, stats, settings))
}

/// Builds the listener for statistics over TLS, with the key pair and authorities of `tls`. It answers under overload
/// too.
fn by_tls(tls: &StatsTls, settings: &Settings) -> listener_v3::Listener {
    let mut listener = of_admin(names::STATS_TLS, &STATISTICS, &settings.listeners.stats_tls.at, settings);
    for chain in &mut listener.filter_chains {
        chain.transport_socket = Some(downstream_tls::for_scrapers(tls, settings));
    }
    under_overload_too(listener)
}

fn under_overload_too(listener: listener_v3::Listener) -> listener_v3::Listener {
    listener_v3::Listener { ignore_global_conn_limit: true, bypass_overload_manager: true, ..listener }
}

/// Builds the second listener for `/ready`. Envoy rejects it during load shedding, like requests of clients.
fn overload_probe(settings: &Settings) -> listener_v3::Listener {
    of_admin(names::OVERLOAD_PROBE, &["/ready"], &settings.listeners.overload_probe, settings)
}

/// Builds the listener for the read-only admin pages. It answers under overload, so that an operator can inspect the
/// Envoy.
fn admin(settings: &Settings) -> listener_v3::Listener {
    under_overload_too(of_admin(names::ADMIN, &READ_ONLY, &settings.listeners.admin, settings))
}

/// Builds a listener that passes `paths` to the admin interface. Settings for clients do not apply, so a change of them
/// does not affect probes.
fn of_admin(name: &str, paths: &[&str], at: &Bind, settings: &Settings) -> listener_v3::Listener {
    let draining = paths.contains(&"/ready").then(draining).into_iter();
    let virtual_host = route_v3::VirtualHost {
        name: name.to_owned(),
        domains: vec!["*".to_owned()],
        routes: draining.chain(paths.iter().map(|path| admin_route(path))).collect(),
        ..Default::default()
    };
    let routes = route_v3::RouteConfiguration {
        // The bootstrap defines the cluster. An Envoy with another bootstrap must answer 503 instead of rejecting the
        // listener.
        validate_clusters: Some(wire::boolean(false)),
        ..route::route_configuration(name, vec![virtual_host])
    };
    let routes = Routes::Inline(Box::new(routes));
    let manager =
        http_connection_manager(name, routes, Codec::Tcp, vec![], RouteFilters::default(), &Settings::default());
    listener_v3::Listener {
        name: name.to_owned(),
        address: Some(address(at, core_v3::socket_address::Protocol::Tcp, settings)),
        filter_chains: vec![listener_v3::FilterChain { filters: vec![manager], ..Default::default() }],
        per_connection_buffer_limit_bytes: Some(wire::uint32(CONNECTION_BUFFER_BYTES)),
        tcp_keepalive: Some(wire::tcp_keepalive()),
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
            path_specifier: Some(route_v3::route_match::PathSpecifier::Path("/ready".to_owned())),
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
/// path is forwarded.
fn admin_route(path: &str) -> route_v3::Route {
    let get = route_v3::HeaderMatcher {
        name: ":method".to_owned(),
        header_match_specifier: Some(route_v3::header_matcher::HeaderMatchSpecifier::StringMatch(
            matcher_v3::StringMatcher {
                match_pattern: Some(matcher_v3::string_matcher::MatchPattern::Exact("GET".to_owned())),
                ..Default::default()
            },
        )),
        ..Default::default()
    };
    route_v3::Route {
        r#match: Some(route_v3::RouteMatch {
            path_specifier: Some(route_v3::route_match::PathSpecifier::Path(path.to_owned())),
            headers: vec![get],
            ..Default::default()
        }),
        action: Some(route_v3::route::Action::Route(route_v3::RouteAction {
            cluster_specifier: Some(route_v3::route_action::ClusterSpecifier::Cluster(names::ADMIN_CLUSTER.to_owned())),
            ..Default::default()
        })),
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
        let admin = admin(&Settings::default());
        assert!(admin.ignore_global_conn_limit && admin.bypass_overload_manager);
        let other = overload_probe(&Settings::default());
        assert!(!other.ignore_global_conn_limit && !other.bypass_overload_manager);
    }
}
