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
mod queries;
mod secrets;
mod served;
mod shared_policies;
mod sites;
mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::{Host, Model, SecretId, ServicePortId, StatsTls, Touched};
use crate::objects::{Kind, Object, ObjectId, ObjectKey, Objects, Precedence};
use crate::settings::Settings;

use super::backend_policies::BackendPolicies;
use super::class::{self, Classes};
use super::conflicts::ConflictPlace;
use super::dialect::{self, DIALECTS, Dialect};
use super::envoys::{self, Envoys};
use super::graph::{ChangedInputs, Graph, Input};
use super::host_grants::HostGrants;
use super::listeners::SharedListeners;
use super::problem::Problem;
use super::tls;
use super::verdict::Verdicts;

use claims::Claims;
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
