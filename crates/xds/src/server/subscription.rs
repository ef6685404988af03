//! One resource type on one stream: what the client asked for, what it was sent, what it accepted.
//!
//! Changes are a set of dirty names, not a queue: a slow client costs no memory, and many changes are merged into one.

mod asking;
mod client;
mod held;
mod isolation;
mod late;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use imbl::OrdSet;

use self::client::Level;
pub(super) use self::client::{ClientState, InFlight, Known, Shared};
use self::late::Late;
use super::message::Variant;
use super::pace::Pace;
use crate::snapshot::{Body, Glob, Interest, Limit, NamedResources, Resource, ResourceType, Snapshot};

pub(super) use held::{Held, Standing};
pub(super) use isolation::{Batch, Isolation, IsolationEvent, Verdict, domains_of};

/// A client that asks for more names than this is told of every change of the type: one look too many costs less than
/// so many entries.
const MOST_INDEXED: usize = 256;

/// The subscription to one type.
#[derive(Debug)]
pub(super) struct Subscription {
    pub kind: ResourceType,
    /// The first request that asks for anything is to be answered, best as a whole.
    pub fresh: bool,
    /// An answer is owed even if there is nothing to tell.
    pub answer_owed: bool,
    /// Whether what is asked for has changed since [`Subscription::interest`] was asked.
    interest_changed: bool,
    /// Whether everything is asked for.
    wildcard: bool,
    /// State of the world: an empty list means everything only until a name was ever given.
    ever_named: bool,
    /// Full state: the client came with resources of an earlier stream that are not known. What an answer leaves out it
    /// deletes.
    came_back: bool,
    /// State of the world: whether a stale request left the wildcard out (see `let_go`).
    let_go_all: bool,
    /// The newest snapshot.
    base: Arc<Snapshot>,
    /// The lookup of `names` in `base`, while nothing has changed since the first request.
    named_resources: Option<Arc<NamedResources>>,
    /// Names whose wanted state may differ from what was sent.
    pub dirty: BTreeMap<Arc<str>, Need>,
    pub in_flight: Vec<InFlight>,
    /// Responses that were not answered in time.
    late: Vec<Late>,
    /// The search for rejected resources, if the client has rejected any.
    isolation: Option<Box<Isolation>>,
    /// When the time to live of a resource must be renewed.
    renewals: BTreeMap<Arc<str>, Instant>,
    /// Limits how often large resources are sent.
    pub pace: Pace,
    /// What the client has of `base`, of all that it asked for but the names that stand apart.
    level: Level,
    apart: HashMap<Arc<str>, Known>,
    /// Shared with other streams that asked for the same, but for what each has added or dropped since.
    names: OrdSet<Arc<str>>,
    /// State of the world: a hash of the names of the last request, for a client repeats them in each.
    last_names: Option<u64>,
    /// The type URL as the client spells it.
    pub type_url: Arc<str>,
    /// The nonce of the newest response, empty before the first.
    pub last_nonce: String,
    pub sent_version: String,
    /// State of the world: the version of the response that the client accepted last, perhaps on an earlier stream.
    accepted_version: String,
    /// Of a publication with which the client was level, by its answers, the number.
    pub reached: u64,
    /// Delta: aliases that were asked for, and the name that each stands for (which then is in `names`).
    aliases: HashMap<Arc<str>, Arc<str>>,
    /// Collections asked for by what their names begin with.
    globs: HashSet<Glob>,
    /// State of the world: names that a stale request left out. Should the next one have them again, then the client
    /// has dropped and wants them anew.
    let_go: HashSet<Arc<str>>,
    /// The message of the newest NACK, until an ACK clears it and no culprit is left.
    pub rejection: Option<Arc<str>>,
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

impl Subscription {
    pub fn new(kind: ResourceType, type_url: &str, base: Arc<Snapshot>) -> Self {
        Self {
            kind,
            type_url: type_url.into(),
            wildcard: false,
            ever_named: false,
            came_back: false,
            names: OrdSet::new(),
            named_resources: None,
            aliases: HashMap::new(),
            let_go: HashSet::new(),
            let_go_all: false,
            globs: HashSet::new(),
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
            renewals: BTreeMap::new(),
        }
    }

    /// Returns whether the client subscribes to `name`: by name, glob, or wildcard.
    pub fn covers(&self, name: &str) -> bool {
        self.wildcard || self.named(name) || self.globs.iter().any(|glob| glob.covers(name))
    }

    /// Whether `name` itself was asked for, so that its absence must be told.
    pub fn named(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// The names that were asked for.
    pub fn each_name(&self) -> impl Iterator<Item = &Arc<str>> {
        self.names.iter()
    }

    pub fn is_wildcard(&self) -> bool {
        self.wildcard
    }

    /// Whether what is asked for is not only names.
    fn lists(&self) -> bool {
        self.wildcard || !self.globs.is_empty()
    }

    /// Whether all there is of the type is asked for, so that many clients get the same.
    pub fn is_all(&self) -> bool {
        if let Some(asked) = &self.named_resources {
            return asked.all;
        }
        self.wildcard
            || (!self.names.is_empty() && self.names.len() >= self.base.len(self.kind) && {
                let mut all = self.base.all(self.kind);
                all.all(|resource| self.names.contains(resource.name()))
            })
    }

    /// All that is asked for, as it is sent in a first answer: in one response, or in several where it is too large.
    pub fn bodies(&self, variant: Variant) -> Vec<Arc<Body>> {
        let limit = self.may_be_split().then_some(match variant {
            Variant::Delta => Limit::Part,
            // A client repeats all its names with each ACK: as few responses as possible.
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

    /// Whether what is sent may be divided into several responses. Of all other types a client takes one for all there
    /// is, for what begins its work, or for what changes at once.
    pub fn may_be_split(&self) -> bool {
        [ResourceType::ENDPOINTS, ResourceType::ROUTES].contains(&self.kind)
    }

    /// Names that are asked for and do not exist, sorted.
    pub fn absent(&self) -> Vec<Arc<str>> {
        if let Some(asked) = &self.named_resources {
            return asked.absent.clone();
        }
        let absent = self.names.iter().filter(|name| self.base.get(self.kind, name).is_none());
        let mut absent: Vec<Arc<str>> = absent.cloned().collect();
        absent.sort();
        absent
    }

    /// What the store is watched for, if that has changed since it was last asked.
    pub fn interest(&mut self) -> Option<Interest> {
        if !std::mem::take(&mut self.interest_changed) {
            return None;
        }
        if self.lists() || self.names.len() > MOST_INDEXED {
            return Some(Interest::All);
        }
        let mut names: Vec<Arc<str>> = self.names.iter().chain(self.aliases.keys()).cloned().collect();
        names.sort();
        Some(Interest::Names(names))
    }

    /// Goes on from a newer snapshot, in which `changed` differ: keys of this type and of others.
    pub fn advance<'a>(&mut self, newest: &Arc<Snapshot>, changed: impl Iterator<Item = &'a Arc<str>> + Clone) {
        self.named_resources = None;
        changed.clone().for_each(|name| self.retain(name));
        self.base = newest.clone();
        for name in changed.clone() {
            if let Some(resource) = newest.get(self.kind, name) {
                self.named_by(resource);
            }
        }
        if self.isolation.is_some() {
            changed.clone().for_each(|name| self.reopen(name));
        }
        changed.for_each(|name| self.changed(name));
    }

    /// When something may be sent that was too large to be sent so soon after the last of its kind.
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
            // What comes back as it was when it was rejected is not there because it was sent.
            let again = self.was_rejected(name);
            self.touch(name, if again { Need::Again } else { Need::Changed });
        }
    }

    /// Whether the newest content of `name` was sent and not accepted.
    fn was_rejected(&self, name: &str) -> bool {
        let Some(known) = self.apart.get(name) else { return false };
        let Some(newest) = self.base.get(self.kind, name) else { return false };
        let answered = || !self.in_flight.iter().any(|response| response.is_about(name));
        known.sent == *newest && known.accepted != *newest && answered()
    }

    /// Subscribes to a new or changed resource if the client asked for one of its aliases.
    fn named_by(&mut self, resource: &Resource) {
        for alias in &resource.lease().aliases {
            if self.names.contains(alias) && alias != resource.name() {
                self.forget(alias);
                self.ask_by_alias(alias, resource.name());
            }
        }
    }

    fn ask_by_alias(&mut self, alias: &Arc<str>, name: &Arc<str>) {
        self.interest_changed = true;
        self.aliases.insert(alias.clone(), name.clone());
        self.begin(name);
        self.names.insert(name.clone());
        self.touch(name, Need::Asked);
    }

    fn forget(&mut self, name: &Arc<str>) {
        self.names.remove(name);
        self.apart.remove(name);
        self.dirty.remove(name);
        self.renewals.remove(name);
        self.forget_isolated();
    }

    /// What was asked for, in `snapshot`: all resources that the client is to have, by name.
    pub fn wanted<'a>(&'a self, snapshot: &'a Snapshot) -> Vec<&'a Arc<Resource>> {
        if self.lists() {
            return snapshot.all(self.kind).filter(|resource| self.covers(resource.name())).collect();
        }
        let mut wanted: Vec<_> = self.names.iter().filter_map(|name| snapshot.get(self.kind, name)).collect();
        wanted.sort_by(|a, b| a.name().cmp(b.name()));
        wanted
    }
}
