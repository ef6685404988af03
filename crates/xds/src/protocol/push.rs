//! The construction of a response: set, removed, and waiting names.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::message::{Node, Response, Variant};
use super::subscription::{Batch, ClientState, Need, Subscription, Verdict};
use crate::snapshot::{Limit, Resource, ResourceType, Snapshot};

/// The desired state of a name at the client.
pub(super) enum Look {
    /// The resource is sent.
    Send(Arc<Resource>),
    /// The resource is sent, and the name is evaluated again later.
    ForNow(Arc<Resource>),
    /// The name has no resource.
    Nothing,
    /// The name keeps its state, because it waits for another resource.
    Wait,
    /// The client keeps the resource until it unsubscribes.
    Keep,
}

impl Look {
    /// Returns the state of `name` in `snapshot`.
    pub fn at(snapshot: &Snapshot, kind: ResourceType, name: &Arc<str>) -> Self {
        snapshot.get(kind, name).map_or(Look::Nothing, |resource| Look::Send(resource.clone()))
    }
}

/// A response under construction.
#[derive(Default)]
pub(super) struct Push {
    pub set: Vec<Arc<Resource>>,
    /// The size of `set`, in bytes.
    pub size: usize,
    pub removed: Vec<Arc<str>>,
    pub missing: Vec<Arc<str>>,
    pub content: Vec<(Arc<str>, ClientState)>,
    pub done: Vec<Arc<str>>,
    /// Names that are answered, but evaluated again later.
    pub answered: Vec<Arc<str>>,
    /// Names that are set because the client requested them.
    pub asked: Vec<Arc<str>>,
    pub waits: BTreeSet<Arc<str>>,
    /// Resources that the client already has.
    pub recognized: Vec<Arc<Resource>>,
    /// Names that are reported as removed or absent again.
    pub told_again: BTreeSet<Arc<str>>,
    /// Names that do not exist and need no report.
    pub nothing: Vec<Arc<str>>,
    /// Rejected names, which keep their state and do not delay others.
    pub left_out: BTreeSet<Arc<str>>,
    /// Full state: the names that keep their state.
    pub instead: Vec<(Arc<str>, ClientState)>,
}

impl Push {
    /// Adjusts the desired state of a name to the rejections of the client.
    pub fn judge(
        &mut self,
        name: &Arc<str>,
        need: Need,
        look: Look,
        batch: Batch,
        types: &Subscription,
    ) -> Option<Look> {
        let (Look::Send(resource) | Look::ForNow(resource)) = &look else { return Some(look) };
        match types.verdict(resource, need, batch) {
            Verdict::Clear => Some(look),
            Verdict::Wait => Some(Look::Wait),
            Verdict::Meanwhile(good) => Some(Look::ForNow(good)),
            Verdict::Instead(good) if matches!(look, Look::Send(_)) => Some(Look::Send(good)),
            Verdict::Instead(good) => Some(Look::ForNow(good)),
            // The resource is from an older snapshot. The newest may have another version.
            Verdict::Never if matches!(look, Look::ForNow(_)) => Some(Look::Wait),
            Verdict::Never => {
                self.done.push(name.clone());
                None
            }
        }
    }

    /// Returns whether the resource of `look` fits into the response.
    pub fn has_room_for(&self, look: &Look) -> bool {
        let (Look::Send(resource) | Look::ForNow(resource)) = look else { return true };
        self.set.is_empty() || self.size + resource.size() <= Limit::Message.bytes()
    }

    /// Adds one dirty name to the response.
    pub fn consider(&mut self, name: &Arc<str>, need: Need, look: Look, subscription: &Subscription) {
        let known = subscription.known(name);
        let sent = &known.sent;
        let resource = match look {
            Look::Wait => {
                self.waits.insert(name.clone());
                return;
            }
            Look::Keep => {
                self.done.push(name.clone());
                return;
            }
            Look::Nothing => {
                self.done.push(name.clone());
                let again = need > Need::Changed;
                if again {
                    self.told_again.insert(name.clone());
                }
                let told = *sent == ClientState::Absent && !again;
                // If the client rejected the removal together with other changes, it still has the accepted version.
                let has_it = sent.exists() || (again && known.accepted.exists());
                if !told && (need == Need::Asked || subscription.named(name) || has_it) {
                    self.removed.push(name.clone());
                    self.content.push((name.clone(), ClientState::Absent));
                } else {
                    self.nothing.push(name.clone());
                }
                return;
            }
            Look::Send(resource) => {
                self.done.push(name.clone());
                resource
            }
            Look::ForNow(resource) => {
                self.answered.push(name.clone());
                resource
            }
        };
        if *sent == resource {
            self.recognized.push(resource.clone());
        }
        if need == Need::Asked {
            self.asked.push(name.clone());
        }
        if need > Need::Changed || *sent != resource {
            self.content.push((name.clone(), ClientState::Resource(resource.clone())));
            self.size += resource.size();
            self.set.push(resource);
        }
    }

    /// Delays virtual hosts that share a domain with a waiting one. If two virtual hosts exchange domains, Envoy accepts
    /// both or none. `view` is the snapshot of the response.
    pub fn delay_conflicting_hosts(&mut self, subscription: &Subscription, view: &Snapshot) {
        let to_be = |name: &Arc<str>| view.get(subscription.kind, name);
        let mut waiting: Vec<Arc<str>> = self.waits.iter().filter(|name| to_be(name).is_some()).cloned().collect();
        if waiting.is_empty() || self.content.is_empty() {
            return;
        }
        let mut changed_with: HashMap<String, Vec<Arc<str>>> = HashMap::new();
        for (name, state) in &self.content {
            for domain in subscription.domains(name, state.resource()) {
                changed_with.entry(domain).or_default().push(name.clone());
            }
        }
        let mut delayed: HashSet<Arc<str>> = HashSet::new();
        while let Some(name) = waiting.pop() {
            for domain in subscription.domains(&name, to_be(&name)) {
                let sharing = changed_with.remove(&domain).unwrap_or_default().into_iter();
                waiting.extend(sharing.filter(|host| delayed.insert(host.clone())));
            }
        }
        self.set.retain(|set| !delayed.contains(set.name()));
        self.content.retain(|(name, _)| !delayed.contains(name));
        for names in [&mut self.removed, &mut self.done, &mut self.answered, &mut self.asked] {
            names.retain(|name| !delayed.contains(name));
        }
        self.waits.extend(delayed);
    }

    /// Completes the response with reports of absent names. Returns whether it contains any change.
    pub fn changes(&mut self, variant: Variant, full: bool, subscription: &Subscription, node: Option<&Node>) -> bool {
        if variant == Variant::Delta {
            if subscription.kind == ResourceType::VIRTUAL_HOST {
                let unknown = |name: &Arc<str>| subscription.named(name) && !subscription.known(name).sent.exists();
                (self.missing, self.removed) = std::mem::take(&mut self.removed).into_iter().partition(unknown);
            }
            return !self.set.is_empty() || !self.removed.is_empty() || !self.missing.is_empty();
        }
        let is_envoy = node.is_some_and(Node::is_envoy);
        let gone = self.removed.iter().any(|name| subscription.known(name).sent.exists());
        for name in self.removed.iter().filter(|name| subscription.named(name)) {
            let had_it = !self.told_again.contains(name) && subscription.known(name).sent.exists();
            match is_envoy {
                // Without a response, Envoy warms the cluster for 15 s. It ignores the removal of endpoints in use.
                true if subscription.kind == ResourceType::ENDPOINTS && !had_it => self.set.push(no_endpoints(name)),
                true => {}
                // State of the world without full state cannot express a removal: clients ignore an empty response.
                false if had_it && !full => {}
                false if !ERRORS_TOLD.contains(&subscription.kind) => {}
                false => self.missing.push(name.clone()),
            }
        }
        !self.set.is_empty() || !self.missing.is_empty() || (full && gone)
    }

    /// Removes and returns the removals that `response` does not contain. A NACK of the response does not reject them.
    pub fn remove_unreported(&mut self, response: &Response) -> Vec<(Arc<str>, ClientState)> {
        let set = self.set.iter().map(|resource| resource.name());
        let told: BTreeSet<&Arc<str>> = set.chain(&response.missing).collect();
        let content = std::mem::take(&mut self.content).into_iter();
        let (told, silent) = content.partition(|(name, state)| state.exists() || told.contains(name));
        self.content = told;
        silent
    }
}

/// The types whose absent names are reported to state-of-the-world clients. Source: xRFC TP3.
const ERRORS_TOLD: &[ResourceType] =
    &[ResourceType::LISTENER, ResourceType::ROUTES, ResourceType::CLUSTER, ResourceType::ENDPOINTS];

/// Returns an empty load assignment.
fn no_endpoints(name: &str) -> Arc<Resource> {
    let message = envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment {
        cluster_name: name.to_owned(),
        ..Default::default()
    };
    Arc::new(Resource::new(name, &message, Vec::new()))
}
