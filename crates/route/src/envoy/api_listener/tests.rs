#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use envoy_types::pb::envoy::config::endpoint::v3 as endpoint_v3;
use lockgate_xds::snapshot::Store;
use route_v3::route_match::PathSpecifier;

use super::*;
use crate::model::{Redirect, RedirectStatus, ServedHosts, TlsHost};
use crate::testing::model::{Shared as _, cluster_id, forward, model, route as model_route};

fn made(model: &Model) -> Vec<Resource> {
    resources(model, &Snapshot::default()).iter().map(|resource| (**resource).clone()).collect()
}

fn find<M: Message + Default>(resources: &[Resource], kind: ResourceType, name: &str) -> M {
    let found = resources.iter().find(|one| one.kind() == kind && &**one.name() == name);
    M::decode(found.unwrap_or_else(|| panic!("no {kind:?} {name}")).message()).unwrap()
}

fn manager(resources: &[Resource], target: &str) -> hcm_v3::HttpConnectionManager {
    let listener: listener_v3::Listener = find(resources, ResourceType::LISTENER, target);
    assert_eq!(listener.name, target);
    hcm_v3::HttpConnectionManager::decode(&*listener.api_listener.unwrap().api_listener.unwrap().value).unwrap()
}

/// Returns the name of the route configuration of a target.
fn routes_name(resources: &[Resource], target: &str) -> String {
    use hcm_v3::http_connection_manager::RouteSpecifier;
    match manager(resources, target).route_specifier {
        Some(RouteSpecifier::Rds(rds)) => rds.route_config_name,
        other => panic!("{other:?}"),
    }
}

fn routes(resources: &[Resource], target: &str) -> Vec<route_v3::Route> {
    let name = routes_name(resources, target);
    let configuration: route_v3::RouteConfiguration = find(resources, ResourceType::ROUTES, &name);
    assert_eq!(configuration.virtual_hosts.len(), 1);
    configuration.virtual_hosts[0].routes.clone()
}

fn targets(resources: &[Resource]) -> Vec<&str> {
    let listeners = resources.iter().filter(|one| one.kind() == ResourceType::LISTENER);
    listeners.map(|one| &**one.name()).collect()
}

/// Formats a match: `=/a` is exact, `/a*` is a prefix, `~/a` is a regex.
fn matched(route: &route_v3::Route) -> String {
    match route.r#match.as_ref().unwrap().path_specifier.as_ref().unwrap() {
        PathSpecifier::Path(path) => format!("={path}"),
        PathSpecifier::Prefix(prefix) => format!("{prefix}*"),
        PathSpecifier::SafeRegex(regex) => format!("~{}", regex.regex),
        other => panic!("gRPC has no {other:?}"),
    }
}

/// Formats an action: the clusters with their weights, or a status.
fn led_to(route: &route_v3::Route) -> String {
    use route_v3::route_action::ClusterSpecifier;
    match route.action.as_ref().unwrap() {
        route_v3::route::Action::Route(action) => match action.cluster_specifier.as_ref().unwrap() {
            ClusterSpecifier::Cluster(name) => name.clone(),
            ClusterSpecifier::WeightedClusters(several) => several
                .clusters
                .iter()
                .map(|one| format!("{} {}", one.weight.as_ref().unwrap().value, one.name))
                .collect::<Vec<_>>()
                .join(", "),
            other => panic!("{other:?}"),
        },
        route_v3::route::Action::DirectResponse(answer) => answer.status.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Returns a model with one host of these routes and the clusters of the fixture.
fn one_host(routes: Vec<Route>) -> Model {
    let host = (Host::Exact("shop.test".into()), VirtualHostRoutes::new(routes));
    let listeners = crate::testing::model::with_hosts([host].into(), [].into()).listeners;
    Model { listeners, ..model() }
}

fn weighted(shares: &[(&str, u32)], retry: Option<Retry>) -> Action {
    let clusters = shares.iter().map(|(name, weight)| WeightedCluster::new(cluster_id(name), *weight)).collect();
    Action::Forward(Arc::new(Forward { clusters, retry: retry.map(Box::new), ..Forward::default() }))
}

#[test]
fn p10_a_target_is_the_name_of_a_listener_and_its_routes_accept_any_authority() {
    let made = made(&model());
    assert_eq!(
        targets(&made),
        [
            "cart.shop.svc.cluster.local:80",
            "cart.shop.svc:80",
            "cart.shop:80",
            "empty.example.com",
            "empty.example.com:80",
            "ip.shop.svc.cluster.local:80",
            "ip.shop.svc:80",
            "ip.shop:80",
            "old.example.com",
            "old.example.com:80",
            "shop.example.com",
            "shop.example.com:443",
            "shop.example.com:80",
        ]
    );
    for target in targets(&made) {
        let name = routes_name(&made, target);
        let configuration: route_v3::RouteConfiguration = find(&made, ResourceType::ROUTES, &name);
        assert_eq!(configuration.name, name);
        assert_eq!(configuration.virtual_hosts[0].domains, ["*"], "{target}");
    }
}

#[test]
fn p10_the_port_chooses_between_plain_text_and_tls() {
    let made = made(&model());
    assert_eq!(routes_name(&made, "shop.example.com:80"), "api/http/shop.example.com");
    assert_eq!(routes_name(&made, "shop.example.com:443"), "api/https/shop.example.com");
    assert_eq!(routes_name(&made, "shop.example.com"), "api/https/shop.example.com");
    assert_eq!(routes_name(&made, "old.example.com"), "api/http/old.example.com");
}

#[test]
fn p10_a_service_takes_precedence_over_a_host_of_its_name() {
    let mut model = one_host(vec![model_route(PathMatch::Prefix("/".into()), Action::respond(503))]);
    let host = model.http().values().next().unwrap().clone();
    for name in ["cart.shop", "cart.shop.svc", "other.shop.svc", "other.shop.svc.cluster.local"] {
        model.http_mut().insert(Host::Exact(name.into()), host.clone());
    }
    let made = made(&model);
    assert_eq!(routes_name(&made, "cart.shop:80"), "api/service/shop/cart/http");
    assert_eq!(routes_name(&made, "cart.shop"), "api/http/cart.shop");
    assert!(!targets(&made).iter().any(|target| target.starts_with("other.")), "{:?}", targets(&made));
}

#[test]
fn a_host_of_another_namespace_cannot_have_the_name_of_a_service() {
    let mut model = one_host(vec![]);
    let mut foreign = model_route(PathMatch::Prefix("/".into()), Action::respond(503));
    foreign.origin = ObjectRef::new("Ingress", "evil", "evil");
    for name in ["cart.shop", "unrouted.shop", "example.com", "a.cart.shop"] {
        model.http_mut().insert(Host::Exact(name.into()), VirtualHostRoutes::new([foreign.clone()]));
    }
    let made = made(&model);
    let targets = targets(&made);
    for name in ["cart.shop", "cart.shop:443", "unrouted.shop", "unrouted.shop:80"] {
        assert!(!targets.contains(&name), "{name}");
    }
    assert!(targets.contains(&"example.com") && targets.contains(&"a.cart.shop:80"), "{targets:?}");
    assert_eq!(routes_name(&made, "cart.shop:80"), "api/service/shop/cart/http");
}

#[test]
fn p1_a_service_port_leads_to_its_cluster() {
    let made = made(&model());
    for target in ["cart.shop:80", "cart.shop.svc:80", "cart.shop.svc.cluster.local:80"] {
        let routes = routes(&made, target);
        assert_eq!(
            routes.iter().map(|one| matched(one) + " " + &led_to(one)).collect::<Vec<_>>(),
            ["/* shop/cart/http"]
        );
    }
    let listener = made.iter().find(|one| &**one.name() == "cart.shop:80").unwrap();
    assert_eq!(
        listener.references().routes.iter().map(|name| &**name).collect::<Vec<_>>(),
        ["api/service/shop/cart/http"]
    );
    assert_eq!(listener.origins()[0].to_string(), "Service shop/cart");
}

#[test]
fn p8_the_router_is_the_last_filter_always() {
    let made = made(&model());
    for target in targets(&made) {
        let filters = manager(&made, target).http_filters;
        assert_eq!(filters.last().expect("a filter").name, "envoy.filters.http.router", "{target}");
    }
}

#[test]
fn paths_have_a_form_that_grpc_accepts() {
    let to = |path| model_route(path, forward("shop/cart/http"));
    let made = made(&one_host(vec![
        to(PathMatch::Exact("/shop.Cart/Get".into())),
        to(PathMatch::SeparatedPrefix("/shop.Cart".into())),
        to(PathMatch::Regex("/shop\\.[A-Z]+/.*".into())),
        to(PathMatch::Prefix("/shop".into())),
    ]));
    let routes = routes(&made, "shop.test");
    let matches: Vec<_> = routes.iter().map(matched).collect();
    assert_eq!(matches, ["=/shop.Cart/Get", "=/shop.Cart", "/shop.Cart/*", "~/shop\\.[A-Z]+/.*", "/shop*", "/*"]);
    assert_eq!(led_to(routes.last().unwrap()), "404");
}

#[test]
fn routes_that_do_not_forward_fail_the_call() {
    let route = |action| model_route(PathMatch::Prefix("/".into()), action);
    for action in [Action::respond(503), Action::Redirect(Redirect::to_https(RedirectStatus::Found))] {
        let made = made(&one_host(vec![route(action)]));
        assert_eq!(led_to(&routes(&made, "shop.test")[0]), "503");
    }
    // gRPC rejects a virtual host without routes.
    let made = made(&one_host(vec![]));
    assert_eq!(routes(&made, "shop.test").iter().map(led_to).collect::<Vec<_>>(), ["404"]);
}

#[test]
fn weights_are_kept_and_a_share_that_grpc_cannot_reach_fails_the_route() {
    let of = |shares: &[(&str, u32)]| {
        let made = made(&one_host(vec![model_route(PathMatch::Prefix("/".into()), weighted(shares, None))]));
        led_to(&routes(&made, "shop.test")[0])
    };
    assert_eq!(of(&[("shop/cart/http", 90), ("shop/ip/h2c", 10)]), "90 shop/cart/http, 10 shop/ip/h2c");
    assert_eq!(of(&[("shop/cart/http", 90), ("shop/tls/443", 10)]), "503");
    assert_eq!(of(&[("shop/cart/http", 90), ("shop/tls/443", 0)]), "shop/cart/http");
    assert_eq!(of(&[("shop/cart/http", 90), ("shop/gone/80", 10)]), "503");
}

#[test]
fn retries_have_only_conditions_that_grpc_supports() {
    let of = |on: &str, retries| {
        let per_try_timeout = Some(std::time::Duration::from_secs(1));
        let retry = Retry { on: on.into(), retries, per_try_timeout, ..Retry::default() };
        let action = weighted(&[("shop/cart/http", 1)], Some(retry));
        let made = made(&one_host(vec![model_route(PathMatch::Prefix("/".into()), action)]));
        let Some(route_v3::route::Action::Route(action)) = routes(&made, "shop.test")[0].action.clone() else {
            panic!("not forwarded")
        };
        // A route timeout would end a stream that lives longer.
        assert_eq!(action.timeout, None);
        action.retry_policy.map(|policy| (policy.retry_on, policy.num_retries.unwrap().value))
    };
    assert_eq!(of("5xx,unavailable, internal", 2), Some(("unavailable,internal".into(), 2)));
    assert_eq!(of("5xx,connect-failure", 2), None);
    assert_eq!(of("unavailable", 0), None);
}

#[test]
fn p9_grpc_accepts_every_cluster_of_its_routes() {
    use cluster_v3::cluster::{ClusterDiscoveryType, DiscoveryType, LbPolicy};
    let model = model();
    let own = made(&model);
    let shared = model.clusters.iter().filter(|(_, content)| is_shared(content));
    let shared: Vec<Resource> =
        shared.map(|(name, content)| cluster::resource(name, content, &Settings::default())).collect();
    let mut reached = BTreeSet::new();
    for resource in &own {
        reached.extend(resource.references().clusters.iter().map(|name| name.to_string()));
    }
    assert_eq!(reached.iter().collect::<Vec<_>>(), ["shop/cart/http", "shop/ip/h2c"]);
    for name in &reached {
        let all: Vec<Resource> = own.iter().chain(&shared).cloned().collect();
        let cluster: cluster_v3::Cluster = find(&all, ResourceType::CLUSTER, name);
        let Some(ClusterDiscoveryType::Type(kind)) = cluster.cluster_discovery_type else {
            panic!("{name}: a custom type")
        };
        assert!([DiscoveryType::Eds as i32, DiscoveryType::LogicalDns as i32].contains(&kind), "{name}: {kind}");
        assert_eq!(cluster.lb_policy, LbPolicy::RoundRobin as i32, "{name}");
        assert_eq!(cluster.transport_socket, None, "{name}");
        if let Some(eds) = cluster.eds_cluster_config {
            use envoy_types::pb::envoy::config::core::v3::config_source::ConfigSourceSpecifier::Ads;
            assert!(matches!(eds.eds_config.unwrap().config_source_specifier, Some(Ads(_))), "{name}");
        }
    }
}

#[test]
fn p9_an_external_name_is_resolved_without_search_domains() {
    use crate::model::UpstreamProtocol::H2c;
    let mut model = model();
    Arc::make_mut(model.clusters.get_mut(&cluster_id("shop/api/https")).unwrap()).policy.protocol = H2c;
    let made = made(&model);
    let address = |name| {
        let cluster: cluster_v3::Cluster = find(&made, ResourceType::CLUSTER, name);
        let text = format!("{:?}", cluster.load_assignment.unwrap().endpoints[0].lb_endpoints[0]);
        text.split("address: \"").nth(1).unwrap().split('"').next().unwrap().to_owned()
    };
    assert_eq!(address("shop/api/https"), "api.example.net.");
    assert_eq!(address("shop/ip/h2c"), "127.0.0.1");
}

#[test]
fn p6_p7_a_locality_has_a_weight_and_an_address_occurs_once() {
    let model = model();
    for (name, endpoints) in &model.endpoints {
        let assignment = crate::envoy::endpoint::cluster_load_assignment(name, endpoints);
        assert_well_formed(&assignment);
    }
    let double = crate::model::Endpoints {
        health_check_port: None,
        zones: ["a", "b"].map(|zone| (zone.into(), model.endpoints.values().next().unwrap().zones[0].1.clone())).into(),
        origins: vec![],
    };
    let assignment = crate::envoy::endpoint::cluster_load_assignment(&cluster_id("shop/cart/http").port, &double);
    assert_eq!(assignment.endpoints.len(), 1);
    assert_well_formed(&assignment);
}

fn assert_well_formed(assignment: &endpoint_v3::ClusterLoadAssignment) {
    let (mut localities, mut addresses) = (BTreeSet::new(), BTreeSet::new());
    for group in &assignment.endpoints {
        assert!(group.load_balancing_weight.unwrap().value > 0);
        assert_eq!(group.priority, 0);
        assert!(localities.insert(group.locality.as_ref().unwrap().zone.clone()));
        for endpoint in &group.lb_endpoints {
            assert!(addresses.insert(format!("{:?}", endpoint.host_identifier)));
        }
    }
}

#[test]
fn p14_listeners_are_for_one_kind_of_client_and_other_resources_for_both() {
    let api = made(&model()).into_iter().find(|one| one.kind() == ResourceType::LISTENER).unwrap();
    assert_eq!(audience(&api), Audience::Grpc);
    let named = |name: &str| {
        let listener = listener_v3::Listener { name: name.into(), ..Default::default() };
        audience(&Resource::new(name, &listener, vec![]))
    };
    assert_eq!(named("grpc/server?xds.resource.listening_address=127.0.0.1:50051"), Audience::Grpc);
    assert_eq!(named("http"), Audience::Envoy);
    let cluster = cluster_v3::Cluster { name: "a".into(), ..Default::default() };
    assert_eq!(audience(&Resource::new("a", &cluster, vec![])), Audience::All);
}

#[test]
fn envoys_receive_no_resources_for_grpc_clients() {
    let built = crate::envoy::build(&model(), &crate::settings::Settings::default());
    assert!(built.iter().all(|resource| audience(resource) != Audience::Grpc));
    assert!(built.iter().all(|resource| !resource.name().starts_with("api/")));
}

#[test]
fn equal_models_have_equal_bytes() {
    let versions = || made(&model()).iter().map(|one| (one.name().clone(), one.version())).collect::<Vec<_>>();
    assert_eq!(versions(), versions());
}

#[test]
fn unchanged_resources_are_not_built_again() {
    let store = Store::default();
    let first = resources(&model(), &Snapshot::default());
    store.replace(first.clone());
    let mut model = model();
    for (old, new) in first.iter().zip(resources(&model, &store.newest().unwrap())) {
        assert!(Arc::ptr_eq(old, &new), "{old:?}");
    }
    // A new generation of the object changes the origin, and another port changes the content.
    Arc::make_mut(model.clusters.get_mut(&cluster_id("shop/cart/http")).unwrap()).origin.generation += 1;
    let changed = resources(&model, &store.newest().unwrap());
    let kept = changed.iter().filter(|new| first.iter().any(|old| Arc::ptr_eq(old, new))).count();
    assert_eq!(kept + 4, changed.len());
    // Equal content is not sufficient either: another Ingress may now have the same routes for this name.
    let host = model.http_mut().get_mut(&Host::Exact("shop.example.com".into())).unwrap();
    Arc::make_mut(&mut host.routes[0]).origin = ObjectRef::new("Ingress", "shop", "other");
    let others = resources(&model, &store.newest().unwrap());
    let versions = |all: &[Arc<Resource>]| all.iter().map(|one| one.version()).collect::<Vec<_>>();
    assert_eq!(versions(&others), versions(&resources(&model, &Snapshot::default())));
}

#[test]
fn hosts_with_only_tls_entries_are_served() {
    let mut model = one_host(vec![]);
    let content = model.http_mut().remove(&Host::Exact("shop.test".into())).unwrap();
    let tls = crate::testing::model::model().https().values().next().unwrap().clone();
    let shop = Host::Exact("shop.test".into());
    // The server name is the host, or covers it.
    for name in [shop.clone(), Host::Wildcard("test".into())] {
        let virtual_hosts = ServedHosts::one(shop.clone(), content.clone());
        model.https_mut().clear();
        model.https_mut().insert(name, TlsHost { virtual_hosts, ..tls.clone() });
        let made = made(&model);
        let hosts: Vec<_> = targets(&made).into_iter().filter(|target| target.starts_with("shop.test")).collect();
        assert_eq!(hosts, ["shop.test", "shop.test:443"]);
    }
}

#[test]
fn a_cluster_with_a_policy_is_for_routes_and_not_for_the_targets_of_its_service() {
    let mut model = one_host(vec![]);
    let before = made(&model);
    let with_policy = |text: &str, model: &Model| {
        let port = cluster_id(text).port;
        let cluster = model.clusters[&port.clone().into()].clone();
        let of_route = Cluster { of_service: false, ..Cluster::clone(&cluster) };
        (ClusterId { port, policy: Some(cluster.policy.id()) }, Arc::new(of_route))
    };
    let (eds, address) = (with_policy("shop/cart/http", &model), with_policy("shop/ip/h2c", &model));
    let route = |id: &ClusterId| {
        let forward = Forward { clusters: vec![WeightedCluster::new(id.clone(), 1)], ..Forward::default() };
        Arc::new(model_route(PathMatch::root(), Action::Forward(forward.into())))
    };
    let routes_to = vec![route(&eds.0), route(&address.0)];
    model.clusters.extend([eds.clone(), address.clone()]);
    let both = made(&model);
    assert_eq!(targets(&both), targets(&before));
    assert_eq!(led_to(&routes(&both, "cart.shop:80")[0]), "shop/cart/http");
    // The cluster that shares the port is removed too.
    model.clusters.remove(&cluster_id("shop/cart/http"));
    assert!(!targets(&made(&model)).contains(&"cart.shop:80"));

    model.http_mut().get_mut(&Host::Exact("shop.test".into())).unwrap().routes = routes_to;
    let made = made(&model);
    let to: Vec<String> = routes(&made, "shop.test").iter().map(led_to).collect();
    assert_eq!(to[..2], [eds.0.to_string(), address.0.to_string()]);
    assert!(shared_clusters(&model).eq([eds.0.to_string()]));
    assert!(made.iter().any(|one| one.kind() == ResourceType::CLUSTER && **one.name() == *address.0.to_string()));
}

#[test]
fn a_service_with_backend_policies_keeps_its_targets_without_the_features() {
    use crate::model::{Algorithm, BackendFeatures, HashOn, LoadBalancing, TrafficPolicy};
    let mut model = one_host(vec![]);
    let id = cluster_id("shop/cart/http");
    let before = model.clusters.remove(&id).unwrap();
    let balancing =
        LoadBalancing { algorithm: Algorithm::Maglev, slow_start: None, hash_on: vec![HashOn::SourceAddress.into()] };
    let features = BackendFeatures { load_balancing: Some(balancing), ..BackendFeatures::default() };
    let policy = TrafficPolicy { features: Some(Arc::new(features)), ..before.policy.clone() };
    let with_features = ClusterId { policy: Some(policy.id()), ..id.clone() };
    model.clusters.insert(with_features.clone(), Arc::new(Cluster { policy, ..Cluster::clone(&before) }));
    let made = made(&model);
    assert_eq!(led_to(&routes(&made, "cart.shop:80")[0]), with_features.to_string());
    assert!(!shared_clusters(&model).any(|name| name == with_features.to_string()));
    let own = made.iter().find(|one| **one.name() == *with_features.to_string()).unwrap();
    let own = cluster_v3::Cluster::decode(own.message()).unwrap();
    assert_eq!(own.lb_policy, cluster_v3::cluster::LbPolicy::RoundRobin as i32);
    assert_eq!(own.eds_cluster_config.unwrap().service_name, "shop/cart/http");
}
