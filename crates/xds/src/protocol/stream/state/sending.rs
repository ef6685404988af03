//! Responses of one type: first responses, changes, and the full state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use super::State;
use crate::protocol::message::{Output, Resources, Response, Variant};
use crate::protocol::order::{self, Side};
use crate::protocol::pace::{Pace, Paced};
use crate::protocol::push::{Look, Push};
use crate::protocol::subscription::{Batch, ClientState, InFlight, Need, Shared, Subscription};
use crate::snapshot::{Resource, ResourceType, Snapshot, Version};

/// The result of sending a batch.
#[derive(Debug, Default)]
struct Pushed {
    /// Whether a response was sent.
    something: bool,
    /// Whether there is now more to send.
    more: bool,
}

/// The dirty names that a batch may contain.
struct Selection {
    batch: Batch,
    /// Whether the response is a full state.
    full: bool,
    /// Whether the client waits for an answer.
    answer: bool,
    /// Whether changed names are sent in addition to requested names.
    everything: bool,
    /// Whether changed names wait for large listeners.
    later: bool,
}

/// A response that is built, but not sent.
struct Built {
    push: Push,
    response: Option<Response>,
    /// The paced parts of the response.
    paced: Vec<Paced>,
    /// The snapshot of the response.
    view: Arc<Snapshot>,
    /// Whether the response contains all changes.
    everything: bool,
    /// Whether some names do not fit into the response.
    split: bool,
}

impl State {
    /// Answers the first request for a type with a shared response, if no resource has to wait. The stream then stores no
    /// state for each name. Returns whether it has answered.
    fn push_shared(&mut self, kind: ResourceType, now: Instant) -> bool {
        let whole = self.may_share_answer(kind);
        let Some(subscription) = self.types.get_mut(&kind) else { return true };
        let whole = whole && !subscription.reports_unnamed_absences() && subscription.is_above_suspicion();
        let bodies = if whole { subscription.bodies(self.variant) } else { Vec::new() };
        if !whole || bodies.iter().any(|body| body.is_leased()) {
            subscription.mark_all_dirty();
            return false;
        }
        let (owed, full) = (subscription.answer_owed, self.variant == Variant::Sotw && kind.full_state());
        let absent = subscription.absent();
        let content: Vec<_> = absent.iter().map(|name| (name.clone(), ClientState::Absent)).collect();
        let mut push = Push { removed: absent, ..Push::default() };
        let tells = push.changes(self.variant, full, subscription, self.node.as_ref());
        if kind == ResourceType::ROUTES && self.variant == Variant::Delta {
            let all = bodies.iter().flat_map(|body| body.resources().iter());
            self.asked_routes.extend(all.map(|routes| routes.name().clone()));
        }
        let mut answers: Vec<(Resources, Shared)> =
            bodies.into_iter().map(|body| (body.clone().into(), body.resources().clone())).collect();
        if answers.is_empty() && (tells || owed) {
            answers.push((Resources::default(), Arc::new([])));
        }
        let last = answers.len().saturating_sub(1);
        if let Some((resources, _)) = answers.last_mut().filter(|_| !push.set.is_empty()) {
            let mut all = resources.to_vec();
            all.append(&mut push.set);
            *resources = all.into();
        }
        let (version, type_url) = (self.newest.version(kind).to_string(), subscription.type_url.clone());
        let mut sent = Vec::with_capacity(answers.len());
        for (at, (resources, first)) in answers.into_iter().enumerate() {
            let nonce = self.next_nonce();
            let changed = if at == last { content.clone() } else { Vec::new() };
            let mut in_flight = InFlight::new(nonce.clone(), now, changed, full.then(|| resources.clone()));
            let mut response = Response {
                type_url: type_url.clone(),
                nonce,
                version: version.clone(),
                resources,
                heartbeats: Vec::new(),
                leases: false,
                removed: Vec::new(),
                missing: Vec::new(),
            };
            in_flight.first = first;
            if at == last {
                in_flight.generation = self.newest.generation();
                response.missing = std::mem::take(&mut push.missing);
                if self.variant == Variant::Delta {
                    response.removed = std::mem::take(&mut push.removed);
                }
            }
            self.outputs.push(Output::Send(response));
            sent.push(in_flight);
        }
        if let Some(subscription) = self.types.get_mut(&kind) {
            subscription.record_shared_answer(&version, sent);
        }
        true
    }

    /// Returns whether all resources of a type may be sent from the newest snapshot.
    fn may_share_answer(&self, kind: ResourceType) -> bool {
        let side = order::side(kind);
        match side {
            _ if !self.aggregated => true,
            Side::Behind if kind == ResourceType::ENDPOINTS => {
                let clusters = self.types.get(&ResourceType::CLUSTER);
                let settled = clusters.is_none_or(Subscription::was_sent_all);
                self.gates.retains_nothing() && settled && !self.gates.has_unreported_clusters(&self.types)
            }
            Side::Before => self.gates.routes_view().is_some_and(|view| view.serial() == self.newest.serial()),
            Side::Behind | Side::Apart => self.gates.retains_nothing(),
        }
    }

    /// Sends the dirty names of one type that may be sent. `look` returns the desired state of a name.
    pub(super) fn push(&mut self, kind: ResourceType, now: Instant, look: impl Fn(&Self, &Arc<str>) -> Look) {
        while self.push_once(kind, now, &look) {}
    }

    /// Sends one batch. Returns whether there is now more to send.
    fn push_once(&mut self, kind: ResourceType, now: Instant, look: &impl Fn(&Self, &Arc<str>) -> Look) -> bool {
        if self.types.get(&kind).is_some_and(|subscription| subscription.fresh) && self.push_shared(kind, now) {
            return false;
        }
        let Some(subscription) = self.types.get_mut(&kind) else { return false };
        if subscription.dirty.is_empty() && !subscription.answer_owed {
            return false;
        }
        subscription.schedule_trials();
        if !subscription.isolates() {
            return self.push_batch(kind, now, look, Batch::Changes).more;
        }
        let mut more = false;
        for batch in subscription.batches(subscription.in_flight.is_empty()) {
            let sent = self.push_batch(kind, now, look, batch);
            more |= sent.more;
            if sent.something {
                break;
            }
        }
        more
    }

    /// Sends the dirty names of `batch`.
    fn push_batch(
        &mut self,
        kind: ResourceType,
        now: Instant,
        look: &impl Fn(&Self, &Arc<str>) -> Look,
        batch: Batch,
    ) -> Pushed {
        match self.build_batch(kind, now, look, batch) {
            Some(built) => self.send_batch(kind, now, batch, built),
            None => Pushed::default(),
        }
    }

    /// Builds the response to the dirty names of `batch`. Returns `None` without a subscription or a snapshot.
    fn build_batch(
        &self,
        kind: ResourceType,
        now: Instant,
        look: &impl Fn(&Self, &Arc<str>) -> Look,
        batch: Batch,
    ) -> Option<Built> {
        let subscription = self.types.get(&kind)?;
        let full = self.variant == Variant::Sotw && kind.full_state();
        let owed = subscription.answer_owed;
        // One response is in flight at a time, and later changes become one more response. An answer is sent at once,
        // and includes the changes if it is a full state.
        let answer = owed || subscription.dirty.values().any(|need| *need == Need::Asked);
        // A domain moves between virtual hosts in one response. Otherwise both hosts would have it, or none.
        let together = kind == ResourceType::VIRTUAL_HOST;
        let everything = subscription.in_flight.is_empty() || ((full || together) && answer);
        let selection =
            Selection { batch, full, answer, everything, later: together && self.is_applying_large_listeners() };
        let (mut push, split) = self.select(subscription, &selection, now, look);
        let view = match order::side(kind) {
            Side::Before if self.aggregated => self.gates.routes_view(),
            _ => Some(&self.newest),
        };
        let view = view?.clone();
        if together {
            push.delay_conflicting_hosts(subscription, &view);
        }
        let changes = push.changes(self.variant, full, subscription, self.node.as_ref());
        let (set, version) = match full && (changes || owed) {
            true => self.full_state(subscription, &view, &mut push),
            false => (Resources::from(push.set.clone()), view.version(kind)),
        };
        let response = (changes || owed).then(|| Response {
            type_url: subscription.type_url.clone(),
            nonce: String::new(),
            version: version.to_string(),
            resources: set,
            heartbeats: Vec::new(),
            leases: self.node.as_ref().is_some_and(|node| node.takes_leases(self.variant, kind)),
            removed: if self.variant == Variant::Delta { push.removed.clone() } else { Vec::new() },
            missing: std::mem::take(&mut push.missing),
        });
        let paced = match &response {
            Some(response) if !(full && answer) => {
                Pace::paced_parts(kind, &push, &response.resources, full, self.timing.large)
            }
            _ => Vec::new(),
        };
        // Checked only for large resources, because nearly all responses have none.
        let paced = if !paced.is_empty() && self.is_starting() { Vec::new() } else { paced };
        Some(Built { push, response, paced, view, everything, split })
    }

    /// Selects the dirty names that may be sent now. Returns whether some of them do not fit into the response.
    fn select(
        &self,
        subscription: &Subscription,
        selection: &Selection,
        now: Instant,
        look: &impl Fn(&Self, &Arc<str>) -> Look,
    ) -> (Push, bool) {
        let Selection { batch, full, answer, everything, later } = *selection;
        let tried = subscription.names_in(batch);
        let mut push = Push { left_out: subscription.left_out(tried.as_ref()), ..Push::default() };
        // The names of a trial were in one response.
        let may_be_split = subscription.may_be_split() && batch == Batch::Changes;
        let mut split = false;
        for (name, need) in &subscription.dirty {
            if !everything && *need != Need::Asked {
                continue;
            }
            if tried.as_ref().is_some_and(|tried| !tried.contains(name)) {
                if full {
                    push.waits.insert(name.clone());
                }
                continue;
            }
            let look = match look(self, name) {
                _ if later && *need == Need::Changed => Look::Wait,
                // A full state is delayed as a whole: a smaller one costs the client the same.
                Look::Nothing if !full => Look::Nothing,
                Look::Send(_) | Look::ForNow(_) | Look::Nothing
                    if *need == Need::Changed && !(full && answer) && subscription.pace.delays(name, now) =>
                {
                    Look::Wait
                }
                look => look,
            };
            let Some(look) = push.judge(name, *need, look, batch, subscription) else { continue };
            if may_be_split && !push.has_room_for(&look) {
                split = true;
                continue;
            }
            push.consider(name, *need, look, subscription);
        }
        (push, split)
    }

    /// Sends a built response, and records the new state of its names.
    fn send_batch(&mut self, kind: ResourceType, now: Instant, batch: Batch, built: Built) -> Pushed {
        let Built { mut push, response, paced, view, everything, split } = built;
        let full = self.variant == Variant::Sotw && kind.full_state();
        let nonce = response.is_some().then(|| self.next_nonce());
        if kind == ResourceType::ROUTES && self.variant == Variant::Delta {
            self.asked_routes.extend(std::mem::take(&mut push.asked));
        }
        let Some(subscription) = self.types.get_mut(&kind) else { return Pushed::default() };
        let under_way = !subscription.in_flight.is_empty();
        for name in &push.done {
            subscription.dirty.remove(name);
        }
        let tried: Vec<Arc<str>> = push.done.iter().chain(&push.answered).cloned().collect();
        let something = response.is_some();
        let attempt = subscription.record_attempt(batch, &tried, something);
        push.recognized.iter().for_each(|resource| subscription.resolve_version(resource));
        for name in &push.answered {
            // Sent from an older snapshot, so the name is evaluated again when the gate opens.
            subscription.dirty.insert(name.clone(), Need::Changed);
        }
        if !under_way {
            push.nothing.iter().for_each(|name| subscription.forget_gone(name));
        }
        let unreported = match (response, nonce) {
            (Some(mut response), Some(nonce)) => {
                let partial = self.variant == Variant::Sotw && !full;
                let unreported = if partial { push.remove_unreported(&response) } else { Vec::new() };
                response.nonce.clone_from(&nonce);
                let all = full.then(|| response.resources.clone());
                response.resources = subscription.worded(response.resources);
                let mut in_flight = InFlight::new(nonce, now, push.content, all);
                in_flight.paced = paced;
                in_flight.attempt = attempt;
                in_flight.instead = push.instead;
                let waits = subscription.has_trials() || push.waits.iter().any(|name| view.get(kind, name).is_some());
                if everything && !waits && !split {
                    in_flight.generation = view.generation();
                }
                if response.leases {
                    self.renewals.schedule(kind, &in_flight);
                }
                subscription.sent(&response.version, in_flight);
                self.outputs.push(Output::Send(response));
                unreported
            }
            _ => push.content,
        };
        let more = subscription.record_known(unreported) || split;
        push.done.iter().for_each(|name| subscription.settle(name));
        Pushed { something, more }
    }

    /// Returns whether a first response is unanswered. The latency of other responses is then no measure of their cost.
    fn is_starting(&self) -> bool {
        self.types.values().flat_map(|types| &types.in_flight).any(|response| !response.first.is_empty())
    }

    /// Returns whether the client is processing large listeners. It answers when it has processed everything that it has
    /// received, so virtual hosts directly after listeners would add to their measured cost.
    fn is_applying_large_listeners(&self) -> bool {
        let listeners = self.types.get(&ResourceType::LISTENER);
        listeners.is_some_and(|listeners| listeners.in_flight.iter().any(|response| !response.paced.is_empty()))
    }

    /// Returns the full state of a type and its version. A state-of-the-world client deletes everything that is absent.
    fn full_state(&self, subscription: &Subscription, view: &Snapshot, push: &mut Push) -> (Resources, Version) {
        let kind = subscription.kind;
        let in_view = |resource: &Arc<Resource>| view.get(kind, resource.name()) == Some(resource);
        let level = view.serial() == self.newest.serial() && push.waits.is_empty() && push.left_out.is_empty();
        if level && subscription.is_all() && push.set.iter().all(in_view) {
            // Resources that were rejected in an earlier response are sent again with this one, and count as changes.
            let changed: BTreeSet<Arc<str>> = push.content.iter().map(|(name, _)| name.clone()).collect();
            for (name, known) in subscription.tracked() {
                let Some(resource) = view.get(kind, name).filter(|resource| known.sent == **resource) else { continue };
                if !changed.contains(name) && subscription.state_at_client(name) != *resource {
                    push.content.push((name.clone(), ClientState::Resource(resource.clone())));
                }
            }
            return (Resources::from(view.body(kind)), view.version(kind));
        }
        let at_client = |name: &Arc<str>| subscription.known(name).sent;
        let mut all: BTreeMap<Arc<str>, Arc<Resource>> = BTreeMap::new();
        // Names whose state differs from the snapshot.
        let mut mixed: BTreeSet<Arc<str>> = BTreeSet::new();
        for resource in subscription.wanted(view) {
            let has_it = at_client(resource.name()).exists();
            if has_it || self.newest.get(kind, resource.name()).is_some() {
                all.insert(resource.name().clone(), resource.clone());
            } else {
                mixed.insert(resource.name().clone());
            }
        }
        // Waiting names keep their state at the client; new names are left out.
        let mut rejected_again: BTreeSet<Arc<str>> = BTreeSet::new();
        for name in push.waits.union(&push.left_out) {
            let stays = subscription.state_at_client(name);
            push.instead.push((name.clone(), stays.clone()));
            if stays.resource().is_none() && subscription.may_have_unknown(name) {
                // The client would delete its version. It rejects the version that was sent, and keeps its own.
                if let Some(sent) = at_client(name).resource().filter(|_| !all.contains_key(name)) {
                    all.insert(name.clone(), sent.clone());
                    mixed.insert(name.clone());
                }
                rejected_again.insert(name.clone());
                continue;
            }
            let instead = match stays.resource() {
                Some(old) => all.insert(name.clone(), old.clone()),
                None => all.remove(name),
            };
            if instead.as_ref() != stays.resource() {
                mixed.insert(name.clone());
            }
        }
        for resource in &push.set {
            if all.get(resource.name()) != Some(resource) {
                mixed.insert(resource.name().clone());
                all.insert(resource.name().clone(), resource.clone());
            }
        }
        // Resources that were rejected in an earlier response are sent again with this one, and count as changes.
        let changed: BTreeSet<Arc<str>> = push.content.iter().map(|(name, _)| name.clone()).collect();
        let again = all.iter().filter(|(name, resource)| {
            let sent = at_client(name) == **resource;
            let has_it = sent && subscription.state_at_client(name) == **resource;
            let stays = push.waits.contains(*name) || push.left_out.contains(*name);
            !has_it && (!stays || rejected_again.contains(*name)) && !changed.contains(*name)
        });
        push.content.extend(again.map(|(name, resource)| (name.clone(), ClientState::Resource(resource.clone()))));
        let version = view.version_with(kind, mixed.iter().map(|name| (name, all.get(name))));
        (Resources::from(all.into_values().collect::<Vec<_>>()), version)
    }
}
