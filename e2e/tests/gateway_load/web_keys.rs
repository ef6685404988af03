//! A JSON Web Key that Envoy rejects does not affect the other tenants of a host.

use e2e::Mode;

use super::tenants::{Tenants, tenant_route};

/// Returns a policy of `bert` for his route, with a JSON Web Key.
fn policy(key: &str) -> String {
    format!(
        "apiVersion: lockgate.dev/v1alpha1\nkind: HTTPPolicy\nmetadata: {{ name: bert, namespace: bert }}\nspec:\n  targetRefs: [{{ \
         group: gateway.networking.k8s.io, kind: HTTPRoute, name: bert }}]\n  jwt: {{ providers: [{{ issuer: 'https://issuer.test', \
         jwks: {{ inline: '{{\"keys\": [{key}]}}' }} }}] }}\n"
    )
}

async fn costs_nothing(mode: Mode) {
    let tenants = Tenants::open(mode, "").await;
    let site = &tenants.site;
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
        tenants.answers(&format!("/{later}"), 200).await;
        tenants.answers("/bert", 403).await;
        let problems = site.lockgate.get("/debug/problems").await.text();
        let named = problems.contains("spec.jwt.providers[0].jwks.inline") && problems.contains("\"key 0 ");
        assert!(named, "{problems}");
        site.manifests.remove("policy.yaml");
        tenants.answers("/bert", 200).await;
    }
    let rejected: u64 = site.envoy.stats("update_rejected$").await.values().sum();
    assert_eq!(rejected, 0, "{:?}", site.envoy.warnings());
    tenants.assert_no_failure(&format!("unusable keys of a tenant, {mode:?}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unusable_web_key_costs_other_tenants_nothing_delta() {
    costs_nothing(Mode::Delta).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unusable_web_key_costs_other_tenants_nothing_sotw() {
    costs_nothing(Mode::Sotw).await;
}
