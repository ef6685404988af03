//! The effects of HostGrants: a change affects the sources with a host that the namespace must no longer define, and the sources that
//! were parsed without a host. The same applies to the labels of a namespace.
//!
//! The update iterates over all sources. An index of the sources by host and namespace would cost memory, and HostGrants rarely change.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::state::{Due, Translator, Update};
use crate::model::Host;
use crate::objects::{Kind, ObjectId, Objects};
use crate::settings::Settings;
use crate::translate::ChangedInputs;
use crate::translate::host_grants::{Granted, HostGrants};
use crate::translate::problem::{Cause, Problem, Reason};
use crate::translate::source::Source;

impl Translator {
    /// Updates the HostGrants. Extends `due` with the sources that they affect. Returns the affected Gateways.
    pub(super) fn update_host_grants(
        &mut self,
        objects: &Objects,
        settings: &Settings,
        changed: &ChangedInputs,
        due: &mut Due,
        update: &mut Update,
    ) -> BTreeSet<ObjectId> {
        let is_changed = changed.is_everything() || changed.of_kind(Kind::HOST_GRANT).next().is_some();
        if is_changed {
            self.replace_host_grants(HostGrants::new(objects, settings), due, update);
        }
        // A full translation parses everything anyway.
        if changed.is_everything() {
            return BTreeSet::new();
        }
        let read_labels = self.host_grants.read_labels();
        let namespaces: BTreeSet<&Arc<str>> =
            changed.of_kind(Kind::NAMESPACE).filter(|_| read_labels).map(|key| &key.name).collect();
        if !is_changed && namespaces.is_empty() {
            return BTreeSet::new();
        }
        let may_differ = |id: &ObjectId| is_changed || namespaces.contains(&id.key.namespace);
        let refuses = |id: &ObjectId, host: &Host| !self.host_grants.permit(host, &id.key.namespace, objects);
        let is_due = |(id, source): &(&ObjectId, &Arc<Source>)| {
            may_differ(id) && (source.has_refused_hosts || source.all_hosts().any(|host| refuses(id, host)))
        };
        due.sources.extend(self.sources.iter().filter(is_due).map(|(id, _)| id.clone()));
        // A Gateway reads the namespaces of its ListenerSets anyway.
        let with_sets = self.gateways.gateways.iter().filter(|(_, gateway)| is_changed && !gateway.sets.is_empty());
        with_sets.map(|(key, _)| Kind::GATEWAY.id(key.clone())).collect()
    }

    /// Replaces the HostGrants, their problems, and the verdicts on them.
    fn replace_host_grants(&mut self, now: HostGrants, due: &mut Due, update: &mut Update) {
        let before = std::mem::replace(&mut self.host_grants, now);
        // Ownership of a wildcard does not include them.
        due.hosts.extend(before.differing_names(&self.host_grants));
        let problems = |grants: &HostGrants| grants.all().flat_map(|grant| grant.problems.to_vec()).collect::<Vec<_>>();
        self.ledger.replace(&problems(&before), &problems(&self.host_grants));
        for Granted { key, .. } in before.all() {
            self.verdicts.remove(&Kind::HOST_GRANT.id(key.clone()));
            update.sources.insert(Kind::HOST_GRANT.id(key.clone()));
        }
        for Granted { key, verdicts, .. } in self.host_grants.all() {
            self.verdicts.insert(Kind::HOST_GRANT.id(key.clone()), verdicts.clone());
            update.sources.insert(Kind::HOST_GRANT.id(key.clone()));
        }
    }

    /// Returns the problems of the objects that name one of these hosts, but must not define it. Routes that are attached to no listener
    /// are left out: their conditions contain the problem.
    pub(super) fn refused_hosts<'a>(&'a self, hosts: &'a [Host]) -> impl Iterator<Item = &'a Arc<Problem>> {
        let is_about = |problem: &Problem| {
            let is_attached = !problem.field.starts_with("spec.parentRefs");
            let host = match problem.message.cause() {
                Some(Cause::HostNotGranted { host, .. }) => Some(host),
                _ => None,
            };
            is_attached && host.is_some_and(|host| hosts.contains(host))
        };
        let refused = self.problems().iter().filter(|one| one.reason == Reason::HostNotGranted);
        refused.filter(move |problem| is_about(problem))
    }
}
