//! The flags of `lockgate serve`: the raw form, and how it becomes validated settings.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};

use super::values::{self, Limit};
use crate::settings::{AccessLog, ServerOptions, Settings, Source, XdsTls};
use crate::telemetry;

/// Flags of `lockgate serve`.
#[derive(Debug, Args)]
#[command(
    long_about = "Read objects and serve them to Envoy over xDS, until SIGTERM.\n\nObjects come from exactly one \
                  source: the Kubernetes cluster that this pod runs in (the default), the cluster of a kubeconfig, a \
                  directory of Kubernetes YAML, or a directory of Envoy resources. Directories are watched: an edited \
                  file is served within 100 ms.",
    after_help = EXAMPLES
)]
pub struct ServeArgs {
    /// Serve the Kubernetes cluster of this kubeconfig [default: the cluster that this pod runs in]
    #[arg(long, value_name = "FILE", help_heading = "Source (exactly one)")]
    #[arg(conflicts_with_all = ["manifests", "resources"])]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME", requires = "kubeconfig", help_heading = "Source (exactly one)")]
    context: Option<String>,

    /// Serve a directory of Kubernetes YAML: Ingress, IngressClass, Service, EndpointSlice, Secret …
    #[arg(long, value_name = "DIR", conflicts_with = "resources", help_heading = "Source (exactly one)")]
    manifests: Option<PathBuf>,

    /// Serve a directory of Envoy resources, as YAML or JSON with `@type`
    #[arg(long, value_name = "DIR", help_heading = "Source (exactly one)")]
    resources: Option<PathBuf>,

    /// Watch only these namespaces, names with commas between them [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = values::namespace)]
    #[arg(conflicts_with_all = ["manifests", "resources"], help_heading = "Objects")]
    watch_namespaces: Vec<String>,

    /// Serve Ingresses of the class NAME even without an IngressClass object; may be given several times [default:
    /// the IngressClass objects that name this controller]
    #[arg(long, value_name = "NAME", value_parser = values::class, help_heading = "Objects")]
    ingress_class: Vec<String>,

    /// Serve Ingresses that name no class at all [default: only if an IngressClass of ours is the default class]
    #[arg(long, help_heading = "Objects")]
    watch_ingress_without_class: bool,

    /// The Secret for TLS hosts that name none, and for clients that send no known server name [default: none]
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = values::namespaced_name, help_heading = "Objects")]
    default_tls_secret: Option<(String, String)>,

    /// Take Services of type ExternalName as backends [default: no, for whoever may write a Service could then reach
    /// whatever Envoy can reach]
    #[arg(long, help_heading = "Objects")]
    enable_external_name_services: bool,

    /// Port on which Envoy serves plain HTTP
    #[arg(long, value_name = "PORT", default_value_t = 8080, value_parser = clap::value_parser!(u16).range(1..))]
    #[arg(help_heading = "Envoy's listeners")]
    http_port: u16,

    /// Port on which Envoy serves HTTPS
    #[arg(long, value_name = "PORT", default_value_t = 8443, value_parser = clap::value_parser!(u16).range(1..))]
    #[arg(help_heading = "Envoy's listeners")]
    https_port: u16,

    /// Port on which Envoy answers /ready and /stats; 0 for none
    #[arg(long, value_name = "PORT", default_value_t = 8002, help_heading = "Envoy's listeners")]
    stats_port: u16,

    /// Listen on IPv4 only: for nodes whose kernel has no IPv6 [default: both]
    #[arg(long, help_heading = "Envoy's listeners")]
    disable_ipv6: bool,

    /// Envoy's access log, on its standard output
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = AccessLogFormat::Text)]
    #[arg(help_heading = "Envoy's listeners")]
    access_log: AccessLogFormat,

    /// Time limit of a connection attempt to a backend; an annotation on the Service overrides it
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = values::timeout)]
    #[arg(help_heading = "Envoy's listeners")]
    connect_timeout: Duration,

    /// Time limit of a whole response, or `off`; an annotation on the Ingress overrides it
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = values::limit)]
    #[arg(help_heading = "Envoy's listeners")]
    response_timeout: Limit,

    /// Trusted proxies in front of Envoy: how many addresses from the end of x-forwarded-for are theirs
    #[arg(long, value_name = "COUNT", default_value_t = 0, help_heading = "Envoy's listeners")]
    trusted_hops: u32,

    /// Where xDS listens
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:18000", value_parser = values::address)]
    #[arg(help_heading = "xDS")]
    xds_address: SocketAddr,

    /// A directory with tls.crt, tls.key and ca.crt: serve xDS by TLS, to clients with a certificate of that CA; `off`:
    /// serve it in clear text to everybody [default: in clear text, to this machine only]
    #[arg(long, value_name = "DIR|off", help_heading = "xDS")]
    xds_tls: Option<PathBuf>,

    /// How long routes wait for Envoy to confirm the clusters behind them
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = values::timeout, help_heading = "xDS")]
    gate_timeout: Duration,

    /// How long a cluster stays after the last route to it is gone, for requests under way
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = values::duration, help_heading = "xDS")]
    removal_grace: Duration,

    /// What this controller calls itself to Envoy [default: the host's name]
    #[arg(long, value_name = "NAME", value_parser = values::identifier, help_heading = "xDS")]
    id: Option<String>,

    /// Where /healthz, /readyz, /metrics and /debug/ are; /debug/ answers this machine only
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:18001", value_parser = values::address)]
    #[arg(help_heading = "Operation")]
    admin_address: SocketAddr,

    /// How log lines are written
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text, help_heading = "Operation")]
    log_format: LogFormat,

    /// What is logged: off, error, warn, info, debug, trace, or by target, such as info,lockgate::xds=debug
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = values::log_level)]
    #[arg(help_heading = "Operation")]
    log_level: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AccessLogFormat {
    Text,
    Json,
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

const EXAMPLES: &str = "\
Examples:
  A directory of Kubernetes YAML, without any cluster:
    lockgate serve --manifests examples

  A cluster from outside of it, two namespaces of it, and all that is decided about streams in the log:
    lockgate serve --kubeconfig ~/.kube/config --context staging \\
      --watch-namespaces shop,payments --log-level info,lockgate::xds=debug

  In a pod, for the class `public`, with a wildcard certificate for hosts that have none:
    lockgate serve --ingress-class public --default-tls-secret ingress/wildcard-tls \\
      --xds-tls /etc/lockgate/xds --log-format json

  Envoy resources of your own making, to a fleet on a network that you trust:
    lockgate serve --resources envoy.d --xds-tls off";

impl ServeArgs {
    /// The validated settings. Errors name the flag, its value and what is allowed.
    pub fn resolve(self) -> anyhow::Result<(Source, Settings, ServerOptions)> {
        let listeners =
            [("--http-port", self.http_port), ("--https-port", self.https_port), ("--stats-port", self.stats_port)];
        for (i, (flag, port)) in listeners.iter().enumerate() {
            if let Some((other, _)) = listeners[..i].iter().find(|(_, other)| other == port) {
                anyhow::bail!("{flag} {port}: {other} has the same; each listener needs a port of its own");
            }
        }
        ensure!(
            self.xds_address != self.admin_address || self.xds_address.port() == 0,
            "--admin-address {}: --xds-address has the same; each needs an address of its own",
            self.admin_address
        );
        let source = match (self.manifests, self.resources) {
            (Some(dir), _) => Source::Manifests(directory("--manifests", dir)?),
            (_, Some(dir)) => Source::Resources(directory("--resources", dir)?),
            _ => Source::Cluster {
                kubeconfig: self.kubeconfig.map(|path| readable("--kubeconfig", path)).transpose()?,
                context: self.context,
                namespaces: self.watch_namespaces,
            },
        };
        let settings = Settings {
            http_port: self.http_port,
            https_port: self.https_port,
            stats_port: self.stats_port,
            ipv6: !self.disable_ipv6,
            class_names: self.ingress_class,
            classless: self.watch_ingress_without_class,
            default_tls_secret: self.default_tls_secret,
            external_name_services: self.enable_external_name_services,
            access_log: match self.access_log {
                AccessLogFormat::Text => AccessLog::Text,
                AccessLogFormat::Json => AccessLog::Json,
                AccessLogFormat::Off => AccessLog::Off,
            },
            response_timeout: self.response_timeout.0,
            connect_timeout: self.connect_timeout,
            trusted_hops: self.trusted_hops,
            ..Settings::default()
        };
        let options = ServerOptions {
            xds_address: self.xds_address,
            xds_tls: xds_tls(self.xds_tls)?,
            admin_address: self.admin_address,
            log_format: match self.log_format {
                LogFormat::Text => telemetry::Format::Text,
                LogFormat::Json => telemetry::Format::Json,
            },
            log_level: self.log_level,
            gate_timeout: self.gate_timeout,
            removal_grace: self.removal_grace,
            identifier: self.id.unwrap_or_else(host_name),
        };
        Ok((source, settings, options))
    }
}

/// A directory that can be read now; later it may come and go. Absolute, as inotify will name what is in it.
fn directory(flag: &str, path: PathBuf) -> anyhow::Result<PathBuf> {
    let cannot = || format!("{flag} {}: not a directory that can be read", path.display());
    std::fs::read_dir(&path).with_context(cannot)?;
    std::path::absolute(&path).with_context(cannot)
}

fn readable(flag: &str, path: PathBuf) -> anyhow::Result<PathBuf> {
    std::fs::File::open(&path).with_context(|| format!("{flag} {}: not a file that can be read", path.display()))?;
    Ok(path)
}

fn xds_tls(value: Option<PathBuf>) -> anyhow::Result<XdsTls> {
    let Some(dir) = value else { return Ok(XdsTls::LoopbackOnly) };
    if dir == Path::new("off") {
        return Ok(XdsTls::Off);
    }
    for file in ["tls.crt", "tls.key", "ca.crt"] {
        let file = dir.join(file);
        std::fs::File::open(&file).with_context(|| {
            let (dir, file) = (dir.display(), file.display());
            format!(
                "--xds-tls {dir}: expected a directory with tls.crt, tls.key and ca.crt, or off; cannot read {file}"
            )
        })?;
    }
    Ok(XdsTls::Directory(dir))
}

/// The name of this host; in a pod that is the pod's name.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    values::identifier(name.trim()).unwrap_or_else(|_| "lockgate".to_owned())
}
