//! Policies of Envoy Gateway at a real API server: a real Envoy denies access to their targets, from the moment at which their
//! CustomResourceDefinitions are installed.

use e2e::manifests::documents;
use e2e::wait::wait_at_most;
use e2e::{ApiServer, Envoy, Mode, Target, wait_until};
use std::time::Duration;

use super::gateway::{CLASS, ROUTE, condition, definitions, find, gateway, ports, start};
use super::get;

/// The kinds and their collections.
const KINDS: [(&str, &str); 3] = [
    ("SecurityPolicy", "securitypolicies"),
    ("ClientTrafficPolicy", "clienttrafficpolicies"),
    ("BackendTrafficPolicy", "backendtrafficpolicies"),
];

/// The users of the policy, as in the documentation of Envoy Gateway.
const USERS: &str = "{ apiVersion: v1, kind: Secret, metadata: { name: basic-auth, namespace: default }, \
                     stringData: { .htpasswd: 'foo:{SHA}hiJ2qRhqPbSzgEHlU5D5qIr4nR4=' } }\n";

/// A controller requests an absent kind at least every 30 s.
const PATIENCE: Duration = Duration::from_secs(60);

/// A CustomResourceDefinition that accepts every spec.
fn definition((kind, plural): (&str, &str)) -> String {
    format!(
        "{{ apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {{ name: \
         {plural}.gateway.envoyproxy.io }}, spec: {{ group: gateway.envoyproxy.io, scope: Namespaced, names: {{ kind: {kind}, \
         plural: {plural} }}, versions: [{{ name: v1alpha1, served: true, storage: true, schema: {{ openAPIV3Schema: {{ \
         type: object, x-kubernetes-preserve-unknown-fields: true }} }} }}] }} }}\n"
    )
}

/// Formats a policy with this target and this feature.
fn policy(kind: &str, name: &str, target: &str, feature: &str) -> String {
    format!(
        "{{ apiVersion: gateway.envoyproxy.io/v1alpha1, kind: {kind}, metadata: {{ name: {name}, namespace: default }}, spec: {{ \
         targetRefs: [{{ group: gateway.networking.k8s.io, {target} }}], {feature} }} }}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_of_envoy_gateway_that_restricts_access_closes_its_targets() {
    let server = ApiServer::start().await;
    server.kubectl(&["create", "-f", "-"], &definitions().await).await;
    wait_until("the kinds of Gateway API", async || {
        server.kubectl(&["api-resources"], "").await.contains("httproutes")
    })
    .await;
    let other = ROUTE.replace("name: cart,", "name: blog,").replace("cart.test", "blog.test");
    server.apply(&documents(&[CLASS.into(), gateway("public", &[80]), ROUTE.into(), other, USERS.into()])).await;
    let lockgate = start(&server).await;
    let envoy = Envoy::start(&lockgate, Mode::Delta).await;
    wait_until("the Service of the Gateway", async || {
        !ports(&find(&server, "services", "public-edge").await).is_empty()
    })
    .await;
    let [(80, port)] = ports(&find(&server, "services", "public-edge").await)[..] else { panic!("a port") };
    let port = u16::try_from(port).expect("a port");
    let answer = async |host: &str| match Target::http(port, host).get("/").await {
        Ok(answer) => format!("{} {}", answer.status, answer.text()),
        Err(_) => String::new(),
    };
    let until = async |host: &str, expected: &str| {
        let what = format!("{host}: {expected}");
        wait_at_most(PATIENCE, Duration::from_millis(50), &what, async || {
            answer(host).await.starts_with(expected).then_some(())
        })
        .await;
    };
    until("cart.test", "301").await;
    until("blog.test", "301").await;

    // The kinds are installed after the start of the controller.
    server.apply(&KINDS.map(definition).join("---\n")).await;
    server.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"], "").await;
    let basic = "basicAuth: { users: { name: basic-auth } }";
    server.apply(&policy("SecurityPolicy", "basic-auth", "kind: HTTPRoute, name: cart", basic)).await;
    until("cart.test", "403 access denied: a SecurityPolicy restricts access to this path and is not enforced").await;
    assert!(answer("blog.test").await.starts_with("301"));
    lockgate.logged(&["AccessNotRestricted", "cart", "default/basic-auth", "answered 403"]).await;
    wait_until("the condition of the route", async || {
        let route = find(&server, "httproutes", "cart").await;
        condition(&route["status"]["parents"][0], "PartiallyInvalid")
            .starts_with("True UnsupportedValue SecurityPolicy")
    })
    .await;
    wait_until("the Event on the route", async || {
        let events = get(&server, &["events"]).await;
        let mut items = events["items"].as_array().into_iter().flatten();
        items.any(|one| one["reason"] == "AccessNotRestricted" && one["involvedObject"]["kind"] == "HTTPRoute")
    })
    .await;

    // A controller that starts with the policy never opens the route, and a Gateway closes all its routes.
    drop((envoy, lockgate));
    let lockgate = start(&server).await;
    let _envoy = Envoy::start(&lockgate, Mode::Delta).await;
    until("blog.test", "301").await;
    assert!(answer("cart.test").await.starts_with("403"), "{}", answer("cart.test").await);
    server.kubectl(&["delete", "securitypolicy", "basic-auth"], "").await;
    until("cart.test", "301").await;
    let validation = "tls: { clientValidation: { caCertificateRefs: [{ name: ca }] } }";
    server
        .apply(&policy("ClientTrafficPolicy", "mtls", "kind: Gateway, name: public, sectionName: http-80", validation))
        .await;
    until("cart.test", "403").await;
    until("blog.test", "403").await;
    server.apply(&policy("ClientTrafficPolicy", "mtls", "kind: Gateway, name: public", "timeout: {}")).await;
    server.apply(&policy("BackendTrafficPolicy", "retries", "kind: HTTPRoute, name: cart", "retry: {}")).await;
    until("cart.test", "301").await;
    until("blog.test", "301").await;
    lockgate.logged(&["UnsupportedPolicy", "cart", "default/retries", "served without the policy"]).await;
    lockgate.logged(&["UnsupportedPolicy", "public", "default/mtls", "served without the policy"]).await;
}
