//! XBackendTrafficPolicies: retries that are limited by a budget, sessions of an Ingress, and changes under load.

use std::collections::BTreeSet;

use e2e::faulty::Behavior;
use e2e::load::Plan;
use e2e::{Load, wait_everywhere, wait_until};

use super::site::Site;

/// Writes the XBackendTrafficPolicy of the Service, and waits until Envoy has other routes.
async fn apply(site: &Site, spec: &str) {
    let before = site.envoy.routes().await;
    let policy = format!(
        "apiVersion: gateway.networking.x-k8s.io/v1alpha1\nkind: XBackendTrafficPolicy\nmetadata: {{ name: shop, \
         namespace: default }}\nspec:\n  targetRefs: [{{ group: '', kind: Service, name: shop }}]\n  {spec}\n"
    );
    site.manifests.write("traffic.yaml", &policy);
    wait_until("other routes", async || site.envoy.routes().await != before).await;
}

/// Returns the budget of the minimum `count` and this percentage.
fn budget(percent: u32, count: u32) -> String {
    format!("retryConstraint: {{ budget: {{ percent: {percent} }}, minRetryRate: {{ count: {count}, interval: 1s }} }}")
}

/// Returns the retries for each request of a load while the endpoint answers 503.
async fn retries(site: &Site) -> f64 {
    // The cluster of the policy before can be removed meanwhile, with its statistics.
    let counts = async || {
        let answers: u64 = site.envoy.stats(r"^http\..*downstream_rq_5xx$").await.values().sum();
        (answers as f64, site.backends[0].requests() as f64)
    };
    let load = Load::start(Plan::new(site.target(), "/")).await;
    site.backends[0].set(Behavior::Failing);
    load.failures(200).await;
    let before = counts().await;
    load.failures(2200).await;
    let after = counts().await;
    load.stop().await;
    site.backends[0].set(Behavior::Serving);
    let (answers, requests) = (after.0 - before.0, after.1 - before.1);
    requests / answers - 1.0
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_limits_the_retries_to_an_endpoint_that_fails() {
    let site = Site::open(1, "projectcontour.io/retry-on: 5xx, projectcontour.io/num-retries: '1'").await;
    apply(&site, &budget(100, 1000)).await;
    let generous = retries(&site).await;
    apply(&site, &budget(5, 1)).await;
    let strict = retries(&site).await;
    println!("retries for each request: {generous:.2} with a budget of 100 %, {strict:.2} with 5 %");
    assert!(generous > 0.9, "{generous}");
    assert!(strict < 0.5, "{strict}");
    assert!(site.stat("upstream_rq_retry_overflow").await > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_the_service_stays_at_an_endpoint() {
    let site = Site::open(4, "").await;
    apply(&site, "sessionPersistence: { type: Cookie, sessionName: cart }").await;
    wait_everywhere("a cookie", async || {
        site.target().get("/").await.is_ok_and(|answer| answer.header("set-cookie").starts_with("cart="))
    })
    .await;
    let mut endpoints = BTreeSet::new();
    for _ in 0..12 {
        let first = site.target().get("/").await.expect("an answer");
        let cookie = first.header("set-cookie");
        let with_cookie = site.target().field("cookie", cookie.split(';').next().expect("a value"));
        for _ in 0..8 {
            assert_eq!(with_cookie.backend("/").await.as_deref(), Some(first.header("x-backend")));
        }
        endpoints.insert(first.header("x-backend").to_owned());
    }
    assert!(endpoints.len() > 1, "{endpoints:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_policy_drops_no_request() {
    let site = Site::open(3, "projectcontour.io/retry-on: ''").await;
    let load = site.load().await;
    load.answers(100).await;
    let specs = [
        budget(20, 10),
        budget(0, 1),
        "sessionPersistence: { sessionName: cart }".to_owned(),
        format!("{}\n  sessionPersistence: {{ type: Header, sessionName: x-cart }}", budget(50, 3)),
        budget(50, 3),
    ];
    for spec in &specs {
        apply(&site, spec).await;
        load.answers(200).await;
    }
    let before = site.envoy.routes().await;
    site.manifests.remove("traffic.yaml");
    wait_until("routes without a policy", async || site.envoy.routes().await != before).await;
    load.answers(200).await;
    let report = load.stop().await;
    println!("{} changes of a policy: {report}", specs.len() + 1);
    assert_eq!(report.failed(), 0, "{report}");
    assert!(site.envoy.warnings().is_empty(), "{:?}", site.envoy.warnings());
}
