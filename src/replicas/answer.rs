//! Answers other replicas.

use std::time::Duration;

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};

use super::{Here, Reached, WantedObject, kept};

/// The path of the question.
pub(super) const PATH: &str = "/lockgate/v1/accepted";
/// The maximum delay of a response without changes.
pub(super) const HOLD: Duration = Duration::from_secs(5);

/// Returns the routes for other replicas. Mount them only where clients need a certificate. Private keys are sent only
/// `over_tls`.
pub fn routes(here: Here, over_tls: bool) -> Router {
    let routes = Router::new().route(PATH, post(answer)).with_state(here.clone());
    if over_tls { routes.merge(kept::routes(here)) } else { routes }
}

/// Answers when all Envoys of this replica have accepted at least one object, when there are no Envoys, or after
/// [`HOLD`].
async fn answer(State(here): State<Here>, Json(wanted): Json<Vec<WantedObject>>) -> Json<Reached> {
    let mut changes = here.changes();
    let hold = tokio::time::sleep(HOLD);
    tokio::pin!(hold);
    loop {
        let reached = here.reached(&wanted);
        let nobody = (0..wanted.len()).all(|at| reached.expected(at) == 0);
        if nobody || (0..wanted.len()).any(|at| reached.by_all(at)) {
            return Json(reached);
        }
        tokio::select! {
            () = changes.next() => {}
            () = &mut hold => return Json(reached),
        }
    }
}
