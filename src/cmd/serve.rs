//! `lockgate serve`: starts all parts of the controller, and stops them at SIGTERM.

mod fleets;
mod observer;
mod tls;
mod writer_tasks;

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, bail};
use futures::future::BoxFuture;
use lockgate_route::explain::Request;
use lockgate_route::translate::explained::{Answer, RequestDestination};
use lockgate_route::translate::problem::Problems;
use lockgate_xds::protocol::{Timing, Variant};
use lockgate_xds::server::{self, Client, Limits, Registry, ServerError, Stores};
use lockgate_xds::snapshot::{ApiVersion, Store};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::pipeline::{self, Pipeline};
use super::scraping::Scraping;
use super::settings_args::SettingsSource;
use super::{COMMIT, ServeArgs};
use crate::admin::{self, AdminState, Readiness};
use crate::controller::{self, Class, View};
use crate::explain::envoys::Live;
use crate::fleet::FleetId;
use crate::metrics::Metrics;
use crate::replicas::{self, Here, OtherReplicas};
use crate::settings::{Process, ServerOptions, Source, Writes, Xds, XdsTls};
use crate::source::Event;
use crate::status::{AllEnvoys, Inputs};
use crate::telemetry::{self, LogControl};

use fleets::Fleets;
use tls::Certificates;
use writer_tasks::WriterTasks;

/// The number of open files that are reserved for other purposes than xDS connections: sources, the API server, the admin
/// server, and connections that are being closed.
const OTHER_FILES: usize = 256;

/// Serves until SIGTERM or SIGINT.
pub async fn run(args: ServeArgs) -> anyhow::Result<()> {
    let (source, settings, options) = args.resolve()?;
    let log = telemetry::init(options.process.log.format, &options.process.log.level)?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), commit = COMMIT, source = %pipeline::describe(&source), "starting");
    settings.warn_of_hidden();
    let mut parts = Parts::start(source, settings, &options, log).await?;
    parts.run_until_signal().await?;
    parts.stop().await;
    tracing::info!("stopped");
    Ok(())
}

/// The running parts of the controller.
struct Parts {
    /// Becomes true when the process stops.
    stop: watch::Sender<bool>,
    readiness: Readiness,
    pipeline: Pipeline,
    scraping: Scraping,
    writer_tasks: WriterTasks,
    fleets: Fleets,
    certificates: Certificates,
    /// Requests the last good content of Secrets from other replicas.
    kept_secrets: JoinHandle<()>,
    xds: JoinHandle<Result<(), ServerError>>,
    admin: JoinHandle<()>,
}

impl Parts {
    /// Starts all parts. The sockets are opened first, so that a busy address is reported at once.
    async fn start(
        source: Source,
        settings: SettingsSource,
        options: &ServerOptions,
        log: LogControl,
    ) -> anyhow::Result<Self> {
        let process = &options.process;
        let xds_listener = server::listen(process.xds.address).await.with_context(|| settings.named("xds.address"))?;
        let admin_listener =
            admin::listen(process.admin.address).await.with_context(|| settings.named("admin.address"))?;

        let metrics = Metrics::new(COMMIT);
        let (stop, stopping) = watch::channel(false);
        let scraping = Scraping::start(&settings, &metrics, stopping.clone()).await?;
        let named = settings.named("xds.tls");
        // Last good key pairs are sent over TLS only.
        let over_tls = matches!(&process.xds.tls, Some(XdsTls::Auto | XdsTls::Directory(_)));
        let asks_replicas = over_tls && process.xds.peers.is_some();
        // Replicas that do not write have no leader that stores claims.
        let lease = (options.writes != Writes::Never).then(|| process.leader_election.lease.clone());
        let (from, log_control, view) = (source.clone(), log.clone(), View::Envoy);
        let pipeline = Pipeline::start(from, settings, log_control, metrics.clone(), view, asks_replicas, lease)?;
        let readiness = pipeline.readiness.clone();
        let mut writer_tasks = WriterTasks::elect(&source, options, &metrics, stopping.clone()).await?;
        let fleets = Fleets::start(options, pipeline.inspected.clone())?;
        let leader = writer_tasks.leader.clone();
        let certificates = Certificates::start(options, &source, leader, fleets.pairs.clone(), &metrics, &readiness)
            .await
            .context(named)?;

        let registry = Arc::new(Registry::default());
        let here = Here::new(registry.clone(), fleet_stores(pipeline.stores.clone()), pipeline.inspected.clone());
        let (observer, rejected) = observer::LogAndCount::new(metrics.clone());
        let service = server::Service::new(stores(pipeline.stores.clone(), certificates.fleet_uri()), stopping.clone())
            .with_timing(timing(&process.xds))
            .with_identifier(options.identifier.clone())
            .with_observer(Arc::new(observer))
            .with_routes(replicas::routes(here.clone(), over_tls))
            .with_registry(registry.clone());
        let access = certificates.access.clone();
        let xds = tokio::spawn(server::serve_within(limits(&process.xds), xds_listener, access, Arc::new(service)));
        let state = AdminState {
            readiness: readiness.clone(),
            metrics: metrics.clone(),
            scraped_elsewhere: process.metrics.address.is_some(),
            log,
            snapshots: pipeline.snapshots(),
            inspection: pipeline.inspected.clone(),
            settings: pipeline.describe_settings(),
            streams: Box::new(move || registry.describe()),
            live: live(&here, &pipeline, rejected.clone()),
        };
        let admin = tokio::spawn(admin::serve(admin_listener, Arc::new(state), until(stopping)));
        readiness.listening();
        log_addresses(process);

        let others = others(&process.xds, &certificates);
        let kept_secrets = follow_replicas(others.clone().filter(|_| asks_replicas), pipeline.events.clone());
        writer_tasks.start_writers(Inputs {
            inspected: pipeline.inspected.clone(),
            expiring: pipeline.expiring.clone(),
            rejected,
            settings: pipeline.status.clone(),
            envoys: AllEnvoys::new(here, others),
            metrics,
        });
        let kept_secrets = tokio::spawn(kept_secrets);
        Ok(Self { stop, readiness, pipeline, scraping, writer_tasks, fleets, certificates, kept_secrets, xds, admin })
    }

    /// Waits for SIGTERM or SIGINT. The end of any part is an error, because a restart is better than a partial controller.
    async fn run_until_signal(&mut self) -> anyhow::Result<()> {
        let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
        tokio::select! {
            _ = terminate.recv() => tracing::info!("SIGTERM: stopping"),
            _ = interrupt.recv() => tracing::info!("SIGINT: stopping"),
            error = self.pipeline.failed() => return Err(error),
            error = self.certificates.failed() => return Err(error),
            error = self.fleets.failed() => return Err(error),
            error = self.writer_tasks.failed() => return Err(error),
            error = self.scraping.failed() => return Err(error),
            ended = &mut self.kept_secrets => {
                ended.context("the task that asks the other replicas panicked")?;
                bail!("the task that asks the other replicas ended")
            }
            ended = &mut self.xds => {
                ended.context("the xDS server panicked")?.context("the xDS server ended")?;
                bail!("the xDS server ended")
            }
            ended = &mut self.admin => {
                ended.context("the admin server panicked")?;
                bail!("the admin server ended")
            }
        }
        Ok(())
    }

    /// Stops all parts, within 5 s.
    async fn stop(self) {
        self.readiness.stopping();
        self.kept_secrets.abort();
        self.pipeline.stop();
        // Streams end, and connections receive a GOAWAY: Envoys keep their configuration and connect to another replica.
        self.stop.send_replace(true);
        let end = async { tokio::join!(self.writer_tasks.stopped(), self.xds, self.admin) };
        if tokio::time::timeout(std::time::Duration::from_secs(5), end).await.is_err() {
            tracing::warn!("some tasks did not end within 5 s: aborting them");
        }
    }
}

/// Waits until the process stops.
async fn until(mut stopping: watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

/// Returns the timing of streams.
fn timing(settings: &Xds) -> Timing {
    let Xds { gate_timeout, removal_grace, .. } = *settings;
    Timing { gate_timeout, removal_grace, ..Timing::default() }
}

/// Logs the addresses of the servers.
fn log_addresses(settings: &Process) {
    tracing::info!(address = %settings.xds.address, "xDS listens");
    let metrics = if settings.metrics.address.is_none() { " /metrics" } else { "" };
    tracing::info!(address = %settings.admin.address, "admin listens: /healthz /readyz{metrics} /debug/");
}

/// Returns the state of Envoys and the explanations of requests, for the debug pages.
fn live(here: &Here, pipeline: &Pipeline, rejected: watch::Receiver<Problems>) -> Live {
    let (here, events, expiring) = (here.clone(), pipeline.events.clone(), pipeline.expiring.clone());
    let ask = move |target: RequestDestination, request: Request| -> BoxFuture<'static, Option<Vec<Answer>>> {
        let events = events.upgrade();
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            events?.send(Event::Explain(Box::new((target, request)), answer)).await.ok()?;
            answered.await.ok()
        })
    };
    let problems = move || {
        let (rejected, expiring) = (rejected.borrow().clone(), expiring.borrow().clone());
        rejected.into_iter().chain(expiring).collect()
    };
    Live { envoys: Box::new(move || here.envoys()), problems: Box::new(problems), ask: Box::new(ask) }
}

/// Returns the other replicas, if there are any.
fn others(settings: &Xds, certificates: &Certificates) -> Option<OtherReplicas> {
    // In a dual-stack cluster, other pods may use either address of this pod.
    let own = std::env::var("POD_IPS").or_else(|_| std::env::var("POD_IP")).unwrap_or_default();
    let own = own.split(',').filter_map(|address| address.trim().parse().ok()).collect();
    let connector = certificates.connector.clone();
    settings.peers.as_ref().map(|peers| OtherReplicas { address: peers.to_string(), own, connector })
}

/// Requests the last good content of Secrets from the other replicas, forever. Without other replicas, it only waits.
async fn follow_replicas(others: Option<OtherReplicas>, events: mpsc::WeakSender<Event>) {
    match others {
        Some(others) => replicas::kept::follow(others, events).await,
        None => std::future::pending().await,
    }
}

/// Returns the limits of connections. It raises the limit of open files as far as the system permits.
fn limits(settings: &Xds) -> Limits {
    let asked = settings.connections as usize;
    let mut files = getrlimit(Resource::Nofile);
    if files.current != files.maximum {
        let granted = Rlimit { current: files.maximum, ..files };
        if setrlimit(Resource::Nofile, granted).is_ok() {
            files = granted;
        }
    }
    let files = files.current.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
    // Connections whose client is not identified yet need additional files.
    let arriving = Limits::default().arriving.min(files / 8).max(2);
    let possible = files.saturating_sub(OTHER_FILES + arriving);
    if possible < asked {
        tracing::warn!(
            possible,
            asked,
            "fewer xDS connections are possible than configured, because the limit of open files is low"
        );
    }
    let connections = asked.min(possible.max(2));
    Limits { connections, arriving, connection_age: settings.connection_age, ..Limits::default() }
}

/// Selects the store of each client. The first client of a class creates its store. The loop removes the stores of fleets that
/// do not exist. `uri` is the prefix of the URIs in the certificates of fleets.
fn stores(stores: Arc<controller::Stores>, uri: Option<String>) -> Stores {
    Stores::by_client(move |client| {
        let fleet = FleetId::of_client(client.names, client.node, uri.as_deref());
        let class = Class { fleet, view: view(client) };
        Some(stores.get_or_create(class))
    })
}

/// Returns the stores of each fleet, for the acceptance of objects.
fn fleet_stores(stores: Arc<controller::Stores>) -> impl Fn() -> BTreeMap<FleetId, Vec<Arc<Store>>> {
    move || {
        let mut fleets = BTreeMap::<FleetId, Vec<Arc<Store>>>::new();
        for class in stores.classes() {
            fleets.entry(class.fleet.clone()).or_default().extend(stores.get(&class));
        }
        fleets
    }
}

/// Returns the view of a client.
///
/// gRPC clients and servers have their own view, without secrets, and a client whose names lack the role of an Envoy receives no
/// other view. A client that does not identify itself is an Envoy. Small route resources require an Envoy with an aggregated
/// delta stream, because they refer to that stream.
fn view(client: Client<'_>) -> View {
    match client {
        _ if client.node.is_grpc() || !client.roles.envoy => View::Grpc,
        Client { variant: Variant::Delta, aggregated: true, api: ApiVersion::V3, .. } => View::Envoy,
        _ => View::Whole,
    }
}
