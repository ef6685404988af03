//! What the files of a directory hold together, and what changes when one of them does. No I/O.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::source::Event;

/// What a directory is read for: Kubernetes objects or Envoy resources.
pub trait Content: Clone + Send + 'static {
    /// What makes two of them the same thing.
    type Key: Ord + Clone + Send;
    /// Its key.
    fn key(&self) -> Self::Key;
    /// Whether nothing has changed between the two.
    fn same(&self, other: &Self) -> bool;
    /// The thing as a log line names it.
    fn describe(key: &Self::Key) -> String;
    /// Reads the file `path`, relative to the directory.
    fn parse(path: &str, text: &str) -> Parsed<Self>;
    /// The events of the first reading: all there is.
    fn listed(all: Vec<Self>) -> Vec<Event>;
    /// The events of a change.
    fn changed(applied: Vec<Self>, removed: Vec<Self::Key>) -> Vec<Event>;
}

/// What one file holds.
pub struct Parsed<C: Content> {
    /// The things in it.
    pub items: Vec<C>,
    /// What is wrong with it, and what was done instead.
    pub faults: Vec<String>,
    /// Things that are in it but cannot be read: what the file gave of them before stays.
    pub unreadable: BTreeSet<C::Key>,
    /// Something in it cannot be read, and it is not known what: everything that the file gave before stays, unless it
    /// is given anew.
    pub keep_all: bool,
}

/// What a change of one file amounts to.
pub struct Difference<C: Content> {
    /// New or changed.
    pub applied: Vec<C>,
    /// Gone.
    pub removed: Vec<C::Key>,
    /// The files whose faults have changed, with all their faults; none means healed.
    pub faults: Vec<(Arc<str>, Vec<String>)>,
}

/// All files. A thing in several files is taken from the one that sorts first.
pub struct Tree<C: Content> {
    files: BTreeMap<Arc<str>, File<C>>,
    holders: BTreeMap<C::Key, BTreeSet<Arc<str>>>,
    served: BTreeMap<C::Key, C>,
}

struct File<C: Content> {
    items: BTreeMap<C::Key, C>,
    faults: Vec<String>,
    reported: Vec<String>,
}

impl<C: Content> Default for Tree<C> {
    fn default() -> Self {
        Self { files: BTreeMap::new(), holders: BTreeMap::new(), served: BTreeMap::new() }
    }
}

impl<C: Content> Tree<C> {
    /// Everything that is served.
    pub fn all(&self) -> Vec<C> {
        self.served.values().cloned().collect()
    }

    /// The files that were read and not removed since.
    pub fn files(&self) -> impl Iterator<Item = &Arc<str>> {
        self.files.keys()
    }

    /// The file `path` now holds `parsed`.
    pub fn set(&mut self, path: &Arc<str>, parsed: Parsed<C>) -> Difference<C> {
        let before = self.files.remove(path);
        let (old, reported) = before.map_or_else(Default::default, |file| (file.items, file.reported));
        let mut faults = parsed.faults;
        let mut items = BTreeMap::new();
        for item in parsed.items {
            let key = item.key();
            match items.entry(key) {
                Entry::Vacant(entry) => {
                    entry.insert(item);
                }
                Entry::Occupied(entry) => {
                    faults.push(format!("{} is in this file twice; the first one is taken", C::describe(entry.key())));
                }
            }
        }
        for (key, item) in &old {
            if (parsed.keep_all || parsed.unreadable.contains(key)) && !items.contains_key(key) {
                items.insert(key.clone(), item.clone());
            }
        }
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

    /// The file `path` is gone, with all that it held.
    pub fn remove(&mut self, path: &Arc<str>) -> Difference<C> {
        let nothing = Parsed { items: Vec::new(), faults: Vec::new(), unreadable: BTreeSet::new(), keep_all: false };
        let difference = self.set(path, nothing);
        self.files.remove(path);
        difference
    }

    /// Whose version of each of the things `touched` is served, after a change of `path`.
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
