//! Regular expressions of a tenant keep a worker of Envoy busy, and delay all other requests.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use e2e::Target;
use e2e::attacks::regexes::{accepted, long_path, rejected};
use e2e::manifests::service;

use super::site::{HOST, Site};

/// The attacker's host.
const ATTACKER: &str = "attacker.test";

/// Formats an Ingress for `host` with these paths of type `ImplementationSpecific`.
fn ingress(name: &str, host: &str, annotations: &str, paths: &[String]) -> String {
    let mut text = format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{ name: {name}, namespace: default, annotations: {{ \
         {annotations} }} }}\nspec:\n  rules:\n    - host: '{host}'\n      http:\n        paths:\n"
    );
    for path in paths {
        let _ = writeln!(
            text,
            "          - {{ path: '{path}', pathType: ImplementationSpecific, backend: {{ service: {{ name: {name}, port: {{ \
             name: http }} }} }} }}"
        );
    }
    text
}

/// Returns the duration of a request for the attacker's host.
async fn time(site: &Site, host: &str, path: &str) -> Duration {
    let mut connection = Target::http(site.lockgate.http, host).connect().await.expect("a connection");
    let start = Instant::now();
    connection.send(hyper::Method::GET, path, bytes::Bytes::new()).await.expect("an answer");
    start.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn regexes_that_would_block_a_worker_are_rejected_and_told() {
    let bad = rejected();
    let objects = [ingress("attacker", ATTACKER, "", &bad), service("attacker", "", &[])];
    let site = Site::with_objects("", &objects).await;
    // The log contains the first problems of an object, and counts the others.
    for i in [0, 9] {
        let field = format!("spec.rules[0].http.paths[{i}].path");
        let line = site.lockgate.logged(&["RegexTooExpensive", &field, bad[i].as_str()]).await;
        assert!(line.contains("would take Envoy too long") && line.contains("path left out"), "{line}");
    }
    site.lockgate.logged(&["RegexTooExpensive", "30 more problems", "name=attacker"]).await;
    let mut took = Vec::new();
    for seed in 0..5 {
        took.push(time(&site, ATTACKER, &long_path(b"ab", seed)).await);
    }
    let least = took.iter().min().expect("a time");
    println!("50 regular expressions that were rejected, a path of 60 KB: {took:?}");
    assert!(*least < Duration::from_millis(200), "{took:?}");
    let victim = Target::http(site.lockgate.http, HOST).get("/").await.expect("an answer");
    assert_eq!(victim.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_worst_that_a_tenant_can_still_do_takes_milliseconds() {
    let bad = accepted();
    let redirect = "ingress.kubernetes.io/force-ssl-redirect: 'true'";
    let many: Vec<String> = (0..2_000).map(|i| format!("/aaaaaaaaaaaaaaaaaaaa/{i}")).collect();
    let objects = [
        ingress("attacker", ATTACKER, "", &bad),
        ingress("redirected", "redirected.test", redirect, &bad),
        ingress("wild", "*.wild.test", "", &many),
        service("attacker", "", &[]),
        service("redirected", "", &[]),
        service("wild", "", &[]),
    ];
    let site = Site::with_objects("", &objects).await;
    assert!(!site.lockgate.log().contains("RegexTooExpensive"), "all are within the limits");
    let wild = format!("{}.wild.test", "a".repeat(50_000));
    let with_port = "redirected.test:8080".to_owned();
    for (what, host) in [("32 regular expressions", ATTACKER), ("the same as redirects, with a port", &with_port)] {
        let mut cold = Duration::ZERO;
        let mut warm = Vec::new();
        for seed in 0..12 {
            // Envoy builds the automata with the first request, and after every change of the host.
            let took = time(&site, host, &long_path(b"ab01", seed)).await;
            if seed == 0 { cold = took } else { warm.push(took) }
        }
        warm.sort();
        println!("{what}, a path of 60 KB: first {cold:?}, then {:?} to {:?}", warm[0], warm[warm.len() - 1]);
        assert!(warm[0] < Duration::from_millis(50), "{what}: {warm:?}");
    }
    let plain = time(&site, HOST, &long_path(b"ab01", 1)).await;
    let mut wildcard = Vec::new();
    for _ in 0..8 {
        wildcard.push(time(&site, &wild, "/").await);
    }
    let least = wildcard.iter().min().expect("a time");
    println!(
        "no regular expression, the same path: {plain:?}; 2,000 paths below a wildcard, a host of 50 KB: {wildcard:?}"
    );
    assert!(*least < Duration::from_millis(50), "{wildcard:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_has_a_budget_which_others_do_not_use_up() {
    let of = |name: &str, count: usize| -> Vec<String> { (0..count).map(|i| format!("/{name}/{i}/[0-9]+")).collect() };
    let first = ingress("first", HOST, "", &of("first", 20));
    let second = ingress("second", HOST, "", &of("second", 20));
    let aged = |text: String, time: &str| {
        text.replace("namespace: default", &format!("namespace: default, creationTimestamp: '{time}'"))
    };
    let objects = [
        aged(first, "2020-01-01T00:00:00Z"),
        aged(second, "2021-01-01T00:00:00Z"),
        service("first", "", &[]),
        service("second", "", &[]),
    ];
    let site = Site::with_objects("", &objects).await;
    // At most 32 are served: the last eight of the newer Ingress are omitted.
    site.lockgate.logged(&["RegexTooExpensive", "paths[12].path", "/second/12/", "32 regular expressions"]).await;
    let status = async |path: &str| Target::http(site.lockgate.http, HOST).get(path).await.expect("an answer").status;
    assert_eq!(
        [status("/first/19/7").await, status("/second/11/7").await],
        [503, 503],
        "their Services have no endpoints"
    );
    assert_eq!(status("/second/12/7").await, 200, "left to the path of the shop");
}
