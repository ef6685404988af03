//! Leader election between two replicas, during failures.

use std::time::{Duration, Instant};

use e2e::{ApiServer, Lockgate, wait_until};

use super::{get, is_leader, start};

/// The duration of the Lease, and the retry period of the other replica.
const LEASE: Duration = Duration::from_secs(15);
const RETRY: Duration = Duration::from_secs(2);
/// Additional time for a busy machine.
const SLACK: Duration = Duration::from_secs(3);

/// Waits until this replica leads. Both must never lead at the same time.
async fn until_leads(next: &Lockgate, other: &Lockgate) -> Duration {
    wait_until("the other replica to lead", async || {
        let (next, other) = (is_leader(next).await, is_leader(other).await);
        assert!(!(next && other), "both lead");
        next
    })
    .await
}

async fn holder(server: &ApiServer) -> (String, i64) {
    let lease = get(server, &["lease", "lockgate"]).await;
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
    (holder, lease["spec"]["leaseTransitions"].as_i64().unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn another_replica_leads_after_a_crash_a_clean_stop_and_an_api_server_that_was_away() {
    let mut server = ApiServer::start().await;
    let mut one = start(&server, &[]).await;
    wait_until("the first replica to lead", async || is_leader(&one).await).await;
    let mut two = start(&server, &[]).await;
    two.logged(&["another replica leads"]).await;
    assert!(!is_leader(&two).await);
    let (first, transitions) = holder(&server).await;

    one.kill();
    let time = until_leads(&two, &one).await;
    println!("kill -9 of the leader: another leads after {:.1} s", time.as_secs_f64());
    assert!(time < LEASE + RETRY + SLACK, "{time:?}");
    let (second, then) = holder(&server).await;
    assert!(second != first && then == transitions + 1, "{second} after {first}, {then} transitions");

    one.restart();
    one.wait_ready().await;
    one.logged(&["another replica leads", &second]).await;
    let stop = Instant::now();
    let status = two.terminate().await;
    assert!(status.success(), "{status}");
    two.logged(&["released the Lease"]).await;
    until_leads(&one, &two).await;
    let time = stop.elapsed();
    println!("SIGTERM of the leader: another leads after {:.1} s", time.as_secs_f64());
    assert!(time < RETRY + SLACK, "{time:?}");

    two.restart();
    two.wait_ready().await;
    server.kill();
    let time = wait_until("nobody to lead", async || !is_leader(&one).await && !is_leader(&two).await).await;
    println!("the API server is away: the leader steps down after {:.1} s", time.as_secs_f64());
    assert!(time < LEASE, "{time:?}");
    one.logged(&["no longer leads"]).await;
    server.restart();
    wait_until("one to lead again", async || is_leader(&one).await || is_leader(&two).await).await;
    one.process().assert_running();
    two.process().assert_running();
    let failures = one.log().matches("cannot write the Lease").count();
    assert_eq!(failures, 1, "said once, not at each try");
}
