//! The status of XBackendTrafficPolicies with the CustomResourceDefinition of Gateway API at a real API server.

use e2e::manifests::{documents, gateway_definitions, ingress, ingress_class, service};
use e2e::{ApiServer, Envoy, Mode, wait_until};
use serde_json::Value;

use super::{get, start};

/// Formats an XBackendTrafficPolicy of the Service `shop`.
fn policy(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: gateway.networking.x-k8s.io/v1alpha1\nkind: XBackendTrafficPolicy\nmetadata: {{ name: {name}, \
         namespace: default }}\nspec:\n  targetRefs: [{{ group: '', kind: Service, name: shop }}]\n  {spec}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_has_conditions_at_its_service() {
    let server = ApiServer::start().await;
    server.kubectl(&["create", "-f", "-"], &gateway_definitions(&["xbackendtrafficpolicies"]).await).await;
    server.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"], "").await;
    let backend = "192.0.2.1:8080".parse().expect("an address");
    let objects = [ingress_class(), service("shop", "", &[backend]), ingress("shop", "shop.test", "shop", None)];
    server.apply(&documents(&objects)).await;
    let lockgate = start(&server, &[]).await;
    let envoy = Envoy::start(&lockgate, Mode::Delta).await;
    envoy.wait_routed_to("default/shop/http").await;

    let ancestors = async |name: &str| {
        let policy = get(&server, &["xbackendtrafficpolicy", name]).await;
        policy["status"]["ancestors"].as_array().cloned().unwrap_or_default()
    };
    let until = async |name: &str, expected: &str| {
        let reasons = async || {
            let text = |one: &Value| format!("{}={}", one["type"], one["reason"]).replace('"', "");
            let of = |one: &Value| {
                one["conditions"].as_array().into_iter().flatten().map(text).collect::<Vec<_>>().join(" ")
            };
            ancestors(name).await.iter().map(of).collect::<Vec<_>>().join(", ")
        };
        wait_until(&format!("{name}: {expected}"), async || reasons().await == expected).await
    };
    // The API server sets the defaults.
    server.apply(&policy("one", "retryConstraint: {}")).await;
    until("one", "Accepted=Accepted Programmed=Programmed").await;
    let clusters = envoy.config_dump("dynamic_active_clusters").await;
    let budget = |one: &Value| one["cluster"]["circuit_breakers"]["thresholds"][0]["retry_budget"].clone();
    let expected = serde_json::json!({"budget_percent": {"value": 20}, "min_retry_concurrency": 10});
    assert!(clusters.iter().any(|one| budget(one) == expected), "{clusters:?}");
    let ancestor = ancestors("one").await.remove(0);
    assert_eq!(ancestor["controllerName"], "lockgate.dev/gateway-controller");
    let reference = &ancestor["ancestorRef"];
    assert_eq!([&reference["group"], &reference["kind"], &reference["name"]], ["", "Service", "shop"]);
    let message = ancestor["conditions"][0]["message"].as_str().unwrap_or_default();
    assert!(message.contains("20 concurrent retries for every 100 active requests, but at least 10"), "{message}");

    server.apply(&policy("two", "retryConstraint: { budget: { percent: 30 } }")).await;
    until("two", "Accepted=Conflicted Programmed=Conflicted").await;
    server.apply(&policy("two", "sessionPersistence: { sessionName: 'a b' }")).await;
    server.kubectl(&["delete", "xbackendtrafficpolicy", "one"], "").await;
    until("two", "Accepted=Invalid Programmed=Invalid").await;
}
