//! Policies of a tenant that could use up Envoy's memory cost the other tenants of a Gateway nothing.

use e2e::{Mode, Target, ports, wait_everywhere};

use super::site::{Listener, gateway};
use super::tenants::{SHARED, Tenants, tenant_route};

/// A rate limit of the owner of the Gateway, which no test exceeds.
const LIMIT: &str = "apiVersion: lockgate.dev/v1alpha1\nkind: HTTPPolicy\nmetadata: { name: limit, namespace: default }\nspec:\n  \
                     targetRefs: [{ group: gateway.networking.k8s.io, kind: Gateway, name: one }]\n  localRateLimit: { requests: \
                     100000, unit: second, perClientAddress: true }\n";

/// The most memory that the closed or omitted route may add to an Envoy.
const MOST: u64 = 64 << 20;

/// Replaces the route of `bert` by one that takes too much memory, and then by the first one.
async fn exceed(tenants: Tenants, wide: &str, status: u16, problem: [&str; 3]) {
    let site = &tenants.site;
    let narrow = tenant_route("bert", "bert");
    assert_ne!(wide.len(), narrow.len());
    let before = site.envoy.memory().await;
    site.manifests.write("bert.yaml", wide);
    tenants.answers("/bert", status).await;
    tenants.answers("/anna", 200).await;
    let more = site.envoy.memory().await.saturating_sub(before);
    assert!(more < MOST, "{more} bytes");
    let problems = site.lockgate.get("/debug/problems").await.text();
    assert!(problem.iter().all(|part| problems.contains(part)), "{problems}");
    site.manifests.write("bert.yaml", &narrow);
    tenants.answers("/bert", 200).await;
    tenants.assert_no_failure("a tenant that asks for too much memory").await;
}

/// Returns the route of `bert` with 16 hosts and these prefixes.
fn wide(prefixes: &[String]) -> String {
    let hosts: Vec<String> = (1..16).map(|i| format!("'h{i}.test'")).collect();
    let prefix = |value: &String| format!("{{ path: {{ type: PathPrefix, value: {value} }} }}");
    let matches: Vec<String> = prefixes.iter().map(prefix).collect();
    tenant_route("bert", "bert")
        .replace(&format!("['{SHARED}']"), &format!("['{SHARED}', {}]", hosts.join(", ")))
        .replace("[{ path: { type: PathPrefix, value: /bert } }]", &format!("[{}]", matches.join(", ")))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_with_many_copies_of_a_policy_is_closed_alone() {
    // 48 copies, of which 38 fit.
    let wide = wide(&["/bert", "/b", "/c"].map(str::to_owned));
    let tenants = Tenants::open(Mode::Delta, LIMIT).await;
    exceed(tenants, &wide, 403, ["PolicyTooExpensive", "spec.rules[0]", "can take 321 MiB"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_with_many_copies_of_large_filters_fails_alone() {
    // The limits of an HTTPRoute: 64 matches of a rule, 16 headers in a list, and 4096 characters in a value.
    let prefixes: Vec<String> = (1..64).map(|i| format!("/b{i}")).chain(["/bert".to_owned()]).collect();
    let headers = |list: &str| {
        let header = |i: usize| format!("{{ name: x-{list}-{i}, value: {} }}", "v".repeat(4096));
        (0..16).map(header).collect::<Vec<_>>().join(", ")
    };
    let filter = format!(
        "filters: [{{ type: RequestHeaderModifier, requestHeaderModifier: {{ set: [{}], add: [{}] }} }}]\n      backendRefs",
        headers("set"),
        headers("add")
    );
    let wide = wide(&prefixes).replace("backendRefs", &filter);
    let tenants = Tenants::open(Mode::Delta, "").await;
    exceed(tenants, &wide, 500, ["FilterTooExpensive", "spec.rules[0].filters", "can take 529 MiB"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_with_many_copies_of_matches_is_left_out_alone() {
    let tenants = Tenants::open(Mode::Delta, "").await;
    let site = &tenants.site;
    // The limits of the API for a Gateway, a rule, and a path: 64 listeners, 64 matches, and 1024 characters.
    let more: Vec<u16> = (1..64).map(|_| ports::free()).collect();
    let listener = |port: &u16| format!("    - {{ name: l{port}, port: {port}, protocol: HTTP }}\n");
    let listeners: String = more.iter().map(listener).collect();
    let all = gateway("one", &[Listener::http("http", site.ports[0])]) + &listeners;
    let from_all = "protocol: HTTP, allowedRoutes: { namespaces: { from: All } }";
    site.manifests.write("one.yaml", &all.replace("protocol: HTTP", from_all));
    let last = Target::http(more[62], SHARED);
    wait_everywhere("the last listener", async || last.get("/anna").await.is_ok_and(|answer| answer.status == 200))
        .await;
    let long = |i: usize| format!("/b{i}/{}", "x".repeat(1000));
    let prefixes: Vec<String> = (1..64).map(long).chain(["/bert".to_owned()]).collect();
    exceed(
        tenants,
        &wide(&prefixes),
        404,
        ["RouteTooExpensive", "on 1024 hosts of Gateways in namespace", "route left out"],
    )
    .await;
}
