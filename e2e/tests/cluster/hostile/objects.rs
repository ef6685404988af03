//! Attacks with objects, with the permissions of a tenant.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use bytes::Bytes;
use e2e::Target;
use e2e::attacks::floods::{self, PATHS};
use e2e::attacks::key_pairs as pairs;
use e2e::attacks::regexes::{accepted, long_path, rejected};
use e2e::attacks::undecodable::{annotated, broken_ingress, broken_secret};
use hyper::Method;
use serde_json::json;

use super::PROMPT;
use super::tenant::{ELDER, Tenant, ingress, path, tls};
use super::victim::{BELOW, CLASS, DEFAULT, HOSTS, OWN, Victim};

/// The number of Ingresses of a flood. Each has three problems.
const FLOOD: usize = 300;
/// The number of requests of each of four clients that keep Envoy busy with regular expressions.
const REQUESTS: u64 = 60;

/// Objects with text that is not UTF-8. The watches of their kinds must continue.
pub async fn undecodable(tenant: &Tenant<'_>) {
    let (core, networking, discovery) = ("/api/v1", "/apis/networking.k8s.io/v1", "/apis/discovery.k8s.io/v1");
    for (name, host) in [("broken-ingress", "broken.attacker.test"), ("broken-conflict", OWN)] {
        tenant.post(networking, "ingresses", broken_ingress(name, CLASS, host, "1")).await;
    }
    tenant.post(core, "secrets", broken_secret("broken-secret", "1")).await;
    tenant.post(core, "services", annotated("Service", "v1", "broken-service")).await;
    let slice = annotated("EndpointSlice", "discovery.k8s.io/v1", "broken-slice");
    tenant.post(discovery, "endpointslices", slice).await;
    for name in ["broken-ingress", "broken-conflict", "broken-secret", "broken-service", "broken-slice"] {
        tenant.wait_warned(name, &["InvalidEncoding", "not valid UTF-8"]).await;
    }
}

/// Key pairs that Envoy would reject, together with all other key pairs in the same response.
pub async fn key_pairs(tenant: &Tenant<'_>) {
    let good = tenant.authority.issue(&["*.attacker.test"]);
    // Mutations of the tags and lengths of the certificate's outer structure, which make it unreadable, and of any
    // other byte.
    let tags = [0, 1, 4, 5, 8, 9];
    let mutated =
        tags.into_iter().chain((10..250).step_by(12)).map(|at| (format!("mutated-{at}"), pairs::mutated(&good, at)));
    let others = [("malformed", pairs::malformed(&good)), ("mismatched", pairs::mismatched())];
    let all: Vec<_> = others.map(|(name, pair)| (name.to_owned(), pair)).into_iter().chain(mutated).collect();
    let mut objects = Vec::new();
    for (name, pair) in &all {
        let host = format!("{name}.attacker.test");
        objects.push(pair.secret(&tenant.space.name, name));
        objects.push(ingress(name, &host, &path("/", "Prefix", "trap"), &tls(&host, name)));
    }
    tenant.apply(&objects.join("---\n")).await;
    println!("    {} key pairs", all.len());
    for (name, _) in all.iter().take(2 + tags.len()) {
        tenant.wait_warned(name, &["SecretNotValid"]).await;
    }
}

/// Conflicts with the hosts, paths, and certificates of the victim. The objects are newer than the objects of the victim.
pub async fn takeovers(tenant: &Tenant<'_>) {
    let trap = path("/", "Prefix", "trap");
    let takeover = |name: &str, host: &str, kind: &str, at: &str| ingress(name, host, &path(at, kind, "trap"), "");
    let rest = format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{ name: rest }}\nspec:\n  ingressClassName: {CLASS}\n  \
         defaultBackend: {{ service: {{ name: trap, port: {{ name: http }} }} }}\n"
    );
    let secret = |name: &str, host: &str| tenant.secret(name, &[host]);
    let objects = [
        takeover("regex", OWN, "ImplementationSpecific", "/.*"),
        takeover("exact", OWN, "Exact", "/"),
        takeover("regex-below", BELOW, "ImplementationSpecific", "/.*"),
        takeover("regex-wildcard", "*.wild.victim.test", "ImplementationSpecific", "/.*"),
        takeover("above", "*.victim.test", "Prefix", "/"),
        rest,
        secret("stolen", DEFAULT),
        ingress("certificate", DEFAULT, &trap, &tls(DEFAULT, "stolen")),
        secret("stolen-below", BELOW),
        ingress("below", BELOW, &trap, &tls(BELOW, "stolen-below")),
        secret("stolen-above", "*.platform.test"),
        ingress("certificate-above", "above.attacker.test", &trap, &tls("*.platform.test", "stolen-above")),
        secret("stolen-own", OWN),
        ingress("certificate-own", "own.attacker.test", &trap, &tls(OWN, "stolen-own")),
    ];
    tenant.apply(&objects.join("---\n")).await;
    for name in ["regex", "exact", "regex-below", "regex-wildcard", "certificate", "below"] {
        tenant.wait_warned(name, &["Conflicted", "namespaceOwnership"]).await;
    }
    tenant.wait_warned("certificate-own", &["spec.tls[0]"]).await;
}

/// An edit of an Ingress that is older than the objects of the victim, to name the live hosts.
pub async fn older(tenant: &Tenant<'_>) {
    let backend = json!({ "service": { "name": "trap", "port": { "name": "http" } } });
    let paths = json!([{ "path": "/", "pathType": "Prefix", "backend": backend }]);
    let hosts = HOSTS.map(|host| host.name).into_iter().chain(["*.wild.victim.test"]);
    let rules: Vec<_> = hosts.map(|host| json!({ "host": host, "http": { "paths": paths } })).collect();
    let patch = json!({ "spec": { "rules": rules } }).to_string();
    let user = format!("--as=system:serviceaccount:{}:default", tenant.space.name);
    tenant.space.kubectl(&["patch", "ingress", ELDER, &user, "--type=merge", "--patch", &patch], "").await;
    tenant.wait_warned(ELDER, &["Conflicted", "is owned by namespace"]).await;
}

/// Services that resolve to Envoy's own pod, or to the metadata service of the cloud.
pub async fn internal_targets(tenant: &Tenant<'_>, victim: &Victim<'_>) {
    let slice = |name: &str, family: &str, address: &str| {
        format!(
            "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{ name: {name}, labels: {{ \
             kubernetes.io/service-name: slices }} }}\naddressType: {family}\nports: [{{ name: http, port: 8002 }}]\n\
             endpoints: [{{ addresses: ['{address}'] }}]\n"
        )
    };
    let service = |name: &str, fields: &str| {
        format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{ name: {name} }}\nspec: {{ {fields}ports: [{{ name: http, port: 8002 }}] }}\n"
        )
    };
    let route = |name: &str| ingress(name, &format!("{name}.attacker.test"), &path("/", "Prefix", name), "");
    // The API server itself rejects 127.0.0.1 and 169.254.169.254.
    let slices =
        [("v4", "IPv4", "100.100.100.200"), ("v6", "IPv6", "fd00:ec2::254"), ("nat64", "IPv6", "64:ff9b::7f00:1")];
    let names = [("local", "localhost"), ("number", "2130706433"), ("metadata", "169.254.169.254")];
    let mut objects = vec![service("slices", ""), route("slices")];
    objects.extend(slices.map(|(name, family, address)| slice(name, family, address)));
    for (name, target) in names {
        objects.push(service(name, &format!("type: ExternalName, externalName: '{target}', ")));
        objects.push(route(name));
    }
    tenant.apply(&objects.join("---\n")).await;
    for (name, ..) in slices {
        tenant.wait_warned(name, &["EndpointNotValid"]).await;
    }
    for (name, _) in names {
        tenant.wait_warned(name, &["ExternalNameNotAllowed"]).await;
    }
    for name in ["slices", "local", "number", "metadata"] {
        let target = victim.lockgate.http(&format!("{name}.attacker.test"));
        let nothing = async || target.get("/").await.is_ok_and(|answer| answer.status == 503).then_some(());
        tenant.space.lab().until(&format!("503 of {name}"), nothing).await;
    }
}

/// Backends that lead back to the Envoys: the address of one of them, and the load balancer in front of them, without circuit breakers.
pub async fn loops(tenant: &Tenant<'_>, victim: &Victim<'_>) {
    let limits = ["connections", "pending-requests", "requests", "retries"]
        .map(|limit| format!("projectcontour.io/max-{limit}: '4294967295'"))
        .join(", ");
    let envoy = victim.lockgate.envoys().await.iter().find_map(|pod| pod.ip).expect("the address of an Envoy");
    for (name, address, port) in [("inside", envoy, 8080), ("around", victim.lockgate.address, 80)] {
        let objects = format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{ name: {name}, annotations: {{ {limits} }} }}\nspec: {{ ports: [{{ name: http, \
             port: 80 }}] }}\n---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{ name: {name}, labels: {{ \
             kubernetes.io/service-name: {name} }} }}\naddressType: IPv4\nports: [{{ name: http, port: {port} }}]\nendpoints: [{{ \
             addresses: ['{address}'] }}]\n---\n{}",
            ingress(name, &format!("{name}.attacker.test"), &path("/", "Prefix", name), "")
        );
        tenant.apply(&objects).await;
    }
    tenant.wait_warned("inside", &["EndpointNotValid"]).await;
    let answers = async |name: &str, status: u16| {
        let target = victim.lockgate.http(&format!("{name}.attacker.test"));
        let answers = async || target.get("/").await.is_ok_and(|answer| answer.status == status).then_some(());
        tenant.space.lab().until(&format!("{status} of {name}"), answers).await;
        target
    };
    answers("inside", 503).await;
    let around = answers("around", 502).await;
    let requests = (0..100).map(|_| {
        let around = around.clone();
        tokio::spawn(async move { around.get("/").await.expect("an answer").status })
    });
    for request in requests.collect::<Vec<_>>() {
        // In the lab, a pod has no connection to itself through the load balancer.
        let status = request.await.expect("a request");
        assert!([502, 503].contains(&status), "{status}");
    }
}

/// Regular expressions that would block a worker, the most expensive accepted ones, and requests for both.
pub async fn regexes(tenant: &Tenant<'_>, victim: &Victim<'_>) {
    let regexes = |name: &str, all: Vec<String>| {
        let paths: Vec<String> = all.iter().map(|regex| path(regex, "ImplementationSpecific", "trap")).collect();
        ingress(name, &format!("{name}.attacker.test"), &paths.join(", "), "")
    };
    let objects = [
        regexes("rejected", rejected()),
        regexes("accepted", accepted()),
        ingress("last", "last.attacker.test", &path("/", "Prefix", "trap"), ""),
    ];
    tenant.apply(&objects.join("---\n")).await;
    tenant.wait_warned("rejected", &["RegexTooExpensive"]).await;
    let target = victim.lockgate.http("last.attacker.test");
    let served = async || target.get("/").await.is_ok_and(|answer| answer.status == 200).then_some(());
    tenant.space.lab().until("the attacker's last host", served).await;
    let clients = ["rejected", "accepted", "accepted", "accepted"].into_iter().zip(0..).map(|(name, client)| {
        let target = victim.lockgate.http(&format!("{name}.attacker.test"));
        tokio::spawn(busy(target, client * REQUESTS))
    });
    let mut slowest = Duration::ZERO;
    for client in clients.collect::<Vec<_>>() {
        slowest = slowest.max(client.await.expect("a client"));
    }
    println!("    {} requests with paths of 60 KB, the slowest {slowest:?}", 4 * REQUESTS);
}

/// Sends requests with long paths, one after the other. Returns the longest duration.
async fn busy(target: Target, seed: u64) -> Duration {
    let mut connection = target.connect().await.expect("a connection");
    let mut slowest = Duration::ZERO;
    for request in 0..REQUESTS {
        let path = long_path(b"ab01", seed + request);
        let start = Instant::now();
        let answer = connection.send(Method::GET, &path, Bytes::new()).await.expect("an answer");
        slowest = slowest.max(start.elapsed());
        assert_eq!(answer.status, 404);
    }
    slowest
}

/// Objects that would flood the log, the debug pages, and the Events.
pub async fn floods(tenant: &Tenant<'_>, victim: &Victim<'_>) {
    let wrong = |name: &str, annotations, paths| floods::wrong(&tenant.space.name, name, CLASS, annotations, paths);
    tenant.apply(&wrong("large", json!({}), PATHS).to_string()).await;
    tenant.apply(&wrong("long", floods::long_annotation(), 1).to_string()).await;
    tenant.wait_warned("large", &["does not exist"]).await;
    tenant.wait_warned("long", &["is not a duration"]).await;
    let mut flood = String::new();
    for at in 0..FLOOD {
        write!(flood, "---\n{}\n", wrong(&format!("flood-{at}"), floods::annotations(), 1)).expect("memory");
    }
    tenant.apply(&flood).await;
    let told = victim.make_mistake().await;
    println!("    {FLOOD} Ingresses with three problems each; the victim is told of a mistake after {told:?}");
    assert!(told < PROMPT, "{told:?}");
}
