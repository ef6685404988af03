//! Dedicated fleets: the template of their pods, and the Gateways that need a key pair.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::channel::send_if_changed;
use crate::inspection::Inspection;
use crate::pki;
use crate::settings::{ServerOptions, XdsTls};

/// The Gateways with dedicated fleets.
pub(super) struct Fleets {
    /// The Gateways that need a key pair.
    pub pairs: watch::Receiver<pki::DedicatedFleets>,
    task: Option<JoinHandle<()>>,
}

impl Fleets {
    /// Follows the Gateways, if the controller creates Envoys for them.
    ///
    /// Errors: the certificates of xDS do not come from the controller.
    pub fn start(options: &ServerOptions, inspected: watch::Receiver<Arc<Inspection>>) -> anyhow::Result<Self> {
        let Some(template) = &options.process.fleet_template else {
            return Ok(Self { pairs: watch::channel(pki::DedicatedFleets::Off).1, task: None });
        };
        if options.process.xds.tls != Some(XdsTls::Auto) {
            let file: &PathBuf = template;
            bail!(
                "gateway.dedicatedFleets.template {}: needs xds.tls auto, because each fleet has its own key pair",
                file.display()
            );
        }
        let (known, pairs) = watch::channel(pki::DedicatedFleets::Unknown);
        Ok(Self { pairs, task: Some(tokio::spawn(follow(inspected, known))) })
    }

    /// Waits until the task ends, and returns the reason. Waits forever without a task.
    pub async fn failed(&mut self) -> anyhow::Error {
        let Some(task) = &mut self.task else { return std::future::pending().await };
        match task.await.context("the task that follows the fleets panicked") {
            Ok(()) => anyhow!("the task that follows the fleets ended"),
            Err(error) => error,
        }
    }
}

impl Drop for Fleets {
    fn drop(&mut self) {
        self.task.iter().for_each(JoinHandle::abort);
    }
}

/// Sends the Gateways with fleets to `known` whenever they change.
async fn follow(mut inspected: watch::Receiver<Arc<Inspection>>, known: watch::Sender<pki::DedicatedFleets>) {
    let mut last = None;
    loop {
        let inspection = inspected.borrow_and_update().clone();
        let is_new = last.as_ref().is_none_or(|last| !Arc::ptr_eq(last, &inspection.dedicated));
        if inspection.complete && is_new {
            let fleets = pki::DedicatedFleets::Known(Arc::new(inspection.dedicated.fleets.clone()));
            // The Secrets do not depend on refused Gateways.
            send_if_changed(&known, fleets);
            last = Some(inspection.dedicated.clone());
        }
        if inspected.changed().await.is_err() {
            return;
        }
    }
}
