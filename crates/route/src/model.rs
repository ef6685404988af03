//! The route model: the served configuration in plain ordered types. Every kind of source object translates to it.
//!
//! It knows neither Kubernetes nor Envoy: no I/O, no kube, no protobuf. All collections are ordered, so that equal
//! models give equal bytes.

mod authentication;
mod authorization;
mod backend;
mod client_addresses;
mod cluster;
mod cookies;
mod error_response;
mod fault;
mod filter;
mod header;
mod header_format;
mod ids;
mod jwt;
mod listener;
mod load_balancing;
mod matches;
mod part;
mod policy;
mod processing;
mod rate_limit;
mod route;
mod session;
mod tls;
mod touched;
mod verification;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

pub use authentication::{ApiKeys, BasicAuthentication, Confidential, Csrf, KeySource, Oidc, OriginHost};
pub use authorization::{
    Authorization, AuthorizationCheck, AuthorizationHttp, AuthorizationProtocol, HeaderPattern, RequestBody,
    SettingsAuthorization,
};
pub use backend::{
    BackendFeatures, HealthCheck, Http3, OutlierDetection, Probe, ProbeMethod, ProxyProtocol, RetryBudget, SuccessRate,
    TcpKeepalive, ZonePreference,
};
pub use client_addresses::{AddressRange, ClientAddresses, ClientRange};
pub use cluster::{CircuitBreakers, Cluster, Discovery, TrafficPolicy, UpstreamProtocol};
pub use cookies::{CookieAttribute, CookieRewrite, CookieRewrites, SameSite};
pub use error_response::ErrorResponse;
pub use fault::Faults;
pub use filter::{
    ClusterFilter, Cors, Filters, ForwardFilter, HostRewrite, InternalRedirects, Mirror, OriginMatch, PathRewrite,
    PolicyRewrite, RegexRewrite, Rewrite, RouteFilter, SchemeChange, Share,
};
pub use header::{FRAMING, HeaderChange, HeaderName, HeaderValue, LOOP, is_of_host};
pub use header_format::HeaderFormat;
pub use ids::{ClusterId, ObjectKey, PolicyId, PortRef, SecretId, SecretPart, SecretSource, ServicePortId};
pub use jwt::{Jwks, Jwt, JwtIssuer, RemoteJwks};
pub use listener::{
    Bind, Destination, Listener, ListenerId, PlainHosts, RouteDiscovery, Termination, TlsConnections, TlsHosts, Traffic,
};
pub use load_balancing::{Algorithm, HashOn, HashPart, LoadBalancing, SlowStart};
pub use matches::{Conditions, HeaderMatch, Match, PathMatch, QueryMatch, ValueMatch, ValuePart};
pub use part::Part;
pub use policy::{
    CompressionAlgorithm, GrpcJson, LimitAnswer, LocalRateLimit, ResponseLimit, RoutePolicy, TimeLimits, WasmModule,
};
pub use processing::{Processed, ProcessedBody, Processing};
pub use rate_limit::{EntryHeader, GlobalRateLimit, HeaderCondition, RateLimitEntry};
pub use route::{
    Action, CommonEnds, Forward, OwnParts, Redirect, RedirectStatus, Retry, Route, Scheme, VirtualHostRoutes,
    WeightedCluster,
};
pub use session::{CookieName, Session, SessionCookie};
pub use tls::{Others, ServedHosts, TlsHost, TlsVersion};
pub use touched::Touched;
pub use verification::{Authorities, ClientValidation, ForwardedParts, PeerName, Verification};

/// The complete configuration that is served at one time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Model {
    /// The listeners for clients, by name.
    pub listeners: BTreeMap<ListenerId, Listener>,
    /// Clusters, each referenced by at least one route or listener.
    pub clusters: BTreeMap<ClusterId, Arc<Cluster>>,
    /// The endpoints of every Service port that a cluster with [`Discovery::Eds`] reaches, even if there are none. The
    /// clusters of a port share them.
    pub endpoints: BTreeMap<ServicePortId, Endpoints>,
    /// Key pairs and authorities, each referenced by at least one [`TlsHost`], [`TlsHosts`], [`Termination`], or
    /// [`Cluster`], or by `stats_tls`.
    pub secrets: BTreeMap<SecretId, SdsSecret>,
    /// The TLS configuration of the listener for statistics.
    pub stats_tls: Option<StatsTls>,
    /// A number that no other installation has. A request with this mark has already passed an Envoy of this installation. `None`
    /// outside of a Kubernetes cluster.
    pub installation: Option<u64>,
}

impl Model {
    /// Returns the hosts of a listener for plain HTTP. Returns `None` if there is no such listener.
    pub fn plain(&self, listener: &str) -> Option<&PlainHosts> {
        match &self.listeners.get(listener)?.traffic {
            Traffic::Http(hosts) => Some(hosts),
            _ => None,
        }
    }

    /// Returns the hosts of a listener for HTTP over TLS. Returns `None` if there is no such listener.
    pub fn tls(&self, listener: &str) -> Option<&TlsHosts> {
        match &self.listeners.get(listener)?.traffic {
            Traffic::Https(hosts) => Some(hosts),
            _ => None,
        }
    }

    /// Returns the mutable hosts of a listener for plain HTTP.
    pub fn plain_mut(&mut self, listener: &str) -> Option<&mut PlainHosts> {
        match &mut self.listeners.get_mut(listener)?.traffic {
            Traffic::Http(hosts) => Some(hosts),
            _ => None,
        }
    }

    /// Returns the mutable hosts of a listener for HTTP over TLS.
    pub fn tls_mut(&mut self, listener: &str) -> Option<&mut TlsHosts> {
        match &mut self.listeners.get_mut(listener)?.traffic {
            Traffic::Https(hosts) => Some(hosts),
            _ => None,
        }
    }
}

/// A pattern of `Host`, `:authority`, or SNI. The order is Envoy's order of preference.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// One name in lower case: `shop.example.com`.
    Exact(Arc<str>),
    /// At least one label before this suffix: `example.com` for `*.example.com`. The routes of an Ingress are for
    /// exactly one label (see [`VirtualHostRoutes::one_label`]).
    Wildcard(Arc<str>),
    /// Every host.
    Any,
}

/// Displays `shop.example.com`, `*.example.com`, or `*`, as in an Ingress rule and in Envoy's `domains`.
impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Exact(name) => f.write_str(name),
            Host::Wildcard(suffix) => write!(f, "*.{suffix}"),
            Host::Any => f.write_str("*"),
        }
    }
}

/// The endpoints of one Service port, grouped by zone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Endpoints {
    /// The endpoints by zone, sorted. `""` is the zone of endpoints without a known zone.
    pub zones: Vec<(Arc<str>, Vec<Endpoint>)>,
    /// The port at which the endpoints are checked, if it differs from their own.
    pub health_check_port: Option<u16>,
    /// The EndpointSlices and the Service of these endpoints, sorted.
    pub origins: Vec<ObjectRef>,
}

/// One address of a Service port. The order makes lists deterministic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// The address.
    pub address: IpAddr,
    /// The port.
    pub port: u16,
    /// Whether the endpoint accepts new requests.
    pub health: Health,
}

/// Whether an endpoint accepts new requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// Accepts requests.
    Healthy,
    /// Accepts no new connections. Current requests and sticky sessions continue.
    Draining,
}

/// A validated key pair: the key matches the leaf certificate.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyPair {
    /// The certificate chain in PEM, leaf first.
    pub certificate_chain: Vec<u8>,
    /// The private key in PEM.
    pub private_key: Vec<u8>,
    /// The names of the leaf certificate in lower case: its DNS SANs, or its common name if there are none.
    pub names: CertificateNames,
    /// The end of the validity, in seconds since the Unix epoch.
    pub not_after: i64,
    /// Whether the key is an Ed25519 key. Envoy supports these over TCP but not over QUIC.
    pub is_ed25519: bool,
}

/// The names of a certificate, sorted. A certificate of a tenant can have tens of thousands of names, and cover as many hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CertificateNames(Box<[String]>);

impl From<Vec<String>> for CertificateNames {
    fn from(mut names: Vec<String>) -> Self {
        names.sort();
        names.dedup();
        Self(names.into())
    }
}

impl CertificateNames {
    /// Returns the names, sorted.
    pub fn as_slice(&self) -> &[String] {
        &self.0
    }

    /// Returns whether the certificate has exactly this name.
    pub fn contains(&self, name: &str) -> bool {
        self.0.binary_search_by(|other| other.as_str().cmp(name)).is_ok()
    }
}

impl KeyPair {
    /// Returns the size that counts toward limits, in bytes: a multiple of 4 KiB, because a renewed certificate has a slightly different
    /// size, which must not affect hosts and routes.
    pub fn size(&self) -> u64 {
        const UNIT: u64 = 4 << 10;
        ((self.certificate_chain.len() + self.private_key.len()) as u64).next_multiple_of(UNIT)
    }
}

/// Redacts the private key.
impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPair")
            .field("names", &self.names.as_slice())
            .field("not_after", &self.not_after)
            .finish_non_exhaustive()
    }
}

/// The TLS configuration of the listener for statistics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatsTls {
    /// The presented key pair, by its identity in [`Model::secrets`].
    pub secret: SecretId,
    /// The authorities that verify client certificates, by identity in [`Model::secrets`]. `None` requires no
    /// certificate.
    pub clients: Option<SecretId>,
}

/// A secret that Envoys receive by SDS: the content of a Secret or of ConfigMaps, and its origin.
#[derive(Debug, Clone, PartialEq)]
pub struct SdsSecret {
    /// The content.
    pub material: Material,
    /// The Secret, or the first of the ConfigMaps.
    pub origin: ObjectRef,
}

/// The content of a secret.
#[derive(Debug, Clone, PartialEq)]
pub enum Material {
    /// The key pair of a server or a client.
    Pair(Arc<KeyPair>),
    /// The certificate authorities that verify peers, in PEM.
    Authorities(Arc<str>),
    /// The certificate authorities that verify clients, and their revocation lists, in PEM.
    Revoking(Revoking),
    /// A text, such as the secret of an application at an OpenID provider.
    Text(Confidential),
}

/// Certificate authorities with revocation lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revoking {
    /// The certificate authorities, in PEM.
    pub authorities: Arc<str>,
    /// The revocation lists, in PEM. Without one for an authority, its certificates are not valid.
    pub revocations: Arc<str>,
    /// Whether only the certificate of the client is looked up.
    pub is_leaf_only: bool,
}
