//! An xDS management server for Envoy and gRPC clients. [`snapshot`] holds the resources, [`server`] serves them; both
//! have examples. Nothing here knows Kubernetes.

pub mod identity;
pub mod listening;
pub mod protobuf;
pub mod provenance;
pub mod server;
pub mod snapshot;
pub mod tls;

// In the versions whose messages this crate takes.
pub use {envoy_types, prost};
