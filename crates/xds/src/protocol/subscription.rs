//! The subscription to one type on one stream: requested, sent, and accepted resources.
//!
//! Changes are a set of dirty names, not a queue, so a slow client costs no memory, and changes are merged.

mod asking;
mod client;
mod collections;
mod domains;
mod held;
mod isolation;
mod late;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use imbl::OrdSet;

use self::client::Level;
pub(super) use self::client::{ClientState, InFlight, Known, Shared};
use self::collections::Collections;
use self::late::Late;
use super::message::Variant;
use super::pace::Pace;
use crate::snapshot::{Body, Interest, Limit, NamedResources, Resource, ResourceType, Snapshot};

pub(crate) use held::{Held, Standing};
pub(super) use isolation::{Batch, Isolation, IsolationEvent, Verdict};

/// The maximum number of names that the store indexes for one stream. With more names, every change of the type wakes the
/// stream, which costs less than the index entries.
const MOST_INDEXED: usize = 256;

/// The subscription to one type.
#[derive(Debug)]
pub(super) struct Subscription {
    pub kind: ResourceType,
    /// Whether the first request for resources is unanswered. A shared response is preferred.
    pub fresh: bool,
    /// Whether the client waits for a response even if there is nothing to send.
    pub answer_owed: bool,
    /// Whether the subscribed names have changed since the last call of [`Subscription::interest`].
    interest_changed: bool,
    /// State of the world: whether a request has ever contained a name. Until then, an empty list is a wildcard.
    ever_named: bool,
    /// Full state: whether the client has unknown resources of an earlier stream. It deletes the resources that a
    /// response leaves out.
    came_back: bool,
    /// State of the world: whether a stale request has dropped the wildcard (see `dropped`).
    dropped_wildcard: bool,
    /// The newest snapshot.
    base: Arc<Snapshot>,
    /// The lookup of `names` in `base`, while nothing has changed since the first request.
    named_resources: Option<Arc<NamedResources>>,
    /// The names whose desired state may differ from the sent state.
    pub dirty: BTreeMap<Arc<str>, Need>,
    pub in_flight: Vec<InFlight>,
    /// The responses that the client has not answered in time.
    late: Vec<Late>,
    /// The search for rejected resources, if the client has rejected any.
    isolation: Option<Box<Isolation>>,
    /// The pacing of large resources.
    pub pace: Pace,
    /// The client's state of all subscribed names of `base`, except for the names in `apart`.
    level: Level,
    apart: HashMap<Arc<str>, Known>,
    /// The subscribed names. Streams with the same first request share them; each stream stores only its differences.
    names: OrdSet<Arc<str>>,
    /// State of the world: a hash of the names of the last request. A client repeats them in each request.
    last_names: Option<u64>,
    /// The type URL of the client's requests.
    pub type_url: Arc<str>,
    /// The nonce of the newest response, empty before the first.
    pub last_nonce: String,
    pub sent_version: String,
    /// State of the world: the version of the last accepted response, which an earlier stream may have sent.
    accepted_version: String,
    /// The generation of the last publication that the client has completely answered.
    pub reached: u64,
    collections: Collections,
    /// State of the world: names that a stale request has dropped. If the next request contains them, the client has
    /// dropped them and subscribed again.
    dropped: HashSet<Arc<str>>,
    /// The message of the last NACK, until an ACK clears it and no culprit remains.
    pub rejection: Option<Arc<str>>,
}

/// The reason why a name is dirty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Need {
    /// The resource may have changed. It is sent if it differs.
    Changed,
    /// The resource must be sent again even if unchanged, for example because its cluster has changed.
    Again,
    /// The client has requested the resource. It is sent even if unchanged, and even while a response is in flight.
    Asked,
}

impl Subscription {
    pub fn new(kind: ResourceType, type_url: &str, base: Arc<Snapshot>) -> Self {
        Self {
            kind,
            type_url: type_url.into(),
            ever_named: false,
            came_back: false,
            names: OrdSet::new(),
            named_resources: None,
            dropped: HashSet::new(),
            dropped_wildcard: false,
            collections: Collections::default(),
            last_names: None,
            interest_changed: true,
            base,
            level: Level::Nothing,
            apart: HashMap::new(),
            fresh: false,
            dirty: BTreeMap::new(),
            answer_owed: false,
            in_flight: Vec::new(),
            late: Vec::new(),
            isolation: None,
            reached: 0,
            last_nonce: String::new(),
            rejection: None,
            sent_version: String::new(),
            accepted_version: String::new(),
            pace: Pace::default(),
        }
    }

    /// Returns whether the client has resources of an earlier stream whose content is unknown.
    pub fn has_unknown_resources(&self) -> bool {
        self.came_back
    }

    /// Returns whether the client subscribes to `name`: by name, glob, or wildcard.
    pub fn covers(&self, name: &str) -> bool {
        self.collections.covers(name) || self.named(name)
    }

    /// Returns whether the client subscribes to `name` by name, so that its absence must be reported.
    pub fn named(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Returns the subscribed names.
    pub fn each_name(&self) -> impl Iterator<Item = &Arc<str>> {
        self.names.iter()
    }

    pub fn is_wildcard(&self) -> bool {
        self.collections.all
    }

    /// Returns whether the client subscribes by wildcard or glob.
    fn subscribes_to_collections(&self) -> bool {
        !self.collections.is_empty()
    }

    /// Returns whether the client subscribes to every resource of the type, so that clients can share a response.
    pub fn is_all(&self) -> bool {
        if let Some(asked) = &self.named_resources {
            return asked.all;
        }
        self.is_wildcard()
            || (!self.names.is_empty() && self.names.len() >= self.base.len(self.kind) && {
                let mut all = self.base.all(self.kind);
                all.all(|resource| self.names.contains(resource.name()))
            })
    }

    /// Returns the bodies of the first responses: one, or several if the resources exceed the size limit.
    pub fn bodies(&self, variant: Variant) -> Vec<Arc<Body>> {
        let limit = self.may_be_split().then_some(match variant {
            Variant::Delta => Limit::Part,
            // A client repeats all its names in each ACK, so there should be few responses.
            Variant::Sotw => Limit::Message,
        });
        let bodies = match (self.is_all(), limit) {
            (true, Some(limit)) => self.base.parts(self.kind, limit).to_vec(),
            (true, None) => vec![self.base.body(self.kind)],
            (false, limit) => {
                let wanted: Vec<_> = self.wanted(&self.base).into_iter().cloned().collect();
                match limit {
                    Some(limit) => Body::split(&wanted, limit),
                    None => vec![Arc::new(Body::new(wanted))],
                }
            }
        };
        bodies.into_iter().filter(|body| !body.resources().is_empty()).collect()
    }

    /// Returns whether resources of this type may be divided into several responses. For other types, clients treat one
    /// response as the full state, as the start of an update, or as one atomic change.
    pub fn may_be_split(&self) -> bool {
        [ResourceType::ENDPOINTS, ResourceType::ROUTES].contains(&self.kind)
    }

    /// Returns the subscribed names that do not exist, sorted.
    pub fn absent(&self) -> Vec<Arc<str>> {
        if let Some(asked) = &self.named_resources {
            return asked.absent.clone();
        }
        let absent = self.names.iter().filter(|name| self.base.get(self.kind, name).is_none());
        let mut absent: Vec<Arc<str>> = absent.cloned().collect();
        absent.sort();
        absent
    }

    /// Returns the interest in the store, if it has changed since the last call.
    pub fn interest(&mut self) -> Option<Interest> {
        if !std::mem::take(&mut self.interest_changed) {
            return None;
        }
        if self.subscribes_to_collections() || self.names.len() > MOST_INDEXED {
            return Some(Interest::All);
        }
        let mut names: Vec<Arc<str>> = self.names.iter().cloned().collect();
        names.sort();
        Some(Interest::Names(names))
    }

    /// Advances to a newer snapshot, in which the names `changed` of this type differ. [`Subscription::mark_changed`] follows.
    pub fn advance<'a>(&mut self, newest: &Arc<Snapshot>, changed: impl Iterator<Item = &'a Arc<str>>) {
        self.named_resources = None;
        changed.for_each(|name| self.retain(name));
        self.base = newest.clone();
    }

    /// Marks the `changed` names as dirty where they concern the client.
    pub fn mark_changed<'a>(&mut self, changed: impl Iterator<Item = &'a Arc<str>> + Clone) {
        if self.isolation.is_some() {
            changed.clone().for_each(|name| self.reopen(name));
        }
        changed.for_each(|name| self.changed(name));
    }

    /// Returns the time at which the next paced resource may be sent.
    pub fn paced_until(&self) -> Option<Instant> {
        let is_dirty = |name: &Option<Arc<str>>| name.as_ref().is_none_or(|name| self.dirty.contains_key(name));
        if self.dirty.is_empty() { None } else { self.pace.due(is_dirty) }
    }

    /// Marks `name` as dirty. A stronger need is retained.
    pub fn touch(&mut self, name: &Arc<str>, need: Need) {
        let entry = self.dirty.entry(name.clone()).or_insert(need);
        *entry = need.max(*entry);
    }

    /// Marks a changed name as dirty if the client subscribes to it or has it.
    fn changed(&mut self, name: &Arc<str>) {
        if self.covers(name) || self.apart.contains_key(name) {
            // The client does not have a resource that it has rejected, even if the same content was sent.
            let again = self.was_rejected(name);
            self.touch(name, if again { Need::Again } else { Need::Changed });
        }
    }

    /// Returns whether the newest content of `name` was sent and rejected.
    fn was_rejected(&self, name: &str) -> bool {
        let Some(known) = self.apart.get(name) else { return false };
        let Some(newest) = self.base.get(self.kind, name) else { return false };
        let answered = || !self.in_flight.iter().any(|response| response.is_about(name));
        known.sent == *newest && known.accepted != *newest && answered()
    }

    /// Replaces the subscription to `old`, which does not exist, by one to `new`. The client learns nothing about
    /// `old`, unless it has a resource of that name.
    pub fn replace_name(&mut self, old: &Arc<str>, new: &Arc<str>) {
        let is_held = self.known(old).sent.exists();
        self.names.remove(old);
        if !is_held {
            self.apart.remove(old);
            self.dirty.remove(old);
        }
        self.forget_isolated();
        self.add_name(new);
    }

    /// Subscribes to `new` by name.
    pub fn add_name(&mut self, new: &Arc<str>) {
        self.interest_changed = true;
        self.track(new);
        self.names.insert(new.clone());
        self.touch(new, Need::Asked);
    }

    /// Returns the subscribed resources of `snapshot`, sorted by name.
    pub fn wanted<'a>(&'a self, snapshot: &'a Snapshot) -> Vec<&'a Arc<Resource>> {
        if self.subscribes_to_collections() {
            return snapshot.all(self.kind).filter(|resource| self.covers(resource.name())).collect();
        }
        let mut wanted: Vec<_> = self.names.iter().filter_map(|name| snapshot.get(self.kind, name)).collect();
        wanted.sort_by(|a, b| a.name().cmp(b.name()));
        wanted
    }
}
