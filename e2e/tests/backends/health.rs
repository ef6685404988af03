//! Endpoints that answer errors, hang, and come back, and changes of policies: the requests of a constant load.

use std::time::{Duration, Instant};

use e2e::manifests::{documents, ingress, service};
use e2e::{Behavior, Faulty, Target, wait_until};

use super::site::{Site, policy};

/// The time limit of a request, so that a request to an endpoint that hangs fails, without retries.
const LIMITED: &str = "projectcontour.io/response-timeout: 300ms, projectcontour.io/retry-on: ''";

const DETECTION: &str = "outlierDetection: { consecutive5xx: 3, baseEjectionTime: 1h, maxEjectionTime: 1h }";

/// Returns the number of failed requests of a load while one of three endpoints misbehaves, until it is ejected.
async fn failures_until_ejection(behavior: Behavior) -> u64 {
    let site = Site::open(3, LIMITED).await;
    site.policy(DETECTION).await;
    let load = site.load().await;
    load.answers(100).await;
    site.backends[0].set(behavior);
    site.ejected(1).await;
    // Requests that were under way at the time of the ejection end.
    wait_until("the last request to the endpoint", async || {
        let before = site.backends[0].requests();
        load.answers(200).await;
        site.backends[0].requests() == before
    })
    .await;
    let at_ejection = site.backends[0].requests();
    load.answers(1000).await;
    assert_eq!(site.backends[0].requests(), at_ejection, "an ejected endpoint receives no requests");
    let report = load.stop().await;
    println!("one of three endpoints, {behavior:?}: {report}");
    report.failed()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_with_server_errors_is_ejected_after_some_requests() {
    let failed = failures_until_ejection(Behavior::Failing).await;
    assert!((3..=13).contains(&failed), "{failed} failures: three, and those under way on ten connections");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_hangs_is_ejected_after_some_requests() {
    let failed = failures_until_ejection(Behavior::Hanging).await;
    assert!((3..=13).contains(&failed), "{failed} failures: three, and those under way on ten connections");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_active_health_check_removes_an_endpoint_and_returns_it() {
    let site = Site::open(3, LIMITED).await;
    let start = Instant::now();
    site.policy(
        "healthCheck: { http: { path: /ready }, interval: 1s, timeout: 300ms, healthyThreshold: 1, unhealthyThreshold: 1 }",
    )
    .await;
    let healthy = async |count: u64| {
        wait_until("the number of healthy endpoints", async || site.stat("membership_healthy").await == count).await
    };
    // The old cluster without health checks has gone.
    wait_until("a single cluster", async || {
        site.envoy.stats("^cluster.default_shop_http.*membership_total$").await.len() == 1
    })
    .await;
    healthy(3).await;
    for behavior in [Behavior::Failing, Behavior::Hanging, Behavior::Gone] {
        site.backends[1].set(behavior);
        healthy(2).await;
        let (load, before) = (site.load().await, site.backends[1].requests());
        load.answers(400).await;
        assert_eq!(site.backends[1].requests(), before, "{behavior:?}: an unhealthy endpoint receives no requests");
        site.backends[1].set(Behavior::Serving);
        healthy(3).await;
        wait_until("requests to the endpoint", async || site.backends[1].requests() > before).await;
        let report = load.stop().await;
        println!("an endpoint that is {behavior:?} is removed and returned: {report}");
        assert_eq!(report.failed(), 0, "{report}");
    }
    let (seconds, probes) = (start.elapsed().as_secs_f64(), site.backends[0].probes());
    println!("health checks of one endpoint by one Envoy at an interval of 1 s: {probes} in {seconds:.1} s");
    assert!(probes as f64 <= seconds + 2.0, "{probes} checks in {seconds} s");
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_that_answer_no_check_delay_other_routes_briefly() {
    let site = Site::open(2, LIMITED).await;
    let other = Faulty::start("other").await;
    site.backends.iter().for_each(|backend| backend.set(Behavior::Hanging));
    let start = Instant::now();
    site.manifests.write("policy.yaml", &policy("healthCheck: { http: { path: /ready }, timeout: 3s }"));
    wait_until("a check", async || site.backends[0].probes() > 0).await;
    let objects = [service("other", "", &[other.address]), ingress("other", "other.test", "other", None)];
    site.manifests.write("other.yaml", &documents(&objects));
    let target = Target::http(site.lockgate.http, "other.test");
    wait_until("the other host", async || target.backend("/").await.is_some()).await;
    let time = start.elapsed();
    println!("a host of another Service, while the first check of a cluster takes 3 s: served after {time:.1?}");
    assert!(time < Duration::from_secs(8), "{time:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_policy_drops_no_request() {
    let site = Site::open(3, "projectcontour.io/retry-on: ''").await;
    let load = site.load().await;
    load.answers(100).await;
    let policies = [
        "healthCheck: { http: { path: /ready } }",
        "healthCheck: { tcp: {} }",
        "outlierDetection: {}",
        "loadBalancing: { algorithm: LeastRequest, slowStart: { window: 10s } }",
        "loadBalancing: { algorithm: Maglev, hashOn: [{ type: SourceAddress }] }",
        "zones: { prefer: Local }",
        "idleTimeout: 5s",
        "maxConnectionAge: 5s",
        "panicThreshold: 50",
    ];
    for policy in policies {
        site.policy(policy).await;
        load.answers(200).await;
    }
    let before = site.envoy.routes().await;
    site.manifests.remove("policy.yaml");
    wait_until("routes to the cluster without a policy", async || site.envoy.routes().await != before).await;
    load.answers(200).await;
    let report = load.stop().await;
    println!("{} changes of a policy: {report}", policies.len() + 1);
    assert_eq!(report.failed(), 0, "{report}");
    assert!(site.envoy.warnings().is_empty(), "{:?}", site.envoy.warnings());
}
