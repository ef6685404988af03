//! The writes of the leader: the status of objects, Events on objects with problems, the Services and EndpointSlices of
//! Gateways, the claims of hosts, and the Deployments, Services, PodDisruptionBudgets, and HorizontalPodAutoscalers of dedicated
//! fleets. Apart from the Lease and the certificates, Lockgate writes nothing else to the API server.
//!
//! Each writer compares the observed state with the desired state. After a restart, or on a new leader, it therefore
//! writes only what differs.

mod addresses;
mod claims;
mod envoys;
mod events;
mod fair_queue;
mod fleets;
mod gateway;
mod infrastructure;
mod ingress;
mod kind;
mod queue;
mod token_bucket;
mod waiting;
mod writer;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, OptionFuture, join_all};
use lockgate_route::objects::gateway::{
    BackendTlsPolicy, Gateway, GatewayClass, GrpcRoute, HttpPolicy, HttpRoute, ListenerSet, TcpRoute, TlsRoute,
    UdpRoute,
};
use lockgate_route::objects::{HostGrant, Ingress, Kind, ObjectKey};
use lockgate_route::translate::problem::Problems;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::inspection::Inspection;
use crate::leader::Leader;
use crate::metrics::Metrics;
use crate::settings::{Listeners, Settings, Status};
use crate::source::claims::Place;
use crate::source::cluster::reason;

use infrastructure::{Faults, Infrastructure};
use writer::StatusWriter;

pub use envoys::AllEnvoys;
pub use fleets::Template;

/// The timeout of one write. It is shorter than the time without a leader, so the last write of a leader ends before
/// the next leader begins.
const WRITE_TIMEOUT: Duration = Duration::from_secs(4);
/// The first and the longest pause of all writes while the API server is unavailable.
const API_BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));
/// The capacity of the queue of Events `Programmed`.
const PROGRAMMED_CAPACITY: usize = 1000;

/// Runs the status writer of one kind, forever.
type RunWriter = fn(StatusWriter<AllEnvoys>) -> BoxFuture<'static, ()>;

/// The status writer of each kind that has a status in the table of kinds. A row is a type that implements `HasStatus`.
const WRITERS: [(Kind, RunWriter); 12] = [
    (Kind::INGRESS, |writer| writer.run::<Ingress>().boxed()),
    (Kind::GATEWAY_CLASS, |writer| writer.run::<GatewayClass>().boxed()),
    (Kind::GATEWAY, |writer| writer.run::<Gateway>().boxed()),
    (Kind::LISTENER_SET, |writer| writer.run::<ListenerSet>().boxed()),
    (Kind::HTTP_ROUTE, |writer| writer.run::<HttpRoute>().boxed()),
    (Kind::GRPC_ROUTE, |writer| writer.run::<GrpcRoute>().boxed()),
    (Kind::TCP_ROUTE, |writer| writer.run::<TcpRoute>().boxed()),
    (Kind::UDP_ROUTE, |writer| writer.run::<UdpRoute>().boxed()),
    (Kind::TLS_ROUTE, |writer| writer.run::<TlsRoute>().boxed()),
    (Kind::BACKEND_TLS_POLICY, |writer| writer.run::<BackendTlsPolicy>().boxed()),
    (Kind::HTTP_POLICY, |writer| writer.run::<HttpPolicy>().boxed()),
    (Kind::HOST_GRANT, |writer| writer.run::<HostGrant>().boxed()),
];

/// The client and the identity of the writers.
pub struct Installation {
    /// A client for writes alone, so that long lists do not delay them.
    pub client: kube::Client,
    /// The name of this replica, for Events.
    pub instance: String,
    /// The field manager of this installation: [`manager`].
    pub manager: String,
    /// The place of the claims of hosts.
    pub claims: Place,
    /// The template of fleets, and the Lease that owns them. `None`: the controller creates no Envoys.
    pub fleets: Option<(Arc<Template>, String)>,
}

/// The inputs of the writers, from the other parts of the controller.
pub struct Inputs {
    /// The state of the controller's loop.
    pub inspected: watch::Receiver<Arc<Inspection>>,
    /// The problems of certificates that depend on the time, such as an early expiry.
    pub expiring: watch::Receiver<Problems>,
    /// The objects whose resources an Envoy of this replica rejects.
    pub rejected: watch::Receiver<Problems>,
    /// The settings of the writers.
    pub settings: watch::Receiver<WriterSettings>,
    /// The Envoys that must accept an object before its address is written.
    pub envoys: AllEnvoys,
    /// The metrics of writes.
    pub metrics: Metrics,
}

/// The settings of the writers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriterSettings {
    /// The addresses of the Envoys.
    status: Status,
    /// The Service in front of the Envoys, with their addresses if `status` has none.
    envoy_service: Option<(String, String)>,
    /// The name of the controller in Events.
    controller: String,
    /// The name of the controller in GatewayClasses.
    gateway_controller: Arc<str>,
    /// The ports that Envoy does not use for Gateways.
    reserved: BTreeSet<u16>,
    /// The watched namespaces; empty for all.
    namespaces: BTreeSet<String>,
}

/// Ports of the controller, which may share the network of a node with Envoy.
const CONTROLLER_PORTS: [u16; 3] = [18_000, 18_001, 18_002];

impl WriterSettings {
    /// Extracts the settings of the writers.
    pub fn new(settings: &Settings) -> Self {
        let Listeners { http, https, stats, stats_tls, readiness, overload_probe, admin, .. } =
            &settings.route.listeners;
        let listeners = [http, https, stats, &stats_tls.at, readiness, overload_probe, admin].map(|bind| bind.port);
        Self {
            status: settings.status.clone(),
            envoy_service: settings.route.envoy_service.clone(),
            controller: settings.route.ingress.controller.clone(),
            gateway_controller: settings.route.gateway.controller.as_str().into(),
            reserved: listeners.into_iter().chain(CONTROLLER_PORTS).collect(),
            namespaces: settings.process.watch.namespaces.iter().cloned().collect(),
        }
    }

    /// Returns whether the objects of a namespace are watched.
    fn watches(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.contains(namespace)
    }

    /// Returns the Service in front of the Envoys, if it is known.
    fn envoy_service(&self) -> Option<ObjectKey> {
        self.envoy_service.as_ref().map(|(namespace, name)| ObjectKey::new(namespace, name))
    }
}

/// Runs all writers, forever. They write only while `leader` leads.
pub async fn write(installation: Installation, leader: Leader, inputs: Inputs) {
    let Installation { client, instance, manager, claims, fleets } = installation;
    let Inputs { inspected, expiring, rejected, settings, envoys, metrics } = inputs;
    let (addresses, our_addresses) = watch::channel(Arc::default());
    let (programmed, receiver) = mpsc::channel(PROGRAMMED_CAPACITY);
    let (faults, known_faults) = watch::channel(Faults::default());
    let (fleet_faults, known_fleet_faults) = watch::channel(Faults::default());
    let infrastructure = Infrastructure {
        template: fleets.as_ref().map(|(template, _)| template.clone()),
        fleet_faults: known_fleet_faults,
        envoys: envoys.clone(),
        client: client.clone(),
        manager: manager.clone(),
        leader: leader.clone(),
        inspected: inspected.clone(),
        settings: settings.clone(),
        faults,
        metrics: metrics.clone(),
    };
    let fleets = fleets.map(|(template, lease)| fleets::Fleets {
        client: client.clone(),
        manager: manager.clone(),
        lease,
        template,
        leader: leader.clone(),
        inspected: inspected.clone(),
        faults: fleet_faults,
        metrics: metrics.clone(),
    });
    let claims = claims::Claims {
        client: client.clone(),
        manager: manager.clone(),
        place: claims,
        leader: leader.clone(),
        inspected: inspected.clone(),
        metrics: metrics.clone(),
    };
    let fleets = OptionFuture::from(fleets.map(fleets::Fleets::run));
    let status = StatusWriter {
        client: client.clone(),
        manager,
        leader: leader.clone(),
        inspected: inspected.clone(),
        addresses: our_addresses,
        settings: settings.clone(),
        faults: known_faults,
        envoys,
        programmed,
        metrics: metrics.clone(),
    };
    let events = events::Events {
        client: client.clone(),
        instance,
        leader,
        inspected,
        expiring,
        rejected,
        settings: settings.clone(),
        programmed: receiver,
        metrics,
    };
    let writers = join_all(WRITERS.iter().map(|(_, run)| run(status.clone())));
    let addresses = addresses::follow(client, settings, addresses);
    tokio::join!(addresses, writers, infrastructure.run(), claims.run(), fleets, events.run());
}

/// Returns the name of the field manager of an installation, which its Lease identifies.
pub fn manager(namespace: &str, lease: &str) -> String {
    // The API server permits 128 bytes.
    format!("lockgate/{namespace}/{lease}").chars().take(128).collect()
}

/// The reason why a write failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The API server rejected the write, or is unreachable.
    #[error("{}", reason(.0))]
    Api(#[from] kube::Error),
    /// The API server did not answer in time.
    #[error("no answer in {} s", WRITE_TIMEOUT.as_secs())]
    Timeout,
}

impl Failure {
    fn from_response<T>(answer: Result<kube::Result<T>, tokio::time::error::Elapsed>) -> Result<T, Self> {
        answer.map_err(|_| Failure::Timeout)?.map_err(Failure::Api)
    }

    /// Returns the HTTP status of the response, if there is one.
    fn code(&self) -> Option<u16> {
        match self {
            Failure::Api(kube::Error::Api(status)) => Some(status.code),
            _ => None,
        }
    }

    /// Returns whether any other write would fail now, too.
    fn affects_all_writes(&self) -> bool {
        self.code().is_none_or(|code| code == 429 || code >= 500 || code == 401)
    }
}

/// Returns the result of a write, as the label of a metric.
fn outcome(failure: Option<&Failure>) -> &'static str {
    match failure.map(Failure::code) {
        None => "written",
        Some(Some(404)) => "gone",
        Some(Some(409)) => "conflict",
        Some(Some(400..=499)) => "refused",
        Some(_) => "failed",
    }
}

/// Delays all writes while the API server is unavailable.
#[derive(Debug, Default)]
struct ApiBackoff {
    failures: u32,
    until: Option<Instant>,
}

impl ApiBackoff {
    /// Records the result of a write.
    fn record(&mut self, failure: Option<&Failure>, now: Instant) {
        if failure.is_some_and(Failure::affects_all_writes) {
            // Concurrent failures count once.
            if self.until.is_none_or(|until| until <= now) {
                let pause = API_BACKOFF.0.saturating_mul(1 << self.failures.min(16)).min(API_BACKOFF.1);
                self.failures += 1;
                self.until = Some(now + pause);
            }
        } else {
            *self = Self::default();
        }
    }

    /// Returns the end of the current pause. It can be in the past. `None`: no write has failed.
    fn until(&self) -> Option<Instant> {
        self.until
    }
}

/// Waits for a change, or forever if the sender is gone.
async fn changed<T>(receiver: &mut watch::Receiver<T>) {
    if receiver.changed().await.is_err() {
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests;
