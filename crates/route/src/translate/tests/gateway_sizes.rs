//! The size of the configuration that routes cause with their filters and policies, and its limit for each namespace.

use proptest::prelude::*;
use proptest::sample::select;

use super::gateway::{conditions, translated, world_of};
use super::gateway_incremental::step_by_step;
use crate::model::{Action, Host, Route};
use crate::objects::gateway::{CorsFilter, HeaderFilter, HttpFilter, HttpHeader, HttpRouteRule, SessionPersistence};
use crate::objects::{Kind, Object, ObjectKey, Objects};
use crate::settings::Settings;
use crate::testing::gateway::*;
use crate::testing::objects::service;
use crate::translate::problem::Reason;
use crate::translate::{ChangedInputs, Input, Translator};

const KIB: usize = 1 << 10;

/// Returns headers with a value of `size` bytes in total.
fn headers(size: usize) -> HeaderFilter {
    let header = HttpHeader { name: "x-team".to_owned(), value: "v".repeat(4 * KIB) };
    HeaderFilter { add: vec![header; size / (4 * KIB)], ..HeaderFilter::default() }
}

fn requests(size: usize) -> HttpFilter {
    let r#type = "RequestHeaderModifier".to_owned();
    HttpFilter { r#type, request_header_modifier: Some(headers(size)), ..HttpFilter::default() }
}

fn responses(size: usize) -> HttpFilter {
    let r#type = "ResponseHeaderModifier".to_owned();
    HttpFilter { r#type, response_header_modifier: Some(headers(size)), ..HttpFilter::default() }
}

fn cors(origins: usize) -> HttpFilter {
    let allow_origins = (0..origins).map(|at| format!("https://*.{at}.{}", "long.".repeat(20))).collect();
    let cors = Some(CorsFilter { allow_origins, ..CorsFilter::default() });
    HttpFilter { r#type: "CORS".to_owned(), cors, ..HttpFilter::default() }
}

fn shop(more: impl IntoIterator<Item = Object>) -> Objects {
    let public: Object = gateway("public").listener("http", 80, "HTTP").routes_from("All").into();
    let foreign: Object =
        http_route("other/foreign").parent("shop/public").host("x.test").rule("/foreign", "a:80").into();
    let base =
        [public, gateway_service("public", &[(80, 10_000)]), foreign, service("other/a").port("http", 80).into()];
    world_of(base.into_iter().chain(more))
}

fn with_limit(limit: u64, objects: &Objects) -> Translator {
    let (mut translator, mut settings) = (Translator::default(), Settings::default());
    settings.tenants.max_configuration_per_namespace = limit;
    translator.update(objects, &settings, &ChangedInputs::everything());
    translator
}

/// Returns the routes of an object on a host.
fn routes<'a>(translator: &'a Translator, host: &str, name: &str) -> Vec<&'a Route> {
    let plain = translator.model().plain("gateway/shop/public/80").expect("a listener");
    let host = &plain.hosts[&Host::Exact(host.into())];
    host.routes.iter().filter(|route| &*route.origin.name == name).map(|route| &**route).collect()
}

fn status(route: &Route) -> Option<u16> {
    match route.action {
        Action::Respond { status, .. } => Some(status),
        _ => None,
    }
}

#[test]
fn a_route_that_does_not_fit_is_answered_503_and_no_request_reaches_another_route() {
    let route = |name: &str, at| http_route(name).created(at).parent("public").host("x.test");
    let wide = |name: &str, at, filter: HttpFilter| route(name, at).rule(&format!("/{name}"), "a:80").filter(filter);
    let old: Object = wide("old", 1, requests(64 * KIB)).rule("/", "a:80").into();
    let young: Object = wide("young", 2, requests(64 * KIB)).rule("/young/plain", "a:80").into();
    let answered: Object = wide("answered", 3, responses(64 * KIB)).into();
    let of_backend = route("backend", 4).rule("/backend", "a:80");
    let of_backend: Object =
        of_backend.change(|rule| rule.backend_refs[0].filters.extend([requests(32 * KIB), responses(32 * KIB)])).into();
    let of_browsers: Object = wide("browsers", 5, cors(64)).into();
    let small: Object = wide("small", 6, requests(0)).into();
    let objects = shop([old, young, answered, of_backend, of_browsers, small]);
    assert!(translated(&objects).problems().is_empty(), "few matches fit into the default limit");

    let translator = with_limit(80 << 10, &objects);
    let of = |name: &str| routes(&translator, "x.test", name).into_iter().map(status).collect::<Vec<_>>();
    assert_eq!((of("old"), of("young")), (vec![None; 2], vec![Some(503); 2]), "all rules are closed");
    for name in ["answered", "backend", "browsers"] {
        assert_eq!(of(name), [Some(503)], "{name}");
        assert!(routes(&translator, "x.test", name)[0].filters.is_empty(), "{name}");
    }
    assert_eq!((of("small"), of("foreign")), (vec![None], vec![None]));
    let problems: Vec<String> = translator.problems().iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 4, "{problems:?}");
    for (problem, name) in problems.iter().zip(["answered", "backend", "browsers", "young"]) {
        let start = format!("HTTPRoute shop/{name}: spec: the configuration of this route takes ");
        assert!(problem.starts_with(&start), "{problem}");
        let end = " KiB of the 80 KiB that tenants.maxConfigurationPerNamespace leaves for these listeners; its requests are answered \
                   503";
        assert!(problem.ends_with(end), "{problem}");
        let refused = "0: Accepted=False RouteTooExpensive".to_owned();
        assert!(conditions(&translator, Kind::HTTP_ROUTE, name).contains(&refused));
    }
}

#[test]
fn each_match_on_each_host_has_a_copy_of_the_filters() {
    let route = |hosts: usize, matches: usize| -> Object {
        let route = http_route("a").parent("public").rule("/0", "a:80").filter(requests(48 * KIB));
        let route = (1..matches).fold(route, |route, at| route.path("PathPrefix", &format!("/{at}")));
        (0..hosts).fold(route, |route, at| route.host(&format!("h{at}.test"))).into()
    };
    let fits = |hosts, matches| {
        let translator = with_limit(256 << 10, &shop([route(hosts, matches)]));
        let all = routes(&translator, "h0.test", "a");
        assert_eq!(all.len(), matches);
        all.into_iter().all(|route| status(route).is_none())
    };
    assert!(fits(1, 4) && fits(4, 1) && fits(2, 2));
    assert!(!fits(1, 16) && !fits(16, 1) && !fits(4, 4));
}

/// Closed routes have a quarter of the limit for their matches. Hosts of routes that do not fit either are answered 404, unless another
/// route serves them.
#[test]
fn closed_routes_whose_matches_do_not_fit_are_left_out() {
    let route = |name: &str, at, matches: usize, size: usize| -> Object {
        let start = http_route(name).created(at).parent("public").host(&format!("{name}.test"));
        (0..matches).fold(start, |route, at| route.rule(&format!("/{at}"), "a:80").filter(requests(size))).into()
    };
    // A closed match takes 150 bytes.
    let list = [route("one", 1, 6, 4 * KIB), route("two", 2, 40, 4 * KIB), route("three", 3, 4, 0)];
    let translator = with_limit(8 << 10, &shop(list));
    let plain = translator.model().plain("gateway/shop/public/80").expect("a listener");
    let host = |name: &str| plain.hosts.get(&Host::Exact(format!("{name}.test").into()));
    let statuses =
        |name: &str| host(name).map(|host| host.routes.iter().map(|route| status(route)).collect::<Vec<_>>());
    assert_eq!(statuses("one"), Some(vec![Some(503); 6]));
    assert_eq!((statuses("two"), statuses("three")), (None, Some(vec![None; 4])));
    let attached = super::gateway::report(&translator).listeners.iter().map(|one| one.attached_routes).sum::<u32>();
    assert_eq!(attached, 2, "`three` and `foreign`");
}

/// Returns a rule of `host` with this number of matches of a kind, and 8 backends.
fn with_backends(kind: &str, matches: usize) -> HttpRouteBuilder {
    let start = http_route("a").parent("public").host("x.test").rule("/0", "s0:80");
    let route = (1..8).fold(start, |route, at| route.backend(&format!("s{at}:80")));
    (1..=matches).fold(route, |route, at| route.path(kind, &format!("/{at}/.*")))
}

fn shop_with_backends(route: HttpRouteBuilder) -> Objects {
    shop((0..8).map(|at| service(&format!("s{at}")).port("http", 80).into()).chain([route.into()]))
}

/// If a backend has changes of headers, Envoy has those of the rule once for each backend. If sessions stay at a backend, Envoy has
/// a route for each backend, and one for new sessions.
#[test]
fn backends_multiply_the_filters_of_their_rule() {
    let fits = |route: HttpRouteBuilder| {
        let translator = with_limit(100 << 10, &shop_with_backends(route));
        routes(&translator, "x.test", "a").into_iter().all(|route| status(route).is_none())
    };
    let rule = |size: usize| with_backends("Exact", 0).filter(requests(size));
    let with_own = |rule: &mut HttpRouteRule| rule.backend_refs[3].filters.push(responses(4 * KIB));
    let with_sessions = |rule: &mut HttpRouteRule| rule.session_persistence = Some(SessionPersistence::default());
    assert!(
        fits(rule(32 * KIB)) && !fits(rule(32 * KIB).change(with_own)) && !fits(rule(32 * KIB).change(with_sessions))
    );
    assert!(fits(rule(4 * KIB).change(with_own)) && fits(rule(4 * KIB).change(with_sessions)));
}

#[test]
fn sessions_at_one_of_several_backends_multiply_the_matches_of_their_rule() {
    let sessions = |rule: &mut HttpRouteRule| rule.session_persistence = Some(SessionPersistence::default());
    let refused = |route: HttpRouteBuilder| {
        let translator = translated(&shop_with_backends(route));
        translator.problems().iter().filter(|problem| problem.reason == Reason::RegexTooExpensive).count()
    };
    let limit = Settings::default().regexes.max_per_host as usize;
    assert_eq!(refused(with_backends("RegularExpression", 7)), 0);
    assert_eq!(
        refused(with_backends("RegularExpression", 7).change(sessions)),
        7 - limit / 9,
        "9 routes for each match"
    );
    let copies = |route: HttpRouteBuilder| {
        let hosts = (0..8).fold(route, |route, at| route.host(&format!("h{at}.test")));
        with_limit(64 << 10, &shop_with_backends(hosts)).problems().is_empty()
    };
    assert!(copies(with_backends("Exact", 4)) && !copies(with_backends("Exact", 4).change(sessions)));
}

/// Returns a route of the Gateway, with some memory on some hosts.
fn any_route() -> impl Strategy<Value = Object> {
    let hosts = prop::collection::btree_set(select(vec!["x.test", "y.test", "z.test", "*.test"]), 1..3);
    let rules = prop::collection::vec((select(vec!["/", "/a", "/b"]), select(vec![0, 0, 8 * KIB])), 1..3);
    let names = select(vec!["a", "b", "c", "d", "other/e", "other/f"]);
    (names, 1i64..4, hosts, rules).prop_map(|(name, created, hosts, rules)| {
        let route = http_route(name).created(created).parent("shop/public");
        let route = hosts.into_iter().fold(route, HttpRouteBuilder::host);
        let rule = |route: HttpRouteBuilder, (path, size): (&str, usize)| match size {
            0 => route.rule(path, "a:80"),
            size => route.rule(path, "a:80").filter(requests(size)),
        };
        rules.into_iter().fold(route, rule).into()
    })
}

/// Returns a policy of the Gateway, or of a route.
fn any_policy() -> impl Strategy<Value = Object> {
    let target = select(vec![("Gateway", "public"), ("HTTPRoute", "a"), ("HTTPRoute", "b")]);
    (select(vec!["a", "b"]), 1i64..3, target, any::<bool>()).prop_map(|(name, created, (kind, target), body)| {
        let policy = http_policy(name).created(created).target(kind, target);
        if body { policy.body("1MiB").into() } else { policy.rate_per_client(1).into() }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// A route that grows or shrinks closes and opens younger routes of its namespace on other hosts, or leaves them out.
    #[test]
    fn routes_within_a_limit_step_by_step_are_what_they_are_all_at_once(
        first in prop::collection::vec(any_route(), 0..6),
        passes in prop::collection::vec(
            prop::collection::vec((prop_oneof![6 => any_route(), 1 => any_policy()], prop::bool::weighted(0.8)), 1..3),
            1..8,
        ),
        limit in select(vec![300, 600, 1200, 20 << 10]),
    ) {
        let mut settings = Settings::default();
        settings.tenants.max_configuration_per_namespace = limit;
        step_by_step(shop(first), passes, &settings)?;
    }
}

/// Requests of a route that is left out do not reach other routes of its namespace, such as one without authorization. Other namespaces
/// are not affected.
#[test]
fn the_other_routes_of_a_namespace_are_closed_on_the_hosts_of_a_route_that_is_left_out() {
    let route = |name: &str, created| http_route(name).created(created).parent("public");
    let small: Object = route("small", 1).host("x.test").host("y.test").rule("/", "a:80").into();
    let large = route("large", 2).host("x.test").rule("/foreign/0", "a:80");
    let large = (1..8).fold(large, |route, at| route.path("PathPrefix", &format!("/foreign/{at}")));
    let mut objects = shop([small, large.into()]);
    let (mut translator, mut settings) = (Translator::default(), Settings::default());
    settings.tenants.max_configuration_per_namespace = 2 << 10;
    translator.update(&objects, &settings, &ChangedInputs::everything());
    assert!(routes(&translator, "x.test", "large").is_empty(), "its matches do not fit into a quarter of the limit");
    let of = |translator: &Translator, host: &str, name: &str| {
        routes(translator, host, name).into_iter().map(status).collect::<Vec<_>>()
    };
    assert_eq!(of(&translator, "x.test", "small"), [Some(503)]);
    assert_eq!((of(&translator, "y.test", "small"), of(&translator, "x.test", "foreign")), (vec![None], vec![None]));
    let problems: Vec<String> = translator.problems().iter().map(ToString::to_string).collect();
    let end = "; route left out, and the other routes of the namespace for its hosts are closed";
    let beside = "HTTPRoute shop/small: spec.hostnames: another route of the namespace for \"x.test\" does not fit into \
                  tenants.maxConfigurationPerNamespace, and is left out; requests to \"x.test\" are answered 503";
    assert!(problems.len() == 2 && problems[0].ends_with(end) && problems[1] == beside, "{problems:?}");
    objects.delete(Kind::HTTP_ROUTE, &ObjectKey::new("shop", "large"));
    let mut changed = ChangedInputs::default();
    changed.insert(Input::new(Kind::HTTP_ROUTE, ObjectKey::new("shop", "large")));
    translator.update(&objects, &settings, &changed);
    assert_eq!(of(&translator, "x.test", "small"), [None]);
}

/// The worst namespace cannot take the limit once for each owner of listeners. An owner with many listeners does not take the share
/// of routes on the listeners of others.
#[test]
fn the_listeners_of_all_owners_share_the_limit_of_a_namespace() {
    let owners = (0..4u16).flat_map(|at| {
        let name = format!("infra-{at}/public");
        let gateway = gateway(&name).listener("http", 80, "HTTP").routes_from("All");
        [gateway.into(), gateway_service(&name, &[(80, 10_001 + at)])]
    });
    let wide = |name: &str, at: i64, owners: &[usize], size: usize| -> Object {
        let start = http_route(name).created(at).host(&format!("{name}.test"));
        let route = owners.iter().fold(start, |route, at| route.parent(&format!("infra-{at}/public")));
        route.rule("/", "a:80").filter(requests(size)).into()
    };
    let routes = [wide("all", 1, &[0, 1, 2, 3], 32 * KIB), wide("young", 2, &[0], 8 * KIB)];
    let closed = |limit: u64| {
        let translator = with_limit(limit, &shop(owners.clone().chain(routes.clone())));
        translator.problems().len()
    };
    // Each owner has 32.5 KiB of the route `all`, and one has 8.5 KiB more.
    assert_eq!((closed(160 << 10), closed(136 << 10), closed(100 << 10)), (0, 1, 4));
}
