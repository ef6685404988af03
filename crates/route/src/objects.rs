//! The Kubernetes objects, reduced to the fields that the translation reads, in one immutable value.
//!
//! `Objects` is persistent: a clone is cheap and shares all objects. A translation works on an unchanging state while
//! the loop applies further events.

mod backend_policy;
mod builtin;
mod changes;
mod claims;
mod content;
mod credentials;
mod deleted;
mod encoding;
pub mod foreign;
mod foreign_policy;
pub mod gateway;
mod groups;
mod host_grant;
pub mod http_proxy;
mod kept;
mod kind;
mod kinds;
mod meta;
mod misencoded;
mod precedence;
mod revision;
mod secret;
mod secrets;
mod service;
mod store;
mod typed;

pub use crate::model::ObjectKey;
pub use backend_policy::{
    BackendPolicy, BackendPolicySpec, BackendPolicyTarget, EndpointHttp3Spec, GrpcProbeSpec, HashOnSpec, HashOnType,
    HealthCheckSpec, HttpProbeSpec, LoadBalancingAlgorithm, LoadBalancingSpec, OutlierDetectionSpec, PreferredZones,
    ProxyProtocolVersion, RetryBudgetSpec, SlowStartSpec, SuccessRateSpec, TcpKeepaliveSpec, TcpProbeSpec, ZonesSpec,
};
pub use builtin::{ConfigMap, Ingress, IngressClass, IngressStatus, Namespace};
pub use claims::{CLAIM_SHARDS, HostClaims, StoredClaim, claim_key, claim_shard};
pub use content::{Content, Object, Typed};
pub use credentials::{API_KEYS_TYPE, CLIENT_SECRET, CredentialKind, Credentials, HTPASSWD};
pub use foreign_policy::{FOREIGN_POLICIES, ForeignPolicy, ForeignSelector, ForeignTarget};
pub use groups::ENVOY_GATEWAY;
pub use host_grant::{GrantedNamespaces, HostGrant, HostGrantSpec, HostGrantStatus};
pub use kept::Kept;
pub use kind::{Grouping, Kind, KindInfo};
pub use meta::{Meta, ObjectId};
pub use misencoded::Misencoded;
pub use precedence::Precedence;
pub use revision::Revision;
pub use secret::{EarlyPair, SECRET_DELETED, Secret};
pub use service::{
    AddressType, EndpointSlice, Exposure, GatewayService, SERVICE_PORTS, Service, ServicePort, SliceEndpoint, Transport,
};
pub use store::Objects;

#[cfg(test)]
mod tests;
