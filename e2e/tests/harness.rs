//! The tests of the test tools. A load generator that misses failures would make all other tests pass.

use std::time::Duration;

use e2e::load::Plan;
use e2e::{ApiServer, Authority, Backend, Load, Target, manifests};

#[tokio::test(flavor = "multi_thread")]
async fn the_load_sees_no_failure_where_there_is_none() {
    let backend = Backend::start("a").await;
    let load = Load::start(Plan::new(Target::http(backend.port(), "shop.test"), "/")).await;
    load.answers(1000).await;
    let report = load.stop().await;
    println!("straight to a backend: {report}");
    assert_eq!(report.failed(), 0);
    assert_eq!(report.latencies.count() as u64, backend.requests());
    assert_eq!(report.connections, 20, "connections are kept");
    assert!(report.elapsed > Duration::from_millis(900), "1,000 requests take a second");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_load_counts_what_a_backend_that_ends_leaves_unanswered() {
    let backend = Backend::start("a").await;
    let load = Load::start(Plan::new(Target::http(backend.port(), "shop.test"), "/")).await;
    backend.stop().await;
    load.failures(100).await;
    let report = load.stop().await;
    println!("a backend that ends: {report}");
    assert!(report.failed() >= 100, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_takes_objects() {
    let server = ApiServer::start().await;
    let secret = Authority::new().issue(&["shop.test"]).secret("default", "cert");
    let yaml = [manifests::ingress_class(), manifests::ingress("shop", "shop.test", "cart", Some("cert")), secret];
    server.apply(&manifests::documents(&yaml)).await;
    let kinds = server.kubectl(&["get", "ingressclasses,ingresses,secrets", "-o", "name"], "").await;
    let kinds: Vec<&str> = kinds.lines().collect();
    assert_eq!(kinds, ["ingressclass.networking.k8s.io/lockgate", "ingress.networking.k8s.io/shop", "secret/cert"]);
}
