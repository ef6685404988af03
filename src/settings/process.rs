//! Settings of the controller's process itself: nothing that Envoy is told depends on them.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use lockgate_xds::identity::Pattern;

use super::Endpoint;
use crate::telemetry;

/// Settings of the process itself, in the file or by flags. Most of them hold only after a restart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Process {
    /// The server for Envoys.
    pub xds: Xds,
    /// Health, metrics, debug pages.
    pub admin: Admin,
    /// Metrics at an address of their own.
    pub metrics: Metrics,
    /// The log of this process.
    pub log: Log,
    /// Which of several replicas writes to the API server.
    pub leader_election: LeaderElection,
    /// What is watched of a Kubernetes cluster.
    pub watch: Watch,
}

/// The server for Envoys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Xds {
    /// Where it listens.
    pub address: SocketAddr,
    /// Who may open a stream; `None` is nothing chosen: [`XdsTls::Auto`] in a pod, else plain text, from loopback peers
    /// only, so that no secret leaves the machine.
    pub tls: Option<XdsTls>,
    /// With [`XdsTls::Auto`]: the beginning of the names of the Secrets.
    pub secrets: String,
    /// With [`XdsTls::Auto`]: the Service by which Envoy finds the controller.
    pub service: String,
    /// With [`XdsTls::Auto`]: how long a key pair is good.
    pub certificate_lifetime: Duration,
    /// With [`XdsTls::Auto`]: how long an authority is good.
    pub authority_lifetime: Duration,
    /// With [`XdsTls::Auto`]: how long a change of a Secret may take to reach all mounts.
    pub rotation_pause: Duration,
    /// How long routes are held back for the ACK of the clusters behind them.
    pub gate_timeout: Duration,
    /// How long a cluster that no route names any more is kept, for requests under way.
    pub removal_grace: Duration,
    /// How old a connection gets; `None` is as old as its client likes.
    pub connection_age: Option<Duration>,
    /// Connections at a time.
    pub connections: u32,
    /// Names in certificates of Envoys. Empty: the name that the controller issues, or `envoy` with a directory.
    pub envoy_names: Vec<Pattern>,
    /// Names in certificates of gRPC clients without a proxy.
    pub grpc_names: Vec<Pattern>,
    /// Names in certificates of replicas. Empty: those in the controller's own certificate.
    pub replica_names: Vec<Pattern>,
    /// A name whose addresses are the xDS ports of all replicas; `None`: this is the only one.
    pub peers: Option<Endpoint>,
}

/// Who may open an xDS stream, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum XdsTls {
    /// TLS, to clients with a certificate of an authority that is made for this installation, and kept in Secrets.
    Auto,
    /// Plain text, from everybody.
    Off,
    /// TLS, to clients with a certificate: a directory with `tls.crt`, `tls.key`, and the `ca.crt` of the clients.
    Directory(PathBuf),
}

/// The server for health, metrics and the debug pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// Where it listens.
    pub address: SocketAddr,
}

/// The server for metrics, if they are not for everybody who reaches [`Admin::address`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Where it listens; `None`: there is none, and metrics are where the rest is.
    pub address: Option<SocketAddr>,
    /// A directory with `tls.crt` and `tls.key`, and `ca.crt` if clients have to show a certificate; `None` is clear text.
    pub tls: Option<PathBuf>,
}

/// The log of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// How lines are written.
    pub format: telemetry::Format,
    /// What it tells; a filter that is one.
    pub level: String,
}

/// Which of several replicas writes to the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderElection {
    /// Whether there is an election; `None` is nothing chosen: one in a pod, elsewhere nothing is written.
    pub enabled: Option<bool>,
    /// The Lease's name, in the own namespace; without an election it still tells installations apart.
    pub lease: String,
    /// How long others wait, after the last change of the Lease, before they take it. In whole seconds.
    pub lease_duration: Duration,
    /// How long the holder leads after its last renewal; less than `lease_duration`.
    pub renew_deadline: Duration,
    /// How often the holder renews, and the others look; less than `renew_deadline`.
    pub retry_period: Duration,
}

/// What is watched of a Kubernetes cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    /// The namespaces; empty is all.
    pub namespaces: Vec<String>,
    /// Whether the kinds of Gateway API are watched.
    pub gateway_api: bool,
}

impl Default for Watch {
    fn default() -> Self {
        Self { namespaces: Vec::new(), gateway_api: true }
    }
}

impl Default for Xds {
    fn default() -> Self {
        let hours = |hours: u64| Duration::from_secs(hours * 60 * 60);
        Self {
            address: SocketAddr::from((Ipv6Addr::UNSPECIFIED, 18000)),
            tls: None,
            secrets: "lockgate-xds".to_owned(),
            service: "lockgate".to_owned(),
            certificate_lifetime: hours(90 * 24),
            authority_lifetime: hours(10 * 365 * 24),
            rotation_pause: hours(1),
            gate_timeout: Duration::from_secs(20),
            removal_grace: Duration::from_secs(1),
            connection_age: Some(Duration::from_secs(30 * 60)),
            connections: 10_000,
            envoy_names: Vec::new(),
            grpc_names: Vec::new(),
            replica_names: Vec::new(),
            peers: None,
        }
    }
}

impl Default for Admin {
    fn default() -> Self {
        Self { address: SocketAddr::from((Ipv4Addr::LOCALHOST, 18001)) }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self { format: telemetry::Format::Text, level: "info".to_owned() }
    }
}

impl Default for LeaderElection {
    fn default() -> Self {
        Self {
            enabled: None,
            lease: "lockgate".to_owned(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}
