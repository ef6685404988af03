//! No migration opens a route: the golden cases of HTTPProxies are migrated, and each route that restricts access is compared with the
//! written route of its match.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use lockgate_route::model::{
    Action, Host, Jwt, ListenerId, Model, PathMatch, Route, RoutePolicy, TlsConnections, TlsHosts, Traffic,
    VirtualHostRoutes,
};
use lockgate_route::objects::http_proxy::HttpProxy;
use lockgate_route::objects::{Kind, Objects};
use lockgate_route::translate::translate;

use super::super::{migrate, proof};
use super::{NOW, options_of_proxies};
use crate::check::{Manifests, Scope, objects};
use crate::settings::resolve;

/// Returns the hosts of a listener for plain HTTP and of a listener for HTTPS.
fn hosts<'m>(model: &'m Model, [plain, tls]: [&str; 2]) -> Vec<(bool, &'m Host, &'m VirtualHostRoutes)> {
    let of_plain = model.plain(plain).into_iter().flat_map(|plain| &plain.hosts);
    let of_tls = model.tls(tls).into_iter().flat_map(|tls| &tls.hosts);
    let of_tls = of_tls.flat_map(|(_, host)| host.virtual_hosts.iter());
    let of_plain = of_plain.map(|(host, content)| (false, host, content));
    of_plain.chain(of_tls.map(|(host, content)| (true, host, content))).collect()
}

/// Returns a path that a route matches, unless it matches by a regular expression.
fn path(route: &Route) -> Option<String> {
    match &route.matches.path {
        PathMatch::Exact(text) | PathMatch::Prefix(text) => Some(text.to_string()),
        PathMatch::SeparatedPrefix(text) => Some(format!("{text}/")),
        PathMatch::Regex(_) => None,
    }
}

fn matches(route: &Route, path: &str) -> bool {
    match &route.matches.path {
        PathMatch::Exact(text) => **text == *path,
        PathMatch::Prefix(text) => path.starts_with(&**text),
        PathMatch::SeparatedPrefix(text) => {
            path.strip_prefix(&**text).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }
        PathMatch::Regex(text) => regex::Regex::new(&format!("^(?:{text})$")).unwrap().is_match(path),
    }
}

/// Returns the restrictions of a policy, with tokens that are compared without their handling behind the decision.
fn restrictions(route: &Route) -> String {
    let none = Arc::<RoutePolicy>::default();
    let policy = route.policy().unwrap_or(&none);
    let tokens = |jwt: &Arc<Jwt>| {
        let providers =
            jwt.providers.iter().map(|one| (one.issuer.clone(), one.audiences.clone(), format!("{:?}", one.jwks)));
        providers.collect::<Vec<_>>()
    };
    let server = policy.authorization.as_ref().map(|server| (server.cluster.port.to_string(), server.check.fail_open));
    let RoutePolicy { client_addresses, basic_authentication, api_keys, jwt, csrf, .. } = &**policy;
    let ranges = client_addresses.as_ref().map(|addresses| {
        let texts = |list: &[lockgate_route::model::ClientRange]| -> Vec<String> {
            list.iter().map(|one| one.range.to_string()).collect()
        };
        (texts(&addresses.allow), texts(&addresses.deny))
    });
    let tokens = jwt.as_ref().map(tokens);
    format!("{ranges:?} {basic_authentication:?} {api_keys:?} {tokens:?} {csrf:?} {server:?}")
}

/// Returns the forwarded connections of a listener by server name: the key pairs, the validation of clients, and the backends.
fn connections(model: &Model, listener: &str) -> BTreeMap<String, (String, Vec<String>)> {
    let none = BTreeMap::new();
    let names = match model.listeners.get(listener).map(|listener| &listener.traffic) {
        Some(Traffic::Tls(names) | Traffic::Https(TlsHosts { connections: names, .. })) => names,
        _ => &none,
    };
    let described = |(host, TlsConnections { terminated, to }): (&Host, &TlsConnections)| {
        let tls = terminated.as_ref().map(|tls| (&tls.secrets, &tls.clients));
        // A BackendPolicy replaces the policy of the HTTPProxy.
        let backends = to.clusters.iter().map(|one| {
            let port = &one.cluster.port;
            format!("{} {:?}*{}", port.service(), port.port(), one.weight)
        });
        (host.to_string(), (format!("{tls:?}"), backends.collect()))
    };
    names.iter().map(described).collect()
}

/// Checks the routes of a case. Returns the number of routes with a restriction, of those that are still served, and of server names whose
/// connections are forwarded, and still are.
fn check_case(case: &Path) -> [usize; 4] {
    let read = |name: &str| fs::read_to_string(case.join(name)).unwrap_or_default();
    let settings = resolve("settings.yaml", &read("settings.yaml"), &[]).unwrap_or_else(|faults| panic!("{faults}"));
    let settings = settings.settings.route;
    let mut manifests = Manifests::default();
    manifests.add("in.yaml", read("in.yaml"));
    let written = migrate(&manifests, &settings, &Scope::Complete, &options_of_proxies(), NOW);
    let objects: Objects = objects(&manifests);
    let before = translate(&objects, &settings).model;
    let (mut after, _) = proof::with(&written.objects, &objects, &settings);
    let proxies: Vec<_> = objects.all::<HttpProxy>().map(|proxy| proxy.meta.key.clone()).collect();
    for key in proxies {
        after.delete(Kind::HTTP_PROXY, &key);
    }
    let after = translate(&after, &settings).model;
    let mut counts = [0; 4];
    let then = connections(&after, "gateway/infra/ingress/443");
    for (host, before) in connections(&before, ListenerId::HTTPS) {
        counts[2] += 1;
        let Some(then) = then.get(&host).filter(|(_, backends)| !backends.is_empty()) else { continue };
        assert_eq!(*then, before, "{}: {host}", case.display());
        counts[3] += 1;
    }
    let after = hosts(&after, ["gateway/infra/ingress/80", "gateway/infra/ingress/443"]);
    for (is_tls, host, content) in hosts(&before, [ListenerId::HTTP, ListenerId::HTTPS]) {
        let Some((_, _, now)) = after.iter().find(|(tls, other, _)| (*tls, *other) == (is_tls, host)) else { continue };
        for route in content.routes.iter().filter(|route| *route.origin.kind == *Kind::HTTP_PROXY.as_str()) {
            let Some(path) = path(route) else { continue };
            // A request that the route takes, and that has no other property.
            if route.matches.conditions().is_some() || !std::ptr::eq(first(content, &path), &raw const **route) {
                continue;
            }
            let then = now.routes.iter().find(|other| other.matches.conditions().is_none() && matches(other, &path));
            let is_closed = matches!(&route.action, Action::Respond { status: 403 | 502 | 503, .. });
            let is_restricted = is_closed || restrictions(route) != restrictions(&route.without_policy());
            counts[0] += usize::from(is_restricted);
            let Some(then) = then.filter(|then| !matches!(then.action, Action::Respond { .. })) else { continue };
            assert!(!is_closed, "{}: {host}{path} is open now", case.display());
            assert_eq!(restrictions(route), restrictions(then), "{}: {host}{path}", case.display());
            counts[1] += usize::from(is_restricted);
        }
    }
    counts
}

/// Returns the route that takes a request for a path.
fn first(content: &VirtualHostRoutes, path: &str) -> *const Route {
    let found = content.routes.iter().find(|one| one.matches.conditions().is_none() && matches(one, path));
    found.map_or(std::ptr::null(), |route| &raw const **route)
}

#[test]
fn no_restriction_of_a_golden_case_is_lost() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/golden");
    let mut sum = [0; 4];
    for entry in fs::read_dir(directory).unwrap() {
        let case = entry.unwrap().path();
        if fs::read_to_string(case.join("in.yaml")).unwrap_or_default().contains("kind: HTTPProxy") {
            check_case(&case).into_iter().zip(&mut sum).for_each(|(count, sum)| *sum += count);
        }
    }
    // Some of them are expressed, and the others are closed.
    assert!(sum[0] > 100 && sum[1] > 12, "{sum:?}");
    assert!(sum[2] > 10 && sum[3] + 3 > sum[2], "{sum:?}");
}
