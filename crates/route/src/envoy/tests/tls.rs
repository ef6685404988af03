//! Server names with several hosts and several key pairs: the response to each host on each connection.

use std::collections::{BTreeMap, BTreeSet};

use envoy_types::pb::envoy::config::route::v3 as route_v3;
use prost::Message as _;

use super::*;
use crate::envoy::names;
use crate::model::*;
use crate::testing::model::{pair_id, route, tls_host};

/// Parses `shop.test`, `*.test`, or `*`.
fn host(text: &str) -> Host {
    match text.strip_prefix("*.") {
        _ if text == "*" => Host::Any,
        Some(suffix) => Host::Wildcard(suffix.into()),
        None => Host::Exact(text.into()),
    }
}

/// Returns a server name, and its hosts, each with a route to a status that identifies it.
fn server_name(name: &str, hosts: &[(&str, u16)]) -> (Host, TlsHost) {
    let content = |status| VirtualHostRoutes::new([route(PathMatch::root(), Action::respond(status))]);
    let hosts = hosts.iter().map(|(name, status)| (host(name), content(*status)));
    (host(name), tls_host(&["cert"], hosts))
}

/// Returns a server name behind which requests for other hosts are answered 404, except for `misdirected` hosts.
fn alone(name: &str, hosts: &[(&str, u16)], misdirected: &[&str]) -> (Host, TlsHost) {
    let (name, tls) = server_name(name, hosts);
    let misdirected = misdirected.iter().map(|name| host(name)).collect();
    (name, TlsHost { others: Others::NotFound, misdirected, ..tls })
}

/// Returns a model with these listeners. All key pairs come from [`model`].
fn with_listeners<const N: usize>(listeners: [(&str, Vec<(Host, TlsHost)>); N]) -> Model {
    let ports = (10_000..).map(|port| Bind { address: None, port });
    let listeners = listeners.into_iter().zip(ports).map(|((id, hosts), bind)| {
        let hosts = TlsHosts { hosts: hosts.into_iter().collect(), ..TlsHosts::default() };
        (ListenerId::new(id), Listener { bind, traffic: Traffic::Https(hosts) })
    });
    Model { listeners: listeners.collect(), ..model() }
}

/// Returns the candidates for `name` in the order of preference: the name, wildcards from long to short, and `*`.
fn candidates(name: &str) -> impl Iterator<Item = String> {
    let wildcards = name.match_indices('.').map(|(at, _)| format!("*{}", &name[at..])).collect::<Vec<_>>();
    [name.to_owned()].into_iter().chain(wildcards).chain(["*".to_owned()])
}

/// Returns the status of the response to a request for `requested` on a connection for `server_name`. Selects the route
/// configuration and the virtual host as Envoy does.
fn status(resources: &[Resource], listener: &str, server_name: &str, requested: &str) -> u32 {
    let of = |name: String| {
        let name = names::tls_routes(&ListenerId::new(listener), &host(&name));
        resources.iter().find(|one| **one.name() == *name)
    };
    let found = candidates(server_name).find_map(of).unwrap();
    let configuration = match found.kind() {
        ResourceType::ROUTES => route_v3::RouteConfiguration::decode(found.message()).unwrap(),
        _ => {
            let scope = route_v3::ScopedRouteConfiguration::decode(found.message()).unwrap();
            scope.route_configuration.unwrap()
        }
    };
    let names: BTreeSet<_> = configuration.virtual_hosts.iter().map(|host| &host.name).collect();
    assert_eq!(names.len(), configuration.virtual_hosts.len(), "names of virtual hosts are unique");
    let mut domains = BTreeMap::new();
    for virtual_host in &configuration.virtual_hosts {
        for domain in &virtual_host.domains {
            assert!(domains.insert(domain.clone(), virtual_host).is_none(), "{domain} is in two virtual hosts");
        }
    }
    let virtual_host = candidates(requested).find_map(|domain| domains.get(&domain)).unwrap();
    match &virtual_host.routes[0].action {
        Some(route_v3::route::Action::DirectResponse(response)) => response.status,
        other => panic!("{other:?}"),
    }
}

const GATEWAY: &str = "gateway/shop/web/443";

/// Source: Gateway API conformance, HTTPRouteHTTPSListenerDetectMisdirectedRequests.
#[test]
fn hosts_of_other_server_names_are_misdirected() {
    let model = with_listeners([(
        GATEWAY,
        vec![
            server_name("*", &[("example.org", 201)]),
            server_name("second-example.org", &[("second-example.org", 202)]),
            server_name("*.wildcard.org", &[("*.wildcard.org", 203)]),
            server_name("fourth-example.wildcard.org", &[("fourth-example.wildcard.org", 204)]),
        ],
    )]);
    let resources = build(&model, &Settings::default());
    for (server_name, host, expected) in [
        ("example.org", "example.org", 201),
        ("example.org", "second-example.org", 421),
        ("example.org", "unknown-example.org", 404),
        ("second-example.org", "second-example.org", 202),
        ("second-example.org", "example.org", 421),
        ("second-example.org", "unknown-example.org", 421),
        ("third-example.wildcard.org", "third-example.wildcard.org", 203),
        ("third-example.wildcard.org", "fith-example.wildcard.org", 203),
        ("third-example.wildcard.org", "fourth-example.wildcard.org", 421),
        ("third-example.wildcard.org", "second-example.org", 421),
        ("third-example.wildcard.org", "unknown-example.org", 421),
        ("fourth-example.wildcard.org", "fourth-example.wildcard.org", 204),
        ("fourth-example.wildcard.org", "fith-example.wildcard.org", 421),
        ("unknown-example.org", "example.org", 201),
        ("unknown-example.org", "unknown-example.org", 404),
    ] {
        assert_eq!(status(&resources, GATEWAY, server_name, host), expected, "{host} at {server_name}");
    }
}

#[test]
fn a_server_name_serves_several_hosts_and_answers_404_for_the_rest_of_its_names() {
    let shop = [("a.shop.test", 201), ("b.shop.test", 202), ("*.deep.shop.test", 203), ("c.shop.test", 204)];
    let model = with_listeners([(
        GATEWAY,
        vec![
            // Two listed hosts belong to other connections.
            alone("*.shop.test", &shop, &["c.shop.test", "other.test", "*.shop.test", "*"]),
            alone("other.test", &[], &["*.shop.test"]),
            alone("*", &[("unknown.test", 205)], &["b.shop.test"]),
        ],
    )]);
    let resources = build(&model, &Settings::default());
    for (server_name, host, expected) in [
        ("a.shop.test", "a.shop.test", 201),
        ("a.shop.test", "b.shop.test", 202),
        ("x.shop.test", "x.y.deep.shop.test", 203),
        ("a.shop.test", "c.shop.test", 421),
        ("a.shop.test", "x.shop.test", 404),
        ("a.shop.test", "other.test", 421),
        ("a.shop.test", "unknown.test", 404),
        ("other.test", "other.test", 404),
        ("other.test", "a.shop.test", 421),
        ("other.test", "unknown.test", 404),
        ("unknown.test", "unknown.test", 205),
        ("unknown.test", "a.shop.test", 421),
        ("unknown.test", "b.shop.test", 421),
        ("unknown.test", "x.test", 404),
    ] {
        assert_eq!(status(&resources, GATEWAY, server_name, host), expected, "{host} at {server_name}");
    }
}

#[test]
fn a_listener_without_routes_answers_404_except_for_misdirected_hosts() {
    let model = with_listeners([(GATEWAY, vec![alone("*", &[], &["a.test"]), alone("a.test", &[], &[])])]);
    let resources = build(&model, &Settings::default());
    assert_eq!(["a.test", "b.test"].map(|host| status(&resources, GATEWAY, "b.test", host)), [421, 404]);
    assert_eq!(["a.test", "b.test"].map(|host| status(&resources, GATEWAY, "a.test", host)), [404, 404]);
}

#[test]
fn a_real_envoy_accepts_several_hosts_and_key_pairs_behind_each_server_name() {
    let hosts = [("a.shop.test", 201), ("b.shop.test", 202), ("*.shop.test", 203), ("*", 204)];
    let mut model = with_listeners([
        (GATEWAY, ["a.shop.test", "*.shop.test", "*"].map(|name| server_name(name, &hosts)).into()),
        ("gateway/shop/web/8443", vec![alone("a.shop.test", &hosts[..3], &["b.shop.test", "x.test"])]),
    ]);
    model.secrets.insert(pair_id("rsa"), model.secrets[&pair_id("cert")].clone());
    for listener in model.listeners.values_mut() {
        let Traffic::Https(tls) = &mut listener.traffic else { panic!("no TLS") };
        tls.hosts.values_mut().for_each(|host| host.secrets.push(pair_id("rsa")));
    }
    let settings = Settings::default();
    let resources = build(&model, &settings);
    validate(&standalone(&resources, &settings)).unwrap();
    let listener = resources.iter().find(|one| **one.name() == *GATEWAY).unwrap();
    assert_eq!(listener.references().secrets.len(), 2);
}
