//! One resource type on one stream: what the client asked for, what it was sent, what it accepted.
//!
//! What changed is a set of dirty names, not a queue: a slow client costs no memory, and many changes become one.

mod held;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use super::message::{Request, Variant};
use crate::snapshot::{Glob, Resource, ResourceType, Snapshot, Version};

pub(super) use held::{Held, Standing};

/// The subscription to one type.
#[derive(Debug)]
pub(super) struct Subscription {
    pub kind: ResourceType,
    /// The type URL as the client spells it.
    pub type_url: Arc<str>,
    /// Whether everything is asked for.
    wildcard: bool,
    /// State of the world: an empty list means everything only until a name was ever given.
    ever_named: bool,
    names: HashSet<Arc<str>>,
    /// Delta: aliases that were asked for, and the name that each stands for (which then is in `names`).
    aliases: HashMap<Arc<str>, Arc<str>>,
    /// State of the world: names that a stale request left out. Should the next one have them again, then the client
    /// has dropped and wants them anew.
    let_go: HashSet<Arc<str>>,
    /// Collections asked for by what their names begin with.
    globs: HashSet<Glob>,
    pub known: HashMap<Arc<str>, Known>,
    /// Names that were sent and of which no version was ever accepted.
    unaccepted: HashSet<Arc<str>>,
    /// Names whose newest content was rejected, and the response that it was in: one of its names is at fault, and a
    /// client may have thrown away the others with it.
    rejected: HashMap<Arc<str>, String>,
    /// Names whose wanted state may differ from what was sent.
    pub dirty: BTreeMap<Arc<str>, Need>,
    /// An answer is owed even if there is nothing to tell.
    pub answer_owed: bool,
    pub in_flight: Vec<InFlight>,
    /// The nonce of the newest response, empty before the first.
    pub last_nonce: String,
    /// The newest NACK, until an ACK clears it.
    pub rejection: Option<String>,
    pub sent_version: String,
    /// When the client must be told that a resource with a time to live lives on.
    renewals: BTreeMap<Arc<str>, Instant>,
}

/// What a client has, or was told, of one name.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// What it was sent last.
    pub sent: State,
    /// What it accepted last.
    pub accepted: State,
}

/// The state of one name at the client.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum State {
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

impl PartialEq<Arc<Resource>> for State {
    fn eq(&self, resource: &Arc<Resource>) -> bool {
        match self {
            State::Resource(own) => own.version() == resource.version(),
            State::Version(version) => *version == resource.version(),
            State::Unknown | State::Absent => false,
        }
    }
}

impl State {
    /// Whether the client has some version.
    pub fn exists(&self) -> bool {
        matches!(self, State::Version(_) | State::Resource(_))
    }

    /// The resource, where its content is known.
    pub fn resource(&self) -> Option<&Arc<Resource>> {
        match self {
            State::Resource(resource) => Some(resource),
            _ => None,
        }
    }
}

/// Why a name is dirty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Need {
    /// It may have changed: sent if it differs.
    Changed,
    /// The client must get it again even if it did not change (its cluster did), when the type may next be sent.
    Again,
    /// The client asked: answered even if it did not change, and even while another response is under way.
    Asked,
}

/// A response that is not answered yet.
#[derive(Debug)]
pub(super) struct InFlight {
    pub nonce: String,
    pub sent_at: Instant,
    /// What it changed, by name.
    pub content: Vec<(Arc<str>, State)>,
    /// Whether it held everything that the client is to have, not only the change.
    pub full: bool,
}

impl InFlight {
    /// Whether it set anything (rather than only removed).
    pub fn sets_something(&self) -> bool {
        self.content.iter().any(|(_, state)| state.exists())
    }
}

impl Subscription {
    pub fn new(kind: ResourceType, type_url: &str) -> Self {
        Self {
            kind,
            type_url: type_url.into(),
            wildcard: false,
            ever_named: false,
            names: HashSet::new(),
            aliases: HashMap::new(),
            let_go: HashSet::new(),
            globs: HashSet::new(),
            known: HashMap::new(),
            unaccepted: HashSet::new(),
            rejected: HashMap::new(),
            dirty: BTreeMap::new(),
            answer_owed: false,
            in_flight: Vec::new(),
            last_nonce: String::new(),
            rejection: None,
            sent_version: String::new(),
            renewals: BTreeMap::new(),
        }
    }

    /// Whether `name` is asked for, by name, by glob or by wildcard.
    pub fn covers(&self, name: &str) -> bool {
        self.wildcard || self.named(name) || self.globs.iter().any(|glob| glob.covers(name))
    }

    /// Whether `name` itself was asked for, so that its absence must be told.
    pub fn named(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    pub fn is_wildcard(&self) -> bool {
        self.wildcard
    }

    /// What was asked for, sent, accepted and rejected; for a debug page.
    pub fn describe(&self) -> serde_json::Value {
        let unsettled = self.known.iter().filter(|(_, known)| known.sent != known.accepted);
        let mut unsettled: Vec<&str> = unsettled.map(|(name, _)| &**name).collect();
        unsettled.sort_unstable();
        serde_json::json!({
            "wildcard": self.wildcard,
            "named": self.names.len(),
            "sent": self.known.values().filter(|known| known.sent.exists()).count(),
            "accepted": self.known.values().filter(|known| known.accepted.exists()).count(),
            "unsettled": unsettled,
            "pending": self.dirty.len(),
            "in_flight": self.in_flight.iter().map(|response| &response.nonce).collect::<Vec<_>>(),
            "last_version": self.sent_version,
            "last_nonce": self.last_nonce,
            "rejection": self.rejection,
        })
    }

    /// Notes that `name` needs a look; a stronger need stays.
    pub fn touch(&mut self, name: &Arc<str>, need: Need) {
        let entry = self.dirty.entry(name.clone()).or_insert(need);
        *entry = need.max(*entry);
    }

    /// Notes a change in the snapshot, if this client cares for the name.
    pub fn changed(&mut self, name: &Arc<str>) {
        if self.covers(name) || self.known.contains_key(name) {
            self.touch(name, Need::Changed);
        }
    }

    /// Notes that `resource` is new or has changed: an alias that was asked for may have got its name.
    pub fn named_by(&mut self, resource: &Resource) {
        for alias in &resource.lease().aliases {
            if self.names.contains(alias) && alias != resource.name() {
                self.forget(alias);
                self.ask_by_alias(alias, resource.name());
            }
        }
    }

    fn ask_by_alias(&mut self, alias: &Arc<str>, name: &Arc<str>) {
        self.aliases.insert(alias.clone(), name.clone());
        self.names.insert(name.clone());
        self.touch(name, Need::Asked);
    }

    fn forget(&mut self, name: &Arc<str>) {
        self.names.remove(name);
        self.known.remove(name);
        self.dirty.remove(name);
        self.unaccepted.remove(name);
        self.rejected.remove(name);
        self.renewals.remove(name);
    }

    /// What was asked for, in `snapshot`: all resources that the client is to have, by name.
    pub fn wanted<'a>(&'a self, snapshot: &'a Snapshot) -> Vec<&'a Arc<Resource>> {
        if self.wildcard || !self.globs.is_empty() {
            return snapshot.all(self.kind).filter(|resource| self.covers(resource.name())).collect();
        }
        let mut wanted: Vec<_> = self.names.iter().filter_map(|name| snapshot.get(self.kind, name)).collect();
        wanted.sort_by(|a, b| a.name().cmp(b.name()));
        wanted
    }

    /// Takes the names of a request that is not stale; `first` of its type on the stream.
    pub fn request(&mut self, variant: Variant, request: &Request, first: bool, snapshot: &Snapshot) {
        match variant {
            Variant::Sotw => self.sotw_names(request, first, snapshot),
            Variant::Delta => self.delta_names(request, first, snapshot),
        }
    }

    fn sotw_names(&mut self, request: &Request, first: bool, snapshot: &Snapshot) {
        let mut all = request.subscribe.is_empty() && self.kind.wildcard_by_default() && !self.ever_named;
        self.ever_named |= !request.subscribe.is_empty();
        let (mut names, mut globs) = (HashSet::new(), HashSet::new());
        for name in request.subscribe.iter().filter(|name| !name.is_empty()) {
            match Asked::parse(name) {
                Asked::All => all = true,
                Asked::Glob(glob) => drop(globs.insert(glob)),
                Asked::Name(name) => drop(names.insert(Arc::from(name))),
            }
        }
        let all = all && self.kind.may_be_listed();
        let widened = (all && !self.wildcard) || globs.iter().any(|glob| !self.globs.contains(glob));
        let narrowed = (self.wildcard && !all)
            || self.names.iter().any(|name| !names.contains(name))
            || self.globs.iter().any(|glob| !globs.contains(glob));
        let let_go = std::mem::take(&mut self.let_go);
        let new = names.iter().filter(|name| !self.names.contains(*name) || let_go.contains(*name));
        let added: Vec<Arc<str>> = new.cloned().collect();
        (self.wildcard, self.names, self.globs) = (all, names, globs);

        if narrowed {
            self.forget_uncovered();
        }
        if first && all && self.names.is_empty() && request.version == snapshot.version(self.kind).to_string() {
            // A client that comes back with what it would get: it is current, nothing need be sent.
            self.sent_version.clone_from(&request.version);
            for resource in snapshot.all(self.kind) {
                let state = State::Resource(resource.clone());
                self.known.insert(resource.name().clone(), Known { sent: state.clone(), accepted: state });
            }
            return;
        }
        if widened {
            let wanted: Vec<Arc<str>> = self.wanted(snapshot).into_iter().map(|r| r.name().clone()).collect();
            wanted.iter().for_each(|name| self.touch(name, Need::Asked));
        }
        added.iter().for_each(|name| self.touch(name, Need::Asked));
        if self.kind.full_state() {
            let asks = self.wildcard || !self.names.is_empty() || !self.globs.is_empty();
            self.answer_owed |= asks && (first || widened || narrowed || !added.is_empty());
        } else {
            self.answer_owed |= first && self.wildcard;
        }
    }

    /// Takes note of a request that is too old to count.
    pub fn let_go(&mut self, stale: &Request) {
        let left_out = self.names.iter().filter(|name| !stale.subscribe.iter().any(|asked| **asked == ***name));
        self.let_go.extend(left_out.filter(|_| !self.kind.full_state()).cloned());
    }

    fn delta_names(&mut self, request: &Request, first: bool, snapshot: &Snapshot) {
        if first {
            self.take_initial_versions(&request.initial_versions, snapshot);
            if request.subscribe.is_empty() && request.unsubscribe.is_empty() && self.kind.wildcard_by_default() {
                self.subscribe_all(snapshot, request.initial_versions.is_empty());
            }
        }
        for name in request.subscribe.iter().filter(|name| !name.is_empty()) {
            match Asked::parse(name) {
                Asked::All if self.kind.may_be_listed() => {
                    self.subscribe_all(snapshot, !first || request.initial_versions.is_empty());
                }
                Asked::All => {}
                Asked::Glob(glob) => {
                    let all = snapshot.with_prefix(self.kind, glob.prefix().to_owned());
                    let all = all.map(|resource| resource.name()).filter(|name| glob.covers(name));
                    let names: Vec<Arc<str>> = all.cloned().collect();
                    names.iter().for_each(|name| self.touch(name, Need::Asked));
                    if names.is_empty() {
                        // Its absence is told by its own name: an empty answer Envoy takes for one to somebody else.
                        self.touch(glob.name(), Need::Asked);
                    }
                    self.globs.insert(glob);
                }
                Asked::Name(name) => {
                    let name: Arc<str> = name.into();
                    if let Some(stands_for) = snapshot.name_of_alias(self.kind, &name) {
                        self.ask_by_alias(&name, stands_for);
                        continue;
                    }
                    self.names.insert(name.clone());
                    let has_it = first && self.known.contains_key(&name);
                    self.touch(&name, if has_it { Need::Changed } else { Need::Asked });
                }
            }
        }
        for name in &request.unsubscribe {
            match Asked::parse(name) {
                Asked::All => self.wildcard = false,
                Asked::Glob(glob) => drop(self.globs.remove(&glob)),
                Asked::Name(name) => {
                    let named = self.aliases.remove(name);
                    let name = named.as_deref().unwrap_or(name);
                    self.aliases.retain(|_, of| **of != *name);
                    // Still covered by the wildcard: the client cannot know whether it is, so it is told again.
                    if self.names.remove(name) && self.covers(name) {
                        self.touch(&name.into(), Need::Asked);
                    }
                }
            }
        }
        if !request.unsubscribe.is_empty() || !request.initial_versions.is_empty() {
            self.forget_uncovered();
            self.answer_owed &= self.wildcard || !self.globs.is_empty();
        }
    }

    /// Subscribes to everything; `answer`: the client waits for an answer even if there is nothing.
    fn subscribe_all(&mut self, snapshot: &Snapshot, answer: bool) {
        self.wildcard = true;
        self.answer_owed |= answer;
        let names: Vec<Arc<str>> = snapshot.all(self.kind).map(|resource| resource.name().clone()).collect();
        let need = if answer { Need::Asked } else { Need::Changed };
        names.iter().for_each(|name| self.touch(name, need));
    }

    /// What the client has from an earlier stream. Versions come from the content, so they compare across replicas.
    fn take_initial_versions(&mut self, versions: &BTreeMap<String, String>, snapshot: &Snapshot) {
        for (name, version) in versions {
            let name: Arc<str> = name.as_str().into();
            // A version that we never write is some other server's: the content differs.
            let version = Version::parse(version).unwrap_or_default();
            let state = match snapshot.get(self.kind, &name) {
                Some(resource) if resource.version() == version => State::Resource(resource.clone()),
                _ => State::Version(version),
            };
            self.known.insert(name.clone(), Known { sent: state.clone(), accepted: state });
            self.touch(&name, Need::Changed);
        }
    }

    fn forget_uncovered(&mut self) {
        let mut known = std::mem::take(&mut self.known);
        known.retain(|name, _| self.covers(name));
        self.known = known;
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.retain(|name, _| self.covers(name));
        self.dirty = dirty;
        let known = &self.known;
        self.unaccepted.retain(|name| known.contains_key(name));
        self.rejected.retain(|name, _| known.contains_key(name));
        self.renewals.retain(|name, _| known.contains_key(name));
    }

    /// Records that `response` went out.
    pub fn sent(&mut self, version: &str, response: InFlight) {
        for (name, state) in &response.content {
            let known = self.known.entry(name.clone()).or_default();
            known.sent = state.clone();
            if state.exists() && !known.accepted.exists() {
                self.unaccepted.insert(name.clone());
            } else if !state.exists() {
                self.unaccepted.remove(name);
            }
            match state.resource().and_then(|resource| resource.lease().ttl) {
                // Twice in its life, so that one that is late does no harm.
                Some(ttl) => drop(self.renewals.insert(name.clone(), response.sent_at + ttl / 2)),
                None => drop(self.renewals.remove(name)),
            }
        }
        self.answer_owed = false;
        self.last_nonce.clone_from(&response.nonce);
        self.sent_version = version.to_owned();
        self.in_flight.push(response);
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
            let Some(resource) = self.known.get(&name).and_then(|known| known.sent.resource()) else { continue };
            if let Some(ttl) = resource.lease().ttl {
                renewed.push(resource.clone());
                self.renewals.insert(name, now + ttl / 2);
            }
        }
        renewed
    }

    /// Takes the response `nonce` out of those under way.
    pub fn take(&mut self, nonce: &str) -> Option<InFlight> {
        let at = self.in_flight.iter().position(|response| response.nonce == nonce)?;
        Some(self.in_flight.remove(at))
    }

    /// Takes the response `nonce`, which was accepted, out of those under way, and before it those that it overtook:
    /// they will not be answered any more.
    pub fn answered(&mut self, nonce: &str) -> Vec<InFlight> {
        let at = self.in_flight.iter().position(|response| response.nonce == nonce);
        at.map_or_else(Vec::new, |at| self.in_flight.drain(..=at).collect())
    }

    /// Records that the client has what `response` set; returns what it had of these names before, and has no more.
    pub fn accept(&mut self, response: InFlight) -> Vec<Arc<Resource>> {
        if !response.full {
            return self.accept_content(response.content);
        }
        // It held everything: with it, what was in a response that was rejected is accepted too.
        let unsettled = self.known.iter().filter(|(_, known)| known.sent != known.accepted);
        let content = unsettled.map(|(name, known)| (name.clone(), known.sent.clone())).collect();
        self.accept_content(content)
    }

    /// Records that the client has `content`, or need not be told of it.
    pub fn accept_content(&mut self, content: Vec<(Arc<str>, State)>) -> Vec<Arc<Resource>> {
        let (mut replaced, mut mended) = (Vec::new(), BTreeSet::new());
        for (name, state) in content {
            self.unaccepted.remove(&name);
            mended.extend(self.rejected.remove(&name));
            let named = self.named(&name);
            let Some(known) = self.known.get_mut(&name) else { continue };
            let gone = !state.exists() && !known.sent.exists() && !named;
            if let State::Resource(old) = std::mem::replace(&mut known.accepted, state) {
                replaced.push(old);
            }
            if gone {
                // Nothing is left to remember; names that come and go would add up.
                self.known.remove(&name);
            }
        }
        self.try_again(&mended);
        replaced
    }

    /// What was rejected together with something that is now accepted was perhaps good: once more, without it.
    fn try_again(&mut self, mended: &BTreeSet<String>) {
        let again = self.rejected.iter().filter(|(_, nonce)| mended.contains(*nonce));
        let again: Vec<Arc<str>> = again.map(|(name, _)| name.clone()).collect();
        for name in again {
            self.rejected.remove(&name);
            self.touch(&name, Need::Again);
        }
    }

    /// Records that what was rejected of `name` is wanted no more: the client has what it had before.
    pub fn withdraw(&mut self, name: &Arc<str>) {
        if self.known.get(name).is_some_and(|known| *self.holds(name) == known.sent) {
            return; // Something newer is on its way.
        }
        let Some(nonce) = self.rejected.remove(name) else { return };
        if let Some(known) = self.known.get_mut(name) {
            known.sent = known.accepted.clone();
        }
        self.unaccepted.remove(name);
        self.try_again(&BTreeSet::from([nonce]));
    }

    /// What the client has of `name`: what is on its way, or what it accepted last.
    pub fn holds(&self, name: &str) -> &State {
        let on_its_way = || self.in_flight.iter().any(|r| r.content.iter().any(|(sent, _)| **sent == *name));
        match self.known.get(name) {
            None => &State::Unknown,
            Some(known) if known.sent == known.accepted || on_its_way() => &known.sent,
            Some(known) => &known.accepted,
        }
    }

    /// Records that `resource` is the content of the version that the client came with.
    pub fn recognise(&mut self, resource: &Arc<Resource>) {
        let Some(known) = self.known.get_mut(resource.name()) else { return };
        for state in [&mut known.sent, &mut known.accepted] {
            if *state == *resource {
                *state = State::Resource(resource.clone());
            }
        }
    }

    /// Records that the client did not take `response`. It is not sent again.
    pub fn reject(&mut self, response: &InFlight) {
        if response.full {
            return;
        }
        let names = || response.content.iter().map(|(name, _)| name);
        let earlier: BTreeSet<String> = names().filter_map(|name| self.rejected.get(name).cloned()).collect();
        // What waited for one of these to be mended waits on.
        for nonce in self.rejected.values_mut().filter(|nonce| earlier.contains(*nonce)) {
            nonce.clone_from(&response.nonce);
        }
        self.rejected.extend(names().map(|name| (name.clone(), response.nonce.clone())));
    }

    /// Names that were sent and of which no version was ever accepted: none, but while a response is under way or
    /// after a NACK.
    pub fn unaccepted(&self) -> impl Iterator<Item = &Arc<str>> {
        self.unaccepted.iter()
    }
}

/// What a name in a request asks for.
enum Asked<'a> {
    All,
    Glob(Glob),
    Name(&'a str),
}

impl<'a> Asked<'a> {
    fn parse(name: &'a str) -> Self {
        match Glob::parse(name) {
            _ if name == "*" => Asked::All,
            Some(glob) => Asked::Glob(glob),
            None => Asked::Name(name),
        }
    }
}
