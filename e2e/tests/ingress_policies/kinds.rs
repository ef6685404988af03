//! Policies of Ingresses with a real API server that has no kind of Gateway API: effect, and status.

use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::process::repository;
use e2e::{ApiServer, Backend, Envoy, Lockgate, Mode, Target, ports, wait_until};
use serde_json::Value;

use super::{answers, policy};

const SETTINGS: &str = "xds: { address: '127.0.0.1:XDS' }\nadmin: { address: '127.0.0.1:ADMIN' }\n\
    leaderElection: { enabled: true }\nlisteners: { http: { port: HTTP_PORT }, https: { port: HTTPS_PORT }, \
    stats: { port: STATS } }\nstatus: { addresses: [192.0.2.10] }\nwatch: { gatewayApi: false }\n";

/// Returns the conditions of a policy: the target, the name of the condition, the status, and the reason.
async fn conditions(server: &ApiServer, name: &str) -> Vec<String> {
    let text = server.kubectl(&["get", "httppolicy", name, "--namespace", "default", "--output", "json"], "").await;
    let policy: Value = serde_json::from_str(&text).expect("JSON");
    let entries = policy["status"]["ancestors"].as_array().cloned().unwrap_or_default();
    let of = |entry: &Value| {
        let (target, section) = (&entry["ancestorRef"], entry["ancestorRef"]["sectionName"].as_str());
        let section = section.map(|section| format!("#{section}")).unwrap_or_default();
        let target = format!("{} {}{section}", target["kind"], target["name"]).replace('"', "");
        let conditions = entry["conditions"].as_array().cloned().unwrap_or_default();
        let text = |one: &Value| format!("{target}: {}={} {}", one["type"], one["status"], one["reason"]);
        conditions.iter().map(text).map(|text| text.replace('"', "")).collect::<Vec<_>>()
    };
    entries.iter().flat_map(of).collect()
}

async fn reports(server: &ApiServer, name: &str, expected: &[&str]) {
    let what = format!("the conditions of {name}: {expected:?}");
    wait_until(&what, async || conditions(server, name).await == expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_of_an_ingress_needs_no_gateway_api() {
    let server = ApiServer::start().await;
    let definition = repository().join("crds/lockgate.dev_httppolicies.yaml");
    server.kubectl(&["create", "-f", &definition.display().to_string()], "").await;
    server.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"], "").await;
    // The controller leaves out endpoints of the loopback interface.
    let own = ports::own_address().expect("an address that is not loopback");
    let backend = Backend::start_at("a", own).await;
    server.apply(&documents(&[ingress_class(), service("a", "", &[backend.address])])).await;
    server.apply(&policy("shop", "clientAddresses: { deny: [127.0.0.0/8] }")).await;
    let kubeconfig = server.kubeconfig("admin").display().to_string();
    let mut lockgate = Lockgate::launch_by_file(&["--kubeconfig", &kubeconfig], SETTINGS);
    lockgate.wait_ready().await;
    let _envoy = Envoy::start(&lockgate, Mode::Delta).await;
    let missing = ["Ingress shop: Accepted=False TargetNotFound", "Ingress shop: Programmed=False TargetNotFound"];
    reports(&server, "shop", &missing).await;

    server.apply(&documents(&["shop", "other"].map(|name| ingress(name, &format!("{name}.test"), "a", None)))).await;
    let [shop, other] = ["shop.test", "other.test"].map(|host| Target::http(lockgate.http, host));
    answers(&shop, 403).await;
    answers(&other, 200).await;
    let accepted_at_shop = ["Ingress shop: Accepted=True Accepted", "Ingress shop: Programmed=True Programmed"];
    reports(&server, "shop", &accepted_at_shop).await;

    let one = |name: &str, spec: &str| policy("other", spec).replacen("name: other", &format!("name: {name}"), 1);
    let of_host = |name: &str| {
        one(name, "maxRequestBody: 1MiB").replace("name: other }", "name: other, sectionName: other.test }")
    };
    server.apply(&of_host("host")).await;
    let accepted =
        ["Ingress other#other.test: Accepted=True Accepted", "Ingress other#other.test: Programmed=True Programmed"];
    reports(&server, "host", &accepted).await;
    server.apply(&of_host("late")).await;
    let late = [
        "Ingress other#other.test: Accepted=False Conflicted",
        "Ingress other#other.test: Programmed=False Conflicted",
    ];
    reports(&server, "late", &late).await;
    let wild =
        one("wild", "maxRequestBody: 1MiB").replace("name: other }", "name: other, sectionName: '*.other.test' }");
    server.apply(&wild).await;
    let missing =
        ["Accepted", "Programmed"].map(|one| format!("Ingress other#*.other.test: {one}=False TargetNotFound"));
    reports(&server, "wild", &missing.each_ref().map(String::as_str)).await;
    let team = policy("team", "jwt: { providers: [] }")
        .replace("networking.k8s.io, kind: Ingress, name: team", "'', kind: Namespace, name: default");
    let refused = server.try_kubectl(&["apply", "-f", "-"], &team).await.expect_err("no provider");
    assert!(refused.contains("spec.jwt.providers"), "{refused}");
    let team = team.replace("jwt: { providers: [] }", "clientAddresses: { allow: [127.0.0.1/8] }");
    server.apply(&team).await;
    answers(&other, 403).await;
    reports(
        &server,
        "team",
        &["Namespace default: Accepted=False Invalid", "Namespace default: Programmed=False Invalid"],
    )
    .await;

    // The override of the namespace decides for both Ingresses.
    let features = team.replace("[127.0.0.1/8]", "[127.0.0.0/8]");
    let twice = features.replace("spec:\n", "spec:\n  defaults: { clientAddresses: { deny: [192.0.2.7] } }\n");
    let refused = server.try_kubectl(&["apply", "-f", "-"], &twice).await.expect_err("a feature that is set twice");
    assert!(refused.contains("a feature is set in spec and in spec.defaults"), "{refused}");
    server
        .apply(&features.replace("clientAddresses: {", "overrides: { clientAddresses: {").replace("] }", "] } }"))
        .await;
    answers(&other, 200).await;
    answers(&shop, 200).await;
    let overridden = [accepted_at_shop[0], accepted_at_shop[1], "Ingress shop: Overridden=True Overridden"];
    reports(&server, "shop", &overridden).await;
    let message = "jsonpath={.status.ancestors[0].conditions[?(@.type==\"Overridden\")].message}";
    let message =
        server.kubectl(&["get", "httppolicy", "shop", "--namespace", "default", "--output", message], "").await;
    assert_eq!(message, "overridden: clientAddresses by HTTPPolicy \"default/team\"");
    server.kubectl(&["delete", "httppolicy", "team", "--namespace", "default"], "").await;
    answers(&shop, 403).await;
    reports(&server, "shop", &accepted_at_shop).await;

    // The Secrets of policies.
    server.apply(&ingress("keys", "keys.test", "a", None)).await;
    let keys = Target::http(lockgate.http, "keys.test");
    answers(&keys, 200).await;
    let features = "apiKeys: { secretRefs: [{ name: clients }], sources: [{ header: x-api-key }] }\n  \
                    basicAuthentication: { secretRef: { name: users } }";
    let both = features.replace("{ header: x-api-key }", "{ header: x-api-key, query: key }");
    let refused = server.try_kubectl(&["apply", "-f", "-"], &policy("keys", &both)).await.expect_err("two places");
    assert!(refused.contains("exactly one of header, query, and cookie must be set"), "{refused}");
    server.apply(&policy("keys", features)).await;
    answers(&keys, 403).await;
    let invalid = ["Ingress keys: Accepted=False Invalid", "Ingress keys: Programmed=False Invalid"];
    reports(&server, "keys", &invalid).await;
    let create = ["create", "secret", "generic", "clients", "--namespace", "default"];
    let data = ["--type=lockgate.dev/api-keys", "--from-literal=app=key-1"];
    server.kubectl(&[&create[..], &data].concat(), "").await;
    // The user `ann` with the password `password`, and one whose password Envoy cannot verify.
    let lines = "ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\nbob:$apr1$zzz$secret";
    let create = ["create", "secret", "generic", "users", "--namespace", "default"];
    server.kubectl(&[&create[..], &[&format!("--from-literal=auth={lines}")]].concat(), "").await;
    answers(&keys, 401).await;
    let anybody = keys.clone().field("x-api-key", "key-1");
    answers(&anybody, 401).await;
    answers(&anybody.field("authorization", "Basic YW5uOnBhc3N3b3Jk"), 200).await;
    let partial = [
        "Ingress keys: Accepted=True Accepted",
        "Ingress keys: Programmed=True Programmed",
        "Ingress keys: PartiallyInvalid=True UnsupportedValue",
    ];
    reports(&server, "keys", &partial).await;
    let shown = async |kinds: &str| {
        let text = server.kubectl(&["get", kinds, "--all-namespaces", "--output", "yaml"], "").await;
        assert!(!text.contains("$apr1$") && !text.contains("key-1"), "{text}");
        text
    };
    let text = shown("httppolicies").await;
    assert!(text.contains("line 2") && text.contains("bob"), "{text}");
    server.kubectl(&["delete", "secret", "clients", "--namespace", "default"], "").await;
    answers(&keys, 403).await;
    reports(&server, "keys", &invalid).await;
    shown("events").await;
}
