//! The acceptance of objects by all Envoys, of this replica and of the other replicas.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, OptionFuture};
use lockgate_route::objects::{Kind, ObjectKey};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::channel::changed;
use crate::inspection::Published;
use crate::replicas::{Here, OtherReplicas, Reached, WantedObject};
use crate::status::waiting::{Position, Waiting};

/// The objects whose publication all Envoys have accepted, with the number of Envoys.
pub(super) type Accepted = Vec<(ObjectKey, Published, usize)>;

/// The acceptance of objects by Envoys.
pub(super) trait Envoys: Clone + Send + Sync + 'static {
    /// Waits until all Envoys have accepted at least one object of this kind in `waiting`, which can change in the meantime.
    /// Without Envoys, no object is accepted.
    fn accepted(&self, kind: Kind, waiting: watch::Receiver<Waiting>) -> impl Future<Output = Accepted> + Send;
}

/// The polling interval without a change at this replica.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The minimum time between two polls.
const MIN_INTERVAL: Duration = Duration::from_millis(100);
/// The maximum number of objects in one request to the other replicas.
const BATCH: usize = 500;
/// The pause between the batches of one poll.
const BATCH_PAUSE: Duration = Duration::from_millis(10);
/// A replica that is unreachable for this time is ignored.
const UNREACHABLE_TIMEOUT: Duration = Duration::from_secs(30);

/// All Envoys of an installation.
#[derive(Debug, Clone)]
pub struct AllEnvoys {
    here: Here,
    others: Option<OtherReplicas>,
    /// The other replicas that are unreachable, and since when.
    unreachable: Arc<Mutex<BTreeMap<SocketAddr, Instant>>>,
    /// The last object of each kind that was polled. Objects that are never accepted do not delay the others.
    positions: Arc<Mutex<BTreeMap<Kind, Position>>>,
}

impl AllEnvoys {
    /// Combines the Envoys of this replica and of `others`.
    pub fn new(here: Here, others: Option<OtherReplicas>) -> Self {
        Self { here, others, unreachable: Arc::default(), positions: Arc::default() }
    }

    /// Adds the progress of the Envoys at all other replicas. Returns `None` if a replica does not answer.
    async fn at_all_replicas(&self, mut reached: Reached, wanted: &[WantedObject]) -> Option<Reached> {
        let Some(others) = &self.others else { return Some(reached) };
        let answers = others.ask(wanted).await;
        let mut unreachable = self.unreachable.lock().unwrap_or_else(PoisonError::into_inner);
        unreachable.retain(|address, _| answers.iter().any(|(asked, answer)| asked == address && answer.is_err()));
        let mut missing = false;
        for (address, answer) in answers {
            match answer {
                Ok(theirs) => reached = reached.and(&theirs),
                Err(error) => {
                    let since = unreachable.entry(address).or_insert_with(Instant::now);
                    missing |= since.elapsed() < UNREACHABLE_TIMEOUT;
                    tracing::debug!(%address, error, "another replica did not report what its Envoys have accepted");
                }
            }
        }
        (!missing).then_some(reached)
    }
}

impl AllEnvoys {
    /// Returns the objects that all Envoys have accepted.
    async fn accepted_of(&self, kind: Kind, batch: Vec<(ObjectKey, Published)>) -> Accepted {
        let wanted: Vec<WantedObject> =
            batch.iter().map(|(key, published)| WantedObject::new(kind, key, published)).collect();
        // This replica asks the others only about objects that all its own Envoys have accepted.
        let here = self.here.reached(&wanted);
        let candidates: Vec<usize> = (0..wanted.len()).filter(|at| here.is_level(*at)).collect();
        if candidates.is_empty() {
            return Accepted::new();
        }
        let question: Vec<WantedObject> = candidates.iter().map(|at| wanted[*at].clone()).collect();
        let Some(reached) = self.at_all_replicas(here.at(&candidates), &question).await else { return Accepted::new() };
        let by_all = candidates.iter().enumerate().filter(|(i, _)| reached.by_all(*i));
        by_all.map(|(i, at)| (batch[*at].0.clone(), batch[*at].1.clone(), reached.expected(i))).collect()
    }
}

impl Envoys for AllEnvoys {
    async fn accepted(&self, kind: Kind, mut waiting: watch::Receiver<Waiting>) -> Accepted {
        let mut changes = self.here.changes();
        let mut seen = 0;
        let mut earlier = None::<BoxFuture<'_, Accepted>>;
        loop {
            let list = waiting.borrow_and_update().clone();
            if list.is_empty() {
                changed(&mut waiting).await;
                continue;
            }
            let position = self.positions.lock().unwrap_or_else(PoisonError::into_inner).get(&kind).cloned();
            let batch = list.batch(position.as_ref(), BATCH);
            let (count, last) = (batch.len(), batch.last().map(|(key, last)| (last.since, key.clone())));
            let mut poll = self.accepted_of(kind, batch).boxed();
            let accepted = loop {
                tokio::select! {
                    accepted = &mut poll => break Some(accepted),
                    Some(accepted) = OptionFuture::from(earlier.as_mut()) => {
                        earlier = None;
                        if !accepted.is_empty() {
                            return accepted;
                        }
                    }
                    // A new object does not wait until slow replicas have answered. One earlier poll goes on, because its end
                    // shows which replicas are unreachable.
                    () = changed(&mut waiting) => {
                        if earlier.is_none() {
                            earlier = Some(poll);
                        }
                        break None;
                    }
                }
            };
            let Some(accepted) = accepted else { continue };
            earlier = None;
            if !accepted.is_empty() {
                return accepted;
            }
            if let Some(position) = last {
                self.positions.lock().unwrap_or_else(PoisonError::into_inner).insert(kind, position);
            }
            seen += count;
            if seen < list.len() {
                sleep(BATCH_PAUSE).await;
                continue;
            }
            seen = 0;
            let pause = async {
                sleep(MIN_INTERVAL).await;
                tokio::select! {
                    () = changes.next() => {}
                    () = sleep(POLL_INTERVAL) => {}
                }
            };
            tokio::select! {
                () = pause => {}
                // A new object is polled at once.
                () = changed(&mut waiting) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio::net::TcpListener;

    use super::*;
    use crate::inspection::Inspection;
    use crate::replicas::Connector;

    /// New objects must not hide that a replica is unreachable, or no object would ever be accepted.
    #[tokio::test]
    async fn new_objects_do_not_cancel_every_poll() {
        let slow = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = slow.local_addr().unwrap();
        // It closes each connection after a second.
        tokio::spawn(async move {
            while let Ok((connection, _)) = slow.accept().await {
                tokio::spawn(async move {
                    sleep(Duration::from_secs(1)).await;
                    drop(connection);
                });
            }
        });
        let (_inspection, inspected) = watch::channel(Arc::new(Inspection { complete: true, ..Inspection::default() }));
        let others = OtherReplicas { address: address.to_string(), own: Vec::new(), connector: Connector::Plain };
        let all = AllEnvoys::new(Here::new(Arc::default(), BTreeMap::new, inspected), Some(others));
        let waiting = watch::Sender::new(Waiting::default());
        let (envoys, list) = (all.clone(), waiting.subscribe());
        let poll = tokio::spawn(async move { envoys.accepted(Kind::INGRESS, list).await });
        let start = Instant::now();
        let mut number = 0;
        while !all.unreachable.lock().unwrap().contains_key(&address) {
            assert!(start.elapsed() < Duration::from_secs(10), "the end of no poll was seen");
            number += 1;
            waiting.send_modify(|waiting| {
                let key = ObjectKey::new("shop", &format!("i{number}"));
                waiting.set(&key, Some(Published::example(1, number)));
            });
            sleep(Duration::from_millis(100)).await;
        }
        assert!(!poll.is_finished(), "there are no Envoys");
    }
}
