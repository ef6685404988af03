//! The common parts of all commands that read objects: a source, the controller's loop, and its stores.

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
use crate::source::claims::ClaimsPlace;
use crate::source::directory::STANDARD_INPUT;
use crate::source::{self, Event, SourceError};
use crate::status::WriterSettings;
use crate::telemetry::LogControl;

/// The maximum number of queued events. A source that is faster waits.
const EVENT_CAPACITY: usize = 4096;

/// A source, and the loop that turns its objects into snapshots.
pub(super) struct Pipeline {
    /// The stores with the published snapshots.
    pub stores: Arc<Stores>,
    /// The view that always exists.
    primary: View,
    /// The initial lists that are still missing.
    pub readiness: Readiness,
    /// The state of the loop, for the debug pages.
    pub inspected: watch::Receiver<Arc<Inspection>>,
    /// The problems of served certificates that expire soon.
    pub expiring: watch::Receiver<Problems>,
    /// The effective settings.
    pub settings: watch::Receiver<Arc<State>>,
    /// The settings of the status writers.
    pub status: watch::Receiver<WriterSettings>,
    /// The queue of events for the loop.
    pub events: mpsc::WeakSender<Event>,
    source: JoinHandle<Result<(), SourceError>>,
    reload: JoinHandle<Result<(), SourceError>>,
    expiry: JoinHandle<()>,
    loop_end: mpsc::Receiver<std::io::Error>,
}

impl Pipeline {
    /// Starts the source, and the loop on a separate thread. `primary` is the view that always exists. With `asks_replicas`, the
    /// loop waits for [`Event::Kept`] with the last good content of Secrets. `lease` identifies the installation whose claims of hosts are
    /// read. Without it, there are none.
    pub fn start(
        source: Source,
        settings: SettingsSource,
        log: LogControl,
        metrics: Metrics,
        primary: View,
        asks_replicas: bool,
        lease: Option<String>,
    ) -> anyhow::Result<Self> {
        let readiness = Readiness::awaiting(Kind::ALL.map(Kind::as_str));
        let (inspection, inspected) = watch::channel(Arc::new(Inspection::default()));
        let (events, received) = mpsc::channel(EVENT_CAPACITY);
        let (waker, inbox) = (events.downgrade(), events.downgrade());
        // If the queue is full, the next pass of the loop builds the missing views.
        let wake = move || {
            let _ = waker.upgrade().map(|events| events.try_send(Event::ViewRequested));
        };
        let fleets = Fleets::shared(primary, Box::new(wake));
        let stores = fleets.stores();
        let state = State { resolved: settings.resolved.clone(), file: settings.name(), fault: None };
        let (state, settings_state) = watch::channel(Arc::new(state));
        let first = settings.resolved.settings.clone();
        let (status, settings_status) = watch::channel(WriterSettings::new(&first));
        let controller = Controller::new(first.route, fleets, readiness.clone(), metrics.clone(), inspection)
            .with_objects_from_operator(matches!(source, Source::Manifests(_)))
            .with_replicas(asks_replicas && !matches!(source, Source::Resources(_)));
        let loop_end = spawn_loop(controller, received)?;
        let translated = !matches!(source, Source::Resources(_));
        if !translated && settings.file.is_some() {
            tracing::warn!(
                "with --resources, only the settings of the process are effective: Envoy resources are served unchanged"
            );
        }
        let receivers = reload::Receivers { events: events.clone(), translated, state, status, log };
        let reload = tokio::spawn(reload::follow(settings, receivers, metrics.clone()));
        let (problems, expiring) = watch::channel(Problems::default());
        let expiry = tokio::spawn(expiry::watch(inspected.clone(), settings_state.clone(), problems, metrics.clone()));
        let source = tokio::spawn(watch_source(source, lease, metrics, events));
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

    /// Waits until a part ends, and returns the reason.
    pub async fn failed(&mut self) -> anyhow::Error {
        tokio::select! {
            ended = &mut self.source => match ended.context("the source panicked") {
                Ok(Ok(())) => anyhow!("the source ended unexpectedly"),
                Ok(Err(error)) => error.into(),
                Err(error) => error,
            },
            ended = &mut self.reload => match ended.context("the watch of the settings file panicked") {
                Ok(Ok(())) => anyhow!("the watch of the settings file ended unexpectedly"),
                Ok(Err(error)) => anyhow::Error::from(error).context("--config"),
                Err(error) => error,
            },
            _ = &mut self.expiry => anyhow!("the watch of certificates ended unexpectedly"),
            error = self.loop_end.recv() => match error {
                Some(error) => anyhow::Error::from(error).context("the controller's loop"),
                None => anyhow!("the controller's loop ended unexpectedly"),
            },
        }
    }

    /// Returns a function that describes the settings, for the debug pages.
    pub fn describe_settings(&self) -> Box<dyn Fn() -> String + Send + Sync> {
        let settings = self.settings.clone();
        Box::new(move || settings.borrow().describe())
    }

    /// Returns a function for the debug pages that returns the newest snapshot of each view of each fleet. The shared fleet is
    /// first, and within a fleet the primary view.
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

    /// Stops the source. The published snapshots stay.
    pub fn stop(&self) {
        self.source.abort();
        self.reload.abort();
        self.expiry.abort();
    }
}

/// Runs the loop on a separate thread. The channel closes when the loop ends or panics, after the error, if there is one.
fn spawn_loop(controller: Controller, events: mpsc::Receiver<Event>) -> anyhow::Result<mpsc::Receiver<std::io::Error>> {
    let (ended, loop_end) = mpsc::channel(1);
    let run = move || {
        if let Err(error) = controller.run(events) {
            let _ = ended.try_send(error);
        }
    };
    let thread = std::thread::Builder::new().name("controller".into());
    thread.spawn(run).context("cannot start the controller's thread")?;
    Ok(loop_end)
}

/// Describes `source` for the log.
pub(super) fn describe(source: &Source) -> String {
    match source {
        Source::Cluster { kubeconfig: None, context: None, .. } => "the Kubernetes cluster of this pod".into(),
        Source::Cluster { kubeconfig: None, context: Some(context), .. } => {
            format!("the Kubernetes cluster of {context}")
        }
        Source::Cluster { kubeconfig: Some(file), .. } => format!("the Kubernetes cluster of {}", file.display()),
        Source::Manifests(path) if path.as_os_str() == STANDARD_INPUT => "Kubernetes YAML of standard input".into(),
        Source::Manifests(directory) => format!("Kubernetes YAML in {}", directory.display()),
        Source::Resources(directory) => format!("Envoy resources in {}", directory.display()),
    }
}

/// Watches the source, and sends its events to the loop.
async fn watch_source(
    source: Source,
    lease: Option<String>,
    metrics: Metrics,
    events: mpsc::Sender<Event>,
) -> Result<(), SourceError> {
    match source {
        Source::Manifests(directory) => source::directory::watch_manifests(directory, events).await,
        Source::Resources(directory) => source::directory::watch_resources(directory, events).await,
        Source::Cluster { kubeconfig, context, watch: Watch { namespaces, gateway_api } } => {
            let client = source::cluster::client(kubeconfig, context).await?;
            let namespaces = (!namespaces.is_empty()).then_some(namespaces);
            let claims = lease.map(|lease| ClaimsPlace::new(source::cluster::own_namespace(&client), &lease));
            let options = source::cluster::WatchOptions { namespaces, gateway_api, claims };
            source::cluster::watch(client, options, metrics, events).await
        }
    }
}
