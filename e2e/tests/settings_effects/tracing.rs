//! Tracing: the spans that a collector receives.

use e2e::{Collector, wait_until};

use super::{HOST, Site};

fn settings(collector: &Collector, more: &str) -> String {
    format!("tracing:\n  endpoint: {}\n  serviceName: edge\n{more}", collector.address)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_gets_spans_of_both_sides() {
    let collector = Collector::start().await;
    let tags = "  customTags: [{ name: team, literal: shopkeepers }, { name: agent, requestHeader: user-agent }]\n";
    let site = Site::with(&settings(&collector, tags)).await;
    let answer = site.plain().field("user-agent", "a tester").get("/cart").await.expect("an answer");
    assert!(answer.text().contains("traceparent: 00-"), "{}", answer.text());
    wait_until("a span at the collector", async || {
        collector.has(&["edge", "shopkeepers", "a tester", &format!("http://{HOST}/cart")])
    })
    .await;
    assert!(collector.has(&["ingress"]) || collector.has(&["egress"]) || collector.has(&["default/shop/http"]));
    assert!(site.envoy.stat("tracing.opentelemetry.spans_sent").await >= 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sampling_of_0_is_0() {
    let collector = Collector::start().await;
    let site = Site::with(&settings(&collector, "  sampling: { overall: 0 }\n")).await;
    for _ in 0..10 {
        site.plain().get("/").await.expect("an answer");
    }
    let stats = site.envoy.stats("^http.ingress_http.tracing").await;
    let traced = |name: &str| stats.get(&format!("http.ingress_http.tracing.{name}")).copied().unwrap_or_default();
    assert_eq!((traced("random_sampling"), traced("not_traceable")), (0, 10), "{stats:?}");
    assert!(collector.exports().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_costs_no_request() {
    let collector = Collector::start().await;
    let text = settings(&collector, "");
    drop(collector);
    let site = Site::with(&text).await;
    for _ in 0..50 {
        assert_eq!(site.plain().get("/").await.expect("an answer").status, 200);
    }
}
