//! Attacks with routes and policies on a host of a shared Gateway, with the permissions of a tenant.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use e2e::attacks::framing::filters;
use e2e::attacks::tokens::{jwt, slow_keys, token};
use e2e::lab::Namespace;
use e2e::manifests::gateway_definitions;
use e2e::{Lab, Target};
use hyper::Method;

use super::tenant::Tenant;
use super::victim::{CLASS, SHARED, Victim};

/// The requests per hour for the path `/limited` of the shared host, at each Envoy.
const REQUESTS: usize = 3;
/// The number of edits, each of which must restart no limit of the victim.
const EDITS: usize = 5;
/// The number of requests with a token from each of four clients.
const TOKENS: usize = 60;

/// Installs the definitions of Gateway API.
pub async fn install(lab: &Lab) {
    let kinds = gateway_definitions(&["gatewayclasses", "gateways", "httproutes"]).await;
    lab.kubectl(&["apply", "--server-side", "-f", "-"], &kinds).await;
    lab.kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "-f", "-"], &kinds).await;
}

/// Creates the victim's Gateway `shared`, its routes, and their policies. Returns the address of its Service, and the port of the Envoys.
pub async fn create(space: &Namespace<'_>) -> (IpAddr, u16) {
    let gateway = format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{ name: shared }}\nspec:\n  gatewayClassName: {CLASS}\n  \
         listeners: [{{ name: http, port: 80, protocol: HTTP, allowedRoutes: {{ namespaces: {{ from: All }} }} }}]\n"
    );
    let limit = format!("localRateLimit: {{ requests: {REQUESTS}, unit: hour }}");
    let policies = policy("limited", &limit) + &policy("small", "maxRequestBody: 1KiB");
    let routes = ["only", "limited", "small"].map(|name| route(name, "name: shared", "", "echo")).concat();
    space.apply(&(gateway + &routes + &policies)).await;
    let (lab, service) = (space.lab(), format!("shared-{CLASS}"));
    let address = lab.address(&space.name, &service).await;
    let service = lab.get(&format!("/api/v1/namespaces/{}/services/{service}", space.name)).await;
    let port = service["spec"]["ports"][0]["targetPort"].as_u64().and_then(|port| u16::try_from(port).ok());
    (address, port.expect("a port"))
}

/// Returns a route for the path `/NAME` of the shared host, to a Service with echo servers.
fn route(name: &str, parent: &str, filters: &str, service: &str) -> String {
    format!(
        "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{ name: {name} }}\nspec:\n  parentRefs: [{{ {parent} \
         }}]\n  hostnames: [{}]\n  rules: [{{ matches: [{{ path: {{ value: /{name} }} }}], filters: [{filters}], backendRefs: [{{ name: \
         {service}, port: 8080 }}] }}]\n",
        SHARED.name
    )
}

/// Returns a route of the tenant on the Gateway of the victim.
fn attached(victim: &Victim<'_>, name: &str, filters: &str) -> String {
    route(name, &format!("name: shared, namespace: {}", victim.space.name), filters, "trap")
}

/// Returns a policy for a route of the same namespace.
fn policy(name: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: lockgate.dev/v1alpha1\nkind: HTTPPolicy\nmetadata: {{ name: {name} }}\nspec:\n  targetRefs: [{{ group: \
         gateway.networking.k8s.io, kind: HTTPRoute, name: {name} }}]\n  {spec}\n"
    )
}

/// Returns the victim's host at every Envoy.
async fn everywhere(victim: &Victim<'_>) -> Vec<Target> {
    victim.envoys().await.into_iter().map(|envoy| victim.at(envoy, SHARED)).collect()
}

/// Waits until every Envoy answers a path with this status.
async fn answers(victim: &Victim<'_>, path: &str, status: u16) {
    for target in everywhere(victim).await {
        let right = async || target.get(path).await.is_ok_and(|answer| answer.status == status).then_some(());
        victim.lab.until(&format!("{status} of {path}"), right).await;
    }
}

/// Filters that split responses, or smuggle requests.
pub async fn framing(tenant: &Tenant<'_>, victim: &Victim<'_>) {
    let filters = filters();
    let names = || (0..filters.len()).map(|at| format!("framing-{at}"));
    let routes: String = names().zip(&filters).map(|(name, filter)| attached(victim, &name, filter)).collect();
    tenant.apply(&routes).await;
    tenant.wait_warned("framing-0", &["RouteFilterNotValid"]).await;
    let inner = format!("GET /only HTTP/1.1\r\nhost: {}\r\n\r\n", SHARED.name);
    for (name, filter) in names().zip(&filters) {
        answers(victim, &format!("/{name}"), 500).await;
        for target in everywhere(victim).await {
            let mut connection = target.connect().await.expect("a connection");
            let sent = connection.send(Method::POST, &format!("/{name}"), Bytes::from(inner.clone())).await;
            assert_eq!(sent.expect("an answer").status, 500, "{filter}");
        }
    }
    println!("    {} filters, each answered 500", filters.len());
}

/// A policy with the slowest keys, with requests for it, and one that buffers bodies of 1 GiB.
pub async fn costs(tenant: &Tenant<'_>, victim: &Victim<'_>) {
    let large = "externalAuthorization: { backendRef: { name: trap, port: 8080 }, protocol: http, requestBody: { maxBytes: 1GiB } }";
    let objects = [
        attached(victim, "tokens", ""),
        policy("tokens", &jwt(&slow_keys())),
        attached(victim, "bodies", ""),
        policy("bodies", large),
    ];
    tenant.apply(&objects.concat()).await;
    tenant.wait_warned("bodies", &["tenants.maxBufferedBytes"]).await;
    answers(victim, "/bodies", 403).await;
    answers(victim, "/tokens", 401).await;
    let targets = everywhere(victim).await;
    let clients = (0..4).map(|client| {
        let target = targets[client % targets.len()].clone().field("authorization", &token("ES512", 132));
        tokio::spawn(async move {
            let mut slowest = Duration::ZERO;
            for _ in 0..TOKENS {
                let start = Instant::now();
                assert_eq!(target.get("/tokens").await.expect("an answer").status, 401);
                slowest = slowest.max(start.elapsed());
            }
            slowest
        })
    });
    let mut slowest = Duration::ZERO;
    for client in clients.collect::<Vec<_>>() {
        slowest = slowest.max(client.await.expect("a client"));
    }
    println!("    {} tokens for P-521, the slowest answer after {slowest:?}", 4 * TOKENS);
}

/// Edits of a route and of its limit on the victim's host. A client of the victim is at its limit meanwhile.
pub async fn edits(tenant: &Tenant<'_>, victim: &Victim<'_>) {
    answers(victim, "/limited", 429).await;
    for edit in 0..EDITS {
        let set = format!(
            "{{ type: ResponseHeaderModifier, responseHeaderModifier: {{ set: [{{ name: x-edit, value: 'e{edit}' }}] }} }}"
        );
        let limit = policy("edits", &format!("localRateLimit: {{ requests: {}, unit: hour }}", 100_000 + edit));
        tenant.apply(&(attached(victim, "edits", &set) + &limit)).await;
        for target in everywhere(victim).await {
            let right = async || {
                let answer = target.get("/edits").await.ok()?;
                (answer.header("x-edit") == format!("e{edit}")).then_some(())
            };
            victim.lab.until("an edit", right).await;
            for _ in 0..REQUESTS {
                let answer = target.get("/limited").await.expect("an answer");
                assert_eq!(answer.status, 429, "an excess request passed after {edit} edits");
            }
        }
    }
    println!("    no excess request passed over {EDITS} edits");
}
