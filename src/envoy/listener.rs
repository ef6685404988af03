//! Listeners: plain text, TLS, statistics.

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::listener::v3 as listener_v3;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::envoy::extensions::filters::listener::tls_inspector::v3 as tls_inspector_v3;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3 as tls_v3;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher_v3;

use super::cluster::CONNECTION_BUFFER_BYTES;
use super::hcm::{Routes, http_connection_manager};
use super::{names, route, wire};
use crate::model::{Host, Model, TlsHost, TlsVersion};
use crate::settings::{Listener, Settings};
use crate::snapshot::Resource;

/// Cipher suites for TLS 1.2, all with forward secrecy; 1.3 has its own that cannot be chosen.
const CIPHER_SUITES: [&str; 4] = [
    "[ECDHE-ECDSA-AES128-GCM-SHA256|ECDHE-ECDSA-CHACHA20-POLY1305]",
    "[ECDHE-RSA-AES128-GCM-SHA256|ECDHE-RSA-CHACHA20-POLY1305]",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
];

/// All listeners. There is one for TLS only if there is a TLS host, and one for statistics only if it has a port.
pub fn listeners(model: &Model, settings: &Settings) -> Vec<Resource> {
    let mut resources = vec![Resource::new(names::HTTP, &http(settings), vec![])];
    if !model.https.is_empty() {
        let origins = model.https.values().flat_map(|host| host.origins.iter().cloned()).collect();
        resources.push(Resource::new(names::HTTPS, &https(model, settings), origins));
    }
    if settings.listeners.stats.port != 0 {
        resources.push(Resource::new(names::STATS, &stats(settings), vec![]));
    }
    resources
}

/// The plain-text listener: one chain, all hosts in one route configuration.
pub fn http(settings: &Settings) -> listener_v3::Listener {
    let routes = Routes::Rds(names::HTTP.to_owned());
    let manager = http_connection_manager("ingress_http", routes, Some(&settings.access_log), settings);
    listener_v3::Listener {
        filter_chains: vec![listener_v3::FilterChain { filters: vec![manager], ..Default::default() }],
        ..listener(names::HTTP, &settings.listeners.http, settings)
    }
}

/// The TLS listener: one chain for each server name, so that a change of one drains no connection of another.
///
/// Clients without a known server name get the chain of [`Host::Any`]; if there is none their connection is closed.
pub fn https(model: &Model, settings: &Settings) -> listener_v3::Listener {
    let chains = model.https.iter().filter(|(host, _)| **host != Host::Any);
    listener_v3::Listener {
        listener_filters: vec![tls_inspector()],
        filter_chains: chains.map(|(host, tls)| tls_chain(host, tls, settings)).collect(),
        default_filter_chain: model.https.get(&Host::Any).map(|tls| tls_chain(&Host::Any, tls, settings)),
        ..listener(names::HTTPS, &settings.listeners.https, settings)
    }
}

/// The listener for probes and scrapers: `GET` of `/ready`, `/stats` and `/stats/prometheus` reach the admin interface.
///
/// It answers under overload too: an Envoy that sheds load is not one to restart.
pub fn stats(settings: &Settings) -> listener_v3::Listener {
    let virtual_host = route_v3::VirtualHost {
        name: names::STATS.to_owned(),
        domains: vec!["*".to_owned()],
        routes: ["/ready", "/stats", "/stats/prometheus"].map(admin_route).to_vec(),
        ..Default::default()
    };
    let routes = route_v3::RouteConfiguration {
        // The cluster is the bootstrap's; an Envoy with another bootstrap shall answer 503 here, not refuse all.
        validate_clusters: Some(wire::boolean(false)),
        ..route::route_configuration(names::STATS, vec![virtual_host])
    };
    let manager = http_connection_manager(names::STATS, Routes::Inline(Box::new(routes)), None, settings);
    listener_v3::Listener {
        filter_chains: vec![listener_v3::FilterChain { filters: vec![manager], ..Default::default() }],
        ignore_global_conn_limit: true,
        bypass_overload_manager: true,
        ..listener(names::STATS, &settings.listeners.stats, settings)
    }
}

/// What all listeners share: every address of the host, small buffers, dead peers noticed.
///
/// `::` with `ipv4_compat` is one socket for both families. It works where IPv6 is switched off by sysctl; on a kernel
/// without IPv6 at all Envoy refuses the address, and `listeners.ipv6` must be false.
fn listener(name: &str, at: &Listener, settings: &Settings) -> listener_v3::Listener {
    let every_address = if settings.listeners.ipv6 { "::" } else { "0.0.0.0" };
    let address = wire::address_of(core_v3::SocketAddress {
        address: at.address.map_or_else(|| every_address.to_owned(), |address| address.to_string()),
        ipv4_compat: settings.listeners.ipv6 && at.address.is_none(),
        port_specifier: Some(core_v3::socket_address::PortSpecifier::PortValue(at.port.into())),
        ..Default::default()
    });
    listener_v3::Listener {
        name: name.to_owned(),
        address: Some(address),
        per_connection_buffer_limit_bytes: Some(wire::uint32(CONNECTION_BUFFER_BYTES)),
        tcp_keepalive: Some(wire::tcp_keepalive()),
        ..Default::default()
    }
}

/// Reads the server name before a chain is chosen.
fn tls_inspector() -> listener_v3::ListenerFilter {
    let config = wire::any(&tls_inspector_v3::TlsInspector::default());
    listener_v3::ListenerFilter {
        name: "envoy.filters.listener.tls_inspector".to_owned(),
        config_type: Some(listener_v3::listener_filter::ConfigType::TypedConfig(config)),
        ..Default::default()
    }
}

/// The chain of one server name; the default chain has no match.
fn tls_chain(host: &Host, tls: &TlsHost, settings: &Settings) -> listener_v3::FilterChain {
    let name = names::https_routes(host);
    let manager =
        http_connection_manager("ingress_https", Routes::Rds(name.clone()), Some(&settings.access_log), settings);
    listener_v3::FilterChain {
        filter_chain_match: (*host != Host::Any)
            .then(|| listener_v3::FilterChainMatch { server_names: vec![host.to_string()], ..Default::default() }),
        filters: vec![manager],
        transport_socket: Some(wire::transport_socket("envoy.transport_sockets.tls", &downstream_tls_context(tls))),
        name,
        ..Default::default()
    }
}

/// TLS towards clients: the key pair by SDS, HTTP/2 by ALPN.
fn downstream_tls_context(tls: &TlsHost) -> tls_v3::DownstreamTlsContext {
    let cipher_suites = match tls.minimum {
        TlsVersion::V1_2 => CIPHER_SUITES.map(str::to_owned).to_vec(),
        TlsVersion::V1_3 => vec![],
    };
    tls_v3::DownstreamTlsContext {
        common_tls_context: Some(tls_v3::CommonTlsContext {
            tls_params: Some(tls_v3::TlsParameters {
                tls_minimum_protocol_version: tls_protocol(tls.minimum) as i32,
                tls_maximum_protocol_version: tls_protocol(tls.maximum) as i32,
                cipher_suites,
                ..Default::default()
            }),
            tls_certificate_sds_secret_configs: vec![tls_v3::SdsSecretConfig {
                name: tls.secret.to_string(),
                sds_config: Some(wire::ads()),
            }],
            alpn_protocols: vec!["h2".to_owned(), "http/1.1".to_owned()],
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn tls_protocol(version: TlsVersion) -> tls_v3::tls_parameters::TlsProtocol {
    match version {
        TlsVersion::V1_2 => tls_v3::tls_parameters::TlsProtocol::TlSv12,
        TlsVersion::V1_3 => tls_v3::tls_parameters::TlsProtocol::TlSv13,
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

#[cfg(test)]
mod tests;
