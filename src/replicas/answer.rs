//! Answers other replicas.

use std::time::Duration;

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};

use super::{Here, Reached, Wanted, kept};

/// Where the question is put.
pub(super) const PATH: &str = "/lockgate/v1/accepted";
/// A question is held so long, if nothing can be said before.
pub(super) const HOLD: Duration = Duration::from_secs(5);

/// The routes for other replicas, to be mounted where only those with a certificate get in. Private keys are told only
/// `over_tls`.
pub fn routes(here: Here, over_tls: bool) -> Router {
    let routes = Router::new().route(PATH, post(answer)).with_state(here.clone());
    if over_tls { routes.merge(kept::routes(here)) } else { routes }
}

/// Answers when all Envoys of this replica have accepted one object at least, when there are no Envoys, or when it has
/// lasted too long.
async fn answer(State(here): State<Here>, Json(wanted): Json<Vec<Wanted>>) -> Json<Reached> {
    let mut news = here.news();
    let hold = tokio::time::sleep(HOLD);
    tokio::pin!(hold);
    loop {
        let reached = here.reached(&wanted);
        if reached.envoys == 0 || (0..wanted.len()).any(|at| reached.by_all(at)) || wanted.is_empty() {
            return Json(reached);
        }
        tokio::select! {
            () = news.next() => {}
            () = &mut hold => return Json(reached),
        }
    }
}
