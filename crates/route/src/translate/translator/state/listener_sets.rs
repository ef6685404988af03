//! The ListenerSets of each Gateway.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::objects::{ObjectKey, Revision};
use crate::translate::gateway::listener::most_parsed;
use crate::translate::problem::Problem;

/// The ListenerSets that name each Gateway, whether the Gateway exists or not.
///
/// A Gateway is parsed with the first ListenerSets of each namespace ([`most_parsed`]). All further ListenerSets are
/// surplus. None of their listeners could be accepted, and thousands of them must not slow down changes of the Gateway
/// and of other namespaces.
#[derive(Debug, Default)]
pub struct SetsByGateway {
    /// The ListenerSets by Gateway and by their own namespace.
    groups: BTreeMap<ObjectKey, BTreeMap<Arc<str>, BTreeSet<Rank>>>,
    /// The Gateway and the rank of each ListenerSet.
    places: BTreeMap<ObjectKey, (ObjectKey, Rank)>,
}

/// The rank of a ListenerSet in its namespace: whether it is being deleted, its creation time, and its key.
type Rank = (bool, i64, ObjectKey);

/// A ListenerSet that is not parsed with its Gateway.
#[derive(Debug)]
pub struct SurplusListenerSet {
    pub gateway: ObjectKey,
    pub revision: Revision,
    pub problem: Arc<Problem>,
}

/// The consequences of changed ListenerSets.
#[derive(Debug, Default)]
pub struct Regrouped {
    /// The Gateways to parse again.
    pub gateways: BTreeSet<ObjectKey>,
    /// The ListenerSets that have changed, or that may have become surplus or are no longer surplus.
    pub sets: BTreeSet<ObjectKey>,
}

impl SetsByGateway {
    /// Returns the ListenerSets that a Gateway is parsed with.
    pub fn of<'a>(&'a self, gateway: &'a ObjectKey) -> impl Iterator<Item = &'a ObjectKey> {
        let groups = self.groups.get(gateway).into_iter().flatten();
        groups.flat_map(|(namespace, group)| group.iter().take(most_parsed(namespace, gateway))).map(|(.., key)| key)
    }

    /// Returns the ListenerSets that name a Gateway and are surplus.
    pub fn surplus<'a>(&'a self, gateway: &'a ObjectKey) -> impl Iterator<Item = &'a ObjectKey> {
        let groups = self.groups.get(gateway).into_iter().flatten();
        groups.flat_map(|(namespace, group)| group.iter().skip(most_parsed(namespace, gateway))).map(|(.., key)| key)
    }

    /// Returns the Gateway of a ListenerSet that is surplus.
    pub fn surplus_at(&self, set: &ObjectKey) -> Option<&ObjectKey> {
        let (gateway, rank) = self.places.get(set)?;
        let first = self.first_surplus(gateway, &set.namespace)?;
        (rank >= first).then_some(gateway)
    }

    fn first_surplus(&self, gateway: &ObjectKey, namespace: &Arc<str>) -> Option<&Rank> {
        self.groups.get(gateway)?.get(namespace)?.iter().nth(most_parsed(namespace, gateway))
    }

    /// Replaces the Gateway that a ListenerSet names, and its rank.
    pub fn replace(&mut self, set: &ObjectKey, now: Option<(ObjectKey, Rank)>, regrouped: &mut Regrouped) {
        regrouped.sets.insert(set.clone());
        if let Some((gateway, rank)) = self.places.get(set).cloned() {
            // The first surplus ListenerSet replaces it, if it was parsed.
            if self.surplus_at(set).is_none() {
                regrouped.sets.extend(self.first_surplus(&gateway, &set.namespace).map(|(.., key)| key.clone()));
                regrouped.gateways.insert(gateway.clone());
            }
            self.places.remove(set);
            self.remove(&gateway, &rank);
        }
        if let Some((gateway, rank)) = now {
            let group = self.groups.entry(gateway.clone()).or_default().entry(set.namespace.clone()).or_default();
            group.insert(rank.clone());
            self.places.insert(set.clone(), (gateway.clone(), rank));
            if self.surplus_at(set).is_none() {
                regrouped.sets.extend(self.first_surplus(&gateway, &set.namespace).map(|(.., key)| key.clone()));
                regrouped.gateways.insert(gateway);
            }
        }
    }

    pub fn remove(&mut self, gateway: &ObjectKey, rank: &Rank) {
        let Some(groups) = self.groups.get_mut(gateway) else { return };
        let namespace = &rank.2.namespace;
        if let Some(group) = groups.get_mut(namespace) {
            group.remove(rank);
            if group.is_empty() {
                groups.remove(namespace);
            }
        }
        if groups.is_empty() {
            self.groups.remove(gateway);
        }
    }
}
