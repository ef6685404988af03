//! The incremental translation, whose cost depends on the change and not on the number of objects.
//!
//! The translator retains every parsed source, and follows the dependency graph ([`graph`](super::graph)). A changed
//! input affects the sources that read it, the hosts of these sources, and the entries of these hosts in the model. The
//! translation from scratch is the same code with [`ChangedInputs::everything`]. A property test compares the results.

mod backend_policies;
pub mod claims;
mod clusters;
mod conflicts;
mod copies;
mod encodings;
pub mod explained;
mod gateways;
mod granted;
mod hosts;
mod ledger;
mod levels;
mod missed;
mod ownership;
mod secrets;
mod served;
mod shared_policies;
mod sites;
mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::{Host, Model, SecretId, SecretPart, ServicePortId, StatsTls, Touched};
use crate::objects::{FOREIGN_POLICIES, Grouping, Kind, Object, ObjectId, ObjectKey, Objects, Precedence, Revision};
use crate::settings::Settings;

use super::backend_policies::BackendPolicies;
use super::class::{self, Classes};
use super::conflicts::ConflictPlace;
use super::dialect::{self, DIALECTS, Dialect};
use super::envoys::{self, Envoys};
use super::gateway::{PolicyReports, Reports};
use super::graph::{ChangedInputs, Graph, Input};
use super::host_grants::HostGrants;
use super::listeners::SharedListeners;
use super::problem::{Problem, Problems};
use super::tls;
use super::verdict::Verdicts;

use claims::{Claims, UnsettledHosts};
use clusters::{Clusters, NewClusters};
use conflicts::Conflicts;
use copies::Copies;
pub use gateways::Dedicated;
use gateways::Gateways;
use ledger::Ledger;
use missed::Outcomes;
use ownership::Nameless;
use served::Served;
use shared_policies::SharedPolicies;
use sites::Sites;
use sources::{Affected, Sources, candidates};

/// The number of sources or hosts that are built before they are stored. Storing them in batches avoids a second copy
/// of all of them. Tests have few objects, so their batches are small.
const AT_A_TIME: usize = if cfg!(test) { 5 } else { 2048 };

/// The usable Secrets that the settings reference. A change of one of them affects its dependents ([`Due`]).
#[derive(Debug, Clone, Default, PartialEq)]
struct Ground {
    /// The default certificate. Sources with TLS entries and their hosts depend on it.
    default_secret: Option<SecretId>,
    /// The fallback certificate. Clients without a known server name are presented it.
    fallback_secret: Option<SecretId>,
    /// The client certificate. Clusters with TLS depend on it.
    client_certificate: Option<Option<SecretId>>,
}

/// The units that are due because of a change of the classes, or of a Secret that the settings reference.
#[derive(Debug, Default)]
struct Due {
    sources: BTreeSet<ObjectId>,
    /// Hosts that are due even if the sources that name them are unchanged.
    hosts: BTreeSet<Host>,
    services: BTreeSet<ObjectKey>,
    /// Whether clients without a known server name are presented another certificate.
    presented_to_all: bool,
}

impl Ground {
    /// Returns the Secret that clients without a known server name are presented.
    fn presented_to_all(&self) -> Option<&SecretId> {
        self.default_secret.as_ref().or(self.fallback_secret.as_ref())
    }
}

/// The part of the translation that does not depend on single sources: the problems of classes, and the Secrets that the settings
/// reference.
#[derive(Debug, Default)]
struct General {
    ground: Ground,
    /// The TLS configuration of statistics. No host depends on it.
    stats_tls: Option<StatsTls>,
    /// The problems of classes and of these Secrets.
    problems: Vec<Arc<Problem>>,
}

/// The changes of one update.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// The changed entries of the model.
    pub touched: Touched,
    /// The sources that were parsed again, that gained their first or lost their last route, or that are no longer
    /// served by class.
    pub sources: BTreeSet<ObjectId>,
}

/// The translation and its intermediate results.
#[derive(Debug)]
pub struct Translator {
    dialects: &'static [Dialect],
    /// The listeners that all objects share.
    shared: SharedListeners,
    model: Model,
    ledger: Ledger,
    /// The verdicts on sources, with their conflicts.
    verdicts: Verdicts,
    conflicts: Conflicts,
    /// Gateways and the routes that are attached to them.
    gateways: Gateways,
    general: General,
    classes: Classes,
    host_grants: HostGrants,
    backend_policies: BackendPolicies,
    /// The problems of each policy in `backend_policies`.
    backend_policy_problems: BTreeMap<ObjectId, Vec<Arc<Problem>>>,
    sources: Sources,
    graph: Graph,
    /// The sources with a default backend.
    with_default: BTreeSet<Precedence>,
    /// The owner and the default backend of the hosts that no rule names.
    nameless: Nameless,
    claims: Claims,
    sites: Sites,
    copies: Copies,
    /// The sizes of the policies of sources on the shared listeners.
    shared_policies: SharedPolicies,
    served: Served,
    outcomes: Outcomes,
    clusters: Clusters,
    envoys: Envoys,
    endpoint_problems: BTreeMap<ServicePortId, Vec<Arc<Problem>>>,
    /// For each Secret, the number of TLS hosts, clusters, and statistics listeners that use it.
    uses_of_secrets: BTreeMap<SecretId, usize>,
    /// The used authorities with revocation lists.
    revoking: BTreeSet<SecretId>,
    /// The problem of each object that cannot be decoded completely.
    encoding_problems: BTreeMap<ObjectId, Arc<Problem>>,
}

/// Creates a translator of all dialects.
impl Default for Translator {
    fn default() -> Self {
        Self::new(&DIALECTS)
    }
}

impl Translator {
    /// Creates a translator of these dialects without a translation.
    pub fn new(dialects: &'static [Dialect]) -> Self {
        Self {
            dialects,
            shared: SharedListeners::default(),
            model: Model::default(),
            ledger: Ledger::default(),
            verdicts: Verdicts::default(),
            conflicts: Conflicts::default(),
            gateways: Gateways::default(),
            general: General::default(),
            classes: Classes::default(),
            host_grants: HostGrants::default(),
            backend_policies: BackendPolicies::default(),
            backend_policy_problems: BTreeMap::new(),
            sources: Sources::default(),
            graph: Graph::default(),
            with_default: BTreeSet::new(),
            nameless: Nameless::default(),
            claims: Claims::default(),
            sites: Sites::default(),
            copies: Copies::default(),
            shared_policies: SharedPolicies::default(),
            served: Served::new(dialects),
            outcomes: Outcomes::default(),
            clusters: Clusters::default(),
            envoys: Envoys::default(),
            endpoint_problems: BTreeMap::new(),
            uses_of_secrets: BTreeMap::new(),
            revoking: BTreeSet::new(),
            encoding_problems: BTreeMap::new(),
        }
    }

    /// Returns the model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Returns the problems.
    pub fn problems(&self) -> &Problems {
        self.ledger.found()
    }

    /// Returns the verdicts on the sources that are served by class.
    pub fn verdicts(&self) -> &Verdicts {
        &self.verdicts
    }

    /// Returns the reports on the Gateways that are served by class.
    pub fn gateways(&self) -> &Reports {
        &self.gateways.reports
    }

    /// Returns the reports on the BackendTLSPolicies of the backends of Gateways that are served by class.
    pub fn policies(&self) -> &PolicyReports {
        &self.gateways.policy_reports
    }

    /// Returns the hosts whose stored claim does not match their rules.
    pub fn unsettled_hosts(&self) -> &UnsettledHosts {
        self.claims.unsettled()
    }

    /// Returns the translated revision of a source that is served by class.
    pub fn revision(&self, source: &ObjectId) -> Option<Revision> {
        if source.kind == Kind::HOST_GRANT {
            return self.host_grants.get(&source.key).map(|grant| grant.revision);
        }
        if let Some(policy) = self.backend_policies.get(source) {
            return Some(policy.revision);
        }
        self.sources.get(source).map(|source| source.revision).or_else(|| self.gateways.revision(source))
    }

    /// Returns whether a source is served by class.
    pub fn serves(&self, source: &ObjectId) -> bool {
        self.revision(source).is_some()
    }

    /// Returns whether a served source or its cluster reads an input, or would read it if it existed.
    pub fn is_dependency(&self, input: &Input) -> bool {
        let (kind, key) = (input.kind(), input.key());
        let is_of_settings = || {
            let secret = SecretId::new(key.clone(), SecretPart::KeyPair);
            let Ground { default_secret, fallback_secret, client_certificate: _ } = &self.general.ground;
            let named = [default_secret, fallback_secret].into_iter().flatten().any(|named| *named == secret);
            named || self.uses_of_secrets.contains_key(&secret)
        };
        if kind.info().grouping == Grouping::ByService {
            return self.graph.is_used(&Input::new(Kind::SERVICE, key.clone()));
        }
        // Every source reads the classes and the HostGrants, and an external name reads all Namespaces.
        kind == Kind::INGRESS_CLASS
            || kind == Kind::HOST_GRANT
            || kind == Kind::NAMESPACE && self.host_grants.read_labels()
            || kind == Kind::NAMESPACE && self.clusters.readers_of_namespaces().next().is_some()
            || kind == Kind::SECRET && is_of_settings()
            || kind == Kind::SERVICE && self.backend_policies.name(key)
            || FOREIGN_POLICIES.contains(&kind) && self.may_have_target(&kind.id(key.clone()))
            || self.graph.is_used(input)
            || self.serves(&kind.id(key.clone()))
    }

    /// Returns the inputs that a source reads in addition to its own object, whether they exist or not, and those that its includers
    /// read. A route without a served Gateway also reads Gateways.
    pub fn inputs<'a>(&'a self, source: &ObjectId) -> impl Iterator<Item = &'a Input> + use<'a> {
        let of_includers = self.includers(source).flat_map(|includer| self.sources.inputs(includer));
        let of_policy = self.backend_policies.get(source).into_iter().flat_map(|policy| policy.inputs.iter());
        self.sources.inputs(source).iter().chain(self.gateways.inputs(source)).chain(of_policy).chain(of_includers)
    }

    /// Returns whether a source has lost all its routes: every route belongs to other sources, or is invalid. A source
    /// that never requested a route has lost nothing. The routes of the objects that a source includes are also its routes.
    pub fn has_lost(&self, source: &ObjectId) -> bool {
        let Some(asking) = self.sources.get(source).filter(|source| source.asks) else { return false };
        !self.served.contains(source) && !self.included(asking).iter().any(|included| self.served.contains(included))
    }

    /// Returns the sources that are served by class.
    pub fn sources(&self) -> impl Iterator<Item = ObjectId> {
        let grants = self.host_grants.all().map(|grant| Kind::HOST_GRANT.id(grant.key.clone()));
        let policies = self.backend_policies.ids().cloned();
        policies.chain(grants).chain(self.sources.iter().map(|(id, _)| id.clone())).chain(self.gateways.ids())
    }

    /// Returns the model, the problems, and the sources that are served by class.
    pub fn into_parts(self) -> (Model, Problems, BTreeSet<ObjectId>) {
        let sources = self.sources().collect();
        (self.model, self.ledger.found().clone(), sources)
    }

    /// Returns the namespaces whose objects cause the largest configurations, at most `most`, with the size that is nearest to the
    /// limit, in bytes. Smaller ones than `at_least` are left out.
    pub fn largest_configurations(&self, at_least: u64, most: usize) -> Vec<(Arc<str>, u64)> {
        let gateways = self.gateways.budget.charges.totals().chain(self.gateways.authorities.totals());
        let mut sizes = BTreeMap::<&Arc<str>, u64>::new();
        let shared = self.copies.totals().chain(self.shared_policies.sizes.totals());
        for (namespace, size) in gateways.chain(shared).filter(|(_, size)| *size >= at_least) {
            let largest = sizes.entry(namespace).or_default();
            *largest = size.max(*largest);
        }
        let mut sizes: Vec<(Arc<str>, u64)> = sizes.into_iter().map(|(name, size)| (name.clone(), size)).collect();
        sizes.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
        sizes.truncate(most);
        sizes
    }

    /// Updates the translation to `objects` and `settings`. They differ from the previous update only by `changed`.
    pub fn update(&mut self, objects: &Objects, settings: &Settings, changed: &ChangedInputs) -> Update {
        if changed.is_everything() {
            return self.translate_all(objects, settings);
        }
        let mut due = Due::default();
        let classes = changed.of_kind(Kind::INGRESS_CLASS).next().is_some();
        if classes || changed.of_kind(Kind::SECRET).next().is_some() {
            self.update_general(General::new(objects, settings), &mut due);
        }
        if classes {
            due.sources.extend(self.update_classes(objects, settings));
        }
        self.follow(objects, settings, changed, due)
    }

    /// Updates the part that does not depend on single sources. Adds the dependents of changed Secrets to `due`.
    ///
    /// The update iterates over all sources and clusters. An index would cost more, because the usability of these
    /// Secrets rarely changes.
    fn update_general(&mut self, general: General, due: &mut Due) {
        let before = std::mem::replace(&mut self.general, general);
        self.ledger.replace(&before.problems, &self.general.problems);
        let (before, now) = (&before.ground, &self.general.ground);
        if before.default_secret != now.default_secret {
            let asking = self.sources.iter().filter(|(_, source)| !source.shared.entries.is_empty());
            for (id, source) in asking {
                due.sources.insert(id.clone());
                due.hosts.extend(source.shared.hosts().cloned());
            }
        }
        if before.client_certificate != now.client_certificate {
            due.services.extend(self.clusters.readers_of_client_certificate());
            // They have no cluster of their own.
            let extensions = self.sources.iter().filter(|(id, _)| id.kind == Kind::EXTENSION_SERVICE);
            due.sources.extend(extensions.map(|(id, _)| id.clone()));
        }
        due.presented_to_all =
            before.default_secret != now.default_secret || before.presented_to_all() != now.presented_to_all();
    }

    /// Updates the classes. Returns the sources whose class started or stopped being served, and the sources that include them.
    ///
    /// The update compares the class of every source, which costs less than an index of all sources by class.
    fn update_classes(&mut self, objects: &Objects, settings: &Settings) -> BTreeSet<ObjectId> {
        let before = std::mem::replace(&mut self.classes, Classes::new(objects, settings));
        if before == self.classes {
            return BTreeSet::new();
        }
        let moved = |(dialect, object): &(&Dialect, &Object)| {
            dialect.serves(object, &before) != dialect.serves(object, &self.classes)
        };
        let moved: Vec<ObjectId> =
            candidates(self.dialects, objects).filter(moved).map(|(_, object)| object.id()).collect();
        let inputs: Vec<Input> = moved.iter().map(|id| Input::new(id.kind, id.key.clone())).collect();
        let readers = inputs.iter().flat_map(|input| self.graph.readers(input)).cloned();
        let includers = readers.filter(|id| dialect::of(self.dialects, id.kind).is_some());
        includers.chain(moved.iter().cloned()).collect()
    }

    /// Translates everything from scratch.
    fn translate_all(&mut self, objects: &Objects, settings: &Settings) -> Update {
        let general = General::new(objects, settings);
        let before = std::mem::replace(self, Self::new(self.dialects));
        self.classes = Classes::new(objects, settings);
        self.ledger.add(&general.problems);
        self.general = general;
        self.model.listeners = self.shared.of_settings(settings);
        let sources = candidates(self.dialects, objects).map(|(_, object)| object.id()).collect();
        let due = Due { sources, ..Due::default() };
        let mut update = self.follow(objects, settings, &ChangedInputs::everything(), due);
        update.touched.listeners.extend(self.model.listeners.keys().cloned());
        update.touched.extend(Touched::all(&before.model));
        update.sources.extend(before.sources());
        update
    }

    /// Updates the units that the changes affect, and the units in `due`.
    fn follow(&mut self, objects: &Objects, settings: &Settings, changed: &ChangedInputs, mut due: Due) -> Update {
        due.services.extend(changed.of_kind(Kind::SERVICE).cloned());
        if changed.of_kind(Kind::NAMESPACE).next().is_some() {
            due.services.extend(self.clusters.readers_of_namespaces());
        }
        let mut update = Update::default();
        self.update_backend_policies(objects, settings, changed, &mut due, &mut update);
        due.services.iter().for_each(|service| self.clusters.forget_service(service, &mut self.ledger));
        let mut units = self.update_host_grants(objects, settings, changed, &mut due, &mut update);
        units.extend(self.add_due_sources(objects, changed, &mut due));
        let Due { mut sources, hosts, services, presented_to_all } = due;
        let mut affected = Affected { shared: hosts, ..Affected::default() };
        affected.shared.extend(self.claims.update(objects, settings, &self.host_grants, changed));
        let parents = self.update_parents(objects, settings, changed, units, &mut sources, &mut affected, &mut update);
        self.parse_sources(sources, objects, settings, &mut affected, &mut update);
        self.rebuild_attached(parents, &mut affected, settings, &mut update);
        let Affected { shared: mut hosts, has_other_default, .. } = affected;
        self.update_installation(objects, settings, &mut update.touched);
        self.clusters.forget_unread(&mut self.ledger);
        self.update_policies_of_clusters(&mut update);
        if (has_other_default || hosts.contains(&Host::Any)) && self.find_nameless(settings) {
            hosts.insert(Host::Any);
        }
        self.sites.close(&mut hosts);
        self.rebuild_hosts(hosts, objects, settings, &mut update.touched);
        // The entry for unknown hosts uses the default or fallback certificate, whether or not a source names these
        // hosts.
        let secrets = changed.is_everything() || changed.of_kind(Kind::SECRET).next().is_some();
        if presented_to_all || secrets && self.general.ground.presented_to_all().is_some() {
            self.rebuild_hosts([Host::Any].into(), objects, settings, &mut update.touched);
        }
        let served = self.served.take_changed();
        // A full translation has added all sources already.
        if !changed.is_everything() {
            let includers = served.iter().flat_map(|source| self.includers(source)).cloned().collect::<Vec<_>>();
            update.sources.extend(served.into_iter().chain(includers).filter(|source| self.serves(source)));
        }
        let [before, now] = self.outcomes.report();
        self.replace_conflicts(ConflictPlace::Shared, &before, &now);
        self.update_clusters(objects, settings, changed, &services, &mut update.touched);
        self.update_stats(&mut update.touched);
        self.update_secrets(objects, changed, &mut update.touched);
        self.update_encodings(objects, changed);
        self.update_verdicts();
        self.ledger.report();
        update
    }

    /// Updates the identity of the installation, which every listener for HTTP contains.
    fn update_installation(&mut self, objects: &Objects, settings: &Settings, touched: &mut Touched) {
        let now = envoys::installation(objects, settings);
        if self.model.installation != now {
            self.model.installation = now;
            touched.listeners.extend(self.model.listeners.keys().cloned());
        }
    }

    /// Extends `due` with the sources that have changed, that read a changed input, or whose rank has changed. Returns the
    /// units of Gateway API that read a changed input.
    fn add_due_sources(&self, objects: &Objects, changed: &ChangedInputs, due: &mut Due) -> BTreeSet<ObjectId> {
        for dialect in self.dialects {
            let of_kind = changed.of_kind(dialect.kind).cloned();
            due.sources.extend(of_kind.map(|key| ObjectId { kind: dialect.kind, key }));
            let namespaces = changed.of_kind(Kind::NAMESPACE);
            due.sources
                .extend(namespaces.flat_map(|namespace| self.sources.outranked(dialect, namespace, objects)).cloned());
        }
        let services_read = due.services.iter().map(|key| Input::new(Kind::SERVICE, key.clone()));
        let read: BTreeSet<Input> = changed.inputs().cloned().chain(services_read).collect();
        let readers = read.iter().flat_map(|input| self.graph.readers(input)).cloned();
        let (units, sources): (BTreeSet<_>, BTreeSet<_>) = readers.partition(|id| gateways::is_unit(id.kind));
        due.sources.extend(sources);
        units
    }
}

impl General {
    fn new(objects: &Objects, settings: &Settings) -> Self {
        let mut problems = class::problems(objects, settings);
        let client_certificate = tls::client_certificate(objects, settings, &mut problems);
        let default_secret = tls::default_secret(objects, settings, &mut problems);
        let fallback_secret = tls::fallback_secret(objects, settings, &mut problems);
        let stats_tls = tls::stats(objects, settings, &mut problems);
        let problems = problems.into_iter().map(Arc::new).collect();
        Self { ground: Ground { default_secret, fallback_secret, client_certificate }, stats_tls, problems }
    }
}

/// Sets the entry at `key`, or removes it.
fn set<K: Ord + Clone, V>(map: &mut BTreeMap<K, V>, key: &K, value: Option<V>) {
    match value {
        Some(value) => drop(map.insert(key.clone(), value)),
        None => drop(map.remove(key)),
    }
}
