//! Listeners: addresses, and the traffic that each address accepts.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::{ClientValidation, ClusterId, Host, SecretId, TlsHost, TlsVersion, VirtualHostRoutes, WeightedCluster};

/// The name of a listener, unique in a model and in an Envoy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(Arc<str>);

impl ListenerId {
    /// The listener for plain HTTP that all Ingresses share.
    pub const HTTP: &str = "http";
    /// The listener for HTTP over TLS that all Ingresses share.
    pub const HTTPS: &str = "https";
    /// The listener for HTTP/3 that all Ingresses share.
    pub const HTTP3: &str = "http3";

    /// The listener of this name.
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name, shared.
    pub fn name(&self) -> &Arc<str> {
        &self.0
    }
}

impl Borrow<str> for ListenerId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ListenerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A listener: an address, and the traffic that is accepted there.
#[derive(Debug, Clone, PartialEq)]
pub struct Listener {
    /// The address.
    pub bind: Bind,
    /// The accepted traffic and its destinations.
    pub traffic: Traffic,
}

/// The address of a listener.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bind {
    /// The address; `None` is every address.
    pub address: Option<IpAddr>,
    /// The port.
    pub port: u16,
}

/// The traffic that a listener accepts, and its destinations.
#[derive(Debug, Clone, PartialEq)]
pub enum Traffic {
    /// HTTP in plain text.
    Http(PlainHosts),
    /// HTTP over TLS, and over QUIC.
    Https(TlsHosts),
    /// TLS connections, forwarded by server name (SNI). Connections for other server names are closed.
    Tls(BTreeMap<Host, TlsConnections>),
    /// TCP connections.
    Tcp(Destination),
    /// UDP datagrams.
    Udp(Destination),
}

/// The hosts of a listener for plain HTTP.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PlainHosts {
    /// The hosts.
    pub hosts: BTreeMap<Host, VirtualHostRoutes>,
    /// The form in which Envoys receive the routes.
    pub discovery: RouteDiscovery,
}

/// The form in which Envoys receive the routes of a listener for plain HTTP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RouteDiscovery {
    /// VHDS if the client supports it, otherwise RDS.
    #[default]
    ByHost,
    /// By SRDS, in a scope for each exact host.
    Scopes,
}

/// The server names of a listener for HTTP over TLS. Without any, the listener does not exist.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TlsHosts {
    /// The hosts by server name (SNI). The most specific server name is selected for a connection. [`Host::Any`] is
    /// selected for clients without a known server name, and answers 404 if it has no routes.
    pub hosts: BTreeMap<Host, TlsHost>,
    /// Server names whose connections are forwarded, decrypted or not. They compete with the hosts: the most specific server name is
    /// selected. None is also a host.
    pub connections: BTreeMap<Host, TlsConnections>,
    /// Server names whose connections are closed: no certificate may be presented for them, and otherwise a wildcard
    /// above them would be selected.
    pub refused: BTreeSet<Host>,
    /// The listener that serves plain HTTP for the same users. The routes of [`Host::Any`] answer 404 for its hosts.
    pub plain: Option<ListenerId>,
    /// The listener for HTTP/3, on the same port.
    pub http3: Option<ListenerId>,
}

/// The TLS connections for a server name.
#[derive(Debug, Clone, PartialEq)]
pub struct TlsConnections {
    /// The termination of TLS. `None`: backends receive the encrypted bytes (TLS passthrough).
    pub terminated: Option<Termination>,
    /// The destination.
    pub to: Destination,
}

impl TlsConnections {
    /// Returns the clusters of the destination.
    pub fn clusters(&self) -> impl Iterator<Item = &ClusterId> {
        self.to.clusters.iter().map(|one| &one.cluster)
    }

    /// Returns the key pairs and the authorities that validate clients, if TLS is terminated.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretId> {
        self.terminated.iter().flat_map(Termination::all_secrets)
    }
}

/// The termination of TLS connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Termination {
    /// The key pairs, by their identities in [`Model::secrets`](super::Model::secrets): at least one, each once.
    pub secrets: Vec<SecretId>,
    /// Lowest TLS version accepted.
    pub minimum: TlsVersion,
    /// Highest TLS version accepted.
    pub maximum: TlsVersion,
    /// The validation of client certificates. `None`: no certificate is requested.
    pub clients: Option<ClientValidation>,
}

impl Termination {
    /// Returns the secrets: its key pairs, and the authorities that validate clients.
    pub fn all_secrets(&self) -> impl Iterator<Item = &SecretId> {
        self.secrets.iter().chain(self.clients.as_ref().and_then(|clients| clients.authorities.as_ref()))
    }
}

/// The destination of connections, or of datagrams.
#[derive(Debug, Clone, PartialEq)]
pub struct Destination {
    /// The clusters, chosen by weight for each connection. The datagrams of one client address go to the same cluster.
    pub clusters: Vec<WeightedCluster>,
    /// The weight of connections that are closed, and of datagrams that are dropped. Without clusters, all are refused.
    pub refused: u32,
    /// The object that declares it.
    pub origin: ObjectRef,
}

impl Destination {
    /// A destination that refuses everything.
    pub fn refusing(origin: ObjectRef) -> Self {
        Self { clusters: Vec::new(), refused: 0, origin }
    }
}

impl Listener {
    /// A listener for plain HTTP without hosts.
    pub fn http(bind: Bind, discovery: RouteDiscovery) -> Self {
        Self { bind, traffic: Traffic::Http(PlainHosts { discovery, ..PlainHosts::default() }) }
    }

    /// A listener for HTTP over TLS without hosts.
    pub fn https(bind: Bind, plain: Option<ListenerId>, http3: Option<ListenerId>) -> Self {
        Self { bind, traffic: Traffic::Https(TlsHosts { plain, http3, ..TlsHosts::default() }) }
    }
}
