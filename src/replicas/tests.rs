#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::core::v3::Node as NodeMessage;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest, DiscoveryResponse};
use lockgate_route::model::KeyPair;
use lockgate_route::objects::{Kept, Kind, ObjectId, ObjectKey, Revision};
use lockgate_xds::protocol::Variant;
use lockgate_xds::provenance::ObjectRef;
use lockgate_xds::server::{self, Access, Client, Registry, Service, Stores};
use lockgate_xds::snapshot::{Resource, ResourceType, Store, Update};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;

use super::{Connector, Here, OtherReplicas};
use super::{Reached, WantedObject, answer, routes};
use crate::inspection::{Inspection, Published};

/// A replica with the served Ingress shop/cart, which uses the cluster `c`.
struct Replica {
    address: SocketAddr,
    /// The store of delta Envoys, and the store of all other clients.
    stores: [Arc<Store>; 2],
    here: Here,
    inspection: watch::Sender<Arc<Inspection>>,
    _stop: watch::Sender<bool>,
}

fn resource(number: u64) -> Resource {
    let cluster = Cluster { name: "c".into(), alt_stat_name: number.to_string(), ..Cluster::default() };
    Resource::new("c", &cluster, vec![ObjectRef::new("Ingress", "shop", "cart")])
}

impl Replica {
    async fn start() -> Self {
        let (stop, stopping) = watch::channel(false);
        let (inspection, inspected) = watch::channel(Arc::default());
        let (stores, registry) = (<[Arc<Store>; 2]>::default(), Arc::new(Registry::default()));
        let [delta, others] = stores.clone();
        let by_variant = move |client: Client<'_>| match client.variant {
            Variant::Delta => Some(delta.clone()),
            Variant::Sotw => Some(others.clone()),
        };
        let here = Here::new(registry.clone(), BTreeMap::new, inspected);
        let service = Service::new(Stores::by_client(by_variant), stopping)
            .with_registry(registry)
            .with_routes(routes(here.clone(), false));
        let listener = server::listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(server::serve(listener, Access::PlainFromLoopback, Arc::new(service)));
        Self { address, stores, here, inspection, _stop: stop }
    }

    /// Publishes the Ingress in the revision of this number.
    fn publish(&self, number: u64) {
        self.publish_in(&[0, 1], number);
    }

    /// Publishes the Ingress in some stores only.
    fn publish_in(&self, stores: &[usize], since: u64) {
        for store in stores {
            let update = Update::setting(vec![Arc::new(resource(since))]);
            self.stores[*store].publish(update, since, |_| ());
        }
        let sources = [(ObjectId::new(Kind::INGRESS, "shop", "cart"), published(since, true))].into_iter().collect();
        self.inspection.send_replace(Arc::new(Inspection { sources, complete: true, ..Inspection::default() }));
    }

    fn others(&self) -> OtherReplicas {
        OtherReplicas { address: self.address.to_string(), own: Vec::new(), connector: Connector::Plain }
    }
}

/// An Envoy that may or may not send ACKs.
struct Envoy {
    requests: mpsc::Sender<DeltaDiscoveryRequest>,
    responses: tonic::Streaming<envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryResponse>,
}

impl Envoy {
    async fn connect(address: SocketAddr, id: &str) -> Self {
        let (requests, receiver) = mpsc::channel(8);
        let node = NodeMessage { id: id.into(), user_agent_name: "envoy".into(), ..NodeMessage::default() };
        let type_url = ResourceType::CLUSTER.url().to_owned();
        requests.send(DeltaDiscoveryRequest { node: Some(node), type_url, ..Default::default() }).await.unwrap();
        let mut client = AggregatedDiscoveryServiceClient::connect(format!("http://{address}")).await.unwrap();
        let responses = client.delta_aggregated_resources(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        Self { requests, responses }
    }

    async fn next(&mut self) -> String {
        self.responses.message().await.unwrap().unwrap().nonce
    }

    async fn answer(&self, nonce: String, error: Option<&str>) {
        let type_url = ResourceType::CLUSTER.url().to_owned();
        let error_detail = error
            .map(|message| envoy_types::pb::google::rpc::Status { message: message.to_owned(), ..Default::default() });
        let answer = DeltaDiscoveryRequest { type_url, response_nonce: nonce, error_detail, ..Default::default() };
        self.requests.send(answer).await.unwrap();
    }
}

/// Returns the publication of the Ingress in the revision of this number.
fn published(number: u64, served: bool) -> Published {
    Published { uid: "u".into(), revision: Revision(number), since: number, served, fleets: Arc::default() }
}

fn cart(number: u64) -> WantedObject {
    WantedObject::new(Kind::INGRESS, &ObjectKey::new("shop", "cart"), &published(number, true))
}

/// Waits until this replica reports this progress.
async fn until(here: &Here, wanted: &WantedObject, envoys: usize, accepted: usize) {
    let mut changes = here.changes();
    let expected = Reached { envoys, accepted: vec![accepted], expected: vec![envoys] };
    let reached = async {
        while here.reached(std::slice::from_ref(wanted)) != expected {
            changes.next().await;
        }
    };
    let reached = tokio::time::timeout(Duration::from_secs(10), reached).await;
    assert!(reached.is_ok(), "{:?} instead of {expected:?}", here.reached(std::slice::from_ref(wanted)));
}

#[tokio::test]
async fn an_object_is_accepted_when_every_envoy_has_accepted_it() {
    let replica = Replica::start().await;
    replica.publish(1);
    assert_eq!(replica.here.reached(&[cart(1)]), Reached::nobody(1));
    let mut one = Envoy::connect(replica.address, "one").await;
    let nonce = one.next().await;
    until(&replica.here, &cart(1), 1, 0).await;
    one.answer(nonce, None).await;
    until(&replica.here, &cart(1), 1, 1).await;
    until(&replica.here, &cart(2), 1, 0).await;
    until(&replica.here, &WantedObject { uid: "other".into(), ..cart(1) }, 1, 0).await;
    until(&replica.here, &WantedObject { resource: Kind::SERVICE.resource(), ..cart(1) }, 1, 0).await;
    let mut two = Envoy::connect(replica.address, "two").await;
    let nonce = two.next().await;
    until(&replica.here, &cart(1), 2, 1).await;
    two.answer(nonce, None).await;
    until(&replica.here, &cart(1), 2, 2).await;
    assert!(replica.here.reached(&[cart(1)]).by_all(0));
    replica.publish(2);
    let (nonce, other) = (one.next().await, two.next().await);
    one.answer(nonce, Some("no")).await;
    two.answer(other, None).await;
    until(&replica.here, &cart(2), 2, 1).await;
    drop(one);
    until(&replica.here, &cart(2), 1, 1).await;
    // Revisions have no order.
    until(&replica.here, &cart(1), 1, 0).await;
    // Another replica asks for an Ingress that this replica does not serve yet.
    let sources = [(ObjectId::new(Kind::INGRESS, "shop", "cart"), published(2, false))].into_iter().collect();
    replica.inspection.send_replace(Arc::new(Inspection { sources, complete: true, ..Inspection::default() }));
    until(&replica.here, &cart(2), 1, 0).await;
}

/// An Envoy with the state-of-the-world variant.
struct Sotw {
    requests: mpsc::Sender<DiscoveryRequest>,
    responses: tonic::Streaming<DiscoveryResponse>,
}

impl Sotw {
    async fn connect(address: SocketAddr, id: &str) -> Self {
        let (requests, receiver) = mpsc::channel(8);
        let node = NodeMessage { id: id.into(), user_agent_name: "envoy".into(), ..NodeMessage::default() };
        let type_url = ResourceType::CLUSTER.url().to_owned();
        requests.send(DiscoveryRequest { node: Some(node), type_url, ..Default::default() }).await.unwrap();
        let mut client = AggregatedDiscoveryServiceClient::connect(format!("http://{address}")).await.unwrap();
        let responses = client.stream_aggregated_resources(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        Self { requests, responses }
    }

    /// Accepts the next response.
    async fn accept(&mut self) {
        let DiscoveryResponse { version_info, nonce: response_nonce, type_url, .. } =
            self.responses.message().await.unwrap().unwrap();
        let answer = DiscoveryRequest { version_info, response_nonce, type_url, ..Default::default() };
        self.requests.send(answer).await.unwrap();
    }
}

#[tokio::test]
async fn the_acceptance_of_an_envoy_depends_on_its_own_store() {
    let replica = Replica::start().await;
    replica.publish(1);
    let (mut delta, mut sotw) =
        (Envoy::connect(replica.address, "delta").await, Sotw::connect(replica.address, "sotw").await);
    let nonce = delta.next().await;
    delta.answer(nonce, None).await;
    until(&replica.here, &cart(1), 2, 1).await;
    sotw.accept().await;
    until(&replica.here, &cart(1), 2, 2).await;
    // The second store receives it later.
    replica.publish_in(&[0], 2);
    let nonce = delta.next().await;
    delta.answer(nonce, None).await;
    until(&replica.here, &cart(2), 2, 1).await;
    assert!(
        !replica.here.reached(&[cart(2)]).by_all(0),
        "the other Envoy is up to date with a store without the resource"
    );
    replica.publish_in(&[1], 2);
    sotw.accept().await;
    until(&replica.here, &cart(2), 2, 2).await;
    // An Envoy receives no response for a publication without changes.
    replica.publish_in(&[], 3);
    until(&replica.here, &cart(3), 2, 0).await;
    for store in &replica.stores {
        store.publish(Update::default(), 3, |_| ());
    }
    until(&replica.here, &cart(3), 2, 2).await;
}

#[tokio::test]
async fn another_replica_answers_when_the_acceptance_changes() {
    let replica = Replica::start().await;
    replica.publish(1);
    let none = replica.others().ask(&[cart(1)]).await;
    assert_eq!(none, [(replica.address, Ok(Reached::nobody(1)))], "nobody is waited for");
    let mut envoy = Envoy::connect(replica.address, "one").await;
    let nonce = envoy.next().await;
    until(&replica.here, &cart(1), 1, 0).await;
    let question = tokio::spawn({
        let others = replica.others();
        async move { others.ask(&[cart(1)]).await }
    });
    while replica.inspection.receiver_count() < 3 {
        tokio::task::yield_now().await;
    }
    assert!(!question.is_finished(), "it is held");
    envoy.answer(nonce, None).await;
    let answer = tokio::time::timeout(answer::HOLD, question).await.expect("at once").unwrap();
    assert_eq!(answer, [(replica.address, Ok(Reached { envoys: 1, accepted: vec![1], expected: vec![1] }))]);
}

#[tokio::test]
async fn a_replica_does_not_ask_itself_and_reports_unreachable_replicas() {
    let replica = Replica::start().await;
    let own = OtherReplicas { own: vec![replica.address.ip()], ..replica.others() };
    assert!(own.ask(&[cart(1)]).await.is_empty());
    let gone = OtherReplicas { address: "127.0.0.1:1".into(), ..replica.others() };
    assert!(gone.ask(&[cart(1)]).await[0].1.as_ref().is_err_and(|why| why.contains("refused")));
}

/// An object in a question, in the form before revisions.
#[derive(serde::Serialize, serde::Deserialize)]
struct Earlier {
    namespace: String,
    name: String,
    uid: String,
    generation: i64,
}

#[tokio::test]
async fn replicas_of_different_versions_never_report_acceptance() {
    // An earlier version reports acceptance if its own generation is at least the wanted generation.
    let question = super::others::question(&[cart(1)]).unwrap();
    let understood: Vec<Earlier> = serde_json::from_slice(&question).unwrap();
    assert_eq!((&*understood[0].name, &*understood[0].uid), ("cart", "u"));
    assert_eq!(understood[0].generation, i64::MAX);
    // This version reads the question, and answers for its Envoys.
    let replica = Replica::start().await;
    replica.publish(1);
    let mut envoy = Envoy::connect(replica.address, "one").await;
    let nonce = envoy.next().await;
    envoy.answer(nonce, None).await;
    until(&replica.here, &cart(1), 1, 1).await;
    let earlier = Earlier { namespace: "shop".into(), name: "cart".into(), uid: "u".into(), generation: 1 };
    let question = serde_json::to_vec(&[earlier]).unwrap();
    let wanted: Vec<WantedObject> = serde_json::from_slice(&question).unwrap();
    assert_eq!(replica.here.reached(&wanted), Reached { envoys: 1, accepted: vec![0], expected: vec![1] });
    // The fields of this version survive the round trip.
    let question = super::others::question(&[cart(1)]).unwrap();
    assert_eq!(serde_json::from_slice::<Vec<WantedObject>>(&question).unwrap(), [cart(1)]);
}

#[test]
fn only_the_envoys_of_its_fleets_must_accept_an_object() {
    let reached = |accepted: &[usize], expected: &[usize]| Reached {
        envoys: 2,
        accepted: accepted.into(),
        expected: expected.into(),
    };
    let here = reached(&[2, 1, 0, 0], &[2, 1, 1, 0]);
    assert_eq!(
        [0, 1, 2, 3].map(|at| here.by_all(at)),
        [true, true, false, false],
        "without Envoys, nothing is accepted"
    );
    assert_eq!([0, 1, 2, 3].map(|at| here.is_level(at)), [true, true, false, true]);
    let there = reached(&[2, 0, 1, 1], &[2, 0, 1, 1]);
    assert_eq!(here.clone().and(&there).expected, [4, 1, 2, 1]);
    assert_eq!(here.at(&[1, 3]), reached(&[1, 0], &[1, 0]));
    // A replica of an earlier version has only the shared fleet.
    let earlier = Reached { envoys: 3, accepted: vec![3, 2], expected: vec![] };
    assert_eq!((earlier.by_all(0), earlier.by_all(1), earlier.expected(1)), (true, false, 3));
}

/// The last good content of a Secret with a key pair or authorities of this many bytes.
fn last_good(namespace: &str, name: &str, pair: usize, authorities: usize) -> Kept {
    let (names, not_after) = (Vec::new().into(), 0);
    let pair = (pair > 0).then(|| {
        let (certificate_chain, private_key) = (vec![b'c'; pair], Vec::new());
        Arc::new(KeyPair { certificate_chain, private_key, names, not_after, is_ed25519: false })
    });
    let authorities = (authorities > 0).then(|| "a".repeat(authorities).into());
    Kept { key: ObjectKey::new(namespace, name), pair, authorities }
}

/// Returns the Secrets in an answer, and checks its size.
fn selected(kept: &[Kept], room: usize) -> Vec<String> {
    let selected = super::kept::select(kept, room);
    assert!(selected.iter().map(|kept| kept.size()).sum::<usize>() <= room);
    selected.iter().map(|kept| kept.key.to_string()).collect()
}

#[test]
fn large_authorities_of_a_namespace_leave_room_for_the_key_pairs_of_others() {
    let mut kept: Vec<Kept> = (10..23).map(|i| last_good("a", &i.to_string(), 0, 1 << 20)).collect();
    kept.push(last_good("b", "cert", 5000, 0));
    let names = selected(&kept, 12 << 20);
    assert_eq!((names.len(), &*names[0]), (12, "b/cert"));
    // A tenant with many namespaces, each with content that is as large as possible.
    let mut kept: Vec<Kept> = (10..40).map(|i| last_good(&format!("a{i}"), "cert", 140_000, 1 << 20)).collect();
    kept.push(last_good("b", "cert", 5000, 0));
    assert_eq!(selected(&kept, 12 << 20)[0], "b/cert");
}

#[test]
fn each_namespace_has_an_equal_share_of_the_last_good_content() {
    let of = |namespace: &str, number: usize, size: usize| -> Vec<Kept> {
        (0..number).map(|i| last_good(namespace, &format!("{i:03}"), size, 0)).collect()
    };
    // The names have 4 bytes.
    let kept = [of("a", 100, 96), of("b", 3, 196), of("c", 1, 5996), of("d", 1, 396)].concat();
    let names = selected(&kept, 4000);
    let count = |namespace: &str| names.iter().filter(|name| name.starts_with(namespace)).count();
    assert_eq!(["a", "b", "c", "d"].map(count), [30, 3, 0, 1], "what others do not use is not wasted");
    assert_eq!(names[..4], ["a/000", "a/001", "b/000", "a/002"], "the namespaces take turns");
    let all = selected(&kept, usize::MAX);
    assert_eq!((all.len(), all.last().unwrap().as_str()), (105, "a/099"));
}
