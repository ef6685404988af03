//! `/metrics` at an address of its own, if the settings say one, with certificates that are followed.

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

/// The server and who keeps its certificate; neither, if metrics are where the rest is.
#[derive(Default)]
pub(super) struct Scraping {
    tasks: Vec<JoinHandle<anyhow::Result<()>>>,
}

impl Scraping {
    /// Begins to serve `metrics`, until `stopping` is true.
    ///
    /// Errors: the address cannot be listened on; the files for TLS are of no use.
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
                // inotify names files by the path that is watched.
                let directory = std::path::absolute(directory).with_context(named)?;
                let first = read(&directory, Trust::IfAny).await.map_err(anyhow::Error::msg).with_context(named)?;
                let of_no_use = |problem| anyhow!("{}/{problem}", directory.display());
                let (configs, taken) = watch::channel(config(&first).map_err(of_no_use).with_context(named)?);
                let (supply, supplied) = watch::channel(None);
                tasks.push(tokio::spawn(async {
                    follow(directory, Trust::IfAny, supply).await;
                    Err(anyhow!("nobody follows the files of metrics.tls any more"))
                }));
                tasks.push(tokio::spawn(take(first, supplied, configs)));
                Some(taken)
            }
        };
        let listener = admin::take(address).await.with_context(|| settings.named("metrics.address"))?;
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

    /// Why it has ended; while it works, or has nothing to do, this waits.
    pub async fn failed(&mut self) -> anyhow::Error {
        if self.tasks.is_empty() {
            return std::future::pending().await;
        }
        let (ended, ..) = futures::future::select_all(&mut self.tasks).await;
        match ended.context("a part of the server for metrics panicked") {
            Ok(Ok(())) => anyhow!("the server for metrics ended by itself"),
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

/// Takes up what is supplied, if it is of use. Once clients have to show a certificate that stays so: a file that has gone
/// opens no door.
async fn take(
    mut current: Material,
    mut supplied: watch::Receiver<Option<Result<Material, String>>>,
    configs: watch::Sender<Arc<ServerConfig>>,
) -> anyhow::Result<()> {
    while supplied.changed().await.is_ok() {
        let Some(told) = supplied.borrow_and_update().clone() else { continue };
        let taken = told.and_then(|material| {
            if material.authorities.is_empty() && !current.authorities.is_empty() {
                return Err("ca.crt: it has gone, and clients still have to show a certificate".to_owned());
            }
            Ok((config(&material)?, material))
        });
        match taken {
            Ok((_, material)) if material == current => {}
            Ok((config, material)) => {
                configs.send_replace(config);
                current = material;
                tracing::info!("new certificates of /metrics are in use; open connections go on");
            }
            Err(problem) => tracing::error!(
                "new certificates of /metrics are of no use: {problem}; what was there before stays in use"
            ),
        }
    }
    Err(anyhow!("nobody follows the files of metrics.tls any more"))
}
