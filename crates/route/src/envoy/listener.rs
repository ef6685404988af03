//! Listeners for clients: plain text, TLS, HTTP/3.

use std::collections::{BTreeMap, BTreeSet};

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::listener::v3 as listener_v3;
use envoy_types::pb::envoy::extensions::filters::listener::proxy_protocol::v3 as proxy_protocol_v3;
use lockgate_xds::snapshot::Resource;

use super::chains::{Choice, Presented};
use super::hcm::{self, Codec, Routes};
use super::{access_log, downstream_tls, names, stats, wire};
use crate::model::{Host, Model, TlsHost};
use crate::settings::{ConnectionBalancer, Discovery, Listener, Listeners, ProxyProtocol, Settings, SocketOptions};

/// The listener for plain text, and those for probes and scrapers that have a port; by TLS, if there is what it needs.
pub fn listeners(model: &Model, settings: &Settings) -> Vec<Resource> {
    let mut resources = vec![Resource::new(names::HTTP, &http(settings), vec![])];
    if settings.listeners.stats.port != 0 {
        resources.push(Resource::new(names::STATS, &stats::listener(settings), vec![]));
    }
    if let Some(tls) = model.stats_tls.as_ref().filter(|_| settings.listeners.stats_tls.at.port != 0) {
        resources.push(Resource::new(names::STATS_TLS, &stats::by_tls(tls, settings), vec![]));
    }
    if settings.listeners.overload_probe.port != 0 {
        resources.push(Resource::new(names::OVERLOAD_PROBE, &stats::overload_probe(settings), vec![]));
    }
    if settings.listeners.admin.port != 0 {
        resources.push(Resource::new(names::ADMIN, &stats::admin(settings), vec![]));
    }
    resources
}

/// The listeners for TLS and their names. There are none without a TLS host.
pub fn tls_listeners(model: &Model, settings: &Settings) -> Vec<(&'static str, Resource)> {
    if model.https.is_empty() {
        return vec![];
    }
    // Of no generation: an edit that leaves the listener as it is must not ask for another one.
    let origins = model.https.values().flat_map(|host| host.origins.iter().cloned().map(|origin| origin.at(0)));
    let origins: Vec<_> = origins.collect();
    let tcp = [(names::HTTPS, https(model, settings))];
    let quic = http3(model, settings).map(|listener| (names::HTTP3, listener));
    let all = tcp.into_iter().chain(quic);
    all.map(|(name, listener)| (name, Resource::new(name, &listener, origins.clone()))).collect()
}

/// The plain-text listener: one chain, all hosts in one route configuration.
pub fn http(settings: &Settings) -> listener_v3::Listener {
    let routes = match settings.routes.discovery {
        Discovery::Auto | Discovery::Rds | Discovery::Vhds => Routes::Rds(names::HTTP.to_owned()),
        Discovery::Buckets => Routes::ByBucket,
    };
    let log = access_log::access_log(&settings.access_log, &settings.access_log.http_file);
    let manager = hcm::http_connection_manager("ingress_http", routes, Codec::Tcp, log, settings);
    listener_v3::Listener {
        listener_filters: proxy_protocol(settings).into_iter().collect(),
        filter_chains: vec![listener_v3::FilterChain { filters: vec![manager], ..Default::default() }],
        ..over_tcp(names::HTTP, &settings.listeners.http, settings)
    }
}

/// The TLS listener: chains as [`chains`](super::chains) says.
///
/// Clients without a known server name get the chain of [`Host::Any`]; if there is none their connection is closed.
pub fn https(model: &Model, settings: &Settings) -> listener_v3::Listener {
    let filters = proxy_protocol(settings).into_iter().chain([downstream_tls::inspector(settings)]);
    let listener = listener_v3::Listener {
        listener_filters: filters.collect(),
        ..over_tcp(names::HTTPS, &settings.listeners.https, settings)
    };
    with_chains(listener, model.https.iter(), &model.refused, Codec::Tcp, settings)
}

/// The listener for HTTP/3, if it is switched on and there is a host for it: the chains of the TLS listener over QUIC.
pub fn http3(model: &Model, settings: &Settings) -> Option<listener_v3::Listener> {
    if !settings.http.http3.enabled {
        return None;
    }
    let hosts = || model.https.iter().filter(|(_, tls)| downstream_tls::is_over_quic(tls));
    hosts().next()?;
    let mut listener =
        listener(names::HTTP3, &settings.listeners.https, core_v3::socket_address::Protocol::Udp, settings);
    listener.udp_listener_config = Some(listener_v3::UdpListenerConfig {
        quic_options: Some(listener_v3::QuicProtocolOptions::default()),
        ..Default::default()
    });
    Some(with_chains(listener, hosts(), &model.refused, Codec::Http3, settings))
}

/// `listener` with the chains of `hosts`, and the matcher that chooses among them.
fn with_chains<'a>(
    mut listener: listener_v3::Listener,
    hosts: impl Iterator<Item = (&'a Host, &'a TlsHost)>,
    refused: &BTreeSet<Host>,
    codec: Codec,
    settings: &Settings,
) -> listener_v3::Listener {
    let mut choice = Choice::default();
    let mut shared = BTreeMap::<Presented, String>::new();
    let mut own = Vec::new();
    for (host, tls) in hosts {
        let presented = Presented::from(tls);
        let own_chain = || {
            let name = names::https_routes(host);
            chain(name.clone(), manager(Routes::Rds(name), codec, settings), &presented, codec, settings)
        };
        match host {
            Host::Exact(server_name) => {
                choice.exact(server_name, shared.entry(presented).or_insert_with_key(names::shared_chain));
            }
            Host::Wildcard(suffix) => {
                let chain = own_chain();
                choice.below(suffix, &chain.name);
                own.push(chain);
            }
            Host::Any => listener.default_filter_chain = Some(own_chain()),
        }
    }
    for host in refused {
        if let Host::Exact(server_name) = host {
            // Envoy closes a connection whose chain does not exist.
            choice.exact(server_name, names::REFUSED);
        }
    }
    // All shared chains have the same connection manager.
    let manager = manager(Routes::ByServerName, codec, settings);
    let shared = shared.into_iter().map(|(presented, name)| chain(name, manager.clone(), &presented, codec, settings));
    listener.filter_chains = shared.chain(own).collect();
    listener.filter_chain_matcher = choice.matcher();
    listener
}

/// A listener on TCP with all that the settings say of its connections.
fn over_tcp(name: &str, at: &Listener, settings: &Settings) -> listener_v3::Listener {
    use listener_v3::listener::{ConnectionBalanceConfig, connection_balance_config};
    let Listeners { connection_balancer, max_connections_per_socket_event, .. } = settings.listeners;
    let exact = connection_balance_config::BalanceType::ExactBalance(connection_balance_config::ExactBalance {});
    listener_v3::Listener {
        connection_balance_config: match connection_balancer {
            ConnectionBalancer::Off => None,
            ConnectionBalancer::Exact => Some(ConnectionBalanceConfig { balance_type: Some(exact) }),
        },
        max_connections_to_accept_per_socket_event: max_connections_per_socket_event.map(wire::uint32),
        tcp_keepalive: Some(wire::tcp_keepalive()),
        ..listener(name, at, core_v3::socket_address::Protocol::Tcp, settings)
    }
}

/// What all listeners for clients share: where they listen, small buffers, marks on packets.
fn listener(
    name: &str,
    at: &Listener,
    protocol: core_v3::socket_address::Protocol,
    settings: &Settings,
) -> listener_v3::Listener {
    listener_v3::Listener {
        name: name.to_owned(),
        address: Some(address(at, protocol, settings)),
        per_connection_buffer_limit_bytes: Some(wire::uint32(settings.listeners.buffer_limit_bytes)),
        socket_options: socket_options(at, settings),
        ..Default::default()
    }
}

/// Where a listener listens: on all addresses of the host unless it has one of its own.
///
/// `::` with `ipv4_compat` is one socket for both families. It works where IPv6 is switched off by sysctl; on a kernel
/// without IPv6 at all Envoy refuses the address, and `listeners.ipv6` must be false.
pub(super) fn address(
    at: &Listener,
    protocol: core_v3::socket_address::Protocol,
    settings: &Settings,
) -> core_v3::Address {
    let every_address = if settings.listeners.ipv6 { "::" } else { "0.0.0.0" };
    wire::address_of(core_v3::SocketAddress {
        protocol: protocol as i32,
        address: at.address.map_or_else(|| every_address.to_owned(), |address| address.to_string()),
        ipv4_compat: settings.listeners.ipv6 && at.address.is_none(),
        port_specifier: Some(core_v3::socket_address::PortSpecifier::PortValue(at.port.into())),
        ..Default::default()
    })
}

/// Marks on the packets, for the families that the listener's socket has. They are set before it is bound, so that the
/// first packet of a connection bears them too.
fn socket_options(at: &Listener, settings: &Settings) -> Vec<core_v3::SocketOption> {
    // Source: Linux, include/uapi/linux/in.h and in6.h.
    const IPPROTO_IP: i64 = 0;
    const IP_TOS: i64 = 1;
    const IPPROTO_IPV6: i64 = 41;
    const IPV6_TCLASS: i64 = 67;
    let SocketOptions { tos, traffic_class } = settings.listeners.socket_options;
    let ipv4 = at.address.is_none_or(|address| address.is_ipv4());
    let ipv6 = at.address.map_or(settings.listeners.ipv6, |address| address.is_ipv6());
    let option = |description: &str, level, name, value: u8| core_v3::SocketOption {
        description: description.to_owned(),
        level,
        name,
        value: Some(core_v3::socket_option::Value::IntValue(value.into())),
        state: core_v3::socket_option::SocketState::StatePrebind as i32,
        ..Default::default()
    };
    let tos = tos.filter(|_| ipv4).map(|value| option("IP_TOS", IPPROTO_IP, IP_TOS, value));
    let class = traffic_class.filter(|_| ipv6).map(|value| option("IPV6_TCLASS", IPPROTO_IPV6, IPV6_TCLASS, value));
    tos.into_iter().chain(class).collect()
}

/// Reads the PROXY header, version 1 or 2, before anything else.
fn proxy_protocol(settings: &Settings) -> Option<listener_v3::ListenerFilter> {
    let optional = match settings.listeners.proxy_protocol {
        ProxyProtocol::Off => return None,
        ProxyProtocol::Required => false,
        ProxyProtocol::Optional => true,
    };
    let config =
        proxy_protocol_v3::ProxyProtocol { allow_requests_without_proxy_protocol: optional, ..Default::default() };
    Some(wire::listener_filter("envoy.filters.listener.proxy_protocol", &config))
}

fn manager(routes: Routes, codec: Codec, settings: &Settings) -> listener_v3::Filter {
    let log = access_log::access_log(&settings.access_log, &settings.access_log.https_file);
    hcm::http_connection_manager("ingress_https", routes, codec, log, settings)
}

fn chain(
    name: String,
    manager: listener_v3::Filter,
    presented: &Presented,
    codec: Codec,
    settings: &Settings,
) -> listener_v3::FilterChain {
    let transport_socket = match codec {
        Codec::Tcp => downstream_tls::over_tcp(presented, settings),
        Codec::Http3 => downstream_tls::over_quic(presented, settings),
    };
    listener_v3::FilterChain {
        filters: vec![manager],
        transport_socket: Some(transport_socket),
        name,
        ..Default::default()
    }
}

#[cfg(test)]
mod tests;
