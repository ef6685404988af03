//! What a client has of one type: what it was sent, what it accepted, what is under way.
//!
//! A client that is level with the newest snapshot costs nothing to remember: only names that stand apart from it are
//! kept one by one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use super::isolation::Attempt;
use super::{Need, Subscription};
use crate::server::message::{Request, Resources};
use crate::server::pace::Paced;
use crate::snapshot::{Resource, Version};

/// What a client has, or was told, of one name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::server) struct Known {
    /// What it was sent last.
    pub sent: ClientState,
    /// What it accepted last.
    pub accepted: ClientState,
}

/// What the client has of one name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::server) enum ClientState {
    /// Nothing, and nothing was said.
    #[default]
    Unknown,
    /// The client knows that there is nothing.
    Absent,
    /// Some version from an earlier stream whose content is not known here.
    Version(Version),
    /// This resource.
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
    /// Whether the client has some version.
    pub fn exists(&self) -> bool {
        matches!(self, ClientState::Version(_) | ClientState::Resource(_))
    }

    /// The resource, where its content is known.
    pub fn resource(&self) -> Option<&Arc<Resource>> {
        match self {
            ClientState::Resource(resource) => Some(resource),
            _ => None,
        }
    }
}

/// A list of resources, by name, that many streams may share.
pub(in crate::server) type Shared = Arc<[Arc<Resource>]>;

/// A response that is not answered yet.
#[derive(Debug, Clone)]
pub(in crate::server) struct InFlight {
    pub nonce: String,
    /// State of the world: its `version_info`.
    pub version: String,
    pub sent_at: Instant,
    /// What it changed, by name.
    pub content: Vec<(Arc<str>, ClientState)>,
    /// What it set beside that, in a first answer.
    pub first: Shared,
    /// All that it held, sorted, if that is everything that the client is to have, and not only the change.
    pub full: Option<Resources>,
    /// With its answer the client is level with this publication, and with all before it; 0 if it left something out.
    pub generation: u64,
    /// What of it is large.
    pub paced: Vec<Paced>,
    /// Of a full state, names that stayed as they were although something else was sent of them before, or wanted.
    pub instead: Vec<(Arc<str>, ClientState)>,
    /// Whether it was sent to find out what of an earlier response is at fault.
    pub attempt: Attempt,
}

impl InFlight {
    /// A response that changes `content`.
    pub fn new(
        nonce: String,
        sent_at: Instant,
        content: Vec<(Arc<str>, ClientState)>,
        full: Option<Resources>,
    ) -> Self {
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

    /// Whether it set anything (rather than only removed).
    pub fn sets_something(&self) -> bool {
        !self.first.is_empty() || self.content.iter().any(|(_, state)| state.exists())
    }

    /// Whether it says nothing of any resource.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty() && self.content.is_empty()
    }

    /// The resources that it is about: those that it sets, or all that it held.
    pub fn held(&self) -> Vec<Arc<Resource>> {
        match &self.full {
            Some(all) => all.to_vec(),
            None => self.resources().cloned().collect(),
        }
    }

    /// The resources that it sets.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.first.iter().chain(self.content.iter().filter_map(|(_, state)| state.resource()))
    }

    /// Names of what it sets.
    pub fn names_set(&self) -> impl Iterator<Item = &Arc<str>> {
        let changed = self.content.iter().filter(|(_, state)| state.exists()).map(|(name, _)| name);
        self.first.iter().map(|resource| resource.name()).chain(changed)
    }

    /// Whether it says something of `name`.
    pub fn is_about(&self, name: &str) -> bool {
        find(&self.first, name).is_some() || self.content.iter().any(|(sent, _)| **sent == *name)
    }
}

/// What a client has of the names that do not stand apart.
#[derive(Debug)]
pub(super) enum Level {
    /// Nothing.
    Nothing,
    /// It was sent what the newest snapshot has, in several responses; these it has accepted.
    Sent(Vec<Shared>),
    /// It has accepted what the newest snapshot has.
    Accepted,
}

impl Subscription {
    /// What the client has of `name`.
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

    /// What the client has of `name`, to be changed.
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

    /// Notes that the client has nothing of a name that it did not ask for so far.
    pub(super) fn begin(&mut self, name: &Arc<str>) {
        if !matches!(self.level, Level::Nothing) && !self.covers(name) {
            self.apart.entry(name.clone()).or_default();
        }
    }

    /// Forgets what needs no remembering of `name`: the client is level with the newest snapshot.
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

    /// Forgets `name` if there is nothing of it anywhere, nor on its way: it was sent and not taken, and is gone.
    pub fn forget_gone(&mut self, name: &str) {
        let nothing = |known: &Known| !known.sent.exists() && !known.accepted.exists();
        if !self.named(name) && self.apart.get(name).is_some_and(nothing) {
            self.apart.remove(name);
        }
    }

    /// Whether the client was sent of everything what the newest snapshot has.
    pub fn was_sent_all(&self) -> bool {
        !matches!(self.level, Level::Nothing)
            && self.apart.iter().all(|(name, known)| match self.base.get(self.kind, name) {
                Some(resource) => known.sent == *resource,
                None => !known.sent.exists(),
            })
    }

    /// Everything that the client was sent or has accepted, some resources twice.
    pub fn at_client(&self) -> impl Iterator<Item = &Arc<Resource>> {
        let settled = (!matches!(self.level, Level::Nothing)).then(|| self.settled());
        let apart = self.apart.values().flat_map(|known| [known.sent.resource(), known.accepted.resource()]);
        settled.into_iter().flatten().chain(apart.flatten())
    }

    /// States of the names that stand apart from the newest snapshot.
    pub fn standing_apart(&self) -> impl Iterator<Item = (&Arc<str>, &Known)> {
        self.apart.iter()
    }

    /// What was asked for and does not stand apart.
    pub(super) fn settled(&self) -> Box<dyn Iterator<Item = &Arc<Resource>> + '_> {
        let wanted: Box<dyn Iterator<Item = &Arc<Resource>>> = if self.lists() {
            Box::new(self.base.all(self.kind).filter(|resource| self.covers(resource.name())))
        } else {
            Box::new(self.names.iter().filter_map(|name| self.base.get(self.kind, name)))
        };
        Box::new(wanted.filter(|resource| !self.apart.contains_key(resource.name())))
    }

    /// Whether the client was sent `name` as the newest snapshot has it, or has nothing else of it.
    pub fn has_settled(&self, name: &str) -> bool {
        !matches!(self.level, Level::Nothing) && self.covers(name) && !self.apart.contains_key(name)
    }

    /// Names of what the client was sent.
    pub fn names_sent(&self) -> impl Iterator<Item = Arc<str>> {
        let settled = (!matches!(self.level, Level::Nothing)).then(|| self.settled()).into_iter().flatten();
        let apart = self.apart.iter().filter(|(_, known)| known.sent.exists()).map(|(name, _)| name.clone());
        settled.map(|resource| resource.name().clone()).chain(apart)
    }

    /// What was asked for, sent, accepted and rejected; for a debug page.
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

    /// Whether an absence is to be told of a name that was not asked for by itself.
    pub fn tells_of_others(&self) -> bool {
        self.dirty.keys().any(|name| !self.named(name) && self.base.get(self.kind, name).is_none())
    }

    /// Gives up answering the first request as a whole: each name that was asked for is looked at by itself.
    pub fn one_by_one(&mut self) {
        self.fresh = false;
        self.level = Level::Accepted;
        let names: Vec<Arc<str>> = self.settled().map(|resource| resource.name().clone()).collect();
        for name in names.iter().chain(&self.names.clone()) {
            self.apart.entry(name.clone()).or_default();
            self.touch(name, Need::Asked);
        }
    }

    /// Records that the first request was answered as a whole, in responses of which `sent` says what they held.
    pub fn answered_as_a_whole(&mut self, version: &str, sent: Vec<InFlight>) {
        self.fresh = false;
        self.named_resources = None;
        self.dirty.clear();
        self.answer_owed = false;
        let asks = self.lists() || !self.names.is_empty();
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

    /// Records that `response` went out.
    pub fn sent(&mut self, version: &str, mut response: InFlight) {
        for (name, state) in &response.content {
            self.apart(name).sent = state.clone();
            match state.resource().and_then(|resource| resource.lease().ttl) {
                // Twice in its life, so that one that is late does no harm.
                Some(ttl) => drop(self.renewals.insert(name.clone(), response.sent_at + ttl / 2)),
                None => drop(self.renewals.remove(name)),
            }
        }
        self.answer_owed = false;
        self.last_nonce.clone_from(&response.nonce);
        version.clone_into(&mut self.sent_version);
        version.clone_into(&mut response.version);
        self.in_flight.push(response);
    }

    /// Records that the client need not be told of `content`: it has it. Returns whether there is now more to send.
    pub fn has(&mut self, content: Vec<(Arc<str>, ClientState)>) -> bool {
        let dirty = self.dirty.len();
        for (name, state) in &content {
            self.apart(name).sent = state.clone();
        }
        self.accept_content(content);
        self.dirty.len() > dirty
    }

    /// When the next resource must be renewed.
    pub fn renewal(&self) -> Option<Instant> {
        self.renewals.values().min().copied()
    }

    /// The resources that must be renewed now.
    pub fn renew(&mut self, now: Instant) -> Vec<Arc<Resource>> {
        let due: Vec<Arc<str>> =
            self.renewals.iter().filter(|(_, time)| **time <= now).map(|(name, _)| name.clone()).collect();
        let mut renewed = Vec::new();
        for name in due {
            self.renewals.remove(&name);
            let held = self.holds(&name);
            let Some(resource) = held.resource() else { continue };
            if let Some(ttl) = resource.lease().ttl {
                renewed.push(resource.clone());
                self.renewals.insert(name, now + ttl / 2);
            }
        }
        renewed
    }

    /// Names of what the client will have when it has taken all that is on its way.
    pub(super) fn under_way(&self) -> impl Iterator<Item = &Arc<str>> {
        self.in_flight.iter().flat_map(InFlight::names_set)
    }

    /// Removes the response `nonce` from those in flight, and returns it.
    pub fn remove_response(&mut self, nonce: &str) -> Option<InFlight> {
        let at = self.in_flight.iter().position(|response| response.nonce == nonce)?;
        Some(self.in_flight.remove(at))
    }

    /// Nonces of what an ACK of `nonce` answers: that response, and before it those that it overtook, which will not be
    /// answered any more.
    pub fn answered(&self, nonce: &str) -> Vec<String> {
        let at = self.in_flight.iter().position(|response| response.nonce == nonce);
        let answered = at.and_then(|at| self.in_flight.get(..=at)).unwrap_or_default();
        answered.iter().map(|response| response.nonce.clone()).collect()
    }

    /// Whether a reply with an error is an ACK: it carries the version of the response that it answers, and that version is
    /// new to the client. Envoy replies like this to a wildcard subscription after it has exceeded
    /// [`crate::server::Timing::gate_timeout`]: the error belongs to an earlier response. A gRPC client, which subscribes by
    /// name, moves to the new version when it uses a part of a response, so its error is a NACK of the rest.
    pub fn accepts_despite_error(&self, request: &Request) -> bool {
        let answered = self.in_flight.iter().find(|response| response.nonce == request.nonce);
        let mut late = self.late.iter().map(|late| &late.response.version);
        let is_new = !request.version.is_empty()
            && request.version != self.accepted_version
            && late.all(|before| *before != request.version);
        let names_sent_version = answered.is_some_and(|response| response.version == request.version);
        request.error.is_some() && self.is_wildcard() && is_new && names_sent_version
    }

    /// Records that the client has accepted `response`; returns what it had of these names before, and has no more.
    pub fn accept(&mut self, response: InFlight) -> Vec<Arc<Resource>> {
        // It answers one response after the other: those before it were accepted, too.
        self.late.clear();
        self.accepted_version.clone_from(&response.version);
        self.attempt_accepted(response.attempt);
        let replaced = self.apply(response);
        self.conclude();
        replaced
    }

    /// Records that the client has what `response` set; returns what it had of these names before, and has no more.
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

    /// Records that the client has accepted a part of its first answer.
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

    /// Lets every name stand apart that was sent in a first answer of which a part was rejected.
    pub(super) fn take_first_apart(&mut self) {
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

    /// Records that the client has `content`, or need not be told of it.
    fn accept_content(&mut self, content: Vec<(Arc<str>, ClientState)>) -> Vec<Arc<Resource>> {
        let mut replaced = Vec::new();
        for (name, state) in content {
            self.cleared(&name, &state);
            let named = self.named(&name);
            let Some(known) = self.apart.get_mut(&name) else { continue };
            let gone = !state.exists() && !known.sent.exists() && !named;
            if let ClientState::Resource(old) = std::mem::replace(&mut known.accepted, state) {
                replaced.push(old);
            }
            if gone && self.base.get(self.kind, &name).is_none() {
                // Nothing is left to remember; names that come and go would add up.
                self.apart.remove(&name);
            } else {
                self.settle(&name);
            }
        }
        replaced
    }

    /// Records that what was rejected of `name` is wanted no more: the client has what it had before.
    pub fn withdraw(&mut self, name: &Arc<str>) {
        if self.holds(name) == self.known(name).sent {
            return; // Something newer is on its way.
        }
        let known = self.apart(name);
        known.sent = known.accepted.clone();
        self.settle(name);
    }

    /// What the client has of `name`: what is on its way, or what it accepted last.
    pub fn holds(&self, name: &str) -> ClientState {
        let on_its_way = || self.in_flight.iter().any(|response| response.is_about(name));
        let known = self.known(name);
        if known.sent == known.accepted || on_its_way() { known.sent } else { known.accepted }
    }

    /// Resolves the version that the client came with to `resource`.
    pub fn resolve_version(&mut self, resource: &Arc<Resource>) {
        let Some(known) = self.apart.get_mut(resource.name()) else { return };
        for state in [&mut known.sent, &mut known.accepted] {
            if *state == *resource {
                *state = ClientState::Resource(resource.clone());
            }
        }
    }

    /// Whether a name for which `matching` holds was sent although no version of it was ever accepted: none, but while
    /// a response is under way or after a NACK.
    pub fn unaccepted(&self, matching: impl Fn(&str) -> bool) -> bool {
        let mut apart = self.apart.iter().filter(|(_, known)| known.sent.exists() && !known.accepted.exists());
        apart.any(|(name, _)| matching(name))
            || self.never_accepted().any(|name| matching(name))
            || (matches!(self.level, Level::Sent(_)) && self.settled().any(|resource| matching(resource.name())))
    }
}

/// The resource `name` in a list that is sorted by name.
fn find<'a>(sorted: &'a [Arc<Resource>], name: &str) -> Option<&'a Arc<Resource>> {
    sorted.binary_search_by(|resource| (**resource.name()).cmp(name)).ok().map(|at| &sorted[at])
}
