//! The flags of `lockgate serve`, and their conversion to validated settings.

use std::path::Path;

use anyhow::{Context, bail, ensure};
use clap::Args;

use super::exit::ExitCodes;
use super::object_args::ObjectArgs;
use super::server_args::ServerArgs;
use super::settings_args::SettingsSource;
use super::values;
use crate::settings::{Origin, Process, ServerOptions, Source, Writes, XdsTls};

/// Flags of `lockgate serve`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    #[command(flatten)]
    objects: ObjectArgs,

    #[command(flatten)]
    server: ServerArgs,

    /// The identifier of this controller in xDS responses [default: the host name]
    #[arg(long, value_name = "NAME", value_parser = values::identifier, help_heading = "xDS")]
    id: Option<String>,
}

/// The description above the options.
pub(super) const LONG_ABOUT: &str = "Read objects and serve them to Envoy over xDS, until SIGTERM.\n\nObjects come from exactly one \
    source: the Kubernetes cluster that this pod runs in (the default), the cluster of a kubeconfig, a \
    directory of Kubernetes YAML, or a directory of Envoy resources. Directories are watched: an edited \
    file is served within 100 ms.";

pub(super) const EXIT_CODES: ExitCodes = ExitCodes {
    fine: "it was stopped by SIGTERM or SIGINT",
    findings: None,
    failed: "wrong usage, invalid settings, a missing source, an address in use, or a part that ended",
};

const EXAMPLES: &str = "\
Examples:
  A directory of Kubernetes YAML, without any cluster:
    lockgate serve --manifests examples

  Two namespaces of a cluster, from outside of the cluster, with a log of all decisions about streams:
    lockgate serve --kubeconfig ~/.kube/config --context staging \\
      --watch-namespaces shop,payments --log-level info,lockgate_xds=debug

  In a pod, for the class `public`, with a wildcard certificate for hosts that have none:
    lockgate serve --ingress-class public --default-tls-secret ingress/wildcard-tls \\
      --log-format json

  In a pod, with certificates of cert-manager instead of the controller's own:
    lockgate serve --xds-tls /etc/lockgate/xds

  Your own Envoy resources, for Envoys on a trusted network:
    lockgate serve --resources envoy.d --xds-tls off";

impl ServeArgs {
    /// Validates the flags and the settings file. Errors name the flag or the line, the value, and the allowed values.
    pub fn resolve(self) -> anyhow::Result<(Source, SettingsSource, ServerOptions)> {
        let (source, settings) = self.objects.resolve(self.server.overrides())?;
        let mut process = settings.resolved.settings.process.clone();
        process.xds.tls = xds_tls(&source, &settings)?;
        let writes = writes(&source, &settings)?;
        let identifier = self.id.unwrap_or_else(host_name);
        Ok((source, settings, ServerOptions { process, identifier, writes }))
    }
}

/// Returns the TLS mode of xDS for a controller with objects of `source`.
fn xds_tls(source: &Source, settings: &SettingsSource) -> anyhow::Result<Option<XdsTls>> {
    let Process { xds, .. } = &settings.resolved.settings.process;
    let named = || settings.named("xds.tls");
    match &xds.tls {
        None => Ok(in_own_pod(source).then_some(XdsTls::Auto)),
        Some(XdsTls::Auto) if !matches!(source, Source::Cluster { .. }) => bail!(
            "{}: auto: the certificates would be kept in Secrets, and there is no Kubernetes cluster; give a directory with \
             tls.crt, tls.key and ca.crt, or off",
            named()
        ),
        Some(XdsTls::Directory(directory)) => {
            check_directory(directory).with_context(named)?;
            // inotify reports files by the watched path.
            Ok(Some(XdsTls::Directory(std::path::absolute(directory).with_context(named)?)))
        }
        chosen => Ok(chosen.clone()),
    }
}

fn check_directory(directory: &Path) -> anyhow::Result<()> {
    for file in ["tls.crt", "tls.key", "ca.crt"] {
        let file = directory.join(file);
        std::fs::File::open(&file).with_context(|| {
            let (directory, file) = (directory.display(), file.display());
            format!("{directory}: expected a directory with tls.crt, tls.key and ca.crt, or auto, or off; cannot read {file}")
        })?;
    }
    Ok(())
}

/// Returns whether the controller writes to the API server. Outside of a pod, it writes only if a flag enables writing.
fn writes(source: &Source, settings: &SettingsSource) -> anyhow::Result<Writes> {
    let enabled = settings.resolved.settings.process.leader_election.enabled;
    let Source::Cluster { .. } = source else {
        // Controllers with other sources may share the file. A flag applies to this controller only.
        let origin = settings.resolved.origins.get("leaderElection.enabled");
        ensure!(
            !matches!(origin, Some(Origin::Flag(_))),
            "{}: requires a Kubernetes cluster; not allowed with --manifests or --resources",
            settings.named("leaderElection.enabled")
        );
        return Ok(Writes::Never);
    };
    Ok(match enabled {
        Some(false) => Writes::Alone,
        Some(true) => Writes::Elected,
        None if in_own_pod(source) => Writes::Elected,
        None => Writes::Never,
    })
}

/// Returns whether this is a pod of the served Kubernetes cluster.
fn in_own_pod(source: &Source) -> bool {
    matches!(source, Source::Cluster { kubeconfig: None, context: None, .. })
        && std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()
}

/// Returns the host name, which is the name of the pod in a pod.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    values::identifier(name.trim()).unwrap_or_else(|_| "lockgate".to_owned())
}
