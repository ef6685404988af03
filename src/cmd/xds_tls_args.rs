//! The flags that say who may open an xDS stream, and by which certificates.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::Args;

use super::values;
use crate::settings::{Source, XdsSecrets, XdsTls};

/// A key pair has to be renewed, and to reach all mounts, well within its life: at a third of it.
const PAUSES: u32 = 6;
/// An authority has to outlive what it issues, and a rotation in three steps.
const LIVES: u32 = 4;

// No docstring: see `object_args`.

#[allow(missing_docs)]
#[derive(Debug, Args)]
pub struct XdsTlsArgs {
    /// By which certificates Envoy and the controller know each other. `auto`: the controller has an authority of its own,
    /// and keeps it and the key pairs in Secrets; a directory: its files tls.crt, tls.key and ca.crt, taken up anew when
    /// they change; `off`: none, in clear text to everybody [default: auto in a pod, else clear text to this machine only]
    #[arg(long, value_name = "auto|off|DIR", help_heading = "xDS")]
    xds_tls: Option<PathBuf>,

    /// With `--xds-tls auto`: the Secrets are PREFIX-ca, PREFIX-server and PREFIX-envoy, in the namespace of this pod
    #[arg(long, value_name = "PREFIX", default_value = "lockgate-xds", value_parser = values::object_name)]
    #[arg(help_heading = "xDS")]
    xds_secrets: String,

    /// With `--xds-tls auto`: the Service by which Envoy finds the controller
    #[arg(long, value_name = "NAME", default_value = "lockgate", value_parser = values::object_name)]
    #[arg(help_heading = "xDS")]
    xds_service: String,

    /// With `--xds-tls auto`: how long a key pair is good; it is renewed when a third of that is left [default: 90 days]
    #[arg(long, value_name = "TIME", default_value = "2160h", value_parser = values::timeout, help_heading = "xDS")]
    #[arg(hide_default_value = true, hide_short_help = true)]
    xds_certificate_lifetime: Duration,

    /// With `--xds-tls auto`: how long the authority is good; it is replaced when a third of that is left [default: 10
    /// years]
    #[arg(long, value_name = "TIME", default_value = "87600h", value_parser = values::timeout, help_heading = "xDS")]
    #[arg(hide_default_value = true, hide_short_help = true)]
    xds_ca_lifetime: Duration,

    /// With `--xds-tls auto`: how long a change of a Secret may take to reach the mounts of all pods; a new authority
    /// waits so long before it issues, and the old one before it goes
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = values::timeout, help_heading = "xDS")]
    #[arg(hide_short_help = true)]
    xds_rotation_pause: Duration,
}

impl XdsTlsArgs {
    /// Who may open a stream to a controller with objects of `source`.
    pub fn resolve(self, source: &Source) -> anyhow::Result<XdsTls> {
        let cluster = matches!(source, Source::Cluster { .. });
        let own_cluster = matches!(source, Source::Cluster { kubeconfig: None, context: None, .. });
        let in_a_pod = || std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
        match self.xds_tls.clone() {
            None if own_cluster && in_a_pod() => self.auto(),
            None => Ok(XdsTls::LoopbackOnly),
            Some(value) if value == Path::new("off") => Ok(XdsTls::Off),
            Some(value) if value == Path::new("auto") && cluster => self.auto(),
            Some(value) if value == Path::new("auto") => bail!(
                "--xds-tls auto: the certificates would be kept in Secrets, and there is no Kubernetes cluster; give a \
                 directory with tls.crt, tls.key and ca.crt, or off"
            ),
            Some(value) => directory(value),
        }
    }

    fn auto(self) -> anyhow::Result<XdsTls> {
        let (pause, certificate, authority) =
            (self.xds_rotation_pause, self.xds_certificate_lifetime, self.xds_ca_lifetime);
        ensure!(
            certificate >= pause * PAUSES,
            "--xds-certificate-lifetime {certificate:?}: expected at least {PAUSES} times --xds-rotation-pause ({pause:?})"
        );
        ensure!(
            authority >= certificate * LIVES,
            "--xds-ca-lifetime {authority:?}: expected at least {LIVES} times --xds-certificate-lifetime ({certificate:?})"
        );
        Ok(XdsTls::Auto(XdsSecrets {
            prefix: self.xds_secrets,
            service: self.xds_service,
            certificate_lifetime: certificate,
            authority_lifetime: authority,
            pause,
        }))
    }
}

fn directory(directory: PathBuf) -> anyhow::Result<XdsTls> {
    for file in ["tls.crt", "tls.key", "ca.crt"] {
        let file = directory.join(file);
        std::fs::File::open(&file).with_context(|| {
            let (directory, file) = (directory.display(), file.display());
            format!(
                "--xds-tls {directory}: expected a directory with tls.crt, tls.key and ca.crt, or auto, or off; cannot \
                 read {file}"
            )
        })?;
    }
    // inotify names files by the path that is watched.
    let absolute = std::path::absolute(&directory);
    Ok(XdsTls::Directory(absolute.with_context(|| format!("--xds-tls {}", directory.display()))?))
}
