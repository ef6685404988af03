//! What the user chose: validated settings, resolved once, read everywhere.
//!
//! [`Settings`] is what the settings file says, or a flag in its stead; [`ServerOptions`] and [`Source`] are of the
//! process itself and come from flags alone, whose spelling only `cmd` knows.

mod access_log;
mod check;
mod downstream;
mod file;
mod foreign;
mod format_string;
mod keys;
mod print;
mod reference;
mod routes;
mod services;
mod tracing;
mod upstream;
mod values;
mod yaml;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::telemetry;

pub use access_log::{AccessLog, AccessLogFormat, AccessLogLevel, JsonField, STDERR, STDOUT};
pub use downstream::{
    Compression, CompressionAlgorithm, ConnectionBalancer, HeaderPolicies, HeaderPolicy, Http, Http3, HttpVersion,
    Listener, Listeners, ProxyProtocol, ServerHeader, SocketOptions, Timeouts, Tls, TlsParameters, Underscores,
};
pub use file::{Fault, Faults, Origin, Override, Resolved, resolve};
pub use print::print;
pub use reference::{reference, schema};
pub use routes::{Discovery, Routes};
pub use services::{
    AuthorizationHttp, AuthorizationProtocol, Endpoint, Entry, ExternalAuthorization, HeaderCondition, HeaderMatch,
    RateLimit, RequestBody,
};
pub use tracing::{Sampling, TagValue, Tracing};
pub use upstream::{DnsLookupFamily, Upstream};
pub use values::names::{is_label, is_subdomain};
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
        /// The namespaces to watch; empty is all.
        namespaces: Vec<String>,
    },
    /// A directory of Kubernetes YAML.
    Manifests(PathBuf),
    /// A directory of Envoy resources.
    Resources(PathBuf),
}

/// Who may open an xDS stream, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum XdsTls {
    /// Plain text, from loopback peers only: nothing was chosen, so no secret leaves the machine.
    LoopbackOnly,
    /// Plain text, from everybody.
    Off,
    /// TLS, to clients with a certificate: a directory with `tls.crt`, `tls.key`, and the `ca.crt` of the clients.
    Directory(PathBuf),
    /// TLS, to clients with a certificate of an authority that is made for this installation, and kept in Secrets.
    Auto(XdsSecrets),
}

/// The Secrets of xDS and what is in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XdsSecrets {
    /// The beginning of their names.
    pub prefix: String,
    /// The Service by which Envoy finds the controller.
    pub service: String,
    /// How long a key pair is good.
    pub certificate_lifetime: Duration,
    /// How long an authority is good.
    pub authority_lifetime: Duration,
    /// How long a change of a Secret may take to reach all mounts.
    pub pause: Duration,
}

/// Settings of the process itself: nothing that Envoy is told depends on them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerOptions {
    /// Where xDS listens.
    pub xds_address: SocketAddr,
    /// Who may open a stream.
    pub xds_tls: XdsTls,
    /// `host:port` whose addresses are the xDS ports of all replicas; `None`: this is the only one.
    pub peers: Option<String>,
    /// Where health, metrics and the debug pages are.
    pub admin_address: SocketAddr,
    /// How the log is written.
    pub log_format: telemetry::Format,
    /// What the log tells at first; checked.
    pub log_level: String,
    /// How old an xDS connection gets; `None` is as old as its client likes.
    pub connection_age: Option<Duration>,
    /// xDS connections at a time.
    pub connections: u32,
    /// How long routes are held back for the ACK of the clusters behind them.
    pub gate_timeout: Duration,
    /// How long a cluster that no route names any more is kept, for requests under way.
    pub removal_grace: Duration,
    /// Sent as `control_plane.identifier`.
    pub identifier: String,
    /// Who writes to the API server.
    pub writes: Writes,
}

/// Whether this replica writes to the API server: status, Events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Writes {
    /// Never: it only looks.
    Never,
    /// Always: it is the only one.
    Alone {
        /// The name of the Lease that it would hold, which tells installations apart.
        lease: String,
    },
    /// While it holds a Lease.
    Elected {
        /// The Lease's name, in the own namespace.
        lease: String,
    },
}

/// Settings that translation and the Envoy resources depend on. A change of them needs no restart.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// Which Ingresses are served.
    pub ingress: Ingress,
    /// Services of type ExternalName.
    pub external_names: ExternalNames,
    /// What is written into the status of objects.
    pub status: Status,
    /// Envoy's listeners.
    pub listeners: Listeners,
    /// HTTP towards clients.
    pub http: Http,
    /// Compression of responses.
    pub compression: Compression,
    /// Headers set and removed on all routes.
    pub headers: HeaderPolicies,
    /// How Envoys get their routes.
    pub routes: Routes,
    /// Time limits.
    pub timeouts: Timeouts,
    /// TLS towards clients.
    pub tls: Tls,
    /// Envoy's access log.
    pub access_log: AccessLog,
    /// Spans for a collector.
    pub tracing: Tracing,
    /// Who is asked whether a request may pass.
    pub external_authorization: ExternalAuthorization,
    /// Who is asked whether there have been too many requests.
    pub rate_limit: RateLimit,
    /// Connections to backends.
    pub upstream: Upstream,
    /// What Envoy does before it is overloaded; read when an Envoy's bootstrap is written.
    pub overload: Overload,
    /// Envoy's runtime flags, by their keys; values in JSON. What other settings decide is not among them.
    pub runtime: BTreeMap<String, serde_json::Value>,
}

/// Which Ingresses are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ingress {
    /// What `spec.controller` of an IngressClass of ours says.
    pub controller: String,
    /// Names of ingress classes that are ours even without an IngressClass object.
    pub class_names: Vec<String>,
    /// Whether an Ingress without any class is served although no IngressClass of ours is the default.
    pub classless: bool,
}

impl Default for Ingress {
    fn default() -> Self {
        Self { controller: "lockgate.dev/ingress-controller".to_owned(), class_names: Vec::new(), classless: false }
    }
}

/// Services of type ExternalName.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExternalNames {
    /// Whether they may be backends (GHSA-5ph6-qq5x-7jwc).
    pub allow: bool,
    /// Whether one may point into the Kubernetes cluster (`*.cluster.local`, `*.svc`).
    pub cluster_local: bool,
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
    let folded = foreign::folded(name);
    let near = known.into_iter().map(|known| (distance(&folded, &foreign::folded(known)), known)).min()?;
    let (distance, known) = near;
    (distance <= known.len() / 4 + 1 && distance < name.len()).then_some(known)
}

/// How many letters have to be put in, taken out, replaced or swapped with the next to make `b` of `a`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(100).collect(), b.chars().take(100).collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

/// Whether the file could have `value` under `path`. Errors: what is wrong first.
pub fn check_value(path: &str, value: &Node) -> Result<(), String> {
    let mut wrong = Vec::new();
    if let Some(key) = keys::key(path) {
        (key.read)(&mut Settings::default(), value, &mut wrong);
    }
    wrong.into_iter().next().map_or(Ok(()), |wrong| Err(wrong.message))
}

/// The keys in which two settings differ.
pub fn changes(old: &Settings, new: &Settings) -> Vec<&'static str> {
    keys::KEYS.iter().filter(|key| (key.show)(old) != (key.show)(new)).map(|key| key.path).collect()
}

/// Those of the [`changes`] that hold only after a restart of the Envoys.
pub fn needs_restart(old: &Settings, new: &Settings) -> Vec<&'static str> {
    changes(old, new).into_iter().filter(|path| path.starts_with("overload.")).collect()
}

#[cfg(test)]
mod tests;
