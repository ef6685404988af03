//! Broken objects beside valid ones, applied by kubectl to an installation of the chart.

use std::collections::BTreeMap;
use std::process::Command;

use e2e::lab::{Installation, Namespace, echo};
use e2e::manifests::{ingress, service};
use e2e::{Authority, Lab};
use serde_json::Value;

use crate::status::broken::cases::{self, CASES, Case};

/// The name of the release, of its namespace, and of its class, which is the default class.
const RELEASE: &str = "broken";
const FLAGS: &[&str] = &[
    "--set=ingressClass.name=broken",
    "--set=ingressClass.default=true",
    "--set=settings.ingress.controllerName=broken.test/lockgate",
    "--set=controller.replicas=1",
    "--set=envoy.replicas=1",
];

/// Returns a debug page of the controller, requested from its own pod.
async fn debug(lab: &Lab, lockgate: &Installation<'_>, path: &str) -> Value {
    let pod = &lockgate.controllers().await[0].name;
    let process = lab.process_of(&lockgate.namespace, pod, "lockgate").to_string();
    let mut command = Command::new("nsenter");
    command.args(["--net", "--target", &process, "curl", "--silent", "--show-error", "--fail"]);
    command.arg(format!("http://127.0.0.1:18001/debug/{path}"));
    let text = e2e::process::output(command, "").await.unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}: {text}"))
}

/// Finds the virtual host of a host name anywhere in a value.
fn virtual_host<'a>(value: &'a Value, host: &str) -> Option<&'a Value> {
    match value {
        Value::Object(fields) => {
            let domains = fields.get("domains").and_then(Value::as_array);
            match domains.is_some_and(|domains| domains.iter().any(|domain| domain == host)) {
                true => Some(value),
                false => fields.values().find_map(|value| virtual_host(value, host)),
            }
        }
        Value::Array(values) => values.iter().find_map(|value| virtual_host(value, host)),
        _ => None,
    }
}

/// Returns the state of the valid objects: the versions of clusters, endpoints, and key pairs, and the routes of their
/// hosts.
async fn valid_objects(lab: &Lab, lockgate: &Installation<'_>, space: &Namespace<'_>) -> BTreeMap<String, String> {
    let mut valid_objects = BTreeMap::new();
    let (cluster, pair) = (format!("{}/good/http", space.name), format!("{}/good-pair", space.name));
    let of_sound = ["good", "good-default", "tls"].map(|name| format!("Ingress/{}/{name}", space.name));
    let types = debug(lab, lockgate, "resources").await;
    for kind in types["types"].as_object().into_iter().flat_map(serde_json::Map::keys) {
        let list = debug(lab, lockgate, &format!("resources?type={kind}")).await;
        for resource in list.as_array().into_iter().flatten() {
            let name = resource["name"].as_str().unwrap_or_default();
            if name == cluster || name.contains(&pair) {
                valid_objects.insert(format!("{kind} {name}"), resource["version"].to_string());
            }
            if ["RouteConfiguration", "ScopedRouteConfiguration"].contains(&&**kind) {
                let whole = debug(lab, lockgate, &format!("resources?type={kind}&name={name}")).await;
                for host in ["good.test", "good-default.test", "tls.test"] {
                    let found = virtual_host(&whole, host).and_then(|found| found["routes"].as_array());
                    // The valid parts of broken objects are in the same list.
                    let theirs = |route: &&Value| of_sound.iter().any(|name| route["name"] == **name);
                    let routes: Vec<&Value> = found.into_iter().flatten().filter(theirs).collect();
                    if !routes.is_empty() {
                        let listener = name.split('/').next().unwrap_or_default();
                        valid_objects.insert(format!("{listener} {host}"), format!("{routes:?}"));
                    }
                }
            }
        }
    }
    valid_objects
}

/// Returns the reason, type, note, and count of the Events of this installation in a namespace, by object.
async fn events(lab: &Lab, namespace: &str) -> BTreeMap<String, Vec<(String, String, String, i64)>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut events = BTreeMap::<String, Vec<_>>::new();
    for event in lab.list(&format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events")).await {
        if event["reportingController"] == "broken.test/lockgate" {
            let count = event["series"]["count"].as_i64().unwrap_or(1);
            let told = (text(&event["reason"]), text(&event["type"]), text(&event["note"]), count);
            events.entry(text(&event["regarding"]["name"])).or_default().push(told);
        }
    }
    events
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_objects_cost_only_themselves_and_say_so() {
    let lab = Lab::alone().await;
    let lockgate = Installation::new(&lab, RELEASE, RELEASE, FLAGS).await;
    let space = lab.namespace("broken").await;
    let here = |yaml: String| yaml.replace("namespace: default", &format!("namespace: {}", space.name));
    let authority = Authority::new();
    let default = ingress("good-default", "good-default.test", "good", None)
        .replace("  rules:", "  defaultBackend: { service: { name: good, port: { name: http } } }\n  rules:");
    space.apply(&echo("good").yaml()).await;
    space.endpoints("good", 1).await;
    let sound_objects = [
        service("none", "", &[]),
        ingress("good", "good.test", "good", None),
        default,
        authority.issue(&["tls.test"]).secret("default", "good-pair"),
        ingress("tls", "tls.test", "good", Some("good-pair")),
    ];
    space.apply(&here(sound_objects.join("---\n"))).await;
    let served = async || {
        let targets = [
            lockgate.http("good.test"),
            lockgate.http("good-default.test"),
            lockgate.https("tls.test", authority.der()),
        ];
        for target in targets {
            target.get("/").await.ok().filter(|answer| answer.status == 200)?;
        }
        Some(())
    };
    lab.until("the sound ones to be served", served).await;
    for name in ["good", "good-default", "tls"] {
        space.ingress_address(name).await;
    }
    let before = valid_objects(&lab, &lockgate, &space).await;
    assert!(before.len() >= 6, "{before:#?}");

    let class = "controller: lockgate.dev/ingress-controller";
    space.apply(&here(cases::yaml("default")).replace(class, "controller: broken.test/lockgate")).await;
    let told = async || {
        let mut events = events(&lab, &space.name).await;
        // Events on cluster-scoped objects.
        events.extend(self::events(&lab, "default").await);
        events
    };
    let missing = async || -> Vec<&str> {
        let events = told().await;
        let is_told = |case: &&Case| {
            events.get(case.0).into_iter().flatten().any(|(why, kind, note, _)| {
                (&**why, &**kind) == (case.1, "Warning") && cases::matches_case(note, case, &space.name)
            })
        };
        CASES.iter().filter(|case| !is_told(case)).map(|case| case.0).collect()
    };
    let mut left = Vec::new();
    let all_told = async || {
        let now = missing().await;
        if now != left {
            println!("not told yet: {}", now.join(", "));
            left = now;
        }
        left.is_empty().then_some(())
    };
    let (_, time) = lab.until("an Event on each broken object", all_told).await;
    println!("{} kinds of broken objects, each with its Event after {:.1} s", CASES.len(), time.as_secs_f64());
    let told = told().await;
    for (object, ..) in CASES {
        assert!(told[*object].iter().all(|(.., count)| *count == 1), "{object}: {:?}", told[*object]);
    }
    for object in ["good", "good-default", "tls"] {
        assert!(told.get(object).into_iter().flatten().all(|(_, kind, ..)| kind == "Normal"), "{:?}", told[object]);
    }
    assert_eq!(valid_objects(&lab, &lockgate, &space).await, before, "valid objects have changed");
    lab.until("the sound ones to be served still", served).await;
    // The output that the owner of the object sees.
    let described = space.kubectl(&["describe", "ingress", "bad-timeout"], "").await;
    assert!(described.contains("InvalidAnnotation") && described.contains("\"soon\" is not a duration"), "{described}");
    lab.kubectl(&["delete", "ingressclass", "second"], "").await;
    lockgate.uninstall().await;
}
