//! The last state of the controller's loop, for the debug pages and the status writer.
//!
//! All fields are persistent, and two inspections share their equal parts. The cost of [`changed`] is therefore
//! proportional to the change.

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use lockgate_route::objects::{Kept, Kind, Object, ObjectId, ObjectKey, Objects, Revision};
use lockgate_route::translate::gateway::{PolicyReports, Reports};
use lockgate_route::translate::problem::Problems;
use lockgate_route::translate::verdict::Verdicts;
use lockgate_route::translate::{Dedicated, UnsettledHosts, default_class, is_classless, kinds_with_class};

use crate::fleet::FleetId;

/// The last state of the controller's loop.
#[derive(Debug, Clone, Default)]
pub struct Inspection {
    /// All objects.
    pub objects: Objects,
    /// The problems of the objects.
    pub problems: Problems,
    /// The conditions of the sources that are served by class.
    pub verdicts: Verdicts,
    /// The listeners and ports of the Gateways that are served by class.
    pub gateways: Reports,
    /// The Gateways with dedicated fleets.
    pub dedicated: Arc<Dedicated>,
    /// The Gateways behind which each BackendTLSPolicy is in use.
    pub policies: PolicyReports,
    /// The sources that are served by class. Empty before the initial lists are complete.
    pub sources: OrdMap<ObjectId, Published>,
    /// The hosts whose stored claim does not match their rules.
    pub unsettled: UnsettledHosts,
    /// The last good content of Secrets that is served although the Secrets no longer contain it.
    pub kept: Arc<[Kept]>,
    /// Whether all initial lists are complete and published, so that absent objects do not exist.
    pub complete: bool,
}

impl Inspection {
    /// Returns the publication that serves a source of `kind`, if the source is served by class.
    pub fn published(&self, kind: Kind, key: &ObjectKey) -> Option<&Published> {
        self.sources.get(&kind.id(key.clone()))
    }
}

/// Returns the objects that no controller serves as far as is known: they name no class, and no IngressClass is the default.
pub fn classless(inspection: &Inspection) -> impl Iterator<Item = ObjectId> {
    let has_default = default_class(&inspection.objects).is_some();
    let kinds = kinds_with_class().filter(move |_| inspection.complete && !has_default);
    let classless = kinds.flat_map(|kind| inspection.objects.of_kind(kind).values()).filter(|one| is_classless(one));
    classless.map(Object::id).filter(|id| !inspection.sources.contains_key(id))
}

/// The first publication of an object in its current revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The uid of the object.
    pub uid: Arc<str>,
    /// The served revision.
    pub revision: Revision,
    /// The number of the first publication ([`Snapshot::generation`](lockgate_xds::snapshot::Snapshot::generation)) to
    /// Envoys with this revision and the current value of `served`.
    pub since: u64,
    /// Whether the object is served. It is not if it has lost all its routes ([`Translator::has_lost`]).
    ///
    /// [`Translator::has_lost`]: lockgate_route::translate::Translator::has_lost
    pub served: bool,
    /// The fleets whose Envoys must accept the object. Empty: the shared fleet alone.
    pub fleets: Arc<[FleetId]>,
}

#[cfg(test)]
impl Published {
    /// Returns the publication `since` of an object with the uid `u`, which is served in this revision.
    pub fn example(revision: u64, since: u64) -> Self {
        Self { uid: "u".into(), revision: Revision(revision), since, served: true, fleets: Arc::default() }
    }
}

/// Returns the sorted keys under which two maps differ. Shared parts are skipped.
pub fn changed<'a, K: Ord, V: PartialEq>(
    before: &'a OrdMap<K, V>,
    now: &'a OrdMap<K, V>,
) -> impl Iterator<Item = &'a K> {
    before.diff(now).map(|item| match item {
        DiffItem::Add(key, _) | DiffItem::Update { new: (key, _), .. } | DiffItem::Remove(key, _) => key,
    })
}

/// Returns the sources of `kind` whose publication or verdicts differ. Some of them occur twice.
pub fn changed_sources<'a>(
    kind: Kind,
    before: &'a Inspection,
    now: &'a Inspection,
) -> impl Iterator<Item = &'a ObjectKey> {
    let all = changed(&before.sources, &now.sources).chain(changed(&before.verdicts, &now.verdicts));
    all.filter(move |id| id.kind == kind).map(|id| &id.key)
}

/// Returns the objects of `kind` that differ. Shared parts are skipped.
pub fn changed_objects(kind: Kind, before: &Objects, now: &Objects) -> BTreeSet<ObjectKey> {
    changed(before.of_kind(kind), now.of_kind(kind)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::check::Manifests;

    /// A value that counts comparisons with others.
    #[derive(Debug, Clone)]
    struct Counting(usize, Arc<AtomicUsize>);

    impl PartialEq for Counting {
        fn eq(&self, other: &Self) -> bool {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0 == other.0
        }
    }

    #[test]
    fn ingresses_without_a_class_are_served_by_nobody_unless_a_class_is_the_default() {
        let ingress =
            "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: a, namespace: shop}, spec: {}}";
        let class = "{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: other, annotations: \
            {ingressclass.kubernetes.io/is-default-class: 'true'}}, spec: {controller: example.com/other}}";
        let mut inspection = Inspection::default();
        let add = |inspection: &mut Inspection, text: &str| {
            let mut manifests = Manifests::default();
            manifests.add("a.yaml", text.to_owned());
            manifests.objects().iter().for_each(|object| assert!(inspection.objects.apply(object.clone())));
        };
        let count = |inspection: &Inspection| classless(inspection).count();
        add(&mut inspection, ingress);
        assert_eq!(count(&inspection), 0, "the lists are not complete");
        inspection.complete = true;
        assert_eq!(count(&inspection), 1);
        let served = Inspection {
            sources: OrdMap::unit(Kind::INGRESS.id(ObjectKey::new("shop", "a")), Published::example(1, 1)),
            ..inspection.clone()
        };
        assert_eq!(count(&served), 0);
        add(&mut inspection, class);
        assert_eq!(count(&inspection), 0);
    }

    #[test]
    fn shared_parts_are_not_compared() {
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
