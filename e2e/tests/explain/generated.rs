//! Generated Ingresses and HTTPRoutes.

use std::collections::BTreeSet;
use std::time::Instant;

use e2e::manifests::ingress_class;
use e2e::ports;
use hyper::Method;

use super::site::{Dice, SETTLED, Sent, Site, service};

/// The number of rounds with different objects, and of requests in each round.
const ROUNDS: u64 = 6;
const REQUESTS: usize = 150;

const HOSTS: [&str; 7] = ["a.test", "b.test", "*.test", "x.deep.test", "*.deep.test", "c.example.net", ""];
const NAMESPACES: [&str; 3] = ["one", "two", "three"];
const PATHS: [(&str, &str); 10] = [
    ("/", "Prefix"),
    ("/foo", "Prefix"),
    ("/foo/", "Prefix"),
    ("/foo", "Exact"),
    ("/foo/bar", "Exact"),
    ("/foo/bar", "Prefix"),
    ("/fo", "ImplementationSpecific"),
    ("/[a-z]+/x", "ImplementationSpecific"),
    ("/foo/[0-9]*", "ImplementationSpecific"),
    ("/", "Exact"),
];

/// Generates an Ingress with random rules. Every path has its own Service, so the cluster identifies the path.
fn ingress(dice: &mut Dice, number: usize, services: &mut Vec<(String, String)>) -> String {
    let namespace = dice.of(&NAMESPACES);
    let mut count = 0;
    let mut service = |dice: &mut Dice| {
        count += 1;
        let name = format!("s{number}-{count}");
        // Some Services do not exist.
        if dice.below(12) > 0 {
            services.push((namespace.to_owned(), name.clone()));
        }
        name
    };
    let backend = |name: &str| format!("{{ service: {{ name: {name}, port: {{ name: http }} }} }}");
    let mut spec = String::new();
    if dice.below(6) == 0 {
        spec += &format!("  defaultBackend: {}\n", backend(&service(dice)));
    }
    let mut hosts = BTreeSet::new();
    spec += "  rules:\n";
    for _ in 0..1 + dice.below(3) {
        let host = dice.of(&HOSTS);
        hosts.insert(host);
        spec += &if host.is_empty() { "  - http:\n".to_owned() } else { format!("  - host: {host:?}\n    http:\n") };
        spec += "      paths:\n";
        for _ in 0..1 + dice.below(3) {
            let (path, kind) = PATHS[dice.below(PATHS.len())];
            let backend = backend(&service(dice));
            spec += &format!("      - {{ path: {path:?}, pathType: {kind}, backend: {backend} }}\n");
        }
    }
    let named: Vec<&&str> = hosts.iter().filter(|host| !host.is_empty()).collect();
    if dice.below(2) == 0 && !named.is_empty() {
        spec += &format!("  tls:\n  - {{ hosts: {named:?}, secretName: cert }}\n");
    }
    let redirects = if dice.below(3) == 0 { "\"true\"" } else { "\"false\"" };
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: i{number}\n  namespace: {namespace}\n  \
         creationTimestamp: \"2026-01-{:02}T00:00:00Z\"\n  annotations:\n    \
         ingress.kubernetes.io/force-ssl-redirect: {redirects}\nspec:\n{spec}",
        1 + dice.below(28)
    )
}

/// Generates an HTTPRoute with random hosts and matches.
fn http_route(dice: &mut Dice, number: usize, services: &mut Vec<(String, String)>) -> String {
    let namespace = dice.of(&NAMESPACES);
    let mut spec = "  parentRefs:\n  - { name: public, namespace: infra }\n".to_owned();
    let hosts: BTreeSet<&str> = (0..dice.below(3)).map(|_| HOSTS[dice.below(HOSTS.len() - 1)]).collect();
    if !hosts.is_empty() {
        let hosts = Vec::from_iter(hosts);
        spec += &format!("  hostnames: {hosts:?}\n");
    }
    spec += "  rules:\n";
    for _ in 0..1 + dice.below(3) {
        let name = format!("r{number}-{}", services.len());
        services.push((namespace.to_owned(), name.clone()));
        let mut parts = Vec::new();
        match dice.below(4) {
            0 => parts.push(format!("path: {{ type: Exact, value: {} }}", dice.of(&["/foo", "/foo/bar", "/"]))),
            1 => parts.push("path: { type: RegularExpression, value: \"/[a-z]+/x\" }".to_owned()),
            2 => parts.push(format!("path: {{ type: PathPrefix, value: {} }}", dice.of(&["/foo", "/foo/", "/"]))),
            _ => {}
        }
        match dice.below(6) {
            0 => parts.push("headers: [{ name: X-A, value: \"1\" }]".to_owned()),
            1 => parts.push("headers: [{ name: x-b, type: RegularExpression, value: \"[0-9]+\" }]".to_owned()),
            2 => parts.push("queryParams: [{ name: q, value: \"1\" }]".to_owned()),
            3 => parts.push("method: POST".to_owned()),
            _ => {}
        }
        let matches = if parts.is_empty() { String::new() } else { format!("matches: [{{ {} }}], ", parts.join(", ")) };
        spec += &format!("  - {{ {matches}backendRefs: [{{ name: {name}, port: 80 }}] }}\n");
    }
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata:\n  name: h{number}\n  namespace: {namespace}\n  \
         creationTimestamp: \"2026-01-{:02}T00:00:00Z\"\nspec:\n{spec}",
        1 + dice.below(28)
    )
}

/// Formats the Gateway, with listeners for two host patterns and for TLS.
fn gateway(http: u16, https: u16) -> String {
    let all = "allowedRoutes: { namespaces: { from: All } }";
    let tls = "tls: { certificateRefs: [{ name: default }] }";
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {{ name: lockgate }}\nspec: {{ controllerName: \
         lockgate.dev/gateway-controller }}\n---\napiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{ name: public, \
         namespace: infra }}\nspec:\n  gatewayClassName: lockgate\n  listeners:\n  - {{ name: http, port: {http}, protocol: HTTP, {all} \
         }}\n  - {{ name: deep, port: {http}, protocol: HTTP, hostname: \"*.deep.test\", {all} }}\n  - {{ name: tls, port: {https}, \
         protocol: HTTPS, hostname: \"*.test\", {all}, {tls} }}\n  - {{ name: exact, port: {https}, protocol: HTTPS, hostname: b.test, \
         {all}, {tls} }}\n"
    )
}

fn request(dice: &mut Dice, site: &Site, (http, https): (u16, u16)) -> Sent {
    let names =
        ["a.test", "b.test", "y.test", "x.deep.test", "z.deep.test", "p.q.deep.test", "c.example.net", "none.org"];
    let host = dice.of(&names);
    let (port, is_tls) =
        [(site.lockgate.http, false), (site.lockgate.https, true), (http, false), (https, true)][dice.below(4)];
    // Occasionally, a connection for one name is used for another.
    let server_name = if dice.below(4) == 0 { dice.of(&names) } else { host };
    let host = match dice.below(8) {
        0 => host.to_uppercase(),
        1 => format!("{host}:8080"),
        2 => format!("{host}."),
        _ => host.to_owned(),
    };
    let path = dice.of(&[
        "/",
        "/foo",
        "/foo/",
        "/foobar",
        "/foo/bar",
        "/foo/bar/",
        "/foo/bar/baz",
        "//foo",
        "/foo/./bar",
        "/foo/../foo/bar",
        "/%66oo",
        "/foo%2Fbar",
        "/abc/x",
        "/abc/x?y=1",
        "/ABC/x",
        "/foo/12",
        "/foo/?q=1",
        "/?q=2&q=1",
        "/q?p&q=1",
        "/%7E/x",
    ]);
    let mut headers = Vec::new();
    if dice.below(3) == 0 {
        headers.push(("x-a", ["1", "2"][dice.below(2)].to_owned()));
    }
    if dice.below(3) == 0 {
        headers.push(("x-b", ["12", "1a"][dice.below(2)].to_owned()));
    }
    let method = if dice.below(4) == 0 { Method::POST } else { Method::GET };
    Sent { port, server_name: is_tls.then(|| server_name.to_owned()), host, method, path: path.to_owned(), headers }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_envoy_does_what_is_explained() {
    let site = Site::start().await;
    let gateway = (ports::free(), ports::free());
    // The certificate covers every name that clients request, because they verify it at every chain. For rustls,
    // `*.test` covers no name.
    let wildcards = ["*.test", "*.deep.test", "p.q.deep.test", "c.example.net", "none.org"];
    let names = [&wildcards[..], &["a.test", "b.test", "y.test"]].concat();
    let pair = site.authority.issue(&names);
    let root = site.authority.der();
    let mut counts = std::collections::BTreeMap::<String, usize>::new();
    let mut faults = Vec::new();
    for round in 0..ROUNDS {
        let mut dice = Dice(0x9E37_79B9_7F4A_7C15 ^ (round + 1));
        let mut services = Vec::new();
        let mut objects = vec![ingress_class(), self::gateway(gateway.0, gateway.1), pair.secret("infra", "default")];
        objects.extend(NAMESPACES.iter().map(|namespace| pair.secret(namespace, "cert")));
        objects.extend((0..8).map(|number| ingress(&mut dice, number, &mut services)));
        objects.extend((0..6).map(|number| http_route(&mut dice, number, &mut services)));
        objects.extend(services.iter().map(|(namespace, name)| service(namespace, name, site.backend.port())));
        site.serve(&objects).await;
        let settled = Instant::now() + SETTLED;
        for _ in 0..REQUESTS {
            let request = request(&mut dice, &site, gateway);
            let (report, fault) = site.compare(&request, &root, settled).await;
            let first = &report["answers"][0];
            *counts.entry(format!("{} {}", first["action"], first["status"])).or_default() += 1;
            if let Some(got) = fault {
                faults.push(format!("round {round}: {request:?}\n  explained: {}\n  Envoy: {got}", first["result"]));
            }
        }
    }
    println!("{counts:?}");
    let all: usize = counts.values().sum();
    assert!(faults.is_empty(), "{} of {all} differ:\n{}", faults.len(), faults[..faults.len().min(8)].join("\n"));
    for kind in ["\"forward\" null", "\"respond\" 404", "\"respond\" 421", "\"redirect\" 308"] {
        assert!(counts.keys().any(|key| key.starts_with(kind)), "no request of the kind {kind}: {counts:?}");
    }
}
