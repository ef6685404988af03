//! What is to be served, in plain ordered types: the one route model that every kind of source object translates to.
//!
//! It knows neither Kubernetes nor Envoy: no I/O, no kube, no protobuf. Ordered collections only, so that equal models
//! become equal bytes.

mod cluster;
mod filter;
mod header;
mod ids;
mod listener;
mod matches;
mod route;
mod touched;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

pub use cluster::{CircuitBreakers, Cluster, Discovery, TrafficPolicy, UpstreamProtocol};
pub use filter::{
    ClusterFilter, Cors, Filters, ForwardFilter, Mirror, OriginMatch, PathRewrite, Rewrite, RouteFilter, Share,
};
pub use header::{HeaderChange, HeaderName, HeaderValue};
pub use ids::{ClusterId, ObjectKey, PolicyId, PortRef, SecretId, SecretPart, ServicePortId};
pub use listener::{Bind, Connections, Datagrams, Listener, ListenerId, PlainHosts, RouteDiscovery, TlsHosts, Traffic};
pub use matches::{Conditions, HeaderMatch, Match, PathMatch, QueryMatch, ValueMatch};
pub use route::{
    Action, CommonEnds, Forward, Redirect, RedirectStatus, Retry, Route, Scheme, VirtualHost, WeightedCluster,
};
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
