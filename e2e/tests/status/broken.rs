//! Objects that are broken, next to sound ones: these are served as before, byte for byte, and each of those says in an
//! Event which field is wrong and what was done instead.

use std::collections::BTreeMap;

use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::{ApiServer, Authority, Envoy, Lockgate, Mode, Target, wait_until};
use serde_json::Value;

use super::events::all_events;
use super::{redirect, start};

/// Object; reason; field; what is wrong, in part; what was done instead. The objects are in broken.yaml.
const CASES: &[(&str, &str, &str, &str, &str)] = &[
    (
        "missing-service",
        UNRESOLVED,
        "spec.rules[0].http.paths[0].backend.service.name",
        "does not exist",
        "answered 503",
    ),
    (
        "missing-port-name",
        UNRESOLVED,
        "spec.rules[0].http.paths[0].backend.service.port",
        "no port \"grpc\"",
        "answered 503",
    ),
    (
        "missing-port-number",
        UNRESOLVED,
        "spec.rules[0].http.paths[0].backend.service.port",
        "no port \"81\"",
        "answered 503",
    ),
    ("missing-default-backend", UNRESOLVED, "spec.defaultBackend.service.name", "does not exist", "answered 503"),
    (
        "resource-backend",
        UNSUPPORTED,
        "spec.rules[0].http.paths[0].backend.resource",
        "kind \"Bucket\"",
        "answered 503",
    ),
    ("udp-port", UNSUPPORTED, "spec.rules[0].http.paths[0].backend.service.port", "protocol \"UDP\"", "answered 503"),
    (
        "external-name",
        "ExternalNameNotAllowed",
        "spec.rules[0].http.paths[0].backend.service.name",
        "switched off",
        "answered 503",
    ),
    ("bad-regex", PATH, "spec.rules[0].http.paths[0].path", "unclosed character class", "path left out"),
    ("foreign-regex", PATH, "spec.rules[0].http.paths[0].path", "look-around", "path left out"),
    ("large-regex", PATH, "spec.rules[0].http.paths[0].path", "too large", "path left out"),
    ("path-with-query", PATH, "spec.rules[0].http.paths[0].path", "has \"?\"", "path left out"),
    ("path-with-fragment", PATH, "spec.rules[0].http.paths[0].path", "has \"#\"", "path left out"),
    ("newcomer", "Conflicted", "spec.rules[0].http.paths[0]", "of Ingress default/good", "path left out"),
    ("twice", "Conflicted", "spec.rules[0].http.paths[1]", "of this Ingress", "path left out"),
    ("second-default", "Conflicted", "spec.defaultBackend", "is that of Ingress default/good-default", "not used for"),
    ("missing-secret", SECRET, "spec.tls[0].secretName", "does not exist", "no TLS for \"missing-secret.test\""),
    ("secret-no-pem", SECRET, "spec.tls[0].secretName", "no PEM block", "no TLS for \"secret-no-pem.test\""),
    (
        "secret-half",
        SECRET,
        "spec.tls[0].secretName",
        "data[\"tls.key\"] is missing",
        "no TLS for \"secret-half.test\"",
    ),
    ("secret-mismatch", SECRET, "spec.tls[0].secretName", "does not match the certificate", "no TLS for"),
    ("secret-other-type", SECRET, "spec.tls[0].secretName", "neither of type", "no TLS for"),
    ("secret-unnamed", SECRET, "spec.tls[0].secretName", "no default certificate", "no TLS for"),
    ("uncovered-host", "Ambiguous", "spec.tls[0].secretName", "does not cover host", "presented all the same"),
    ("uncovered-rules", TLS, "spec.tls[0]", "covers no host of the rules", "left out"),
    (
        "tls-unknown-version",
        ANNOTATION,
        "projectcontour.io/tls-minimum-protocol-version",
        "\"1.9\" is neither",
        "left out",
    ),
    ("tls-versions", TLS, "projectcontour.io/tls-minimum-protocol-version", "above the highest", "are offered"),
    ("bad-timeout", ANNOTATION, "projectcontour.io/response-timeout", "\"soon\" is not a duration", "left out"),
    ("bad-retries", ANNOTATION, "projectcontour.io/num-retries", "\"many\" is not a number", "1 retry"),
    ("unknown-annotation", ANNOTATION, "lockgate.dev/nonsense", "is not known", "left out"),
    ("misplaced-annotation", ANNOTATION, "projectcontour.io/max-connections", "belongs on a Service", "left out"),
    ("bad-limit", ANNOTATION, "projectcontour.io/max-connections", "\"many\" is not a number", "left out"),
    (
        "bad-protocol",
        ANNOTATION,
        "projectcontour.io/upstream-protocol.h2c",
        "not a port of the Service",
        "entry left out",
    ),
    ("names", "EndpointNotValid", "addressType", "\"FQDN\" is not served", "EndpointSlice left out"),
    ("second", "MultipleDefaultClasses", "ingressclass.kubernetes.io/is-default-class", "is older", "every controller"),
];

const UNRESOLVED: &str = "ServiceUnresolvedReference";
const UNSUPPORTED: &str = "UnsupportedBackend";
const PATH: &str = "PathMatchConditionsNotValid";
const SECRET: &str = "SecretNotValid";
const TLS: &str = "TLSConfigNotValid";
const ANNOTATION: &str = "InvalidAnnotation";

/// What `find` finds in a JSON value, anywhere.
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

/// What the sound objects come to: virtual hosts, a filter chain, and whole resources by their version.
async fn sound(lockgate: &Lockgate) -> BTreeMap<String, String> {
    let is_one_of_ours = |name: &str| {
        ["default/good/http", "https/tls.test"].iter().any(|ours| name.ends_with(ours)) || name.contains("good-pair")
    };
    let mut sound: BTreeMap<String, String> =
        lockgate.resources().await.into_iter().filter(|(name, _)| is_one_of_ours(name)).collect();
    for (kind, name, list, host) in [
        ("RouteConfiguration", "http", "domains", "good.test"),
        ("RouteConfiguration", "http", "domains", "redirect.test"),
        ("Listener", "https", "name", "https/default/good-pair"),
    ] {
        let text = lockgate.get(&format!("/debug/resources?type={kind}&name={name}")).await.text();
        let json: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{kind} {name}: {error}: {text}"));
        let found = search(&json, &|value| match value.get(list) {
            Some(Value::Array(names)) => names.iter().any(|name| name == host),
            name => name.is_some_and(|name| name == host),
        });
        let found = found.unwrap_or_else(|| panic!("{kind} {name} has nothing for {host}: {text}"));
        sound.insert(format!("{kind} {host}"), found.to_string());
    }
    sound
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
    let before = sound(&lockgate).await;
    assert!(before.len() >= 6, "{before:?}");

    let other = Authority::new().issue(&["pair.test", "pair-2.test"]);
    let stranger = Authority::new().issue(&["pair.test"]);
    let certificate = other.secret("default", "half").replace("kubernetes.io/tls", "Opaque");
    let half = certificate.lines().filter(|line| !line.contains("tls.key")).collect::<Vec<_>>().join("\n");
    let of_stranger = stranger.secret("default", "mismatch");
    let key = of_stranger.lines().find(|line| line.contains("tls.key")).expect("a key");
    let mismatch = other.secret("default", "mismatch");
    let own_key = mismatch.lines().find(|line| line.contains("tls.key")).expect("a key");
    let mismatch = mismatch.replace(own_key, key);
    let broken =
        [include_str!("broken.yaml").to_owned(), other.secret("default", "pair"), format!("{half}\n"), mismatch];
    server.apply(&broken.join("\n---\n")).await;

    let mut missing = Vec::new();
    let time = wait_until("an Event on each broken object", async || {
        let events = all_events(&server).await;
        let is_told = |(object, reason, field, fault, consequence): &&(&str, &str, &str, &str, &str)| {
            events.get(*object).into_iter().flatten().any(|(why, kind, note, _)| {
                why == reason
                    && kind == "Warning"
                    && [field, fault, consequence].iter().all(|part| note.contains(**part))
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

    assert_eq!(sound(&lockgate).await, before, "what is sound has changed");
    let answer = Target::http(lockgate.http, "redirect.test").get("/").await.expect("an answer");
    assert_eq!(answer.status, 301);
    assert_eq!(lockgate.metric("lockgate_xds_nacks_total", &[]).await, 0.0);
    envoy.process().assert_running();
}
