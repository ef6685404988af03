//! Policies of Envoy Gateway, by target, and their effects on a target.
//!
//! Lockgate does not apply these policies. If a policy that restricts access were ignored, a protected route would become public.
//! The target is closed instead: HTTP requests are answered 403, and other connections are closed. The rule is simple on purpose:
//! a policy never opens what another policy closes, even if it overrides the other one at Envoy Gateway.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use crate::objects::{FOREIGN_POLICIES, ForeignPolicy, Kind, Meta, Object, ObjectId, ObjectKey, Objects};
use crate::settings::{RestrictingPolicies, Settings};
use crate::translate::problem::{Problem, Reason};

/// The maximum number of policies by name, and by label, that are examined for one object. Policies that restrict access come first.
/// If there are more, they count for the complete object, and policies by label as if they selected it: a limit must not open a route.
const MOST: usize = 64;

/// The consequence of a policy that restricts access, if the settings ignore it.
pub const SERVED_WITHOUT: &str = "served without the restriction, because of the setting gateway.restrictingPolicies";

/// All policies of Envoy Gateway.
#[derive(Debug, Default)]
pub struct ForeignPolicies {
    by_id: BTreeMap<ObjectId, Object>,
    /// The policies for each object that they name.
    by_name: BTreeMap<ObjectId, BTreeSet<Rank>>,
    /// The policies that select objects of a kind by label, in each namespace.
    by_label: BTreeMap<(Kind, Arc<str>), BTreeSet<Rank>>,
}

/// The rank of a policy. Policies that restrict access come first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    is_harmless: bool,
    policy: ObjectId,
}

/// The policy that closes an object or a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// The policy.
    pub by: ObjectId,
    /// The body of a 403.
    pub body: Arc<str>,
}

/// The effects of the policies on one object.
#[derive(Debug, Default)]
pub struct Effects {
    /// The problems of the object.
    pub problems: Vec<Problem>,
    whole: Option<Closed>,
    sections: BTreeMap<Arc<str>, Closed>,
}

impl ForeignPolicies {
    /// Returns all policies.
    pub fn new(objects: &Objects) -> Self {
        let mut all = Self::default();
        for kind in FOREIGN_POLICIES {
            for (key, policy) in objects.of_kind(kind) {
                all.replace(&kind.id(key.clone()), Some(policy.clone()));
            }
        }
        all
    }

    /// Returns a policy.
    pub fn get(&self, id: &ObjectId) -> Option<&ForeignPolicy> {
        self.by_id.get(id)?.get()
    }

    /// Replaces a policy. Returns the previous one.
    pub fn replace(&mut self, id: &ObjectId, now: Option<Object>) -> Option<Object> {
        let before = match &now {
            Some(policy) => self.by_id.insert(id.clone(), policy.clone()),
            None => self.by_id.remove(id),
        };
        if let Some(policy) = before.as_ref().and_then(Object::get::<ForeignPolicy>) {
            let rank = Rank::of(policy);
            named(policy).for_each(|target| remove(&mut self.by_name, &target, &rank));
            selected(policy).for_each(|place| remove(&mut self.by_label, &place, &rank));
        }
        if let Some(policy) = now.as_ref().and_then(Object::get::<ForeignPolicy>) {
            let rank = Rank::of(policy);
            for target in named(policy) {
                self.by_name.entry(target).or_default().insert(rank.clone());
            }
            for place in selected(policy) {
                self.by_label.entry(place).or_default().insert(rank.clone());
            }
        }
        before
    }

    /// Returns the policies for the object of `kind` with this metadata, each with the listener or the rule. `None`: the complete
    /// object. Policies in `ignored` are left out.
    fn of<'a>(
        &'a self,
        kind: Kind,
        meta: &'a Meta,
        ignored: &'a [(String, String)],
    ) -> impl Iterator<Item = (&'a ForeignPolicy, Option<&'a Arc<str>>)> {
        let is_ignored = move |rank: &&Rank| {
            let ObjectKey { namespace, name } = &rank.policy.key;
            ignored.iter().any(|(of, one)| **of == **namespace && **one == **name)
        };
        let first = move |ranks: Option<&'a BTreeSet<Rank>>| {
            let ranks = ranks.into_iter().flatten().filter(move |rank| !is_ignored(rank)).take(MOST);
            ranks.filter_map(|rank| self.get(&rank.policy))
        };
        let are_too_many = |ranks: Option<&BTreeSet<Rank>>| ranks.is_some_and(|ranks| ranks.len() > MOST);
        let by_name = self.by_name.get(&kind.id(meta.key.clone()));
        let is_whole = are_too_many(by_name);
        let sections = move |policy: &'a ForeignPolicy| {
            let targets = policy.targets.iter().filter(move |one| one.kind == kind && *one.name == *meta.key.name);
            targets.map(move |target| (policy, target.section.as_ref().filter(|_| !is_whole)))
        };
        let by_label = self.by_label.get(&(kind, meta.key.namespace.clone()));
        let are_all = are_too_many(by_label);
        let selects = move |policy: &&ForeignPolicy| are_all || policy.selects(kind, meta);
        first(by_name).flat_map(sections).chain(first(by_label).filter(selects).map(|policy| (policy, None)))
    }

    /// Returns the effects on the object of `kind` with this metadata.
    pub fn effects(&self, kind: Kind, meta: &Meta, settings: &Settings) -> Effects {
        let mut effects = Effects::default();
        // Most installations have no such policies.
        if !self.by_id.is_empty() {
            let origin = meta.object_ref(kind);
            let applied = self.of(kind, meta, &settings.gateway.ignored_policies);
            applied.for_each(|(policy, section)| effects.add(&origin, kind, policy, section, settings));
        }
        effects
    }
}

impl Rank {
    fn of(policy: &ForeignPolicy) -> Self {
        Self { is_harmless: !policy.restricts, policy: policy.kind.id(policy.meta.key.clone()) }
    }
}

impl Effects {
    fn add(
        &mut self,
        origin: &ObjectRef,
        kind: Kind,
        policy: &ForeignPolicy,
        section: Option<&Arc<str>>,
        settings: &Settings,
    ) {
        let by = policy.kind.id(policy.meta.key.clone());
        let subject = format!("{} \"{}\" of Envoy Gateway", by.kind.as_str(), by.key);
        let part = if [Kind::GATEWAY, Kind::LISTENER_SET].contains(&kind) { "listener" } else { "rule" };
        let to = section.map(|name| format!(" to {part} {name:?}")).unwrap_or_default();
        let (reason, message, consequence) = match (policy.restricts, settings.gateway.restricting_policies) {
            (false, _) => (
                Reason::UnsupportedPolicy,
                format!("{subject} is not applied{to}"),
                "served without the policy".to_owned(),
            ),
            (true, RestrictingPolicies::Ignore) => {
                let message = format!("{subject} restricts access{to} and is not enforced");
                (Reason::AccessNotRestricted, message, SERVED_WITHOUT.to_owned())
            }
            (true, RestrictingPolicies::Deny) => {
                let message = format!("{subject} restricts access{to} and is not enforced");
                let closed = Closed { body: body(by.kind), by };
                match section {
                    Some(name) => drop(self.sections.entry(name.clone()).or_insert(closed)),
                    None => drop(self.whole.get_or_insert(closed)),
                }
                let consequence = format!(
                    "{}; protect the routes in another way and remove the policy, or see the settings \
                     gateway.restrictingPolicies and gateway.ignoredPolicies",
                    closed_as(kind)
                );
                (Reason::AccessNotRestricted, message, consequence)
            }
        };
        let (object, field) = (origin.clone(), String::new());
        self.problems.push(Problem { object, field, reason, message: message.into(), consequence });
    }

    /// Returns the policy that closes a listener or a rule, or the complete object.
    pub fn closed(&self, section: Option<&str>) -> Option<&Closed> {
        self.whole.as_ref().or_else(|| self.sections.get(section?))
    }

    /// Returns the problem because of which the object or a part of it is closed.
    pub fn why_closed(&self) -> Option<&Problem> {
        let is_closed = self.whole.is_some() || !self.sections.is_empty();
        self.problems.iter().find(|problem| is_closed && problem.reason == Reason::AccessNotRestricted)
    }
}

/// Describes what happens to the clients of a closed object.
pub fn closed_as(kind: Kind) -> &'static str {
    match kind {
        kind if kind == Kind::HTTP_ROUTE || kind == Kind::GRPC_ROUTE => "answered 403",
        kind if kind == Kind::UDP_ROUTE => "datagrams are dropped",
        kind if kind == Kind::TCP_ROUTE || kind == Kind::TLS_ROUTE => "connections are closed",
        _ => "routes there are answered 403, and connections without HTTP are closed",
    }
}

/// Returns the body of a 403. It contains no text of an object, so its length is bounded.
fn body(policy: Kind) -> Arc<str> {
    format!("access denied: a {} restricts access to this path and is not enforced\n", policy.as_str()).into()
}

/// Returns the objects that a policy names.
pub fn named(policy: &ForeignPolicy) -> impl Iterator<Item = ObjectId> {
    let namespace = &policy.meta.key.namespace;
    let id = |kind: Kind, name: &Arc<str>| kind.id(ObjectKey { namespace: namespace.clone(), name: name.clone() });
    policy.targets.iter().map(move |target| id(target.kind, &target.name))
}

/// Returns the kinds that a policy selects by label, with its namespace.
fn selected(policy: &ForeignPolicy) -> impl Iterator<Item = (Kind, Arc<str>)> {
    policy.selectors.iter().map(|selector| (selector.kind, policy.meta.key.namespace.clone()))
}

fn remove<K: Ord>(all: &mut BTreeMap<K, BTreeSet<Rank>>, key: &K, rank: &Rank) {
    if let Some(ranks) = all.get_mut(key) {
        ranks.remove(rank);
        if ranks.is_empty() {
            all.remove(key);
        }
    }
}
