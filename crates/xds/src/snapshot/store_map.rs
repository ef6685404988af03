//! One store for each class of clients, created on demand.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Snapshot, Store};

/// The stores of all classes of clients. All clients of a class receive the same resources.
///
/// A class is a key that the program derives from a client in the function for [`Stores`](crate::server::Stores).
/// Examples are a group of nodes, or a group and the form of the resources. The first client of a class creates its
/// store, and waits until the program publishes there.
///
/// ```
/// use std::sync::Arc;
/// use lockgate_xds::server::Stores;
/// use lockgate_xds::snapshot::StoreMap;
///
/// let fleets = Arc::new(StoreMap::new([], || println!("a fleet has its first client")));
/// let stores = fleets.clone();
/// let stores = Stores::by_node(move |node| match node.cluster.as_str() {
///     fleet @ ("edge" | "internal") => Some(stores.get_or_create(fleet.to_owned())),
///     _ => None, // refused: NotFound
/// });
/// for fleet in fleets.classes() {
///     // Build the resources of the fleet, and publish them in `fleets.get(&fleet)`.
/// }
/// ```
pub struct StoreMap<C> {
    stores: Mutex<BTreeMap<C, Arc<Store>>>,
    created: Box<dyn Fn() + Send + Sync>,
}

impl<C: Ord + Clone> StoreMap<C> {
    /// Returns the stores of `classes`. `created` is called after [`StoreMap::get_or_create`] has created a store.
    pub fn new(classes: impl IntoIterator<Item = C>, created: impl Fn() + Send + Sync + 'static) -> Self {
        let stores = classes.into_iter().map(|class| (class, Arc::default())).collect();
        Self { stores: Mutex::new(stores), created: Box::new(created) }
    }

    /// Returns the store of `class`, if it exists.
    pub fn get<Q: Ord + ?Sized>(&self, class: &Q) -> Option<Arc<Store>>
    where
        C: Borrow<Q>,
    {
        self.lock().get(class).cloned()
    }

    /// Returns the store of `class`, which is created if necessary.
    ///
    /// The store exists until it is [removed](StoreMap::remove). Do not use names that untrusted clients choose, because they
    /// could create any number of stores.
    pub fn get_or_create(&self, class: C) -> Arc<Store> {
        let mut is_new = false;
        let create = || {
            is_new = true;
            Arc::default()
        };
        let store = self.lock().entry(class).or_insert_with(create).clone();
        if is_new {
            (self.created)();
        }
        store
    }

    /// Returns the newest snapshot of `class`.
    pub fn newest(&self, class: &C) -> Option<Arc<Snapshot>> {
        self.get(class)?.newest()
    }

    /// Returns all classes with a store, sorted.
    pub fn classes(&self) -> Vec<C> {
        self.lock().keys().cloned().collect()
    }

    /// Removes the store of `class`. The streams of its clients end.
    pub fn remove<Q: Ord + ?Sized>(&self, class: &Q)
    where
        C: Borrow<Q>,
    {
        self.lock().remove(class);
    }

    /// Locks the map. The lock is never held during a publication, so new streams do not wait for one.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<C, Arc<Store>>> {
        self.stores.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Ord + Clone> Default for StoreMap<C> {
    fn default() -> Self {
        Self::new([], || ())
    }
}

impl<C: Ord + Clone + fmt::Debug> fmt::Debug for StoreMap<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreMap").field("classes", &self.classes()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn the_first_client_of_a_class_creates_its_store() {
        let created = Arc::new(AtomicUsize::new(0));
        let count = created.clone();
        let stores = StoreMap::new(["eu".to_owned()], move || _ = count.fetch_add(1, Ordering::Relaxed));
        let eu = stores.get("eu").unwrap();
        assert!(Arc::ptr_eq(&stores.get_or_create("eu".to_owned()), &eu));
        assert_eq!((stores.get("us").is_none(), created.load(Ordering::Relaxed)), (true, 0));
        let us = stores.get_or_create("us".to_owned());
        assert!(Arc::ptr_eq(&stores.get_or_create("us".to_owned()), &us));
        assert_eq!((stores.classes(), created.load(Ordering::Relaxed)), (vec!["eu".to_owned(), "us".to_owned()], 1));
        let stream = us.subscribe();
        drop(us);
        stores.remove("us");
        assert!(stream.has_changed().is_err(), "its streams end");
        assert!(stores.get("us").is_none());
    }
}
