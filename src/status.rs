//! What the leader tells the users of Kubernetes: the status of objects, and Events on objects that are at fault. It also
//! writes the Services of Gateways. Beside the Lease and the certificates, nothing else is written to the API server.
//!
//! Both parts compare what is with what should be, again and again, rather than follow changes: after a restart, or when
//! another replica takes over, nothing is written that is already right.

mod addresses;
mod bucket;
mod desk;
mod envoys;
mod events;
mod fleets;
mod gateway;
mod infrastructure;
mod ingress;
mod kind;
mod turns;
mod waiting;
mod writer;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use lockgate_route::objects::gateway::{
    BackendTlsPolicy, Gateway, GatewayClass, GrpcRoute, HttpPolicy, HttpRoute, ListenerSet, TcpRoute, TlsRoute,
    UdpRoute,
};
use lockgate_route::objects::{Ingress, Kind, ObjectKey};
use lockgate_route::translate::problem::Problems;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::inspection::Inspection;
use crate::leader::Leader;
use crate::metrics::Metrics;
use crate::settings::{Listeners, Settings, Status};
use crate::source::cluster::reason;

use infrastructure::{Faults, Infrastructure};
use writer::StatusWriter;

pub use envoys::AllEnvoys;
pub use fleets::Template;

/// How long one write may take. Shorter than the time in which nobody leads: what a leader began in its last moment has
/// ended when the next one begins.
const PATIENCE: Duration = Duration::from_secs(4);
/// First and longest pause of all writes when the API server cannot be reached.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));
/// Objects whose owners have not been told yet that they are served.
const PROGRAMMED: usize = 1000;

/// Writes the status of one kind, for ever.
type Run = fn(StatusWriter<AllEnvoys>) -> BoxFuture<'static, ()>;

/// The writer of each kind that has a status, as the table of kinds says: a row is a type that implements `HasStatus`.
const WRITERS: [(Kind, Run); 11] = [
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
];

/// All that is needed to write.
pub struct Writer {
    /// For writing alone, so that no long list stands in the way.
    pub client: kube::Client,
    /// Who this replica is, in Events.
    pub instance: String,
    /// Which installation this is, among the managers of an Ingress' fields: [`manager`].
    pub manager: String,
    /// Whether this replica may write.
    pub leader: Leader,
    /// What there is to be told.
    pub inspected: watch::Receiver<Arc<Inspection>>,
    /// What is wrong with certificates in use that nobody sees who has no clock.
    pub expiring: watch::Receiver<Problems>,
    /// Objects whose resources an Envoy of this replica rejects.
    pub rejected: watch::Receiver<Problems>,
    /// Which addresses are ours and what we are called.
    pub settings: watch::Receiver<Chosen>,
    /// Who has to accept before an address is told.
    pub envoys: AllEnvoys,
    /// What was written and what not.
    pub metrics: Metrics,
    /// The template of fleets, and the Lease that owns them. `None`: the controller creates no Envoys.
    pub fleets: Option<(Arc<Template>, String)>,
}

/// What the settings choose of what is written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chosen {
    /// Which addresses are ours.
    status: Status,
    /// Who tells Events.
    controller: String,
    /// The name of the controller in GatewayClasses.
    gateway_controller: Arc<str>,
    /// Ports that Envoy does not use for Gateways.
    reserved: BTreeSet<u16>,
    /// The watched namespaces; empty for all.
    namespaces: BTreeSet<String>,
}

/// Ports of the controller, which may share the network of a node with Envoy.
const CONTROLLER_PORTS: [u16; 3] = [18_000, 18_001, 18_002];

impl Chosen {
    /// What `settings` choose.
    pub fn of(settings: &Settings) -> Self {
        let Listeners { http, https, stats, stats_tls, overload_probe, admin, .. } = &settings.route.listeners;
        let listeners = [http, https, stats, &stats_tls.at, overload_probe, admin].map(|bind| bind.port);
        Self {
            status: settings.status.clone(),
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
        self.status.envoy_service.as_ref().map(|(namespace, name)| ObjectKey::new(namespace, name))
    }
}

impl Writer {
    /// Writes whenever this replica leads; for ever.
    pub async fn run(self) {
        let (addresses, our_addresses) = watch::channel(Arc::default());
        let (programmed, told) = mpsc::channel(PROGRAMMED);
        let (faults, known_faults) = watch::channel(Faults::default());
        let (fleet_faults, known_fleet_faults) = watch::channel(Faults::default());
        let fleets = self.fleets.clone().map(|(template, lease)| fleets::Fleets {
            client: self.client.clone(),
            manager: self.manager.clone(),
            lease,
            template,
            leader: self.leader.clone(),
            inspected: self.inspected.clone(),
            faults: fleet_faults,
            metrics: self.metrics.clone(),
        });
        let fleets = async move {
            if let Some(fleets) = fleets {
                fleets.run().await;
            }
        };
        let infrastructure = Infrastructure {
            template: self.fleets.map(|(template, _)| template),
            fleet_faults: known_fleet_faults,
            envoys: self.envoys.clone(),
            client: self.client.clone(),
            manager: self.manager.clone(),
            leader: self.leader.clone(),
            inspected: self.inspected.clone(),
            settings: self.settings.clone(),
            faults,
            metrics: self.metrics.clone(),
        };
        let status = StatusWriter {
            client: self.client.clone(),
            manager: self.manager,
            leader: self.leader.clone(),
            inspected: self.inspected.clone(),
            addresses: our_addresses,
            settings: self.settings.clone(),
            faults: known_faults,
            envoys: self.envoys,
            programmed,
            metrics: self.metrics.clone(),
        };
        let events = events::Events {
            client: self.client.clone(),
            instance: self.instance,
            leader: self.leader,
            inspected: self.inspected,
            expiring: self.expiring,
            rejected: self.rejected,
            settings: self.settings.clone(),
            programmed: told,
            metrics: self.metrics,
        };
        let writers = join_all(WRITERS.iter().map(|(_, run)| run(status.clone())));
        let addresses = addresses::follow(self.client, self.settings, addresses);
        tokio::join!(addresses, writers, infrastructure.run(), fleets, events.run());
    }
}

/// The name of the field manager of the installation with this Lease: two in one Kubernetes cluster have two.
pub fn manager(namespace: &str, lease: &str) -> String {
    // The API server takes 128 bytes.
    format!("lockgate/{namespace}/{lease}").chars().take(128).collect()
}

/// Why a write failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The API server said no, or could not be reached.
    #[error("{}", reason(.0))]
    Api(#[from] kube::Error),
    /// It did not answer.
    #[error("no answer in {} s", PATIENCE.as_secs())]
    Late,
}

impl Failure {
    fn of<T>(answer: Result<kube::Result<T>, tokio::time::error::Elapsed>) -> Result<T, Self> {
        answer.map_err(|_| Failure::Late)?.map_err(Failure::Api)
    }

    /// The HTTP status that the API server answered, if it did.
    fn code(&self) -> Option<u16> {
        match self {
            Failure::Api(kube::Error::Api(status)) => Some(status.code),
            _ => None,
        }
    }

    /// Whether any other write would fail too, now.
    fn is_general(&self) -> bool {
        self.code().is_none_or(|code| code == 429 || code >= 500 || code == 401)
    }
}

/// How a write ended, as a label.
fn outcome(failure: Option<&Failure>) -> &'static str {
    match failure.map(Failure::code) {
        None => "written",
        Some(Some(404)) => "gone",
        Some(Some(409)) => "conflict",
        Some(Some(400..=499)) => "refused",
        Some(_) => "failed",
    }
}

/// Keeps all writes back while the API server is in trouble.
#[derive(Debug, Default)]
struct Trouble {
    failures: u32,
    over: Option<Instant>,
}

impl Trouble {
    /// A write ended at `now`.
    fn note(&mut self, failure: Option<&Failure>, now: Instant) {
        if failure.is_some_and(Failure::is_general) {
            // Those that were under way together count once.
            if self.over.is_none_or(|over| over <= now) {
                let pause = PAUSE.0.saturating_mul(1 << self.failures.min(16)).min(PAUSE.1);
                self.failures += 1;
                self.over = Some(now + pause);
            }
        } else {
            *self = Self::default();
        }
    }

    /// From when on one may write. In the past if there is no trouble.
    fn over(&self) -> Option<Instant> {
        self.over
    }
}

/// Waits for a change; for ever, if there can be none.
async fn changed<T>(receiver: &mut watch::Receiver<T>) {
    if receiver.changed().await.is_err() {
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests;
