//! The part that all listeners for clients share: their address, their connection settings, and the PROXY header.

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::listener::v3 as listener_v3;
use envoy_types::pb::envoy::extensions::filters::listener::proxy_protocol::v3 as proxy_protocol_v3;

use super::wire;
use crate::model::{Bind, ListenerId};
use crate::settings::{ConnectionBalancer, Listeners, ProxyProtocolMode, Settings, SocketOptions};

/// Builds a listener on TCP with the connection settings.
pub fn over_tcp(id: &ListenerId, bind: &Bind, settings: &Settings) -> listener_v3::Listener {
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
pub fn listener(
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
pub fn address(bind: &Bind, protocol: core_v3::socket_address::Protocol, settings: &Settings) -> core_v3::Address {
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
pub fn proxy_protocol(settings: &Settings) -> Option<listener_v3::ListenerFilter> {
    let optional = match settings.listeners.proxy_protocol {
        ProxyProtocolMode::Off => return None,
        ProxyProtocolMode::Required => false,
        ProxyProtocolMode::Optional => true,
    };
    let config =
        proxy_protocol_v3::ProxyProtocol { allow_requests_without_proxy_protocol: optional, ..Default::default() };
    Some(wire::listener_filter("envoy.filters.listener.proxy_protocol", &config))
}
