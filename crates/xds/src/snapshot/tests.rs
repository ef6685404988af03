//! Tests that the indexes of the store equal indexes that are computed from the resources, for any sequence of changes.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use envoy_types::pb::envoy::config::cluster::v3 as cluster_v3;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use prost::Message;

use super::*;

const NAMES: [&str; 3] = ["a", "b", "c"];
const ASSIGNMENTS: [&str; 2] = ["x", "y"];
const ALIASES: [&str; 2] = ["p", "q"];

/// Returns a cluster `name` that uses the load assignment `endpoints` and has `aliases`.
fn cluster(name: &str, endpoints: &str, aliases: &[&str]) -> Resource {
    let eds = cluster_v3::cluster::EdsClusterConfig { service_name: endpoints.to_owned(), ..Default::default() };
    let message = cluster_v3::Cluster { name: name.to_owned(), eds_cluster_config: Some(eds), ..Default::default() };
    let lease =
        Lease { ttl: None, aliases: aliases.iter().map(|alias| Arc::from(*alias)).collect(), constraints: None };
    Resource::with_lease(ResourceType::CLUSTER, name, &message.encode_to_vec(), lease, Vec::new())
}

/// Returns all results of lookups by name in a snapshot.
fn content(snapshot: &Snapshot) -> String {
    let names = snapshot.all(ResourceType::CLUSTER).collect::<Vec<_>>();
    let users = ASSIGNMENTS.map(|name| snapshot.clusters_of(&name.into()).cloned().collect::<Vec<_>>());
    let aliases = ALIASES.map(|name| snapshot.name_of_alias(ResourceType::CLUSTER, name));
    format!("{} {names:?} {users:?} {aliases:?}", snapshot.version(ResourceType::CLUSTER))
}

#[test]
fn types_are_found_by_url_and_ordered_like_urls() {
    use ResourceType as Type;
    let served = [
        (Type::CLUSTER, "envoy.config.cluster.v3.Cluster"),
        (Type::EXTENSION, "envoy.config.core.v3.TypedExtensionConfig"),
        (Type::ENDPOINTS, "envoy.config.endpoint.v3.ClusterLoadAssignment"),
        (Type::LB_ENDPOINT, "envoy.config.endpoint.v3.LbEndpoint"),
        (Type::LISTENER, "envoy.config.listener.v3.Listener"),
        (Type::ROUTES, "envoy.config.route.v3.RouteConfiguration"),
        (Type::SCOPED_ROUTES, "envoy.config.route.v3.ScopedRouteConfiguration"),
        (Type::VIRTUAL_HOST, "envoy.config.route.v3.VirtualHost"),
        (Type::SECRET, "envoy.extensions.transport_sockets.tls.v3.Secret"),
        (Type::RUNTIME, "envoy.service.runtime.v3.Runtime"),
    ];
    for (kind, name) in served {
        assert_eq!((kind.full_name(), Type::of_url(kind.url())), (name, Some(kind)));
        assert_eq!(Type::of_url(&format!("elsewhere.test/{name}")), Some(kind));
        assert_eq!((kind.variants().url(), kind.variants().full_name()), (kind.url(), name));
        assert!(kind.variants() > kind && kind.variants() == kind.variants().variants());
        assert_eq!(kind.variants().short_name(), format!("{}#variants", kind.short_name()));
    }
    assert!(served.is_sorted(), "by type, as by name");
    let other = Type::of_url("type.googleapis.com/envoy.config.bootstrap.v3.Bootstrap").unwrap();
    assert!(other.full_name() == "envoy.config.bootstrap.v3.Bootstrap" && other > Type::RUNTIME);
    assert_eq!(Type::of_url("type.googleapis.com/nothing.Known"), None);
    assert_eq!((Type::NOTHING.url(), Type::of_url("")), ("", None));
}

fn publish(store: &Store, resource: Resource) -> Arc<Snapshot> {
    store.update(Update { set: vec![resource], remove: Vec::new() });
    store.newest().unwrap()
}

#[test]
fn changes_are_listed_by_name_within_the_journal() {
    let store = Store::default();
    (0..299).for_each(|i| drop(publish(&store, cluster(&format!("c{i}"), "x", &[]))));
    let snapshot = publish(&store, cluster("c299", "x", &[]));
    let names = |since| {
        let keys = snapshot.changes_since(since)?.map(|(_, name)| name.to_string());
        Some(keys.collect::<Vec<_>>())
    };
    assert_eq!(names(300), Some(vec![]));
    assert_eq!(names(298), Some(vec!["c298".to_owned(), "c299".to_owned()]));
    assert_eq!(names(44).map(|names| names.len()), Some(256));
    assert_eq!(names(43), None, "too long ago");
    assert_eq!(names(301), None, "not there yet");
}

#[test]
fn a_replaced_resource_is_freed_with_its_last_snapshot() {
    let store = Store::default();
    let snapshot = publish(&store, cluster("a", "x", &[]));
    let old = Arc::downgrade(snapshot.get(ResourceType::CLUSTER, "a").unwrap());
    drop(snapshot);
    publish(&store, cluster("a", "y", &[]));
    assert!(old.upgrade().is_none());
}

proptest! {
    #[test]
    fn many_updates_equal_one_replacement(
        updates in prop::collection::vec(
            (
                prop::collection::vec(
                    (select(&NAMES[..]), select(&ASSIGNMENTS[..]), subsequence(&ALIASES[..], 0..=2)),
                    0..4,
                ),
                subsequence(&NAMES[..], 0..=1),
            ),
            1..12,
        ),
    ) {
        let (store, mut expected) = (Store::default(), BTreeMap::new());
        for (set, remove) in updates {
            remove.iter().for_each(|name| drop(expected.remove(name)));
            set.iter().for_each(|one| drop(expected.insert(one.0, one.clone())));
            let build = |(name, endpoints, aliases): &(&str, &str, Vec<&str>)| cluster(name, endpoints, aliases);
            let remove = remove.into_iter().map(|name| (ResourceType::CLUSTER, name.into())).collect();
            store.update(Update { set: set.iter().map(build).collect(), remove });
            let whole = Store::default();
            whole.replace(expected.values().map(build).collect());
            prop_assert_eq!(content(&store.newest().unwrap()), content(&whole.newest().unwrap()));
        }
    }
}

#[test]
fn users_of_a_cluster_are_found_after_any_change() {
    use envoy_types::pb::envoy::config::route::v3 as route_v3;
    let host = |name: &str, clusters: &[&str]| {
        let to = |cluster: &&str| {
            let cluster = Some(route_v3::route_action::ClusterSpecifier::Cluster((*cluster).to_owned()));
            let action = route_v3::RouteAction { cluster_specifier: cluster, ..Default::default() };
            route_v3::Route { action: Some(route_v3::route::Action::Route(action)), ..Default::default() }
        };
        let routes = clusters.iter().map(to).collect();
        Resource::new(name, &route_v3::VirtualHost { name: name.into(), routes, ..Default::default() }, vec![])
    };
    let (store, kind) = (Store::default(), ResourceType::VIRTUAL_HOST);
    let leading = |cluster: &str| {
        let newest = store.newest().unwrap();
        newest.leading_to(kind, cluster).map(|host| host.name().to_string()).collect::<Vec<_>>()
    };
    store.replace(vec![host("r/a", &["x", "y"]), host("r/b", &["x"]), host("r/c", &["xx"])]);
    assert_eq!((leading("x"), leading("y")), (vec!["r/a".into(), "r/b".into()], vec!["r/a".into()]));
    store.update(Update { set: vec![host("r/a", &["y"])], remove: vec![(kind, "r/c".into())] });
    assert_eq!((leading("x"), leading("xx")), (vec!["r/b".into()], vec![]));
    store.replace(Vec::<Resource>::new());
    assert!(leading("x").is_empty() && leading("y").is_empty());
}
