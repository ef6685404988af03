//! How far Envoys are, for who waits for them: those of this replica, and those of the others.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::inspection::Published;
use crate::replicas::{Here, Others, Reached, Wanted};
use crate::source::objects::ObjectKey;

/// Ingresses that all Envoys have accepted in this generation, and how many Envoys that is.
pub(super) type Accepted = Vec<(ObjectKey, Published, usize)>;

/// How far Envoys are.
pub(super) trait Envoys: Clone + Send + Sync + 'static {
    /// Waits until all Envoys, and there are some, have accepted what serves one of `waiting` at least.
    fn accepted(&self, waiting: Vec<(ObjectKey, Published)>) -> impl Future<Output = Accepted> + Send;
}

/// Between two looks, if nothing has changed here.
const INTERVAL: Duration = Duration::from_secs(1);
/// Between two looks in any case.
const PAUSE: Duration = Duration::from_millis(100);
/// So many are asked for in one question to other replicas.
const QUESTION: usize = 500;
/// A replica that cannot be asked for so long has no Envoys that count.
const PATIENCE: Duration = Duration::from_secs(30);

/// All Envoys of an installation.
#[derive(Debug, Clone)]
pub struct Fleet {
    here: Here,
    others: Option<Others>,
    /// Since when which of the others cannot be asked.
    silent: Arc<Mutex<BTreeMap<SocketAddr, Instant>>>,
}

impl Fleet {
    /// The Envoys of this replica and, if there are any, those of others.
    pub fn new(here: Here, others: Option<Others>) -> Self {
        Self { here, others, silent: Arc::default() }
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

impl Envoys for Fleet {
    async fn accepted(&self, waiting: Vec<(ObjectKey, Published)>) -> Accepted {
        let wanted: Vec<Wanted> = waiting.iter().map(|(key, published)| wanted(key, published)).collect();
        let mut news = self.here.news();
        let mut from = 0;
        loop {
            // What Envoys of this replica lack need not be asked of others.
            let here = self.here.reached(&wanted);
            let level = |at: &usize| here.accepted.get(*at) == Some(&here.envoys);
            let mut candidates: Vec<usize> = (0..wanted.len()).filter(level).collect();
            if candidates.len() > QUESTION {
                // In turn, or those that are stuck would hold up the rest.
                let turn = from % candidates.len();
                candidates.rotate_left(turn);
                candidates.truncate(QUESTION);
                from = turn + QUESTION;
            }
            if !candidates.is_empty() {
                let question: Vec<Wanted> = candidates.iter().map(|at| wanted[*at].clone()).collect();
                let reached = Reached { envoys: here.envoys, accepted: vec![here.envoys; question.len()] };
                if let Some(reached) = self.everywhere(reached, &question).await {
                    let by_all = candidates.iter().enumerate().filter(|(i, _)| reached.by_all(*i));
                    let accepted: Accepted = by_all
                        .map(|(_, at)| (waiting[*at].0.clone(), waiting[*at].1.clone(), reached.envoys))
                        .collect();
                    if !accepted.is_empty() {
                        return accepted;
                    }
                }
            }
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
