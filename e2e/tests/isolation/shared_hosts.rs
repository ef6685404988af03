//! Envoy rejects the path of one Ingress on a host that several Ingresses share. Only the owner of that path receives
//! an Event.

use std::collections::BTreeMap;

use e2e::manifests::{documents, ingress_class, service};
use e2e::{ApiServer, Envoy, Lockgate, Mode, Source, Target, ports, wait_until};
use serde_json::Value;

const HOST: &str = "shop.test";

/// An Ingress of the shared host.
fn ingress(name: &str, path: &str) -> String {
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{ name: {name}, namespace: default }}\nspec:\n  rules:\n    \
         - host: {HOST}\n      http:\n        paths:\n          - path: '{path}'\n            pathType: ImplementationSpecific\n            \
         backend: {{ service: {{ name: shop, port: {{ name: http }} }} }}\n"
    )
}

/// Starts an Envoy that rejects some regular expressions of the controller: it has Envoy's default limit.
fn strict_envoy(lockgate: &Lockgate, mode: Mode) -> Envoy {
    let admin = ports::free();
    let text = lockgate.bootstrap(mode, admin, "strict");
    let line = text.lines().find(|line| line.contains("re2.max_program_size.error_level")).expect("the limit");
    let (field, _) = line.rsplit_once(':').expect("a field with a value");
    Envoy::launch_with(&text.replace(line, &format!("{field}: 100")), admin)
}

/// Returns the notes of the Events about rejections, by object.
async fn rejections(server: &ApiServer) -> BTreeMap<String, Vec<String>> {
    let list =
        server.kubectl(&["get", "events.v1.events.k8s.io", "--namespace", "default", "--output", "json"], "").await;
    let list: Value = serde_json::from_str(&list).expect("JSON");
    let all = list["items"].as_array().into_iter().flatten().filter(|event| event["reason"] == "XdsRejected");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut notes = BTreeMap::<String, Vec<String>>::new();
    for event in all {
        notes.entry(text(&event["regarding"]["name"])).or_default().push(text(&event["note"]));
    }
    notes
}

async fn only_the_owner_of_a_rejected_path_is_told(mode: Mode) {
    let server = ApiServer::start().await;
    let names = ["anna", "bert", "carl", "dora"];
    let ingresses = names.map(|name| ingress(name, &format!("/{name}")));
    server.apply(&documents(&[&[ingress_class(), service("shop", "", &[])], ingresses.as_slice()].concat())).await;
    let lockgate = Lockgate::start(&Source::Kubeconfig(server.kubeconfig("admin")), &["--leader-election", "on"]).await;
    let mut envoy = strict_envoy(&lockgate, mode);
    envoy.wait_ready().await;
    // The Service has no endpoints: a route answers 503, and without a route, the answer is 404.
    let target = Target::http(lockgate.http, HOST);
    let status = async |path: &str| target.get(path).await.map_or(0, |answer| answer.status);
    for name in names {
        wait_until(name, async || status(&format!("/{name}")).await == 503).await;
    }

    // A path of carl and a path of another host change together, and Envoy rejects the path of carl.
    let bad = format!("/carl/[0-9]+/{}", "long".repeat(40));
    server.apply(&documents(&[ingress("carl", &bad), ingress("dora", "/dora2")])).await;
    let line = lockgate.logged(&["rejected, and omitted", "default/carl"]).await;
    println!("{mode:?}: {line}");
    wait_until("the Event", async || rejections(&server).await.contains_key("carl")).await;
    let told = rejections(&server).await;
    println!("{mode:?}: {told:?}");
    // Both have changed, and the resource is rejected as a whole.
    assert!(told.keys().all(|name| ["carl", "dora"].contains(&&**name)), "{told:?}");
    assert!(told["carl"].iter().all(|note| note.contains("program size")), "{told:?}");
    assert_eq!(status("/carl").await, 503, "the last version that Envoy accepted stays");

    // Without the change of dora, only carl has caused the rejection.
    server.apply(&ingress("dora", "/dora")).await;
    let alone = |notes: &Vec<String>| notes.iter().any(|note| !note.contains("other object"));
    wait_until("the Event of carl alone", async || rejections(&server).await.get("carl").is_some_and(alone)).await;

    // A new Envoy, which has accepted nothing before, does not change the suspects.
    drop(envoy);
    let mut envoy = strict_envoy(&lockgate, mode);
    envoy.wait_ready().await;
    wait_until("the rejection by the new Envoy", async || lockgate.log().matches("rejected, and omitted").count() >= 3)
        .await;
    for innocent in ["anna", "bert"] {
        assert!(!rejections(&server).await.contains_key(innocent), "{innocent}\n{}", lockgate.log());
        let object = format!("Ingress default/{innocent}");
        assert!(!lockgate.log().lines().any(|line| line.contains("rejected") && line.contains(&object)), "{object}");
    }
    wait_until("the last good version at the new Envoy", async || status("/anna").await == 503).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_owner_of_a_rejected_path_is_told_by_delta() {
    only_the_owner_of_a_rejected_path_is_told(Mode::Delta).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_owner_of_a_rejected_path_is_told_by_sotw() {
    only_the_owner_of_a_rejected_path_is_told(Mode::Sotw).await;
}
