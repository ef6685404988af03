#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use envoy_types::pb::envoy::config::listener::v3 as listener_v3;
use lockgate_route::model::{Bind, Destination, Host, Listener, ListenerId, Model, Touched, Traffic, WeightedCluster};
use lockgate_route::objects::ObjectKey;
use lockgate_route::settings::{RouteDiscoveryMode, RouteSettings, Settings};
use lockgate_route::testing::model::{Shared as _, cluster_id, model, model_with};
use lockgate_xds::provenance::ObjectRef;
use lockgate_xds::snapshot::{Resource, ResourceType, Store, Update};

use super::*;

/// Returns one fleet with all views.
fn requested() -> Fleets {
    let fleets = Fleets::default();
    fleets.request_all();
    fleets
}

fn published(model: &Model) -> Fleets {
    let mut fleets = requested();
    publish(&mut fleets, model);
    fleets
}

/// Publishes all of `model`, without pauses.
fn publish(fleets: &mut Fleets, model: &Model) {
    publish_with(fleets, model, &Settings::default());
}

fn update(fleets: &mut Fleets, model: &Model, touched: &Touched, settings_changed: bool) -> Arc<Changes> {
    let settings = &Settings::default();
    fleets.update(Change { model, touched, settings, settings_changed }, &fleets.dedicated.clone(), Instant::now())
}

/// A change of the model alone.
fn change<'a>(model: &'a Model, touched: &'a Touched, settings: &'a Settings) -> Change<'a> {
    Change { model, touched, settings, settings_changed: false }
}

/// Publishes `model` with new settings, without pauses.
fn publish_with(fleets: &mut Fleets, model: &Model, settings: &Settings) {
    let all = Touched::all(model);
    let everything = Change { settings_changed: true, ..change(model, &all, settings) };
    fleets.update(everything, &fleets.dedicated.clone(), Instant::now());
    settle(fleets, model, settings);
}

/// Ends all pauses.
fn settle(fleets: &mut Fleets, model: &Model, settings: &Settings) {
    for _ in 0..100 {
        let Some(due) = fleets.due() else { return };
        fleets.update(change(model, &Touched::default(), settings), &fleets.dedicated.clone(), due);
    }
    panic!("a build never ends");
}

/// The settings with this form of routes.
fn with_discovery(discovery: RouteDiscoveryMode) -> Settings {
    Settings { routes: RouteSettings { discovery }, ..Settings::default() }
}

fn newest(fleets: &Fleets, view: View) -> Option<Arc<Snapshot>> {
    fleets.stores().newest(&Class::shared(view))
}

fn whole(fleets: &mut Fleets) -> &mut whole::WholeViews {
    &mut fleets.fleets.get_mut(&FleetId::shared()).unwrap().views.whole
}

fn store(fleets: &Fleets, view: View) -> Arc<Store> {
    fleets.stores().get_or_create(Class::shared(view))
}

fn snapshot(fleets: &Fleets, view: View) -> Arc<Snapshot> {
    newest(fleets, view).unwrap_or_else(|| panic!("{view:?} is not built"))
}

fn assert_equal(one: &Snapshot, other: &Snapshot, context: &str) {
    for kind in one.kinds().chain(other.kinds()) {
        assert_eq!(one.version(kind), other.version(kind), "{context}: {kind:?}");
    }
}

fn names(fleets: &Fleets, view: View, kind: ResourceType) -> Vec<String> {
    snapshot(fleets, view).all(kind).map(|one| one.name().to_string()).collect()
}

fn one(fleets: &Fleets, view: View, kind: ResourceType, name: &str) -> Arc<Resource> {
    snapshot(fleets, view).get(kind, name).unwrap_or_else(|| panic!("no {kind:?} {name} in {view:?}")).clone()
}

fn listener(name: &str, is_api: bool) -> Arc<Resource> {
    let api_listener = is_api.then(listener_v3::ApiListener::default);
    let message = listener_v3::Listener { name: name.into(), api_listener, ..Default::default() };
    Arc::new(Resource::new(name, &message, vec![]))
}

#[test]
fn clusters_and_load_assignments_are_one_resource_for_all() {
    let mut fleets = published(&model());
    let assert_one = |fleets: &Fleets| {
        for kind in [ResourceType::CLUSTER, ResourceType::ENDPOINTS] {
            let [envoy, whole, grpc] = View::ALL.map(|view| one(fleets, view, kind, "shop/cart/http"));
            assert!(Arc::ptr_eq(&envoy, &whole) && Arc::ptr_eq(&envoy, &grpc), "{kind:?}");
        }
    };
    assert_one(&fleets);
    // Also after a change.
    let mut changed = model();
    changed.clusters.values_mut().for_each(|cluster| Arc::make_mut(cluster).policy.connect_timeout *= 2);
    publish(&mut fleets, &changed);
    assert_one(&fleets);
}

#[test]
fn each_has_its_own_form_of_routes() {
    let settings = with_discovery(RouteDiscoveryMode::Vhds);
    let mut fleets = requested();
    publish_with(&mut fleets, &model_with(&settings), &settings);
    for view in [View::Envoy, View::Whole] {
        assert_eq!(names(&fleets, view, ResourceType::LISTENER), ["http", "https", "stats"]);
        assert!(names(&fleets, view, ResourceType::ROUTES).iter().all(|name| !name.starts_with("api/")));
    }
    assert!(!names(&fleets, View::Envoy, ResourceType::VIRTUAL_HOST).is_empty());
    assert!(names(&fleets, View::Whole, ResourceType::VIRTUAL_HOST).is_empty());
    let http = |view| one(&fleets, view, ResourceType::ROUTES, "http");
    assert!(!http(View::Envoy).references().names_cluster("shop/cart/http"));
    assert!(http(View::Whole).references().names_cluster("shop/cart/http"));
    assert!(names(&fleets, View::Grpc, ResourceType::LISTENER).contains(&"cart.shop:80".to_owned()));
    assert!(names(&fleets, View::Grpc, ResourceType::ROUTES).iter().all(|name| name.starts_with("api/")));
    // gRPC clients cannot use key pairs, so they receive none.
    assert!(names(&fleets, View::Grpc, ResourceType::SECRET).is_empty());
}

#[test]
fn a_cluster_that_grpc_takes_in_another_form_is_another_resource() {
    let fleets = published(&model());
    let version = |view| one(&fleets, view, ResourceType::CLUSTER, "shop/ip/h2c").version();
    assert_ne!(version(View::Envoy), version(View::Grpc));
    assert_eq!(names(&fleets, View::Grpc, ResourceType::CLUSTER), ["shop/cart/http", "shop/ip/h2c"]);
}

#[test]
fn a_view_is_built_when_a_client_requests_it_and_then_equals_one_that_always_existed() {
    for discovery in [RouteDiscoveryMode::Auto, RouteDiscoveryMode::Rds, RouteDiscoveryMode::Vhds] {
        let settings = with_discovery(discovery);
        let model = model_with(&settings);
        let woken = Arc::new(AtomicUsize::new(0));
        let count = woken.clone();
        let wake = Box::new(move || _ = count.fetch_add(1, Ordering::Relaxed));
        let (mut fleets, mut eager) = (Fleets::shared(View::Envoy, wake), requested());
        publish_with(&mut fleets, &model, &settings);
        publish_with(&mut eager, &model, &settings);
        for view in [View::Whole, View::Grpc] {
            assert!(newest(&fleets, view).is_none(), "no client has requested {view:?}");
        }
        assert_eq!(woken.load(Ordering::Relaxed), 0);
        for (view, wakes) in [(View::Whole, 1), (View::Grpc, 2)] {
            store(&fleets, view);
            store(&fleets, view);
            assert_eq!(woken.load(Ordering::Relaxed), wakes, "once");
            let changes = fleets.update(
                change(&model, &Touched::default(), &settings),
                &fleets.dedicated.clone(),
                Instant::now(),
            );
            assert!(changes.is_empty(), "nothing is new for Envoys");
            settle(&mut fleets, &model, &settings);
            assert_eq!(snapshot(&fleets, view).generation(), fleets.generation());
            assert_equal(&snapshot(&fleets, view), &snapshot(&eager, view), &format!("{discovery:?} {view:?}"));
        }
    }
}

#[test]
fn a_view_that_no_client_requests_is_never_due() {
    let (mut fleets, model) = (Fleets::default(), model());
    publish_with(&mut fleets, &model, &with_discovery(RouteDiscoveryMode::Rds));
    // A build waits when routes become small resources, so that no view has complete route configurations any more.
    let start = Instant::now();
    whole(&mut fleets).pace.built(start, start + Duration::from_secs(60));
    whole(&mut fleets).pace.stale = true;
    let settings = with_discovery(RouteDiscoveryMode::Auto);
    let none = Touched::default();
    let everything = Change { settings_changed: true, ..change(&model, &none, &settings) };
    fleets.update(everything, &fleets.dedicated.clone(), Instant::now());
    assert_eq!(fleets.due(), None, "the loop would never sleep");
}

#[test]
fn files_contain_only_whole_route_configurations() {
    let mut fleets = Fleets::shared(View::Whole, Box::new(|| ()));
    publish(&mut fleets, &model());
    let settings = with_discovery(RouteDiscoveryMode::Rds);
    let mut eager = requested();
    publish_with(&mut eager, &model_with(&settings), &settings);
    let (alone, eager) = (snapshot(&fleets, View::Whole), snapshot(&eager, View::Whole));
    assert!(eager.kinds().all(|kind| alone.version(kind) == eager.version(kind)));
    assert!(newest(&fleets, View::Envoy).is_none());
    store(&fleets, View::Grpc);
    update(&mut fleets, &model(), &Touched::default(), false);
    assert!(!names(&fleets, View::Grpc, ResourceType::LISTENER).is_empty());
}

#[test]
fn files_have_routes_in_one_piece_also_where_envoys_have_scopes() {
    let settings = with_discovery(RouteDiscoveryMode::Scopes);
    let mut fleets = Fleets::shared(View::Whole, Box::new(|| ()));
    let model = model_with(&settings);
    for settings_changed in [false, true] {
        let all = Touched::all(&model);
        fleets.update(
            Change { settings_changed, ..change(&model, &all, &settings) },
            &fleets.dedicated.clone(),
            Instant::now(),
        );
        assert!(one(&fleets, View::Whole, ResourceType::ROUTES, "http").references().names_cluster("shop/cart/http"));
        let scopes = names(&fleets, View::Whole, ResourceType::SCOPED_ROUTES);
        assert!(scopes.iter().all(|scope| scope.starts_with("https/")), "{scopes:?}");
        let listener = one(&fleets, View::Whole, ResourceType::LISTENER, "http");
        assert_eq!(listener.references().routes.iter().map(|name| &**name).collect::<Vec<_>>(), ["http"]);
    }
}

#[test]
fn the_settings_say_in_which_form_delta_envoys_get_routes() {
    let mut fleets = published(&model());
    for discovery in [
        RouteDiscoveryMode::Rds,
        RouteDiscoveryMode::Scopes,
        RouteDiscoveryMode::Rds,
        RouteDiscoveryMode::Vhds,
        RouteDiscoveryMode::Scopes,
        RouteDiscoveryMode::Auto,
    ] {
        let settings = with_discovery(discovery);
        let mut again = requested();
        let model = model_with(&settings);
        for (fleets, settings_changed) in [(&mut fleets, true), (&mut again, false)] {
            let all = Touched::all(&model);
            fleets.update(
                Change { settings_changed, ..change(&model, &all, &settings) },
                &fleets.dedicated.clone(),
                Instant::now(),
            );
            settle(fleets, &model, &settings);
        }
        let by_host = !names(&fleets, View::Envoy, ResourceType::ROUTES).is_empty()
            && snapshot(&fleets, View::Envoy).len(ResourceType::VIRTUAL_HOST) > 0;
        assert_eq!(by_host, discovery == RouteDiscoveryMode::Vhds, "{discovery:?}");
        for view in View::ALL {
            assert_equal(&snapshot(&fleets, view), &snapshot(&again, view), &format!("{discovery:?} {view:?}"));
        }
    }
}

#[test]
fn new_endpoints_are_one_resource_for_all_and_wait_for_nothing() {
    let mut fleets = published(&model());
    let mut model = model();
    // Routes of both other views have to wait.
    model.http_mut().pop_first().unwrap();
    for _ in 0..2 {
        update(&mut fleets, &model, &Touched::all(&self::model()), false);
    }
    whole(&mut fleets).pace.stale = true;
    let name = model.endpoints.keys().next().unwrap().clone();
    model.endpoints.get_mut(&name).unwrap().zones.clear();
    let touched = Touched { endpoints: [name.clone()].into(), ..Touched::default() };
    assert_eq!(update(&mut fleets, &model, &touched, false).changed.len(), 1);
    let [envoy, whole, grpc] = View::ALL.map(|view| one(&fleets, view, ResourceType::ENDPOINTS, &name.to_string()));
    assert!(Arc::ptr_eq(&envoy, &whole) && Arc::ptr_eq(&envoy, &grpc));
}

#[test]
fn all_views_count_the_same_publications_and_no_stream_is_told_of_a_number() {
    let mut fleets = published(&model());
    let before = View::ALL.map(|view| snapshot(&fleets, view));
    let mut changed = model();
    changed.secrets.pop_first().unwrap();
    update(&mut fleets, &changed, &Touched { secrets: Touched::all(&model()).secrets, ..Touched::default() }, false);
    let after = View::ALL.map(|view| snapshot(&fleets, view));
    assert!(after.iter().all(|after| after.generation() == fleets.generation()));
    let inspected = |at: usize| before[at].serial() != after[at].serial();
    assert_eq!([0, 1, 2].map(inspected), [true, true, false], "gRPC clients have no secrets");
}

#[test]
fn expensive_resources_are_built_at_once_and_then_paced() {
    let settings = with_discovery(RouteDiscoveryMode::Vhds);
    let (mut fleets, first) = (requested(), model_with(&settings));
    publish_with(&mut fleets, &first, &settings);
    let [host, other] = [0, 1].map(|at| first.http().keys().nth(at).unwrap().clone());
    let touched = |host: &Host| {
        let mut touched = Touched { clusters: Touched::all(&first).clusters, ..Touched::default() };
        touched.insert_host(ListenerId::HTTP, host.clone());
        touched
    };
    let start = Instant::now() + Duration::from_secs(60);
    let version = |fleets: &Fleets| one(fleets, View::Whole, ResourceType::ROUTES, "http").version();

    let mut model = first.clone();
    model.http_mut().remove(&host);
    let before = version(&fleets);
    fleets.update(change(&model, &touched(&host), &settings), &Arc::default(), start);
    assert_ne!(version(&fleets), before, "the first at once");
    let begun = (version(&fleets), snapshot(&fleets, View::Whole).generation());
    assert_eq!(begun.1, fleets.generation());

    // Now it is as if it had just taken a second.
    whole(&mut fleets).pace.built(start, start + Duration::from_secs(1));
    let gone = model.clusters.pop_first().unwrap().0.to_string();
    model.http_mut().remove(&other);
    fleets.update(change(&model, &touched(&other), &settings), &Arc::default(), start + Duration::from_secs(4));
    let whole = snapshot(&fleets, View::Whole);
    assert_eq!((version(&fleets), whole.generation()), begun, "it does not have all of the newest publication");
    assert!(whole.get(ResourceType::CLUSTER, &gone).is_some(), "routes may lead there");
    assert!(snapshot(&fleets, View::Envoy).get(ResourceType::CLUSTER, &gone).is_none());
    assert_eq!(fleets.due(), Some(start + Duration::from_secs(5)));

    fleets.update(
        change(&model, &Touched::default(), &settings),
        &fleets.dedicated.clone(),
        start + Duration::from_secs(5),
    );
    let whole = snapshot(&fleets, View::Whole);
    assert_eq!(whole.generation(), fleets.generation());
    assert!(whole.get(ResourceType::CLUSTER, &gone).is_none());
    let mut again = requested();
    publish_with(&mut again, &model, &settings);
    settle(&mut fleets, &model, &settings);
    for view in View::ALL {
        assert_equal(&snapshot(&fleets, view), &snapshot(&again, view), &format!("{view:?}"));
    }
}

#[test]
fn resources_that_outdated_routes_kept_are_removed_when_the_settings_change_the_form_of_routes() {
    let (mut fleets, mut model) = (Fleets::default(), model());
    let settings = with_discovery(RouteDiscoveryMode::Rds);
    publish_with(&mut fleets, &model, &settings);
    let start = Instant::now();
    whole(&mut fleets).pace.built(start, start + Duration::from_secs(60));
    let (host, cluster) = (model.http_mut().pop_first().unwrap().0, model.clusters.pop_first().unwrap().0);
    let name = cluster.to_string();
    let mut touched = Touched { clusters: [cluster].into(), ..Touched::default() };
    touched.insert_host(ListenerId::HTTP, host);
    fleets.update(change(&model, &touched, &settings), &fleets.dedicated.clone(), start);
    assert!(snapshot(&fleets, View::Envoy).get(ResourceType::CLUSTER, &name).is_some());
    publish_with(&mut fleets, &model, &Settings::default());
    assert_equal(&snapshot(&fleets, View::Envoy), &snapshot(&published(&model), View::Envoy), "after the change");
}

/// The model with a listener for TCP connections to a cluster.
fn with_tcp(cluster: &str) -> Model {
    let clusters = vec![WeightedCluster::new(cluster_id(cluster), 1)];
    let traffic = Traffic::Tcp(Destination { clusters, refused: 0, origin: ObjectRef::new("TCPRoute", "shop", "db") });
    let mut model = Model { stats_tls: None, ..model() };
    model.listeners.insert(ListenerId::new("tcp"), Listener { bind: Bind { address: None, port: 5432 }, traffic });
    model
}

/// Returns the state in which the Gateway `edge` has a fleet with these listeners.
fn dedicated(listeners: &[&str]) -> Arc<Dedicated> {
    let gateway = ObjectKey::new("shop", "edge");
    let listeners = listeners.iter().map(|name| (ListenerId::new(name), gateway.clone())).collect();
    Arc::new(Dedicated { listeners, fleets: [gateway].into(), ..Dedicated::default() })
}

#[test]
fn two_fleets_serve_different_listeners_of_one_model() {
    let edge = FleetId::of_gateway(&ObjectKey::new("shop", "edge"));
    let mut fleets = Fleets::default();
    fleets.assign(&dedicated(&["tcp"]));
    fleets.request_all();
    publish(&mut fleets, &with_tcp("shop/ip/h2c"));
    let stores = fleets.stores();
    let of_edge = |view| stores.newest(&Class { fleet: edge.clone(), view }).unwrap();
    let names = |snapshot: &Snapshot, kind| snapshot.all(kind).map(|one| one.name().to_string()).collect::<Vec<_>>();
    for view in [View::Envoy, View::Whole] {
        assert_eq!(names(&snapshot(&fleets, view), ResourceType::LISTENER), ["http", "https", "stats"], "{view:?}");
        assert_eq!(names(&of_edge(view), ResourceType::LISTENER), ["stats", "tcp"], "{view:?}");
        assert_eq!(names(&of_edge(view), ResourceType::CLUSTER), ["shop/ip/h2c"], "{view:?}");
        for kind in [ResourceType::SECRET, ResourceType::ENDPOINTS, ResourceType::ROUTES, ResourceType::VIRTUAL_HOST] {
            assert!(names(&of_edge(view), kind).is_empty(), "{kind:?} of the other fleet");
        }
    }
    assert!(names(&of_edge(View::Grpc), ResourceType::LISTENER).iter().all(|name| name.contains("ip.shop")));

    // A change of one fleet is no change of the other, even if it brings a cluster that the other already has.
    let before = View::ALL.map(|view| snapshot(&fleets, view).serial());
    let touched = Touched { listeners: [ListenerId::new("tcp")].into(), ..Touched::default() };
    let model = with_tcp("shop/cart/http");
    assert!(update(&mut fleets, &model, &touched, false).is_empty());
    settle(&mut fleets, &model, &Settings::default());
    assert_eq!(View::ALL.map(|view| snapshot(&fleets, view).serial()), before);
    for kind in [ResourceType::CLUSTER, ResourceType::ENDPOINTS] {
        assert_eq!(names(&of_edge(View::Envoy), kind), ["shop/cart/http"]);
        let shared = |snapshot: &Snapshot| snapshot.get(kind, "shop/cart/http").unwrap().clone();
        assert_eq!(shared(&of_edge(View::Envoy)).version(), shared(&snapshot(&fleets, View::Envoy)).version());
        assert!(Arc::ptr_eq(&shared(&of_edge(View::Envoy)), &shared(&of_edge(View::Whole))), "views share {kind:?}");
    }
    assert_eq!(of_edge(View::Envoy).generation(), fleets.generation());
}

/// Moves listeners without a change of the model.
fn assign(fleets: &mut Fleets, model: &Model, dedicated: &Arc<Dedicated>) {
    fleets.update(change(model, &Touched::default(), &Settings::default()), dedicated, Instant::now());
    settle(fleets, model, &Settings::default());
}

#[test]
fn the_shared_fleet_keeps_a_listener_until_its_gateway_has_moved() {
    let mut model = with_tcp("shop/cart/http");
    model.clusters.values_mut().for_each(|cluster| Arc::make_mut(cluster).policy.client_certificate = None);
    let mut fleets = published(&model);
    let before = snapshot(&fleets, View::Envoy);
    let state = |moving: bool, draining: bool| {
        let set = |is_set: bool| is_set.then(|| ListenerId::new("https")).into_iter().collect();
        let base = Dedicated::clone(&dedicated(&["https"]));
        Arc::new(Dedicated { moving: set(moving), draining: set(draining), ..base })
    };
    let listeners = |fleets: &Fleets| names(fleets, View::Envoy, ResourceType::LISTENER).contains(&"https".to_owned());
    let pairs = |fleets: &Fleets| names(fleets, View::Envoy, ResourceType::SECRET).len();
    let moving = state(true, false);
    assign(&mut fleets, &model, &moving);
    assert!(listeners(&fleets) && pairs(&fleets) > 0, "moving");
    let edge = Class { fleet: FleetId::of_gateway(&ObjectKey::new("shop", "edge")), view: View::Envoy };
    let of_edge = fleets.stores().newest(&edge).unwrap();
    assert!(of_edge.get(ResourceType::LISTENER, "https").is_some(), "the dedicated fleet has it too");

    let all_pairs = pairs(&fleets);
    assign(&mut fleets, &model, &state(false, true));
    assert_eq!((listeners(&fleets), pairs(&fleets)), (false, all_pairs), "open connections need the key pair");
    assign(&mut fleets, &model, &state(false, false));
    assert!(!listeners(&fleets) && pairs(&fleets) < all_pairs);

    // The Gateway leaves the fleet, at each stage.
    for stage in [state(false, true), state(false, false), moving] {
        assign(&mut fleets, &model, &stage);
        assign(&mut fleets, &model, &Arc::default());
        assert_equal(&snapshot(&fleets, View::Envoy), &before, "shared again");
    }
}

#[test]
fn a_listener_moves_between_fleets_with_what_it_needs() {
    let mut model = with_tcp("shop/cart/http");
    model.clusters.values_mut().for_each(|cluster| Arc::make_mut(cluster).policy.client_certificate = None);
    let mut fleets = published(&model);
    let shared = View::ALL.map(|view| snapshot(&fleets, view));
    let of_edge = |stores: &Stores| {
        let fleet = FleetId::of_gateway(&ObjectKey::new("shop", "edge"));
        stores.get(&Class { fleet, view: View::Envoy })
    };
    let stores = fleets.stores();
    assert!(of_edge(&stores).is_none());

    // All listeners that need key pairs move to a fleet of their own.
    assign(&mut fleets, &model, &dedicated(&["https", "tcp"]));
    let edge = of_edge(&stores).unwrap();
    let count = |snapshot: &Snapshot, kind| snapshot.all(kind).count();
    for view in [View::Envoy, View::Whole] {
        assert_eq!(names(&fleets, view, ResourceType::LISTENER), ["http", "stats"], "{view:?}");
        assert!(names(&fleets, view, ResourceType::SECRET).is_empty(), "{view:?}");
    }
    let moved = edge.newest().unwrap();
    assert_eq!(moved.get(ResourceType::LISTENER, "tcp").map(|one| one.kind()), Some(ResourceType::LISTENER));
    assert_eq!(count(&moved, ResourceType::SECRET), 1, "the key pair of the listener");
    assert_eq!(moved.generation(), fleets.generation());

    // What the fleets have does not depend on the path.
    let mut others = Fleets::default();
    others.assign(&dedicated(&["https", "tcp"]));
    others.request_all();
    publish(&mut others, &model);
    for view in View::ALL {
        assert_equal(&snapshot(&fleets, view), &snapshot(&others, view), &format!("shared {view:?}"));
    }
    assert_equal(&moved, &of_edge(&others.stores()).unwrap().newest().unwrap(), "edge");

    // One listener returns, then the fleet goes. Its streams end.
    assign(&mut fleets, &model, &dedicated(&["tcp"]));
    assert_eq!(names(&fleets, View::Envoy, ResourceType::LISTENER), ["http", "https", "stats"]);
    let mut stream = edge.subscribe();
    drop(edge);
    assign(&mut fleets, &model, &Arc::default());
    assert!(of_edge(&stores).is_none());
    stream.borrow_and_update();
    assert!(stream.has_changed().is_err(), "the streams of its Envoys end");
    for (view, before) in View::ALL.into_iter().zip(&shared) {
        assert_equal(&snapshot(&fleets, view), before, &format!("all in one fleet again: {view:?}"));
    }
    assert!(fleets.fleets.values().all(|fleet| fleet.part.is_none()), "the model is not copied any more");
}

#[test]
fn a_client_of_a_fleet_that_does_not_exist_is_sent_away() {
    let mut fleets = published(&model());
    let stores = fleets.stores();
    let class = Class { fleet: FleetId::of_gateway(&ObjectKey::new("shop", "gone")), view: View::Envoy };
    let stream = stores.get_or_create(class.clone()).subscribe();
    assert!(fleets.is_incomplete(), "the loop is woken");
    update(&mut fleets, &model(), &Touched::default(), false);
    assert!(stores.get(&class).is_none() && stream.has_changed().is_err());
    assert!(!fleets.is_incomplete());
}

/// What `store` was published as before and after `change`, and whether its streams were told of anything.
fn around(store: &Store, change: impl FnOnce()) -> (Arc<Snapshot>, Arc<Snapshot>, bool) {
    let mut streams = store.subscribe();
    let before = streams.borrow_and_update().clone().unwrap();
    change();
    let inspected = streams.has_changed().unwrap();
    (before, store.newest().unwrap(), inspected)
}

#[test]
fn p10_envoy_is_not_woken_by_what_is_for_grpc_alone() {
    let mut fleets = Fleets::default();
    fleets.replace_foreign(vec![listener("web", false)], Instant::now());
    let (before, after, inspected) = around(&store(&fleets, View::Envoy), || {
        let update = Update { set: vec![listener("shop.test", true)], remove: vec![] };
        assert!(fleets.update_foreign(update, Instant::now()).is_empty());
    });
    assert!(!inspected);
    assert_eq!(before.version(ResourceType::LISTENER), after.version(ResourceType::LISTENER));
    assert_eq!(before.serial(), after.serial());
    assert_eq!(before.generation() + 1, after.generation(), "all count the same");
    assert_eq!(names(&fleets, View::Envoy, ResourceType::LISTENER), ["web"]);
    assert_eq!(names(&fleets, View::Grpc, ResourceType::LISTENER), ["shop.test"]);
    let (_, _, inspected) = around(&store(&fleets, View::Grpc), || {
        fleets.update_foreign(Update { set: vec![listener("other", false)], remove: vec![] }, Instant::now());
    });
    assert!(!inspected);
}

#[test]
fn a_listener_that_changes_its_audience_leaves_those_who_had_it() {
    let mut fleets = Fleets::default();
    fleets.replace_foreign(vec![listener("a", false)], Instant::now());
    let mut become_api = |is_api| {
        fleets.update_foreign(Update { set: vec![listener("a", is_api)], remove: vec![] }, Instant::now());
        [View::Envoy, View::Grpc].map(|view| names(&fleets, view, ResourceType::LISTENER).len())
    };
    assert_eq!(become_api(true), [0, 1]);
    assert_eq!(become_api(false), [1, 0]);
    let remove = vec![(ResourceType::LISTENER, Arc::from("a"))];
    fleets.update_foreign(Update { set: vec![], remove }, Instant::now());
    assert!(names(&fleets, View::Envoy, ResourceType::LISTENER).is_empty());
}

#[test]
fn p14_a_listener_of_a_server_is_for_grpc_and_all_but_listeners_for_both() {
    let mut fleets = Fleets::default();
    let cluster = envoy_types::pb::envoy::config::cluster::v3::Cluster { name: "c".into(), ..Default::default() };
    let server = "grpc/server?xds.resource.listening_address=127.0.0.1:50051";
    let cluster = Arc::new(Resource::new("c", &cluster, vec![]));
    fleets.replace_foreign(vec![listener(server, false), cluster], Instant::now());
    assert!(names(&fleets, View::Envoy, ResourceType::LISTENER).is_empty());
    assert_eq!(names(&fleets, View::Grpc, ResourceType::LISTENER), [server]);
    for view in View::ALL {
        assert_eq!(names(&fleets, view, ResourceType::CLUSTER), ["c"]);
    }
}
