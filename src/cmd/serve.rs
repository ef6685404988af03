//! `lockgate serve`: puts the parts together, waits for the end.

mod observer;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anyhow::{Context, bail};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

use super::{COMMIT, ServeArgs};
use crate::admin::{self, AdminState, Inspection, Readiness};
use crate::controller::Controller;
use crate::metrics::Metrics;
use crate::settings::{ServerOptions, Source, XdsTls};
use crate::snapshot::Store;
use crate::source::objects::Kind;
use crate::source::{self, Event, SourceError};
use crate::telemetry;
use crate::xds::{self, Access, Registry, Timing};

/// Events that the loop has not taken yet; a source that is faster waits.
const EVENTS: usize = 4096;

/// Serves until SIGTERM or SIGINT.
pub async fn run(args: ServeArgs) -> anyhow::Result<()> {
    let (source, settings, options) = args.resolve()?;
    let log = telemetry::init(options.log_format, &options.log_level)?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), commit = COMMIT, source = %describe(&source), "starting");
    let access = access(&options)?;
    let xds_listener = xds::listen(options.xds_address).await.context("--xds-address")?;
    let admin_listener = admin::listen(options.admin_address).await?;

    let metrics = Metrics::new(COMMIT);
    let readiness = Readiness::awaiting(Kind::ALL.map(Kind::as_str));
    let store = Arc::new(Store::default());
    let (inspection, inspected) = watch::channel(Arc::new(Inspection::default()));
    let (stop, stopping) = watch::channel(false);
    let registry = Arc::new(Registry::default());

    let state = Arc::new(AdminState {
        readiness: readiness.clone(),
        metrics: metrics.clone(),
        log,
        snapshot: store.subscribe(),
        inspection: inspected,
        streams: {
            let registry = registry.clone();
            Box::new(move || registry.describe())
        },
    });
    let service = Arc::new(xds::Service {
        snapshots: store.subscribe(),
        stopping: stopping.clone(),
        timing: Timing { gate_timeout: options.gate_timeout, removal_grace: options.removal_grace },
        identifier: options.identifier.clone(),
        observer: Arc::new(observer::LogAndCount::new(metrics.clone(), registry.clone())),
        registry,
        streams: AtomicU64::new(0),
    });
    let (events, received) = mpsc::channel(EVENTS);
    let controller = Controller::new(settings, store, readiness.clone(), metrics, inspection);
    let (controller_ended, mut controller_end) = mpsc::channel::<()>(1);
    std::thread::Builder::new()
        .name("controller".into())
        .spawn(move || {
            // Dropped when the loop ends, also when it panics.
            let _ended = controller_ended;
            controller.run(received);
        })
        .context("cannot start the controller's thread")?;

    let mut source = tokio::spawn(watch_source(source, events));
    let mut xds = tokio::spawn(xds::serve(xds_listener, access, service));
    let mut shutdown = stopping.clone();
    let mut admin = tokio::spawn(admin::serve(admin_listener, state, async move {
        let _ = shutdown.wait_for(|stopping| *stopping).await;
    }));
    readiness.listening();
    tracing::info!(address = %options.xds_address, "xDS listens");
    tracing::info!(address = %options.admin_address, "admin listens: /healthz /readyz /metrics /debug/");

    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    // A part that ends, ends the process with its reason: half a controller is worse than one that is restarted.
    tokio::select! {
        _ = terminate.recv() => tracing::info!("SIGTERM: stopping"),
        _ = interrupt.recv() => tracing::info!("SIGINT: stopping"),
        ended = &mut source => match ended.context("the source panicked")? {
            Ok(()) => bail!("the source ended by itself"),
            Err(error) => return Err(error.into()),
        },
        _ = controller_end.recv() => bail!("the controller's loop ended by itself"),
        ended = &mut xds => return ended.context("the xDS server panicked")?.context("the xDS server ended"),
        ended = &mut admin => return ended.context("the admin server panicked")?.context("the admin server ended"),
    }
    readiness.stopping();
    source.abort();
    // Streams end and connections get a GOAWAY: Envoys go on with what they have and connect to another replica.
    stop.send_replace(true);
    let end = tokio::time::timeout(std::time::Duration::from_secs(5), async { tokio::join!(xds, admin) }).await;
    if end.is_err() {
        tracing::warn!("some connections did not end in 5 s: closing them");
    }
    tracing::info!("stopped");
    Ok(())
}

fn access(options: &ServerOptions) -> anyhow::Result<Access> {
    Ok(match &options.xds_tls {
        XdsTls::LoopbackOnly => Access::PlainFromLoopback,
        XdsTls::Off => {
            if !options.xds_address.ip().is_loopback() {
                tracing::warn!("--xds-tls off: private keys travel in clear to whoever asks");
            }
            Access::PlainFromEverywhere
        }
        XdsTls::Directory(directory) => Access::Tls(xds::tls_config(directory).context("--xds-tls")?),
    })
}

fn describe(source: &Source) -> String {
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
