//! The status of HTTPProxies at a real API server.

use e2e::manifests::{documents, service};
use e2e::{ApiServer, Envoy, Mode, wait_until};
use serde_json::Value;

use super::{get, start};

/// The CustomResourceDefinitions, whose schemas the status has to satisfy.
pub const DEFINITIONS: &str = concat!(
    include_str!("../../../crds/contour/projectcontour.io_httpproxies.yaml"),
    include_str!("../../../crds/contour/projectcontour.io_extensionservices.yaml"),
    include_str!("../../../crds/contour/projectcontour.io_tlscertificatedelegations.yaml"),
);

/// Formats an HTTPProxy in `default`.
fn proxy(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{ name: {name}, namespace: default }}\nspec: {spec}\n"
    )
}

/// Returns the state of an HTTPProxy: `currentStatus`, the conditions, the reasons of errors, and the addresses.
async fn state(server: &ApiServer, name: &str) -> String {
    state_of(server, "httpproxy", name).await
}

/// Returns the state of an object of any kind like [`state`].
async fn state_of(server: &ApiServer, kind: &str, name: &str) -> String {
    let status = get(server, &[kind, name]).await["status"].take();
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let reasons = |condition: &Value| {
        let errors = condition["errors"].as_array().cloned().unwrap_or_default();
        errors.iter().map(|error| format!(" {}:{}", error["type"], error["reason"])).collect::<String>()
    };
    let condition = |one: &Value| format!(" {}={}{}", one["type"], one["status"], reasons(one));
    let conditions: String = conditions.iter().map(condition).collect();
    let addresses = status["loadBalancer"]["ingress"].as_array().cloned().unwrap_or_default();
    let addresses: String = addresses.iter().map(|address| format!(" {}", address["ip"])).collect();
    format!("{}{conditions}{addresses}", status["currentStatus"]).replace('"', "")
}

async fn until(server: &ApiServer, name: &str, expected: &str) {
    wait_until(&format!("{name}: {expected}"), async || state(server, name).await == expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_has_the_status_of_contour_and_whether_envoys_accept_it() {
    let server = ApiServer::start().await;
    let lockgate = start(&server, &["--status-address", "192.0.2.10", "--watch-ingress-without-class"]).await;
    let _envoy = Envoy::start(&lockgate, Mode::Delta).await;
    // The definitions can arrive at any time.
    server.apply(DEFINITIONS).await;
    server.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"], "").await;
    let routes = "[{ services: [{ name: a, port: 80 }] }]";
    let root = proxy("root", &format!("{{ virtualhost: {{ fqdn: a.test }}, routes: {routes} }}"));
    let team = proxy("team", &format!("{{ routes: {routes} }}"));
    server.apply(&documents(&[root.clone(), team])).await;
    let unresolved = "ServiceError:ServiceUnresolvedReference";
    until(&server, "root", &format!("invalid Valid=False {unresolved} lockgate.dev/Programmed=True 192.0.2.10")).await;
    until(&server, "team", "orphaned Valid=False Orphaned:Orphaned lockgate.dev/Programmed=False").await;

    server.apply(&service("a", "", &["192.0.2.1:8080".parse().expect("an address")])).await;
    let valid = "valid Valid=True lockgate.dev/Programmed=True 192.0.2.10";
    until(&server, "root", valid).await;
    let status = get(&server, &["httpproxy", "root"]).await["status"].take();
    assert_eq!(status["description"], "Valid HTTPProxy");
    let message = status["conditions"][1]["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("accepted by 1 Envoy"), "{message}");

    let including = root.replace("routes:", "includes: [{ name: team, conditions: [{ prefix: /team }] }], routes:");
    server.apply(&including).await;
    until(&server, "team", valid).await;
    server.apply(&proxy("late", &format!("{{ virtualhost: {{ fqdn: a.test }}, routes: {routes} }}"))).await;
    let duplicate = "invalid Valid=False VirtualHostError:DuplicateVhost lockgate.dev/Programmed=False";
    until(&server, "late", duplicate).await;
    server.kubectl(&["delete", "httpproxy", "root"], "").await;
    until(&server, "late", valid).await;
    until(&server, "team", "orphaned Valid=False Orphaned:Orphaned lockgate.dev/Programmed=False").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_service_has_the_status_of_contour() {
    let server = ApiServer::start().await;
    server.apply(DEFINITIONS).await;
    server.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"], "").await;
    let _lockgate = start(&server, &["--watch-ingress-without-class"]).await;
    let extension = |spec: &str| {
        format!(
            "apiVersion: projectcontour.io/v1alpha1\nkind: ExtensionService\nmetadata: {{ name: auth, namespace: default }}\nspec: {spec}\n"
        )
    };
    let until = async |expected: &str| {
        let is_expected = async || state_of(&server, "extensionservice", "auth").await == expected;
        wait_until(expected, is_expected).await;
    };
    server.apply(&extension("{ services: [{ name: auth, port: 80 }], protocol: h2c }")).await;
    until("null Valid=False ServiceError:ServiceUnresolvedReference").await;
    server.apply(&service("auth", "", &["192.0.2.1:8080".parse().expect("an address")])).await;
    until("null Valid=True").await;
    let status = get(&server, &["extensionservice", "auth"]).await["status"].take();
    assert_eq!(status["conditions"][0]["message"], "Valid ExtensionService");
    let validation = "validation: { caSecret: ca, subjectName: auth }";
    server.apply(&extension(&format!("{{ services: [{{ name: auth, port: 80 }}], {validation} }}"))).await;
    until("null Valid=False SpecError:TLSUpstreamValidation").await;
    let object = get(&server, &["extensionservice", "auth"]).await;
    assert_eq!(object["status"]["conditions"][0]["observedGeneration"], object["metadata"]["generation"]);
}
