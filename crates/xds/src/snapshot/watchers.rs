//! The index of the watches of a store, by the resources that they cover.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Bell, Changes, ResourceType};

/// The number of publications after which every watch wakes. A watch that sleeps keeps an old snapshot in memory, with all
/// resources that have changed since.
pub(super) const REFRESH: u64 = 64;

/// The resources of one type that a watch covers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Interest {
    /// No resources.
    #[default]
    Nothing,
    /// Resources with these names or aliases, sorted.
    Names(Vec<Arc<str>>),
    /// All resources of the type.
    All,
}

/// The watches of a store.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    closed: AtomicBool,
    index: Mutex<Index>,
}

impl Watchers {
    /// Wakes all watches, because the store no longer exists.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.lock().bells.values().for_each(|bell| bell.ring());
    }

    /// Returns whether the store no longer exists.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Wakes the watches that `changes` affect. `serial` is the serial of the new snapshot.
    pub fn wake(&self, changes: &Changes, serial: u64) {
        let index = self.lock();
        if serial.is_multiple_of(REFRESH) {
            index.bells.values().for_each(|bell| bell.ring());
            return;
        }
        index.concerned(changes).0.iter().filter_map(|id| index.bells.get(id)).for_each(|bell| bell.ring());
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The index from resources to watches.
#[derive(Debug, Default)]
pub(super) struct Index {
    next: u32,
    pub(super) bells: HashMap<u32, Arc<Bell>>,
    pub(super) kinds: HashMap<ResourceType, Concerned>,
}

/// The watches that cover resources of one type.
#[derive(Debug, Default)]
pub(super) struct Concerned {
    all: BTreeSet<u32>,
    /// The watches of each name, sorted.
    pub(super) names: HashMap<Arc<str>, Vec<u32>>,
}

impl Index {
    pub(super) fn add(&mut self, bell: Arc<Bell>) -> u32 {
        while self.bells.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let id = self.next;
        self.next = id.wrapping_add(1);
        self.bells.insert(id, bell);
        id
    }

    /// Returns the watches that `changes` affect, and the number of index entries that were read.
    ///
    /// Watches of all resources of a type are added once. The watches of a name are added only if they differ from the
    /// watches of the previous name. Envoys of one fleet request the same names, so one list usually covers thousands
    /// of changes.
    pub(super) fn concerned(&self, changes: &Changes) -> (HashSet<u32>, usize) {
        let (mut concerned, mut added) = (HashSet::new(), 0);
        let mut kinds = HashSet::new();
        let mut last: &[u32] = &[];
        for resource in changes.added.iter().chain(&changes.changed).chain(&changes.removed) {
            let Some(kind) = self.kinds.get(&resource.kind()) else { continue };
            if kinds.insert(resource.kind()) {
                concerned.extend(&kind.all);
                added += kind.all.len();
            }
            for name in std::iter::once(resource.name()).chain(&resource.lease().aliases) {
                let Some(ids) = kind.names.get(name).filter(|ids| ***ids != *last) else { continue };
                concerned.extend(ids);
                added += ids.len();
                last = ids;
            }
            if concerned.len() == self.bells.len() {
                break;
            }
        }
        (concerned, added)
    }

    pub(super) fn insert(&mut self, kind: ResourceType, interest: Interest, id: u32) {
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

    pub(super) fn remove(&mut self, kind: ResourceType, interest: &Interest, id: u32) {
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
