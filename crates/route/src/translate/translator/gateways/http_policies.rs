//! The incremental translation of HTTPPolicies. A changed policy affects the hosts of its targets: the hosts of a
//! route, of all routes of a namespace, or of a Gateway. No route is parsed again.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::model::{Host, ListenerId};
use crate::objects::gateway::HttpPolicy;
use crate::objects::{Kind, ObjectId, ObjectKey, Objects};
use crate::settings::Settings;
use crate::translate::dialect::Dialect;
use crate::translate::gateway::attach::ListenerName;
use crate::translate::gateway::attached::Attached;
use crate::translate::gateway::http_policy::{self, Features, Layers, ParsedHttpPolicy, SectionTarget};
use crate::translate::policy_targets;
use crate::translate::problem::Problem;
use crate::translate::translator::state::changed_policies::ChangedPolicies;
use crate::translate::translator::state::{Translator, Update};
use crate::translate::verdict::{self, ConditionFault, Status, Verdict};

impl Translator {
    /// Parses policies.
    pub(super) fn update_http_policies(
        &mut self,
        due: Vec<ObjectId>,
        objects: &Objects,
        settings: &Settings,
    ) -> ChangedPolicies {
        let mut changed = ChangedPolicies::default();
        for id in due {
            let policy = objects.get::<HttpPolicy>(&id.key);
            let (now, made) = policy
                .map(|policy| self.read(objects, settings, |resolver| http_policy::parse(policy, resolver)))
                .map_or_else(Default::default, |(now, made)| (Some(now), made));
            self.clusters.add(made, &mut self.ledger);
            self.replace_inputs(&id, now.as_ref().map_or(&[], |policy| &policy.dependencies.inputs));
            let now = now.map(Arc::new);
            let before = self.gateways.http_policies.get(&id.key).cloned();
            if before == now {
                continue;
            }
            let clusters = |policy: &Option<Arc<ParsedHttpPolicy>>| {
                policy.as_ref().map(|policy| policy.dependencies.clusters.clone()).unwrap_or_default()
            };
            self.clusters.read(&clusters(&before), &clusters(&now));
            let overrides = |policy: &Option<Arc<ParsedHttpPolicy>>| {
                policy.as_ref().is_some_and(|policy| policy.layers.overrides != Features::default())
            };
            let overrides = overrides(&before) || overrides(&now);
            let targets = self.gateways.http_policies.replace(&id.key, now);
            changed.overridden.extend(targets.iter().filter(|_| overrides).cloned());
            changed.targets.extend(targets);
            changed.policies.insert(id.key);
        }
        changed
    }

    /// Adds the hosts that changed policies affect to `hosts`. Call it after Gateways and routes are up to date.
    pub(super) fn add_hosts_of_policies(&self, changed: &ChangedPolicies, hosts: &mut BTreeSet<(ListenerId, Host)>) {
        for object in &changed.targets {
            if object.kind != Kind::GATEWAY {
                let routes = self.targeted(object).into_iter().filter_map(|id| self.sources.get(&id));
                hosts.extend(routes.flat_map(|route| self.served_places(route)));
                continue;
            }
            let listeners = self.gateways.owners.iter().filter(|(_, gateway)| **gateway == object.key);
            for (id, _) in listeners {
                hosts.extend(self.gateways.hosts_on(id).map(|(place, _)| place.clone()));
            }
        }
    }

    /// Returns the sources that a target stands for: the object itself, or all sources of a namespace, and the sources that include
    /// them. The routes of a Gateway are found by its listeners.
    pub(in super::super) fn targeted(&self, target: &ObjectId) -> BTreeSet<ObjectId> {
        let of_dialect =
            |dialect: &Dialect| self.sources.in_namespace(dialect, &target.key.name).map(|(id, _)| id.clone());
        let mut sources: BTreeSet<ObjectId> = match target.kind == Kind::NAMESPACE {
            true => self.dialects.iter().flat_map(|dialect| of_dialect(dialect).collect::<Vec<_>>()).collect(),
            false => [target.clone()].into(),
        };
        let includers: Vec<ObjectId> = sources.iter().flat_map(|id| self.includers(id)).cloned().collect();
        sources.extend(includers);
        sources
    }

    /// Updates the conditions of changed policies, of the policies that compete with them, and of the policies of `objects`.
    pub(super) fn update_http_policy_verdicts(
        &mut self,
        changed: ChangedPolicies,
        objects: impl Iterator<Item = ObjectId>,
        update: &mut Update,
    ) {
        let ChangedPolicies { mut policies, targets, overridden } = changed;
        for object in overridden {
            let all = self.gateways.http_policies.iter().map(|policy| &policy.precedence.key);
            policies.extend(all.filter(|key| is_general(&object, key)).cloned());
        }
        for object in targets.into_iter().chain(objects) {
            policies.extend(self.gateways.http_policies.targeting(&object).cloned());
        }
        policies.iter().for_each(|key| self.update_http_policy_verdict(key, update));
    }

    /// Updates the conditions and the problems of a policy. The controller reports on a policy if it serves a target of
    /// the policy, or if a target does not exist.
    fn update_http_policy_verdict(&mut self, key: &ObjectKey, update: &mut Update) {
        let id = Kind::HTTP_POLICY.id(key.clone());
        let policy = self.gateways.http_policies.get(key).cloned();
        let targets: Vec<(u16, Option<ConditionFault>)> =
            policy.iter().flat_map(|policy| self.target_verdicts(policy).collect::<Vec<_>>()).collect();
        let problems = match &policy {
            Some(policy) if !targets.is_empty() => problems(policy, &targets),
            _ => Vec::new(),
        };
        let before = self.gateways.http_policy_problems.remove(key).unwrap_or_default();
        self.ledger.replace(&before, &problems);
        if !problems.is_empty() {
            self.gateways.http_policy_problems.insert(key.clone(), problems);
        }
        let at = |policy: &Arc<ParsedHttpPolicy>, (i, fault): &(u16, Option<ConditionFault>)| {
            let accepted = policy_targets::verdict(&policy.origin, *i, fault.as_ref());
            let target = policy.targets.get(usize::from(*i)).and_then(|target| target.as_ref().ok());
            let overridden = target.filter(|_| fault.is_none()).and_then(|target| self.overridden(policy, target));
            let overridden = overridden.map(|message| Verdict {
                parent: Some(*i),
                message: message.into(),
                ..Verdict::new(policy.origin.clone(), OVERRIDDEN, Status::True, OVERRIDDEN)
            });
            let left_out = target.filter(|_| fault.is_none()).and_then(|_| policy.left_out.first());
            let partial = left_out.map(|problem| Attached::conflict(*i, problem));
            [accepted].into_iter().chain(overridden).chain(partial)
        };
        let verdicts: Vec<Verdict> =
            policy.iter().flat_map(|policy| targets.iter().flat_map(|target| at(policy, target))).collect();
        match verdicts.is_empty() {
            true => drop(self.verdicts.remove(&id)),
            false => drop(self.verdicts.insert(id.clone(), verdict::bounded(&verdicts))),
        }
        match policy.filter(|_| !targets.is_empty()) {
            Some(policy) => drop(self.gateways.http_policies_of_ours.insert(key.clone(), policy.revision)),
            None => drop(self.gateways.http_policies_of_ours.remove(key)),
        }
        update.sources.insert(id);
    }

    /// Returns the targets of a policy that this controller serves or that do not exist, each with the fault of the
    /// condition `Accepted`.
    fn target_verdicts(&self, policy: &ParsedHttpPolicy) -> impl Iterator<Item = (u16, Option<ConditionFault>)> {
        let verdict = move |(i, target): (usize, &Result<SectionTarget, ConditionFault>)| {
            let index = u16::try_from(i).unwrap_or(u16::MAX);
            match target {
                Err(fault) => Some((index, Some(fault.clone()))),
                Ok(target) if self.is_ours(&target.object) => {
                    let winner = self.gateways.http_policies.at(target).filter(|winner| !std::ptr::eq(*winner, policy));
                    let winner = winner.filter(|winner| winner.precedence != policy.precedence);
                    let conflict = winner.map(|winner| conflict(target, winner));
                    Some((index, conflict.or_else(|| policy_targets::invalid(&policy.problems))))
                }
                Ok(_) => None,
            }
        };
        policy.targets.iter().enumerate().filter_map(verdict)
    }

    /// Returns the features of a policy that the overrides of more general policies decide at this target, each with the policy.
    fn overridden(&self, policy: &ParsedHttpPolicy, target: &SectionTarget) -> Option<String> {
        let Layers { features, overrides } = &policy.layers;
        let mut decided = BTreeSet::new();
        for above in self.more_general(target) {
            for name in features.names().chain(overrides.names()) {
                let winner = above.iter().find(|one| one.layers.overrides.names().any(|other| other == name));
                decided.extend(winner.map(|winner| (name, &winner.precedence.key)));
            }
        }
        let text = |(name, key): (&str, &ObjectKey)| format!("{name} by HTTPPolicy \"{key}\"");
        let texts: Vec<String> = decided.into_iter().map(text).collect();
        (!texts.is_empty()).then(|| format!("overridden: {}", texts.join(", ")))
    }

    /// Returns the policies of the more general targets of a target, the most general first: a list for each listener to which an object is
    /// attached. The routes of a namespace can be attached to different listeners, so a namespace has none.
    fn more_general(&self, target: &SectionTarget) -> Vec<Vec<&ParsedHttpPolicy>> {
        let SectionTarget { object, section } = target;
        let at = |object: ObjectId, section: Option<Arc<str>>| {
            self.gateways.http_policies.at(&SectionTarget { object, section })
        };
        let of_object = section.as_ref().and_then(|_| at(object.clone(), None));
        if object.kind == Kind::GATEWAY {
            return vec![of_object.into_iter().collect()];
        }
        let Some(source) = self.sources.get(object) else { return Vec::new() };
        let own = [at(http_policy::of_namespace(&object.key.namespace), None), of_object];
        let own = || own.into_iter().flatten();
        let attachments = source.attached.attachments.iter().filter(|attachment| attachment.bound.is_some());
        let listeners: BTreeSet<_> = attachments.map(|attachment| &attachment.listener).collect();
        let of_listener = |listener: &ListenerName| {
            let gateway = Kind::GATEWAY.id(listener.gateway.clone());
            let section = listener.set.is_none().then(|| listener.name.clone());
            let of_listener = section.and_then(|name| at(gateway.clone(), Some(name)));
            at(gateway, None).into_iter().chain(of_listener).chain(own()).collect()
        };
        // A source on the listeners that all objects share has no attachments.
        let shared = listeners.is_empty().then(|| own().collect());
        listeners.into_iter().map(of_listener).chain(shared).collect()
    }

    /// Returns whether an object is a namespace, a served Gateway, or a served object that declares routes.
    fn is_ours(&self, object: &ObjectId) -> bool {
        if object.kind == Kind::GATEWAY {
            return self.gateways.gateways.contains_key(&object.key);
        }
        if object.kind == Kind::NAMESPACE {
            return true;
        }
        self.sources.get(object).is_some()
    }
}

/// The type and the reason of the condition of a policy whose features a more general policy decides.
const OVERRIDDEN: &str = "Overridden";

/// Returns whether `object` can be a more general target than those of a policy with this key. The policies of its own parts are found by
/// [`HttpPolicies::targeting`](crate::translate::gateway::http_policies::HttpPolicies::targeting).
fn is_general(object: &ObjectId, policy: &ObjectKey) -> bool {
    object.kind == Kind::GATEWAY || object.kind == Kind::NAMESPACE && object.key.name == policy.namespace
}

/// Returns the fault of a policy that loses a target to `winner`.
fn conflict(target: &SectionTarget, winner: &ParsedHttpPolicy) -> ConditionFault {
    let section = target.section.as_ref().map(|name| format!(" section {name:?} of")).unwrap_or_default();
    let SectionTarget { object: ObjectId { kind, key }, .. } = target;
    let winner = &winner.precedence.key;
    let message = format!("policy \"{winner}\" takes precedence for{section} {} \"{key}\"", kind.as_str());
    ConditionFault::new("Conflicted", message)
}

/// Returns the problems of the features and of the targets of a policy.
fn problems(policy: &ParsedHttpPolicy, targets: &[(u16, Option<ConditionFault>)]) -> Vec<Arc<Problem>> {
    let of_target = |(i, fault): &(u16, Option<ConditionFault>)| {
        let exists = policy.targets.get(usize::from(*i)).is_some_and(Result::is_ok);
        policy_targets::problem(&policy.origin, *i, fault.as_ref(), exists)
    };
    policy.problems.iter().chain(&policy.left_out).cloned().chain(targets.iter().filter_map(of_target)).collect()
}
