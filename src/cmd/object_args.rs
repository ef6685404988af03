//! The flags that all commands share which read objects: where these come from, what is read of them, what Envoy's
//! listeners are like, how the log is written.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};

use super::values::{self, Limit};
use crate::settings::{AccessLogFormat, Ingress, Settings, Source};
use crate::telemetry;

// No docstrings on the structs: clap would take them for the description of the command that they are a part of.

#[allow(missing_docs)]
#[derive(Debug, Args)]
pub struct ObjectArgs {
    /// Take the Kubernetes cluster of this kubeconfig [default: the cluster that this pod runs in]
    #[arg(long, value_name = "FILE", help_heading = "Source (exactly one)")]
    #[arg(conflicts_with_all = ["manifests", "resources"])]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME", requires = "kubeconfig", help_heading = "Source (exactly one)")]
    context: Option<String>,

    /// Take a directory of Kubernetes YAML: Ingress, IngressClass, Service, EndpointSlice, Secret …
    #[arg(long, value_name = "DIR", conflicts_with = "resources", help_heading = "Source (exactly one)")]
    manifests: Option<PathBuf>,

    /// Take a directory of Envoy resources, as YAML or JSON with `@type`
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
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogLine::Text)]
    #[arg(help_heading = "Envoy's listeners")]
    access_log: LogLine,

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
}

#[allow(missing_docs)]
#[derive(Debug, Args)]
pub struct LogArgs {
    /// How log lines are written
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text, help_heading = "Operation")]
    log_format: LogFormat,

    /// What is logged: off, error, warn, info, debug, trace, or by target, such as info,lockgate::xds=debug
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = values::log_level)]
    #[arg(help_heading = "Operation")]
    log_level: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogLine {
    Text,
    Json,
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

impl ObjectArgs {
    /// The validated settings. Errors name the flag, its value and what is allowed.
    pub fn resolve(self) -> anyhow::Result<(Source, Settings)> {
        let listeners =
            [("--http-port", self.http_port), ("--https-port", self.https_port), ("--stats-port", self.stats_port)];
        for (i, (flag, port)) in listeners.iter().enumerate() {
            if let Some((other, _)) = listeners[..i].iter().find(|(_, other)| other == port) {
                anyhow::bail!("{flag} {port}: {other} has the same; each listener needs a port of its own");
            }
        }
        let source = match (self.manifests, self.resources) {
            (Some(dir), _) => Source::Manifests(directory("--manifests", dir)?),
            (_, Some(dir)) => Source::Resources(directory("--resources", dir)?),
            _ => Source::Cluster {
                kubeconfig: self.kubeconfig.map(|path| readable("--kubeconfig", path)).transpose()?,
                context: self.context,
                namespaces: self.watch_namespaces,
            },
        };
        let mut settings = Settings {
            ingress: Ingress { class_names: self.ingress_class, classless: self.watch_ingress_without_class },
            ..Settings::default()
        };
        settings.external_names.allow = self.enable_external_name_services;
        settings.listeners.http.port = self.http_port;
        settings.listeners.https.port = self.https_port;
        settings.listeners.stats.port = self.stats_port;
        settings.listeners.ipv6 = !self.disable_ipv6;
        settings.http.trusted_hops = self.trusted_hops;
        settings.tls.default_secret = self.default_tls_secret;
        settings.timeouts.response = self.response_timeout.0;
        settings.timeouts.connect = self.connect_timeout;
        settings.access_log.format = match self.access_log {
            LogLine::Text => AccessLogFormat::Text,
            LogLine::Json => AccessLogFormat::Json,
            LogLine::Off => AccessLogFormat::Off,
        };
        Ok((source, settings))
    }
}

impl LogArgs {
    /// Format and level.
    pub fn resolve(self) -> (telemetry::Format, String) {
        let format = match self.log_format {
            LogFormat::Text => telemetry::Format::Text,
            LogFormat::Json => telemetry::Format::Json,
        };
        (format, self.log_level)
    }
}

/// A directory that can be read now; later it may come and go. Absolute, as inotify will name what is in it.
pub(super) fn directory(flag: &str, path: PathBuf) -> anyhow::Result<PathBuf> {
    let cannot = || format!("{flag} {}: not a directory that can be read", path.display());
    std::fs::read_dir(&path).with_context(cannot)?;
    std::path::absolute(&path).with_context(cannot)
}

fn readable(flag: &str, path: PathBuf) -> anyhow::Result<PathBuf> {
    std::fs::File::open(&path).with_context(|| format!("{flag} {}: not a file that can be read", path.display()))?;
    Ok(path)
}
