//! The versioned store: one writer publishes, any number of streams follow.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use imbl::ordmap::DiffItem;
use imbl::{OrdMap, OrdSet};
use tokio::sync::watch;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::asked::Asked;
use super::body::{Bodies, Body, Limit};
use super::suspects::Suspects;
use super::watch::Watchers;
use super::{Resource, ResourceType, Version, canonical};

/// How many publications back a stream can ask what changed; one that is further behind compares everything.
const JOURNAL: usize = 256;

/// Type and name of a resource.
pub type Key = (ResourceType, Arc<str>);

/// All resources at one moment. Immutable; a clone of the `Arc` is all that a stream holds.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    serial: u64,
    generation: u64,
    types: BTreeMap<ResourceType, Typed>,
    users: Users,
    /// What the last publications changed, oldest first; the newest is the one that made this snapshot. Names alone:
    /// with the resources, every version of a route configuration of megabytes would outlive it by all these changes.
    journal: imbl::Vector<Arc<[Key]>>,
    /// Shared by all snapshots of a store.
    suspects: Arc<Suspects>,
}

#[derive(Debug, Clone, Default)]
struct Typed {
    resources: OrdMap<Arc<str>, Arc<Resource>>,
    /// Alias and the name that it stands for; of several names the first holds.
    aliases: OrdSet<(Arc<str>, Arc<str>)>,
    /// XOR over the resources, so that a change costs what it changes.
    digest: u64,
    /// Made on demand; those of another snapshot as long as nothing of the type has changed.
    bodies: Arc<Bodies>,
}

impl Typed {
    /// Takes out what was noted of `old`.
    fn forget(&mut self, old: &Resource, users: &mut Users) {
        self.digest ^= digest(old);
        self.bodies = Arc::default();
        for alias in &old.lease().aliases {
            self.aliases.remove(&(alias.clone(), old.name().clone()));
        }
        users.forget(old);
    }
}

/// Types of which there are many small resources that lead to clusters: each of them is found by the clusters.
const MANY: [ResourceType; 2] = [ResourceType::SCOPED_ROUTES, ResourceType::VIRTUAL_HOST];

/// Who uses what.
#[derive(Debug, Clone, Default)]
struct Users {
    /// Load assignment and the cluster that uses it.
    endpoints: OrdSet<(Arc<str>, Arc<str>)>,
    /// Cluster and the resource that leads there, of types of which there are many.
    clusters: OrdSet<(Arc<str>, ResourceType, Arc<str>)>,
}

impl Users {
    fn note(&mut self, resource: &Resource) {
        for endpoints in resource.references().endpoints.iter() {
            self.endpoints.insert((endpoints.clone(), resource.name().clone()));
        }
        if MANY.contains(&resource.kind()) {
            for cluster in resource.references().clusters.iter() {
                self.clusters.insert((cluster.clone(), resource.kind(), resource.name().clone()));
            }
        }
    }

    fn forget(&mut self, resource: &Resource) {
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
    /// Counts what was published in this store and changed something; never sent to anybody. Of one store, equal serial,
    /// equal content.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// The number of the publication of which, and of those before it, everything is in here; never sent to anybody.
    /// Where several stores are published together they count together ([`Store::publish`]), else it is the serial.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The resource `name` of type `kind`.
    pub fn get(&self, kind: ResourceType, name: &str) -> Option<&Arc<Resource>> {
        self.types.get(&kind)?.resources.get(name)
    }

    /// The name of the resource of type `kind` that has the alias `name`.
    pub fn name_of_alias(&self, kind: ResourceType, name: &str) -> Option<&Arc<str>> {
        paired_with(&self.types.get(&kind)?.aliases, &name.into()).next()
    }

    /// All resources of a type, by name.
    pub fn all(&self, kind: ResourceType) -> impl Iterator<Item = &Arc<Resource>> {
        self.types.get(&kind).into_iter().flat_map(|typed| typed.resources.values())
    }

    /// All resources of a type in one body, which everybody shares who asks for all of them.
    pub fn body(&self, kind: ResourceType) -> Arc<Body> {
        let Some(typed) = self.types.get(&kind) else { return Arc::new(Body::new([])) };
        let all = || Arc::new(Body::new(typed.resources.values().cloned().collect::<Vec<_>>()));
        typed.bodies.whole.get_or_init(all).clone()
    }

    /// The same in bodies of a limited size.
    pub fn parts(&self, kind: ResourceType, limit: Limit) -> Arc<[Arc<Body>]> {
        let Some(typed) = self.types.get(&kind) else { return Arc::new([]) };
        let split = || Body::split(&typed.resources.values().cloned().collect::<Vec<_>>(), limit).into();
        let parts = match limit {
            Limit::Part => &typed.bodies.parts,
            Limit::Message => &typed.bodies.messages,
        };
        parts.get_or_init(split).clone()
    }

    /// What a list of names, with this hash, asks for of a type.
    pub fn asked(&self, kind: ResourceType, hash: u64, names: &[String]) -> Option<Arc<Asked>> {
        let typed = self.types.get(&kind).filter(|typed| typed.aliases.is_empty())?;
        let get = |name: &str| typed.resources.get(name);
        Some(typed.bodies.lists.get_or_look_up(hash, names, get, typed.resources.len()))
    }

    /// Names of the resources of a type that differ from those in `other`. Costs little where the two share much.
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

    /// The resources of a type whose names begin with `prefix`, by name.
    pub fn with_prefix(&self, kind: ResourceType, prefix: String) -> impl Iterator<Item = &Arc<Resource>> {
        let resources = self.types.get(&kind).map(|typed| typed.resources.range(Arc::<str>::from(&*prefix)..));
        let from_there = resources.into_iter().flatten();
        from_there.take_while(move |(name, _)| name.starts_with(&*prefix)).map(|(_, resource)| resource)
    }

    /// The clusters that use the load assignment `name`.
    pub fn clusters_of<'a>(&'a self, name: &Arc<str>) -> impl Iterator<Item = &'a Arc<str>> {
        paired_with(&self.users.endpoints, name)
    }

    /// The resources of a type that lead to a cluster.
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

    /// What clients of this store have rejected.
    pub fn suspects(&self) -> &Suspects {
        &self.suspects
    }

    /// How many resources of a type there are.
    pub fn len(&self, kind: ResourceType) -> usize {
        self.types.get(&kind).map_or(0, |typed| typed.resources.len())
    }

    /// The types of which there ever was a resource.
    pub fn kinds(&self) -> impl Iterator<Item = ResourceType> {
        self.types.keys().copied()
    }

    /// The version of all resources of a type together: equal content, equal version, in any process.
    pub fn version(&self, kind: ResourceType) -> Version {
        Version(self.types.get(&kind).map_or(0, |typed| typed.digest))
    }

    /// The version of all resources of a type, but for some that are others, or not there. It is that of a snapshot which
    /// has exactly these.
    pub fn version_with<'a>(
        &self,
        kind: ResourceType,
        others: impl Iterator<Item = (&'a Arc<str>, Option<&'a Arc<Resource>>)>,
    ) -> Version {
        let both = others.flat_map(|(name, other)| [self.get(kind, name), other]);
        both.flatten().fold(self.version(kind), |version, resource| version.with(resource))
    }

    /// What changed after the snapshot of this `serial`, a name perhaps several times; `None` if that is too long ago to
    /// tell.
    pub fn changes_since(&self, serial: u64) -> Option<impl Iterator<Item = &Key> + Clone> {
        let publications = usize::try_from(self.serial.checked_sub(serial)?).ok()?;
        let known = self.journal.len().checked_sub(publications)?;
        let newer = (known..self.journal.len()).filter_map(|at| self.journal.get(at));
        Some(newer.flat_map(|names| names.iter()))
    }
}

/// What one publication changed.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// The [generation](Snapshot::generation) that it made.
    pub generation: u64,
    /// Resources that were not there before.
    pub added: Vec<Arc<Resource>>,
    /// Resources with new content.
    pub changed: Vec<Arc<Resource>>,
    /// Resources that are gone, as they were.
    pub removed: Vec<Arc<Resource>>,
}

impl Changes {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }

    /// Type and name of everything that changed.
    pub fn names(&self) -> impl Iterator<Item = Key> {
        let all = self.added.iter().chain(&self.changed).chain(&self.removed);
        all.map(|resource| (resource.kind(), resource.name().clone()))
    }
}

/// What to change: resources to set and names to remove. `R` is `Resource`, or `Arc<Resource>` of what several stores
/// share.
#[derive(Debug)]
pub struct Update<R = Resource> {
    /// New or possibly changed resources.
    pub set: Vec<R>,
    /// Names that are gone; unknown ones are ignored.
    pub remove: Vec<Key>,
}

impl<R> Default for Update<R> {
    fn default() -> Self {
        Self { set: Vec::new(), remove: Vec::new() }
    }
}

impl Update {
    /// An update that only removes.
    pub fn removing(remove: Vec<Key>) -> Self {
        Self { remove, ..Self::default() }
    }
}

impl<R> Update<R> {
    /// An update that only sets.
    pub fn setting(set: Vec<R>) -> Self {
        Self { set, remove: Vec::new() }
    }
}

/// The store: holds the newest snapshot and tells the streams. Nothing is served before the first publication.
#[derive(Debug)]
pub struct Store {
    newest: watch::Sender<Option<Arc<Snapshot>>>,
    pub(super) watchers: Arc<Watchers>,
}

impl Default for Store {
    fn default() -> Self {
        Self { newest: watch::Sender::new(None), watchers: Arc::default() }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.watchers.close();
    }
}

impl Store {
    /// Follows the newest snapshot; `None` until the first publication.
    pub fn subscribe(&self) -> watch::Receiver<Option<Arc<Snapshot>>> {
        self.newest.subscribe()
    }

    /// How many follow it: streams, held polls and other subscribers.
    pub fn followers(&self) -> usize {
        self.newest.receiver_count()
    }

    /// The newest snapshot.
    pub fn newest(&self) -> Option<Arc<Snapshot>> {
        self.newest.borrow().clone()
    }

    /// Publishes `resources` as all there is. Streams are told only of real differences.
    pub fn replace<R: Into<Arc<Resource>>>(&self, resources: Vec<R>) -> Arc<Changes> {
        self.replace_announced(resources, |_| ())
    }

    /// The same; `announce` learns of the changes before any stream does, so that a log tells them in this order.
    pub fn replace_announced<R: Into<Arc<Resource>>>(
        &self,
        resources: Vec<R>,
        announce: impl FnOnce(&Changes),
    ) -> Arc<Changes> {
        self.update_announced(self.difference_to(resources), announce)
    }

    /// The update that makes `resources` all there is. It may set what is there already.
    pub fn difference_to<R: Into<Arc<Resource>>>(&self, resources: Vec<R>) -> Update<Arc<Resource>> {
        let current = self.newest().unwrap_or_default();
        let mut update = Update::setting(resources.into_iter().map(Into::into).collect::<Vec<Arc<Resource>>>());
        let kept: HashSet<Key> = update.set.iter().map(|resource| (resource.kind(), resource.name().clone())).collect();
        for kind in current.kinds() {
            let gone = current.all(kind).map(|resource| (kind, resource.name().clone()));
            update.remove.extend(gone.filter(|key| !kept.contains(key)));
        }
        update
    }

    /// Publishes a difference. Cost: what changes, not what there is.
    pub fn update<R: Into<Arc<Resource>>>(&self, update: Update<R>) -> Arc<Changes> {
        self.update_announced(update, |_| ())
    }

    /// The same; `announce` learns of the changes before any stream does.
    pub fn update_announced<R: Into<Arc<Resource>>>(
        &self,
        update: Update<R>,
        announce: impl FnOnce(&Changes),
    ) -> Arc<Changes> {
        self.apply(update, None, announce)
    }

    /// The same of what is published in several stores together, as publication number `generation` of all of them: the
    /// snapshot bears it even if nothing has changed in this store, which no stream is told.
    pub fn publish(
        &self,
        update: Update<Arc<Resource>>,
        generation: u64,
        announce: impl FnOnce(&Changes),
    ) -> Arc<Changes> {
        self.apply(update, Some(generation), announce)
    }

    fn apply<R: Into<Arc<Resource>>>(
        &self,
        update: Update<R>,
        generation: Option<u64>,
        announce: impl FnOnce(&Changes),
    ) -> Arc<Changes> {
        let previous = self.newest();
        let mut next = previous.as_deref().cloned().unwrap_or_default();
        let mut changes = Changes { generation: generation.unwrap_or(next.serial + 1), ..Changes::default() };
        for (kind, name) in update.remove {
            let Some(typed) = next.types.get_mut(&kind) else { continue };
            if let Some(old) = typed.resources.remove(&*canonical(&name)) {
                typed.forget(&old, &mut next.users);
                changes.removed.push(old);
            }
        }
        next.suspects.forget(&changes.removed);
        for resource in update.set {
            let resource: Arc<Resource> = resource.into();
            let typed = next.types.entry(resource.kind()).or_default();
            let old = typed.resources.get(&**resource.name());
            let is_same = |old: &Arc<Resource>| {
                old.version() == resource.version()
                    && old.origins() == resource.origins()
                    && old.parts() == resource.parts()
            };
            if old.is_some_and(is_same) {
                continue;
            }
            match typed.resources.insert(resource.name().clone(), resource.clone()) {
                None => changes.added.push(resource.clone()),
                Some(old) => {
                    typed.forget(&old, &mut next.users);
                    // New origins or parts alone, e.g. a new generation of an object, are kept and change no stream.
                    if old.version() != resource.version() {
                        changes.changed.push(resource.clone());
                    }
                }
            }
            typed.digest ^= digest(&resource);
            typed.bodies = Arc::default();
            for alias in &resource.lease().aliases {
                typed.aliases.insert((alias.clone(), resource.name().clone()));
            }
            next.users.note(&resource);
        }
        next.generation = generation.unwrap_or(next.generation);
        if changes.is_empty() && previous.is_some() {
            // Provenance may still be newer, and the generation: kept, without telling anybody.
            self.newest.send_if_modified(|newest| {
                *newest = Some(Arc::new(next));
                false
            });
            return Arc::new(changes);
        }
        let changes = Arc::new(changes);
        (next.serial, next.generation) = (next.serial + 1, changes.generation);
        // Whoever had nothing before the first one gets everything: that is no list to keep.
        if previous.is_some() {
            next.journal.push_back(changes.names().collect());
        }
        if next.journal.len() > JOURNAL {
            next.journal.pop_front();
        }
        announce(&changes);
        let serial = next.serial;
        self.newest.send_replace(Some(Arc::new(next)));
        self.watchers.wake(&changes, serial);
        changes
    }
}

/// The second of every pair whose first is `first`, sorted.
fn paired_with<'a>(
    pairs: &'a OrdSet<(Arc<str>, Arc<str>)>,
    first: &Arc<str>,
) -> impl Iterator<Item = &'a Arc<str>> + use<'a> {
    let (from, first) = ((first.clone(), Arc::from("")), first.clone());
    pairs.range(from..).take_while(move |(one, _)| *one == first).map(|(_, other)| other)
}

impl Version {
    /// The version of a set of resources that has one more, or one less if it has `resource`.
    pub fn with(self, resource: &Resource) -> Self {
        Self(self.0 ^ digest(resource))
    }
}

fn digest(resource: &Resource) -> u64 {
    xxh3_64_with_seed(resource.name().as_bytes(), resource.version().0)
}
