//! Snapshots as files, for Envoys that have no network to the controller: `path_config_source` instead of a stream.
//!
//! A file is a `DiscoveryResponse`. Envoy reads clusters, listeners and scoped routes from one file each; of the types that it
//! asks for by name it takes one resource a file and rejects more, so these have a file for each resource. Nobody ACKs a
//! file, so the order of the push plan is kept by time instead. Knows nothing of Kubernetes, and not how snapshots arise.

mod config_source;
mod disk;
mod exporter;
mod format;
mod item;
mod layout;
mod place;
mod plan;

pub use exporter::{Exporter, Options};
pub use format::Format;
pub use place::{Place, Reload};
pub use plan::Timing;

#[cfg(test)]
mod tests;
