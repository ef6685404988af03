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
mod state;

pub use state::dedicated::Dedicated;
pub use state::{Translator, Update};

use std::collections::BTreeSet;

use crate::model::{Host, Touched};
use crate::objects::{Kind, Object, ObjectId, Objects};
use crate::settings::Settings;
use crate::translate::class::Classes;
use crate::translate::conflicts::ConflictPlace;
use crate::translate::dialect::{self, Dialect};
use crate::translate::envoys;
use crate::translate::graph::{ChangedInputs, Input};
use crate::translate::translator::state::sources::{Affected, candidates};
use crate::translate::translator::state::{Due, General};

impl Translator {
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
