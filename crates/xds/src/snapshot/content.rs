//! The content of a store at one moment, and the changes of a publication.

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::ordmap::DiffItem;
use imbl::{OrdMap, OrdSet};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::body::{Bodies, Body, Limit};
use super::named::NamedResources;
use super::suspects::Suspects;
use super::{Key, Resource, ResourceType, Version, canonical};

/// The number of publications in the journal. A stream that is further behind compares all resources.
const JOURNAL: usize = 256;

/// All resources at one moment. Immutable: streams share it.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    pub(super) serial: u64,
    pub(super) generation: u64,
    types: BTreeMap<ResourceType, Typed>,
    users: Users,
    /// The names that recent publications changed, oldest first. The last entry belongs to the publication that made this
    /// snapshot. Resources are not retained: each old version of a large route configuration would stay in memory.
    journal: imbl::Vector<Arc<[Key]>>,
    /// Shared by all snapshots of a store.
    pub(super) suspects: Arc<Suspects>,
}

#[derive(Debug, Clone, Default)]
struct Typed {
    resources: OrdMap<Arc<str>, Arc<Resource>>,
    /// Each alias with its name. If an alias has several names, the first one counts.
    aliases: OrdSet<(Arc<str>, Arc<str>)>,
    /// XOR of the resources' digests, so that the cost of an update depends only on the change.
    digest: u64,
    /// Encoded on demand. Snapshots share them while no resource of the type changes.
    bodies: Arc<Bodies>,
}

impl Typed {
    /// Adds the index entries of `new`.
    fn add_derived(&mut self, new: &Resource, users: &mut Users) {
        self.digest ^= digest(new);
        self.bodies = Arc::default();
        for alias in &new.lease().aliases {
            self.aliases.insert((alias.clone(), new.name().clone()));
        }
        users.add(new);
    }

    /// Removes the index entries of `old`.
    fn remove_derived(&mut self, old: &Resource, users: &mut Users) {
        self.digest ^= digest(old);
        self.bodies = Arc::default();
        for alias in &old.lease().aliases {
            self.aliases.remove(&(alias.clone(), old.name().clone()));
        }
        users.remove(old);
    }
}

/// Types with many small resources that refer to clusters. They are indexed by cluster.
const MANY: [ResourceType; 2] = [ResourceType::SCOPED_ROUTES, ResourceType::VIRTUAL_HOST];

/// Indexes from a resource to the resources that refer to it.
#[derive(Debug, Clone, Default)]
struct Users {
    /// Each load assignment with a cluster that uses it.
    endpoints: OrdSet<(Arc<str>, Arc<str>)>,
    /// Each cluster with a resource of the types in `MANY` that refers to it.
    clusters: OrdSet<(Arc<str>, ResourceType, Arc<str>)>,
}

impl Users {
    fn add(&mut self, resource: &Resource) {
        for endpoints in resource.references().endpoints.iter() {
            self.endpoints.insert((endpoints.clone(), resource.name().clone()));
        }
        if MANY.contains(&resource.kind()) {
            for cluster in resource.references().clusters.iter() {
                self.clusters.insert((cluster.clone(), resource.kind(), resource.name().clone()));
            }
        }
    }

    fn remove(&mut self, resource: &Resource) {
        for endpoints in resource.references().endpoints.iter() {
            self.endpoints.remove(&(endpoints.clone(), resource.name().clone()));
        }
        if MANY.contains(&resource.kind()) {
            for cluster in resource.references().clusters.iter() {
                self.clusters.remove(&(cluster.clone(), resource.kind(), resource.name().clone()));
            }
        }
    }
}

impl Snapshot {
    /// Returns the number of publications that changed this store. Snapshots of one store with equal serials have equal
    /// content. The serial is never sent to a client.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Returns the number of the newest publication that this snapshot includes. It is never sent to a client. Stores that
    /// are published together share the number ([`Store::publish`](super::Store::publish)). Otherwise it is the serial.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the resource `name` of type `kind`.
    pub fn get(&self, kind: ResourceType, name: &str) -> Option<&Arc<Resource>> {
        self.types.get(&kind)?.resources.get(name)
    }

    /// Returns whether a resource of type `kind` has an alias.
    pub(crate) fn has_aliases(&self, kind: ResourceType) -> bool {
        self.types.get(&kind).is_some_and(|typed| !typed.aliases.is_empty())
    }

    /// Returns the name of the resource of type `kind` with the alias `name`.
    pub fn name_of_alias(&self, kind: ResourceType, name: &str) -> Option<&Arc<str>> {
        paired_with(&self.types.get(&kind)?.aliases, &name.into()).next()
    }

    /// Returns all resources of a type, sorted by name.
    pub fn all(&self, kind: ResourceType) -> impl Iterator<Item = &Arc<Resource>> {
        self.types.get(&kind).into_iter().flat_map(|typed| typed.resources.values())
    }

    /// Returns all resources of a type in one body, which all wildcard subscriptions share.
    pub fn body(&self, kind: ResourceType) -> Arc<Body> {
        let Some(typed) = self.types.get(&kind) else { return Arc::new(Body::new([])) };
        let all = || Arc::new(Body::new(typed.resources.values().cloned().collect::<Vec<_>>()));
        typed.bodies.whole.get_or_init(all).clone()
    }

    /// Returns all resources of a type in bodies of a limited size.
    pub fn parts(&self, kind: ResourceType, limit: Limit) -> Arc<[Arc<Body>]> {
        let Some(typed) = self.types.get(&kind) else { return Arc::new([]) };
        let split = || Body::split(&typed.resources.values().cloned().collect::<Vec<_>>(), limit).into();
        let parts = match limit {
            Limit::Part => &typed.bodies.parts,
            Limit::Message => &typed.bodies.messages,
        };
        parts.get_or_init(split).clone()
    }

    /// Returns the resources of a type that a list of names with this hash selects.
    /// `None` if there is no resource of the type, or one has an alias.
    pub fn named(&self, kind: ResourceType, hash: u64, names: &[String]) -> Option<Arc<NamedResources>> {
        let typed = self.types.get(&kind).filter(|typed| typed.aliases.is_empty())?;
        let get = |name: &str| typed.resources.get(name);
        Some(typed.bodies.lists.get_or_insert(hash, names, get, typed.resources.len()))
    }

    /// Returns the names of the resources of a type that differ from the resources in `other`. The cost depends on the
    /// difference.
    pub fn difference(&self, other: &Self, kind: ResourceType) -> Vec<Arc<str>> {
        let (none, of) =
            (OrdMap::new(), |snapshot: &Self| snapshot.types.get(&kind).map(|typed| typed.resources.clone()));
        let (old, new) = (of(other).unwrap_or_else(|| none.clone()), of(self).unwrap_or(none));
        let names = old.diff(&new).filter_map(|item| match item {
            DiffItem::Add(name, _) | DiffItem::Remove(name, _) => Some(name.clone()),
            DiffItem::Update { old: (name, old), new: (_, new) } => {
                (old.version() != new.version()).then(|| name.clone())
            }
        });
        names.collect()
    }

    /// Returns the resources of a type whose names begin with `prefix`, sorted by name.
    pub fn with_prefix(&self, kind: ResourceType, prefix: String) -> impl Iterator<Item = &Arc<Resource>> {
        let resources = self.types.get(&kind).map(|typed| typed.resources.range(Arc::<str>::from(&*prefix)..));
        let from_there = resources.into_iter().flatten();
        from_there.take_while(move |(name, _)| name.starts_with(&*prefix)).map(|(_, resource)| resource)
    }

    /// Returns the clusters that use the load assignment `name`.
    pub fn clusters_of<'a>(&'a self, name: &Arc<str>) -> impl Iterator<Item = &'a Arc<str>> {
        paired_with(&self.users.endpoints, name)
    }

    /// Returns the resources of a type that refer to a cluster.
    pub fn leading_to<'a>(
        &'a self,
        kind: ResourceType,
        cluster: &str,
    ) -> Box<dyn Iterator<Item = &'a Arc<Resource>> + 'a> {
        let cluster: Arc<str> = cluster.into();
        if !MANY.contains(&kind) {
            return Box::new(self.all(kind).filter(move |resource| resource.references().names_cluster(&cluster)));
        }
        let from = (cluster.clone(), kind, Arc::from(""));
        let users = self.users.clusters.range(from..);
        let users = users.take_while(move |(used, of, _)| (used, *of) == (&cluster, kind));
        Box::new(users.filter_map(move |(_, _, name)| self.get(kind, name)))
    }

    /// Returns the resources that clients of this store have rejected.
    pub fn suspects(&self) -> &Suspects {
        &self.suspects
    }

    /// Records that a client has rejected `resource`. `last_good` is the version that the client had accepted before, if any.
    pub fn add_suspect(&self, resource: &Arc<Resource>, last_good: Option<&Arc<Resource>>) {
        let is_current =
            |own: &Resource| self.get(own.kind(), own.name()).is_some_and(|current| current.version() == own.version());
        self.suspects.remember(resource, last_good, is_current);
    }

    /// Returns the number of resources of a type.
    pub fn len(&self, kind: ResourceType) -> usize {
        self.types.get(&kind).map_or(0, |typed| typed.resources.len())
    }

    /// Returns the types that have, or had, a resource.
    pub fn kinds(&self) -> impl Iterator<Item = ResourceType> {
        self.types.keys().copied()
    }

    /// Returns the version of all resources of a type. Equal content gives equal versions in every process.
    pub fn version(&self, kind: ResourceType) -> Version {
        Version(self.types.get(&kind).map_or(0, |typed| typed.digest))
    }

    /// Returns the version of all resources of a type after `others` replace, or remove, the resources of their names. A
    /// snapshot with this content has the same version.
    pub fn version_with<'a>(
        &self,
        kind: ResourceType,
        others: impl Iterator<Item = (&'a Arc<str>, Option<&'a Arc<Resource>>)>,
    ) -> Version {
        let both = others.flat_map(|(name, other)| [self.get(kind, name), other]);
        both.flatten().fold(self.version(kind), |version, resource| version.with(resource))
    }

    /// Returns the names that changed after the snapshot with this `serial`. A name may occur several times. `None` if the
    /// journal does not go back that far.
    pub fn changes_since(&self, serial: u64) -> Option<impl Iterator<Item = &Key> + Clone> {
        let publications = usize::try_from(self.serial.checked_sub(serial)?).ok()?;
        let known = self.journal.len().checked_sub(publications)?;
        let newer = (known..self.journal.len()).filter_map(|at| self.journal.get(at));
        Some(newer.flat_map(|names| names.iter()))
    }

    /// Removes resources, and adds them to `changes`.
    pub(super) fn remove(&mut self, keys: &[Key], changes: &mut Changes) {
        for (kind, name) in keys {
            let Some(typed) = self.types.get_mut(kind) else { continue };
            if let Some(old) = typed.resources.remove(&*canonical(name)) {
                typed.remove_derived(&old, &mut self.users);
                changes.removed.push(old);
            }
        }
    }

    /// Sets a resource. Adds it to `changes` if it is new or its content differs.
    pub(super) fn set(&mut self, resource: Arc<Resource>, changes: &mut Changes) {
        let typed = self.types.entry(resource.kind()).or_default();
        let is_same = |old: &Arc<Resource>| old.version() == resource.version() && old.origins() == resource.origins();
        if typed.resources.get(&**resource.name()).is_some_and(is_same) {
            return;
        }
        match typed.resources.insert(resource.name().clone(), resource.clone()) {
            None => changes.added.push(resource.clone()),
            Some(old) => {
                typed.remove_derived(&old, &mut self.users);
                // New origins or parts, e.g. a new generation of an object, are stored without notifying streams.
                if old.version() != resource.version() {
                    changes.changed.push(resource.clone());
                }
            }
        }
        typed.add_derived(&resource, &mut self.users);
    }

    /// Adds the names of `changes` to the journal.
    pub(super) fn record(&mut self, changes: &Changes) {
        self.journal.push_back(changes.names().collect());
        if self.journal.len() > JOURNAL {
            self.journal.pop_front();
        }
    }
}

/// The changes of one publication.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// The [generation](Snapshot::generation) of the publication.
    pub generation: u64,
    /// New resources.
    pub added: Vec<Arc<Resource>>,
    /// Resources with new content.
    pub changed: Vec<Arc<Resource>>,
    /// Removed resources, in their last version.
    pub removed: Vec<Arc<Resource>>,
}

impl Changes {
    /// Returns whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }

    /// Returns the type and the name of each changed resource.
    pub fn names(&self) -> impl Iterator<Item = Key> {
        let all = self.added.iter().chain(&self.changed).chain(&self.removed);
        all.map(|resource| resource.key())
    }
}

/// A difference to publish: resources to set and names to remove. `R` is `Resource`, or `Arc<Resource>` for resources that
/// several stores share.
#[derive(Debug)]
pub struct Update<R = Resource> {
    /// New or possibly changed resources.
    pub set: Vec<R>,
    /// Names to remove. Unknown names are ignored.
    pub remove: Vec<Key>,
}

impl<R> Default for Update<R> {
    fn default() -> Self {
        Self { set: Vec::new(), remove: Vec::new() }
    }
}

impl Update {
    /// Returns an update that only removes.
    pub fn removing(remove: Vec<Key>) -> Self {
        Self { remove, ..Self::default() }
    }
}

impl<R> Update<R> {
    /// Returns an update that only sets.
    pub fn setting(set: Vec<R>) -> Self {
        Self { set, remove: Vec::new() }
    }
}

/// Returns the second element of each pair whose first element is `first`, sorted.
fn paired_with<'a>(
    pairs: &'a OrdSet<(Arc<str>, Arc<str>)>,
    first: &Arc<str>,
) -> impl Iterator<Item = &'a Arc<str>> + use<'a> {
    let (from, first) = ((first.clone(), Arc::from("")), first.clone());
    pairs.range(from..).take_while(move |(one, _)| *one == first).map(|(_, other)| other)
}

impl Version {
    /// Returns the version of the set after `resource` is added to it, or removed from it.
    pub fn with(self, resource: &Resource) -> Self {
        Self(self.0 ^ digest(resource))
    }
}

fn digest(resource: &Resource) -> u64 {
    xxh3_64_with_seed(resource.name().as_bytes(), resource.version().0)
}
