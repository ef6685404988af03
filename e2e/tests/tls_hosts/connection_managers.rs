//! Changes of the connection manager that the chains of TLS hosts reference.

use super::*;

const CHANGES: u32 = 10;

/// Returns the number of listener changes that kept unchanged chains.
async fn updates(site: &Site) -> u64 {
    site.envoy.stat("listener_manager.listener_in_place_updated").await
}

/// Waits until Envoy serves with a listener that is newer than its update number `before`.
async fn wait_updated(site: &Site, before: u64) {
    let is_served =
        async || updates(site).await > before && site.envoy.stat("listener_manager.total_listeners_warming").await == 0;
    wait_until("the changed listener", is_served).await;
}

/// Each change is another connection manager. The listener that waits for it, and the listener that it replaces, accept
/// connections meanwhile.
async fn changes_lose_no_request(mode: Mode) {
    let backend = Backend::start("a").await;
    let hosts = [("a.shop.test", "one"), ("b.shop.test", "other")];
    let mut site = Site::open(mode, service("shop", "", &[backend.address]), "", &hosts).await;
    for (host, _) in hosts {
        site.wait_served(host).await;
    }
    let plan =
        |host: &str| Plan { rate: 200, connections: 8, renew_after: Some(1), ..Plan::new(site.target(host), "/") };
    let loads = [Load::start(plan("a.shop.test")).await, Load::start(plan("b.shop.test")).await];
    for i in 1..=CHANGES {
        let before = updates(&site).await;
        // The file is read again by the running controller.
        site.config.write("lockgate.yaml", &format!("http: {{ maxConcurrentStreams: {} }}\n", 100 + i));
        wait_updated(&site, before).await;
        for load in &loads {
            load.answers(50).await;
        }
    }
    // The connection manager changes while the controller is away.
    let before = updates(&site).await;
    site.config.write("lockgate.yaml", "http: { maxConcurrentStreams: 200 }\n");
    site.lockgate.restart();
    wait_updated(&site, before).await;
    for load in &loads {
        load.answers(100).await;
    }
    for load in loads {
        let report = load.stop().await;
        println!("{CHANGES} changes of the connection manager and a restart, {mode:?}: {report}");
        assert_eq!(report.failed(), 0, "{report}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_lose_no_request_delta() {
    changes_lose_no_request(Mode::Delta).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_lose_no_request_sotw() {
    changes_lose_no_request(Mode::Sotw).await;
}
