#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

/// Long enough for the work within a term, even on a busy machine.
const TERM: Duration = Duration::from_millis(500);

#[tokio::test]
async fn a_term_ends_by_itself_when_nobody_renews_it() {
    let leader = Leader::until(None);
    assert!(!leader.leads());
    assert!(leader.set(Some(Instant::now() + TERM)));
    assert!(leader.leads());
    let renewed = Instant::now() + TERM;
    assert!(!leader.set(Some(renewed)), "a renewal is no change");
    leader.lost().await;
    assert!(Instant::now() >= renewed && !leader.leads());
}

#[tokio::test]
async fn work_ends_with_the_term_and_not_after_it() {
    let leader = Leader::until(None);
    assert_eq!(leader.while_leading(async { 1 }).await, None);
    let until = Instant::now() + TERM;
    leader.set(Some(until));
    assert_eq!(leader.while_leading(async { 1 }).await, Some(1));
    assert_eq!(leader.while_leading(std::future::pending::<()>()).await, None);
    assert!(Instant::now() >= until);
}

#[tokio::test]
async fn who_waits_is_told_when_this_replica_leads() {
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
async fn the_only_replica_leads() {
    let leader = Leader::always();
    leader.leading().await;
    assert!(leader.leads());
    assert_eq!(leader.while_leading(async { 1 }).await, Some(1));
}
