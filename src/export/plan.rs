//! The order of file writes, make before break, for readers that send no ACKs. No I/O; time comes as an argument.
//!
//! Resources behind routes are written immediately. Routes and listeners follow after Envoys have had time to load new
//! clusters. Resources that no file references any more are removed after Envoys have had time to load the routes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_xds::snapshot::{Key, ResourceType};

use super::item::{Item, Items, of_type};
use super::layout::{Arrangement, arrangement, is_behind, types};

/// The delays for Envoys, which do not report when they are ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportTiming {
    /// The delay between new clusters and the routes to them.
    pub settle: Duration,
    /// The delay between the removal of the last reference to a resource and the removal of the resource.
    pub removal_grace: Duration,
}

impl ExportTiming {
    /// Returns the delays for Envoys that detect a new file only `delay` after it is written.
    pub(super) fn with_detection_delay(self, delay: Duration) -> Self {
        Self { settle: self.settle + delay, removal_grace: self.removal_grace + delay }
    }
}

/// The current and the target state of a directory.
#[derive(Debug)]
pub(super) struct Plan {
    timing: ExportTiming,
    newest: Option<Arc<Items>>,
    /// The content of the files.
    written: Items,
    /// The next state of listeners and routes, until it is written.
    pending: Option<Pending>,
    /// The time at which Envoys have loaded the written clusters.
    settled: Option<Instant>,
    /// The resources that are neither in the target state nor referenced on disk, and since when.
    unused: BTreeMap<Key, Instant>,
    /// Whether no Envoy can have started from these files yet.
    empty: bool,
    /// Whether the required files have been written: clusters, listeners.
    complete: [bool; 2],
}

#[derive(Debug)]
struct Pending {
    items: Arc<Items>,
    due: Instant,
}

/// The next action.
#[derive(Debug)]
pub(super) enum Next {
    /// These operations, in this order, followed by [`Plan::done`].
    Write(Vec<Op>),
    /// Nothing until this time, or until there is a newer snapshot.
    Wait(Option<Instant>),
}

/// A change of a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Op {
    /// Writes the file of this resource.
    Alone(Arc<Item>),
    /// Writes the file of this type.
    Together(ResourceType, Vec<Arc<Item>>),
    /// Removes the file of this resource.
    Remove(Key),
}

impl Plan {
    /// Creates a plan for a directory that contains `written`, perhaps since just before `now`. `empty` means that it
    /// has no file for an Envoy to start from.
    pub fn new(timing: ExportTiming, written: Items, empty: bool, now: Instant) -> Self {
        Self {
            timing,
            newest: None,
            written,
            pending: None,
            settled: (!empty).then_some(now + timing.settle),
            unused: BTreeMap::new(),
            empty,
            complete: [false; 2],
        }
    }

    /// Adapts the delays to Envoys that detect a new file only `delay` after it is written.
    pub fn slow_down(&mut self, delay: Duration) {
        self.timing = self.timing.with_detection_delay(delay);
    }

    /// Sets the complete target state.
    pub fn set_target(&mut self, items: Items) {
        self.newest = Some(Arc::new(items));
    }

    /// Returns whether the target state is written and no removal is left.
    pub fn is_idle(&mut self, now: Instant) -> bool {
        self.newest.is_some() && matches!(self.next(now), Next::Wait(None))
    }

    /// Returns the action at the time `now`.
    pub fn next(&mut self, now: Instant) -> Next {
        let Some(newest) = self.newest.clone() else { return Next::Wait(None) };
        let behind = self.behind(&newest);
        if !behind.is_empty() {
            return Next::Write(behind);
        }
        if self.before(&newest).is_empty() {
            self.pending = None;
        } else {
            // A newer state does not delay the pending one. Otherwise, frequent changes could delay it forever.
            let due = self.settled.map_or(now, |settled| settled.max(now));
            self.pending.get_or_insert(Pending { items: newest.clone(), due });
        }
        if let Some(pending) = &self.pending
            && pending.due <= now
        {
            let before = self.before(&pending.items);
            if !before.is_empty() {
                return Next::Write(before);
            }
            // The newest state equals the written state.
            self.pending = None;
            return self.next(now);
        }
        self.mark_unused(&newest, now);
        let grace = self.timing.removal_grace;
        let expired: BTreeSet<&Key> =
            self.unused.iter().filter(|(_, since)| **since + grace <= now).map(|(key, _)| key).collect();
        if !expired.is_empty() {
            return Next::Write(self.removal(&expired));
        }
        let removal = self.unused.values().min().map(|since| *since + grace);
        Next::Wait(self.pending.iter().map(|pending| pending.due).chain(removal).min())
    }

    /// Records that all `ops` are on disk since `now`.
    pub fn done(&mut self, ops: Vec<Op>, now: Instant) {
        for op in ops {
            match op {
                Op::Alone(item) => drop(self.written.insert(key(&item), item)),
                Op::Remove(key) => drop(self.written.remove(&key)),
                Op::Together(kind, items) => {
                    let old: BTreeSet<Key> = of_type(&self.written, kind).map(|item| key(item)).collect();
                    let added = items.iter().any(|item| !old.contains(&key(item)));
                    if kind == ResourceType::CLUSTER && added && !self.empty {
                        self.settled = Some(now + self.timing.settle);
                    }
                    old.iter().for_each(|key| drop(self.written.remove(key)));
                    self.written.extend(items.into_iter().map(|item| (key(&item), item)));
                    match kind {
                        ResourceType::CLUSTER => self.complete[0] = true,
                        ResourceType::LISTENER => {
                            self.complete[1] = true;
                            // From now on, an Envoy may be reading the files.
                            if std::mem::take(&mut self.empty) {
                                self.settled = Some(now + self.timing.settle);
                            }
                        }
                        _ => {}
                    }
                }
            }
        }
        if self.pending.as_ref().is_some_and(|pending| self.before(&pending.items).is_empty()) {
            self.pending = None;
        }
        self.unused.retain(|key, _| self.written.contains_key(key));
    }

    /// Records that a write failed. The newest state is tried next, because it may be writable.
    pub fn failed(&mut self) {
        self.pending = None;
    }

    /// Returns the writes of resources behind routes.
    fn behind(&self, newest: &Items) -> Vec<Op> {
        let mut ops = Vec::new();
        for kind in types().filter(|kind| is_behind(*kind)) {
            let changed: Vec<_> = self.changed(newest, kind).collect();
            match arrangement(kind) {
                Some(Arrangement::Together) if !changed.is_empty() || !self.complete[0] => {
                    // Removed resources stay in the file for now.
                    let mut all: Items = of_type(&self.written, kind).map(|item| (key(item), item.clone())).collect();
                    all.extend(of_type(newest, kind).map(|item| (key(item), item.clone())));
                    ops.push(Op::Together(kind, all.into_values().collect()));
                }
                Some(Arrangement::Together) | None => {}
                Some(Arrangement::Alone) => ops.extend(changed.into_iter().cloned().map(Op::Alone)),
            }
        }
        ops
    }

    /// Returns the writes of resources before clusters.
    fn before(&self, target: &Items) -> Vec<Op> {
        let mut ops = Vec::new();
        for kind in types().filter(|kind| !is_behind(*kind)) {
            match arrangement(kind) {
                Some(Arrangement::Together) => {
                    let missing = kind == ResourceType::LISTENER && !self.complete[1];
                    if missing || !of_type(target, kind).eq(of_type(&self.written, kind)) {
                        ops.push(Op::Together(kind, of_type(target, kind).cloned().collect()));
                    }
                }
                Some(Arrangement::Alone) => ops.extend(self.changed(target, kind).cloned().map(Op::Alone)),
                None => {}
            }
        }
        ops
    }

    fn changed<'a>(&'a self, target: &'a Items, kind: ResourceType) -> impl Iterator<Item = &'a Arc<Item>> {
        of_type(target, kind).filter(|item| self.written.get(&key(item)) != Some(*item))
    }

    /// Records the resources that are neither in the target state nor referenced any more.
    fn mark_unused(&mut self, newest: &Items, now: Instant) {
        let pending = self.pending.as_ref().map(|pending| &pending.items);
        let mut named: BTreeSet<Key> = BTreeSet::new();
        for item in self.written.values().chain(pending.into_iter().flat_map(|items| items.values())) {
            let references = item.resource.references();
            for (kind, names) in [
                (ResourceType::CLUSTER, &references.clusters),
                (ResourceType::ROUTES, &references.routes),
                (ResourceType::ENDPOINTS, &references.endpoints),
                (ResourceType::SECRET, &references.secrets),
            ] {
                named.extend(names.iter().map(|name| (kind, name.clone())));
            }
        }
        let mut unused = BTreeMap::new();
        for key in self.written.keys().filter(|key| is_behind(key.0) || arrangement(key.0) == Some(Arrangement::Alone))
        {
            let is_pending = pending.is_some_and(|items| items.contains_key(key));
            if !newest.contains_key(key) && !is_pending && !named.contains(key) {
                unused.insert(key.clone(), self.unused.get(key).copied().unwrap_or(now));
            }
        }
        self.unused = unused;
    }

    /// Returns the removals, clusters first. The files of their endpoints are then unreferenced and removed later.
    fn removal(&self, expired: &BTreeSet<&Key>) -> Vec<Op> {
        let mut ops = Vec::new();
        for kind in types() {
            let of_kind: Vec<_> = expired.iter().filter(|key| key.0 == kind).collect();
            match arrangement(kind) {
                Some(Arrangement::Together) if !of_kind.is_empty() => {
                    let remaining = of_type(&self.written, kind).filter(|item| !expired.contains(&key(item)));
                    ops.push(Op::Together(kind, remaining.cloned().collect()));
                }
                Some(Arrangement::Alone) => ops.extend(of_kind.into_iter().map(|key| Op::Remove((**key).clone()))),
                _ => {}
            }
        }
        ops
    }
}

fn key(item: &Item) -> Key {
    (item.resource.kind(), item.resource.name().clone())
}
