//! The server of `/metrics` at a separate address, if configured, with hot reload of its certificates.

use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context, anyhow};
use rustls::ServerConfig;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::settings_args::SettingsSource;
use crate::admin::{self, scraping};
use crate::metrics::Metrics;
use crate::pki::directory::{Trust, follow, read};
use crate::pki::{self, Material};

/// The tasks of the server and of its certificate. Empty if `/metrics` has no separate address.
#[derive(Default)]
pub(super) struct Scraping {
    tasks: Vec<JoinHandle<anyhow::Result<()>>>,
}

impl Scraping {
    /// Starts serving `metrics`, until `stopping` is true.
    ///
    /// Errors: the address is not available, or the files for TLS are unusable.
    pub async fn start(
        settings: &SettingsSource,
        metrics: &Metrics,
        mut stopping: watch::Receiver<bool>,
    ) -> anyhow::Result<Self> {
        let chosen = &settings.resolved.settings.process.metrics;
        let Some(address) = chosen.address else { return Ok(Self::default()) };
        let mut tasks = Vec::new();
        let configs = match &chosen.tls {
            None => None,
            Some(directory) => {
                let named = || settings.named("metrics.tls");
                // inotify reports files by the watched path.
                let directory = std::path::absolute(directory).with_context(named)?;
                let first = read(&directory, Trust::IfAny).await.map_err(anyhow::Error::msg).with_context(named)?;
                let unusable = |problem| anyhow!("{}/{problem}", directory.display());
                let (configs, current) = watch::channel(config(&first).map_err(unusable).with_context(named)?);
                let (supply, supplied) = watch::channel(None);
                tasks.push(tokio::spawn(async {
                    follow(directory, Trust::IfAny, supply).await;
                    Err(anyhow!("the watch of the files of metrics.tls ended"))
                }));
                tasks.push(tokio::spawn(reload(first, supplied, configs)));
                Some(current)
            }
        };
        let listener = admin::bind(address).await.with_context(|| settings.named("metrics.address"))?;
        tracing::info!(%address, tls = configs.is_some(), "metrics listen: /metrics");
        let server = scraping::serve(listener, configs, metrics.clone(), async move {
            let _ = stopping.wait_for(|stopping| *stopping).await;
        });
        tasks.push(tokio::spawn(async {
            server.await;
            Ok(())
        }));
        Ok(Self { tasks })
    }

    /// Waits until a task ends, and returns the reason. Waits forever without tasks.
    pub async fn failed(&mut self) -> anyhow::Error {
        if self.tasks.is_empty() {
            return std::future::pending().await;
        }
        let (ended, ..) = futures::future::select_all(&mut self.tasks).await;
        match ended.context("a part of the server for metrics panicked") {
            Ok(Ok(())) => anyhow!("the server for metrics ended unexpectedly"),
            Ok(Err(error)) | Err(error) => error,
        }
    }
}

impl Drop for Scraping {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

fn config(material: &Material) -> Result<Arc<ServerConfig>, String> {
    let Material { certificate, key, authorities } = material;
    let config = scraping::tls_config(certificate, key, authorities).map_err(|fault| fault.to_string())?;
    let (end, _) = pki::not_after(certificate).map_err(|problem| format!("tls.crt: {problem}"))?;
    if end < SystemTime::now() {
        tracing::error!(expired = %pki::timestamp(end), "the certificate of /metrics has expired; no scraper will accept it");
    }
    Ok(config)
}

/// Applies supplied certificates if they are usable. Clients that need a certificate still need it after the removal of ca.crt.
async fn reload(
    mut current: Material,
    mut supplied: watch::Receiver<Option<Result<Material, String>>>,
    configs: watch::Sender<Arc<ServerConfig>>,
) -> anyhow::Result<()> {
    while supplied.changed().await.is_ok() {
        let Some(supply) = supplied.borrow_and_update().clone() else { continue };
        let applied = supply.and_then(|material| {
            if material.authorities.is_empty() && !current.authorities.is_empty() {
                return Err("ca.crt: the file is missing, and clients still need a certificate".to_owned());
            }
            Ok((config(&material)?, material))
        });
        match applied {
            Ok((_, material)) if material == current => {}
            Ok((config, material)) => {
                configs.send_replace(config);
                current = material;
                tracing::info!("reloaded the certificates of /metrics; open connections continue");
            }
            Err(problem) => {
                tracing::error!(
                    "new certificates of /metrics are unusable: {problem}; the previous certificates stay in use"
                )
            }
        }
    }
    Err(anyhow!("the watch of the files of metrics.tls ended"))
}
