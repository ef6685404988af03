//! What the user chose: validated settings, resolved once, read everywhere.
//!
//! [`Settings`] is what the settings file says, or a flag in its stead; [`Source`] says where objects come from, which only
//! flags do. How flags are spelt only `cmd` knows.

mod access_log;
mod check;
mod file;
mod foreign;
mod format_string;
mod keys;
mod print;
mod process;
mod reference;
mod values;
mod yaml;

use std::path::PathBuf;

pub use file::{Fault, Faults, Origin, Other, Override, Resolved, resolve};
pub use keys::Restart;
pub use lockgate_route::settings::*;
pub use print::{print, print_json};
pub use process::{Admin, LeaderElection, Log, Metrics, Process, Watch, Xds, XdsTls};
pub use reference::{reference, schema};
pub use values::times::duration;
pub use yaml::{Node, Place};

/// Where objects come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A Kubernetes API server.
    Cluster {
        /// Whose address and credentials; `None` is the pod's service account.
        kubeconfig: Option<PathBuf>,
        /// The context of the kubeconfig; `None` is its current one.
        context: Option<String>,
        /// What is watched.
        watch: Watch,
    },
    /// A directory of Kubernetes YAML.
    Manifests(PathBuf),
    /// A directory of Envoy resources.
    Resources(PathBuf),
}

/// What a controller that serves Envoys goes by, beside what Envoy is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerOptions {
    /// The settings of the process. Its `xds.tls` is what comes of it here: `None` is plain text, from loopback peers only.
    pub process: Process,
    /// Sent as `control_plane.identifier`.
    pub identifier: String,
    /// Who writes to the API server.
    pub writes: Writes,
}

/// Whether this replica writes to the API server: status, Events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// Never: it only looks.
    Never,
    /// Always: it is the only one.
    Alone,
    /// While it holds a Lease.
    Elected,
}

/// The content of the settings file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// Settings of the translation and of the Envoy resources.
    pub route: lockgate_route::settings::Settings,
    /// What is written into the status of objects.
    pub status: Status,
    /// What Envoy does before it is overloaded; read when an Envoy's bootstrap is written.
    pub overload: Overload,
    /// The process itself.
    pub process: Process,
}

/// What is written into the status of objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// Addresses of the load balancer: IP addresses and host names.
    pub addresses: Vec<String>,
    /// `namespace/name` of the Service whose `status.loadBalancer` is copied where there are no `addresses`.
    pub envoy_service: Option<(String, String)>,
}

/// What Envoy does before it is overloaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overload {
    /// Heap in bytes: Envoy gives memory back at 95 %, refuses requests at 98 %; `None` is 80 % of what its container
    /// has, 0 no limit.
    pub max_heap_bytes: Option<u64>,
    /// Connections that clients may hold open at once; 0 is no limit.
    pub max_connections: u32,
}

impl Default for Overload {
    fn default() -> Self {
        Self { max_heap_bytes: None, max_connections: 50_000 }
    }
}

/// The one of `known` that `name` is most like, if it is much like it.
fn nearest(name: &str, known: impl IntoIterator<Item = &'static str>) -> Option<&'static str> {
    // A long name is like none, and the comparison is quadratic.
    let folded: String = foreign::folded(name).chars().take(100).collect();
    let distance = |known: &str| strsim::osa_distance(&folded, &foreign::folded(known));
    let (distance, known) = known.into_iter().map(|known| (distance(known), known)).min()?;
    (distance <= known.len() / 4 + 1 && distance < name.len()).then_some(known)
}

/// Whether the file could have `value` under `path`. Errors: what is wrong first.
pub fn check_value(path: &str, value: &Node) -> Result<(), String> {
    let mut wrong = Vec::new();
    if let Some(key) = keys::key(path) {
        (key.read)(&mut Settings::default(), value, &mut wrong);
    }
    wrong.into_iter().next().map_or(Ok(()), |wrong| Err(wrong.message))
}

/// The value of the key `path` as the file would have it.
pub fn written(settings: &Settings, path: &str) -> String {
    keys::key(path).map(|key| print::written(&(key.show)(settings))).unwrap_or_default()
}

/// The keys in which two settings differ, and what needs a restart before the change holds.
pub fn changes(old: &Settings, new: &Settings) -> impl Iterator<Item = (&'static str, Option<Restart>)> {
    keys::KEYS.iter().filter(|key| (key.show)(old) != (key.show)(new)).map(|key| (key.path, key.restart))
}

#[cfg(test)]
mod tests;
