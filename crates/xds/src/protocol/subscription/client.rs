//! The state of one type at a client: sent, accepted, and in-flight resources.
//!
//! The state of a client that is level with the newest snapshot costs no memory. Only names that differ from the snapshot
//! are stored individually.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use super::isolation::Attempt;
use super::{Need, Subscription};
use crate::protocol::message::{Request, Resources};
use crate::protocol::pace::Paced;
use crate::snapshot::{Resource, Version};

/// The sent and accepted states of one name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::protocol) struct Known {
    /// The state that was sent last.
    pub sent: ClientState,
    /// The state that the client accepted last.
    pub accepted: ClientState,
}

/// The state of one name at the client.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::protocol) enum ClientState {
    /// The client has no resource, and no response was sent.
    #[default]
    Unknown,
    /// The client knows that the resource does not exist.
    Absent,
    /// A version from an earlier stream whose content is unknown.
    Version(Version),
    /// The client has this resource.
    Resource(Arc<Resource>),
}

impl PartialEq<Arc<Resource>> for ClientState {
    fn eq(&self, resource: &Arc<Resource>) -> bool {
        match self {
            ClientState::Resource(own) => own.version() == resource.version(),
            ClientState::Version(version) => *version == resource.version(),
            ClientState::Unknown | ClientState::Absent => false,
        }
    }
}

impl ClientState {
    /// Returns whether the client has any version.
    pub fn exists(&self) -> bool {
        matches!(self, ClientState::Version(_) | ClientState::Resource(_))
    }

    /// Returns the resource, if its content is known.
    pub fn resource(&self) -> Option<&Arc<Resource>> {
        match self {
            ClientState::Resource(resource) => Some(resource),
            _ => None,
        }
    }
}

/// A list of resources, sorted by name, that streams can share.
pub(in crate::protocol) type Shared = Arc<[Arc<Resource>]>;

/// A response without an answer so far.
#[derive(Debug, Clone)]
pub(in crate::protocol) struct InFlight {
    pub nonce: String,
    /// State of the world: the `version_info` of the response.
    pub version: String,
    pub sent_at: Instant,
    /// The changed state of each name, sorted by name.
    pub content: Vec<(Arc<str>, ClientState)>,
    /// The other resources of a first response.
    pub first: Shared,
    /// All resources of the response, sorted, if it is a full state.
    pub full: Option<Resources>,
    /// The generation that the client has completely answered with an ACK of this response; 0 if resources were left out.
    pub generation: u64,
    /// The paced parts of the response.
    pub paced: Vec<Paced>,
    /// Full state: the names that keep their state although a different state was sent before, or is desired.
    pub instead: Vec<(Arc<str>, ClientState)>,
    /// The trial that the response belongs to, if any.
    pub attempt: Attempt,
}

impl InFlight {
    /// Returns a response that changes `content`.
    pub fn new(
        nonce: String,
        sent_at: Instant,
        mut content: Vec<(Arc<str>, ClientState)>,
        full: Option<Resources>,
    ) -> Self {
        content.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Self {
            nonce,
            version: String::new(),
            sent_at,
            content,
            first: Arc::new([]),
            full,
            generation: 0,
            paced: Vec::new(),
            instead: Vec::new(),
            attempt: Attempt::default(),
        }
    }

    /// Returns whether the response sets a resource (instead of only removing).
    pub fn sets_something(&self) -> bool {
        !self.first.is_empty() || self.content.iter().any(|(_, state)| state.exists())
    }

    /// Returns whether the response affects no resource.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty() && self.content.is_empty()
    }

    /// Returns all resources of a full state, or the resources that the response sets.
    pub fn held(&self) -> Vec<Arc<Resource>> {
        match &self.full {
            Some(all) => all.to_vec(),
            None => self.resources().cloned().collect(),
        }
    }

    /// Returns the resources that the response sets.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.first.iter().chain(self.content.iter().filter_map(|(_, state)| state.resource()))
    }

    /// Returns the names of the resources that the response sets.
    pub fn names_set(&self) -> impl Iterator<Item = &Arc<str>> {
        let changed = self.content.iter().filter(|(_, state)| state.exists()).map(|(name, _)| name);
        self.first.iter().map(|resource| resource.name()).chain(changed)
    }

    /// Returns whether the response affects `name`.
    pub fn is_about(&self, name: &str) -> bool {
        find(&self.first, name).is_some() || self.content.binary_search_by(|(sent, _)| (**sent).cmp(name)).is_ok()
    }
}

/// The state of the names that are not stored individually.
#[derive(Debug)]
pub(super) enum Level {
    /// The client has no resources.
    Nothing,
    /// The resources of the newest snapshot were sent in several responses. The client has accepted the listed
    /// resources.
    Sent(Vec<Shared>),
    /// The client has accepted the resources of the newest snapshot.
    Accepted,
}

impl Subscription {
    /// Returns the state of `name` at the client.
    pub fn known(&self, name: &str) -> Known {
        if let Some(known) = self.apart.get(name) {
            return known.clone();
        }
        if matches!(self.level, Level::Nothing) || !self.covers(name) {
            return Known::default();
        }
        let sent = match self.base.get(self.kind, name) {
            Some(resource) => ClientState::Resource(resource.clone()),
            None if self.named(name) => ClientState::Absent,
            None => ClientState::Unknown,
        };
        let accepted = match &self.level {
            Level::Nothing => ClientState::Unknown,
            Level::Sent(parts) => {
                let accepted = parts.iter().find_map(|part| find(part, name));
                accepted.map_or(ClientState::Unknown, |resource| ClientState::Resource(resource.clone()))
            }
            Level::Accepted => sent.clone(),
        };
        Known { sent, accepted }
    }

    /// Returns the individually stored state of `name`, which is created if necessary.
    pub(super) fn apart(&mut self, name: &Arc<str>) -> &mut Known {
        if !self.apart.contains_key(name) {
            let known = self.known(name);
            self.apart.insert(name.clone(), known);
        }
        self.apart.entry(name.clone()).or_default()
    }

    /// Retains the state of `name` at the client before the newest snapshot is replaced.
    pub(super) fn retain(&mut self, name: &Arc<str>) {
        if !matches!(self.level, Level::Nothing) && self.covers(name) {
            self.apart(name);
        }
    }

    /// Records that the client has no resource for a newly subscribed name.
    pub(super) fn track(&mut self, name: &Arc<str>) {
        if !matches!(self.level, Level::Nothing) && !self.covers(name) {
            self.apart.entry(name.clone()).or_default();
        }
    }

    /// Removes the individually stored state of `name` if the client is level with the newest snapshot.
    pub fn settle(&mut self, name: &str) {
        if matches!(self.level, Level::Accepted) && self.apart.get(name).is_some_and(|known| self.is_level(name, known))
        {
            self.apart.remove(name);
        }
    }

    fn is_level(&self, name: &str, known: &Known) -> bool {
        known.sent == known.accepted
            && self.covers(name)
            && match (self.base.get(self.kind, name), &known.sent) {
                (Some(resource), ClientState::Resource(sent)) => sent.version() == resource.version(),
                (None, ClientState::Absent) => true,
                (None, ClientState::Unknown) => !self.named(name),
                _ => false,
            }
    }

    /// Removes the state of a removed `name` that is neither at the client nor in flight.
    pub fn forget_gone(&mut self, name: &str) {
        let nothing = |known: &Known| !known.sent.exists() && !known.accepted.exists();
        if !self.named(name) && self.apart.get(name).is_some_and(nothing) {
            self.apart.remove(name);
        }
    }

    /// Returns whether all resources of the newest snapshot were sent to the client.
    pub fn was_sent_all(&self) -> bool {
        !matches!(self.level, Level::Nothing)
            && self.apart.iter().all(|(name, known)| match self.base.get(self.kind, name) {
                Some(resource) => known.sent == *resource,
                None => !known.sent.exists(),
            })
    }

    /// Returns all sent or accepted resources, some of them twice.
    pub fn at_client(&self) -> impl Iterator<Item = &Arc<Resource>> {
        let settled = (!matches!(self.level, Level::Nothing)).then(|| self.settled());
        let apart = self.apart.values().flat_map(|known| [known.sent.resource(), known.accepted.resource()]);
        settled.into_iter().flatten().chain(apart.flatten())
    }

    /// Returns the individually stored states, which can differ from the newest snapshot.
    pub fn tracked(&self) -> impl Iterator<Item = (&Arc<str>, &Known)> {
        self.apart.iter()
    }

    /// Returns the subscribed resources without an individually stored state.
    pub(super) fn settled(&self) -> Box<dyn Iterator<Item = &Arc<Resource>> + '_> {
        let wanted: Box<dyn Iterator<Item = &Arc<Resource>>> = if self.subscribes_to_collections() {
            Box::new(self.base.all(self.kind).filter(|resource| self.covers(resource.name())))
        } else {
            Box::new(self.names.iter().filter_map(|name| self.base.get(self.kind, name)))
        };
        Box::new(wanted.filter(|resource| !self.apart.contains_key(resource.name())))
    }

    /// Returns whether the newest version of `name` was sent to the client, and the client has no other version.
    pub fn has_settled(&self, name: &str) -> bool {
        !matches!(self.level, Level::Nothing) && self.covers(name) && !self.apart.contains_key(name)
    }

    /// Returns the names of the sent resources.
    pub fn names_sent(&self) -> impl Iterator<Item = Arc<str>> {
        let settled = (!matches!(self.level, Level::Nothing)).then(|| self.settled()).into_iter().flatten();
        let apart = self.apart.iter().filter(|(_, known)| known.sent.exists()).map(|(name, _)| name.clone());
        settled.map(|resource| resource.name().clone()).chain(apart)
    }

    /// Describes the requested, sent, accepted, and rejected resources, for a debug page.
    pub fn describe(&self) -> serde_json::Value {
        let mut unsettled: Vec<&str> =
            self.apart.iter().filter(|(_, known)| known.sent != known.accepted).map(|(name, _)| &**name).collect();
        unsettled.sort_unstable();
        let settled = self.settled().count();
        let (settled_sent, settled_accepted) = match self.level {
            Level::Nothing => (0, 0),
            Level::Sent(_) => (settled, 0),
            Level::Accepted => (settled, settled),
        };
        serde_json::json!({
            "wildcard": self.is_wildcard(),
            "named": self.names.len(),
            "sent": settled_sent + self.apart.values().filter(|known| known.sent.exists()).count(),
            "accepted": settled_accepted + self.apart.values().filter(|known| known.accepted.exists()).count(),
            "unsettled": unsettled,
            "pending": self.dirty.len(),
            "in_flight": self.in_flight.iter().map(|response| &response.nonce).collect::<Vec<_>>(),
            "last_version": self.sent_version,
            "last_nonce": self.last_nonce,
            "rejection": self.rejection.as_deref(),
            "rejected": self.culprits().map(|(resource, message)| serde_json::json!({
                "name": resource.name(),
                "version": resource.version().to_string(),
                "message": message,
                "keeps_version": self.known(resource.name()).accepted.resource().map(|good| good.version().to_string()),
            })).collect::<Vec<_>>(),
        })
    }

    /// Returns whether the absence of a name must be reported that the client has not subscribed to by name.
    pub fn reports_unnamed_absences(&self) -> bool {
        self.dirty.keys().any(|name| !self.named(name) && self.base.get(self.kind, name).is_none())
    }

    /// Marks each subscribed name as dirty, because the first request cannot be answered with a shared response.
    pub fn mark_all_dirty(&mut self) {
        self.fresh = false;
        self.level = Level::Accepted;
        let names: Vec<Arc<str>> = self.settled().map(|resource| resource.name().clone()).collect();
        for name in names.iter().chain(&self.names.clone()) {
            self.apart.entry(name.clone()).or_default();
            self.touch(name, Need::Asked);
        }
    }

    /// Records that the first request was answered with the shared responses `sent`.
    pub fn record_shared_answer(&mut self, version: &str, sent: Vec<InFlight>) {
        self.fresh = false;
        self.named_resources = None;
        self.dirty.clear();
        self.answer_owed = false;
        let asks = self.subscribes_to_collections() || !self.names.is_empty();
        self.level = match sent.is_empty() {
            true if asks => Level::Accepted,
            true => Level::Nothing,
            false => Level::Sent(Vec::new()),
        };
        version.clone_into(&mut self.sent_version);
        for mut response in sent {
            version.clone_into(&mut response.version);
            for (name, state) in &response.content {
                self.apart.insert(name.clone(), Known { sent: state.clone(), accepted: ClientState::Unknown });
            }
            self.last_nonce.clone_from(&response.nonce);
            self.in_flight.push(response);
        }
    }

    /// Records that `response` was sent.
    pub fn sent(&mut self, version: &str, mut response: InFlight) {
        for (name, state) in &response.content {
            self.apart(name).sent = state.clone();
        }
        self.answer_owed = false;
        self.last_nonce.clone_from(&response.nonce);
        version.clone_into(&mut self.sent_version);
        version.clone_into(&mut response.version);
        self.in_flight.push(response);
    }

    /// Records that the client already has `content`. Returns whether there is now more to send.
    pub fn record_known(&mut self, content: Vec<(Arc<str>, ClientState)>) -> bool {
        let dirty = self.dirty.len();
        for (name, state) in &content {
            self.apart(name).sent = state.clone();
        }
        self.accept_content(content);
        self.dirty.len() > dirty
    }

    /// Returns the names that the client will have when it has accepted all in-flight responses.
    pub(super) fn under_way(&self) -> impl Iterator<Item = &Arc<str>> {
        self.in_flight.iter().flat_map(InFlight::names_set)
    }

    /// Removes the response `nonce` from the responses in flight, and returns it.
    pub fn remove_response(&mut self, nonce: &str) -> Option<InFlight> {
        let at = self.in_flight.iter().position(|response| response.nonce == nonce)?;
        Some(self.in_flight.remove(at))
    }

    /// Returns the nonces that an ACK of `nonce` answers: that response, and the outdated responses before it, which the
    /// client will not answer.
    pub fn answered(&self, nonce: &str) -> Vec<String> {
        let at = self.in_flight.iter().position(|response| response.nonce == nonce);
        let answered = at.and_then(|at| self.in_flight.get(..=at)).unwrap_or_default();
        answered.iter().map(|response| response.nonce.clone()).collect()
    }

    /// Returns whether a reply with an error is an ACK: it contains the version of the response that it answers, and
    /// the version is new to the client. Envoy replies like this to a wildcard subscription. It delays its reply while
    /// a cluster warms, and sends one reply for all responses of that time. The reply has the newest version and the
    /// newest error. After [`crate::protocol::Timing::gate_timeout`], such an error belongs to an earlier response. The
    /// response itself may be late too. A gRPC client, which subscribes by name, adopts the new version when it uses a
    /// part of a response. Its error is therefore a NACK of the rest.
    pub fn accepts_despite_error(&self, request: &Request) -> bool {
        if request.error.is_none() || request.version.is_empty() || !self.is_wildcard() {
            return false;
        }
        let responses: Vec<&InFlight> = self.late.iter().map(|late| &late.response).chain(&self.in_flight).collect();
        let Some(at) = responses.iter().position(|response| response.nonce == request.nonce) else { return false };
        let (before, answered) = responses.split_at(at);
        let mut versions = before.iter().map(|response| &response.version).chain([&self.accepted_version]);
        answered.first().is_some_and(|answered| answered.version == request.version)
            && versions.all(|before| *before != request.version)
    }

    /// Records that the client has accepted `response`. Returns the previous resources that the client has replaced.
    pub fn accept(&mut self, response: InFlight) -> Vec<Arc<Resource>> {
        // Clients answer responses in order, so the client has also accepted all late responses before this one.
        self.late.clear();
        self.accepted_version.clone_from(&response.version);
        self.record_accepted_attempt(response.attempt);
        let replaced = self.apply(response);
        self.find_culprits();
        replaced
    }

    /// Records that the client has the resources of `response`. Returns the previous resources that it has replaced.
    pub(super) fn apply(&mut self, response: InFlight) -> Vec<Arc<Resource>> {
        self.reached = self.reached.max(response.generation);
        if let Some(all) = &response.full {
            self.came_back = false;
            let absent: HashMap<&str, &ClientState> = response
                .instead
                .iter()
                .chain(&response.content)
                .filter(|(_, state)| state.resource().is_none())
                .map(|(name, state)| (&**name, state))
                .collect();
            let state = |name: &Arc<str>, sent: &ClientState| match (find(all, name), absent.get(&**name)) {
                (Some(resource), _) => ClientState::Resource(resource.clone()),
                (None, Some(state)) => (*state).clone(),
                (None, None) if !sent.exists() => sent.clone(),
                (None, None) => ClientState::Unknown,
            };
            let unsettled = self.apart.iter().filter(|(_, known)| known.sent != known.accepted);
            let content = unsettled.map(|(name, known)| (name.clone(), state(name, &known.sent))).collect();
            if !matches!(self.level, Level::Nothing) {
                self.level = Level::Accepted;
            }
            return self.accept_content(content);
        }
        self.accept_first(response.first);
        self.accept_content(response.content)
    }

    /// Records that the client has accepted a part of its first response.
    fn accept_first(&mut self, first: Shared) {
        for known in self.apart.iter_mut().filter_map(|(name, known)| Some((find(&first, name)?, known))) {
            let (resource, known) = known;
            if !known.accepted.exists() {
                known.accepted = ClientState::Resource(resource.clone());
            }
        }
        let Level::Sent(accepted) = &mut self.level else {
            first.iter().for_each(|resource| self.settle(resource.name()));
            return;
        };
        accepted.push(first);
        if !self.in_flight.iter().any(|response| !response.first.is_empty()) {
            self.level = Level::Accepted;
            let names: Vec<Arc<str>> = self.apart.keys().cloned().collect();
            names.iter().for_each(|name| self.settle(name));
        }
    }

    /// Stores the names of a first response individually, because the client has rejected a part of it.
    pub(super) fn track_first_response(&mut self) {
        let Level::Sent(accepted) = std::mem::replace(&mut self.level, Level::Accepted) else { return };
        let settled: Vec<Arc<Resource>> = self.settled().cloned().collect();
        let mut has: HashMap<Arc<str>, Arc<Resource>> = HashMap::new();
        for resource in accepted.iter().flat_map(|part| part.iter()) {
            has.insert(resource.name().clone(), resource.clone());
        }
        for resource in settled {
            let accepted = has.remove(resource.name()).map_or(ClientState::Unknown, ClientState::Resource);
            let sent = ClientState::Resource(resource.clone());
            self.apart.insert(resource.name().clone(), Known { sent, accepted });
            self.settle(resource.name());
        }
    }

    /// Records that the client has `content`. Returns the replaced resources.
    pub(super) fn accept_content(&mut self, content: Vec<(Arc<str>, ClientState)>) -> Vec<Arc<Resource>> {
        let mut replaced = Vec::new();
        for (name, state) in content {
            self.record_accepted(&name, &state);
            let named = self.named(&name);
            let Some(known) = self.apart.get_mut(&name) else { continue };
            let gone = !state.exists() && !known.sent.exists() && !named;
            if let ClientState::Resource(old) = std::mem::replace(&mut known.accepted, state) {
                replaced.push(old);
            }
            if gone && self.base.get(self.kind, &name).is_none() {
                // Otherwise the state of names that are added and removed would accumulate.
                self.apart.remove(&name);
            } else {
                self.settle(&name);
            }
        }
        replaced
    }

    /// Records that the rejected version of `name` is no longer desired. The client has the previous version.
    pub fn withdraw(&mut self, name: &Arc<str>) {
        if self.state_at_client(name) == self.known(name).sent {
            return; // Something newer is on its way.
        }
        if self.keeps_unknown(name) {
            return; // The client would delete its version, which is unknown.
        }
        let known = self.apart(name);
        known.sent = known.accepted.clone();
        self.settle(name);
    }

    /// Returns the state of `name` at the client: in flight, or accepted last.
    pub fn state_at_client(&self, name: &str) -> ClientState {
        let on_its_way = || self.in_flight.iter().any(|response| response.is_about(name));
        let known = self.known(name);
        if known.sent == known.accepted || on_its_way() { known.sent } else { known.accepted }
    }

    /// Resolves a version from an earlier stream to `resource`.
    pub fn resolve_version(&mut self, resource: &Arc<Resource>) {
        let Some(known) = self.apart.get_mut(resource.name()) else { return };
        for state in [&mut known.sent, &mut known.accepted] {
            if *state == *resource {
                *state = ClientState::Resource(resource.clone());
            }
        }
    }

    /// Returns whether a name that matches was sent, but no version of it was ever accepted. Such names exist only while a
    /// response is in flight, or after a NACK.
    pub fn has_unaccepted(&self, matching: impl Fn(&str) -> bool) -> bool {
        let mut apart = self.apart.iter().filter(|(_, known)| known.sent.exists() && !known.accepted.exists());
        apart.any(|(name, _)| matching(name))
            || self.never_accepted().any(|name| matching(name))
            || (matches!(self.level, Level::Sent(_)) && self.settled().any(|resource| matching(resource.name())))
    }
}

/// Returns the resource `name` of a list that is sorted by name.
fn find<'a>(sorted: &'a [Arc<Resource>], name: &str) -> Option<&'a Arc<Resource>> {
    sorted.binary_search_by(|resource| (**resource.name()).cmp(name)).ok().map(|at| &sorted[at])
}
