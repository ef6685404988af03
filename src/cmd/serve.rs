//! `lockgate serve`: puts the parts together, waits for the end.

mod fleets;
mod observer;
mod tls;
mod writing;

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, bail};
use futures::future::BoxFuture;
use lockgate_route::explain::Request;
use lockgate_route::translate::explained::{Answer, Target};
use lockgate_route::translate::problem::Problems;
use lockgate_xds::server::{self, Client, Limits, Registry, Stores, Timing, Variant};
use lockgate_xds::snapshot::{ApiVersion, Store};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch};

use super::pipeline::{self, Pipeline};
use super::scraping::Scraping;
use super::{COMMIT, ServeArgs};
use crate::admin::{self, AdminState};
use crate::controller::{self, Class, View};
use crate::explain::envoys::Live;
use crate::fleet::FleetId;
use crate::metrics::Metrics;
use crate::replicas::{self, Here, Others};
use crate::settings::{Process, Xds, XdsTls};
use crate::source::Event;
use crate::status::AllEnvoys;
use crate::telemetry;

use fleets::Fleets;
use tls::Certificates;
use writing::{Known, Writing};

/// Open files that are no xDS connections, or are about to be closed: sources, the API server, the admin server.
const OTHER_FILES: usize = 256;

/// Serves until SIGTERM or SIGINT.
pub async fn run(args: ServeArgs) -> anyhow::Result<()> {
    let (source, settings, options) = args.resolve()?;
    let Process { xds: xds_settings, admin: admin_settings, log, .. } = &options.process;
    let log = telemetry::init(log.format, &log.level)?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), commit = COMMIT, source = %pipeline::describe(&source), "starting");
    settings.warn_of_hidden();
    let xds_listener = server::listen(xds_settings.address).await.with_context(|| settings.named("xds.address"))?;
    let admin_listener =
        admin::listen(admin_settings.address).await.with_context(|| settings.named("admin.address"))?;

    let metrics = Metrics::new(COMMIT);
    let (stop, stopping) = watch::channel(false);
    let mut scraping = Scraping::start(&settings, &metrics, stopping.clone()).await?;
    let named = settings.named("xds.tls");
    // Last good key pairs are told over TLS alone.
    let over_tls = matches!(&xds_settings.tls, Some(XdsTls::Auto | XdsTls::Directory(_)));
    let asks_replicas = over_tls && xds_settings.peers.is_some();
    let mut pipeline =
        Pipeline::start(source.clone(), settings, log.clone(), metrics.clone(), View::Envoy, asks_replicas)?;
    let readiness = pipeline.readiness.clone();
    let mut writing = Writing::elect(&source, &options, &metrics, stopping.clone()).await?;
    let mut fleets = Fleets::start(&options, pipeline.inspected.clone())?;
    let mut certificates =
        Certificates::start(&options, &source, writing.leader.clone(), fleets.pairs.clone(), &metrics, &readiness)
            .await
            .context(named)?;
    let registry = Arc::new(Registry::default());

    let here = Here::new(registry.clone(), fleet_stores(pipeline.stores.clone()), pipeline.inspected.clone());
    let (observer, rejected) = observer::LogAndCount::new(metrics.clone(), registry.clone());
    let state = Arc::new(AdminState {
        readiness: readiness.clone(),
        metrics: metrics.clone(),
        scraped_elsewhere: options.process.metrics.address.is_some(),
        log,
        snapshots: pipeline.snapshots(),
        inspection: pipeline.inspected.clone(),
        settings: pipeline.describe_settings(),
        streams: {
            let registry = registry.clone();
            Box::new(move || registry.describe())
        },
        live: live(&here, &pipeline, rejected.clone()),
    });
    let (gate_timeout, removal_grace) = (xds_settings.gate_timeout, xds_settings.removal_grace);
    let timing = Timing { gate_timeout, removal_grace, ..Timing::default() };
    let service = server::Service::new(stores(pipeline.stores.clone(), certificates.fleet_uri()), stopping.clone())
        .with_timing(timing)
        .with_identifier(options.identifier.clone())
        .with_observer(Arc::new(observer))
        .with_routes(replicas::routes(here.clone(), over_tls))
        .with_registry(registry);
    let service = Arc::new(service);
    let mut xds =
        tokio::spawn(server::serve_within(limits(xds_settings), xds_listener, certificates.access.clone(), service));
    let mut shutdown = stopping.clone();
    let mut admin = tokio::spawn(admin::serve(admin_listener, state, async move {
        let _ = shutdown.wait_for(|stopping| *stopping).await;
    }));
    readiness.listening();
    tracing::info!(address = %xds_settings.address, "xDS listens");
    let metrics_too = if options.process.metrics.address.is_none() { " /metrics" } else { "" };
    tracing::info!(address = %admin_settings.address, "admin listens: /healthz /readyz{metrics_too} /debug/");

    let others = others(xds_settings, &certificates);
    let asked = others.clone().filter(|_| asks_replicas);
    let mut following = tokio::spawn(follow_replicas(asked, pipeline.events.clone()));
    writing.begin(Known {
        inspected: pipeline.inspected.clone(),
        expiring: pipeline.expiring.clone(),
        rejected,
        settings: pipeline.status.clone(),
        envoys: AllEnvoys::new(here, others),
        metrics: metrics.clone(),
    });

    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    // A part that ends, ends the process with its reason: half a controller is worse than one that is restarted.
    tokio::select! {
        _ = terminate.recv() => tracing::info!("SIGTERM: stopping"),
        _ = interrupt.recv() => tracing::info!("SIGINT: stopping"),
        error = pipeline.failed() => return Err(error),
        error = certificates.failed() => return Err(error),
        error = fleets.failed() => return Err(error),
        error = writing.failed() => return Err(error),
        error = scraping.failed() => return Err(error),
        ended = &mut following => return ended.context("asking the other replicas panicked").and_then(|()| bail!("nobody asks the other replicas any more")),
        ended = &mut xds => return ended.context("the xDS server panicked")?.context("the xDS server ended"),
        ended = &mut admin => return ended.context("the admin server panicked").and_then(|()| bail!("the admin server ended")),
    }
    readiness.stopping();
    following.abort();
    pipeline.stop();
    // Streams end and connections get a GOAWAY: Envoys go on with what they have and connect to another replica.
    stop.send_replace(true);
    let end =
        tokio::time::timeout(std::time::Duration::from_secs(5), async { tokio::join!(writing.stopped(), xds, admin) })
            .await;
    if end.is_err() {
        tracing::warn!("not all came to an end in 5 s: closing the rest");
    }
    tracing::info!("stopped");
    Ok(())
}

/// What the debug pages show of Envoys and requests.
fn live(here: &Here, pipeline: &Pipeline, rejected: watch::Receiver<Problems>) -> Live {
    let (here, events, expiring) = (here.clone(), pipeline.events.clone(), pipeline.expiring.clone());
    let ask = move |target: Target, request: Request| -> BoxFuture<'static, Option<Vec<Answer>>> {
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

/// The other replicas, if there are any.
fn others(settings: &Xds, certificates: &Certificates) -> Option<Others> {
    // Of a pod in a cluster with both families; other pods may know it by either.
    let own = std::env::var("POD_IPS").or_else(|_| std::env::var("POD_IP")).unwrap_or_default();
    let own = own.split(',').filter_map(|address| address.trim().parse().ok()).collect();
    let connector = certificates.connector.clone();
    settings.peers.as_ref().map(|peers| Others { address: peers.to_string(), own, connector })
}

/// Asks the other replicas for the last good content of Secrets, for ever; there may be nobody to ask.
async fn follow_replicas(others: Option<Others>, events: mpsc::WeakSender<Event>) {
    match others {
        Some(others) => replicas::kept::follow(others, events).await,
        None => std::future::pending().await,
    }
}

/// How many connections there may be, and how old they get. As many files may be open as the system grants.
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
    // Connections whose client is not known yet have files of their own.
    let arriving = Limits::default().arriving.min(files / 8).max(2);
    let possible = files.saturating_sub(OTHER_FILES + arriving);
    if possible < asked {
        tracing::warn!(
            possible,
            asked,
            "fewer xDS connections than asked for are possible: the limit of open files is low"
        );
    }
    let connections = asked.min(possible.max(2));
    Limits { connections, arriving, connection_age: settings.connection_age, ..Limits::default() }
}

/// Selects the store of each client. The first client of a class creates its store. The loop removes the stores of fleets that
/// do not exist. `uri` is the beginning of the URIs in the certificates of fleets.
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
