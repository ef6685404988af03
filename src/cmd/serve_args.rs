//! The flags of `lockgate serve`: the raw form, and how it becomes validated settings.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::ensure;
use clap::{Args, ValueEnum};

use super::object_args::{LogArgs, ObjectArgs};
use super::settings_args::SettingsSource;
use super::values::{self, Limit};
use super::xds_tls_args::XdsTlsArgs;
use crate::settings::{ServerOptions, Source, Writes};

/// Flags of `lockgate serve`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    #[command(flatten)]
    objects: ObjectArgs,

    /// Where xDS listens
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:18000", value_parser = values::address)]
    #[arg(help_heading = "xDS")]
    xds_address: SocketAddr,

    #[command(flatten)]
    xds_tls: XdsTlsArgs,

    /// How long routes wait for Envoy to confirm the clusters behind them
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = values::timeout, help_heading = "xDS")]
    gate_timeout: Duration,

    /// How long a cluster stays after the last route to it is gone, for requests under way
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = values::duration, help_heading = "xDS")]
    removal_grace: Duration,

    /// How old an Envoy's connection gets, or `off`: then its streams end in good order and it connects anew, to any
    /// replica; a tenth more or less by chance
    #[arg(long, value_name = "TIME|off", default_value = "30m", value_parser = values::limit, help_heading = "xDS")]
    xds_max_connection_age: Limit,

    /// How many connections are served at a time, one address at most half of them; fewer if the system allows fewer
    /// open files
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(2..))]
    #[arg(help_heading = "xDS")]
    xds_max_connections: u32,

    /// A name whose addresses are the xDS ports of all replicas (a headless Service): they ask each other what their Envoys
    /// have accepted, for the status of Ingresses [default: this is the only replica]
    #[arg(long, value_name = "HOST:PORT", value_parser = values::host_port, help_heading = "xDS")]
    peers: Option<String>,

    /// What this controller calls itself to Envoy [default: the host's name]
    #[arg(long, value_name = "NAME", value_parser = values::identifier, help_heading = "xDS")]
    id: Option<String>,

    /// Where /healthz, /readyz, /metrics and /debug/ are; /debug/ answers this machine only
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:18001", value_parser = values::address)]
    #[arg(help_heading = "Operation")]
    admin_address: SocketAddr,

    /// Of several replicas one writes status and Events, the holder of a Lease; `off`: this is the only replica, and
    /// writes [default: on in a pod; elsewhere nothing is written]
    #[arg(long, value_name = "on|off", value_enum, help_heading = "Status")]
    #[arg(conflicts_with_all = ["manifests", "resources"])]
    leader_election: Option<Switch>,

    /// The Lease of the replicas of this installation, in the own namespace
    #[arg(long, value_name = "NAME", default_value = "lockgate", value_parser = values::object_name, help_heading = "Status")]
    lease: String,

    #[command(flatten)]
    log: LogArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

/// What stands above the options.
pub(super) const LONG_ABOUT: &str = "Read objects and serve them to Envoy over xDS, until SIGTERM.\n\nObjects come from exactly one \
    source: the Kubernetes cluster that this pod runs in (the default), the cluster of a kubeconfig, a \
    directory of Kubernetes YAML, or a directory of Envoy resources. Directories are watched: an edited \
    file is served within 100 ms.";

const EXAMPLES: &str = "\
Examples:
  A directory of Kubernetes YAML, without any cluster:
    lockgate serve --manifests examples

  A cluster from outside of it, two namespaces of it, and all that is decided about streams in the log:
    lockgate serve --kubeconfig ~/.kube/config --context staging \\
      --watch-namespaces shop,payments --log-level info,lockgate::xds=debug

  In a pod, for the class `public`, with a wildcard certificate for hosts that have none:
    lockgate serve --ingress-class public --default-tls-secret ingress/wildcard-tls \\
      --log-format json

  In a pod, with certificates of cert-manager instead of the controller's own:
    lockgate serve --xds-tls /etc/lockgate/xds

  Envoy resources of your own making, to a fleet on a network that you trust:
    lockgate serve --resources envoy.d --xds-tls off";

impl ServeArgs {
    /// The validated settings. Errors name the flag, its value and what is allowed.
    pub fn resolve(self) -> anyhow::Result<(Source, SettingsSource, ServerOptions)> {
        ensure!(
            self.xds_address != self.admin_address || self.xds_address.port() == 0,
            "--admin-address {}: --xds-address has the same; each needs an address of its own",
            self.admin_address
        );
        let (source, settings) = self.objects.resolve()?;
        let writes = writes(&source, self.leader_election, self.lease);
        let (log_format, log_level) = self.log.resolve();
        let options = ServerOptions {
            xds_address: self.xds_address,
            xds_tls: self.xds_tls.resolve(&source)?,
            peers: self.peers,
            admin_address: self.admin_address,
            log_format,
            log_level,
            connection_age: self.xds_max_connection_age.0,
            connections: self.xds_max_connections,
            gate_timeout: self.gate_timeout,
            removal_grace: self.removal_grace,
            identifier: self.id.unwrap_or_else(host_name),
            writes,
        };
        Ok((source, settings, options))
    }
}

/// Who runs this somewhere else than in a pod looks at a Kubernetes cluster, and must ask for more.
fn writes(source: &Source, election: Option<Switch>, lease: String) -> Writes {
    let Source::Cluster { kubeconfig, context, .. } = source else { return Writes::Never };
    let in_pod = kubeconfig.is_none() && context.is_none() && std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    match election {
        Some(Switch::Off) => Writes::Alone { lease },
        Some(Switch::On) => Writes::Elected { lease },
        None if in_pod => Writes::Elected { lease },
        None => Writes::Never,
    }
}

/// The name of this host; in a pod that is the pod's name.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    values::identifier(name.trim()).unwrap_or_else(|_| "lockgate".to_owned())
}
