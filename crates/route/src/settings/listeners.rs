//! Settings of Envoy's listeners.

use std::net::Ipv4Addr;

use crate::model::Bind;

/// Envoy's listeners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listeners {
    /// Plain HTTP.
    pub http: Bind,
    /// HTTPS, and HTTP/3 on the same UDP port.
    pub https: Bind,
    /// Serves `/ready` and `/stats`. Port 0 disables it.
    pub stats: Bind,
    /// Serves `/stats` over TLS instead of the `stats` listener.
    pub stats_tls: StatsTlsSettings,
    /// Serves `/ready` for the kubelet alone, apart from scrapers. Port 0 disables it.
    pub readiness: Bind,
    /// Serves `/ready` unless Envoy is overloaded. Port 0 disables it.
    pub overload_probe: Bind,
    /// Serves the read-only pages of Envoy's admin interface. Port 0 disables it.
    pub admin: Bind,
    /// Whether listeners without an address accept IPv6 too. It must be false on nodes whose kernel has no IPv6, where
    /// Envoy rejects the address.
    pub ipv6: bool,
    /// Whether connections start with a PROXY header (version 1 or 2). It does not apply to the listener for
    /// statistics.
    pub proxy_protocol: ProxyProtocolMode,
    /// The distribution of connections to Envoy's workers.
    pub connection_balancer: ConnectionBalancer,
    /// The size of the buffers of a connection, in bytes. Source: Envoy, "Configuring Envoy as an edge proxy".
    pub buffer_limit_bytes: u32,
    /// The maximum number of open connections of each listener. `None` sets no limit.
    pub max_connections: Option<u32>,
    /// The maximum number of connections accepted at once. `None` is Envoy's default.
    pub max_connections_per_socket_event: Option<u32>,
    /// Packet marks.
    pub socket_options: SocketOptions,
}

impl Default for Listeners {
    fn default() -> Self {
        let every_address = |port| Bind { address: None, port };
        Self {
            http: every_address(8080),
            https: every_address(8443),
            stats: every_address(8002),
            stats_tls: StatsTlsSettings { at: every_address(0), secret: None, client_ca: None },
            readiness: every_address(0),
            overload_probe: every_address(0),
            // Loopback only, because the pages reveal Envoy's complete configuration.
            admin: Bind { address: Some(Ipv4Addr::LOCALHOST.into()), port: 0 },
            ipv6: true,
            proxy_protocol: ProxyProtocolMode::Off,
            connection_balancer: ConnectionBalancer::Off,
            buffer_limit_bytes: 32 * 1024,
            max_connections: None,
            max_connections_per_socket_event: None,
            socket_options: SocketOptions::default(),
        }
    }
}

/// Statistics over TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatsTlsSettings {
    /// The address. Port 0 disables the listener.
    pub at: Bind,
    /// Namespace and name of the Secret with the server's key pair.
    pub secret: Option<(String, String)>,
    /// Namespace and name of the Secret whose `ca.crt` contains the client authorities. `None` accepts clients without
    /// a certificate.
    pub client_ca: Option<(String, String)>,
}

/// Whether connections start with a PROXY header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyProtocolMode {
    /// No connection does.
    Off,
    /// All connections do; others are closed.
    Required,
    /// Some connections do. This is safe only for listeners that only trusted proxies can reach.
    Optional,
}

/// The distribution of connections to Envoy's workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionBalancer {
    /// The kernel distributes connections.
    Off,
    /// A connection goes to the worker with the fewest connections. Suitable for few long connections.
    Exact,
}

/// Packet marks for client connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// `IP_TOS`, for IPv4.
    pub tos: Option<u8>,
    /// `IPV6_TCLASS`, for IPv6.
    pub traffic_class: Option<u8>,
}
