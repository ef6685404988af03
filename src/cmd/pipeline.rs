//! What all commands have in common that work on objects: a source, the controller's loop, and the store that it fills.

use std::sync::Arc;

use anyhow::{Context, anyhow};
use lockgate_route::objects::Kind;
use lockgate_route::translate::problem::Problems;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::expiry;
use super::reload::{self, State};
use super::settings_args::SettingsSource;
use crate::admin::{Readiness, Snapshots};
use crate::controller::{Class, Controller, Fleets, Stores, View};
use crate::fleet::FleetId;
use crate::inspection::Inspection;
use crate::metrics::Metrics;
use crate::settings::{Source, Watch};
use crate::source::{self, Event, SourceError};
use crate::status::Chosen;
use crate::telemetry::LogControl;

/// Events that the loop has not taken yet; a source that is faster waits.
const EVENTS: usize = 4096;

/// A source whose objects become snapshots.
pub(super) struct Pipeline {
    /// The stores that the snapshots are published in.
    pub stores: Arc<Stores>,
    /// The view that always exists.
    primary: View,
    /// Which first lists are still missing.
    pub readiness: Readiness,
    /// What the loop knows, for the debug pages.
    pub inspected: watch::Receiver<Arc<Inspection>>,
    /// Certificates in use that end soon.
    pub expiring: watch::Receiver<Problems>,
    /// The settings that hold now.
    pub settings: watch::Receiver<Arc<State>>,
    /// What of them is about the status of objects.
    pub status: watch::Receiver<Chosen>,
    /// Where the loop takes events from.
    pub events: mpsc::WeakSender<Event>,
    source: JoinHandle<Result<(), SourceError>>,
    reload: JoinHandle<Result<(), SourceError>>,
    expiry: JoinHandle<()>,
    loop_end: mpsc::Receiver<std::io::Error>,
}

impl Pipeline {
    /// Starts both, the loop on a thread of its own. `primary` is the view that always exists. `asks_replicas`:
    /// [`Event::Kept`] comes to `events` once other replicas were asked for the last good content of Secrets.
    pub fn start(
        source: Source,
        settings: SettingsSource,
        log: LogControl,
        metrics: Metrics,
        primary: View,
        asks_replicas: bool,
    ) -> anyhow::Result<Self> {
        let readiness = Readiness::awaiting(Kind::ALL.map(Kind::as_str));
        let (inspection, inspected) = watch::channel(Arc::new(Inspection::default()));
        let (events, received) = mpsc::channel(EVENTS);
        let (waker, inbox) = (events.downgrade(), events.downgrade());
        // A full queue has events, and each pass builds the requested views that are missing.
        let wake = move || {
            let _ = waker.upgrade().map(|events| events.try_send(Event::Wanted));
        };
        let fleets = Fleets::shared(primary, Box::new(wake));
        let stores = fleets.stores();
        let state = State { resolved: settings.resolved.clone(), file: settings.name(), fault: None };
        let (state, settings_state) = watch::channel(Arc::new(state));
        let first = settings.resolved.settings.clone();
        let (status, settings_status) = watch::channel(Chosen::of(&first));
        let controller = Controller::new(first.route, fleets, readiness.clone(), metrics.clone(), inspection)
            .with_objects_from_operator(matches!(source, Source::Manifests(_)))
            .with_replicas(asks_replicas && !matches!(source, Source::Resources(_)));
        let (loop_ended, loop_end) = mpsc::channel::<std::io::Error>(1);
        std::thread::Builder::new()
            .name("controller".into())
            .spawn(move || {
                // Dropped when the loop ends, also when it panics.
                let ended = loop_ended;
                if let Err(error) = controller.run(received) {
                    let _ = ended.try_send(error);
                }
            })
            .context("cannot start the controller's thread")?;
        let translated = !matches!(source, Source::Resources(_));
        if !translated && settings.file.is_some() {
            tracing::warn!(
                "with --resources, only the settings of the process apply: Envoy resources are served unchanged"
            );
        }
        let receivers = reload::Receivers { events: events.clone(), translated, state, status, log };
        let reload = tokio::spawn(reload::follow(settings, receivers, metrics.clone()));
        let (problems, expiring) = watch::channel(Problems::default());
        let expiry = tokio::spawn(expiry::watch(inspected.clone(), settings_state.clone(), problems, metrics.clone()));
        let source = tokio::spawn(watch_source(source, metrics, events));
        let (settings, status) = (settings_state, settings_status);
        Ok(Self {
            stores,
            primary,
            readiness,
            inspected,
            expiring,
            settings,
            status,
            events: inbox,
            source,
            reload,
            expiry,
            loop_end,
        })
    }

    /// Why one of the two has ended; while both work, this waits.
    pub async fn failed(&mut self) -> anyhow::Error {
        tokio::select! {
            ended = &mut self.source => match ended.context("the source panicked") {
                Ok(Ok(())) => anyhow!("the source ended by itself"),
                Ok(Err(error)) => error.into(),
                Err(error) => error,
            },
            ended = &mut self.reload => match ended.context("the watch of the settings file panicked") {
                Ok(Ok(())) => anyhow!("the watch of the settings file ended by itself"),
                Ok(Err(error)) => anyhow::Error::from(error).context("--config"),
                Err(error) => error,
            },
            _ = &mut self.expiry => anyhow!("the watch of certificates ended by itself"),
            error = self.loop_end.recv() => match error {
                Some(error) => anyhow::Error::from(error).context("the controller's loop"),
                None => anyhow!("the controller's loop ended by itself"),
            },
        }
    }

    /// The settings in words, for the debug pages.
    pub fn describe_settings(&self) -> Box<dyn Fn() -> String + Send + Sync> {
        let settings = self.settings.clone();
        Box::new(move || settings.borrow().describe())
    }

    /// Returns the newest snapshot of each view of each fleet, for the debug pages. Those of the shared fleet are first, and its
    /// primary view before all others.
    pub fn snapshots(&self) -> Box<dyn Fn() -> Snapshots + Send + Sync> {
        let (stores, primary) = (self.stores.clone(), self.primary);
        Box::new(move || {
            let fleets = stores.classes().into_iter().filter(|class| class.view == primary).map(|class| class.fleet);
            let classes = fleets.flat_map(|fleet| View::ALL.map(|view| Class { fleet: fleet.clone(), view }));
            let mut classes: Vec<Class> = classes.collect();
            classes.sort_by_key(|class| (class.fleet != FleetId::shared(), class.fleet.clone(), class.view != primary));
            classes.into_iter().map(|class| (class.to_string(), stores.newest(&class))).collect()
        })
    }

    /// Takes nothing new from the source any more.
    pub fn stop(&self) {
        self.source.abort();
        self.reload.abort();
        self.expiry.abort();
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

async fn watch_source(source: Source, metrics: Metrics, events: mpsc::Sender<Event>) -> Result<(), SourceError> {
    match source {
        Source::Manifests(directory) => source::directory::watch_manifests(directory, events).await,
        Source::Resources(directory) => source::directory::watch_resources(directory, events).await,
        Source::Cluster { kubeconfig, context, watch: Watch { namespaces, gateway_api } } => {
            let client = source::cluster::client(kubeconfig, context).await?;
            let namespaces = (!namespaces.is_empty()).then_some(namespaces);
            let options = source::cluster::WatchOptions { namespaces, gateway_api };
            source::cluster::watch(client, options, metrics, events).await
        }
    }
}
