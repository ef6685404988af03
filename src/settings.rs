//! The validated settings.
//!
//! [`Settings`] come from the settings file and from flags, which take precedence. [`Source`], the source of the
//! objects, comes from flags alone. Only `cmd` knows the names of flags.

mod access_log;
mod check;
mod file;
mod foreign;
mod format_string;
mod keys;
mod print;
mod process;
mod reference;
mod resolved;
mod values;

use std::path::PathBuf;

pub use file::resolve;
pub use keys::{Restart, changes, check_json, check_value, written};
pub use lockgate_route::settings::*;
pub use print::{print, print_json};
pub use process::{Admin, LeaderElection, Log, MetricsServer, Process, Watch, Xds, XdsTls};
pub use reference::{reference, schema};
pub use resolved::{Origin, Other, Override, Resolved, SettingsFault, SettingsFaults};
pub use values::times::duration;

/// The source of the objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A Kubernetes API server.
    Cluster {
        /// The file with address and credentials; `None` is the pod's service account, or otherwise the file of kubectl.
        kubeconfig: Option<PathBuf>,
        /// The context of the kubeconfig; `None` is its current one.
        context: Option<String>,
        /// The watched objects.
        watch: Watch,
    },
    /// Kubernetes YAML: a directory, a file, or `-` for standard input.
    Manifests(PathBuf),
    /// A directory of Envoy resources.
    Resources(PathBuf),
}

/// The settings of a running controller that do not affect Envoy's resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerOptions {
    /// The settings of the process. `xds.tls` is resolved: `None` is plain text, from loopback peers only.
    pub process: Process,
    /// The `control_plane.identifier` in responses.
    pub identifier: String,
    /// The replica that writes to the API server.
    pub writes: Writes,
}

/// Whether this replica writes statuses and Events to the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// Never.
    Never,
    /// Always: it is the only replica.
    Alone,
    /// While it holds a Lease.
    Elected,
}

/// The content of the settings file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// Settings of the translation and of the Envoy resources.
    pub route: lockgate_route::settings::Settings,
    /// The values written to the status of objects.
    pub status: Status,
    /// Envoy's overload limits, which are part of its bootstrap.
    pub overload: Overload,
    /// Whether Envoy keeps all statistics of Services, which is part of its bootstrap.
    pub all_service_statistics: bool,
    /// The process itself.
    pub process: Process,
}

/// The values written to the status of objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// Addresses of the load balancer: IP addresses and host names. If empty, `status.loadBalancer` of the Service in front of the
    /// Envoys is copied.
    pub addresses: Vec<String>,
}

/// Envoy's overload limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overload {
    /// Heap in bytes. Envoy releases memory at 95 % of it and refuses requests at 98 %. `None` is 80 % of the
    /// container's memory; 0 is no limit.
    pub max_heap_bytes: Option<u64>,
    /// The maximum number of client connections; 0 is no limit.
    pub max_connections: u32,
}

impl Default for Overload {
    fn default() -> Self {
        Self { max_heap_bytes: None, max_connections: 50_000 }
    }
}

#[cfg(test)]
mod tests;
