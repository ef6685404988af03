//! Tests of the selection.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::envoy::{Builder, Change, Forms, build, names};
use crate::model::PathMatch;
use crate::settings::RouteDiscoveryMode;
use crate::testing::model::{empty, follow_settings, forward};

/// The settings with this limit.
fn limit(max_objects: u32) -> Settings {
    Settings { statistics: crate::settings::StatisticsSettings { max_objects }, ..Settings::default() }
}

/// Returns the same settings with a resource for each virtual host, which hosts can share, and an empty model.
fn shared(max_objects: u32) -> (Settings, Model) {
    let mut settings = limit(max_objects);
    settings.routes.discovery = RouteDiscoveryMode::Vhds;
    let mut model = empty();
    follow_settings(&mut model, &settings);
    (settings, model)
}

fn host(name: &str) -> Host {
    Host::Exact(name.into())
}

fn route(namespace: &str, name: &str) -> Route {
    let path = PathMatch::Exact(format!("/{namespace}/{name}").into());
    Route::new(path, forward("shop/cart/http"), ObjectRef::new("Ingress", namespace, name))
}

/// Replaces the routes of a plain host. Returns the touched parts of the model.
fn serve(model: &mut Model, at: &str, routes: Vec<Route>) -> Touched {
    let hosts = &mut model.plain_mut(ListenerId::HTTP).unwrap().hosts;
    match routes.is_empty() {
        true => drop(hosts.remove(&host(at))),
        false => drop(hosts.insert(host(at), VirtualHostRoutes::new(routes))),
    }
    let mut touched = Touched::default();
    touched.insert_host(ListenerId::HTTP, host(at));
    touched
}

/// Returns the selected units: `shop/cart shop.test`.
fn selected(statistics: &Statistics) -> Vec<String> {
    let on = |(host, objects): (&Host, &Counted)| {
        objects.iter().map(|(namespace, _, name)| format!("{namespace}/{name} {host}")).collect::<Vec<_>>()
    };
    statistics.counted.iter().flat_map(on).collect()
}

#[test]
fn namespaces_share_a_limit_equally() {
    for (counts, most, expected) in [
        (vec![1, 2, 3], 6, vec![1, 2, 3]),
        (vec![1, 2, 3], 5, vec![1, 2, 2]),
        (vec![1, 2, 3], 4, vec![1, 2, 1]),
        (vec![1000, 2, 1], 10, vec![7, 2, 1]),
        (vec![1, 1, 1], 2, vec![1, 1, 0]),
        (vec![5, 5], 0, vec![0, 0]),
        (vec![], 3, vec![]),
    ] {
        assert_eq!(shares(&counts, most), expected, "{counts:?} {most}");
    }
}

#[test]
fn an_additional_unit_moves_at_most_one_other_unit() {
    for size in 0..5usize.pow(4) {
        let counts: Vec<usize> = (0..4).map(|digit| size / 5usize.pow(digit) % 5).collect();
        for most in 0..9 {
            let before = shares(&counts, most);
            assert_eq!(before.iter().sum::<usize>(), most.min(counts.iter().sum()));
            for at in 0..counts.len() {
                let mut more = counts.clone();
                more[at] += 1;
                let after = shares(&more, most);
                let moved: usize = before.iter().zip(&after).map(|(before, after)| before.abs_diff(*after)).sum();
                assert!(moved <= 2, "{counts:?} {most}: {before:?} {after:?}");
            }
        }
    }
}

#[test]
fn a_change_moves_few_objects_and_every_sequence_gives_the_same_selection() {
    let settings = limit(12);
    let (mut model, mut kept) = (empty(), Statistics::default());
    kept.update(&model, &Touched::all(&model), &settings);
    let mut state = 1u64;
    let mut below = |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    for _ in 0..2_000 {
        let at = format!("h{}.test", below(12));
        let before = model.plain(ListenerId::HTTP).unwrap().hosts.get(&host(&at)).map_or(0, |now| now.routes.len());
        let mut routes: Vec<Route> = match model.plain(ListenerId::HTTP).unwrap().hosts.get(&host(&at)) {
            Some(content) => content.routes.iter().map(|one| (**one).clone()).collect(),
            None => vec![],
        };
        let name = format!("o{}", below(4));
        let namespace = ["a", "b", "c"][below(3) as usize];
        let known = routes.iter().position(|one| *one.origin.name == *name && *one.origin.namespace == *namespace);
        match known {
            Some(known) => drop(routes.remove(known)),
            None => routes.push(route(namespace, &name)),
        }
        assert!(routes.len().abs_diff(before) == 1);
        let touched = serve(&mut model, &at, routes);
        let was = selected(&kept);
        let moved = kept.update(&model, &touched, &settings);
        let mut anew = Statistics::default();
        anew.update(&model, &Touched::all(&model), &settings);
        assert_eq!(selected(&kept), selected(&anew));
        assert_eq!(kept.counts(), anew.counts());
        let now = selected(&kept);
        let gone = was.iter().filter(|one| !now.contains(one)).count();
        assert!(gone <= 1, "{was:?} {now:?}");
        assert!(moved.len() <= 3, "{moved:?}");
    }
    serve(&mut model, "h0.test", vec![]);
    let nothing = Model::default();
    kept.update(&nothing, &Touched::all(&model), &settings);
    assert_eq!(kept.counts(), (0, 0));
    assert!(kept.namespaces.is_empty() && kept.places.is_empty());
}

#[test]
fn a_tenant_cannot_use_up_the_limit_and_does_not_affect_others_within_their_shares() {
    let (settings, mut model, mut statistics) = (limit(10), empty(), Statistics::default());
    serve(&mut model, "small.test", vec![route("small", "a"), route("small", "b")]);
    statistics.update(&model, &Touched::all(&model), &settings);
    for number in 0..100 {
        let touched = serve(&mut model, &format!("{number}.big.test"), vec![route("big", "a")]);
        let moved = statistics.update(&model, &touched, &settings);
        assert!(!moved.contains(&(ListenerId::new(ListenerId::HTTP), host("small.test"))));
        assert!(moved.len() <= 2, "{moved:?}");
    }
    assert_eq!(statistics.on(&host("small.test")).map(BTreeSet::len), Some(2));
    assert_eq!(statistics.counts(), (10, 92));
}

#[test]
fn names_that_kubernetes_forbids_have_no_statistics() {
    let mut model = empty();
    let long = "x".repeat(300);
    let names =
        [("shop", "cart/x"), ("sh.op", "cart"), ("sh/op", "cart"), ("", "cart"), ("shop", &*long), ("shop", "A")];
    serve(&mut model, "shop.test", names.iter().map(|(namespace, name)| route(namespace, name)).collect());
    let mut statistics = Statistics::default();
    statistics.update(&model, &Touched::all(&model), &limit(100));
    assert_eq!(statistics.counts(), (0, 0));
}

#[test]
fn the_builder_rebuilds_the_routes_of_moved_objects() {
    let (settings, mut model) = shared(2);
    let mut builder = Builder::default();
    let forms = Forms { vhds: true, ..Forms::default() };
    let first =
        Change { model: &model.clone(), touched: &Touched::all(&model), settings: &settings, settings_changed: true };
    builder.update(first, forms);
    let prefixes = |resources: &[Arc<lockgate_xds::snapshot::Resource>]| -> Vec<(String, String)> {
        use envoy_types::pb::envoy::config::route::v3 as route_v3;
        use prost::Message as _;
        let hosts = resources.iter().filter(|one| one.kind() == lockgate_xds::snapshot::ResourceType::VIRTUAL_HOST);
        let hosts = hosts.map(|one| route_v3::VirtualHost::decode(one.message()).unwrap());
        hosts.flat_map(|host| host.routes.into_iter().map(move |one| (host.name.clone(), one.stat_prefix))).collect()
    };
    let pair = |host: &str, prefix: &str| (format!("http/{}", host.replace('.', "_")), prefix.to_owned());
    let mut update = |model: &Model, touched: &Touched| {
        builder.update(Change { model, touched, settings: &settings, settings_changed: false }, forms)
    };
    let touched = serve(&mut model, "a.test", vec![route("a", "one")]);
    assert_eq!(prefixes(&update(&model, &touched).vhds.set), [pair("a.test", "Ingress/a/one")]);
    let touched = serve(&mut model, "b.test", vec![route("a", "two")]);
    assert_eq!(prefixes(&update(&model, &touched).vhds.set), [pair("b.test", "Ingress/a/two")]);
    // The third object belongs to another namespace, so it is selected instead of the second.
    let touched = serve(&mut model, "c.test", vec![route("b", "one")]);
    let built = update(&model, &touched);
    assert!(built.statistics_moved);
    assert_eq!(prefixes(&built.vhds.set), [pair("b.test", ""), pair("c.test", "Ingress/b/one")]);
    // Another backend of a host moves nothing.
    let touched = serve(&mut model, "c.test", vec![route("b", "one"), route("b", "one")]);
    assert!(!update(&model, &touched).statistics_moved);
    let touched = serve(&mut model, "c.test", vec![]);
    assert_eq!(prefixes(&update(&model, &touched).vhds.set), [pair("b.test", "Ingress/a/two")]);
    assert_eq!(names::route(&ObjectRef::new("Ingress", "a", "two")), "Ingress/a/two");
}

#[test]
fn hosts_with_statistics_share_no_virtual_host() {
    let (_, mut model) = shared(0);
    for at in ["a.test", "b.test"] {
        serve(&mut model, at, vec![route("shop", "cart")]);
    }
    let routes = |max_objects| {
        let resources = build(&model, &shared(max_objects).0);
        let one = resources
            .into_iter()
            .find(|one| &**one.name() == ListenerId::HTTP && one.kind().full_name().ends_with("RouteConfiguration"));
        use prost::Message as _;
        envoy_types::pb::envoy::config::route::v3::RouteConfiguration::decode(one.unwrap().message()).unwrap()
    };
    assert_eq!(routes(0).virtual_hosts.iter().filter(|one| one.domains.len() == 2).count(), 1);
    assert!(routes(0).virtual_hosts.iter().flat_map(|one| &one.routes).all(|one| one.stat_prefix.is_empty()));
    assert!(routes(10).virtual_hosts.iter().all(|one| one.domains.len() == 1));
    // The second host is beyond the limit.
    let prefixes: Vec<_> = routes(1).virtual_hosts.into_iter().map(|one| one.routes[0].stat_prefix.clone()).collect();
    assert_eq!(prefixes, ["Ingress/shop/cart", "", ""]);
}

#[test]
fn a_large_host_keeps_the_routes_whose_statistics_do_not_change() {
    let settings = limit(40);
    let (mut model, mut builder) = (empty(), Builder::default());
    let objects = |count: usize| (0..count).map(|one| route("shop", &format!("o{one:02}"))).collect::<Vec<_>>();
    // Objects of another namespace change the share of the first namespace, so routes gain and lose statistics.
    for (count, others) in [(35, 0), (45, 0), (45, 10), (45, 0), (50, 15), (38, 30), (60, 2), (45, 0)] {
        let of_others = (0..others).map(|one| route("other", &format!("o{one}"))).collect();
        serve(&mut model, "other.test", of_others);
        serve(&mut model, "shop.test", objects(count));
        let mut touched = Touched::default();
        touched.insert_host(ListenerId::HTTP, host("shop.test"));
        touched.insert_host(ListenerId::HTTP, host("other.test"));
        let change = Change { model: &model, touched: &touched, settings: &settings, settings_changed: false };
        let kept = builder.update(change, Forms::default()).shared.set;
        let kept = kept.iter().find(|one| &**one.name() == "http/shop.test").unwrap();
        let anew = build(&model, &settings);
        let anew = anew.iter().find(|one| one.kind() == kept.kind() && one.name() == kept.name()).unwrap();
        assert_eq!(kept.message(), anew.message(), "{count}");
    }
}
