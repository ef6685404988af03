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
mod failure;
mod fair_queue;
mod fault;
mod fleets;
mod gateway;
mod goals;
mod infrastructure;
mod ingress;
mod kind;
mod kinds;
mod plan;
mod queue;
mod sender;
mod settings;
mod statuses;
mod token_bucket;
mod waiting;
mod writer;

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use lockgate_route::objects::gateway::{
    BackendTlsPolicy, Gateway, GatewayClass, GrpcRoute, HttpPolicy, HttpRoute, ListenerSet, TcpRoute, TlsRoute,
    UdpRoute, XBackendTrafficPolicy,
};
use lockgate_route::objects::http_proxy::{ExtensionService, HttpProxy};
use lockgate_route::objects::{BackendPolicy, HostGrant, Ingress, Kind};
use lockgate_route::translate::problem::Problems;
use tokio::sync::{mpsc, watch};

use crate::inspection::Inspection;
use crate::leader::Leader;
use crate::metrics::Metrics;
use crate::source::claims::ClaimsPlace;

use events::EventInputs;
use fault::Faults;
use infrastructure::Infrastructure;
use kind::HasStatus;
use sender::Sender;
use statuses::{StatusInputs, Statuses};
use writer::Writer;

pub use envoys::AllEnvoys;
pub use fleets::Template;
pub use settings::WriterSettings;

/// The capacity of the queue of Events `Programmed`.
const PROGRAMMED_CAPACITY: usize = 1000;

/// Runs the status writer of one kind, forever.
type RunWriter = fn(Writer, StatusInputs<AllEnvoys>) -> BoxFuture<'static, ()>;

/// The status writer of each kind that has a status in the table of kinds. A row is a type that implements `HasStatus`.
const WRITERS: [(Kind, RunWriter); 16] = [
    (Kind::INGRESS, run::<Ingress>),
    (Kind::GATEWAY_CLASS, run::<GatewayClass>),
    (Kind::GATEWAY, run::<Gateway>),
    (Kind::LISTENER_SET, run::<ListenerSet>),
    (Kind::HTTP_ROUTE, run::<HttpRoute>),
    (Kind::GRPC_ROUTE, run::<GrpcRoute>),
    (Kind::TCP_ROUTE, run::<TcpRoute>),
    (Kind::UDP_ROUTE, run::<UdpRoute>),
    (Kind::TLS_ROUTE, run::<TlsRoute>),
    (Kind::BACKEND_TLS_POLICY, run::<BackendTlsPolicy>),
    (Kind::X_BACKEND_TRAFFIC_POLICY, run::<XBackendTrafficPolicy>),
    (Kind::HTTP_POLICY, run::<HttpPolicy>),
    (Kind::HOST_GRANT, run::<HostGrant>),
    (Kind::BACKEND_POLICY, run::<BackendPolicy>),
    (Kind::HTTP_PROXY, run::<HttpProxy>),
    (Kind::EXTENSION_SERVICE, run::<ExtensionService>),
];

/// Runs the writer of the status of kind `T`.
fn run<T: HasStatus>(writer: Writer, inputs: StatusInputs<AllEnvoys>) -> BoxFuture<'static, ()> {
    writer.run(Statuses::<T, _>::new(inputs)).boxed()
}

/// The client and the identity of the writers.
pub struct Installation {
    /// A client for writes alone, so that long lists do not delay them.
    pub client: kube::Client,
    /// The name of this replica, for Events.
    pub instance: String,
    /// The field manager of this installation: [`manager`].
    pub manager: String,
    /// The place of the claims of hosts.
    pub claims: ClaimsPlace,
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
        inspected: inspected.clone(),
        settings: settings.clone(),
        faults,
        term: Default::default(),
    };
    let fleets = fleets.map(|(template, lease)| fleets::Fleets {
        lease,
        template,
        inspected: inspected.clone(),
        faults: fleet_faults,
        term: Default::default(),
    });
    let claims = claims::Claims {
        place: claims,
        inspected: inspected.clone(),
        last: Arc::default(),
        memory: Default::default(),
        is_full: false,
    };
    let writer = Writer {
        sender: Sender { client: client.clone(), manager: manager.clone() },
        leader: leader.clone(),
        metrics: metrics.clone(),
    };
    let status = StatusInputs {
        inspected: inspected.clone(),
        addresses: our_addresses,
        settings: settings.clone(),
        faults: known_faults,
        envoys,
        programmed,
    };
    let events = events::Events::new(EventInputs {
        instance,
        inspected,
        expiring,
        rejected,
        settings: settings.clone(),
        programmed: receiver,
        metrics,
    });
    // Each future has a waker of its own: a response to one writer does not wake the others.
    let mut all: FuturesUnordered<BoxFuture<'static, ()>> =
        WRITERS.iter().map(|(_, run)| run(writer.clone(), status.clone())).collect();
    all.push(addresses::follow(client, settings, addresses).boxed());
    all.push(writer.clone().run(infrastructure).boxed());
    all.push(writer.clone().run(claims).boxed());
    all.extend(fleets.map(|fleets| writer.clone().run(fleets).boxed()));
    all.push(writer.run(events).boxed());
    all.collect::<()>().await;
}

/// Returns the name of the field manager of an installation, which its Lease identifies.
pub fn manager(namespace: &str, lease: &str) -> String {
    // The API server permits 128 bytes.
    format!("lockgate/{namespace}/{lease}").chars().take(128).collect()
}

#[cfg(test)]
mod tests;
