//! The listener for probes and scrapers.

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::listener::v3 as listener_v3;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher_v3;
use envoy_types::pb::envoy::r#type::v3 as type_v3;

use super::cluster::CONNECTION_BUFFER_BYTES;
use super::hcm::{Codec, Routes, http_connection_manager};
use super::listener::address;
use super::{names, route, wire};
use crate::settings::{AccessLog, AccessLogFormat, Settings};

/// `GET` of `/ready`, `/stats` and `/stats/prometheus` reach the admin interface.
/// `/ready` fails while [`names::DRAINING`] is set, before Envoy itself says so: what load balancers learn first.
///
/// It answers under overload too: an Envoy that sheds load is not one to restart. What the settings say of clients is
/// not said of probes, so that no change of it disturbs them.
pub fn listener(settings: &Settings) -> listener_v3::Listener {
    let virtual_host = route_v3::VirtualHost {
        name: names::STATS.to_owned(),
        domains: vec!["*".to_owned()],
        routes: [draining()].into_iter().chain(["/ready", "/stats", "/stats/prometheus"].map(admin_route)).collect(),
        ..Default::default()
    };
    let routes = route_v3::RouteConfiguration {
        // The cluster is the bootstrap's; an Envoy with another bootstrap shall answer 503 here, not refuse all.
        validate_clusters: Some(wire::boolean(false)),
        ..route::route_configuration(names::STATS, vec![virtual_host])
    };
    let unlogged = Settings {
        access_log: AccessLog { format: AccessLogFormat::Off, ..AccessLog::default() },
        ..Settings::default()
    };
    let manager = http_connection_manager(names::STATS, Routes::Inline(Box::new(routes)), Codec::Tcp, &unlogged);
    listener_v3::Listener {
        name: names::STATS.to_owned(),
        address: Some(address(&settings.listeners.stats, core_v3::socket_address::Protocol::Tcp, settings)),
        filter_chains: vec![listener_v3::FilterChain { filters: vec![manager], ..Default::default() }],
        per_connection_buffer_limit_bytes: Some(wire::uint32(CONNECTION_BUFFER_BYTES)),
        tcp_keepalive: Some(wire::tcp_keepalive()),
        ignore_global_conn_limit: true,
        bypass_overload_manager: true,
        ..Default::default()
    }
}

/// What `/ready` answers when an Envoy is about to drain, in Envoy's own words.
fn draining() -> route_v3::Route {
    let answer = route_v3::DirectResponseAction {
        status: 503,
        body: Some(wire::inline_string("DRAINING\n")),
        ..Default::default()
    };
    route_v3::Route {
        r#match: Some(route_v3::RouteMatch {
            path_specifier: Some(route_v3::route_match::PathSpecifier::Path("/ready".to_owned())),
            // Of a hundred: never, unless somebody sets the key.
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

/// `GET` of a path of the admin interface, which is trusted to whoever reaches it: no path but this one.
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
