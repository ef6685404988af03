//! All HTTPPolicies, by target.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::http_policy::{Layers, ParsedHttpPolicy, SectionTarget, of_namespace, over};
use crate::few::Few;
use crate::objects::{ObjectId, ObjectKey, Precedence};

/// All HTTPPolicies.
#[derive(Debug, Default)]
pub struct HttpPolicies {
    by_key: BTreeMap<ObjectKey, Arc<ParsedHttpPolicy>>,
    /// The policies for each target. The first one applies.
    by_target: BTreeMap<SectionTarget, Few<Precedence>>,
}

impl HttpPolicies {
    /// Returns a policy.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<ParsedHttpPolicy>> {
        self.by_key.get(key)
    }

    /// Returns whether no policy has a target.
    pub fn is_empty(&self) -> bool {
        self.by_target.is_empty()
    }

    /// Returns all policies.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<ParsedHttpPolicy>> {
        self.by_key.values()
    }

    /// Returns the policy that applies to exactly this target.
    pub fn at(&self, target: &SectionTarget) -> Option<&ParsedHttpPolicy> {
        let rank = self.by_target.get(target)?.iter().next()?;
        self.by_key.get(&rank.key).map(|policy| &**policy)
    }

    /// Returns the keys of the policies that target an object or one of its parts.
    pub fn targeting<'a>(&'a self, object: &'a ObjectId) -> impl Iterator<Item = &'a ObjectKey> {
        let first = SectionTarget { object: object.clone(), section: None };
        let targets = self.by_target.range(first..).take_while(move |(target, _)| target.object == *object);
        targets.flat_map(|(_, ranks)| ranks.iter().map(|rank| &rank.key))
    }

    /// Returns the features of an object that declares routes, for one of its rules. The policy of the rule precedes that of the object,
    /// and this one that of the namespace.
    pub fn of_source(&self, object: &ObjectId, rule: Option<&Arc<str>>) -> Option<Layers> {
        over(self.of(object, rule).as_ref(), self.of(&of_namespace(&object.key.namespace), None).as_ref())
    }

    /// Returns the features of an object, for one of its sections.
    pub fn of(&self, object: &ObjectId, section: Option<&Arc<str>>) -> Option<Layers> {
        let at = |section: Option<&Arc<str>>| {
            self.at(&SectionTarget { object: object.clone(), section: section.cloned() }).map(|policy| &policy.layers)
        };
        over(section.and_then(|name| at(Some(name))), at(None))
    }

    /// Replaces a policy. Returns the objects that it targeted or targets.
    pub fn replace(&mut self, key: &ObjectKey, now: Option<Arc<ParsedHttpPolicy>>) -> BTreeSet<ObjectId> {
        let before = match &now {
            Some(policy) => self.by_key.insert(key.clone(), policy.clone()),
            None => self.by_key.remove(key),
        };
        let targets = |policy: &'_ Arc<ParsedHttpPolicy>| {
            policy.targets.iter().flatten().cloned().collect::<Vec<SectionTarget>>()
        };
        let (old, new) = (before.as_ref().map(targets), now.as_ref().map(targets));
        for (policy, target) in
            before.iter().flat_map(|policy| old.iter().flatten().map(move |target| (policy, target)))
        {
            if let Some(ranks) = self.by_target.get_mut(target) {
                ranks.remove(&policy.precedence);
                if ranks.is_empty() {
                    self.by_target.remove(target);
                }
            }
        }
        for (policy, target) in now.iter().flat_map(|policy| new.iter().flatten().map(move |target| (policy, target))) {
            self.by_target.entry(target.clone()).or_default().insert(policy.precedence.clone());
        }
        old.into_iter().chain(new).flatten().map(|target| target.object).collect()
    }
}
