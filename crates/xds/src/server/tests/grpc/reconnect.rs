//! S29: clients that reconnect after changes.

use envoy_types::pb::envoy::service::discovery::v3::DiscoveryResponse;

use super::lab::*;
use crate::protocol::tests::harness::*;
use crate::snapshot::Update;

/// Returns the response to a client that reports `version`.
async fn comes_back(server: &Server, version: &str) -> DiscoveryResponse {
    let mut client = server.sotw().await;
    let mut request = ask(CLUSTER, &[]);
    request.version_info = version.into();
    request.node.as_mut().unwrap().user_agent_name = "envoy".into();
    client.send(request).await;
    client.next().await
}

/// Its routes may still use a cluster that was removed while it was disconnected.
#[tokio::test]
async fn s29_a_removed_cluster_stays_for_a_returning_client_that_had_it() {
    let server = Server::start([cluster("old"), endpoints("old"), routes("r", ["old"]), listener("l", "r")]).await;
    let had = comes_back(&server, "").await;
    let set = vec![cluster("new"), endpoints("new"), routes("r", ["new"])];
    server.store.update(Update { set, remove: vec![(CLUSTER, "old".into()), (ENDPOINTS, "old".into())] });
    assert_eq!(comes_back(&server, "").await.resources.len(), 1, "one that starts has no use for it");
    assert_eq!(comes_back(&server, "0123456789abcdef").await.resources.len(), 1, "who had something else too");
    let both = comes_back(&server, &had.version_info).await;
    assert_eq!(both.resources.len(), 2, "the new one, and the old one for the routes");
    assert_eq!(comes_back(&server, &both.version_info).await.resources.len(), 2, "and if it comes back once more");
}

/// Changes before the ACK of the first response are sent after the ACK.
#[tokio::test]
async fn s29_a_client_with_removed_clusters_learns_of_new_ones() {
    let server = Server::start([cluster("old"), endpoints("old"), routes("r", ["old"]), listener("l", "r")]).await;
    let had = comes_back(&server, "").await;
    let gone = vec![(CLUSTER, "old".into()), (ENDPOINTS, "old".into())];
    server.store.update(Update { set: vec![cluster("new"), routes("r", ["new"])], remove: gone });
    let mut client = server.sotw().await;
    let mut request = ask(CLUSTER, &[]);
    request.version_info = had.version_info;
    request.node.as_mut().unwrap().user_agent_name = "envoy".into();
    client.send(request).await;
    let both = client.next().await;
    assert_eq!(both.resources.len(), 2);
    server.store.update(Update { set: vec![cluster("newer")], remove: Vec::new() });
    client.ack(&both, &[]).await;
    assert_eq!(client.next().await.resources.len(), 3, "the newer one too");
}
