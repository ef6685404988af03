//! A Gateway is deleted and created again.
//!
//! No request to another Gateway or to the listener for Ingresses fails, and none of their connections is closed. While the
//! Gateway is gone, its clients may be refused, find their connection closed, or be answered 404 over a connection that is being
//! drained. Once it exists again, no request of a new connection gets another answer than 200: its virtual hosts precede its
//! listener.

use e2e::{Mode, wait_for};

use super::site::{HOST, Listener, Site, assert_no_failure, assert_undisturbed, gateway, load, refuses, serves};

const DELETIONS: usize = 10;
/// The number of requests over new connections after the first answer.
const REQUESTS: usize = 50;

async fn deletions(discovery: &str, mode: Mode) {
    let site = Site::open_with(mode, discovery).await;
    let target = site.target(0, HOST);
    let others = [load(site.target(1, HOST)).await, load(site.ingress()).await];
    for _ in 0..DELETIONS {
        let clients = load(target.clone()).await;
        site.manifests.remove("one.yaml");
        refuses(&target).await;
        site.manifests.write("one.yaml", &gateway("one", &[Listener::http("http", site.ports[0])]));
        let status = async || target.get("/").await.ok().map(|answer| answer.status);
        let mut found = vec![wait_for("the first answer", status).await.0];
        for _ in 0..REQUESTS {
            found.extend(status().await);
        }
        assert!(found.iter().all(|status| *status == 200), "{found:?}");
        serves(&target).await;
        let later = load(target.clone()).await;
        clients.answers(100).await;
        let report = clients.stop().await;
        let is_expected = |what: &String| what.starts_with("no ") || what.starts_with("status 404");
        assert!(report.failures.keys().all(is_expected), "a wrong answer: {report}");
        assert_no_failure("the clients of the new Gateway", later).await;
    }
    // Drained connections are closed after two seconds.
    others[0].answers(1000).await;
    for (which, others) in ["another Gateway", "the Ingress"].into_iter().zip(others) {
        assert_undisturbed(&format!("{DELETIONS} deletions of a Gateway, {discovery}, {mode:?}: {which}"), others)
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_is_deleted_and_created_again_vhds_delta() {
    deletions("vhds", Mode::Delta).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_is_deleted_and_created_again_rds_delta() {
    deletions("rds", Mode::Delta).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_is_deleted_and_created_again_rds_sotw() {
    deletions("rds", Mode::Sotw).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_is_deleted_and_created_again_scopes_delta() {
    deletions("scopes", Mode::Delta).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_is_deleted_and_created_again_scopes_sotw() {
    deletions("scopes", Mode::Sotw).await;
}
