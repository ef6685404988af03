//! One resource type on one stream: what the client asked for, what it was sent, what it accepted.
//!
//! What changed is a set of dirty names, not a queue: a slow client costs no memory, and many changes become one.

mod client;
mod held;
mod isolation;
mod late;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use imbl::OrdSet;
use xxhash_rust::xxh3::Xxh3;

use self::client::Level;
pub(super) use self::client::{InFlight, Known, Shared, State};
use self::late::Late;
use super::message::{Request, Variant};
use super::pace::Pace;
use super::stream::View;
use crate::snapshot::{Asked as AskedNames, Body, Glob, Interest, Resource, ResourceType, Snapshot, Version};

pub(super) use held::{Held, Standing};
pub(super) use isolation::{Batch, Isolation, IsolationEvent, Verdict, domains_of};

/// A client that asks for more names than this is told of every change of the type: one look too many costs less than
/// so many entries.
const MOST_INDEXED: usize = 256;

/// A list of at least so many names is looked up once for all who ask for the same.
const LONG_LIST: usize = 64;

/// The subscription to one type.
///
/// In memory its fields lie in this order: a stream looks at the first ones of each of its types whenever it is woken, and
/// at the others of the type alone that it is woken for.
#[derive(Debug)]
#[repr(C)]
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
    base: View,
    /// What `names` are in `base`, as long as nothing has changed since the first request.
    asked: Option<Arc<AskedNames>>,
    /// Names whose wanted state may differ from what was sent.
    pub dirty: BTreeMap<Arc<str>, Need>,
    pub in_flight: Vec<InFlight>,
    /// Responses that were not answered in time.
    late: Vec<Late>,
    /// What the client has rejected, if anything.
    isolation: Option<Box<Isolation>>,
    /// When the client must be told that a resource with a time to live lives on.
    renewals: BTreeMap<Arc<str>, Instant>,
    /// What is large has to wait after it was sent.
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
    /// The newest NACK, until an ACK clears it and no culprit is left.
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
    pub fn new(kind: ResourceType, type_url: &str, base: View) -> Self {
        Self {
            kind,
            type_url: type_url.into(),
            wildcard: false,
            ever_named: false,
            came_back: false,
            names: OrdSet::new(),
            asked: None,
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

    /// Whether `name` is asked for, by name, by glob or by wildcard.
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
        if let Some(asked) = &self.asked {
            return asked.all;
        }
        self.wildcard
            || (!self.names.is_empty() && self.names.len() >= self.base.len(self.kind) && {
                let mut all = self.base.all(self.kind);
                all.all(|resource| self.names.contains(resource.name()))
            })
    }

    /// All that is asked for, as it is sent in a first answer. Delta: endpoints and routes in several responses; of all
    /// other types a client takes the first answer for all there is.
    pub fn bodies(&self, variant: Variant) -> Vec<Arc<Body>> {
        let may_be_split = [ResourceType::ENDPOINTS, ResourceType::ROUTES].contains(&self.kind);
        let split = variant == Variant::Delta && may_be_split;
        let bodies = match self.is_all() {
            true if split => self.base.parts(self.kind).to_vec(),
            true => vec![self.base.body(self.kind)],
            false => {
                let wanted: Vec<_> = self.wanted(&self.base).into_iter().cloned().collect();
                if split { Body::split(&wanted) } else { vec![Arc::new(Body::new(wanted))] }
            }
        };
        bodies.into_iter().filter(|body| !body.resources().is_empty()).collect()
    }

    /// Names that are asked for and do not exist, sorted.
    pub fn absent(&self) -> Vec<Arc<str>> {
        if let Some(asked) = &self.asked {
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
    pub fn advance<'a>(&mut self, newest: &View, changed: impl Iterator<Item = &'a Arc<str>> + Clone) {
        self.asked = None;
        changed.clone().for_each(|name| self.keep(name));
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

    /// Notes that `name` needs a look; a stronger need stays.
    pub fn touch(&mut self, name: &Arc<str>, need: Need) {
        let entry = self.dirty.entry(name.clone()).or_insert(need);
        *entry = need.max(*entry);
    }

    /// Notes a change in the snapshot, if this client cares for the name.
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

    /// Notes that `resource` is new or has changed: an alias that was asked for may have got its name.
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

    /// Takes the names of a request that is not stale; `first` of its type on the stream.
    pub fn request(&mut self, variant: Variant, request: &Request, first: bool) {
        self.asked = None;
        match variant {
            _ if self.takes_list(variant, request) => {}
            Variant::Sotw => self.sotw_names(request, first),
            Variant::Delta => self.delta_names(request, first),
        }
        // A client that has nothing is answered as a whole.
        self.fresh |= self.has_nothing() && (self.answer_owed || self.lists() || !self.names.is_empty());
    }

    /// Takes a first request for many names, all of them plain: most clients ask for the same.
    fn takes_list(&mut self, variant: Variant, request: &Request) -> bool {
        let nothing = self.has_nothing() && !self.lists() && self.names.is_empty() && self.let_go.is_empty();
        let plain = |name: &String| !name.is_empty() && matches!(Asked::parse(name), Asked::Name(_));
        if !nothing
            || request.subscribe.len() < LONG_LIST
            || !request.unsubscribe.is_empty()
            || !request.initial_versions.is_empty()
            || !request.subscribe.iter().all(plain)
        {
            return false;
        }
        let hash = hash(&request.subscribe);
        let Some(asked) = self.base.asked(self.kind, hash, &request.subscribe) else { return false };
        (self.last_names, self.ever_named, self.interest_changed) = (Some(hash), true, true);
        self.names = asked.names.clone();
        self.asked = Some(asked);
        self.answer_owed |= variant == Variant::Sotw && self.kind.full_state();
        true
    }

    /// Whether the client has nothing, so that all that it asks for is to be sent.
    fn has_nothing(&self) -> bool {
        matches!(self.level, Level::Nothing) && self.apart.is_empty()
    }

    fn sotw_names(&mut self, request: &Request, first: bool) {
        let hash = hash(&request.subscribe);
        if self.let_go.is_empty() && !self.let_go_all && self.last_names == Some(hash) {
            return;
        }
        self.last_names = Some(hash);
        self.interest_changed = true;
        let base = self.base.clone();
        let mut all = request.subscribe.is_empty() && self.kind.wildcard_by_default() && !self.ever_named;
        self.ever_named |= !request.subscribe.is_empty();
        let (mut names, mut globs) = (HashSet::<&str>::with_capacity(request.subscribe.len()), HashSet::new());
        for name in request.subscribe.iter().filter(|name| !name.is_empty()) {
            match Asked::parse(name) {
                Asked::All => all = true,
                Asked::Glob(glob) => drop(globs.insert(glob)),
                Asked::Name(name) => drop(names.insert(name)),
            }
        }
        let all = all && self.kind.may_be_listed();
        let all_anew = std::mem::take(&mut self.let_go_all) || !self.wildcard;
        let widened = (all && all_anew) || globs.iter().any(|glob| !self.globs.contains(glob));
        let gone: Vec<Arc<str>> = self.names.iter().filter(|name| !names.contains(&***name)).cloned().collect();
        let narrowed =
            (self.wildcard && !all) || !gone.is_empty() || self.globs.iter().any(|glob| !globs.contains(glob));
        let let_go = std::mem::take(&mut self.let_go);
        let new = names.iter().filter(|name| !self.names.contains(**name) || let_go.contains(**name));
        let added: Vec<Arc<str>> = new.map(|name| self.own(name)).collect();
        added.iter().for_each(|name| self.begin(name));
        if widened && !matches!(self.level, Level::Nothing) {
            let covers = |name: &str| all || globs.iter().any(|glob| glob.covers(name));
            let all = base.all(self.kind).map(|resource| resource.name());
            all.filter(|name| covers(name)).for_each(|name| self.begin(name));
        }
        (self.wildcard, self.globs) = (all, globs);
        gone.iter().for_each(|name| drop(self.names.remove(name)));
        self.names.extend(added.iter().cloned());
        if first {
            self.accepted_version.clone_from(&request.version);
        }
        self.came_back |= first && self.kind.full_state() && !request.version.is_empty();
        if first
            && all
            && let Some(held) = &request.held
        {
            self.take_held(held);
        }

        if narrowed {
            self.forget_uncovered();
        }
        let whole = all && self.names.is_empty() && self.kind.full_state();
        if first && whole && request.version == base.version(self.kind).to_string() {
            // A client that comes back with what it would get: it is current, nothing need be sent.
            self.sent_version.clone_from(&request.version);
            self.level = Level::Accepted;
            return;
        }
        if self.kind.full_state() {
            let asks = self.lists() || !self.names.is_empty();
            self.answer_owed |= asks && (first || widened || narrowed || !added.is_empty());
        } else {
            self.answer_owed |= first && self.wildcard;
        }
        if self.has_nothing() {
            return;
        }
        if widened {
            let wanted: Vec<Arc<str>> = self.wanted(&base).into_iter().map(|r| r.name().clone()).collect();
            wanted.iter().for_each(|name| self.touch(name, Need::Asked));
        }
        added.iter().for_each(|name| self.touch(name, Need::Asked));
    }

    /// `name`, shared with the resource that has it.
    fn own(&self, name: &str) -> Arc<str> {
        self.base.get(self.kind, name).map_or_else(|| name.into(), |resource| resource.name().clone())
    }

    /// Takes note of a request that is too old to count.
    pub fn let_go(&mut self, stale: &Request) {
        self.ever_named |= !stale.subscribe.is_empty();
        let named: HashSet<&str> = stale.subscribe.iter().map(String::as_str).collect();
        self.let_go.extend(self.names.iter().filter(|name| !named.contains(&***name)).cloned());
        self.let_go_all |= self.wildcard && self.ever_named && !named.contains("*");
    }

    fn delta_names(&mut self, request: &Request, first: bool) {
        let base = self.base.clone();
        let comes_back = first && !request.initial_versions.is_empty();
        self.interest_changed |= first || !request.subscribe.is_empty() || !request.unsubscribe.is_empty();
        if comes_back {
            self.take_initial_versions(&request.initial_versions);
        }
        if first && request.subscribe.is_empty() && request.unsubscribe.is_empty() && self.kind.wildcard_by_default() {
            self.subscribe_all(!comes_back);
        }
        for name in request.subscribe.iter().filter(|name| !name.is_empty()) {
            match Asked::parse(name) {
                Asked::All if self.kind.may_be_listed() => self.subscribe_all(!comes_back),
                Asked::All => {}
                Asked::Glob(glob) => {
                    let all = base.with_prefix(self.kind, glob.prefix().to_owned());
                    let all = all.map(|resource| resource.name()).filter(|name| glob.covers(name));
                    let under_way = self.under_way().filter(|name| glob.covers(name));
                    let names: Vec<Arc<str>> = all.chain(under_way).cloned().collect();
                    names.iter().for_each(|name| self.begin(name));
                    let came_with_it = |name: &Arc<str>| comes_back && request.initial_versions.contains_key(&**name);
                    let new = names.iter().filter(|name| !came_with_it(name));
                    new.for_each(|name| self.touch(name, Need::Asked));
                    if names.is_empty() {
                        // Its absence is told by its own name: an empty answer Envoy takes for one to somebody else.
                        self.touch(glob.name(), Need::Asked);
                    }
                    self.globs.insert(glob);
                }
                Asked::Name(name) => {
                    let name = self.own(name);
                    if let Some(stands_for) = base.name_of_alias(self.kind, &name) {
                        self.ask_by_alias(&name, stands_for);
                        continue;
                    }
                    self.begin(&name);
                    let came_with_it = comes_back && request.initial_versions.contains_key(&*name);
                    if !self.has_nothing() && !came_with_it {
                        self.touch(&name, Need::Asked);
                    }
                    self.names.insert(name);
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
                    if self.names.remove(name).is_some() && self.covers(name) {
                        self.touch(&name.into(), Need::Asked);
                    }
                }
            }
        }
        if !request.unsubscribe.is_empty() || comes_back {
            self.forget_uncovered();
            self.answer_owed &= self.lists();
        }
    }

    /// Subscribes to everything; `answer`: the client waits for an answer even if there is nothing.
    fn subscribe_all(&mut self, answer: bool) {
        self.answer_owed |= answer;
        // What is on its way although it was taken back will be taken, now that everything is asked for.
        let under_way: Vec<Arc<str>> = self.under_way().cloned().collect();
        under_way.iter().for_each(|name| self.touch(name, Need::Asked));
        if !self.has_nothing() {
            let base = self.base.clone();
            for resource in base.all(self.kind) {
                let name = resource.name();
                self.begin(name);
                if answer {
                    self.touch(name, Need::Asked);
                } else if self.known(name).sent != *resource {
                    self.touch(name, Need::Changed);
                }
            }
        }
        self.wildcard = true;
    }

    /// What a state-of-the-world client has from an earlier stream and is there no more: not to be taken from under its
    /// routes.
    fn take_held(&mut self, held: &[Arc<Resource>]) {
        let base = self.base.clone();
        let all_there = held.iter().all(|resource| base.get(self.kind, resource.name()).is_some());
        if all_there && base.suspects().is_empty() {
            return;
        }
        self.came_back = false;
        self.level = Level::Accepted;
        let has: HashMap<&Arc<str>, &Arc<Resource>> = held.iter().map(|resource| (resource.name(), resource)).collect();
        for resource in base.all(self.kind) {
            let state = has.get(resource.name()).map_or(State::Unknown, |held| State::Resource((*held).clone()));
            self.apart.insert(resource.name().clone(), Known { sent: state.clone(), accepted: state });
        }
        for resource in held {
            if resource.kind() == self.kind && self.base.get(self.kind, resource.name()).is_none() {
                let state = State::Resource(resource.clone());
                self.apart.insert(resource.name().clone(), Known { sent: state.clone(), accepted: state });
                self.touch(resource.name(), Need::Changed);
            }
        }
    }

    /// What the client has from an earlier stream. Versions come from the content, so they compare across replicas.
    fn take_initial_versions(&mut self, versions: &BTreeMap<String, String>) {
        self.level = Level::Accepted;
        for (name, version) in versions {
            // A version that we never write is some other server's: the content differs.
            let version = Version::parse(version).unwrap_or_default();
            let name = self.own(name);
            let state = match self.base.get(self.kind, &name) {
                Some(resource) if resource.version() == version => State::Resource(resource.clone()),
                _ => State::Version(version),
            };
            if !matches!(state, State::Resource(_)) {
                self.touch(&name, Need::Changed);
            }
            self.apart.insert(name, Known { sent: state.clone(), accepted: state });
        }
    }

    /// Forgets what is not asked for any more, or needs no remembering.
    fn forget_uncovered(&mut self) {
        let mut apart = std::mem::take(&mut self.apart);
        apart.retain(|name, _| self.covers(name));
        self.apart = apart;
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.retain(|name, _| self.covers(name));
        self.dirty = dirty;
        self.forget_isolated();
        let mut renewals = std::mem::take(&mut self.renewals);
        renewals.retain(|name, _| self.covers(name));
        self.renewals = renewals;
        let names: Vec<Arc<str>> = self.apart.keys().filter(|name| !self.dirty.contains_key(*name)).cloned().collect();
        names.iter().for_each(|name| self.settle(name));
    }
}

/// A hash of the names of a request, in their order.
fn hash(names: &[String]) -> u64 {
    let mut hash = Xxh3::new();
    for name in names {
        hash.update(&(name.len() as u64).to_le_bytes());
        hash.update(name.as_bytes());
    }
    hash.digest()
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
