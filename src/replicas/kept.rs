//! Tells other replicas the last good content of Secrets, and asks them for theirs.
//!
//! It has private keys, so it is told over TLS alone, to those who show the certificate of a replica. A replica can read all
//! Secrets anyway, and Envoys get the same keys by SDS: nobody learns a key who may not know it.

use std::time::{Duration, SystemTime};

use axum::extract::State;
use axum::{Json, Router, routing::get};
use http::{Method, Request};
use lockgate_route::objects::Kept;
use tokio::sync::mpsc::WeakSender;
use tokio::time::Instant;

use super::{Connector, Here, Others};
use crate::source::Event;
use crate::source::kept::LastGood;

/// Where the question is put.
const PATH: &str = "/lockgate/v1/last-good";
/// How long a replica that starts asks the others, who may start at the same time.
pub const FIRST: Duration = Duration::from_secs(3);
/// How long it waits before it asks again at the start.
const AGAIN: Duration = Duration::from_millis(200);
/// How often the others are asked later.
const PERIOD: Duration = Duration::from_secs(30);
/// The largest answer that is sent, and a little less than the largest that is read.
const LARGEST: usize = 12 << 20;

/// The route for other replicas, to be mounted where only those with a certificate get in.
pub(super) fn routes(here: Here) -> Router {
    Router::new().route(PATH, get(answer)).with_state(here)
}

async fn answer(State(here): State<Here>) -> Json<Vec<LastGood>> {
    let mut room = LARGEST;
    let fits = |told: &LastGood| match room.checked_sub(told.size()) {
        Some(rest) => {
            room = rest;
            true
        }
        None => false,
    };
    Json(here.kept().iter().map(LastGood::new).take_while(fits).collect())
}

/// Asks `others` for their last good content and sends it to the loop: once at the start, within [`FIRST`], whether there is
/// some or not, and from time to time later. Ends when nobody takes it.
pub async fn follow(others: Others, events: WeakSender<Event>) {
    let end = Instant::now() + FIRST;
    let mut first = true;
    loop {
        // Whoever does not answer in time has not told anything.
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

/// Returns what the others tell, and whether all of them could be asked.
async fn ask(others: &Others) -> (Vec<Kept>, bool) {
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
                tracing::debug!(%address, error, "another replica does not tell its last good key pairs");
                continue;
            }
        };
        for told in told {
            match told.check(SystemTime::now()) {
                Ok(one) => kept.push(one),
                Err(error) => tracing::warn!(%address, error, "the last good content of another replica is not used"),
            }
        }
    }
    (kept, complete)
}
