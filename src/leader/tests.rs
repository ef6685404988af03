#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

/// A term that is long enough for its work, even on a busy machine.
const TERM: Duration = Duration::from_millis(500);

#[tokio::test]
async fn a_term_ends_without_a_renewal() {
    let leader = Leader::until(None);
    assert!(!leader.leads());
    assert!(leader.set(Some(Instant::now() + TERM)));
    assert!(leader.leads());
    let renewed = Instant::now() + TERM;
    assert!(!leader.set(Some(renewed)), "a renewal does not change the leadership");
    leader.lost().await;
    assert!(Instant::now() >= renewed && !leader.leads());
}

#[tokio::test]
async fn work_ends_with_the_term() {
    let leader = Leader::until(None);
    assert_eq!(leader.while_leading(async { 1 }).await, None);
    let until = Instant::now() + TERM;
    leader.set(Some(until));
    assert_eq!(leader.while_leading(async { 1 }).await, Some(1));
    assert_eq!(leader.while_leading(std::future::pending::<()>()).await, None);
    assert!(Instant::now() >= until);
}

#[tokio::test]
async fn a_waiting_task_continues_when_this_replica_leads() {
    let leader = Leader::until(None);
    let waiting = tokio::spawn({
        let leader = leader.clone();
        async move { leader.leading().await }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    leader.set(Some(Instant::now() + 2 * TERM));
    waiting.await.unwrap();
    assert!(leader.leads());
    leader.set(None);
    assert!(!leader.leads());
}

#[tokio::test]
async fn a_single_replica_always_leads() {
    let leader = Leader::always();
    leader.leading().await;
    assert!(leader.leads());
    assert_eq!(leader.while_leading(async { 1 }).await, Some(1));
}
