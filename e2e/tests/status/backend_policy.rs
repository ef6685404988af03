//! The status of BackendPolicies, and the rules of their CustomResourceDefinition at a real API server.

use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::process::repository;
use e2e::{ApiServer, Envoy, Mode, wait_until};

use super::{get, start};

/// Formats a BackendPolicy of the Service `shop`.
fn policy(name: &str, section: &str, spec: &str) -> String {
    format!(
        "apiVersion: lockgate.dev/v1alpha1\nkind: BackendPolicy\nmetadata: {{ name: {name}, namespace: default }}\nspec:\n  \
         targetRefs: [{{ kind: Service, name: shop{section} }}]\n  {spec}\n"
    )
}

/// Specs that the API server must reject, and a part of the message.
const REFUSED: [(&str, &str); 18] = [
    ("{}", "at least one feature must be set"),
    ("idleTimeout: 10ms", "not a duration from 1s to 24h"),
    ("idleTimeout: soon", "idleTimeout"),
    ("healthCheck: { interval: 2s }", "exactly one of http, grpc, and tcp"),
    ("healthCheck: { tcp: {}, http: { path: / } }", "exactly one of http, grpc, and tcp"),
    ("healthCheck: { tcp: {}, interval: 100ms }", "interval is not a duration from 1s to 1h"),
    ("healthCheck: { tcp: {}, timeout: 10s }", "timeout is not a duration from 100ms to 5s"),
    ("healthCheck: { http: { path: ready } }", "healthCheck.http.path"),
    ("healthCheck: { http: { path: /, method: POST } }", "healthCheck.http.method"),
    ("healthCheck: { tcp: {}, port: 70000 }", "healthCheck.port"),
    ("loadBalancing: { algorithm: Maglev }", "hashOn is required"),
    ("loadBalancing: { algorithm: Random, slowStart: { window: 3s } }", "slowStart needs"),
    ("loadBalancing: { algorithm: Maglev, hashOn: [{ type: Header }] }", "name is required"),
    ("outlierDetection: { baseEjectionTime: 1m, maxEjectionTime: 30s }", "shorter than baseEjectionTime"),
    ("panicThreshold: 101", "panicThreshold"),
    ("zones: { prefer: Any, minLocalEndpoints: 2 }", "only allowed for Local"),
    ("zones: { minLocalEndpoints: 2 }", "zones.prefer"),
    ("http3: { serverName: '*.shop.svc' }", "http3.serverName"),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_has_conditions_at_its_targets_and_the_api_server_checks_its_values() {
    let server = ApiServer::start().await;
    let definition = repository().join("crds/lockgate.dev_backendpolicies.yaml");
    server.kubectl(&["create", "-f", &definition.display().to_string()], "").await;
    server.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"], "").await;
    for (spec, expected) in REFUSED {
        let spec = if spec == "{}" { "" } else { spec };
        let refused = server.try_kubectl(&["create", "-f", "-"], &policy("bad", "", spec)).await;
        let message = refused.expect_err(spec);
        assert!(message.contains(expected), "{spec}: {message}");
    }

    let objects = [
        ingress_class(),
        service("shop", "", &["192.0.2.1:8080".parse().expect("an address")]),
        ingress("shop", "shop.test", "shop", None),
    ];
    server.apply(&documents(&objects)).await;
    let lockgate = start(&server, &[]).await;
    let envoy = Envoy::start(&lockgate, Mode::Delta).await;
    envoy.wait_routed_to("default/shop/http").await;

    let conditions = async |name: &str| {
        let policy = get(&server, &["backendpolicy", name]).await;
        let ancestors = policy["status"]["ancestors"].as_array().cloned().unwrap_or_default();
        let text = |one: &serde_json::Value| format!("{}={}", one["type"], one["reason"]).replace('"', "");
        let conditions = |one: &serde_json::Value| {
            one["conditions"].as_array().into_iter().flatten().map(text).collect::<Vec<_>>().join(" ")
        };
        ancestors.iter().map(conditions).collect::<Vec<_>>().join(", ")
    };
    let until = async |name: &str, expected: &str| {
        wait_until(&format!("{name}: {expected}"), async || conditions(name).await == expected).await
    };
    server.apply(&policy("one", "", "outlierDetection: { consecutive5xx: 7 }")).await;
    until("one", "Accepted=Accepted Programmed=Programmed").await;
    let clusters = envoy.config_dump("dynamic_active_clusters").await;
    assert!(clusters.iter().any(|one| one["cluster"]["outlier_detection"]["consecutive_5xx"] == 7), "{clusters:?}");
    let policy_of = get(&server, &["backendpolicy", "one"]).await;
    let ancestor = &policy_of["status"]["ancestors"][0];
    assert_eq!(ancestor["controllerName"], "lockgate.dev/gateway-controller");
    assert_eq!(
        (&ancestor["ancestorRef"]["kind"], &ancestor["ancestorRef"]["name"]),
        (&"Service".into(), &"shop".into())
    );

    server.apply(&policy("two", "", "idleTimeout: 1m")).await;
    until("two", "Accepted=Conflicted Programmed=Conflicted").await;
    server.apply(&policy("port", ", sectionName: '81'", "idleTimeout: 1m")).await;
    until("port", "Accepted=TargetNotFound Programmed=TargetNotFound").await;
    wait_until("the Event on the policy", async || {
        let events = get(&server, &["events"]).await;
        let mut items = events["items"].as_array().into_iter().flatten();
        items.any(|one| one["reason"] == "PolicyNotValid" && one["involvedObject"]["kind"] == "BackendPolicy")
    })
    .await;
    server.kubectl(&["delete", "backendpolicy", "one"], "").await;
    until("two", "Accepted=Accepted Programmed=Programmed").await;
    // Only the cluster of the route knows that it has no TLS.
    server.apply(&policy("two", "", "http3: {}")).await;
    until("two", "Accepted=Invalid Programmed=Invalid").await;
}
