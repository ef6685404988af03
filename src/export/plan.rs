//! What is written when: make before break, for readers that never answer. Without I/O; the time is told.
//!
//! What lies behind routes is written at once. Routes and listeners follow when Envoys have had time to take up new
//! clusters; what nothing on disk names any more is removed when they have had time to take up the routes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_xds::snapshot::{Key, ResourceType};

use super::item::{Item, Items, of_type};
use super::layout::{Arrangement, arrangement, is_behind, types};

/// How long Envoys are given, since they do not say when they are ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Between new clusters and the routes that lead there.
    pub settle: Duration,
    /// Between the last thing that names a resource and the end of that resource.
    pub removal_grace: Duration,
}

impl Timing {
    /// The same for Envoys that learn of a new file only `longer` after it is written.
    pub(super) fn for_readers_that_take(self, longer: Duration) -> Self {
        Self { settle: self.settle + longer, removal_grace: self.removal_grace + longer }
    }
}

/// The state of a directory, and what it is to become.
#[derive(Debug)]
pub(super) struct Plan {
    timing: Timing,
    newest: Option<Arc<Items>>,
    /// What the files have.
    written: Items,
    /// What listeners and routes come from next.
    rising: Option<Rising>,
    /// When Envoys have taken up the clusters that are written.
    settled: Option<Instant>,
    /// Since when nothing on disk names a resource that is no longer wanted.
    unused: BTreeMap<Key, Instant>,
    /// Whether no Envoy can have started from these files yet.
    empty: bool,
    /// The files that there must be have been written: clusters, listeners.
    complete: [bool; 2],
}

#[derive(Debug)]
struct Rising {
    items: Arc<Items>,
    due: Instant,
}

/// What to do now.
#[derive(Debug)]
pub(super) enum Next {
    /// These, in this order; then [`Plan::done`].
    Write(Vec<Op>),
    /// Nothing until then, or until there is something newer.
    Wait(Option<Instant>),
}

/// A change of one file.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Op {
    /// The file of this resource.
    Alone(Arc<Item>),
    /// The file of this type.
    Together(ResourceType, Vec<Arc<Item>>),
    /// The file of this resource, no longer needed.
    Remove(Key),
}

impl Plan {
    /// A plan for a directory that has `written`, perhaps only just before `now`; `empty` if it has no file for an Envoy
    /// to start from.
    pub fn new(timing: Timing, written: Items, empty: bool, now: Instant) -> Self {
        Self {
            timing,
            newest: None,
            written,
            rising: None,
            settled: (!empty).then_some(now + timing.settle),
            unused: BTreeMap::new(),
            empty,
            complete: [false; 2],
        }
    }

    /// From now on Envoys learn of a new file only `longer` after it is written.
    pub fn slow_down(&mut self, longer: Duration) {
        self.timing = self.timing.for_readers_that_take(longer);
    }

    /// Wants `items` to be all there is.
    pub fn want(&mut self, items: Items) {
        self.newest = Some(Arc::new(items));
    }

    /// Whether all that is wanted is written, and nothing is left to be removed.
    pub fn is_idle(&mut self, now: Instant) -> bool {
        self.newest.is_some() && matches!(self.next(now), Next::Wait(None))
    }

    /// What to do at the time `now`.
    pub fn next(&mut self, now: Instant) -> Next {
        let Some(newest) = self.newest.clone() else { return Next::Wait(None) };
        let behind = self.behind(&newest);
        if !behind.is_empty() {
            return Next::Write(behind);
        }
        if self.before(&newest).is_empty() {
            self.rising = None;
        } else {
            // One that waits already is not put off by newer ones, or it might never come.
            let due = self.settled.map_or(now, |settled| settled.max(now));
            self.rising.get_or_insert(Rising { items: newest.clone(), due });
        }
        if let Some(rising) = &self.rising
            && rising.due <= now
        {
            let before = self.before(&rising.items);
            if !before.is_empty() {
                return Next::Write(before);
            }
            // Newer ones have made it what is written already.
            self.rising = None;
            return self.next(now);
        }
        self.note_unused(&newest, now);
        let grace = self.timing.removal_grace;
        let over: BTreeSet<&Key> =
            self.unused.iter().filter(|(_, since)| **since + grace <= now).map(|(key, _)| key).collect();
        if !over.is_empty() {
            return Next::Write(self.removal(&over));
        }
        let removal = self.unused.values().min().map(|since| *since + grace);
        Next::Wait(self.rising.iter().map(|rising| rising.due).chain(removal).min())
    }

    /// All of `ops` are on disk since `now`.
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
                            // From now on there may be an Envoy that is still reading.
                            if std::mem::take(&mut self.empty) {
                                self.settled = Some(now + self.timing.settle);
                            }
                        }
                        _ => {}
                    }
                }
            }
        }
        if self.rising.as_ref().is_some_and(|rising| self.before(&rising.items).is_empty()) {
            self.rising = None;
        }
        self.unused.retain(|key, _| self.written.contains_key(key));
    }

    /// Something could not be written: from now on the newest is tried, which is perhaps what can be.
    pub fn failed(&mut self) {
        self.rising = None;
    }

    /// What is to be written of what lies behind routes.
    fn behind(&self, newest: &Items) -> Vec<Op> {
        let mut ops = Vec::new();
        for kind in types().filter(|kind| is_behind(*kind)) {
            let changed: Vec<_> = self.changed(newest, kind).collect();
            match arrangement(kind) {
                Some(Arrangement::Together) if !changed.is_empty() || !self.complete[0] => {
                    // Those that go are left in it for now.
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

    /// What is to be written of what leads to clusters.
    fn before(&self, wanted: &Items) -> Vec<Op> {
        let mut ops = Vec::new();
        for kind in types().filter(|kind| !is_behind(*kind)) {
            match arrangement(kind) {
                Some(Arrangement::Together) => {
                    let missing = kind == ResourceType::LISTENER && !self.complete[1];
                    if missing || !of_type(wanted, kind).eq(of_type(&self.written, kind)) {
                        ops.push(Op::Together(kind, of_type(wanted, kind).cloned().collect()));
                    }
                }
                Some(Arrangement::Alone) => ops.extend(self.changed(wanted, kind).cloned().map(Op::Alone)),
                None => {}
            }
        }
        ops
    }

    fn changed<'a>(&'a self, wanted: &'a Items, kind: ResourceType) -> impl Iterator<Item = &'a Arc<Item>> {
        of_type(wanted, kind).filter(|item| self.written.get(&key(item)) != Some(*item))
    }

    /// Notes what is neither wanted nor named any more.
    fn note_unused(&mut self, newest: &Items, now: Instant) {
        let rising = self.rising.as_ref().map(|rising| &rising.items);
        let mut named: BTreeSet<Key> = BTreeSet::new();
        for item in self.written.values().chain(rising.into_iter().flat_map(|items| items.values())) {
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
            let rises = rising.is_some_and(|items| items.contains_key(key));
            if !newest.contains_key(key) && !rises && !named.contains(key) {
                unused.insert(key.clone(), self.unused.get(key).copied().unwrap_or(now));
            }
        }
        self.unused = unused;
    }

    /// Clusters first: their endpoints' files are no longer named then, and go at a later time.
    fn removal(&self, over: &BTreeSet<&Key>) -> Vec<Op> {
        let mut ops = Vec::new();
        for kind in types() {
            let of_kind: Vec<_> = over.iter().filter(|key| key.0 == kind).collect();
            match arrangement(kind) {
                Some(Arrangement::Together) if !of_kind.is_empty() => {
                    let stays = of_type(&self.written, kind).filter(|item| !over.contains(&key(item)));
                    ops.push(Op::Together(kind, stays.cloned().collect()));
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
