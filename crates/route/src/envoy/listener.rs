//! Listeners for clients: plain text, TLS, HTTP/3.

use std::collections::BTreeMap;

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::listener::v3 as listener_v3;
use envoy_types::pb::envoy::extensions::filters::listener::proxy_protocol::v3 as proxy_protocol_v3;
use lockgate_xds::snapshot::Resource;

use super::hcm::{self, Codec, RouteFilters, Routes};
use super::server_names::Choice;
use super::tls_listener::{Presented, TlsListener};
use super::{access_log, downstream_tls, names, wire};
use crate::model::{Bind, Host, ListenerId, RouteDiscovery};
use crate::settings::{ConnectionBalancer, Listeners, ProxyProtocol, Settings, SocketOptions};

/// The resources of a listener for HTTP over TLS, without its routes.
#[derive(Debug, Default)]
pub struct TlsListeners {
    /// The Envoy listeners: over TCP, and over QUIC. Without hosts, there are none.
    pub listeners: Vec<(ListenerId, Resource)>,
    /// The connection manager of the chains that exact hosts share over TCP. Envoy reads all chains for every change of the
    /// listener, and a chain with this reference takes an eighth of the time.
    pub manager: Option<Resource>,
}

/// Builds the resources of a listener for HTTP over TLS.
pub fn tls_listeners(listener: &TlsListener, filters: RouteFilters, settings: &Settings) -> TlsListeners {
    let hosts = &listener.tls.hosts;
    if hosts.is_empty() {
        return TlsListeners::default();
    }
    // Generations are left out: an edit that does not change the listener must not create a new version.
    let origins = hosts.values().flat_map(|host| host.origins.iter().cloned().map(|origin| origin.at(0)));
    let origins: Vec<_> = origins.collect();
    let manager = hcm::shared(listener.id, shared_manager(listener.id, Codec::Tcp, filters, settings));
    let tcp = [(listener.id.clone(), https(listener, &hcm::discovered(manager.name()), filters, settings))];
    let all = tcp.into_iter().chain(http3(listener, filters, settings));
    let listeners = all.map(|(id, message)| (id.clone(), Resource::new(id.as_str(), &message, origins.clone())));
    let is_shared = hosts.keys().any(|host| matches!(host, Host::Exact(_)));
    TlsListeners { listeners: listeners.collect(), manager: is_shared.then_some(manager) }
}

/// Builds a listener for plain HTTP, with one filter chain. `discovery` determines the source of the routes.
pub fn http(
    id: &ListenerId,
    bind: &Bind,
    discovery: RouteDiscovery,
    filters: RouteFilters,
    settings: &Settings,
) -> listener_v3::Listener {
    let routes = match discovery {
        RouteDiscovery::ByHost => Routes::Rds(id.to_string()),
        RouteDiscovery::Scopes => Routes::ByHost(id.clone()),
    };
    let log = access_log::access_log(&settings.access_log, &settings.access_log.http_file);
    let manager = hcm::http_connection_manager(&names::stat_prefix(id), routes, Codec::Tcp, log, filters, settings);
    listener_v3::Listener {
        listener_filters: proxy_protocol(settings).into_iter().collect(),
        filter_chains: vec![listener_v3::FilterChain { filters: vec![manager], ..Default::default() }],
        ..over_tcp(id, bind, settings)
    }
}

/// Builds a listener for HTTP over TLS, with the filter chains that [`chains`](super::chains) describes. `shared` is the
/// filter of the chains that hosts share.
///
/// Clients without a known server name use the chain of [`Host::Any`]. Without it, their connection is closed.
pub fn https(
    at: &TlsListener,
    shared: &listener_v3::Filter,
    filters: RouteFilters,
    settings: &Settings,
) -> listener_v3::Listener {
    let listener_filters = proxy_protocol(settings).into_iter().chain([downstream_tls::inspector(settings)]);
    let listener =
        listener_v3::Listener { listener_filters: listener_filters.collect(), ..over_tcp(at.id, at.bind, settings) };
    with_chains(listener, at, shared, Codec::Tcp, filters, settings)
}

/// Builds the listener for HTTP/3 with the chains of `at` over QUIC, if HTTP/3 is enabled and a host supports it.
pub fn http3(
    at: &TlsListener,
    filters: RouteFilters,
    settings: &Settings,
) -> Option<(ListenerId, listener_v3::Listener)> {
    let id = at.tls.http3.clone()?;
    at.tls.hosts.values().find(|tls| downstream_tls::is_over_quic(tls))?;
    let mut listener = listener(&id, at.bind, core_v3::socket_address::Protocol::Udp, settings);
    listener.udp_listener_config = Some(listener_v3::UdpListenerConfig {
        quic_options: Some(listener_v3::QuicProtocolOptions::default()),
        ..Default::default()
    });
    let shared = shared_manager(at.id, Codec::Http3, filters, settings);
    Some((id, with_chains(listener, at, &shared, Codec::Http3, filters, settings)))
}

/// Adds the filter chains of the hosts of `at` to `listener`, and the matcher that selects a chain.
fn with_chains(
    mut listener: listener_v3::Listener,
    at: &TlsListener,
    manager_of_shared: &listener_v3::Filter,
    codec: Codec,
    filters: RouteFilters,
    settings: &Settings,
) -> listener_v3::Listener {
    let mut choice = Choice::default();
    let mut shared = BTreeMap::<Presented, Vec<&str>>::new();
    let mut own = Vec::new();
    let hosts = at.tls.hosts.iter();
    for (host, tls) in hosts.filter(|(_, tls)| codec == Codec::Tcp || downstream_tls::is_over_quic(tls)) {
        let presented = Presented::from(tls);
        let own_chain = || {
            let name = names::tls_routes(at.id, host);
            let manager = manager(at.id, Routes::Rds(name.clone()), codec, filters, settings);
            chain(name, manager, &presented, codec, settings)
        };
        match host {
            Host::Exact(server_name) => shared.entry(presented).or_default().push(server_name),
            Host::Wildcard(suffix) => {
                let chain = own_chain();
                choice.below(suffix, &chain.name);
                own.push(chain);
            }
            Host::Any => listener.default_filter_chain = Some(own_chain()),
        }
    }
    for host in &at.tls.refused {
        // Envoy closes a connection if the selected chain does not exist.
        match host {
            Host::Exact(server_name) => choice.exact([&**server_name], names::REFUSED),
            Host::Wildcard(suffix) => choice.below(suffix, names::REFUSED),
            Host::Any => {}
        }
    }
    let shared = shared.into_iter().map(|(presented, server_names)| {
        let name = names::shared_chain(at.id, &presented);
        choice.exact(server_names, &name);
        chain(name, manager_of_shared.clone(), &presented, codec, settings)
    });
    listener.filter_chains = shared.chain(own).collect();
    listener.filter_chain_matcher = choice.matcher();
    listener
}

/// Builds a listener on TCP with the connection settings.
pub(super) fn over_tcp(id: &ListenerId, bind: &Bind, settings: &Settings) -> listener_v3::Listener {
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
        ..listener(id, bind, core_v3::socket_address::Protocol::Tcp, settings)
    }
}

/// Builds the common part of all listeners for clients: address, small buffers, packet marks.
pub(super) fn listener(
    id: &ListenerId,
    bind: &Bind,
    protocol: core_v3::socket_address::Protocol,
    settings: &Settings,
) -> listener_v3::Listener {
    listener_v3::Listener {
        name: id.to_string(),
        address: Some(address(bind, protocol, settings)),
        per_connection_buffer_limit_bytes: Some(wire::uint32(settings.listeners.buffer_limit_bytes)),
        socket_options: socket_options(bind, settings),
        ..Default::default()
    }
}

/// Builds the address of a listener: all addresses of the machine, unless `bind` has an address.
///
/// `::` with `ipv4_compat` is one socket for both families. It works if IPv6 is disabled by sysctl. On a kernel without
/// IPv6, Envoy rejects the address, and `listeners.ipv6` must be false.
pub(super) fn address(
    bind: &Bind,
    protocol: core_v3::socket_address::Protocol,
    settings: &Settings,
) -> core_v3::Address {
    let every_address = if settings.listeners.ipv6 { "::" } else { "0.0.0.0" };
    wire::address_of(core_v3::SocketAddress {
        protocol: protocol as i32,
        address: bind.address.map_or_else(|| every_address.to_owned(), |address| address.to_string()),
        ipv4_compat: settings.listeners.ipv6 && bind.address.is_none(),
        port_specifier: Some(core_v3::socket_address::PortSpecifier::PortValue(bind.port.into())),
        ..Default::default()
    })
}

/// Builds the packet marks for the address families of the listener's socket. They are set before the socket is bound,
/// so that they apply to the first packet of a connection too.
fn socket_options(bind: &Bind, settings: &Settings) -> Vec<core_v3::SocketOption> {
    // Source: Linux, include/uapi/linux/in.h and in6.h.
    const IPPROTO_IP: i64 = 0;
    const IP_TOS: i64 = 1;
    const IPPROTO_IPV6: i64 = 41;
    const IPV6_TCLASS: i64 = 67;
    let SocketOptions { tos, traffic_class } = settings.listeners.socket_options;
    let ipv4 = bind.address.is_none_or(|address| address.is_ipv4());
    let ipv6 = bind.address.map_or(settings.listeners.ipv6, |address| address.is_ipv6());
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

/// Builds the listener filter that reads the PROXY header, version 1 or 2, before all other bytes.
pub(super) fn proxy_protocol(settings: &Settings) -> Option<listener_v3::ListenerFilter> {
    let optional = match settings.listeners.proxy_protocol {
        ProxyProtocol::Off => return None,
        ProxyProtocol::Required => false,
        ProxyProtocol::Optional => true,
    };
    let config =
        proxy_protocol_v3::ProxyProtocol { allow_requests_without_proxy_protocol: optional, ..Default::default() };
    Some(wire::listener_filter("envoy.filters.listener.proxy_protocol", &config))
}

/// Builds the connection manager of the chains that hosts share.
fn shared_manager(id: &ListenerId, codec: Codec, filters: RouteFilters, settings: &Settings) -> listener_v3::Filter {
    manager(id, Routes::ByServerName(id.clone()), codec, filters, settings)
}

fn manager(
    id: &ListenerId,
    routes: Routes,
    codec: Codec,
    filters: RouteFilters,
    settings: &Settings,
) -> listener_v3::Filter {
    let log = access_log::access_log(&settings.access_log, &settings.access_log.https_file);
    hcm::http_connection_manager(&names::stat_prefix(id), routes, codec, log, filters, settings)
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
