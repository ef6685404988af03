//! Hot reload of settings while Envoy serves.

use bytes::Bytes;
use e2e::load::Plan;
use e2e::{Collector, Load, wait_until};
use hyper::Method;

use super::Site;

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_headers_disturbs_no_connection() {
    let site = Site::with("").await;
    let mut connection = site.plain().connect().await.expect("a connection");
    for value in ["one", "two", "three"] {
        site.config.write("lockgate.yaml", &format!("headers: {{ response: {{ set: {{ x-value: {value} }} }} }}\n"));
        wait_until("the new header", async || {
            assert!(connection.usable().await, "the connection was closed");
            let answer =
                connection.send(Method::GET, "/", Bytes::new()).await.expect("an answer on the old connection");
            answer.header("x-value") == value
        })
        .await;
    }
    assert_eq!(site.envoy.stat("listener_manager.listener_modified").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_listeners_cost_no_request() {
    let site = Site::with("").await;
    let collector = Collector::start().await;
    let load = Load::start(Plan { rate: 200, connections: 8, ..Plan::new(site.plain(), "/") }).await;
    load.answers(100).await;
    let changes = [
        "http: { serverHeader: pass_through }\n".to_owned(),
        "compression: { algorithms: [gzip] }\n".to_owned(),
        format!("tracing: {{ endpoint: '{}' }}\n", collector.address),
        "listeners: { connectionBalancer: exact }\n".to_owned(),
        String::new(),
    ];
    let changed = async |times: u64| {
        wait_until("a changed listener", async || {
            site.envoy.stat("listener_manager.listener_modified").await >= 2 * times
                && site.envoy.stat("listener_manager.total_listeners_warming").await == 0
        })
        .await;
    };
    for (i, change) in (1..).zip(&changes) {
        site.config.write("lockgate.yaml", change);
        changed(i).await;
        load.answers(200).await;
        if change.starts_with("tracing") {
            wait_until("spans at the collector", async || !collector.exports().is_empty()).await;
        }
    }
    let report = load.stop().await;
    println!("{} changes of listeners: {report}", changes.len());
    assert_eq!(report.failed(), 0, "{report}");
    // Other socket options create a new socket, and the kernel resets connections that wait at the old one. The test
    // therefore runs without load.
    site.config.write("lockgate.yaml", "listeners: { socketOptions: { tos: 64, trafficClass: 64 } }\n");
    changed(changes.len() as u64 + 1).await;
    assert_eq!(site.plain().get("/").await.expect("an answer").status, 200);
    assert!(site.envoy.warnings().is_empty(), "{:?}", site.envoy.warnings());
}
