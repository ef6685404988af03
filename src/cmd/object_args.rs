//! The flags that all commands share which read objects: where these come from, what is read of them, how the log is
//! written.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};

use super::settings_args::{SettingsArgs, SettingsSource};
use super::values;
use crate::settings::Source;
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

    #[command(flatten)]
    settings: SettingsArgs,
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
enum LogFormat {
    Text,
    Json,
}

impl ObjectArgs {
    /// The source and the validated settings. Errors name the flag or the line, the value and what is allowed.
    pub fn resolve(self) -> anyhow::Result<(Source, SettingsSource)> {
        let settings = self.settings.load()?;
        let source = match (self.manifests, self.resources) {
            (Some(dir), _) => Source::Manifests(directory("--manifests", dir)?),
            (_, Some(dir)) => Source::Resources(directory("--resources", dir)?),
            _ => Source::Cluster {
                kubeconfig: self.kubeconfig.map(|path| readable("--kubeconfig", path)).transpose()?,
                context: self.context,
                namespaces: self.watch_namespaces,
            },
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
