//! Claims of hosts: the author of an older Ingress cannot take a live host of another namespace, and an operator can release it.

use e2e::manifests::{documents, ingress_class};
use e2e::{ApiServer, Envoy, Lockgate, Mode, Target, lockgate, wait_until};
use serde_json::Value;

use super::{is_leader, start};

/// The responses of the tenants: a redirect, and a backend that does not exist.
const VICTIM: u16 = 308;
const ATTACKER: u16 = 503;

/// Formats the only Ingress of a tenant.
fn tenant(namespace: &str, hosts: &[&str]) -> String {
    let redirect = if namespace == "victim" { "ingress.kubernetes.io/force-ssl-redirect: \"true\"" } else { "" };
    let rule = |host: &&str| {
        format!(
            "- host: \"{host}\"\n    http: {{ paths: [{{ path: /, pathType: Prefix, backend: {{ service: {{ name: none, port: {{ \
             number: 80 }} }} }} }}] }}\n"
        )
    };
    let rules: Vec<String> = hosts.iter().map(rule).collect();
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{ name: all, namespace: {namespace}, annotations: {{ {redirect} \
         }} }}\nspec:\n  rules:\n  {}",
        rules.join("  ")
    )
}

/// Returns the claims: the host, the namespace, the name of the ConfigMap, and the key.
async fn claims(lockgate: &Lockgate) -> Vec<[String; 4]> {
    let page: Value = serde_json::from_str(&lockgate.get("/debug/claims").await.text()).expect("JSON");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let claim = |claim: &Value| ["host", "namespace", "config_map", "key"].map(|field| text(&claim[field]));
    page.as_array().expect("a list").iter().map(claim).collect()
}

async fn until_claimed(lockgate: &Lockgate, host: &str, namespace: &str) {
    let time = wait_until(&format!("the claim of {namespace} for {host}"), async || {
        claims(lockgate).await.iter().any(|claim| claim[0] == host && claim[1] == namespace)
    })
    .await;
    println!("{host} claimed by {namespace} after {} ms", time.as_millis());
}

async fn status(lockgate: &Lockgate, host: &str) -> u16 {
    Target::http(lockgate.http, host).get("/").await.map_or(0, |answer| answer.status)
}

async fn until_answered(lockgate: &Lockgate, host: &str, expected: u16) {
    let what = format!("{host} to be answered {expected}");
    let time = wait_until(&what, async || status(lockgate, host).await == expected).await;
    println!("{what}: {} ms", time.as_millis());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_ingress_does_not_take_a_live_host() {
    let server = ApiServer::start().await;
    for namespace in ["attacker", "victim"] {
        server.kubectl(&["create", "namespace", namespace], "").await;
    }
    // If both objects have the same age in seconds, the attacker's name is lower.
    server.apply(&documents(&[ingress_class(), tenant("attacker", &["own.test"])])).await;
    server.apply(&tenant("victim", &["live.test", "*.wild.test"])).await;
    let mut controller = start(&server, &[]).await;
    let _envoy = Envoy::start(&controller, Mode::Delta).await;
    until_answered(&controller, "live.test", VICTIM).await;
    for host in ["live.test", "*.wild.test"] {
        until_claimed(&controller, host, "victim").await;
    }
    until_claimed(&controller, "own.test", "attacker").await;

    // The attack: the older Ingress names the live host, and a name below the live wildcard.
    let hosts = ["own.test", "live.test", "a.wild.test", "first.test"];
    server.apply(&tenant("attacker", &hosts)).await;
    until_answered(&controller, "first.test", ATTACKER).await;
    let assert_unchanged = async |controller: &Lockgate| {
        for host in ["live.test", "a.wild.test", "b.wild.test"] {
            assert_eq!(status(controller, host).await, VICTIM, "{host}");
        }
    };
    assert_unchanged(&controller).await;
    until_claimed(&controller, "first.test", "attacker").await;
    // A new replica reads the claims before it serves.
    controller.restart();
    controller.wait_ready().await;
    wait_until("the replica to lead", async || is_leader(&controller).await).await;
    server.apply(&tenant("attacker", &[&hosts[..], &["second.test"]].concat())).await;
    until_answered(&controller, "second.test", ATTACKER).await;
    assert_unchanged(&controller).await;

    // The host waits for an Ingress that is created again.
    server.kubectl(&["delete", "ingress", "all", "--namespace", "victim"], "").await;
    until_answered(&controller, "live.test", 404).await;
    server.apply(&tenant("attacker", &[&hosts[..], &["third.test"]].concat())).await;
    until_answered(&controller, "third.test", ATTACKER).await;
    assert_eq!(status(&controller, "live.test").await, 404);
    server.apply(&tenant("victim", &["live.test", "*.wild.test"])).await;
    until_answered(&controller, "live.test", VICTIM).await;
    assert_unchanged(&controller).await;

    // An operator releases the host, which goes to the oldest rule.
    let admin = format!("127.0.0.1:{}", controller.admin);
    let listed = lockgate::run(&["status", "--claims", "--admin-address", &admin]);
    let line = listed.lines().find(|line| line.starts_with("live.test ")).expect("the claim");
    assert!(line.contains(" victim ") && line.contains(" served "), "{listed}");
    let all = claims(&controller).await;
    let [.., config_map, key] = all.iter().find(|claim| claim[0] == "live.test").expect("the claim");
    let (namespace, name) = config_map.split_once('/').expect("a namespace");
    let patch = format!("{{\"data\":{{\"{key}\":null}}}}");
    server
        .kubectl(&["--namespace", namespace, "patch", "configmap", name, "--type", "merge", "--patch", &patch], "")
        .await;
    until_answered(&controller, "live.test", ATTACKER).await;
    until_claimed(&controller, "live.test", "attacker").await;

    // A namespace that is being deleted has no claims.
    server.kubectl(&["delete", "namespace", "attacker", "--wait=false"], "").await;
    until_answered(&controller, "live.test", VICTIM).await;
    until_claimed(&controller, "live.test", "victim").await;
    let name = &claims(&controller).await[0][2].replace("default/", "");
    let object = super::get(&server, &["configmap", name, "--show-managed-fields"]).await;
    println!("managed fields of {name}: {} bytes", object["metadata"]["managedFields"].to_string().len());
}
