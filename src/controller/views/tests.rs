#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use envoy_types::pb::envoy::config::listener::v3 as listener_v3;
use lockgate_route::model::{Host, ListenerId};
use lockgate_route::settings::{Discovery, Routes};
use lockgate_route::testing::model::{Shared as _, model, model_with};
use lockgate_xds::snapshot::{Snapshot, Store};

use super::*;

/// Views that somebody wants, all of them.
fn wanted() -> Views {
    let views = Views::default();
    views.served().want_all();
    views
}

fn published(model: &Model) -> Views {
    let mut views = wanted();
    publish(&mut views, model);
    views
}

/// Publishes all of `model`, and what waits for its turn too.
fn publish(views: &mut Views, model: &Model) {
    update(views, model, &Touched::default(), true);
    settle(views, model);
}

fn update(views: &mut Views, model: &Model, touched: &Touched, everything: bool) -> Arc<Changes> {
    views.update(model, touched, &Settings::default(), everything, Instant::now())
}

/// As if all that waits for its turn had had it.
fn settle(views: &mut Views, model: &Model) {
    while let Some(due) = views.due() {
        views.update(model, &Touched::default(), &Settings::default(), false, due);
    }
}

fn snapshot(views: &Views, view: View) -> Arc<Snapshot> {
    views.served().newest(view).unwrap_or_else(|| panic!("{view:?} is not made"))
}

fn names(views: &Views, view: View, kind: ResourceType) -> Vec<String> {
    snapshot(views, view).all(kind).map(|one| one.name().to_string()).collect()
}

fn one(views: &Views, view: View, kind: ResourceType, name: &str) -> Arc<Resource> {
    snapshot(views, view).get(kind, name).unwrap_or_else(|| panic!("no {kind:?} {name} in {view:?}")).clone()
}

fn listener(name: &str, is_api: bool) -> Arc<Resource> {
    let api_listener = is_api.then(listener_v3::ApiListener::default);
    let message = listener_v3::Listener { name: name.into(), api_listener, ..Default::default() };
    Arc::new(Resource::new(name, &message, vec![]))
}

#[test]
fn clusters_and_load_assignments_are_one_resource_for_all() {
    let mut views = published(&model());
    let assert_one = |views: &Views| {
        for kind in [ResourceType::CLUSTER, ResourceType::ENDPOINTS] {
            let [envoy, whole, grpc] = View::ALL.map(|view| one(views, view, kind, "shop/cart/http"));
            assert!(Arc::ptr_eq(&envoy, &whole) && Arc::ptr_eq(&envoy, &grpc), "{kind:?}");
        }
    };
    assert_one(&views);
    // Also after a change.
    let mut changed = model();
    changed.clusters.values_mut().for_each(|cluster| Arc::make_mut(cluster).policy.connect_timeout *= 2);
    publish(&mut views, &changed);
    assert_one(&views);
}

#[test]
fn each_has_its_own_form_of_routes() {
    let views = published(&model());
    for view in [View::Envoy, View::Whole] {
        assert_eq!(names(&views, view, ResourceType::LISTENER), ["http", "https", "stats"]);
        assert!(names(&views, view, ResourceType::ROUTES).iter().all(|name| !name.starts_with("api/")));
    }
    assert!(!names(&views, View::Envoy, ResourceType::VIRTUAL_HOST).is_empty());
    assert!(names(&views, View::Whole, ResourceType::VIRTUAL_HOST).is_empty());
    let http = |view| one(&views, view, ResourceType::ROUTES, "http");
    assert!(!http(View::Envoy).references().names_cluster("shop/cart/http"));
    assert!(http(View::Whole).references().names_cluster("shop/cart/http"));
    assert!(names(&views, View::Grpc, ResourceType::LISTENER).contains(&"cart.shop:80".to_owned()));
    assert!(names(&views, View::Grpc, ResourceType::ROUTES).iter().all(|name| name.starts_with("api/")));
    // No key pair is for a client that cannot use it.
    assert!(names(&views, View::Grpc, ResourceType::SECRET).is_empty());
}

#[test]
fn a_cluster_that_grpc_takes_in_another_form_is_another_resource() {
    let views = published(&model());
    let version = |view| one(&views, view, ResourceType::CLUSTER, "shop/ip/h2c").version();
    assert_ne!(version(View::Envoy), version(View::Grpc));
    assert_eq!(names(&views, View::Grpc, ResourceType::CLUSTER), ["shop/cart/http", "shop/ip/h2c"]);
}

#[test]
fn a_view_is_made_when_somebody_wants_it_and_has_then_what_all_have() {
    let woken = Arc::new(AtomicUsize::new(0));
    let count = woken.clone();
    let wake = Box::new(move || _ = count.fetch_add(1, Ordering::Relaxed));
    let (mut views, model, eager) = (Views::new(View::Envoy, wake), model(), published(&model()));
    publish(&mut views, &model);
    for view in [View::Whole, View::Grpc] {
        assert!(views.served().newest(view).is_none(), "{view:?} is wanted by nobody");
    }
    assert_eq!(woken.load(Ordering::Relaxed), 0);
    for (view, wakes) in [(View::Whole, 1), (View::Grpc, 2)] {
        views.served().want(view);
        views.served().want(view);
        assert_eq!(woken.load(Ordering::Relaxed), wakes, "once");
        assert!(update(&mut views, &model, &Touched::default(), false).is_empty(), "nothing is new for Envoys");
        let (late, eager) = (snapshot(&views, view), snapshot(&eager, view));
        assert_eq!(late.generation(), views.generation());
        for kind in eager.kinds().chain(late.kinds()) {
            assert_eq!(late.version(kind), eager.version(kind), "{view:?} {kind:?}");
        }
    }
}

#[test]
fn what_is_made_for_files_has_whole_route_configurations_alone() {
    let mut views = Views::new(View::Whole, Box::new(|| ()));
    publish(&mut views, &model());
    let eager = published(&model());
    let (alone, eager) = (snapshot(&views, View::Whole), snapshot(&eager, View::Whole));
    assert!(eager.kinds().all(|kind| alone.version(kind) == eager.version(kind)));
    assert!(views.served().newest(View::Envoy).is_none());
    views.served().want(View::Grpc);
    update(&mut views, &model(), &Touched::default(), false);
    assert!(!names(&views, View::Grpc, ResourceType::LISTENER).is_empty());
}

#[test]
fn files_have_routes_in_one_piece_also_where_envoys_have_buckets() {
    let settings = Settings { routes: Routes { discovery: Discovery::Buckets }, ..Settings::default() };
    let mut views = Views::new(View::Whole, Box::new(|| ()));
    for changed in [false, true] {
        views.update(&model_with(&settings), &Touched::all(&model()), &settings, changed, Instant::now());
        assert!(one(&views, View::Whole, ResourceType::ROUTES, "http").references().names_cluster("shop/cart/http"));
        let scopes = names(&views, View::Whole, ResourceType::SCOPED_ROUTES);
        assert!(scopes.iter().all(|scope| scope.starts_with("https/")), "{scopes:?}");
        let listener = one(&views, View::Whole, ResourceType::LISTENER, "http");
        assert_eq!(listener.references().routes.iter().map(|name| &**name).collect::<Vec<_>>(), ["http"]);
    }
}

#[test]
fn the_settings_say_in_which_form_delta_envoys_get_routes() {
    let mut views = published(&model());
    for discovery in
        [Discovery::Rds, Discovery::Buckets, Discovery::Rds, Discovery::Vhds, Discovery::Buckets, Discovery::Auto]
    {
        let settings = Settings { routes: Routes { discovery }, ..Settings::default() };
        let mut again = wanted();
        for (views, changed) in [(&mut views, true), (&mut again, false)] {
            views.update(&model_with(&settings), &Touched::all(&model()), &settings, changed, Instant::now());
            while let Some(due) = views.due() {
                views.update(&model_with(&settings), &Touched::default(), &settings, false, due);
            }
        }
        let by_host = !names(&views, View::Envoy, ResourceType::ROUTES).is_empty()
            && snapshot(&views, View::Envoy).len(ResourceType::VIRTUAL_HOST) > 0;
        assert_eq!(by_host, [Discovery::Auto, Discovery::Vhds].contains(&discovery), "{discovery:?}");
        for view in View::ALL {
            let (views, again) = (snapshot(&views, view), snapshot(&again, view));
            for kind in views.kinds().chain(again.kinds()) {
                assert_eq!(views.version(kind), again.version(kind), "{discovery:?}: {kind:?} of {view:?}");
            }
        }
    }
}

#[test]
fn new_endpoints_are_one_resource_for_all_and_wait_for_nothing() {
    let mut views = published(&model());
    let mut model = model();
    // Routes of both other views have to wait.
    model.http_mut().pop_first().unwrap();
    for _ in 0..2 {
        update(&mut views, &model, &Touched::all(&self::model()), false);
    }
    views.whole.stale = true;
    let name = model.endpoints.keys().next().unwrap().clone();
    model.endpoints.get_mut(&name).unwrap().zones.clear();
    let touched = Touched { endpoints: [name.clone()].into(), ..Touched::default() };
    assert_eq!(update(&mut views, &model, &touched, false).changed.len(), 1);
    let [envoy, whole, grpc] = View::ALL.map(|view| one(&views, view, ResourceType::ENDPOINTS, &name.to_string()));
    assert!(Arc::ptr_eq(&envoy, &whole) && Arc::ptr_eq(&envoy, &grpc));
}

#[test]
fn all_views_count_the_same_publications_and_no_stream_is_told_of_a_number() {
    let mut views = published(&model());
    let before = View::ALL.map(|view| snapshot(&views, view));
    let mut changed = model();
    changed.secrets.pop_first().unwrap();
    update(&mut views, &changed, &Touched { secrets: Touched::all(&model()).secrets, ..Touched::default() }, false);
    let after = View::ALL.map(|view| snapshot(&views, view));
    assert!(after.iter().all(|after| after.generation() == views.generation()));
    let told = |at: usize| before[at].serial() != after[at].serial();
    assert_eq!([0, 1, 2].map(told), [true, true, false], "gRPC clients have no secrets");
}

#[test]
fn what_costs_much_is_made_at_once_and_then_waits_for_its_turn() {
    let (mut views, first) = (published(&model()), model());
    let [host, other] = [0, 1].map(|at| first.http().keys().nth(at).unwrap().clone());
    let touched = |host: &Host| {
        let mut touched = Touched { clusters: Touched::all(&first).clusters, ..Touched::default() };
        touched.insert_host(ListenerId::HTTP, host.clone());
        touched
    };
    let start = Instant::now() + Duration::from_secs(60);
    let settings = Settings::default();
    let version = |views: &Views| one(views, View::Whole, ResourceType::ROUTES, "http").version();

    let mut model = first.clone();
    model.http_mut().remove(&host);
    let before = version(&views);
    views.update(&model, &touched(&host), &settings, false, start);
    assert_ne!(version(&views), before, "the first at once");
    let begun = (version(&views), snapshot(&views, View::Whole).generation());
    assert_eq!(begun.1, views.generation());

    // Now it is as if it had just taken a second.
    views.whole.made(start, start + Duration::from_secs(1));
    let gone = model.clusters.pop_first().unwrap().0.to_string();
    model.http_mut().remove(&other);
    views.update(&model, &touched(&other), &settings, false, start + Duration::from_secs(4));
    let whole = snapshot(&views, View::Whole);
    assert_eq!((version(&views), whole.generation()), begun, "it does not have all of the newest publication");
    assert!(whole.get(ResourceType::CLUSTER, &gone).is_some(), "routes may lead there");
    assert!(snapshot(&views, View::Envoy).get(ResourceType::CLUSTER, &gone).is_none());
    assert_eq!(views.due(), Some(start + Duration::from_secs(5)));

    views.update(&model, &Touched::default(), &settings, false, start + Duration::from_secs(5));
    let whole = snapshot(&views, View::Whole);
    assert_eq!(whole.generation(), views.generation());
    assert!(whole.get(ResourceType::CLUSTER, &gone).is_none());
    let again = published(&model);
    settle(&mut views, &model);
    for view in View::ALL {
        let (paced, again) = (snapshot(&views, view), snapshot(&again, view));
        assert!(again.kinds().all(|kind| paced.version(kind) == again.version(kind)), "{view:?}");
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
    let mut views = Views::default();
    views.replace_foreign(vec![listener("web", false)], Instant::now());
    let (before, after, told) = around(views.served().store(View::Envoy), || {
        let update = Update { set: vec![listener("shop.test", true)], remove: vec![] };
        assert!(views.update_foreign(update, Instant::now()).is_empty());
    });
    assert!(!told);
    assert_eq!(before.version(ResourceType::LISTENER), after.version(ResourceType::LISTENER));
    assert_eq!(before.serial(), after.serial());
    assert_eq!(before.generation() + 1, after.generation(), "all count the same");
    assert_eq!(names(&views, View::Envoy, ResourceType::LISTENER), ["web"]);
    assert_eq!(names(&views, View::Grpc, ResourceType::LISTENER), ["shop.test"]);
    let (_, _, told) = around(views.served().store(View::Grpc), || {
        views.update_foreign(Update { set: vec![listener("other", false)], remove: vec![] }, Instant::now());
    });
    assert!(!told);
}

#[test]
fn a_listener_that_changes_its_audience_leaves_those_who_had_it() {
    let mut views = Views::default();
    views.replace_foreign(vec![listener("a", false)], Instant::now());
    let mut become_api = |is_api| {
        views.update_foreign(Update { set: vec![listener("a", is_api)], remove: vec![] }, Instant::now());
        [View::Envoy, View::Grpc].map(|view| names(&views, view, ResourceType::LISTENER).len())
    };
    assert_eq!(become_api(true), [0, 1]);
    assert_eq!(become_api(false), [1, 0]);
    let remove = vec![(ResourceType::LISTENER, Arc::from("a"))];
    views.update_foreign(Update { set: vec![], remove }, Instant::now());
    assert!(names(&views, View::Envoy, ResourceType::LISTENER).is_empty());
}

#[test]
fn p14_a_listener_of_a_server_is_for_grpc_and_all_but_listeners_for_both() {
    let mut views = Views::default();
    let cluster = envoy_types::pb::envoy::config::cluster::v3::Cluster { name: "c".into(), ..Default::default() };
    let server = "grpc/server?xds.resource.listening_address=127.0.0.1:50051";
    let cluster = Arc::new(Resource::new("c", &cluster, vec![]));
    views.replace_foreign(vec![listener(server, false), cluster], Instant::now());
    assert!(names(&views, View::Envoy, ResourceType::LISTENER).is_empty());
    assert_eq!(names(&views, View::Grpc, ResourceType::LISTENER), [server]);
    for view in View::ALL {
        assert_eq!(names(&views, view, ResourceType::CLUSTER), ["c"]);
    }
}
