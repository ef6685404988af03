//! Two objects of a tenant that would become millions of routes of Envoy, because wildcards have copies of the rules without a host;
//! and a certificate for many wildcards.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use e2e::manifests::service;
use e2e::{Authority, Target, wait_until};

use super::site::{HOST, Site};

const HEAD: &str = "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: { namespace: default, name: ";

/// Formats a path to the Service of the attacker, which has no endpoints.
fn path(text: &str) -> String {
    let backend = "{ service: { name: attacker, port: { name: http } } }";
    format!("          - {{ path: '{text}', pathType: Prefix, backend: {backend} }}\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_of_rules_take_a_limited_memory_of_envoy() {
    let mut rules = format!("{HEAD}wide }}\nspec:\n  rules:\n    - http:\n        paths:\n");
    (0..2_000).for_each(|at| rules += &path(&format!("/wide/{at}")));
    let mut wildcards = format!("{HEAD}wild }}\nspec:\n  rules:\n");
    for at in 0..1_000 {
        // Hosts with equal routes would share them.
        let _ = write!(
            wildcards,
            "    - host: '*.w{at}.test'\n      http:\n        paths:\n{}",
            path(&format!("/own/{at}"))
        );
    }
    let site = Site::with_objects("", &[rules, wildcards, service("attacker", "", &[])]).await;
    site.lockgate.logged(&["TooManyCopies", "name=wild", "tenants.maxConfigurationPerNamespace"]).await;
    let get = async |host: &str, path: &str| {
        Target::http(site.lockgate.http, host).get(path).await.expect("an answer").status
    };
    let memory = site.envoy.memory().await >> 20;
    println!("2,000 paths without a host for 1,000 wildcards: Envoy has {memory} MiB");
    assert!(memory < 400, "{memory} MiB");
    assert_eq!(get(HOST, "/").await, 200);
    assert_eq!((get("a.w0.test", "/own/0").await, get("a.w999.test", "/own/999").await), (503, 503), "no endpoints");
    assert_eq!((get("a.b.w0.test", "/none").await, get("a.b.w999.test", "/none").await), (404, 503), "closed");
    assert_eq!(get("a.w999.test", "/wide/1").await, 404, "the rules of a wildcard precede those without a host");
    // Each copied path has a regular expression for the host.
    let start = Instant::now();
    assert_eq!(get(&format!("{}.w0.test", "a".repeat(50_000)), "/none").await, 404);
    let took = start.elapsed();
    println!("a host of 50,000 bytes below a wildcard with 2,000 copied paths: {took:?}");
    assert!(took < Duration::from_millis(200), "{took:?}");
}

/// Clients of a wildcard without a chain would get the default certificate and the rules without a host.
#[tokio::test(flavor = "multi_thread")]
async fn a_wildcard_whose_key_pair_does_not_fit_is_closed() {
    let authority = Authority::new();
    let mut wildcards =
        format!("{HEAD}wild }}\nspec:\n  tls: [{{ hosts: ['*.w0.test', '*.w1.test'], secretName: wild }}]\n  rules:\n");
    for at in 0..2 {
        let _ = write!(wildcards, "    - host: '*.w{at}.test'\n      http:\n        paths:\n{}", path("/own"));
    }
    let rest = format!("{HEAD}rest }}\nspec:\n  rules:\n    - http:\n        paths:\n{}", path("/"));
    let pairs = ["wild", "rest"].map(|name| authority.issue(&["*.w0.test", "*.w1.test"]).secret("default", name));
    let settings = "tls: { defaultSecret: default/rest }\ntenants: { maxConfigurationPerNamespace: 12KiB }\n";
    let site =
        Site::with_objects(settings, &[&pairs[..], &[wildcards, rest, service("attacker", "", &[])]].concat()).await;
    site.lockgate.logged(&["TooManyWildcards", "name=wild", "\"*.w1.test\""]).await;
    let by_tls = async |host: &str| {
        Target::https(site.lockgate.https, host, authority.der()).get("/none").await.map(|answer| answer.status)
    };
    let in_clear_text =
        async |host: &str| Target::http(site.lockgate.http, host).get("/none").await.expect("an answer").status;
    wait_until("the first wildcard", async || by_tls("a.w0.test").await.is_ok_and(|status| status == 404)).await;
    assert!(by_tls("a.w1.test").await.is_err(), "the default certificate");
    assert_eq!((in_clear_text("a.w0.test").await, in_clear_text("a.w1.test").await), (404, 503));
}
