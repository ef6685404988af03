//! What all commands have in common that work on objects: a source, the controller's loop, and the store that it fills.

use std::sync::Arc;

use anyhow::{Context, anyhow};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::admin::Readiness;
use crate::controller::{Controller, Views};
use crate::inspection::Inspection;
use crate::metrics::Metrics;
use crate::settings::{Settings, Source};
use crate::snapshot::Store;
use crate::source::objects::Kind;
use crate::source::{self, Event, SourceError};

/// Events that the loop has not taken yet; a source that is faster waits.
const EVENTS: usize = 4096;

/// A source whose objects become snapshots.
pub(super) struct Pipeline {
    /// Where the snapshots for Envoys are published.
    pub store: Arc<Store>,
    /// Where those for gRPC clients without a proxy are.
    pub grpc: Arc<Store>,
    /// Which first lists are still missing.
    pub readiness: Readiness,
    /// What the loop knows, for the debug pages.
    pub inspected: watch::Receiver<Arc<Inspection>>,
    source: JoinHandle<Result<(), SourceError>>,
    loop_end: mpsc::Receiver<()>,
}

impl Pipeline {
    /// Starts both, the loop on a thread of its own.
    pub fn start(source: Source, settings: Settings, metrics: Metrics) -> anyhow::Result<Self> {
        let readiness = Readiness::awaiting(Kind::ALL.map(Kind::as_str));
        let views = Views::default();
        let (store, grpc) = (views.envoy.clone(), views.grpc.clone());
        let (inspection, inspected) = watch::channel(Arc::new(Inspection::default()));
        let (events, received) = mpsc::channel(EVENTS);
        let controller = Controller::new(settings, views, readiness.clone(), metrics, inspection);
        let (loop_ended, loop_end) = mpsc::channel::<()>(1);
        std::thread::Builder::new()
            .name("controller".into())
            .spawn(move || {
                // Dropped when the loop ends, also when it panics.
                let _ended = loop_ended;
                controller.run(received);
            })
            .context("cannot start the controller's thread")?;
        let source = tokio::spawn(watch_source(source, events));
        Ok(Self { store, grpc, readiness, inspected, source, loop_end })
    }

    /// Why one of the two has ended; while both work, this waits.
    pub async fn failed(&mut self) -> anyhow::Error {
        tokio::select! {
            ended = &mut self.source => match ended.context("the source panicked") {
                Ok(Ok(())) => anyhow!("the source ended by itself"),
                Ok(Err(error)) => error.into(),
                Err(error) => error,
            },
            _ = self.loop_end.recv() => anyhow!("the controller's loop ended by itself"),
        }
    }

    /// Takes nothing new from the source any more.
    pub fn stop(&self) {
        self.source.abort();
    }
}

/// `source` in words, for the log.
pub(super) fn describe(source: &Source) -> String {
    match source {
        Source::Cluster { kubeconfig: None, .. } => "the Kubernetes cluster of this pod".into(),
        Source::Cluster { kubeconfig: Some(file), .. } => format!("the Kubernetes cluster of {}", file.display()),
        Source::Manifests(directory) => format!("Kubernetes YAML in {}", directory.display()),
        Source::Resources(directory) => format!("Envoy resources in {}", directory.display()),
    }
}

async fn watch_source(source: Source, events: mpsc::Sender<Event>) -> Result<(), SourceError> {
    match source {
        Source::Manifests(directory) => source::directory::watch_manifests(directory, events).await,
        Source::Resources(directory) => source::directory::watch_resources(directory, events).await,
        Source::Cluster { kubeconfig, context, namespaces } => {
            let client = source::cluster::client(kubeconfig, context).await?;
            let namespaces = (!namespaces.is_empty()).then_some(namespaces);
            source::cluster::watch(client, source::cluster::WatchOptions { namespaces }, events).await
        }
    }
}
