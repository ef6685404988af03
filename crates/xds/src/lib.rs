//! An xDS management server for Envoy and gRPC clients.
//!
//! [`snapshot`] holds the resources, and [`server`] serves them. Both have examples. The crate does not depend on
//! Kubernetes.

pub mod identity;
pub mod listening;
pub mod protobuf;
pub mod provenance;
pub mod server;
pub mod snapshot;
pub mod tls;

// Re-exported, because messages must be of these versions.
pub use {envoy_types, prost};
