//! How far Envoys are, for who waits for them: those of this replica, and those of the others.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockgate_route::objects::ObjectKey;
use tokio::time::{Instant, sleep};

use crate::inspection::Published;
use crate::replicas::{Here, Others, Reached, Wanted};
use crate::status::waiting::{Place, Waiting};

/// Ingresses that all Envoys have accepted in this generation, and how many Envoys that is.
pub(super) type Accepted = Vec<(ObjectKey, Published, usize)>;

/// How far Envoys are.
pub(super) trait Envoys: Clone + Send + Sync + 'static {
    /// Waits until all Envoys, and there are some, have accepted what serves one of `waiting` at least.
    fn accepted(&self, waiting: Waiting) -> impl Future<Output = Accepted> + Send;
}

/// Between two looks, if nothing has changed here.
const INTERVAL: Duration = Duration::from_secs(1);
/// Between two looks in any case.
const PAUSE: Duration = Duration::from_millis(100);
/// So many are looked at in one go, and asked for in one question to other replicas.
const QUESTION: usize = 500;
/// Between two goes of one look.
const BREATH: Duration = Duration::from_millis(10);
/// A replica that cannot be asked for so long has no Envoys that count.
const PATIENCE: Duration = Duration::from_secs(30);

/// All Envoys of an installation.
#[derive(Debug, Clone)]
pub struct Fleet {
    here: Here,
    others: Option<Others>,
    /// Since when which of the others cannot be asked.
    silent: Arc<Mutex<BTreeMap<SocketAddr, Instant>>>,
    /// Up to which place those that wait had their turn, or those that are stuck would hold up the rest.
    turn: Arc<Mutex<Option<Place>>>,
}

impl Fleet {
    /// The Envoys of this replica and, if there are any, those of others.
    pub fn new(here: Here, others: Option<Others>) -> Self {
        Self { here, others, silent: Arc::default(), turn: Arc::default() }
    }

    /// How far the Envoys of all replicas are with `wanted`; `None` if one of them does not say.
    async fn everywhere(&self, mut reached: Reached, wanted: &[Wanted]) -> Option<Reached> {
        let Some(others) = &self.others else { return Some(reached) };
        let answers = others.ask(wanted).await;
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        silent.retain(|address, _| answers.iter().any(|(asked, answer)| asked == address && answer.is_err()));
        let mut missing = false;
        for (address, answer) in answers {
            match answer {
                Ok(theirs) => reached = reached.and(&theirs),
                Err(error) => {
                    let since = silent.entry(address).or_insert_with(Instant::now);
                    missing |= since.elapsed() < PATIENCE;
                    tracing::debug!(%address, error, "another replica does not say what its Envoys have accepted");
                }
            }
        }
        (!missing).then_some(reached)
    }
}

impl Fleet {
    /// Those of `these` that all Envoys have accepted.
    async fn accepted_of(&self, these: &[(ObjectKey, Published)]) -> Accepted {
        let wanted: Vec<Wanted> = these.iter().map(|(key, published)| wanted(key, published)).collect();
        // What Envoys of this replica lack need not be asked of others.
        let here = self.here.reached(&wanted);
        let level = |at: &usize| here.accepted.get(*at) == Some(&here.envoys);
        let candidates: Vec<usize> = (0..wanted.len()).filter(level).collect();
        if candidates.is_empty() {
            return Accepted::new();
        }
        let question: Vec<Wanted> = candidates.iter().map(|at| wanted[*at].clone()).collect();
        let reached = Reached { envoys: here.envoys, accepted: vec![here.envoys; question.len()] };
        let Some(reached) = self.everywhere(reached, &question).await else { return Accepted::new() };
        let by_all = candidates.iter().enumerate().filter(|(i, _)| reached.by_all(*i));
        by_all.map(|(_, at)| (these[*at].0.clone(), these[*at].1.clone(), reached.envoys)).collect()
    }
}

impl Envoys for Fleet {
    async fn accepted(&self, waiting: Waiting) -> Accepted {
        let mut news = self.here.news();
        let mut seen = 0;
        loop {
            let place = self.turn.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let these = waiting.some(place.as_ref(), QUESTION);
            let accepted = self.accepted_of(&these).await;
            if !accepted.is_empty() {
                return accepted;
            }
            if let Some((key, last)) = these.last() {
                *self.turn.lock().unwrap_or_else(PoisonError::into_inner) = Some((last.since, key.clone()));
            }
            seen += these.len();
            if seen < waiting.len() {
                sleep(BREATH).await;
                continue;
            }
            seen = 0;
            sleep(PAUSE).await;
            tokio::select! {
                () = news.next() => {}
                () = sleep(INTERVAL) => {}
            }
        }
    }
}

fn wanted(key: &ObjectKey, published: &Published) -> Wanted {
    Wanted {
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        uid: published.uid.to_string(),
        generation: published.generation,
    }
}
