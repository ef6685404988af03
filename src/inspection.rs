//! What the controller's loop last worked on, for those who look at it: the debug pages, and who writes status.
//!
//! All of it is persistent: two inspections share what is the same in both, so who follows them by [`changed`] pays for
//! what has changed.

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use lockgate_route::objects::{Kept, Kind, ObjectId, ObjectKey, Objects, Revision};
use lockgate_route::translate::problem::Problems;
use lockgate_route::translate::verdict::Verdicts;

/// What the controller's loop last worked on.
#[derive(Debug, Clone, Default)]
pub struct Inspection {
    /// All objects.
    pub objects: Objects,
    /// What is wrong with them.
    pub problems: Problems,
    /// The conditions of the sources that are ours.
    pub verdicts: Verdicts,
    /// The sources that are ours, by class. Empty before the first lists are in.
    pub sources: OrdMap<ObjectId, Published>,
    /// The last good content that is served of Secrets that no longer have it.
    pub kept: Arc<[Kept]>,
    /// Whether all first lists are in and published, so that what is not here does not exist.
    pub complete: bool,
}

impl Inspection {
    /// The publication that serves a source of `kind`, if the source is ours.
    pub fn published(&self, kind: Kind, key: &ObjectKey) -> Option<&Published> {
        self.sources.get(&kind.id(key.clone()))
    }
}

/// Since when an object is a part of what Envoys are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The object's uid.
    pub uid: Arc<str>,
    /// The revision in which it is served.
    pub revision: Revision,
    /// The number of the publication ([`Snapshot::generation`](lockgate_xds::snapshot::Snapshot::generation)) to Envoys that
    /// first had it in this revision, and served or not as it is now.
    pub since: u64,
    /// Whether it is served: not if it has lost all that it asks for ([`Translator::has_lost`]).
    ///
    /// [`Translator::has_lost`]: lockgate_route::translate::Translator::has_lost
    pub served: bool,
}

/// The keys under which two maps differ, sorted. Parts that both share are not looked at.
pub fn changed<'a, K: Ord, V: PartialEq>(
    before: &'a OrdMap<K, V>,
    now: &'a OrdMap<K, V>,
) -> impl Iterator<Item = &'a K> {
    before.diff(now).map(|item| match item {
        DiffItem::Add(key, _) | DiffItem::Update { new: (key, _), .. } | DiffItem::Remove(key, _) => key,
    })
}

/// The sources of `kind` whose publication or verdicts differ, some of them twice.
pub fn changed_sources<'a>(
    kind: Kind,
    before: &'a Inspection,
    now: &'a Inspection,
) -> impl Iterator<Item = &'a ObjectKey> {
    let all = changed(&before.sources, &now.sources).chain(changed(&before.verdicts, &now.verdicts));
    all.filter(move |id| id.kind == kind).map(|id| &id.key)
}

/// The objects of `kind` that differ. Parts that both share are not looked at.
pub fn changed_objects(kind: Kind, before: &Objects, now: &Objects) -> BTreeSet<ObjectKey> {
    changed(before.of_kind(kind), now.of_kind(kind)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A value that counts how often two of its kind were compared.
    #[derive(Debug, Clone)]
    struct Counting(usize, Arc<AtomicUsize>);

    impl PartialEq for Counting {
        fn eq(&self, other: &Self) -> bool {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0 == other.0
        }
    }

    #[test]
    fn what_both_share_is_not_looked_at() {
        let compared = Arc::new(AtomicUsize::new(0));
        let before: OrdMap<usize, Counting> = (0..50_000).map(|at| (at, Counting(at, compared.clone()))).collect();
        let mut now = before.clone();
        now.insert(700, Counting(0, compared.clone()));
        now.remove(&30_000);
        now.insert(70_000, Counting(0, compared.clone()));
        assert_eq!(changed(&before, &now).copied().collect::<Vec<_>>(), [700, 30_000, 70_000]);
        let compared = compared.load(Ordering::Relaxed);
        assert!(compared < 500, "{compared} of 50,000");
    }
}
