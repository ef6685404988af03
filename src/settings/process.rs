//! Settings of the controller process. Envoy's resources do not depend on them.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use lockgate_xds::identity::Pattern;

use super::ServiceAddress;
use crate::telemetry;

/// Settings of the process, from the file or from flags. Most changes need a restart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Process {
    /// The server for Envoys.
    pub xds: Xds,
    /// The server for health, metrics, and debug pages.
    pub admin: Admin,
    /// The separate server for metrics.
    pub metrics: MetricsServer,
    /// The log of this process.
    pub log: Log,
    /// The election of the replica that writes to the API server.
    pub leader_election: LeaderElection,
    /// The watched part of a Kubernetes cluster.
    pub watch: Watch,
    /// The template of the pods of dedicated fleets; `None`: the controller creates none.
    pub fleet_template: Option<PathBuf>,
}

/// The server for Envoys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Xds {
    /// The address to listen on.
    pub address: SocketAddr,
    /// The clients that may open a stream. `None` (not set) is [`XdsTls::Auto`] in a pod, and otherwise plain text from
    /// loopback peers only, so that no secret leaves the machine.
    pub tls: Option<XdsTls>,
    /// With [`XdsTls::Auto`]: the prefix of the names of the Secrets.
    pub secrets: String,
    /// With [`XdsTls::Auto`]: the Service through which Envoy reaches the controller.
    pub service: String,
    /// With [`XdsTls::Auto`]: the validity of a key pair.
    pub certificate_lifetime: Duration,
    /// With [`XdsTls::Auto`]: the validity of an authority.
    pub authority_lifetime: Duration,
    /// With [`XdsTls::Auto`]: the maximum time until all mounts have a changed Secret.
    pub rotation_pause: Duration,
    /// The maximum time that routes wait for the ACK of their clusters.
    pub gate_timeout: Duration,
    /// The time that an unreferenced cluster is kept for active requests.
    pub removal_grace: Duration,
    /// The maximum age of a connection; `None` is unlimited.
    pub connection_age: Option<Duration>,
    /// The maximum number of connections.
    pub connections: u32,
    /// Names in certificates of Envoys. Empty: the name that the controller issues, or `envoy` with a directory.
    pub envoy_names: Vec<Pattern>,
    /// Names in certificates of gRPC clients without a proxy.
    pub grpc_names: Vec<Pattern>,
    /// Names in certificates of replicas. Empty: the names in the controller's own certificate.
    pub replica_names: Vec<Pattern>,
    /// A DNS name that resolves to all replicas; `None` if this is the only replica.
    pub peers: Option<ServiceAddress>,
}

/// The transport security of xDS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum XdsTls {
    /// Mutual TLS with an authority of this installation, which Lockgate creates and stores in Secrets.
    Auto,
    /// Plain text, without authentication.
    Off,
    /// Mutual TLS with the files `tls.crt`, `tls.key`, and the clients' `ca.crt` in this directory.
    Directory(PathBuf),
}

/// The server for health, metrics, and debug pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// The address to listen on.
    pub address: SocketAddr,
}

/// The separate server for metrics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetricsServer {
    /// The address to listen on; `None` serves metrics at [`Admin::address`].
    pub address: Option<SocketAddr>,
    /// A directory with `tls.crt` and `tls.key`, and with `ca.crt` if clients must present a certificate; `None` is
    /// plain text.
    pub tls: Option<PathBuf>,
}

/// The log of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// The format.
    pub format: telemetry::LogFormat,
    /// The filter, which is valid.
    pub level: String,
}

/// The election of the replica that writes to the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderElection {
    /// Whether there is an election. `None` (not set) is an election in a pod, and no writes elsewhere.
    pub enabled: Option<bool>,
    /// The name of the Lease in Lockgate's namespace. It distinguishes installations even without an election.
    pub lease: String,
    /// The time after the last renewal until another replica may take the Lease, in whole seconds.
    pub lease_duration: Duration,
    /// The time that the holder leads after its last renewal; less than `lease_duration`.
    pub renew_deadline: Duration,
    /// The interval of renewals and of attempts to take the Lease; less than `renew_deadline`.
    pub retry_period: Duration,
}

/// The watched part of a Kubernetes cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    /// The watched namespaces; empty is all.
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
        Self { format: telemetry::LogFormat::Text, level: "info".to_owned() }
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
