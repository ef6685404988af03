//! Who wants to know of what: a publication wakes those whom it concerns, and nobody else.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures::task::AtomicWaker;
use tokio::sync::watch;

use super::{Changes, ResourceType, Snapshot, Store};

/// Everybody is woken once in so many publications, whether concerned or not: who sleeps keeps an old snapshot alive,
/// and with it all that has changed since.
const REFRESH: u64 = 64;

/// What a watch is for, of one type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Interest {
    /// Nothing.
    #[default]
    Nothing,
    /// Resources of these names, or with these aliases; sorted.
    Names(Vec<Arc<str>>),
    /// All resources of the type.
    All,
}

/// A watch on a store: it wakes when a resource changes that it is for. It does not keep the store.
#[derive(Debug)]
pub struct Watch {
    watchers: Arc<Watchers>,
    newest: watch::Receiver<Option<Arc<Snapshot>>>,
    id: u32,
    wake: Arc<Wake>,
    interests: BTreeMap<ResourceType, Interest>,
}

impl Watch {
    /// A watch on `store` that is for nothing yet.
    pub fn new(store: &Store) -> Self {
        let (watchers, wake) = (store.watchers.clone(), Arc::new(Wake::default()));
        let id = watchers.lock().add(wake.clone());
        Self { watchers, newest: store.subscribe(), id, wake, interests: BTreeMap::new() }
    }

    /// What it is for, of type `kind`. To be followed by a look at [`Watch::newest`]: of what was published before, it
    /// does not wake.
    pub fn set_interest(&mut self, kind: ResourceType, interest: Interest) {
        let old = self.interests.insert(kind, interest.clone()).unwrap_or_default();
        if old == interest {
            return;
        }
        let mut index = self.watchers.lock();
        index.remove(kind, &old, self.id);
        index.insert(kind, interest, self.id);
    }

    /// The newest snapshot of the store.
    pub fn newest(&self) -> Option<Arc<Snapshot>> {
        self.newest.borrow().clone()
    }

    /// Waits for a publication that concerns this watch, or that is a while after the last one that it was woken for.
    /// May be dropped and called again without missing one. Returns whether the store is still there.
    pub async fn changed(&self) -> bool {
        std::future::poll_fn(|cx| self.wake.poll(cx)).await;
        !self.watchers.closed.load(Ordering::Acquire)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut index = self.watchers.lock();
        for (kind, interest) in std::mem::take(&mut self.interests) {
            index.remove(kind, &interest, self.id);
        }
        index.wakes.remove(&self.id);
    }
}

/// What wakes one watch. A publication wakes hundreds, and each of them is looked at several times: a `Notify` takes a
/// lock each time.
#[derive(Debug, Default)]
struct Wake {
    woken: AtomicBool,
    waker: AtomicWaker,
}

impl Wake {
    fn wake(&self) {
        self.woken.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Whether it was woken since it was last asked.
    fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        // Before the look: who wakes in between wakes this waker.
        self.waker.register(cx.waker());
        let woken = self.woken.load(Ordering::Acquire) && self.woken.swap(false, Ordering::AcqRel);
        if woken { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// The watches on a store.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    closed: AtomicBool,
    index: Mutex<Index>,
}

impl Watchers {
    /// Wakes everybody: there is no store any more.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.lock().wakes.values().for_each(|wake| wake.wake());
    }

    /// Wakes those whom `changes` concern, which made the snapshot of this `serial`.
    pub fn wake(&self, changes: &Changes, serial: u64) {
        let index = self.lock();
        if serial.is_multiple_of(REFRESH) {
            index.wakes.values().for_each(|wake| wake.wake());
            return;
        }
        let mut concerned = BTreeSet::new();
        for resource in changes.added.iter().chain(&changes.changed).chain(&changes.removed) {
            let Some(kind) = index.kinds.get(&resource.kind()) else { continue };
            concerned.extend(&kind.all);
            for name in std::iter::once(resource.name()).chain(&resource.lease().aliases) {
                concerned.extend(kind.names.get(name).into_iter().flatten());
            }
        }
        concerned.iter().filter_map(|id| index.wakes.get(id)).for_each(|wake| wake.wake());
    }

    fn lock(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// From what changes to whom it concerns.
#[derive(Debug, Default)]
struct Index {
    next: u32,
    wakes: HashMap<u32, Arc<Wake>>,
    kinds: HashMap<ResourceType, Concerned>,
}

/// Whom a change of one type concerns.
#[derive(Debug, Default)]
struct Concerned {
    all: BTreeSet<u32>,
    /// Sorted.
    names: HashMap<Arc<str>, Vec<u32>>,
}

impl Index {
    fn add(&mut self, wake: Arc<Wake>) -> u32 {
        while self.wakes.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let id = self.next;
        self.next = id.wrapping_add(1);
        self.wakes.insert(id, wake);
        id
    }

    fn insert(&mut self, kind: ResourceType, interest: Interest, id: u32) {
        let concerned = self.kinds.entry(kind).or_default();
        match interest {
            Interest::Nothing => {}
            Interest::All => drop(concerned.all.insert(id)),
            Interest::Names(names) => {
                for name in names {
                    let ids = concerned.names.entry(name).or_default();
                    if let Err(at) = ids.binary_search(&id) {
                        ids.insert(at, id);
                    }
                }
            }
        }
    }

    fn remove(&mut self, kind: ResourceType, interest: &Interest, id: u32) {
        let Some(concerned) = self.kinds.get_mut(&kind) else { return };
        match interest {
            Interest::Nothing => {}
            Interest::All => drop(concerned.all.remove(&id)),
            Interest::Names(names) => {
                for name in names {
                    let Some(ids) = concerned.names.get_mut(name) else { continue };
                    if let Ok(at) = ids.binary_search(&id) {
                        ids.remove(at);
                    }
                    if ids.is_empty() {
                        concerned.names.remove(name);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::atomic::AtomicU32;
    use std::time::{Duration, Instant};

    use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
    use futures::FutureExt;

    use super::*;
    use crate::snapshot::{Resource, Update};

    const ENDPOINTS: ResourceType = ResourceType::ENDPOINTS;

    fn endpoints(name: &str, cluster_name: &str) -> Resource {
        Resource::new(name, &ClusterLoadAssignment { cluster_name: cluster_name.into(), ..Default::default() }, vec![])
    }

    fn set(store: &Store, name: &str, content: &str) {
        store.update(Update { set: vec![endpoints(name, content)], remove: Vec::new() });
    }

    /// Whether it was woken since it was last asked.
    fn woken(watch: &Watch) -> bool {
        watch.changed().now_or_never().is_some()
    }

    fn names(names: &[&str]) -> Interest {
        Interest::Names(names.iter().map(|name| Arc::from(*name)).collect())
    }

    #[test]
    fn a_change_wakes_those_whom_it_concerns() {
        let store = Arc::new(Store::default());
        let [mut one, mut all, other] = [0; 3].map(|_| Watch::new(&store));
        one.set_interest(ENDPOINTS, names(&["a", "b"]));
        all.set_interest(ENDPOINTS, Interest::All);
        set(&store, "a", "1");
        assert!(woken(&one) && woken(&all) && !woken(&other));
        set(&store, "c", "1");
        assert!(!woken(&one) && woken(&all) && !woken(&other));
        set(&store, "a", "1");
        assert!(!woken(&one) && !woken(&all), "nothing has changed");
        one.set_interest(ENDPOINTS, names(&["b", "c"]));
        set(&store, "a", "2");
        assert!(!woken(&one));
        store.update(Update::removing(vec![(ENDPOINTS, "c".into())]));
        assert!(woken(&one));
    }

    #[tokio::test]
    async fn who_is_woken_while_going_to_sleep_does_not_sleep() {
        const ROUNDS: u32 = 100_000;
        const LIMIT: Duration = Duration::from_secs(10);
        let wake = Arc::new(Wake::default());
        let asleep_soon = Arc::new(AtomicU32::new(0));
        let waking = std::thread::spawn({
            let (wake, asleep_soon) = (wake.clone(), asleep_soon.clone());
            move || {
                for round in 1..=ROUNDS {
                    while asleep_soon.load(Ordering::Acquire) < round {
                        std::hint::spin_loop();
                    }
                    wake.wake();
                }
            }
        });
        for round in 1..=ROUNDS {
            asleep_soon.store(round, Ordering::Release);
            // A little later each time, so that every moment has its turn.
            (0..round % 64).for_each(|_| std::hint::spin_loop());
            let (woken, since) = (std::future::poll_fn(|cx| wake.poll(cx)), Instant::now());
            // Whose time is over is asked once more, and would answer then.
            tokio::time::timeout(LIMIT, woken).await.unwrap();
            assert!(since.elapsed() < LIMIT, "slept through call {round}");
        }
        waking.join().unwrap();
    }

    #[test]
    fn nobody_sleeps_for_ever_and_nobody_is_remembered() {
        let store = Arc::new(Store::default());
        let mut watch = Watch::new(&store);
        watch.set_interest(ENDPOINTS, names(&["a"]));
        (0..=REFRESH).for_each(|round| set(&store, "b", &round.to_string()));
        assert!(woken(&watch));
        drop(watch);
        let last = Watch::new(&store);
        let watchers = store.watchers.clone();
        drop(store);
        assert_eq!(last.changed().now_or_never(), Some(false), "there is nothing to wait for");
        drop(last);
        let index = watchers.lock();
        assert!(index.wakes.is_empty() && index.kinds[&ENDPOINTS].names.is_empty());
    }
}
