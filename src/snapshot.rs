//! The typed Envoy resources of one version, their differences, and how they are published.
//!
//! Usable without anything Kubernetes: it knows resources by type and name, the objects they came from only as
//! references. Everything here is immutable once made and shared, never copied per stream.

mod body;
mod groups;
mod names;
mod references;
mod resource;
mod store;

pub use body::Body;
pub use groups::Groups;
pub use names::{Glob, canonical, split_variant, variant_name};
pub use references::References;
pub use resource::{ApiVersion, Lease, Resource, ResourceType, Version, resource_name};
pub use store::{Changes, Key, Snapshot, Store, Update};

#[cfg(test)]
mod tests;
