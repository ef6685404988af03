//! The flags for the server of Envoys and for who writes to the API server: each is a key of the settings file.

use clap::Args;

use super::settings_args::{item, lists_of, scalar, texts};
use crate::settings::{Node, Override};

/// A flag is read where its directory is, so there a word is one; in the file, which may be checked elsewhere, it may be
/// misspelt.
fn certificates(text: &str) -> Result<String, String> {
    let word = matches!(text, "auto" | "off") || text.contains('/') || text.is_empty();
    scalar("xds.tls")(&if word { text.to_owned() } else { format!("./{text}") })
}

// No docstring on the struct: see `settings_args`.

#[allow(missing_docs)]
#[derive(Debug, Clone, Default, Args)]
pub struct ServerArgs {
    /// Where xDS listens; Envoys connect there by `lockgate bootstrap --xds-address` [default: [::]:18000]
    #[arg(long, value_name = "ADDRESS", value_parser = scalar("xds.address"), help_heading = "xDS")]
    xds_address: Option<String>,

    /// By which certificates Envoy and the controller know each other. `auto`: the controller has an authority of its own,
    /// and keeps it and the key pairs in Secrets; a directory: its files tls.crt, tls.key and ca.crt, taken up anew when
    /// they change; `off`: none, in clear text to everybody [default: auto in a pod, else clear text to this machine only]
    #[arg(long, value_name = "auto|off|DIR", value_parser = certificates, help_heading = "xDS")]
    xds_tls: Option<String>,

    /// Names in the certificates of Envoys, which get everything, private keys included: DNS names or URIs, in which `*`
    /// stands for any part of one label or segment [default: the name that the controller issues; with a directory, envoy]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = item("xds.envoyNames"), help_heading = "xDS")]
    xds_envoy_names: Vec<String>,

    /// Names in the certificates of gRPC clients without a proxy, which get no secrets [default: none]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = item("xds.grpcNames"), help_heading = "xDS")]
    xds_grpc_names: Vec<String>,

    /// Names in the certificates of the controller's replicas [default: those in its own certificate]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = item("xds.replicaNames"))]
    #[arg(help_heading = "xDS")]
    xds_replica_names: Vec<String>,

    /// With `--xds-tls auto`: the Secrets are PREFIX-ca, PREFIX-server and PREFIX-envoy, in the namespace of this pod
    /// [default: lockgate-xds]
    #[arg(long, value_name = "PREFIX", value_parser = scalar("xds.secrets"), help_heading = "xDS")]
    xds_secrets: Option<String>,

    /// With `--xds-tls auto`: the Service by which Envoy finds the controller [default: lockgate]
    #[arg(long, value_name = "NAME", value_parser = scalar("xds.service"), help_heading = "xDS")]
    xds_service: Option<String>,

    /// With `--xds-tls auto`: how long a key pair is good; it is renewed when a third of that is left [default: 90d]
    #[arg(long, value_name = "TIME", value_parser = scalar("xds.certificateLifetime"), help_heading = "xDS")]
    #[arg(hide_short_help = true)]
    xds_certificate_lifetime: Option<String>,

    /// With `--xds-tls auto`: how long the authority is good; it is replaced when a third of that is left [default: 3650d]
    #[arg(long, value_name = "TIME", value_parser = scalar("xds.caLifetime"), help_heading = "xDS")]
    #[arg(hide_short_help = true)]
    xds_ca_lifetime: Option<String>,

    /// With `--xds-tls auto`: how long a change of a Secret may take to reach the mounts of all pods; a new authority
    /// waits so long before it issues, and the old one before it goes [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = scalar("xds.rotationPause"), help_heading = "xDS")]
    #[arg(hide_short_help = true)]
    xds_rotation_pause: Option<String>,

    /// How long routes wait for Envoy to confirm the clusters behind them [default: 20s]
    #[arg(long, value_name = "TIME", value_parser = scalar("xds.gateTimeout"), help_heading = "xDS")]
    gate_timeout: Option<String>,

    /// How long a cluster stays after the last route to it is gone, for requests under way [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = scalar("xds.removalGrace"), help_heading = "xDS")]
    removal_grace: Option<String>,

    /// How old an Envoy's connection gets, or `off`: then its streams end in good order and it connects anew, to any
    /// replica; a tenth more or less by chance [default: 30m]
    #[arg(long, value_name = "TIME|off", value_parser = scalar("xds.maxConnectionAge"), help_heading = "xDS")]
    xds_max_connection_age: Option<String>,

    /// How many connections are served at a time, one address at most half of them; fewer if the system allows fewer
    /// open files [default: 10000]
    #[arg(long, value_name = "COUNT", value_parser = scalar("xds.maxConnections"), help_heading = "xDS")]
    xds_max_connections: Option<String>,

    /// A name whose addresses are the xDS ports of all replicas (a headless Service): they ask each other what their Envoys
    /// have accepted, for the status of Ingresses [default: this is the only replica]
    #[arg(long, value_name = "HOST:PORT", value_parser = scalar("xds.peers"), help_heading = "xDS")]
    peers: Option<String>,

    /// Of several replicas one writes status and Events, the holder of a Lease; `off`: this is the only replica, and
    /// writes [default: on in a pod; elsewhere nothing is written]
    #[arg(long, value_name = "on|off", value_parser = ["on", "off"], hide_possible_values = true)]
    #[arg(help_heading = "Status")]
    leader_election: Option<String>,

    /// The Lease of the replicas of this installation, in the own namespace [default: lockgate]
    #[arg(long, value_name = "NAME", value_parser = scalar("leaderElection.lease"), help_heading = "Status")]
    lease: Option<String>,
}

impl ServerArgs {
    /// What the flags say.
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
