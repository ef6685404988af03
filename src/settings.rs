//! What the user chose: validated settings, resolved once, read everywhere.
//!
//! [`Settings`] is what the settings file says, or a flag in its stead; [`Source`] says where objects come from, which only
//! flags do. How flags are spelt only `cmd` knows.

mod access_log;
mod check;
mod downstream;
mod file;
mod foreign;
mod format_string;
mod keys;
mod print;
mod process;
mod reference;
mod regexes;
mod retries;
mod routes;
mod services;
mod tracing;
mod upstream;
mod values;
mod yaml;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub use access_log::{AccessLog, AccessLogFormat, AccessLogLevel, JsonField, STDERR, STDOUT};
pub use downstream::{
    Compression, CompressionAlgorithm, ConnectionBalancer, EscapedSlashes, HeaderPolicies, HeaderPolicy, Hsts, Http,
    Http3, HttpVersion, Listener, Listeners, ProxyProtocol, ServerHeader, SocketOptions, StatsTls, Timeouts, Tls,
    TlsParameters, Underscores,
};
pub use file::{Fault, Faults, Origin, Other, Override, Resolved, resolve};
pub use keys::Restart;
pub use print::{print, print_json};
pub use process::{Admin, LeaderElection, Log, Metrics, Process, Watch, Xds, XdsTls};
pub use reference::{reference, schema};
pub use regexes::Regexes;
pub use retries::{RETRY_CONDITIONS, Retries};
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

/// What the settings file has. Translation and the Envoy resources depend on all of it but `process`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// Which Ingresses are served.
    pub ingress: Ingress,
    /// Whether several namespaces may share a host.
    pub namespace_ownership: NamespaceOwnership,
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
    /// Limits of regular expressions in paths.
    pub regexes: Regexes,
    /// Time limits.
    pub timeouts: Timeouts,
    /// Retries of requests to backends.
    pub retries: Retries,
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
    /// The process itself.
    pub process: Process,
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
    /// What happens to paths with an annotation of another controller that restricts access.
    pub restricting_annotations: RestrictingAnnotations,
    /// Annotations of other controllers that are neither enforced nor reported.
    pub ignored_annotations: Vec<String>,
}

/// What happens to paths with an annotation of another ingress controller that restricts access.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RestrictingAnnotations {
    /// Answered 403.
    #[default]
    Deny,
    /// Served without the restriction.
    Ignore,
}

impl Default for Ingress {
    fn default() -> Self {
        Self {
            controller: "lockgate.dev/ingress-controller".to_owned(),
            class_names: Vec::new(),
            classless: false,
            restricting_annotations: RestrictingAnnotations::default(),
            ignored_annotations: Vec::new(),
        }
    }
}

/// Whether several namespaces may share a host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NamespaceOwnership {
    /// The namespace with the oldest rule for a host owns it, and the names below it if it is a wildcard. Rules of other
    /// namespaces count only if an Ingress of the owner delegates the host to them.
    #[default]
    Strict,
    /// Every namespace may add paths to every host.
    InterNamespaceAllowed,
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
