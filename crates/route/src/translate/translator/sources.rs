//! Parses the objects of all dialects into sources.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::state::clusters::NewClusters;
use super::state::sources::{Affected, Sources};
use super::state::{AT_A_TIME, Translator, Update};
use crate::few::beyond;
use crate::objects::{Object, ObjectId, Objects};
use crate::parallel;
use crate::settings::Settings;
use crate::translate::backend::{Context, Located};
use crate::translate::dialect::{self, Dialect, Resolver, Selection};
use crate::translate::graph::Input;
use crate::translate::source::{Dependencies, Source};

impl Translator {
    /// Parses sources again.
    pub(super) fn parse_sources(
        &mut self,
        due: BTreeSet<ObjectId>,
        objects: &Objects,
        settings: &Settings,
        affected: &mut Affected,
        update: &mut Update,
    ) {
        let due: Vec<ObjectId> = due.into_iter().collect();
        let mut referenced = BTreeSet::new();
        for batch in due.chunks(AT_A_TIME) {
            let parsed = parallel::map(batch, |id| self.parse(id, objects, settings));
            for (id, (now, made)) in batch.iter().zip(parsed) {
                self.clusters.add(made, &mut self.ledger);
                let is_known = |sources: &Sources| sources.get(id).is_some() || sources.waiting.contains_key(id);
                let was_known = is_known(&self.sources);
                referenced.extend(self.replace_source(id, now, affected));
                if was_known || is_known(&self.sources) {
                    affected.replaced.insert(id.clone());
                    update.sources.insert(id.clone());
                }
            }
        }
        // A reference can start or stop the service of an object. Such an object reads no other one.
        referenced.retain(|id| self.sources.get(id).is_some() != self.is_served(id, objects));
        if !referenced.is_empty() {
            self.parse_sources(referenced, objects, settings, affected, update);
        }
    }

    /// Returns whether an object exists and is served.
    fn is_served(&self, id: &ObjectId, objects: &Objects) -> bool {
        let object = objects.of_kind(id.kind).get(&id.key);
        let dialect = dialect::of(self.dialects, id.kind);
        dialect.zip(object).is_some_and(|(dialect, object)| self.selects(dialect, object))
    }

    /// Returns whether the class of an object is served, or a served source refers to the object.
    fn selects(&self, dialect: &Dialect, object: &Object) -> bool {
        let is_referenced = || {
            let id = object.id();
            matches!(dialect.selection, Selection::Referenced) && self.graph.is_used(&Input::new(id.kind, id.key))
        };
        dialect.serves(object, &self.classes) || is_referenced()
    }

    /// Parses a source and builds its clusters. Errors: the dependencies of an object that this controller does not serve.
    fn parse(
        &self,
        id: &ObjectId,
        objects: &Objects,
        settings: &Settings,
    ) -> (Result<Source, Dependencies>, NewClusters) {
        let dialect = dialect::of(self.dialects, id.kind);
        let object = objects.of_kind(id.kind).get(&id.key);
        match dialect.zip(object).filter(|(dialect, object)| self.selects(dialect, object)) {
            Some((dialect, object)) => self.read(objects, settings, |resolver| (dialect.parse)(object, resolver)),
            None => (Err(Dependencies::default()), NewClusters::new()),
        }
    }

    /// Calls `parse` with a resolver of references. Returns its result and the new clusters.
    pub(super) fn read<T>(
        &self,
        objects: &Objects,
        settings: &Settings,
        parse: impl FnOnce(Resolver) -> T,
    ) -> (T, NewClusters) {
        let client_certificate = self.general.ground.client_certificate.as_ref();
        let backend_policies = &self.backend_policies;
        let context = Context { objects, settings, backend_policies, client_certificate };
        let mut made = NewClusters::new();
        let mut authorize = |located: &Located<'_>| self.clusters.authorize(located, context, &mut made);
        let default_secret = self.general.ground.default_secret.as_ref();
        let rules = (&self.classes, &self.host_grants);
        let resolver = Resolver::new(context, default_secret, rules, &self.gateways, &mut authorize);
        let result = parse(resolver);
        (result, made)
    }

    /// Replaces a source in all collections. Returns the objects that are served because sources refer to them, and whose references may
    /// have changed.
    fn replace_source(
        &mut self,
        id: &ObjectId,
        now: Result<Source, Dependencies>,
        affected: &mut Affected,
    ) -> BTreeSet<ObjectId> {
        let none = Dependencies::default();
        let before = self.sources.get(id).cloned();
        let new = now.as_ref().map_or_else(|reads| reads, |source| &source.dependencies);
        let old_inputs = self.sources.inputs(id);
        let differing = beyond(&new.inputs, old_inputs).chain(beyond(old_inputs, &new.inputs));
        let referenced = differing.filter(|input| {
            let dialect = dialect::of(self.dialects, input.kind());
            dialect.is_some_and(|dialect| matches!(dialect.selection, Selection::Referenced))
        });
        let referenced = referenced.map(|input| input.kind().id(input.key().clone())).collect();
        self.graph.replace(id, self.sources.inputs(id), &new.inputs);
        // The readers of each cluster are updated in any case, because a cluster that was dropped has been built again.
        let old = before.as_ref().map_or(&none, |source| &source.dependencies);
        self.clusters.read(&old.clusters, &new.clusters);
        self.sources.waiting.remove(id);
        let now = match now {
            Ok(source) => Some(Arc::new(source)),
            Err(reads) if reads.inputs.is_empty() => None,
            Err(reads) => {
                self.sources.waiting.insert(id.clone(), reads.inputs);
                None
            }
        };
        if before == now {
            return referenced;
        }
        let problems =
            |source: &Option<Arc<Source>>| source.as_ref().map_or_else(Box::default, |source| source.problems.clone());
        self.ledger.replace(&problems(&before), &problems(&now));
        self.replace_verdicts(id, before.as_deref(), now.as_deref());
        self.recount_routes(before.as_deref(), now.as_deref(), &mut affected.services);
        if let Some(source) = &before {
            self.leave(source, affected);
        }
        match now {
            Some(source) => {
                self.enter(&source, affected);
                self.sources.served.insert(id.clone(), source);
            }
            None => drop(self.sources.served.remove(id)),
        }
        referenced
    }

    /// Adds a source to its hosts on the shared listeners. The limit of its namespace adds it to its hosts on listeners of Gateways.
    fn enter(&mut self, source: &Source, affected: &mut Affected) {
        affected.shared.extend(source.shared.hosts().cloned());
        if source.shared.default_backend.is_some() {
            affected.has_other_default = true;
            self.with_default.insert(source.precedence.clone());
        }
        self.sites.enter(source);
    }

    /// Removes a source from its hosts.
    fn leave(&mut self, source: &Source, affected: &mut Affected) {
        affected.shared.extend(source.shared.hosts().cloned());
        affected.has_other_default |= source.shared.default_backend.is_some();
        self.with_default.remove(&source.precedence);
        self.sites.leave(source);
        for owner in source.attached.owners() {
            self.set_state(source, &owner, None, affected);
        }
    }
}
