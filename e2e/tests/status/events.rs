//! Events report each problem of an object to its owner once.

use std::collections::BTreeMap;

use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::{ApiServer, Envoy, Mode, wait_until};
use serde_json::Value;

use super::{get, is_leader, redirect, start};

/// The reason, type, note, and count of an Event.
pub(super) type Told = (String, String, String, i64);

/// Returns the Events of an object, sorted.
async fn events(server: &ApiServer, object: &str) -> Vec<Told> {
    all_events(server).await.remove(object).unwrap_or_default()
}

/// Returns the Events of all objects, by name.
pub(super) async fn all_events(server: &ApiServer) -> BTreeMap<String, Vec<Told>> {
    let list = get(server, &["events.v1.events.k8s.io", "--all-namespaces"]).await;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut events = BTreeMap::<String, Vec<Told>>::new();
    for event in list["items"].as_array().into_iter().flatten() {
        // The API server creates Events of its own.
        if event["reportingController"] != "lockgate.dev/ingress-controller" {
            continue;
        }
        assert!(!text(&event["regarding"]["uid"]).is_empty(), "{event}");
        let count = event["series"]["count"].as_i64().unwrap_or(1);
        let told = (text(&event["reason"]), text(&event["type"]), text(&event["note"]), count);
        events.entry(text(&event["regarding"]["name"])).or_default().push(told);
    }
    events.values_mut().for_each(|events| events.sort());
    events
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_is_told_once_and_healed_once() {
    let server = ApiServer::start().await;
    let cart = ingress("cart", "cart.test", "cart", None);
    server.apply(&documents(&[ingress_class(), cart])).await;
    let mut lockgate = start(&server, &[]).await;
    let unresolved = |count| {
        let note =
            "spec.rules[0].http.paths[0].backend.service.name: Service \"default/cart\" does not exist; answered 503";
        ("ServiceUnresolvedReference".to_owned(), "Warning".to_owned(), note.to_owned(), count)
    };
    let until = async |what: &str, expected: Vec<(String, String, String, i64)>| {
        wait_until(what, async || events(&server, "cart").await == expected).await
    };
    until("the Event", vec![unresolved(1)]).await;

    // The output that a user sees.
    let described = server.kubectl(&["describe", "ingress", "cart"], "").await;
    println!("{described}");
    let line = described.lines().find(|line| line.contains("ServiceUnresolvedReference")).expect("the Event");
    assert!(line.contains("Warning") && line.contains("answered 503"), "{line}");

    // A new process does not repeat the Event.
    lockgate.kill();
    lockgate.restart();
    lockgate.wait_ready().await;
    wait_until("the new process to lead", async || is_leader(&lockgate).await).await;
    let conflicts = async || lockgate.metric("lockgate_status_writes_total", &["kind=\"Event\""]).await;
    wait_until("the Event to be tried", async || conflicts().await == 1.0).await;
    assert_eq!(events(&server, "cart").await, [unresolved(1)]);

    let healed = |count| {
        let note = format!("no longer ServiceUnresolvedReference: {}", unresolved(1).2);
        ("Healed".to_owned(), "Normal".to_owned(), note, count)
    };
    server.apply(&service("cart", "", &[])).await;
    until("the healing", vec![healed(1), unresolved(1)]).await;

    // The same problem again is counted.
    server.kubectl(&["delete", "service", "cart"], "").await;
    until("the second time", vec![healed(1), unresolved(2)]).await;
    server.apply(&service("cart", "", &[])).await;
    until("the second healing", vec![healed(2), unresolved(2)]).await;
    assert_eq!(lockgate.metric("lockgate_events_dropped_total", &[]).await, 0.0);

    // Objects that are applied in the wrong order, and complete a moment later, cause no Event.
    let quick = ingress("quick", "quick.test", "quick", None);
    server.apply(&documents(&[quick, service("quick", "", &[])])).await;
    server.apply(&ingress("late", "late.test", "none", None)).await;
    wait_until("an Event of a later object", async || !events(&server, "late").await.is_empty()).await;
    assert_eq!(events(&server, "quick").await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ingress_that_is_served_says_by_how_many_envoys() {
    let server = ApiServer::start().await;
    server.apply(&documents(&[ingress_class(), redirect("one", "one.test")])).await;
    let lockgate = start(&server, &["--status-address", "192.0.2.10"]).await;
    let _envoys = [Envoy::start(&lockgate, Mode::Delta).await, Envoy::start(&lockgate, Mode::Sotw).await];
    let programmed = async || events(&server, "one").await.into_iter().find(|(reason, ..)| reason == "Programmed");
    wait_until("the Event", async || programmed().await.is_some()).await;
    let (_, kind, note, count) = programmed().await.expect("the Event");
    println!("{note}");
    assert!(note.ends_with("Envoys; reachable at 192.0.2.10"), "{note}");
    assert_eq!((&*kind, count), ("Normal", 1));
}
