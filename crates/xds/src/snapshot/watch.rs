//! Watches of a store. A publication wakes only the watches that it affects.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

use super::watchers::{Interest, Watchers};
use super::{Bell, ResourceType, Snapshot, Store};

/// A watch of a store, which wakes when a resource that it covers changes. It does not keep the store alive.
#[derive(Debug)]
pub struct Watch {
    watchers: Arc<Watchers>,
    newest: watch::Receiver<Option<Arc<Snapshot>>>,
    id: u32,
    bell: Arc<Bell>,
    interests: BTreeMap<ResourceType, Interest>,
}

impl Watch {
    /// Returns a watch of `store` that covers no resources.
    pub fn new(store: &Store) -> Self {
        let (watchers, bell) = (store.watchers.clone(), Arc::new(Bell::default()));
        let id = watchers.lock().add(bell.clone());
        let mut newest = store.subscribe();
        newest.mark_changed();
        Self { watchers, newest, id, bell, interests: BTreeMap::new() }
    }

    /// Sets the covered resources of type `kind`. Call [`Watch::news`] afterwards, because earlier publications do not wake
    /// the watch.
    pub fn set_interest(&mut self, kind: ResourceType, interest: Interest) {
        let old = self.interests.insert(kind, interest.clone()).unwrap_or_default();
        if old == interest {
            return;
        }
        let mut index = self.watchers.lock();
        index.remove(kind, &old, self.id);
        index.insert(kind, interest, self.id);
    }

    /// Returns the newest snapshot of the store if it has changed since the last call. No change takes no lock.
    pub fn news(&mut self) -> Option<Arc<Snapshot>> {
        // If the store no longer exists, its last snapshot counts.
        if matches!(self.newest.has_changed(), Ok(false)) { None } else { self.newest.borrow_and_update().clone() }
    }

    /// Waits for a publication that affects this watch, or that follows its last wakeup after many others. Cancel-safe.
    /// Returns whether the store still exists.
    pub async fn changed(&self) -> bool {
        std::future::poll_fn(|cx| self.bell.poll(cx)).await;
        !self.watchers.is_closed()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut index = self.watchers.lock();
        for (kind, interest) in std::mem::take(&mut self.interests) {
            index.remove(kind, &interest, self.id);
        }
        index.bells.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
    use futures::FutureExt;

    use super::*;
    use crate::snapshot::watchers::REFRESH;
    use crate::snapshot::{Changes, Resource, Update};

    const ENDPOINTS: ResourceType = ResourceType::ENDPOINTS;

    fn endpoints(name: &str, cluster_name: &str) -> Resource {
        Resource::new(name, &ClusterLoadAssignment { cluster_name: cluster_name.into(), ..Default::default() }, vec![])
    }

    fn set(store: &Store, name: &str, content: &str) {
        store.update(Update { set: vec![endpoints(name, content)], remove: Vec::new() });
    }

    /// Returns whether the watch was woken since the last call.
    fn woken(watch: &Watch) -> bool {
        watch.changed().now_or_never().is_some()
    }

    fn names(names: &[&str]) -> Interest {
        Interest::Names(names.iter().map(|name| Arc::from(*name)).collect())
    }

    #[test]
    fn a_change_wakes_the_affected_watches() {
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

    #[test]
    fn affected_watches_are_found_once_for_many_changes() {
        const CHANGES: usize = 2_000;
        const WATCHES: usize = 100;
        let store = Arc::new(Store::default());
        let every: Vec<String> = (0..CHANGES).map(|i| format!("c{i:05}")).collect();
        let every: Vec<&str> = every.iter().map(String::as_str).collect();
        let mut watches: Vec<Watch> = (0..=WATCHES).map(|_| Watch::new(&store)).collect();
        for (i, watch) in watches[1..].iter_mut().enumerate() {
            watch.set_interest(ENDPOINTS, if i % 2 == 0 { Interest::All } else { names(&every) });
        }
        let added = every.iter().map(|name| Arc::new(endpoints(name, "1"))).collect();
        let changes = Changes { added, ..Changes::default() };
        let (concerned, entries) = store.watchers.lock().concerned(&changes);
        assert_eq!(concerned, watches[1..].iter().map(|watch| watch.id).collect());
        assert_eq!(entries, WATCHES, "each watch is added once, not once for each change");
    }

    #[test]
    fn news_is_returned_once() {
        let store = Arc::new(Store::default());
        set(&store, "a", "1");
        let mut watch = Watch::new(&store);
        let mut news = || watch.news().map(|snapshot| snapshot.serial());
        let serial = || store.newest().map(|snapshot| snapshot.serial());
        assert_eq!((news(), news()), (serial(), None));
        set(&store, "a", "2");
        set(&store, "b", "1");
        assert_eq!((news(), news()), (serial(), None));
        let last = serial();
        drop(store);
        assert_eq!(news(), last, "of a store that is gone, the last");
    }

    #[test]
    fn every_watch_wakes_and_none_is_leaked() {
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
        assert!(index.bells.is_empty() && index.kinds[&ENDPOINTS].names.is_empty());
    }
}
