//! Shares the last good content of Secrets with other replicas.
//!
//! The content includes private keys, so it is sent only over TLS, to clients with the certificate of a replica.
//! Replicas can read all Secrets anyway, and Envoys receive the same keys by SDS. No client therefore receives a key
//! that it may not have.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use axum::extract::State;
use axum::{Json, Router, routing::get};
use http::{Method, Request};
use lockgate_route::objects::Kept;
use tokio::sync::mpsc::WeakSender;
use tokio::time::Instant;

use super::{Connector, Here, OtherReplicas};
use crate::source::Event;
use crate::source::kept::LastGood;

/// The path of the question.
const PATH: &str = "/lockgate/v1/last-good";
/// The time for which a starting replica asks the other replicas, which may be starting, too.
pub const FIRST: Duration = Duration::from_secs(3);
/// The interval of repeated questions at the start.
const AGAIN: Duration = Duration::from_millis(200);
/// The interval of later questions.
const PERIOD: Duration = Duration::from_secs(30);
/// The maximum size of a sent answer, slightly below the limit of received answers.
const LARGEST: usize = 12 << 20;

/// Returns the route for other replicas. Mount it only where clients need a certificate.
pub(super) fn routes(here: Here) -> Router {
    Router::new().route(PATH, get(answer)).with_state(here)
}

async fn answer(State(here): State<Here>) -> Json<Vec<LastGood>> {
    Json(select(&here.kept(), LARGEST).into_iter().map(LastGood::new).collect())
}

/// Returns the content that fits into `room` bytes, with equal shares for all namespaces, smallest content first.
///
/// Content is added in the order of the bytes that its namespace has then used. Content that does not fit is left out, and smaller
/// content of other namespaces may still fit.
pub(super) fn select(kept: &[Kept], mut room: usize) -> Vec<&Kept> {
    let mut kept: Vec<&Kept> = kept.iter().collect();
    kept.sort_by_key(|kept| kept.size());
    let mut used: HashMap<&str, usize> = HashMap::new();
    let mut turns: Vec<(usize, &Kept)> = Vec::with_capacity(kept.len());
    for kept in kept {
        let used = used.entry(&kept.key.namespace).or_default();
        *used += kept.size();
        turns.push((*used, kept));
    }
    turns.sort_by_key(|(used, _)| *used);
    let fits = |kept: &&Kept| match room.checked_sub(kept.size()) {
        Some(rest) => {
            room = rest;
            true
        }
        None => false,
    };
    turns.into_iter().map(|(_, kept)| kept).filter(fits).collect()
}

/// Asks `others` for their last good content, and sends it to the loop: once at the start within [`FIRST`], even if it is empty,
/// and later periodically. Ends when the loop ends.
pub async fn follow(others: OtherReplicas, events: WeakSender<Event>) {
    let end = Instant::now() + FIRST;
    let mut first = true;
    loop {
        // Replicas that do not answer in time are ignored.
        let (kept, complete) = tokio::time::timeout(FIRST, ask(&others)).await.unwrap_or_default();
        if first && !complete && Instant::now() + AGAIN < end {
            tokio::time::sleep(AGAIN).await;
            continue;
        }
        if first || !kept.is_empty() {
            let Some(events) = events.upgrade() else { return };
            if events.send(Event::Kept(kept)).await.is_err() {
                return;
            }
        }
        first = false;
        tokio::time::sleep(PERIOD).await;
    }
}

/// Returns the content of the other replicas, and whether all of them answered.
async fn ask(others: &OtherReplicas) -> (Vec<Kept>, bool) {
    if !matches!(others.connector, Connector::Tls(_)) {
        return (Vec::new(), true);
    }
    let (mut kept, mut complete) = (Vec::new(), true);
    let request = || Request::builder().method(Method::GET).uri(PATH).body(bytes::Bytes::new());
    for (address, answer) in others.ask_all::<Vec<LastGood>>(request).await {
        let told = match answer {
            Ok(told) => told,
            Err(error) => {
                complete = false;
                tracing::debug!(%address, error, "another replica did not send its last good key pairs");
                continue;
            }
        };
        for told in told {
            match told.check(SystemTime::now()) {
                Ok(one) => kept.push(one),
                Err(error) => {
                    tracing::warn!(%address, error, "the last good content of another replica is unusable, and ignored")
                }
            }
        }
    }
    (kept, complete)
}
