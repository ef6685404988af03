//! An xDS management server for Envoy and gRPC clients.
//!
//! [`snapshot`] holds the resources, [`protocol`] decides what each client receives and when, and [`server`] is the transport. Both have examples. The crate does not depend on
//! Kubernetes.

pub mod identity;
pub mod listening;
pub mod protobuf;
pub mod protocol;
pub mod provenance;
pub mod server;
pub mod snapshot;
pub mod tls;

// Re-exported, because messages must be of these versions.
pub use {envoy_types, prost};
