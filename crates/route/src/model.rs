//! What is to be served, in plain ordered types: the one route model that every kind of source object translates to.
//!
//! It knows neither Kubernetes nor Envoy: no I/O, no kube, no protobuf. Ordered collections only, so that equal models
//! become equal bytes.

mod cluster;
mod ids;
mod listener;
mod touched;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use lockgate_xds::provenance::ObjectRef;

pub use cluster::{CircuitBreakers, Cluster, Discovery, TrafficPolicy, UpstreamProtocol};
pub use ids::{ClusterId, ObjectKey, PolicyId, PortRef, SecretId, SecretPart, ServicePortId};
pub use listener::{Bind, Connections, Datagrams, Listener, ListenerId, PlainHosts, RouteDiscovery, TlsHosts, Traffic};
pub use touched::Touched;

/// Everything that is to be served at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Model {
    /// The listeners for clients, by name.
    pub listeners: BTreeMap<ListenerId, Listener>,
    /// Clusters, each referenced by at least one route or listener.
    pub clusters: BTreeMap<ClusterId, Arc<Cluster>>,
    /// Endpoints of every Service port that a cluster with [`Discovery::Eds`] reaches; present even when empty. The
    /// clusters of a port share them.
    pub endpoints: BTreeMap<ServicePortId, Endpoints>,
    /// Key pairs and authorities, each referenced by at least one [`TlsHost`] or [`Cluster`], or by `stats_tls`.
    pub secrets: BTreeMap<SecretId, Secret>,
    /// How Envoy's statistics are served by TLS.
    pub stats_tls: Option<StatsTls>,
}

impl Model {
    /// The hosts of a listener for plain HTTP; `None` if there is no such listener.
    pub fn plain(&self, listener: &str) -> Option<&PlainHosts> {
        match &self.listeners.get(listener)?.traffic {
            Traffic::Http(hosts) => Some(hosts),
            _ => None,
        }
    }

    /// The hosts of a listener for HTTP over TLS; `None` if there is no such listener.
    pub fn tls(&self, listener: &str) -> Option<&TlsHosts> {
        match &self.listeners.get(listener)?.traffic {
            Traffic::Https(hosts) => Some(hosts),
            _ => None,
        }
    }

    /// The hosts of a listener for plain HTTP, to be changed.
    pub fn plain_mut(&mut self, listener: &str) -> Option<&mut PlainHosts> {
        match &mut self.listeners.get_mut(listener)?.traffic {
            Traffic::Http(hosts) => Some(hosts),
            _ => None,
        }
    }

    /// The hosts of a listener for HTTP over TLS, to be changed.
    pub fn tls_mut(&mut self, listener: &str) -> Option<&mut TlsHosts> {
        match &mut self.listeners.get_mut(listener)?.traffic {
            Traffic::Https(hosts) => Some(hosts),
            _ => None,
        }
    }
}

/// Which `Host` / `:authority` (or SNI) a thing is for. The order is the order in which Envoy prefers them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// One name, lower case: `shop.example.com`.
    Exact(Arc<str>),
    /// Exactly one label, then this suffix: `example.com` for `*.example.com`.
    Wildcard(Arc<str>),
    /// Every host.
    Any,
}

/// `shop.example.com`, `*.example.com` or `*`: as an Ingress rule and Envoy's `domains` write it.
impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Exact(name) => f.write_str(name),
            Host::Wildcard(suffix) => write!(f, "*.{suffix}"),
            Host::Any => f.write_str("*"),
        }
    }
}

/// The routes of one host, in the order in which they are tried.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct VirtualHost {
    /// Routes, first match wins; final order, nothing downstream sorts again.
    pub routes: Vec<Route>,
}

/// A server name behind TLS: its key pair, its TLS settings, its routes.
#[derive(Debug, Clone, PartialEq)]
pub struct TlsHost {
    /// The key pair presented, by identity in [`Model::secrets`].
    pub secret: SecretId,
    /// Lowest TLS version accepted.
    pub minimum: TlsVersion,
    /// Highest TLS version accepted.
    pub maximum: TlsVersion,
    /// Routes of this host; requests for another host on the connection are answered 421.
    pub virtual_host: VirtualHost,
    /// The objects that ask for TLS on this host.
    pub origins: Vec<ObjectRef>,
}

/// A TLS protocol version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.2, the lowest offered.
    V1_2,
    /// TLS 1.3.
    V1_3,
}

/// One route: what it takes and what it does.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// The path that it takes.
    pub path: PathMatch,
    /// Also taken only if `:authority` is one label before the virtual host's wildcard suffix. Set on all routes of a
    /// wildcard virtual host except the default backend's, which also takes names of several labels.
    pub one_label_host: bool,
    /// What happens to a request.
    pub action: Action,
    /// The object and the field that asked for it.
    pub origin: ObjectRef,
}

/// How a path is matched. The order of routes is decided by `translate`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathMatch {
    /// The whole path, byte for byte.
    Exact(String),
    /// RE2, matched against the whole path.
    Regex(String),
    /// Whole path elements; no trailing slash, never empty, never `/` (that is `Prefix("/")`).
    SeparatedPrefix(String),
    /// A string prefix.
    Prefix(String),
}

/// What happens to a request that a route took.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Sent to a cluster, chosen by weight.
    Forward(Forward),
    /// Answered with a redirect to the same URL on `https`.
    RedirectToHttps {
        /// 301, 302, 303, 307 or 308.
        status: u16,
        /// The port in the new location if it is not 443.
        port: Option<u16>,
    },
    /// Answered 403 by Envoy itself: access is restricted in a way that is not enforced.
    Deny {
        /// The body.
        reason: Arc<str>,
    },
    /// Answered by Envoy itself: 404 where nothing is configured, 503 for a route whose backend cannot be built.
    Respond {
        /// HTTP status.
        status: u16,
    },
}

/// How a request is forwarded.
#[derive(Debug, Clone, PartialEq)]
pub struct Forward {
    /// Where to, at least one; the weights need not add up to anything.
    pub clusters: Vec<WeightedCluster>,
    /// The whole response must be there in this time; `None` means no limit.
    pub timeout: Option<Duration>,
    /// When a request is tried again.
    pub retry: Option<Box<Retry>>,
    /// Whether `Upgrade: websocket` is passed on.
    pub websocket: bool,
}

/// A cluster and its share of the requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightedCluster {
    /// By identity in [`Model::clusters`].
    pub cluster: ClusterId,
    /// Share relative to the other weights; all 0 is never built.
    pub weight: u32,
}

/// A retry policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Envoy's retry conditions, e.g. `5xx,connect-failure`.
    pub on: String,
    /// How often at the most, beyond the first try.
    pub retries: u32,
    /// Limit of each try; `None` means the route's timeout.
    pub per_try_timeout: Option<Duration>,
}

/// The endpoints of one Service port, grouped by zone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Endpoints {
    /// By zone, sorted; `""` where none is known.
    pub zones: Vec<(Arc<str>, Vec<Endpoint>)>,
    /// The EndpointSlices and the Service that they come from, sorted.
    pub origins: Vec<ObjectRef>,
}

/// One address that serves a Service port. The order makes lists deterministic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// The address.
    pub address: IpAddr,
    /// The port.
    pub port: u16,
    /// Whether it takes new requests.
    pub health: Health,
}

/// Whether an endpoint takes new requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// Takes requests.
    Healthy,
    /// Takes no new connections; requests under way and sticky sessions go on.
    Draining,
}

/// A key pair, checked: the key matches the leaf certificate.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyPair {
    /// The chain, leaf first, PEM.
    pub certificate_chain: Vec<u8>,
    /// The private key, PEM.
    pub private_key: Vec<u8>,
    /// The names that the leaf certificate covers, lower case: DNS SANs, else its common name.
    pub names: Vec<String>,
    /// Not valid after this time, in seconds since the Unix epoch.
    pub not_after: i64,
    /// Whether the key is an Ed25519 key, which Envoy serves over TCP and not over QUIC.
    pub is_ed25519: bool,
}

/// Never shows the private key.
impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPair")
            .field("names", &self.names)
            .field("not_after", &self.not_after)
            .finish_non_exhaustive()
    }
}

/// How statistics are served by TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatsTls {
    /// The key pair presented, by identity in [`Model::secrets`].
    pub secret: SecretId,
    /// The authorities of which clients must show a certificate, by identity in [`Model::secrets`]; `None` asks for none.
    pub clients: Option<SecretId>,
}

/// What TLS needs, and the object that it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct Secret {
    /// What it is.
    pub material: Material,
    /// The Secret object.
    pub origin: ObjectRef,
}

/// What a secret is.
#[derive(Debug, Clone, PartialEq)]
pub enum Material {
    /// What a server or a client shows.
    Pair(Arc<KeyPair>),
    /// What certificates of others are verified by: certificate authorities, PEM.
    Authorities(Arc<str>),
}
