//! Generated ListenerSets, TLSRoutes, and GRPCRoutes, with HTTPRoutes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use e2e::manifests::ingress_class;
use e2e::ports;
use hyper::Method;

use super::backend::AnyProtocol;
use super::site::{Dice, SETTLED, Sent, Site, service};

/// The number of rounds with different objects, and of requests in each round.
const ROUNDS: u64 = 6;
const REQUESTS: usize = 150;

const HOSTS: [&str; 6] = ["a.test", "b.test", "*.test", "x.deep.test", "*.deep.test", "c.example.net"];
const NAMESPACES: [&str; 3] = ["one", "two", "three"];
const NAMES: [&str; 7] = ["a.test", "b.test", "y.test", "x.deep.test", "z.deep.test", "p.q.deep.test", "c.example.net"];
/// A client does not send an address as the server name.
const ADDRESS: &str = "127.0.0.1";

/// The ports of the listeners.
#[derive(Clone, Copy)]
struct Ports {
    http: u16,
    https: u16,
    tls: u16,
    /// The ports that only ListenerSets have.
    more: [u16; 2],
}

impl Ports {
    fn all(self) -> [u16; 5] {
        [self.http, self.https, self.tls, self.more[0], self.more[1]]
    }
}

/// Returns a random listener. Some of them conflict with other listeners.
fn listener(dice: &mut Dice, name: &str, ports: Ports) -> String {
    let port = ports.all()[dice.below(5)];
    let usual = match port {
        _ if port == ports.http => 0,
        // TLS shares the port.
        _ if port == ports.https => [1, 1, 2, 3][dice.below(4)],
        _ => 2 + dice.below(2),
    };
    let kind = if dice.below(8) == 0 { dice.below(4) } else { usual };
    let certificate = if dice.below(12) == 0 { "none" } else { "cert" };
    let protocol = match kind {
        0 => "protocol: HTTP".to_owned(),
        1 => format!("protocol: HTTPS, tls: {{ certificateRefs: [{{ name: {certificate} }}] }}"),
        2 => "protocol: TLS, tls: { mode: Passthrough }".to_owned(),
        _ => format!("protocol: TLS, tls: {{ mode: Terminate, certificateRefs: [{{ name: {certificate} }}] }}"),
    };
    let host = match dice.below(4) {
        0 => String::new(),
        _ => format!("hostname: '{}', ", dice.of(&HOSTS)),
    };
    let from = dice.of(&["All", "All", "Same"]);
    format!(
        "  - {{ name: {name}, port: {port}, {protocol}, {host}allowedRoutes: {{ namespaces: {{ from: {from} }} }} }}\n"
    )
}

/// Returns the Gateway `infra/public` with three listeners, and its class.
fn gateway(ports: Ports) -> String {
    let Ports { http, https, tls, .. } = ports;
    let all = "allowedRoutes: { namespaces: { from: All } }";
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {{ name: lockgate }}\nspec: {{ controllerName: \
         lockgate.dev/gateway-controller }}\n---\napiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{ name: public, \
         namespace: infra }}\nspec:\n  gatewayClassName: lockgate\n  allowedListeners: {{ namespaces: {{ from: All }} }}\n  \
         listeners:\n  - {{ name: http, port: {http}, protocol: HTTP, {all} }}\n  - {{ name: https, port: {https}, protocol: HTTPS, \
         hostname: '*.test', {all}, tls: {{ certificateRefs: [{{ name: default }}] }} }}\n  - {{ name: tls, port: {tls}, protocol: \
         TLS, hostname: '*.test', {all}, tls: {{ mode: Passthrough }} }}\n"
    )
}

/// The generated objects of a round.
#[derive(Default)]
struct Objects {
    texts: Vec<String>,
    /// The ListenerSets: namespace, name, and number of listeners.
    sets: Vec<(&'static str, String, usize)>,
    /// The Services: namespace and name.
    services: Vec<(&'static str, String)>,
}

impl Objects {
    fn add_set(&mut self, dice: &mut Dice, ports: Ports) {
        let (namespace, name) = (NAMESPACES[dice.below(3)], format!("set{}", self.sets.len()));
        let count = 1 + dice.below(3);
        let listeners: String = (0..count).map(|number| listener(dice, &format!("l{number}"), ports)).collect();
        self.texts.push(format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\nmetadata:\n  name: {name}\n  namespace: {namespace}\n  \
             creationTimestamp: \"2026-01-{:02}T00:00:00Z\"\nspec:\n  parentRef: {{ name: public, namespace: infra }}\n  \
             listeners:\n{listeners}",
            1 + dice.below(28)
        ));
        self.sets.push((namespace, name, count));
    }

    /// Returns a parent of a route: the Gateway or a ListenerSet, or one of its listeners.
    fn parent(&self, dice: &mut Dice) -> String {
        let (parent, count) = match dice.below(self.sets.len() + 2) {
            number if number < self.sets.len() => {
                let (namespace, name, count) = &self.sets[number];
                (format!("kind: ListenerSet, name: {name}, namespace: {namespace}"), *count)
            }
            _ => ("name: public, namespace: infra".to_owned(), 0),
        };
        match dice.below(4) {
            0 if count > 0 => format!("{{ {parent}, sectionName: l{} }}", dice.below(count)),
            _ => format!("{{ {parent} }}"),
        }
    }

    /// Adds a route with random hosts. Its Service identifies it.
    fn add_route(&mut self, dice: &mut Dice, number: usize) {
        let (namespace, service) = (NAMESPACES[dice.below(3)], format!("s{number}"));
        let kind = ["HTTPRoute", "GRPCRoute", "TLSRoute", "TLSRoute"][dice.below(4)];
        let parents: BTreeSet<String> = (0..1 + dice.below(3)).map(|_| self.parent(dice)).collect();
        let parents = Vec::from_iter(parents).join(", ");
        // A TLSRoute needs a host.
        let least = usize::from(kind == "TLSRoute");
        let hosts: BTreeSet<&str> = (0..least + dice.below(3)).map(|_| dice.of(&HOSTS)).collect();
        let hosts =
            if hosts.is_empty() { String::new() } else { format!("  hostnames: {:?}\n", Vec::from_iter(hosts)) };
        let matches = match kind {
            "HTTPRoute" => {
                let path = ["/", "/shop.Cart", "/shop.Cart/Add"][dice.below(3)];
                format!("matches: [{{ path: {{ type: PathPrefix, value: {path} }} }}], ")
            }
            "GRPCRoute" => {
                let method = [
                    "{ service: shop.Cart, method: Add }",
                    "{ service: shop.Cart }",
                    "{ method: Add }",
                    "{ type: RegularExpression, service: 'shop[.].*' }",
                    "{ type: RegularExpression, service: 'shop', method: 'A[a-z]+' }",
                ];
                match dice.below(method.len() + 1) {
                    number if number < method.len() => format!("matches: [{{ method: {} }}], ", method[number]),
                    _ => String::new(),
                }
            }
            _ => String::new(),
        };
        // Some Services do not exist.
        if dice.below(12) > 0 {
            self.services.push((namespace, service.clone()));
        }
        self.texts.push(format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\nmetadata:\n  name: r{number}\n  namespace: {namespace}\n  \
             creationTimestamp: \"2026-01-{:02}T00:00:00Z\"\nspec:\n  parentRefs: [{parents}]\n{hosts}  rules:\n  - {{ \
             {matches}backendRefs: [{{ name: {service}, port: 80 }}] }}\n",
            1 + dice.below(28)
        ));
    }
}

fn request(dice: &mut Dice, ports: Ports) -> Sent {
    let port = ports.all()[dice.below(5)];
    let host = dice.of(&NAMES);
    // Occasionally, a client uses TLS at the port of a listener for plain text, or plain text at a port for TLS.
    let is_tls = (port != ports.http) != (dice.below(12) == 0);
    let server_name = match dice.below(8) {
        0 => dice.of(&NAMES),
        1 => ADDRESS,
        _ => host,
    };
    let path =
        dice.of(&["/", "/shop.Cart/Add", "/shop.Cart/Remove", "/shop.CartX/Add", "/other.Cart/Add", "/shop/All"]);
    let headers = match dice.below(3) {
        0 => vec![(
            "content-type",
            dice.of(&["application/grpc", "application/grpc+proto", "application/grpc-web"]).to_owned(),
        )],
        _ => Vec::new(),
    };
    let server_name = is_tls.then(|| server_name.to_owned());
    Sent { server_name, method: Method::POST, headers, ..Sent::get(port, host, path) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_envoy_selects_the_explained_listener_and_server_name() {
    let site = Site::start().await;
    let ports =
        Ports { http: ports::free(), https: ports::free(), tls: ports::free(), more: [ports::free(), ports::free()] };
    let pair = site.authority.issue(&[&NAMES[..], &["*.test", ADDRESS]].concat());
    let root = site.authority.der();
    let mut counts = BTreeMap::<String, usize>::new();
    let mut faults = Vec::new();
    for round in 0..ROUNDS {
        let mut dice = Dice(0xD1B5_4A32_D192_ED03 ^ (round + 1));
        let mut objects = Objects::default();
        (0..5).for_each(|_| objects.add_set(&mut dice, ports));
        (0..16).for_each(|number| objects.add_route(&mut dice, number));
        let mut texts = vec![ingress_class(), gateway(ports), pair.secret("infra", "default")];
        texts.extend(NAMESPACES.iter().map(|namespace| pair.secret(namespace, "cert")));
        texts.append(&mut objects.texts);
        let mut backends = Vec::new();
        for (namespace, name) in &objects.services {
            let backend = AnyProtocol::start(&format!("{namespace}/{name}"), &pair).await;
            texts.push(service(namespace, name, backend.port));
            backends.push(backend);
        }
        site.serve(&texts).await;
        let settled = Instant::now() + SETTLED;
        for _ in 0..REQUESTS {
            let request = request(&mut dice, ports);
            let (report, fault) = site.compare(&request, &root, settled).await;
            let first = &report["answers"][0];
            let kind = match (&first["listener"]["is_assumed"], first["routes"][0]["action"].as_str()) {
                (assumed, _) if assumed == true => "no listener".to_owned(),
                (_, Some("forward the connection")) => {
                    let mode = if first["tls"]["is_passthrough"] == true { "passthrough" } else { "terminated" };
                    format!("{} {mode}", first["action"])
                }
                _ => format!("{} {} {}", first["action"], first["status"], first["grpc_status"]),
            };
            let object = first["listener"]["object"].as_str().unwrap_or_default();
            let object = object.split(' ').next().unwrap_or_default();
            *counts.entry(format!("{kind} {object}")).or_default() += 1;
            if let Some(got) = fault {
                faults.push(format!(
                    "round {round}: {request:?}\n  explained: {} {}\n  Envoy: {got}",
                    first["result"], first["listener"]
                ));
            }
        }
    }
    println!("{counts:#?}");
    let all: usize = counts.values().sum();
    assert!(faults.is_empty(), "{} of {all} differ:\n{}", faults.len(), faults[..faults.len().min(8)].join("\n"));
    for kind in ["\"forward\" passthrough", "\"forward\" terminated", "\"forward\" null", "\"respond\" 404 12"] {
        for object in ["Gateway", "ListenerSet"] {
            let is_such = |key: &&String| key.starts_with(kind) && key.ends_with(object);
            // The listener for TLS of the Gateway does not terminate TLS.
            let is_possible = kind != "\"forward\" terminated" || object != "Gateway";
            assert!(!is_possible || counts.keys().any(|key| is_such(&key)), "no {kind} of a {object}: {counts:#?}");
        }
    }
    for kind in ["\"refuse\"", "no listener"] {
        assert!(counts.keys().any(|key| key.starts_with(kind)), "no request of the kind {kind}: {counts:#?}");
    }
}
