//! Policies of a tenant that could use up Envoy's memory cost the other tenants of a Gateway nothing.

use e2e::load::Plan;
use e2e::manifests::{documents, service};
use e2e::{Load, Mode, wait_everywhere, wait_until};

use super::site::{Listener, Site, assert_no_failure, gateway};
use super::web_keys::{SHARED, of_tenant, tenant_route};

/// A rate limit of the owner of the Gateway, which no test exceeds.
const LIMIT: &str = "apiVersion: lockgate.dev/v1alpha1\nkind: HTTPPolicy\nmetadata: { name: limit, namespace: default }\nspec:\n  \
                     targetRefs: [{ group: gateway.networking.k8s.io, kind: Gateway, name: one }]\n  localRateLimit: { requests: \
                     100000, unit: second, perClientAddress: true }\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_route_with_many_copies_of_a_policy_is_closed_alone() {
    let site = Site::open(Mode::Delta).await;
    let shared = gateway("one", &[Listener::http("http", site.ports[0])])
        .replace("protocol: HTTP", "protocol: HTTP, allowedRoutes: { namespaces: { from: All } }");
    site.manifests.write("one.yaml", &documents(&[shared, LIMIT.to_owned()]));
    // The update adds the filters for policies, and drains the listener once.
    wait_until("the filters", async || {
        site.envoy.get("/config_dump?resource=dynamic_listeners").await.text().contains("envoy.filters.http.cors")
    })
    .await;
    let backend = |namespace: &str| of_tenant(namespace, &service("a", "", &[site.backends[0].address]));
    let narrow = tenant_route("bert", "bert");
    site.manifests.write("anna.yaml", &documents(&[backend("anna"), tenant_route("anna", "anna")]));
    site.manifests.write("bert.yaml", &documents(&[backend("bert"), narrow.clone()]));
    let target = site.target(0, SHARED);
    let answers = async |path: &str, status: u16| {
        let what = format!("status {status} of {path} from every worker");
        wait_everywhere(&what, async || target.get(path).await.is_ok_and(|answer| answer.status == status)).await;
    };
    answers("/anna", 200).await;
    answers("/bert", 200).await;
    let clients = Load::start(Plan { rate: 300, connections: 10, ..Plan::new(target.clone(), "/anna") }).await;

    // 48 copies, of which 38 fit.
    let hosts: Vec<String> = (1..16).map(|i| format!("'h{i}.test'")).collect();
    let values: Vec<String> =
        ["/bert", "/b", "/c"].map(|path| format!("{{ path: {{ type: PathPrefix, value: {path} }} }}")).into();
    let wide = narrow
        .replace(&format!("['{SHARED}']"), &format!("['{SHARED}', {}]", hosts.join(", ")))
        .replace("[{ path: { type: PathPrefix, value: /bert } }]", &format!("[{}]", values.join(", ")));
    assert_ne!(wide.len(), narrow.len());
    site.manifests.write("bert.yaml", &documents(&[backend("bert"), wide]));
    answers("/bert", 403).await;
    answers("/anna", 200).await;
    let problems = site.lockgate.get("/debug/problems").await.text();
    let is_named = problems.contains("PolicyTooExpensive") && problems.contains("spec.rules[0]");
    assert!(is_named && problems.contains("can take 321 MiB"), "{problems}");
    site.manifests.write("bert.yaml", &documents(&[backend("bert"), narrow]));
    answers("/bert", 200).await;
    assert_no_failure("many copies of a policy of a tenant", clients).await;
}
