//! Broken objects beside valid ones. The valid objects are served unchanged, byte for byte. An Event of each broken
//! object names the field and the consequence.

pub mod cases;

use std::collections::BTreeMap;

use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::{ApiServer, Authority, Envoy, Lockgate, Mode, Target, wait_until};
use serde_json::Value;

use cases::CASES;

use super::events::all_events;
use super::{redirect, start};

/// Finds a value in JSON at any depth.
fn search<'a>(value: &'a Value, find: &impl Fn(&Value) -> bool) -> Option<&'a Value> {
    if find(value) {
        return Some(value);
    }
    match value {
        Value::Array(values) => values.iter().find_map(|value| search(value, find)),
        Value::Object(fields) => fields.values().find_map(|value| search(value, find)),
        _ => None,
    }
}

/// Returns the state of the valid objects: virtual hosts, a filter chain, and the versions of whole resources.
async fn valid_objects(lockgate: &Lockgate) -> BTreeMap<String, String> {
    let is_one_of_ours = |name: &str| {
        ["default/good/http", "https/tls.test"].iter().any(|ours| name.ends_with(ours)) || name.contains("good-pair")
    };
    let mut valid_objects: BTreeMap<String, String> =
        lockgate.resources().await.into_iter().filter(|(name, _)| is_one_of_ours(name)).collect();
    for host in ["good.test", "redirect.test"] {
        let found = lockgate.virtual_host(host).await.unwrap_or_else(|| panic!("no virtual host for {host}"));
        valid_objects.insert(format!("VirtualHost {host}"), found["routes"].to_string());
    }
    for (kind, name, list, host) in [("Listener", "https", "name", "https/default/good-pair")] {
        let text = lockgate.get(&format!("/debug/resources?type={kind}&name={name}")).await.text();
        let json: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{kind} {name}: {error}: {text}"));
        let found = search(&json, &|value| match value.get(list) {
            Some(Value::Array(names)) => names.iter().any(|name| name == host),
            name => name.is_some_and(|name| name == host),
        });
        let found = found.unwrap_or_else(|| panic!("{kind} {name} has nothing for {host}: {text}"));
        valid_objects.insert(format!("{kind} {host}"), found.to_string());
    }
    valid_objects
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_objects_cost_only_themselves_and_say_so() {
    let server = ApiServer::start().await;
    let pair = Authority::new().issue(&["tls.test"]);
    let default = ingress("good-default", "good-default.test", "good", None)
        .replace("  rules:", "  defaultBackend: { service: { name: good, port: { name: http } } }\n  rules:");
    let endpoint = "192.0.2.1:8080".parse().expect("an address");
    server
        .apply(&documents(&[
            ingress_class(),
            service("good", "", &[endpoint]),
            service("none", "", &[]),
            ingress("good", "good.test", "good", None),
            default,
            redirect("redirect", "redirect.test"),
            pair.secret("default", "good-pair"),
            ingress("tls", "tls.test", "good", Some("good-pair")),
        ]))
        .await;
    let lockgate = start(&server, &["--status-address", "192.0.2.10"]).await;
    let mut envoy = Envoy::start(&lockgate, Mode::Delta).await;
    let before = valid_objects(&lockgate).await;
    assert!(before.len() >= 6, "{before:?}");

    server.apply(&cases::yaml("default")).await;

    let mut missing = Vec::new();
    let time = wait_until("an Event on each broken object", async || {
        let events = all_events(&server).await;
        let is_told = |case: &&cases::Case| {
            events.get(case.0).into_iter().flatten().any(|(why, kind, note, _)| {
                (&**why, &**kind) == (case.1, "Warning") && cases::matches_case(note, case, "default")
            })
        };
        let left: Vec<_> = CASES.iter().filter(|case| !is_told(case)).map(|case| case.0).collect();
        if left != missing {
            println!("not told yet: {}", left.join(", "));
            missing = left;
        }
        missing.is_empty()
    })
    .await;
    println!("{} kinds of broken objects, each with its Event after {:.1} s", CASES.len(), time.as_secs_f64());
    let events = all_events(&server).await;
    for (object, ..) in CASES {
        for (reason, kind, note, count) in &events[*object] {
            println!("{object}: {kind} {reason}: {note}");
            assert_eq!(*count, 1, "{object}: {reason}");
        }
    }
    for object in ["good", "good-default", "redirect", "tls"] {
        assert!(events.get(object).into_iter().flatten().all(|(_, kind, ..)| kind == "Normal"), "{object}");
    }

    assert_eq!(valid_objects(&lockgate).await, before, "valid objects have changed");
    let answer = Target::http(lockgate.http, "redirect.test").get("/").await.expect("an answer");
    assert_eq!(answer.status, 308);
    assert_eq!(lockgate.metric("lockgate_xds_nacks_total", &[]).await, 0.0);
    envoy.process().assert_running();
}
