//! The combined content of the files of a directory, and the effect of a change of one file. No I/O.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::source::Event;

/// The items of a directory: Kubernetes objects or Envoy resources.
pub trait DirectoryItem: Clone + Send + 'static {
    /// The identity of an item.
    type Key: Ord + Clone + Send;
    /// Returns the key.
    fn key(&self) -> Self::Key;
    /// Returns whether the items are equal.
    fn same(&self, other: &Self) -> bool;
    /// Describes the item for a log line.
    fn describe(key: &Self::Key) -> String;
    /// Parses the file `path`, relative to the directory.
    fn parse(path: &str, text: &str) -> Parsed<Self>;
    /// Returns the events of the first read, with all items.
    fn listed(all: Vec<Self>) -> Vec<Event>;
    /// Returns the events of a change.
    fn changed(applied: Vec<Self>, removed: Vec<Self::Key>) -> Vec<Event>;
}

/// The content of one file.
pub struct Parsed<C: DirectoryItem> {
    /// The items.
    pub items: Vec<C>,
    /// The items that cannot be read.
    pub faults: Vec<Unreadable<C::Key>>,
}

/// A part of a file that cannot be read. Its previous content stays.
pub struct Unreadable<K> {
    /// The place and the fault.
    pub message: String,
    /// The item. `None`: the item is unknown, so each previous item stays unless the file has a new version of it.
    pub key: Option<K>,
}

/// The effect of a change of one file.
pub struct Difference<C: DirectoryItem> {
    /// New or changed items.
    pub applied: Vec<C>,
    /// Removed items.
    pub removed: Vec<C::Key>,
    /// The files whose faults have changed, with all their faults. An empty list means that all are resolved.
    pub faults: Vec<(Arc<str>, Vec<String>)>,
}

/// All files. If several files contain an item, the first one in sorted order wins.
pub struct Tree<C: DirectoryItem> {
    files: BTreeMap<Arc<str>, File<C>>,
    holders: BTreeMap<C::Key, BTreeSet<Arc<str>>>,
    served: BTreeMap<C::Key, C>,
}

struct File<C: DirectoryItem> {
    items: BTreeMap<C::Key, C>,
    faults: Vec<String>,
    reported: Vec<String>,
}

impl<C: DirectoryItem> Default for Tree<C> {
    fn default() -> Self {
        Self { files: BTreeMap::new(), holders: BTreeMap::new(), served: BTreeMap::new() }
    }
}

impl<C: DirectoryItem> Tree<C> {
    /// Returns all served items.
    pub fn all(&self) -> Vec<C> {
        self.served.values().cloned().collect()
    }

    /// Returns the files that were read and not removed since.
    pub fn files(&self) -> impl Iterator<Item = &Arc<str>> {
        self.files.keys()
    }

    /// Replaces the content of the file `path` with `parsed`.
    pub fn set(&mut self, path: &Arc<str>, parsed: Parsed<C>) -> Difference<C> {
        let before = self.files.remove(path);
        let (old, reported) = before.map_or_else(Default::default, |file| (file.items, file.reported));
        let mut duplicates = Vec::new();
        let mut items = BTreeMap::new();
        for item in parsed.items {
            let key = item.key();
            match items.entry(key) {
                Entry::Vacant(entry) => {
                    entry.insert(item);
                }
                Entry::Occupied(entry) => {
                    duplicates
                        .push(format!("{} is in this file twice; the first one is taken", C::describe(entry.key())));
                }
            }
        }
        // The previous items without a new version in the file.
        let without: BTreeMap<_, _> = old.iter().filter(|(key, _)| !items.contains_key(*key)).collect();
        let (mut kept, mut faults) = (BTreeMap::new(), Vec::new());
        for Unreadable { message, key } in parsed.faults {
            let stays = match key {
                Some(key) => without.get_key_value(&key).map(|(key, item)| kept.insert(*key, *item)).is_some(),
                None => {
                    if kept.len() < without.len() {
                        kept.clone_from(&without);
                    }
                    !without.is_empty()
                }
            };
            let consequence = if stays { "its previous content stays" } else { "it is left out" };
            faults.push(format!("{message}; {consequence}"));
        }
        items.extend(kept.into_iter().map(|(key, item)| (key.clone(), item.clone())));
        faults.extend(duplicates);
        let touched: BTreeSet<C::Key> = old.keys().chain(items.keys()).cloned().collect();
        for key in &touched {
            let holders = self.holders.entry(key.clone()).or_default();
            if items.contains_key(key) {
                holders.insert(path.clone())
            } else {
                holders.remove(path)
            };
        }
        self.files.insert(path.clone(), File { items, faults, reported });
        self.settle(path, &touched)
    }

    /// Removes the file `path` with all its items.
    pub fn remove(&mut self, path: &Arc<str>) -> Difference<C> {
        let nothing = Parsed { items: Vec::new(), faults: Vec::new() };
        let difference = self.set(path, nothing);
        self.files.remove(path);
        difference
    }

    /// Determines the served version of each item in `touched` after a change of `path`.
    fn settle(&mut self, path: &Arc<str>, touched: &BTreeSet<C::Key>) -> Difference<C> {
        let mut difference = Difference { applied: Vec::new(), removed: Vec::new(), faults: Vec::new() };
        let mut affected = BTreeSet::from([path.clone()]);
        for key in touched {
            let holders = self.holders.get(key).cloned().unwrap_or_default();
            let winner = holders.first().and_then(|path| self.files.get(path)).and_then(|file| file.items.get(key));
            match (winner, self.served.get(key)) {
                (Some(now), Some(before)) if now.same(before) => {}
                (Some(now), _) => {
                    difference.applied.push(now.clone());
                    self.served.insert(key.clone(), now.clone());
                }
                (None, Some(_)) => {
                    difference.removed.push(key.clone());
                    self.served.remove(key);
                }
                (None, None) => {}
            }
            if holders.is_empty() {
                self.holders.remove(key);
            }
            affected.extend(holders);
        }
        for path in affected {
            let Some(file) = self.files.get_mut(&path) else { continue };
            let mut faults = file.faults.clone();
            for key in file.items.keys() {
                if let Some(first) = self.holders.get(key).and_then(BTreeSet::first)
                    && *first != path
                {
                    faults.push(format!("{} is also in {first}; the one there is taken", C::describe(key)));
                }
            }
            if faults != file.reported {
                file.reported.clone_from(&faults);
                difference.faults.push((path, faults));
            }
        }
        difference
    }
}
