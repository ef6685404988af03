//! Envoys that return to the controller while clusters are warming.

use std::time::Duration;

use e2e::load::{Plan, Report};
use e2e::wait::wait_at_most;
use e2e::{Fetch, Load, wait_until};

use super::world::World;

/// A cluster is renamed while the controller is down, and another one is warming when Envoy comes back.
async fn a_rename_before_a_reconnect_while_warming(fetch: Fetch, warm_up: Duration) -> Report {
    let world = World::new(fetch).await;
    let mut lockgate = world.controller().await;
    let envoy = world.envoy(&lockgate).await;
    let load = Load::start(Plan::new(world.target(), "/")).await;
    world.publish("a", &[world.cluster("a"), world.slow("w", warm_up)]);
    wait_until("a warming cluster", async || envoy.stat("cluster_manager.warming_clusters").await == 1).await;
    lockgate.kill();
    load.answers(100).await;
    world.publish("d", &[world.cluster("d"), world.slow("w", warm_up)]);
    lockgate.restart();
    lockgate.wait_ready().await;
    wait_at_most(
        Duration::from_secs(60),
        Duration::from_millis(100),
        "a route to d, and no warming cluster",
        async || {
            let routes = envoy.get("/config_dump?resource=dynamic_route_configs").await.text();
            (routes.contains("\"d\"") && envoy.stat("cluster_manager.warming_clusters").await == 0).then_some(())
        },
    )
    .await;
    load.answers(500).await;
    let report = load.stop().await;
    println!("a rename before a reconnect while a cluster warms for {warm_up:?}, {fetch:?}: {report}");
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn o29_a_rename_before_a_reconnect_in_a_short_warm_up_delta() {
    let report = a_rename_before_a_reconnect_while_warming(Fetch::AdsDelta, Duration::from_secs(3)).await;
    assert_eq!(report.failed(), 0, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn o29_a_rename_before_a_reconnect_in_a_long_warm_up_delta() {
    let report = a_rename_before_a_reconnect_while_warming(Fetch::AdsDelta, Duration::from_secs(27)).await;
    assert_eq!(report.failed(), 0, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn o29_a_rename_before_a_reconnect_in_a_short_warm_up_sotw() {
    let report = a_rename_before_a_reconnect_while_warming(Fetch::AdsSotw, Duration::from_secs(3)).await;
    assert_eq!(report.failed(), 0, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn o29_a_rename_before_a_reconnect_in_a_long_warm_up_sotw() {
    let report = a_rename_before_a_reconnect_while_warming(Fetch::AdsSotw, Duration::from_secs(27)).await;
    assert_eq!(report.failed(), 0, "{report}");
}
