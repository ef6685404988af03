//! The state machine of one stream. It identifies each type by one URL, and does not depend on API versions.
//!
//! A stream has two levels. Clusters, endpoints, and secrets come from the newest snapshot. Listeners and routes come from
//! the last snapshot whose clusters the client has accepted. Each stream has its own gates and timers, and waits for no
//! other stream.

mod ahead;
mod aliases;
mod answers;
mod clusters;
mod desired;
mod earlier;
mod renewals;
mod sending;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Instant;

use self::aliases::Aliases;
use self::answers::handle_answer;
use self::renewals::Renewals;
use crate::protocol::gates::Gates;
use crate::protocol::locators::Locators;
use crate::protocol::message::{Node, Notice, Output, Request, Resources, Response, Variant};
use crate::protocol::order::{self, Side, Step, Timing};
use crate::protocol::push::Look;
use crate::protocol::subscription::{IsolationEvent, Need, Subscription};
use crate::snapshot::{Interest, ResourceType, Snapshot};

/// The state of one stream.
#[derive(Debug)]
pub(in crate::protocol) struct State {
    variant: Variant,
    /// Whether several types share the stream, so that it can keep their order.
    aggregated: bool,
    timing: Timing,
    pub node: Option<Node>,
    newest: Arc<Snapshot>,
    pub types: BTreeMap<ResourceType, Subscription>,
    gates: Gates,
    /// Load assignments of clusters that were sent before the client's first request for endpoints.
    unfollowed: HashSet<Arc<str>>,
    /// Route configurations that were just sent at the client's request. The client has none of their virtual hosts.
    asked_routes: BTreeSet<Arc<str>>,
    /// The number of responses so far. States of one stream share the sequence.
    pub nonces: u64,
    /// The first request for clusters, while it waits for the names of endpoints.
    waiting: Option<Request>,
    /// Subscriptions by locator instead of by name.
    locators: Locators,
    aliases: Aliases,
    renewals: Renewals,
    outputs: Vec<Output>,
}

impl State {
    /// Returns a state without subscriptions for a stream of `variant` that starts with `snapshot`.
    pub fn new(variant: Variant, aggregated: bool, timing: Timing, snapshot: Arc<Snapshot>) -> Self {
        Self {
            variant,
            aggregated,
            timing,
            node: None,
            gates: Gates::new(snapshot.clone()),
            newest: snapshot,
            types: BTreeMap::new(),
            unfollowed: HashSet::new(),
            asked_routes: BTreeSet::new(),
            nonces: 0,
            waiting: None,
            locators: Locators::default(),
            aliases: Aliases::default(),
            renewals: Renewals::default(),
            outputs: Vec::new(),
        }
    }

    /// Returns a state without subscriptions for the same client.
    pub fn for_same_client(&self) -> Self {
        let mut state = Self::new(self.variant, self.aggregated, self.timing, self.newest.clone());
        state.node.clone_from(&self.node);
        state
    }

    /// Returns the URL by which the client requests resources of type `kind`, if it does.
    pub fn type_url(&self, kind: ResourceType) -> Option<&str> {
        let waiting = self.waiting.as_ref().filter(|_| kind == ResourceType::CLUSTER);
        let subscription = self.types.get(&kind).map(|subscription| &*subscription.type_url);
        subscription.or(waiting.map(|request| &*request.type_url))
    }

    /// Handles a request for resources of type `kind`.
    pub fn on_request(&mut self, kind: ResourceType, mut request: Request, now: Instant) -> Vec<Output> {
        let by_name = self.types.contains_key(&kind);
        if !self.locators.request(kind, &request, by_name, &self.newest, now, &mut self.outputs) {
            let resolved = self.resolve_aliases(kind, &mut request);
            self.handle_known_type(kind, &request, now);
            self.request_resolved(kind, &resolved);
            self.handle_waiting(now);
        }
        self.advance(now)
    }

    /// Handles a request for an unknown type. A delta client learns that the names do not exist. Other clients get no
    /// response.
    pub fn on_unknown_type(&mut self, request: &Request, now: Instant) -> Vec<Output> {
        let names = request.subscribe.iter().filter(|name| *name != "*");
        let removed: Vec<Arc<str>> = names.map(|name| Arc::from(&**name)).collect();
        if self.variant == Variant::Delta && !removed.is_empty() {
            let nonce = self.next_nonce();
            self.outputs.push(Output::Send(Response {
                type_url: request.type_url.as_str().into(),
                nonce,
                version: String::new(),
                resources: Resources::default(),
                heartbeats: Vec::new(),
                leases: false,
                removed,
                missing: Vec::new(),
            }));
        }
        self.advance(now)
    }

    /// Handles a newer snapshot.
    pub fn on_snapshot(&mut self, newest: Arc<Snapshot>, now: Instant) -> Vec<Output> {
        let changes = newest.changes_since(self.newest.serial());
        for (kind, subscription) in &mut self.types {
            match &changes {
                Some(changes) => {
                    let of_kind = changes.clone().filter(|key| key.0 == *kind).map(|key| &key.1);
                    advance_to(&newest, of_kind, subscription, &mut self.aliases);
                }
                None => {
                    let of_kind = newest.difference(&self.newest, *kind);
                    advance_to(&newest, of_kind.iter(), subscription, &mut self.aliases);
                }
            }
        }
        drop(changes);
        self.newest = newest;
        self.advance(now)
    }

    /// Handles the passing of time: timeouts of gates, and removals that are due.
    pub fn on_time(&mut self, now: Instant) -> Vec<Output> {
        for subscription in self.types.values_mut() {
            subscription.pace.on_time(now);
            subscription.end_pause(now);
            let deadline = |sent: Instant| sent + self.timing.gate_timeout;
            while let Some(late) = subscription.in_flight.iter().find(|r| deadline(r.sent_at) <= now) {
                let nonce = late.nonce.clone();
                subscription.give_up(&nonce);
                self.outputs.push(Output::Notice(Notice::Unanswered { kind: subscription.kind, nonce }));
            }
        }
        self.gates.on_time(now);
        self.handle_waiting(now);
        let mut outputs = self.advance(now);
        outputs.extend(self.renew(now));
        outputs
    }

    /// Returns the time of the next call of [`State::on_time`]. Every event can change it.
    pub fn deadline(&self) -> Option<Instant> {
        let unanswered = self.types.values().flat_map(|s| &s.in_flight).map(|r| r.sent_at + self.timing.gate_timeout);
        let paced = self.types.values().filter_map(Subscription::paced_until);
        let trials = self.types.values().filter_map(Subscription::trial_due);
        unanswered.chain(self.gates.deadline()).chain(self.renewals.next()).chain(paced).chain(trials).min()
    }

    /// Handles a request for resources by name or wildcard.
    fn handle_known_type(&mut self, kind: ResourceType, request: &Request, now: Instant) {
        let first = !self.types.contains_key(&kind);
        if first && self.delays_first_request(kind, request, now) {
            self.waiting = Some(request.clone());
            return;
        }
        let guessed = (kind == ResourceType::CLUSTER && first).then(|| self.clusters_by_version(request)).flatten();
        let guessed = guessed.map(|held| Request { held: Some(held), ..request.clone() });
        let request = guessed.as_ref().unwrap_or(request);
        let subscription =
            self.types.entry(kind).or_insert_with(|| Subscription::new(kind, &request.type_url, self.newest.clone()));
        let stale = self.variant == Variant::Sotw && !first && request.nonce != subscription.last_nonce;
        let replaced = match first {
            true => None,
            false => handle_answer(subscription, self.variant, request, now, &mut self.outputs),
        };
        if stale {
            // The request answers an outdated response, so its names do not count. The client will also answer the newer one.
            subscription.record_dropped(request);
        } else {
            subscription.request(self.variant, request, first);
        }
        if first {
            self.follow_first_request(kind);
        }
        if let Some(replaced) = replaced.filter(|_| order::side(kind) == Side::Before) {
            let listeners = if kind == ResourceType::LISTENER { replaced } else { Vec::new() };
            self.gates.routes_acked(listeners, &self.types, now, self.timing);
        }
    }

    /// Informs the gates of the first request for a type. Returns whether the request has to wait, as a request for clusters
    /// does until the client has requested endpoints.
    fn delays_first_request(&mut self, kind: ResourceType, request: &Request, now: Instant) -> bool {
        if let Some(node) = self.node.as_ref().filter(|_| self.aggregated) {
            self.gates.on_first_request(node, request, &self.types, now, self.timing);
        }
        if kind != ResourceType::CLUSTER {
            return false;
        }
        if self.awaits_endpoint_names(request) {
            return true;
        }
        self.gates.on_first_cluster_request(now, self.timing);
        false
    }

    /// Marks the resources that the client needs after its first request for a type. These are load assignments of
    /// clusters that were sent earlier, and virtual hosts of its route configurations.
    fn follow_first_request(&mut self, kind: ResourceType) {
        if kind == ResourceType::ENDPOINTS
            && let Some(subscription) = self.types.get_mut(&kind)
        {
            for name in std::mem::take(&mut self.unfollowed) {
                if !subscription.fresh && subscription.covers(&name) {
                    subscription.touch(&name, Need::Again);
                }
            }
        }
        if kind == ResourceType::VIRTUAL_HOST {
            let without: Vec<Arc<str>> = self.routes_at_client().filter(|name| !self.has_hosts(name)).collect();
            self.asked_routes.extend(without);
        }
    }

    /// Handles the waiting request for clusters, if its wait is over.
    fn handle_waiting(&mut self, now: Instant) {
        if self.waiting.as_ref().is_some_and(|request| !self.awaits_endpoint_names(request))
            && let Some(request) = self.waiting.take()
        {
            self.handle_known_type(ResourceType::CLUSTER, &request, now);
        }
    }

    /// Sends all resources that may be sent now, in the order of the push plan.
    fn advance(&mut self, now: Instant) -> Vec<Output> {
        if self.aggregated {
            self.gates.start_grace_periods(&self.types, &self.newest, now, self.timing);
            // Advanced twice: routes whose clusters were just accepted are sent even if newer clusters follow at once.
            // Otherwise, continuous changes could delay routes forever.
            self.gates.advance_existing_routes(&self.types);
            self.push_clusters(now);
            self.gates.advance_routes(&self.types);
        }
        for step in order::flush(&self.types) {
            match step {
                Step::Send(kind, side) => self.push_type(kind, side, now),
                Step::ScopesAhead => self.push_scopes_ahead(now),
                Step::HostsAhead => self.push_hosts_ahead(now),
            }
        }
        if self.aggregated {
            self.gates.start_grace_periods(&self.types, &self.newest, now, self.timing);
        }
        self.locators.advance(&self.newest, now, &mut self.nonces, &mut self.outputs);
        let recovered = self.report_isolation();
        let before = self.types.iter_mut().filter(|(kind, _)| order::side(**kind) == Side::Before);
        let mut again = false;
        for (_, subscription) in before.filter(|_| !recovered.is_empty()) {
            again |= recovered.iter().any(|cluster| subscription.retry_references_to(cluster));
        }
        let mut outputs = std::mem::take(&mut self.outputs);
        if again {
            outputs.extend(self.advance(now));
        }
        outputs
    }

    /// Sends the changes of one type.
    fn push_type(&mut self, kind: ResourceType, side: Side, now: Instant) {
        if kind == ResourceType::VIRTUAL_HOST {
            self.follow_with_virtual_hosts();
        }
        match side {
            _ if !self.aggregated => self.push(kind, now, |stream, name| Look::at(&stream.newest, kind, name)),
            // Sent by `advance`, before the gate opens.
            Side::Behind if kind == ResourceType::CLUSTER => {}
            Side::Behind if kind == ResourceType::ENDPOINTS => self.push(kind, now, Self::endpoints),
            Side::Before if kind == ResourceType::LISTENER => self.push_listeners(now),
            Side::Before => self.push(kind, now, |stream, name| stream.before_the_gate(kind, name)),
            Side::Behind | Side::Apart => self.push(kind, now, |stream, name| Look::at(&stream.newest, kind, name)),
        }
    }

    /// Reports the resources that isolation has found to be invalid, and the recovered resources. Returns the recovered
    /// clusters.
    fn report_isolation(&mut self) -> Vec<Arc<str>> {
        let mut recovered = Vec::new();
        for subscription in self.types.values_mut() {
            let kind = subscription.kind;
            for event in subscription.isolation_events() {
                self.outputs.push(Output::Notice(match event {
                    IsolationEvent::Rejected(rejection) => Notice::Rejected(rejection),
                    IsolationEvent::Recovered { name } => {
                        recovered.extend((kind == ResourceType::CLUSTER).then(|| name.clone()));
                        Notice::Recovered { kind, name }
                    }
                }));
            }
        }
        recovered
    }

    /// Returns the newest snapshot that the stream has seen.
    pub fn newest(&self) -> &Snapshot {
        &self.newest
    }

    /// Returns whether the client has accepted the routes of its listeners. Until then, the listeners are warming.
    pub fn has_routes_of_its_listeners(&self) -> bool {
        !self.aggregated || self.gates.has_routes_of_its_listeners(&self.types)
    }

    /// Returns whether the client has subscribed to listeners, if there are any. A starting Envoy subscribes to clusters
    /// first.
    pub fn has_asked_for_listeners(&self, newest: &Snapshot) -> bool {
        let kind = ResourceType::LISTENER;
        !self.aggregated || self.types.contains_key(&kind) || newest.len(kind) == 0
    }

    /// Returns the interests of the stream in the store, for the types whose interest has changed. Types with locators watch
    /// all names.
    pub fn interests(&mut self) -> Vec<(ResourceType, Interest)> {
        let located: Vec<ResourceType> = self.locators.kinds().collect();
        let by_name = self.types.iter_mut().filter(|(kind, _)| !located.contains(kind));
        let by_name: Vec<_> = by_name.filter_map(|(kind, types)| Some((*kind, types.interest()?))).collect();
        by_name.into_iter().chain(located.into_iter().map(|kind| (kind, Interest::All))).collect()
    }

    /// Returns the number of names that the state stores because the client requested or has not answered them.
    pub fn stored_names(&self) -> usize {
        let by_name: usize = self.types.values().map(Subscription::stored_names).sum();
        by_name + self.aliases.len() + self.locators.stored_names()
    }

    fn next_nonce(&mut self) -> String {
        self.nonces += 1;
        self.nonces.to_string()
    }
}

/// Advances `subscription` to the snapshot `newest`, in which the names `changed` differ.
fn advance_to<'a>(
    newest: &Arc<Snapshot>,
    changed: impl Iterator<Item = &'a Arc<str>> + Clone,
    subscription: &mut Subscription,
    aliases: &mut Aliases,
) {
    subscription.advance(newest, changed.clone());
    aliases.replace(subscription, newest, changed.clone());
    subscription.mark_changed(changed);
}
