//! A route moves between two Gateways.

use e2e::Mode;

use super::site::{Site, answers, assert_undisturbed, load, route, serves};

const MOVES: usize = 20;
const MOVED: &str = "moved.test";
const GATEWAYS: [&str; 2] = ["one", "two"];

/// The route is first attached to the new Gateway, and later detached from the old one. The clients move in between.
async fn moves(mode: Mode) {
    let site = Site::open(mode).await;
    let attach = |gateways: &[&str]| site.manifests.write("moved.yaml", &route("moved", gateways, MOVED, &[("b", 1)]));
    attach(&GATEWAYS[..1]);
    serves(&site.target(0, MOVED)).await;
    answers(&site.target(1, MOVED), 404).await;
    let others = [load(site.target(0, super::site::HOST)).await, load(site.target(1, super::site::HOST)).await];
    let mut clients = load(site.target(0, MOVED)).await;
    for i in 0..MOVES {
        let (from, to) = (i % 2, (i + 1) % 2);
        attach(&GATEWAYS);
        serves(&site.target(to, MOVED)).await;
        let following = load(site.target(to, MOVED)).await;
        clients.answers(20).await;
        assert_undisturbed("the clients of the old Gateway", clients).await;
        attach(&GATEWAYS[to..=to]);
        answers(&site.target(from, MOVED), 404).await;
        clients = following;
    }
    assert_undisturbed("the clients that followed", clients).await;
    // A move in one step: requests to the old Gateway are answered 404, and no other request fails.
    let clusters = site.envoy.stat("cluster_manager.cluster_removed").await;
    for i in 0..MOVES {
        let (from, to) = (i % 2, (i + 1) % 2);
        attach(&GATEWAYS[to..=to]);
        serves(&site.target(to, MOVED)).await;
        answers(&site.target(from, MOVED), 404).await;
    }
    assert_eq!(site.envoy.stat("cluster_manager.cluster_removed").await, clusters, "the cluster of the route stays");
    for (gateway, others) in GATEWAYS.into_iter().zip(others) {
        assert_undisturbed(&format!("{} moves, {mode:?}: another route of Gateway {gateway}", 2 * MOVES), others).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_moves_between_gateways_delta() {
    moves(Mode::Delta).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_moves_between_gateways_sotw() {
    moves(Mode::Sotw).await;
}
