//! Tests of clusters of one Service port with different policies.

#![allow(clippy::unwrap_used)]

use lockgate_xds::provenance::ObjectRef;
use lockgate_xds::snapshot::{Resource, ResourceType};

use super::*;
use crate::envoy;
use crate::model::{Action, ClusterId, Forward, PathMatch, Route, TrafficPolicy, UpstreamProtocol, WeightedCluster};
use crate::objects::Transport;
use crate::settings::Settings;
use crate::testing::objects::{objects, service, slice};
use crate::translate::backend::{Context, WantedPort, locate};
use crate::translate::translator::state::clusters::NewClusters;
use crate::translate::{ChangedInputs, Input};

/// A translator for routes with policies, which Ingresses cannot request.
struct World {
    objects: Objects,
    settings: Settings,
    translator: Translator,
    used: BTreeSet<ClusterId>,
}

impl World {
    fn new() -> Self {
        let list =
            [service("a").port("http", 80).into(), slice("a-1", "a").port("http", 8080).ready("10.0.0.1").into()];
        let (settings, translator) = (Settings::default(), Translator::default());
        Self { objects: objects(&list), settings, translator, used: BTreeSet::new() }
    }

    /// Replaces all routes by routes to the port `a:http` with `policies`. Returns the clusters.
    fn route(&mut self, policies: &[Option<&TrafficPolicy>]) -> (Vec<ClusterId>, Touched) {
        let Self { objects, settings, translator, used } = self;
        let backend_policies = &Default::default();
        let context = Context { objects, settings, backend_policies, client_certificate: None };
        let mut new = NewClusters::new();
        let mut locate = |policy: &Option<&TrafficPolicy>| {
            let located = locate(
                context,
                ObjectKey::new("shop", "a"),
                WantedPort::Number(80),
                Transport::Tcp,
                policy.cloned(),
                |_| (),
            )
            .unwrap();
            translator.clusters.authorize(&located, context, &mut new).unwrap();
            located.cluster
        };
        let ids: Vec<ClusterId> = policies.iter().map(&mut locate).collect();
        let before = std::mem::replace(used, ids.iter().cloned().collect());
        translator.clusters.add(new, &mut translator.ledger);
        let sorted = |ids: &BTreeSet<ClusterId>| ids.iter().cloned().collect::<Vec<_>>();
        translator.clusters.read(&sorted(&before), &sorted(used));
        translator.clusters.forget_unread(&mut translator.ledger);
        translator.clusters.replace_routes(&leading_to(&before), &leading_to(used));
        (ids, self.update(&ChangedInputs::default()))
    }

    fn update(&mut self, changed: &ChangedInputs) -> Touched {
        let mut touched = Touched::default();
        self.translator.update_clusters(&self.objects, &self.settings, changed, &BTreeSet::new(), &mut touched);
        touched
    }

    /// Returns the names of the resources of a type that Envoys receive.
    fn names(&self, kind: ResourceType) -> Vec<String> {
        self.resources(kind).iter().map(|resource| resource.name().to_string()).collect()
    }

    fn resources(&self, kind: ResourceType) -> Vec<Resource> {
        let all = envoy::build(self.translator.model(), &self.settings);
        all.into_iter().filter(|resource| resource.kind() == kind).collect()
    }
}

/// Returns a route to each of these clusters.
fn leading_to(clusters: &BTreeSet<ClusterId>) -> Vec<Arc<Route>> {
    let route = |cluster: &ClusterId| {
        let forward = Forward { clusters: vec![WeightedCluster::new(cluster.clone(), 1)], ..Forward::default() };
        let origin = ObjectRef::new("Ingress", "shop", "cart");
        Arc::new(Route::new(PathMatch::root(), Action::Forward(forward.into()), origin))
    };
    clusters.iter().map(route).collect()
}

fn policy(protocol: UpstreamProtocol) -> TrafficPolicy {
    let connect_timeout = std::time::Duration::from_secs(1);
    TrafficPolicy {
        protocol,
        connect_timeout,
        limits: Default::default(),
        client_certificate: None,
        verification: None,
        server_name: None,
        features: None,
    }
}

#[test]
fn clusters_of_a_port_share_one_load_assignment_until_the_last_is_removed() {
    let (h2, h2c) = (policy(UpstreamProtocol::H2), policy(UpstreamProtocol::H2c));
    let mut world = World::new();
    let (ids, touched) = world.route(&[None, Some(&h2), Some(&h2c), Some(&h2)]);
    assert_eq!(ids[1], ids[3], "equal policies share a cluster");
    assert_eq!((touched.clusters.len(), touched.endpoints.len()), (3, 1));
    let protocol = |id| world.translator.model().clusters[id].policy.protocol;
    assert_eq!(ids[..3].iter().map(protocol).collect::<Vec<_>>(), [UpstreamProtocol::Http1, h2.protocol, h2c.protocol]);
    let names = BTreeSet::from([
        "shop/a/http".to_owned(),
        format!("shop/a/http/{}", h2.id()),
        format!("shop/a/http/{}", h2c.id()),
    ]);
    assert_eq!(world.names(ResourceType::CLUSTER).into_iter().collect::<BTreeSet<_>>(), names);
    assert_eq!(world.names(ResourceType::ENDPOINTS), ["shop/a/http"]);
    for cluster in world.resources(ResourceType::CLUSTER) {
        assert_eq!(cluster.references().endpoints.iter().map(|name| &**name).collect::<Vec<_>>(), ["shop/a/http"]);
    }
    // A change of the endpoints touches them once, and no cluster.
    world.objects.apply(slice("a-2", "a").port("http", 8080).ready("10.0.0.2").into());
    let mut changed = ChangedInputs::default();
    changed.insert(Input::new(Kind::ENDPOINT_SLICE, ObjectKey::new("shop", "a")));
    let touched = world.update(&changed);
    assert_eq!((touched.clusters.len(), touched.endpoints.len()), (0, 1));
    // The cluster without a policy is removed first. The others keep the endpoints.
    for left in [&[Some(&h2), Some(&h2c)][..], &[Some(&h2c)]] {
        let (_, touched) = world.route(left);
        assert_eq!((touched.clusters.len(), touched.endpoints.len()), (1, 0));
        assert_eq!(world.names(ResourceType::CLUSTER).len(), left.len());
        assert_eq!(world.names(ResourceType::ENDPOINTS), ["shop/a/http"]);
    }
    let (_, touched) = world.route(&[]);
    assert_eq!((touched.clusters.len(), touched.endpoints.len()), (1, 1));
    assert!(world.translator.model().clusters.is_empty() && world.translator.model().endpoints.is_empty());
    assert!(world.translator.clusters.entries.is_empty());
}

#[test]
fn a_changed_policy_creates_a_new_cluster_and_keeps_the_endpoints() {
    let before = policy(UpstreamProtocol::H2c);
    let now = TrafficPolicy { connect_timeout: before.connect_timeout * 2, ..before.clone() };
    let mut world = World::new();
    let (old, _) = world.route(&[Some(&before)]);
    let (new, touched) = world.route(&[Some(&now)]);
    assert_ne!(old, new);
    assert_eq!(touched.clusters, old.into_iter().chain(new).collect());
    assert!(touched.endpoints.is_empty());
}

#[test]
fn a_policy_with_tls_presents_the_client_certificate_of_the_settings() {
    use crate::testing::model::pair_id;
    let world = World::new();
    let made = |policy: TrafficPolicy, client_certificate: Option<&Option<_>>| {
        let World { objects, settings, .. } = &world;
        let backend_policies = &Default::default();
        let context = Context { objects, settings, backend_policies, client_certificate };
        locate(context, ObjectKey::new("shop", "a"), WantedPort::Number(80), Transport::Tcp, Some(policy), |_| ())
            .unwrap()
            .make(context)
            .cluster
    };
    let presented = |made: Result<Arc<Cluster>, _>| made.unwrap().policy.client_certificate.clone();
    let (general, own) = (Some(pair_id("client")), Some(pair_id("own")));
    let tls = policy(UpstreamProtocol::Tls);
    assert_eq!(presented(made(tls.clone(), Some(&general))), general);
    assert_eq!(presented(made(TrafficPolicy { client_certificate: own.clone(), ..tls.clone() }, Some(&general))), own);
    assert_eq!(presented(made(policy(UpstreamProtocol::H2c), Some(&general))), None);
    assert!(made(tls, Some(&None)).is_err(), "fails closed");
}
