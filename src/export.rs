//! Snapshots as files, for Envoys without a network connection to the controller. They use `path_config_source` instead
//! of a stream.
//!
//! A file is a `DiscoveryResponse`. Envoy reads clusters, listeners, and scoped routes from one file each. For types
//! that it subscribes to by name, it rejects files with several resources, so each resource has its own file. Files
//! have no ACKs, so time preserves the order of the push plan. The module knows neither Kubernetes nor the source of
//! the snapshots.

mod config_source;
mod disk;
mod exporter;
mod format;
mod item;
mod layout;
mod place;
mod plan;

pub use disk::DiskError;
pub use exporter::{ExportOptions, Exporter};
pub use format::FileFormat;
pub use place::{EnvoyDirectory, Reload};
pub use plan::ExportTiming;

#[cfg(test)]
mod tests;
