//! What the user chose: validated settings, resolved once, read everywhere.
//!
//! The raw form, with its flags and their spelling, is `cmd::serve_args`; nothing else knows that there are flags.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::model::{CircuitBreakers, TlsVersion};
use crate::telemetry;

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
}

/// Settings of the process itself: nothing that Envoy is told depends on them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerOptions {
    /// Where xDS listens.
    pub xds_address: SocketAddr,
    /// Who may open a stream.
    pub xds_tls: XdsTls,
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
}

/// Settings that translation and the Envoy resources depend on. Defaults are Envoy's edge best practices.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Port of the plain-text listener.
    pub http_port: u16,
    /// Port of the TLS listener.
    pub https_port: u16,
    /// Port of the listener that answers `/ready` and `/stats`; 0 for none.
    pub stats_port: u16,
    /// Whether the listeners take IPv6 too; false only for nodes whose kernel has none, where Envoy refuses the address.
    pub ipv6: bool,
    /// Names of ingress classes that are ours even without an IngressClass object.
    pub class_names: Vec<String>,
    /// Whether an Ingress without any class is served although no IngressClass of ours is the default.
    pub classless: bool,
    /// `namespace/name` of the Secret for TLS hosts without one of their own, and for clients without a known SNI.
    pub default_tls_secret: Option<(String, String)>,
    /// Whether Services of type ExternalName may be backends (GHSA-5ph6-qq5x-7jwc).
    pub external_name_services: bool,
    /// Whether an ExternalName may point into the Kubernetes cluster (`*.cluster.local`, `*.svc`).
    pub external_name_cluster_local: bool,
    /// Access log format on Envoy's standard output.
    pub access_log: AccessLog,
    /// Time limit of a whole response where the object says nothing; `None` is no limit.
    pub response_timeout: Option<Duration>,
    /// Time limit of a connection attempt to a backend where the Service says nothing.
    pub connect_timeout: Duration,
    /// How long an idle downstream connection is kept.
    pub idle_timeout: Duration,
    /// How long a stream may be idle.
    pub stream_idle_timeout: Duration,
    /// How long a request may take to arrive.
    pub request_timeout: Option<Duration>,
    /// Trusted proxies in front of Envoy, for `x-forwarded-for`.
    pub trusted_hops: u32,
    /// Bounds of the TLS versions that objects may ask for.
    pub tls_minimum: TlsVersion,
    /// Highest TLS version.
    pub tls_maximum: TlsVersion,
    /// Circuit breakers where the Service says nothing.
    pub limits: CircuitBreakers,
}

/// Format of Envoy's access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessLog {
    /// One line of text a request.
    Text,
    /// One JSON object a request.
    Json,
    /// None.
    Off,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            http_port: 8080,
            https_port: 8443,
            stats_port: 8002,
            ipv6: true,
            class_names: Vec::new(),
            classless: false,
            default_tls_secret: None,
            external_name_services: false,
            external_name_cluster_local: false,
            access_log: AccessLog::Text,
            response_timeout: Some(Duration::from_secs(15)),
            connect_timeout: Duration::from_secs(2),
            idle_timeout: Duration::from_secs(60),
            stream_idle_timeout: Duration::from_secs(300),
            request_timeout: None,
            trusted_hops: 0,
            tls_minimum: TlsVersion::V1_2,
            tls_maximum: TlsVersion::V1_3,
            limits: CircuitBreakers::default(),
        }
    }
}
