//! The flags of the xDS server and of leader election. Each is a key of the settings file.

use clap::Args;

use super::settings_args::{item, lists_of, scalar, texts};
use crate::settings::Override;
use crate::yaml::Node;

/// Parses `auto`, `off`, or a directory. On the command line, any other word is a directory. In the settings file, it
/// may be a misspelling.
fn certificates(text: &str) -> Result<String, String> {
    let word = matches!(text, "auto" | "off") || text.contains('/') || text.is_empty();
    scalar("xds.tls")(&if word { text.to_owned() } else { format!("./{text}") })
}

// The struct has no docstring, see `settings_args`.

#[allow(missing_docs)]
#[derive(Debug, Clone, Default, Args)]
pub struct ServerArgs {
    /// The address of the xDS server, as in `lockgate bootstrap --xds-address` [default: [::]:18000]
    #[arg(long, value_name = "ADDRESS", value_parser = scalar("xds.address"), help_heading = "xDS")]
    xds_address: Option<String>,

    /// mTLS between Envoy and the controller. `auto`: the controller issues the certificates, and stores them in Secrets; a
    /// directory: its files tls.crt, tls.key, and ca.crt, reloaded when they change; `off`: clear text for every client
    /// [default: auto in a pod, otherwise clear text for this machine only]
    #[arg(long, value_name = "auto|off|DIR", value_parser = certificates, help_heading = "xDS")]
    xds_tls: Option<String>,

    /// Names in the certificates of Envoys, which receive all resources and private keys: DNS names or URIs; `*` matches any
    /// part of one label or segment [default: the name that the controller issues; with a directory, envoy]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = item("xds.envoyNames"), help_heading = "xDS")]
    xds_envoy_names: Vec<String>,

    /// Names in the certificates of gRPC clients without a proxy, which receive no secrets [default: none]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = item("xds.grpcNames"), help_heading = "xDS")]
    xds_grpc_names: Vec<String>,

    /// Names in the certificates of the controller's replicas [default: the names in its own certificate]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = item("xds.replicaNames"))]
    #[arg(help_heading = "xDS")]
    xds_replica_names: Vec<String>,

    /// With `--xds-tls auto`: the Secrets are PREFIX-ca, PREFIX-server, PREFIX-envoy, and, with dedicated fleets,
    /// PREFIX-fleets, in the namespace of this pod
    /// [default: lockgate-xds]
    #[arg(long, value_name = "PREFIX", value_parser = scalar("xds.secrets"), help_heading = "xDS")]
    xds_secrets: Option<String>,

    /// With `--xds-tls auto`: the Service by which Envoy finds the controller [default: lockgate]
    #[arg(long, value_name = "NAME", value_parser = scalar("xds.service"), help_heading = "xDS")]
    xds_service: Option<String>,

    /// With `--xds-tls auto`: the lifetime of key pairs, which are renewed when a third of it is left [default: 90d]
    #[arg(long, value_name = "TIME", value_parser = scalar("xds.certificateLifetime"), help_heading = "xDS")]
    #[arg(hide_short_help = true)]
    xds_certificate_lifetime: Option<String>,

    /// With `--xds-tls auto`: the lifetime of the authority, which is replaced when a third of it is left [default: 3650d]
    #[arg(long, value_name = "TIME", value_parser = scalar("xds.caLifetime"), help_heading = "xDS")]
    #[arg(hide_short_help = true)]
    xds_ca_lifetime: Option<String>,

    /// With `--xds-tls auto`: the time for a change of a Secret to reach the mounts of all pods. A new authority waits this
    /// long before it issues certificates, and the old authority before its removal [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = scalar("xds.rotationPause"), help_heading = "xDS")]
    #[arg(hide_short_help = true)]
    xds_rotation_pause: Option<String>,

    /// The maximum time that routes wait for Envoy to confirm their clusters [default: 20s]
    #[arg(long, value_name = "TIME", value_parser = scalar("xds.gateTimeout"), help_heading = "xDS")]
    gate_timeout: Option<String>,

    /// The time that a cluster stays after its last route, for active requests [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = scalar("xds.removalGrace"), help_heading = "xDS")]
    removal_grace: Option<String>,

    /// The maximum age of an Envoy's connection, or `off`. Its streams are then closed gracefully, and the Envoy connects to
    /// any replica; varied randomly by a tenth [default: 30m]
    #[arg(long, value_name = "TIME|off", value_parser = scalar("xds.maxConnectionAge"), help_heading = "xDS")]
    xds_max_connection_age: Option<String>,

    /// The maximum number of connections. One address gets at most half of them; a lower limit of open files applies
    /// [default: 10000]
    #[arg(long, value_name = "COUNT", value_parser = scalar("xds.maxConnections"), help_heading = "xDS")]
    xds_max_connections: Option<String>,

    /// A name that resolves to the xDS ports of all replicas (a headless Service). The replicas ask each
    /// other which objects their Envoys have accepted, and over TLS for last good key pairs [default: this is the only replica]
    #[arg(long, value_name = "HOST:PORT", value_parser = scalar("xds.peers"), help_heading = "xDS")]
    peers: Option<String>,

    /// Elect one of several replicas by a Lease to write status and Events; `off`: this is the only replica, and it writes
    /// [default: on in a pod; elsewhere nothing is written]
    #[arg(long, value_name = "on|off", value_parser = ["on", "off"], hide_possible_values = true)]
    #[arg(help_heading = "Status")]
    leader_election: Option<String>,

    /// The name of the Lease, in the namespace of this pod [default: lockgate]
    #[arg(long, value_name = "NAME", value_parser = scalar("leaderElection.lease"), help_heading = "Status")]
    lease: Option<String>,
}

impl ServerArgs {
    /// Returns the keys that the flags set.
    pub(super) fn overrides(&self) -> Vec<Override> {
        let election = self.leader_election.as_ref().map(|word| Override {
            key: "leaderElection.enabled",
            flag: "--leader-election",
            value: Node::text(if word == "on" { "true" } else { "false" }),
        });
        let flags = [
            ("xds.address", "--xds-address", &self.xds_address),
            ("xds.tls", "--xds-tls", &self.xds_tls),
            ("xds.secrets", "--xds-secrets", &self.xds_secrets),
            ("xds.service", "--xds-service", &self.xds_service),
            ("xds.certificateLifetime", "--xds-certificate-lifetime", &self.xds_certificate_lifetime),
            ("xds.caLifetime", "--xds-ca-lifetime", &self.xds_ca_lifetime),
            ("xds.rotationPause", "--xds-rotation-pause", &self.xds_rotation_pause),
            ("xds.gateTimeout", "--gate-timeout", &self.gate_timeout),
            ("xds.removalGrace", "--removal-grace", &self.removal_grace),
            ("xds.maxConnectionAge", "--xds-max-connection-age", &self.xds_max_connection_age),
            ("xds.maxConnections", "--xds-max-connections", &self.xds_max_connections),
            ("xds.peers", "--peers", &self.peers),
            ("leaderElection.lease", "--lease", &self.lease),
        ];
        let lists = [
            ("xds.envoyNames", "--xds-envoy-names", &self.xds_envoy_names),
            ("xds.grpcNames", "--xds-grpc-names", &self.xds_grpc_names),
            ("xds.replicaNames", "--xds-replica-names", &self.xds_replica_names),
        ];
        texts(flags).chain(lists_of(lists)).chain(election).collect()
    }
}
