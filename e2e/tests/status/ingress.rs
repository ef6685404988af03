//! The status of an Ingress contains addresses only when Envoys serve it.

use std::collections::BTreeMap;

use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::{ApiServer, Envoy, Lockgate, Mode, Source, Target, wait_until};
use serde_json::{Value, json};

use super::{get, is_leader, redirect, start};

const FLAGS: &[&str] = &["--status-address", "192.0.2.10,lb.example.com"];

fn ours() -> Value {
    json!([{ "ip": "192.0.2.10" }, { "hostname": "lb.example.com" }])
}

/// Returns the addresses of an Ingress, or null.
async fn addresses(server: &ApiServer, name: &str) -> Value {
    get(server, &["ingress", name]).await["status"]["loadBalancer"]["ingress"].clone()
}

async fn wait_for_our_address(server: &ApiServer, name: &str) {
    let time = wait_until("the addresses of the Ingress", async || addresses(server, name).await == ours()).await;
    println!("{name}: addresses after {} ms", time.as_millis());
}

/// Sends one request, which the Ingress must answer.
async fn assert_served(lockgate: &Lockgate, host: &str) {
    let answer = Target::http(lockgate.http, host).get("/").await.expect("an answer");
    assert_eq!(answer.status, 308, "{host}, right after its status");
}

/// Waits until the host is published.
async fn until_published(lockgate: &Lockgate, host: &str) {
    wait_until("the host to be published", async || lockgate.virtual_host(host).await.is_some()).await;
}

/// Returns the resourceVersion of every Ingress.
async fn versions(server: &ApiServer) -> BTreeMap<String, String> {
    let list = get(server, &["ingresses"]).await;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let items = list["items"].as_array().into_iter().flatten();
    items.map(|item| (text(&item["metadata"]["name"]), text(&item["metadata"]["resourceVersion"]))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_stands_in_the_status_when_envoy_serves_and_only_while_the_ingress_is_ours() {
    let server = ApiServer::start().await;
    let other_class = ingress_class()
        .replace("name: lockgate", "name: other")
        .replace("lockgate.dev/ingress-controller", "example.org/other")
        .replace("is-default-class: \"true\"", "is-default-class: \"false\"");
    let cart = ingress("cart", "cart.test", "cart", None);
    server.apply(&documents(&[ingress_class(), other_class, redirect("one", "one.test"), cart])).await;
    let foreign = redirect("foreign", "foreign.test").replace("spec:\n", "spec:\n  ingressClassName: other\n");
    server.apply(&foreign).await;
    let theirs = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.10" }] } } }).to_string();
    server.kubectl(&["patch", "ingress", "foreign", "--subresource=status", "--type=merge", "-p", &theirs], "").await;
    let foreign = get(&server, &["ingress", "foreign"]).await;

    // No Envoy serves it yet.
    let mut lockgate = start(&server, FLAGS).await;
    wait_until("the replica to lead", async || is_leader(&lockgate).await).await;
    until_published(&lockgate, "one.test").await;
    assert_eq!(addresses(&server, "one").await, Value::Null);
    let mut envoy = Envoy::start(&lockgate, Mode::Delta).await;
    wait_for_our_address(&server, "one").await;
    assert_served(&lockgate, "one.test").await;

    // An Envoy that does not answer delays the address only while it is connected.
    envoy.process().signal("STOP");
    server.apply(&redirect("two", "two.test")).await;
    until_published(&lockgate, "two.test").await;
    let pending = async || lockgate.metric("lockgate_status_pending", &["kind=\"Ingress\""]).await;
    wait_until("the address to be due", async || pending().await == 1.0).await;
    assert_eq!(addresses(&server, "two").await, Value::Null);
    envoy.process().signal("CONT");
    wait_for_our_address(&server, "two").await;
    assert_served(&lockgate, "two.test").await;

    // A current status is not written again, neither after a change elsewhere nor after a restart.
    wait_for_our_address(&server, "cart").await;
    let before = versions(&server).await;
    let published = lockgate.resources().await;
    server.apply(&service("cart", "", &[])).await;
    wait_until("another publication", async || lockgate.resources().await != published).await;
    lockgate.kill();
    lockgate.restart();
    lockgate.wait_ready().await;
    wait_until("the new process to lead", async || is_leader(&lockgate).await).await;
    server.apply(&redirect("three", "three.test")).await;
    wait_for_our_address(&server, "three").await;
    assert_served(&lockgate, "three.test").await;
    let mut after = versions(&server).await;
    after.remove("three");
    assert_eq!(after, before);
    assert_eq!(lockgate.metric("lockgate_status_writes_total", &["kind=\"Ingress\""]).await, 1.0, "three alone");

    // The Ingress has another class: our addresses are removed, and others stay.
    let class = json!({ "spec": { "ingressClassName": "other" } }).to_string();
    server.kubectl(&["patch", "ingress", "one", "--type=merge", "-p", &class], "").await;
    wait_until("the addresses to go", async || addresses(&server, "one").await == Value::Null).await;
    // Another controller with the same address has written it.
    assert_eq!(get(&server, &["ingress", "foreign"]).await, foreign);
    assert_eq!(addresses(&server, "two").await, ours());
    envoy.process().assert_running();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_addresses_are_those_of_the_service_of_the_envoys() {
    let server = ApiServer::start().await;
    let balancer = "apiVersion: v1\nkind: Service\nmetadata: { name: envoy, namespace: default }\nspec:\n  type: LoadBalancer\n  \
                    ports: [{ name: http, port: 80 }]\n";
    server.apply(&documents(&[ingress_class(), redirect("one", "one.test"), balancer.into()])).await;
    let lockgate = start(&server, &["--envoy-service", "default/envoy"]).await;
    let _envoy = Envoy::start(&lockgate, Mode::Sotw).await;
    lockgate.logged(&["no status is written without an address"]).await;
    for address in ["192.0.2.20", "192.0.2.21"] {
        let status = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": address, "ipMode": "VIP" }] } } });
        let args = ["patch", "service", "envoy", "--subresource=status", "--type=merge", "-p", &status.to_string()];
        server.kubectl(&args, "").await;
        let expected = json!([{ "ip": address }]);
        wait_until("the address of the Service", async || addresses(&server, "one").await == expected).await;
    }
    // A Service that is missing for a moment removes no address.
    server.kubectl(&["delete", "service", "envoy"], "").await;
    lockgate.logged(&["does not exist", "no status is written without an address"]).await;
    assert_eq!(addresses(&server, "one").await, json!([{ "ip": "192.0.2.21" }]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_envoys_of_other_replicas_have_to_accept_too() {
    let server = ApiServer::start().await;
    server.apply(&documents(&[ingress_class(), redirect("one", "one.test")])).await;
    // This replica serves Envoys, and does not write.
    let other = Lockgate::start(&Source::Kubeconfig(server.kubeconfig("admin")), &[]).await;
    let peers = format!("127.0.0.1:{}", other.xds);
    let leader = start(&server, &[FLAGS, &["--peers", &peers]].concat()).await;
    wait_until("the replica to lead", async || is_leader(&leader).await).await;
    let mut envoy = Envoy::start(&other, Mode::Delta).await;
    wait_for_our_address(&server, "one").await;
    assert_served(&other, "one.test").await;

    // An Envoy of this replica accepts, and an Envoy of the other replica does not answer.
    let _envoy = Envoy::start(&leader, Mode::Delta).await;
    envoy.process().signal("STOP");
    server.apply(&redirect("two", "two.test")).await;
    let here = Target::http(leader.http, "two.test");
    let served = async || here.get("/").await.is_ok_and(|answer| answer.status == 308);
    wait_until("the Envoy of the leader to serve", served).await;
    assert_eq!(addresses(&server, "two").await, Value::Null);
    envoy.process().signal("CONT");
    wait_for_our_address(&server, "two").await;
    assert_served(&other, "two.test").await;
}
