//! Tests of decisions on single requests. `e2e/tests/explain` compares complete decisions with a real Envoy.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::model::{
    Action, Bind, Conditions, CookieName, Destination, Forward, ForwardFilter, HeaderMatch, HeaderName, ListenerId,
    Match, Others, PathMatch, QueryMatch, RouteDiscovery, ServedHosts, Session, SessionCookie, TlsConnections,
    TlsVersion, ValueMatch, WeightedCluster,
};
use crate::testing::model::{pair_id, route};
use lockgate_xds::provenance::ObjectRef;

/// A route whose status identifies it.
fn answering(status: u16, matches: impl Into<Match>) -> Route {
    Route { matches: matches.into(), ..route(PathMatch::root(), Action::respond(status)) }
}

fn host(text: &str) -> Host {
    match text.strip_prefix("*.") {
        _ if text == "*" => Host::Any,
        Some(suffix) => Host::Wildcard(suffix.into()),
        None => Host::Exact(text.into()),
    }
}

fn plain(hosts: Vec<(&str, VirtualHostRoutes)>) -> Model {
    let mut listener = Listener::http(Bind::default(), RouteDiscovery::ByHost);
    if let Traffic::Http(plain) = &mut listener.traffic {
        plain.hosts = hosts.into_iter().map(|(name, content)| (host(name), content)).collect();
    }
    Model { listeners: [(ListenerId::new("http"), listener)].into(), ..Model::default() }
}

fn get(authority: &str, path: &str) -> Request {
    Request { authority: authority.into(), path: path.into(), method: "GET".into(), ..Request::default() }
}

/// Returns the status that identifies the route, or that Envoy answers.
fn status(decision: &Decision) -> Option<u16> {
    match &decision.outcome {
        Outcome::Answered(status, _) => Some(*status),
        Outcome::Routed(routes) => match routes.first().unwrap().route.action {
            Action::Respond { status, .. } => Some(status),
            _ => None,
        },
        _ => None,
    }
}

fn decided(model: &Model, request: &Request) -> Option<u16> {
    status(&decide(model, "http", request, &Settings::default()))
}

#[test]
fn the_most_specific_domain_serves_a_host() {
    let content = |status| VirtualHostRoutes::new([answering(status, PathMatch::root())]);
    let domains = [("a.test", 201), ("*.test", 202), ("*.deep.test", 203), ("*", 204)];
    let model = plain(domains.map(|(name, status)| (name, content(status))).into());
    for (authority, expected) in [
        ("a.test", 201),
        ("A.Test:8080", 201),
        ("b.test", 202),
        ("x.y.test", 202),
        ("x.deep.test", 203),
        ("deep.test", 202),
        ("test", 204),
        (".test", 204),
        ("a.test.", 201),
        ("[::1]:80", 204),
    ] {
        assert_eq!(decided(&model, &get(authority, "/")), Some(expected), "{authority}");
    }
    assert_eq!(decided(&plain(vec![("a.test", content(201))]), &get("b.test", "/")), Some(404));
}

#[test]
fn routes_of_one_label_are_not_for_names_of_several() {
    let one = [answering(201, PathMatch::Exact("/a".into())), answering(202, PathMatch::root())];
    let content = VirtualHostRoutes { one_label: 1, ..VirtualHostRoutes::new(one) };
    let model = plain(vec![("*.test", content)]);
    assert_eq!(decided(&model, &get("a.test", "/a")), Some(201));
    assert_eq!(decided(&model, &get("a.b.test", "/a")), Some(202));
}

#[test]
fn the_first_matching_route_serves_a_request() {
    let header = |name: &str, value, inverted| HeaderMatch {
        name: HeaderName::parse(name).unwrap(),
        value,
        inverted,
        missing_is_empty: false,
    };
    let with = |conditions| Match::new(PathMatch::root(), conditions);
    let exact = ValueMatch::exact;
    let query = |name: &str, value| QueryMatch { name: name.into(), value };
    let routes = [
        answering(201, PathMatch::Exact("/exact".into())),
        answering(202, PathMatch::Regex("/items/[0-9]+".into())),
        answering(203, PathMatch::SeparatedPrefix("/api".into())),
        answering(204, PathMatch::Prefix("/raw".into())),
        answering(205, with(Conditions { method: Some("POST".into()), ..Conditions::default() })),
        answering(206, with(Conditions { headers: vec![header("x-a", exact("1"), false)], ..Conditions::default() })),
        answering(207, with(Conditions { headers: vec![header("x-b", exact("1"), true)], ..Conditions::default() })),
        answering(
            208,
            with(Conditions {
                headers: vec![header("x-c", ValueMatch::Present, true), header("x-d", ValueMatch::Present, false)],
                ..Conditions::default()
            }),
        ),
        answering(209, with(Conditions { query: vec![query("q", Some(exact("1")))], ..Conditions::default() })),
        answering(
            210,
            with(Conditions {
                query: vec![query("none", None), query("r", Some(ValueMatch::Present))],
                ..Conditions::default()
            }),
        ),
        answering(
            211,
            Match::new(
                PathMatch::Exact("/missing".into()),
                Conditions {
                    headers: vec![HeaderMatch { missing_is_empty: true, ..header("x-e", exact("1"), true) }],
                    ..Conditions::default()
                },
            ),
        ),
    ];
    let model = plain(vec![("*", VirtualHostRoutes::new(routes))]);
    let request = |path: &str, headers: &[(&str, &str)]| {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Request { headers, ..get("a.test", path) }
    };
    for (path, headers, expected) in [
        ("/exact?x", &[][..], 201),
        ("/exact/", &[], 404),
        ("/missing", &[], 211),
        ("/missing", &[("X-E", "2")], 211),
        ("/missing", &[("X-E", "1")], 404),
        ("/items/12", &[], 202),
        ("/items/12/a", &[], 404),
        ("/api", &[], 203),
        ("/api/", &[], 203),
        ("/apis", &[], 404),
        ("/rawest", &[], 204),
        ("/x/../api", &[], 203),
        ("//api", &[], 203),
        ("/", &[("X-A", "1")], 206),
        ("/", &[("x-a", "2"), ("x-a", "1")], 404),
        ("/", &[("x-b", "2")], 207),
        ("/", &[("x-d", "")], 208),
        ("/", &[("x-c", ""), ("x-d", "")], 404),
        ("/?q=1&q=2", &[], 209),
        ("/?q=2&q=1", &[], 404),
        ("/?r", &[], 210),
        ("/?r&none=", &[], 404),
    ] {
        assert_eq!(decided(&model, &request(path, headers)), Some(expected), "{path} {headers:?}");
    }
    let post = Request { method: "POST".into(), ..get("a.test", "/") };
    assert_eq!(decided(&model, &post), Some(205));
}

#[test]
fn paths_are_normalized_like_in_envoy() {
    for (path, expected) in [
        ("/a/./b", Some("/a/b")),
        ("/a/../b", Some("/b")),
        ("/../..", Some("/")),
        ("/a/..", Some("/")),
        ("/a/.", Some("/a/")),
        ("/a/%2e%2E/b", Some("/b")),
        ("/a\\b", Some("/a/b")),
        ("/%41%7e%2d", Some("/A~-")),
        ("/a%2fb", Some("/a%2fb")),
        ("/a%zzb", Some("/a%zzb")),
        ("/%00", None),
        ("/a#b", None),
        ("a", None),
    ] {
        assert_eq!(path::normalize(path).as_deref(), expected, "{path}");
    }
    assert_eq!(path::merge_slashes("//a///b/"), "/a/b/");
    assert_eq!(path::unescape_slashes("/a%2Fb%5c"), "/a/b\\");
    assert!(path::has_escaped_slash("/%5C") && !path::has_escaped_slash("/%2e"));
}

#[test]
fn the_rest_of_a_share_goes_to_later_routes() {
    let share = Share::new(1, 4).unwrap();
    let root = || Match::from(PathMatch::root());
    let routes = [
        answering(201, root().with_share(share)),
        answering(202, root()),
        answering(203, PathMatch::Prefix("/".into())),
    ];
    let model = plain(vec![("*", VirtualHostRoutes::new(routes))]);
    let decision = decide(&model, "http", &get("a", "/"), &Settings::default());
    let Outcome::Routed(routes) = &decision.outcome else { panic!("{decision:?}") };
    let shares: Vec<_> = routes.iter().map(|chosen| chosen.share).collect();
    assert_eq!((shares, decision.later.len()), (vec![Some(share), None], 1));
}

#[test]
fn a_connection_for_one_server_name_is_not_for_hosts_of_another() {
    let tls = |names: &[(&str, u16)], others| TlsHost {
        secrets: vec![pair_id("cert")],
        minimum: TlsVersion::V1_2,
        maximum: TlsVersion::V1_3,
        clients: None,
        virtual_hosts: names
            .iter()
            .map(|(name, status)| (host(name), VirtualHostRoutes::new([answering(*status, PathMatch::root())])))
            .collect::<ServedHosts>(),
        others,
        is_without_server_name: false,
        misdirected: Default::default(),
        origins: vec![],
    };
    let mut listener = Listener::https(Bind::default(), None, None);
    if let Traffic::Https(hosts) = &mut listener.traffic {
        let misdirected = Others::Misdirected;
        hosts.hosts = [
            (host("a.test"), tls(&[("a.test", 201)], misdirected)),
            (host("*.test"), tls(&[("*.test", 202)], misdirected)),
            (host("*"), tls(&[("*", 203)], misdirected)),
        ]
        .into();
        hosts.refused = [host("closed.test")].into();
        let to = Destination::refusing(ObjectRef::new("TLSRoute", "shop", "cart"));
        hosts.connections = [(host("pass.test"), TlsConnections { terminated: None, to })].into();
    }
    let model = Model { listeners: [(ListenerId::new("http"), listener)].into(), ..Model::default() };
    let request = |server_name: &str, authority: &str| Request {
        tls: true,
        server_name: (!server_name.is_empty()).then(|| server_name.to_owned()),
        ..get(authority, "/")
    };
    for (server_name, authority, expected) in [
        ("a.test", "a.test", Some(201)),
        ("a.test", "b.test", Some(421)),
        ("b.test", "b.test", Some(202)),
        ("b.test", "a.test", Some(421)),
        ("b.test", "other", Some(421)),
        ("other", "other", Some(203)),
        ("", "other", Some(203)),
        ("", "a.test", Some(421)),
        ("closed.test", "closed.test", None),
    ] {
        assert_eq!(decided(&model, &request(server_name, authority)), expected, "{server_name} {authority}");
    }
    assert_eq!(decided(&model, &get("a.test", "/")), None, "plain text");
    let forwarded = request("pass.test", "");
    let decision = decide(&model, "http", &forwarded, &Settings::default());
    assert!(matches!(decision.outcome, Outcome::Forwarded(_)), "{decision:?}");
    assert_eq!(decided(&model, &request("", "pass.test")), Some(421));
}

#[test]
fn a_session_cookie_selects_a_cluster() {
    let id = |name: &str| crate::testing::model::cluster_id(name);
    let cookie = |keeps_cluster| SessionCookie {
        name: CookieName::parse("shop").unwrap(),
        path: "/".into(),
        lifetime: None,
        keeps_cluster,
    };
    let decided = |clusters: &[&str], keeps_cluster, sent: &str| {
        let clusters = clusters.iter().map(|name| WeightedCluster::new(id(name), 1)).collect();
        let session = ForwardFilter::Session(Box::new(Session::Cookie(cookie(keeps_cluster))));
        let forward = Forward { clusters, websocket: true, filters: vec![session].into(), ..Forward::default() };
        let forwarding = route(PathMatch::root(), Action::Forward(Arc::new(forward)));
        let model = plain(vec![("*", VirtualHostRoutes::new([forwarding]))]);
        let headers = vec![("Cookie".to_owned(), sent.to_owned())];
        let request = Request { headers, ..get("a", "/") };
        let decision = decide(&model, "http", &request, &Settings::default());
        let Outcome::Routed(routes) = &decision.outcome else { panic!("{decision:?}") };
        routes[0].session.map(ToString::to_string)
    };
    let both = ["shop/cart/http", "shop/ip/h2c"];
    let second = format!("a=b; {}", cookie(true).for_cluster(&id(both[1])));
    assert_eq!(decided(&both, true, &second).as_deref(), Some(both[1]));
    assert_eq!(decided(&both, true, "shop-backend=0"), None, "a cluster that no longer exists");
    assert_eq!(decided(&both, false, &second), None, "sessions stay at an endpoint only");
    assert_eq!(decided(&both[1..], true, &second), None, "there is only one cluster");
}

#[test]
fn envoy_recognizes_clients_of_grpc_by_the_type_of_the_content() {
    for (value, expected) in [
        ("application/grpc", true),
        ("application/grpc+proto", true),
        ("application/grpc-web", false),
        ("application/grpc; charset=utf-8", false),
        ("application/json", false),
    ] {
        assert_eq!(matches::is_grpc(&[("Content-Type".to_owned(), value.to_owned())]), expected, "{value}");
    }
}
