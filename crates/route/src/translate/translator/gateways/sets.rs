//! The ListenerSets of Gateways. A changed ListenerSet affects the Gateway that it names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::objects::gateway::ListenerSet;
use crate::objects::{Kind, ObjectId, ObjectKey, Objects, Revision};
use crate::translate::ChangedInputs;
use crate::translate::gateway::listener::{AddedSet, ParsedGateway, most_parsed};
use crate::translate::problem::{Problem, Reason};
use crate::translate::translator::state::listener_sets::{Regrouped, SurplusListenerSet};
use crate::translate::translator::state::{Translator, Update};
use crate::translate::verdict::{self, Status, Verdict};

/// The reason of the condition `Accepted` of a ListenerSet that is surplus.
const TOO_MANY: &str = "TooManyListeners";

impl Translator {
    /// Records which Gateways the changed ListenerSets name.
    pub(super) fn regroup_sets(
        &mut self,
        objects: &Objects,
        changed: &ChangedInputs,
        update: &mut Update,
    ) -> Regrouped {
        let keys: Vec<ObjectKey> = match changed.is_everything() {
            true => objects.of_kind(Kind::LISTENER_SET).keys().cloned().collect(),
            false => changed.of_kind(Kind::LISTENER_SET).cloned().collect(),
        };
        let mut regrouped = Regrouped::default();
        for key in keys {
            let now = objects.get::<ListenerSet>(&key).and_then(|set| {
                let rank = (set.meta.terminating, set.meta.created, key.clone());
                set.gateway().map(|gateway| (gateway, rank))
            });
            self.gateways.named.replace(&key, now, &mut regrouped);
            update.sources.insert(Kind::LISTENER_SET.id(key));
        }
        regrouped
    }

    /// Updates the conditions of the surplus ListenerSets in `keys`, and of the surplus ListenerSets that name one of
    /// the `gateways`. Returns the ListenerSets whose routes may be affected.
    pub(super) fn update_surplus(
        &mut self,
        mut keys: BTreeSet<ObjectKey>,
        gateways: &BTreeSet<ObjectKey>,
        objects: &Objects,
        update: &mut Update,
    ) -> BTreeSet<ObjectId> {
        keys.extend(gateways.iter().flat_map(|gateway| self.gateways.named.surplus(gateway)).cloned());
        let mut changed = BTreeSet::new();
        for key in keys {
            let before = self.gateways.surplus.remove(&key);
            let now = self.surplus(&key, objects);
            if before.is_none() && now.is_none() {
                continue;
            }
            let id = Kind::LISTENER_SET.id(key.clone());
            let problem = |surplus: &Option<SurplusListenerSet>| surplus.as_ref().map(|one| one.problem.clone());
            self.ledger.replace(problem(&before).as_slice(), problem(&now).as_slice());
            if let Some(surplus) = now {
                let accepted = Verdict::new(surplus.problem.object.clone(), "Accepted", Status::False, TOO_MANY);
                let message = surplus.problem.message.clone();
                self.verdicts.insert(id.clone(), verdict::bounded(&[Verdict { message, ..accepted }]));
                self.gateways.surplus.insert(key, surplus);
            } else if !self.gateways.sets.contains_key(&key) {
                self.verdicts.remove(&id);
            }
            update.sources.insert(id.clone());
            changed.insert(id);
        }
        changed
    }

    /// Returns the state of a ListenerSet that is surplus at a served Gateway.
    fn surplus(&self, key: &ObjectKey, objects: &Objects) -> Option<SurplusListenerSet> {
        let gateway = self.gateways.named.surplus_at(key)?;
        self.gateways.gateways.get(gateway)?;
        let set = objects.get::<ListenerSet>(key)?;
        let most = most_parsed(&key.namespace, gateway);
        let message = format!("the Gateway reads only the {most} oldest ListenerSets of this namespace");
        let problem = Problem {
            object: set.meta.object_ref(Kind::LISTENER_SET),
            field: String::new(),
            reason: Reason::ListenerNotValid,
            message: message.into(),
            consequence: "not served".to_owned(),
        };
        let revision = Revision::new(&set.meta, &());
        Some(SurplusListenerSet { gateway: gateway.clone(), revision, problem: Arc::new(problem) })
    }

    /// Replaces the ListenerSets of a Gateway.
    pub(super) fn replace_sets(
        &mut self,
        gateway: &ObjectKey,
        before: Option<&ParsedGateway>,
        now: Option<&ParsedGateway>,
        update: &mut Update,
    ) {
        let (old, new) = (by_key(before), by_key(now));
        for key in old.keys().copied().filter(|key| !new.contains_key(key)) {
            let id = Kind::LISTENER_SET.id(key.clone());
            // The ListenerSet may name another Gateway now, which has been parsed before.
            if self.gateways.sets.get(key).is_some_and(|(of, _)| of == gateway) {
                self.gateways.sets.remove(key);
                self.verdicts.remove(&id);
            }
            update.sources.insert(id);
        }
        for (key, set) in new {
            if old.get(key) != Some(&set) {
                let id = Kind::LISTENER_SET.id(key.clone());
                self.gateways.sets.insert(key.clone(), (gateway.clone(), set.revision));
                self.verdicts.insert(id.clone(), verdict::bounded(&set.verdicts));
                update.sources.insert(id);
            }
        }
    }
}

fn by_key(gateway: Option<&ParsedGateway>) -> BTreeMap<&ObjectKey, &AddedSet> {
    gateway.into_iter().flat_map(|gateway| &gateway.sets).map(|set| (set.key(), set)).collect()
}

/// Returns the parents for which the listeners that routes can attach to have changed: the Gateway itself, and its
/// ListenerSets.
pub fn seen_otherwise(
    key: &ObjectKey,
    before: Option<&ParsedGateway>,
    now: Option<&ParsedGateway>,
) -> BTreeSet<ObjectId> {
    let [old, new] = [before, now].map(|gateway| gateway.map(ParsedGateway::seen).unwrap_or_default());
    let [old_sets, new_sets] = [before, now].map(by_key);
    let certificate = |gateway: Option<&ParsedGateway>| gateway.map(|gateway| gateway.certificate.clone());
    let has_other_certificate = certificate(before) != certificate(now);
    let mut parents = BTreeSet::new();
    if has_other_certificate || old.get(&None) != new.get(&None) {
        parents.insert(Kind::GATEWAY.id(key.clone()));
    }
    for set in old_sets.keys().chain(new_sets.keys()).copied() {
        let attached = |sets: &BTreeMap<&ObjectKey, &AddedSet>| sets.get(set).map(|set| set.attached);
        let is_seen_otherwise = has_other_certificate || old.get(&Some(set)) != new.get(&Some(set));
        if is_seen_otherwise || attached(&old_sets) != attached(&new_sets) {
            parents.insert(Kind::LISTENER_SET.id(set.clone()));
        }
    }
    parents
}
