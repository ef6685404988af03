#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use envoy_types::pb::envoy::config::listener::v3 as listener_v3;

use super::*;
use crate::envoy;
use crate::envoy::tests::fixture::model;
use crate::settings::Settings;
use crate::snapshot::Snapshot;

fn published(model: &Model) -> Views {
    let views = Views::default();
    publish(&views, model);
    views
}

fn publish(views: &Views, model: &Model) {
    views.replace(model, envoy::build(model, &Settings::default()), Instant::now());
}

fn names(store: &Store, kind: ResourceType) -> Vec<String> {
    store.newest().unwrap().all(kind).map(|one| one.name().to_string()).collect()
}

fn one(store: &Store, kind: ResourceType, name: &str) -> Arc<Resource> {
    store.newest().unwrap().get(kind, name).unwrap_or_else(|| panic!("no {kind:?} {name}")).clone()
}

fn listener(name: &str, is_api: bool) -> Arc<Resource> {
    let api_listener = is_api.then(listener_v3::ApiListener::default);
    let message = listener_v3::Listener { name: name.into(), api_listener, ..Default::default() };
    Arc::new(Resource::new(name, &message, vec![]))
}

#[test]
fn clusters_and_load_assignments_are_one_resource_for_both() {
    let views = published(&model());
    for kind in [ResourceType::CLUSTER, ResourceType::ENDPOINTS] {
        let [envoys, grpcs] = [&views.envoy, &views.grpc].map(|store| one(store, kind, "shop/cart/http"));
        assert!(Arc::ptr_eq(&envoys, &grpcs), "{kind:?}");
    }
    // Also after a change.
    let mut changed = model();
    changed.clusters.values_mut().for_each(|cluster| cluster.connect_timeout *= 2);
    publish(&views, &changed);
    let [envoys, grpcs] = [&views.envoy, &views.grpc].map(|store| one(store, ResourceType::CLUSTER, "shop/cart/http"));
    assert!(Arc::ptr_eq(&envoys, &grpcs));
}

#[test]
fn each_has_its_own_listeners_and_routes() {
    let views = published(&model());
    assert_eq!(names(&views.envoy, ResourceType::LISTENER), ["http", "https", "stats"]);
    assert!(names(&views.envoy, ResourceType::ROUTES).iter().all(|name| !name.starts_with("api/")));
    assert!(names(&views.grpc, ResourceType::LISTENER).contains(&"cart.shop:80".to_owned()));
    assert!(names(&views.grpc, ResourceType::ROUTES).iter().all(|name| name.starts_with("api/")));
    // No key pair is for a client that cannot use it.
    assert!(names(&views.grpc, ResourceType::SECRET).is_empty());
}

#[test]
fn a_cluster_that_grpc_takes_in_another_form_is_another_resource() {
    let views = published(&model());
    let version = |store: &Store| one(store, ResourceType::CLUSTER, "shop/ip/h2c").version();
    assert_ne!(version(&views.envoy), version(&views.grpc));
    assert_eq!(names(&views.grpc, ResourceType::CLUSTER), ["shop/cart/http", "shop/ip/h2c"]);
}

#[test]
fn new_endpoints_are_one_resource_for_both() {
    let views = published(&model());
    let (name, mut endpoints) = model().endpoints.pop_first().unwrap();
    endpoints.zones.clear();
    let set = vec![Arc::new(envoy::endpoint::load_assignment(&name, &endpoints))];
    let changes = views.update_endpoints(Update { set: set.clone(), remove: vec![] }, Instant::now());
    assert_eq!(changes.changed.len(), 1);
    for store in [&views.envoy, &views.grpc] {
        assert!(Arc::ptr_eq(&one(store, ResourceType::ENDPOINTS, &name.0), &set[0]));
    }
}

/// What `store` was published as before and after `change`, and whether its streams were told of anything.
fn around(store: &Store, change: impl FnOnce()) -> (Arc<Snapshot>, Arc<Snapshot>, bool) {
    let mut streams = store.subscribe();
    let before = streams.borrow_and_update().clone().unwrap();
    change();
    let told = streams.has_changed().unwrap();
    (before, store.newest().unwrap(), told)
}

#[test]
fn p10_envoy_is_not_woken_by_what_is_for_grpc_alone() {
    let views = Views::default();
    views.replace_foreign(vec![listener("web", false)], Instant::now());
    let (before, after, told) = around(&views.envoy, || {
        let update = Update { set: vec![listener("shop.test", true)], remove: vec![] };
        assert!(views.update_foreign(update, Instant::now()).is_empty());
    });
    assert!(!told);
    assert_eq!(before.version(ResourceType::LISTENER), after.version(ResourceType::LISTENER));
    assert_eq!(before.generation(), after.generation());
    assert_eq!(names(&views.envoy, ResourceType::LISTENER), ["web"]);
    assert_eq!(names(&views.grpc, ResourceType::LISTENER), ["shop.test"]);
    let (_, _, told) = around(&views.grpc, || {
        views.update_foreign(Update { set: vec![listener("other", false)], remove: vec![] }, Instant::now());
    });
    assert!(!told);
}

#[test]
fn a_listener_that_changes_its_audience_leaves_those_who_had_it() {
    let views = Views::default();
    views.replace_foreign(vec![listener("a", false)], Instant::now());
    let become_api = |is_api| {
        views.update_foreign(Update { set: vec![listener("a", is_api)], remove: vec![] }, Instant::now());
        [&views.envoy, &views.grpc].map(|store| names(store, ResourceType::LISTENER).len())
    };
    assert_eq!(become_api(true), [0, 1]);
    assert_eq!(become_api(false), [1, 0]);
    let remove = vec![(ResourceType::LISTENER, Arc::from("a"))];
    views.update_foreign(Update { set: vec![], remove }, Instant::now());
    assert!(names(&views.envoy, ResourceType::LISTENER).is_empty());
}

#[test]
fn p14_a_listener_of_a_server_is_for_grpc_and_all_but_listeners_for_both() {
    let views = Views::default();
    let cluster = envoy_types::pb::envoy::config::cluster::v3::Cluster { name: "c".into(), ..Default::default() };
    let server = "grpc/server?xds.resource.listening_address=127.0.0.1:50051";
    let cluster = Arc::new(Resource::new("c", &cluster, vec![]));
    views.replace_foreign(vec![listener(server, false), cluster], Instant::now());
    assert!(names(&views.envoy, ResourceType::LISTENER).is_empty());
    assert_eq!(names(&views.grpc, ResourceType::LISTENER), [server]);
    for store in [&views.envoy, &views.grpc] {
        assert_eq!(names(store, ResourceType::CLUSTER), ["c"]);
    }
}
