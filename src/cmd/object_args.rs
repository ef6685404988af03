//! The flags of all commands that read objects: the source, and settings.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

use super::settings_args::{SettingsArgs, SettingsSource};
use crate::settings::{Override, Source};
use crate::source::directory::STANDARD_INPUT;

// The struct has no docstring, see `settings_args`.

#[allow(missing_docs)]
#[derive(Debug, Args)]
pub struct ObjectArgs {
    /// Read from the Kubernetes cluster of this kubeconfig [default: the cluster of this pod]
    #[arg(long, value_name = "FILE", help_heading = "Source (exactly one)")]
    #[arg(conflicts_with_all = ["manifests", "resources"])]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig; `current`: its current context. Without `--kubeconfig`, of the kubeconfig of kubectl
    /// [default: its current context]
    #[arg(long, visible_alias = "cluster", alias = "against", value_name = "CONTEXT")]
    #[arg(help_heading = "Source (exactly one)", conflicts_with_all = ["manifests", "resources"])]
    context: Option<String>,

    /// Read Kubernetes YAML: Ingress, Gateway, HTTPRoute, GRPCRoute, Service, EndpointSlice, Secret … A file or a directory is
    /// watched; `-`, standard input, is read once
    #[arg(long, value_name = "FILE|DIR|-", help_heading = "Source (exactly one)")]
    #[arg(conflicts_with_all = ["resources", "watch_namespaces"])]
    manifests: Option<PathBuf>,

    /// Read a directory of Envoy resources, as YAML or JSON with `@type`
    #[arg(long, value_name = "DIR", help_heading = "Source (exactly one)", conflicts_with = "watch_namespaces")]
    resources: Option<PathBuf>,

    #[command(flatten)]
    settings: SettingsArgs,
}

impl ObjectArgs {
    /// Returns the source and the validated settings of these flags and `others`. Errors name the flag or the line, the value,
    /// and the allowed values.
    pub fn resolve(self, others: Vec<Override>) -> anyhow::Result<(Source, SettingsSource)> {
        let settings = self.settings.load(others)?;
        let source = match (self.manifests, self.resources) {
            (Some(path), _) => Source::Manifests(manifests(path)?),
            (_, Some(dir)) => Source::Resources(directory("--resources", dir)?),
            _ => Source::Cluster {
                kubeconfig: self.kubeconfig.map(|path| readable("--kubeconfig", path)).transpose()?,
                context: self.context,
                watch: settings.resolved.settings.process.watch.clone(),
            },
        };
        Ok((source, settings))
    }
}

/// Returns the absolute path of a readable file or directory, or `-`.
fn manifests(path: PathBuf) -> anyhow::Result<PathBuf> {
    if path.as_os_str() == STANDARD_INPUT {
        return Ok(path);
    }
    if path.is_dir() {
        return directory("--manifests", path);
    }
    let cannot = || format!("--manifests {}: not a readable file or directory", path.display());
    std::fs::File::open(&path).with_context(cannot)?;
    std::path::absolute(&path).with_context(cannot)
}

/// Returns the absolute path of a readable directory. inotify reports files by this path.
pub(super) fn directory(flag: &str, path: PathBuf) -> anyhow::Result<PathBuf> {
    let cannot = || format!("{flag} {}: not a readable directory", path.display());
    std::fs::read_dir(&path).with_context(cannot)?;
    std::path::absolute(&path).with_context(cannot)
}

fn readable(flag: &str, path: PathBuf) -> anyhow::Result<PathBuf> {
    std::fs::File::open(&path).with_context(|| format!("{flag} {}: not a readable file", path.display()))?;
    Ok(path)
}
