//! One of several endpoints fails under load: the share of failed requests. The scenario is that of the test
//! `backendfailover` of the public Gateway API benchmark: one of four endpoints alternates between serving and refusing
//! connections, and one client sends 200 requests per second to 256 paths, one after the other.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use e2e::{Behavior, turn};
use hyper::Method;
use tokio::time::MissedTickBehavior;

use super::site::Site;

/// The number of times that the endpoint fails, and the number of requests before and after each change. The benchmark
/// has 5 times and 22 s, which are 4,400 requests.
const CYCLES: u32 = 3;
const REQUESTS: u32 = 1000;

/// No retries, whatever the settings are.
const NO_RETRIES: &str = "projectcontour.io/retry-on: ''";

/// The outlier detection of the benchmark.
const DETECTION: &str = "outlierDetection: { consecutive5xx: 5, consecutiveGatewayErrors: 5, consecutiveLocalOriginFailures: 5, \
                         baseEjectionTime: 10s, maxEjectionPercent: 100 }";

/// The active health check of the benchmark.
const CHECK: &str = "healthCheck: { http: { path: /ready, expectedStatuses: ['200'] }, interval: 1s, timeout: 1s, \
                     healthyThreshold: 1, unhealthyThreshold: 1 }";

/// Returns the percentage of requests that were not answered 200, and prints it.
async fn failed_percent(what: &str, annotations: &str, policy: Option<&str>) -> f64 {
    let _turn = turn().await;
    let site = Site::open(4, annotations).await;
    if let Some(policy) = policy {
        site.policy(policy).await;
    }
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut connection = site.target().connect().await.expect("a connection");
    let (mut sent, mut failures) = (0u32, BTreeMap::<String, u32>::new());
    for _ in 0..CYCLES {
        for behavior in [Behavior::Serving, Behavior::Gone] {
            site.backends[3].set(behavior);
            for _ in 0..REQUESTS {
                ticks.tick().await;
                sent += 1;
                // Envoy closes a connection after some requests.
                if !connection.usable().await {
                    connection = site.target().connect().await.expect("a connection");
                }
                let answer = connection.send(Method::GET, &format!("/{}", sent % 256), Bytes::new()).await;
                let answer = answer.expect("an answer on a usable connection");
                if answer.status == 200 {
                    continue;
                }
                let failure = format!("status {}: {}", answer.status, answer.text());
                *failures.entry(failure).or_default() += 1;
            }
        }
    }
    let failed: u32 = failures.values().sum();
    let percent = 100.0 * f64::from(failed) / f64::from(sent);
    println!(
        "one of four endpoints refuses connections, {what}: {failed} of {sent} requests failed, {percent:.3} % {failures:?}"
    );
    percent
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_policy_a_share_of_the_requests_fails() {
    // A quarter of the requests, for half of the time.
    assert!(failed_percent("without a policy", NO_RETRIES, None).await > 5.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn outlier_detection_limits_the_failures() {
    // 5 requests until the ejection, and 5 for each time that the endpoint returns too early.
    assert!(failed_percent("outlier detection", NO_RETRIES, Some(DETECTION)).await < 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn outlier_detection_after_one_failure_with_retries_hides_the_failures() {
    let first = DETECTION.replace("consecutiveLocalOriginFailures: 5", "consecutiveLocalOriginFailures: 1");
    let retries = "projectcontour.io/retry-on: 'connect-failure,refused-stream,reset'";
    assert!(failed_percent("outlier detection and retries", retries, Some(&first)).await <= 0.02);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_active_health_check_limits_the_failures_to_an_interval() {
    // A second of requests to the endpoint, 50 of them.
    assert!(failed_percent("an active health check", NO_RETRIES, Some(CHECK)).await < 3.0);
}
