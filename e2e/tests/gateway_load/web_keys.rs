//! A JSON Web Key that Envoy rejects does not affect the other tenants of a host.

use e2e::load::Plan;
use e2e::manifests::{documents, service};
use e2e::{Load, Mode, wait_everywhere, wait_until};

use super::site::{Listener, Site, assert_no_failure, gateway, route};

/// The host that two tenants share.
pub const SHARED: &str = "shared.test";

/// Moves an object from `default` to the namespace of a tenant, with a reference to the Gateway in `default`.
pub fn of_tenant(namespace: &str, text: &str) -> String {
    text.replace("namespace: default", &format!("namespace: {namespace}"))
        .replace("parentRefs: [{ name: one }]", "parentRefs: [{ name: one, namespace: default }]")
}

/// Returns a route of a tenant for a prefix of the shared host.
pub fn tenant_route(namespace: &str, name: &str) -> String {
    let matches = format!("- matches: [{{ path: {{ type: PathPrefix, value: /{name} }} }}]\n      backendRefs");
    of_tenant(namespace, &route(name, &["one"], SHARED, &[("a", 1)]).replace("- backendRefs", &matches))
}

/// Returns a policy of `bert` for his route, with a JSON Web Key.
fn policy(key: &str) -> String {
    format!(
        "apiVersion: lockgate.dev/v1alpha1\nkind: HTTPPolicy\nmetadata: {{ name: bert, namespace: bert }}\nspec:\n  targetRefs: [{{ \
         group: gateway.networking.k8s.io, kind: HTTPRoute, name: bert }}]\n  jwt: {{ providers: [{{ issuer: 'https://issuer.test', \
         jwks: {{ inline: '{{\"keys\": [{key}]}}' }} }}] }}\n"
    )
}

async fn costs_nothing(mode: Mode) {
    let site = Site::open(mode).await;
    let shared = gateway("one", &[Listener::http("http", site.ports[0])])
        .replace("protocol: HTTP", "protocol: HTTP, allowedRoutes: { namespaces: { from: All } }");
    site.manifests.write("one.yaml", &shared);
    // The update adds the filters for policies, and drains the listener once.
    wait_until("the filters", async || {
        site.envoy.get("/config_dump?resource=dynamic_listeners").await.text().contains("envoy.filters.http.cors")
    })
    .await;
    let backend = |namespace: &str| of_tenant(namespace, &service("a", "", &[site.backends[0].address]));
    let tenants = [backend("anna"), backend("bert"), tenant_route("anna", "anna"), tenant_route("bert", "bert")];
    site.manifests.write("tenants.yaml", &documents(&tenants));
    let target = site.target(0, SHARED);
    let answers = async |path: &str, status: u16| {
        let what = format!("status {status} of {path} from every worker");
        wait_everywhere(&what, async || target.get(path).await.is_ok_and(|answer| answer.status == status)).await;
    };
    answers("/anna", 200).await;
    answers("/bert", 200).await;
    let clients = Load::start(Plan { rate: 300, connections: 10, ..Plan::new(target.clone(), "/anna") }).await;

    let zero = "A".repeat(340);
    let short = "AQAB";
    let keys = [
        format!(r#"{{"kty": "RSA", "n": "{zero}", "e": "AQAB"}}"#),
        format!(r#"{{"kty": "EC", "crv": "P-256", "x": "{short}", "y": "{short}"}}"#),
        format!(r#"{{"kty": "OKP", "crv": "Ed25519", "x": "{short}"}}"#),
    ];
    for (i, key) in keys.iter().enumerate() {
        site.manifests.write("policy.yaml", &policy(key));
        // Another change of the same host, in a resource that Envoy accepts or rejects as a whole.
        let later = format!("later{i}");
        site.manifests.write(&format!("{later}.yaml"), &tenant_route("anna", &later));
        answers(&format!("/{later}"), 200).await;
        answers("/bert", 403).await;
        let problems = site.lockgate.get("/debug/problems").await.text();
        let named = problems.contains("spec.jwt.providers[0].jwks.inline") && problems.contains("\"key 0 ");
        assert!(named, "{problems}");
        site.manifests.remove("policy.yaml");
        answers("/bert", 200).await;
    }
    let rejected: u64 = site.envoy.stats("update_rejected$").await.values().sum();
    assert_eq!(rejected, 0, "{:?}", site.envoy.warnings());
    assert_no_failure(&format!("unusable keys of a tenant, {mode:?}"), clients).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unusable_web_key_costs_other_tenants_nothing_delta() {
    costs_nothing(Mode::Delta).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unusable_web_key_costs_other_tenants_nothing_sotw() {
    costs_nothing(Mode::Sotw).await;
}
