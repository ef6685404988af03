//! Weighted backends: the explained shares are the shares of the requests at a real Envoy.

use std::collections::BTreeMap;

use e2e::client::Answer;
use e2e::manifests::ingress_class;
use e2e::{Target, ports, wait_everywhere};
use hyper::Method;
use serde_json::Value;

use super::backend::AnyProtocol;
use super::site::{Sent, Site, service};

/// The weights of a rule by the names of Services: `a`, `b`, `idle` without endpoints, and `gone`, which does not exist.
const RULES: [(&str, &[(&str, u32)]); 14] = [
    ("canary", &[("a", 90), ("b", 10)]),
    ("zero", &[("a", 1), ("b", 0)]),
    ("gone", &[("a", 3), ("gone", 1)]),
    ("gone-of-three", &[("a", 80), ("b", 10), ("gone", 10)]),
    ("gone-zero", &[("a", 1), ("gone", 0)]),
    ("gone-wins", &[("a", 0), ("gone", 1)]),
    ("gone-alone", &[("gone", 1)]),
    ("all-zero", &[("a", 0), ("b", 0)]),
    ("none", &[]),
    ("idle", &[("a", 3), ("idle", 1)]),
    ("idle-zero", &[("a", 1), ("idle", 0)]),
    ("idle-alone", &[("idle", 1)]),
    ("idle-and-gone", &[("a", 2), ("idle", 1), ("gone", 1)]),
    ("twice", &[("a", 1), ("b", 1), ("a", 2)]),
];

/// The number of requests of each HTTPRoute.
const REQUESTS: u32 = 1000;

/// The number of connections of each TLSRoute. Every one has a TLS handshake, which is slow in a debug build.
const CONNECTIONS: u32 = 200;

/// The share of the requests by result: the name of a Service, a status of Envoy, or `closed`.
type Shares = BTreeMap<String, f64>;

/// Formats a route for the host `RULE.test`.
fn route(kind: &str, gateway: &str, rule: &str, weights: &[(&str, u32)], rest: &str) -> String {
    let backends: Vec<String> =
        weights.iter().map(|(name, weight)| format!("{{ name: {name}, port: 80, weight: {weight} }}")).collect();
    let (backends, lower) = (backends.join(", "), kind.to_lowercase());
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\nmetadata: {{ name: {rule}-{lower}, namespace: one }}\nspec:\n  \
         parentRefs: [{{ name: {gateway} }}]\n  hostnames: [{rule}.test]\n  rules:\n  - {{ backendRefs: [{backends}]{rest} }}\n"
    )
}

fn gateway(http: u16, tls: u16) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {{ name: lockgate }}\nspec: {{ controllerName: \
         lockgate.dev/gateway-controller }}\n---\napiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{ name: public, \
         namespace: one }}\nspec:\n  gatewayClassName: lockgate\n  listeners:\n  - {{ name: http, port: {http}, protocol: HTTP }}\n  \
         - {{ name: tls, port: {tls}, protocol: TLS, tls: {{ mode: Passthrough }} }}\n"
    )
}

/// Serves two backends, a Service without endpoints, and these objects.
async fn serve(site: &Site, objects: Vec<String>) -> [AnyProtocol; 2] {
    let names: Vec<String> = RULES.iter().map(|(rule, _)| format!("{rule}.test")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let pair = site.authority.issue(&names);
    let backends = [AnyProtocol::start("one/a", &pair).await, AnyProtocol::start("one/b", &pair).await];
    let mut all = vec![ingress_class(), service("one", "a", backends[0].port), service("one", "b", backends[1].port)];
    let idle = service("one", "idle", 1);
    all.extend(idle.split("---").next().map(str::to_owned));
    all.extend(objects);
    site.serve(&all).await;
    backends
}

/// Returns the explained shares.
fn explained(report: &Value) -> Shares {
    let answers = report["answers"].as_array().expect("answers");
    let [answer] = answers.as_slice() else { panic!("{} answers", answers.len()) };
    let percent = |text: &Value| match text.as_str().unwrap_or_default() {
        "" => 1.0,
        text => text.trim_end_matches('%').parse::<f64>().expect("a share in percent") / 100.0,
    };
    let (mut shares, mut remaining) = (Shares::new(), 1.0);
    let mut add = |result: String, share: f64| *shares.entry(result).or_default() += share;
    let routes = answer["routes"].as_array().expect("routes");
    for route in routes {
        let part = remaining * percent(&route["share"]);
        remaining -= part;
        let is_connection = route["action"] == "forward the connection";
        if let Some(status) = route["action"].as_str().and_then(|action| action.strip_prefix("answer ")) {
            add(status.to_owned(), part);
            continue;
        }
        let clusters = route["clusters"].as_array().expect("clusters");
        for cluster in clusters {
            let has_endpoints = cluster["endpoints"].as_array().is_some_and(|all| !all.is_empty());
            let result = match has_endpoints {
                true => cluster["service"].as_str().unwrap_or_default().to_owned(),
                false if is_connection => "closed".to_owned(),
                false => "503".to_owned(),
            };
            add(result, part * percent(&cluster["share"]));
        }
        if clusters.is_empty() && is_connection {
            add("closed".to_owned(), part);
        }
    }
    if routes.is_empty() {
        add(answer["status"].to_string(), 1.0);
    }
    shares
}

/// Returns the result of a request.
fn result(answer: &Answer) -> String {
    match answer.status {
        200 => answer.header("x-backend").to_owned(),
        status => status.to_string(),
    }
}

/// Returns the number of requests that [`measured`] sends.
fn number(is_connection: bool) -> u32 {
    if is_connection { CONNECTIONS } else { REQUESTS }
}

/// Sends requests, and returns the shares of the results.
async fn measured(target: &Target, is_connection: bool) -> Shares {
    let mut counts = BTreeMap::<String, u32>::new();
    let mut connection = None;
    for _ in 0..number(is_connection) {
        let result = if is_connection {
            target.get("/").await.as_ref().map_or_else(|_| "closed".to_owned(), result)
        } else {
            let opened = match connection.take() {
                Some(opened) => opened,
                None => target.connect().await.expect("a connection"),
            };
            let opened = connection.insert(opened);
            // Envoy may have closed the connection after an answer.
            if !opened.usable().await {
                *opened = target.connect().await.expect("a connection");
            }
            result(&opened.send(Method::GET, "/", "".into()).await.expect("an answer"))
        };
        *counts.entry(result).or_default() += 1;
    }
    let share = |count| f64::from(count) / f64::from(number(is_connection));
    counts.into_iter().map(|(result, count)| (result, share(count))).collect()
}

/// Returns whether shares of this number of requests differ by more than chance: five standard deviations.
fn differ(explained: &Shares, measured: &Shares, number: u32) -> bool {
    let share = |all: &Shares, result: &str| all.get(result).copied().unwrap_or_default();
    explained.keys().chain(measured.keys()).any(|result| {
        let (expected, found) = (share(explained, result), share(measured, result));
        let deviation = (expected * (1.0 - expected) / f64::from(number)).max(0.0).sqrt();
        // A printed share has two decimals.
        (expected - found).abs() > 5.0 * deviation + 0.0001
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_envoy_distributes_requests_by_the_explained_shares() {
    let site = Site::start().await;
    let (http, tls) = (ports::free(), ports::free());
    let mut objects = vec![gateway(http, tls)];
    for (rule, weights) in RULES {
        objects.push(route("HTTPRoute", "public", rule, weights, ""));
        objects.push(route("TLSRoute", "public", rule, weights, ""));
    }
    let _backends = serve(&site, objects).await;
    let mut faults = Vec::new();
    for (rule, _) in RULES {
        let host = format!("{rule}.test");
        for (port, is_connection) in [(http, false), (tls, true)] {
            let server_name = is_connection.then(|| host.clone());
            let report = site.explain(&Sent { server_name, ..Sent::get(port, &host, "/") }).await;
            let target = match is_connection {
                false => Target::http(port, &host),
                true => Target::https(port, &host, site.authority.der()),
            };
            let explained = explained(&report);
            // One result is expected of every worker, before requests are counted.
            wait_everywhere("a result that is explained", async || {
                let result = target.get("/").await.as_ref().map_or_else(|_| "closed".to_owned(), result);
                explained.contains_key(&result)
            })
            .await;
            let measured = measured(&target, is_connection).await;
            let first = &report["answers"][0];
            println!("{host} {port}: {} {explained:?} {measured:?}", first["result"]);
            // A result without any response of a backend must not read like one with a backend.
            let serves = measured.keys().any(|result| result.starts_with("one/"));
            let is_good = first["action"] == "forward" && first["status"].is_null();
            if differ(&explained, &measured, number(is_connection)) || serves != is_good {
                faults.push(format!(
                    "{host}, connections: {is_connection}\n  explained: {} {explained:?}\n  Envoy: {measured:?}",
                    first["result"]
                ));
            }
        }
    }
    assert!(faults.is_empty(), "{} rules differ:\n{}", faults.len(), faults.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_envoy_keeps_sessions_at_the_explained_backend() {
    let site = Site::start().await;
    let (http, tls) = (ports::free(), ports::free());
    let session = ", sessionPersistence: { sessionName: shop }";
    let rules = RULES.into_iter().filter(|(rule, _)| ["canary", "gone-of-three"].contains(rule));
    let routes = rules.clone().map(|(rule, weights)| route("HTTPRoute", "public", rule, weights, session));
    let _backends = serve(&site, [gateway(http, tls)].into_iter().chain(routes).collect()).await;
    for (rule, _) in rules {
        let host = format!("{rule}.test");
        let target = Target::http(http, &host);
        let has_session = async || target.get("/").await.is_ok_and(|answer| answer.headers.contains_key("set-cookie"));
        e2e::wait_until("session persistence", has_session).await;
        for backend in ["one/a", "one/b"] {
            let answer = loop {
                let answer = target.get("/").await.expect("an answer");
                if result(&answer) == backend {
                    break answer;
                }
            };
            let cookies = answer.headers.get_all("set-cookie").iter().filter_map(|value| value.to_str().ok());
            let cookies: Vec<&str> = cookies.filter_map(|cookie| cookie.split(';').next()).collect();
            let cookies = format!("other=1; {}", cookies.join("; "));
            let headers = vec![("cookie", cookies.clone())];
            let report = site.explain(&Sent { headers, ..Sent::get(http, &host, "/") }).await;
            let explained = explained(&report);
            let measured = measured(&target.clone().field("cookie", &cookies), false).await;
            println!("{host} {backend}: {} {explained:?} {measured:?}", report["answers"][0]["result"]);
            assert!(explained.contains_key(backend), "{explained:?}");
            assert!(!differ(&explained, &measured, REQUESTS), "{host}: explained {explained:?}, Envoy {measured:?}");
        }
    }
}
