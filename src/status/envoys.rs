//! How far Envoys are, for who waits for them: those of this replica, and those of the others.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockgate_route::objects::{Kind, ObjectKey};
use tokio::time::{Instant, sleep};

use crate::inspection::Published;
use crate::replicas::{Here, Others, Reached, Wanted};
use crate::status::waiting::{Place, Waiting};

/// Objects that all Envoys have accepted in this revision, and the number of Envoys.
pub(super) type Accepted = Vec<(ObjectKey, Published, usize)>;

/// How far Envoys are.
pub(super) trait Envoys: Clone + Send + Sync + 'static {
    /// Waits until all Envoys, and there are some, have accepted the resources of at least one of `waiting`, which are of
    /// `kind`.
    fn accepted(&self, kind: Kind, waiting: Waiting) -> impl Future<Output = Accepted> + Send;
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
pub struct AllEnvoys {
    here: Here,
    others: Option<Others>,
    /// Since when which of the others cannot be asked.
    silent: Arc<Mutex<BTreeMap<SocketAddr, Instant>>>,
    /// The place up to which the objects of each kind had their turn: objects that are stuck do not delay the rest.
    turns: Arc<Mutex<BTreeMap<Kind, Place>>>,
}

impl AllEnvoys {
    /// The Envoys of this replica and, if there are any, those of others.
    pub fn new(here: Here, others: Option<Others>) -> Self {
        Self { here, others, silent: Arc::default(), turns: Arc::default() }
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

impl AllEnvoys {
    /// Those of `these` that all Envoys have accepted.
    async fn accepted_of(&self, kind: Kind, these: &[(ObjectKey, Published)]) -> Accepted {
        let wanted: Vec<Wanted> = these.iter().map(|(key, published)| Wanted::new(kind, key, published)).collect();
        // What Envoys of this replica lack need not be asked of others.
        let here = self.here.reached(&wanted);
        let candidates: Vec<usize> = (0..wanted.len()).filter(|at| here.is_level(*at)).collect();
        if candidates.is_empty() {
            return Accepted::new();
        }
        let question: Vec<Wanted> = candidates.iter().map(|at| wanted[*at].clone()).collect();
        let Some(reached) = self.everywhere(here.at(&candidates), &question).await else { return Accepted::new() };
        let by_all = candidates.iter().enumerate().filter(|(i, _)| reached.by_all(*i));
        by_all.map(|(i, at)| (these[*at].0.clone(), these[*at].1.clone(), reached.expected(i))).collect()
    }
}

impl Envoys for AllEnvoys {
    async fn accepted(&self, kind: Kind, waiting: Waiting) -> Accepted {
        let mut news = self.here.news();
        let mut seen = 0;
        loop {
            let place = self.turns.lock().unwrap_or_else(PoisonError::into_inner).get(&kind).cloned();
            let these = waiting.some(place.as_ref(), QUESTION);
            let accepted = self.accepted_of(kind, &these).await;
            if !accepted.is_empty() {
                return accepted;
            }
            if let Some((key, last)) = these.last() {
                let place = (last.since, key.clone());
                self.turns.lock().unwrap_or_else(PoisonError::into_inner).insert(kind, place);
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
