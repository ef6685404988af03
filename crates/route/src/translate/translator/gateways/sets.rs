//! The ListenerSets of Gateways. A changed ListenerSet leads to the Gateway that it names.

use std::collections::{BTreeMap, BTreeSet};

use super::{Translator, Update};
use crate::objects::gateway::ListenerSet;
use crate::objects::{Kind, ObjectId, ObjectKey, Objects};
use crate::translate::ChangedInputs;
use crate::translate::gateway::listener::{AddedSet, Gateway};
use crate::translate::verdict;

/// The ListenerSets that name each Gateway, whether the Gateway exists or not.
#[derive(Debug, Default)]
pub struct SetsByGateway {
    of_gateway: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    gateways: BTreeMap<ObjectKey, ObjectKey>,
}

impl SetsByGateway {
    /// Returns the ListenerSets that name a Gateway.
    pub fn of(&self, gateway: &ObjectKey) -> impl Iterator<Item = &ObjectKey> {
        self.of_gateway.get(gateway).into_iter().flatten()
    }

    /// Replaces the Gateway that a ListenerSet names. Returns the Gateways that it named before and names now.
    fn replace(&mut self, set: &ObjectKey, now: Option<ObjectKey>) -> impl Iterator<Item = ObjectKey> {
        let before = self.gateways.remove(set);
        if let Some(gateway) = &before
            && let Some(sets) = self.of_gateway.get_mut(gateway)
        {
            sets.remove(set);
            if sets.is_empty() {
                self.of_gateway.remove(gateway);
            }
        }
        if let Some(gateway) = &now {
            self.gateways.insert(set.clone(), gateway.clone());
            self.of_gateway.entry(gateway.clone()).or_default().insert(set.clone());
        }
        before.into_iter().chain(now)
    }
}

impl Translator {
    /// Records which Gateways the changed ListenerSets name. Returns the Gateways to parse again.
    pub(super) fn regroup_sets(
        &mut self,
        objects: &Objects,
        changed: &ChangedInputs,
        update: &mut Update,
    ) -> BTreeSet<ObjectId> {
        let keys: Vec<ObjectKey> = match changed.is_everything() {
            true => objects.of_kind(Kind::LISTENER_SET).keys().cloned().collect(),
            false => changed.of_kind(Kind::LISTENER_SET).cloned().collect(),
        };
        let mut gateways = BTreeSet::new();
        for key in keys {
            let now = objects.get::<ListenerSet>(&key).and_then(ListenerSet::gateway);
            gateways.extend(self.gateways.named.replace(&key, now).map(|gateway| Kind::GATEWAY.id(gateway)));
            update.sources.insert(Kind::LISTENER_SET.id(key));
        }
        gateways
    }

    /// Replaces the ListenerSets of a Gateway.
    pub(super) fn replace_sets(
        &mut self,
        gateway: &ObjectKey,
        before: Option<&Gateway>,
        now: Option<&Gateway>,
        update: &mut Update,
    ) {
        let (old, new) = (by_key(before), by_key(now));
        for key in old.keys().copied().filter(|key| !new.contains_key(key)) {
            let id = Kind::LISTENER_SET.id(key.clone());
            // It may name another Gateway by now, which has been parsed earlier.
            if self.gateways.sets.get(key) == Some(gateway) {
                self.gateways.sets.remove(key);
                self.verdicts.remove(&id);
            }
            update.sources.insert(id);
        }
        for (key, set) in new {
            if old.get(key) != Some(&set) {
                let id = Kind::LISTENER_SET.id(key.clone());
                self.gateways.sets.insert(key.clone(), gateway.clone());
                self.verdicts.insert(id.clone(), verdict::bounded(&set.verdicts));
                update.sources.insert(id);
            }
        }
    }
}

fn by_key(gateway: Option<&Gateway>) -> BTreeMap<&ObjectKey, &AddedSet> {
    gateway.into_iter().flat_map(|gateway| &gateway.sets).map(|set| (set.key(), set)).collect()
}

/// Returns the parents whose routes see other listeners than before: the Gateway itself, and its ListenerSets.
pub fn seen_otherwise(key: &ObjectKey, before: Option<&Gateway>, now: Option<&Gateway>) -> BTreeSet<ObjectId> {
    let [old, new] = [before, now].map(|gateway| gateway.map(Gateway::seen).unwrap_or_default());
    let [old_sets, new_sets] = [before, now].map(by_key);
    let certificate = |gateway: Option<&Gateway>| gateway.map(|gateway| gateway.certificate.clone());
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
