//! Subscription requests: the names in a request, and the resources of an earlier stream.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3;

use super::client::Level;
use super::collections::{Collections, Selector};
use super::{ClientState, Known, Need, Subscription};
use crate::protocol::message::{Request, Variant};
use crate::snapshot::{Resource, Version};

/// The minimum length of a list of names that streams with the same list look up only once.
const LONG_LIST: usize = 64;

impl Subscription {
    /// Applies the names of a request that is not stale. `first` marks the first request for the type on the stream.
    pub fn request(&mut self, variant: Variant, request: &Request, first: bool) {
        self.named_resources = None;
        match variant {
            _ if self.apply_list(variant, request) => {}
            Variant::Sotw => self.sotw_names(request, first),
            Variant::Delta => self.delta_names(request, first),
        }
        // A client without resources gets a shared response.
        self.fresh |=
            self.has_nothing() && (self.answer_owed || self.subscribes_to_collections() || !self.names.is_empty());
    }

    /// Applies a first request with a long list of plain names. Most clients send the same list.
    fn apply_list(&mut self, variant: Variant, request: &Request) -> bool {
        let nothing =
            self.has_nothing() && !self.subscribes_to_collections() && self.names.is_empty() && self.dropped.is_empty();
        let plain = |name: &String| !name.is_empty() && matches!(Selector::parse(name), Selector::Name(_));
        if !nothing
            || request.subscribe.len() < LONG_LIST
            || !request.unsubscribe.is_empty()
            || !request.initial_versions.is_empty()
            || !request.subscribe.iter().all(plain)
        {
            return false;
        }
        let hash = hash(&request.subscribe);
        let Some(asked) = self.base.named(self.kind, hash, &request.subscribe) else { return false };
        (self.last_names, self.ever_named, self.interest_changed) = (Some(hash), true, true);
        self.names = asked.names.clone();
        self.named_resources = Some(asked);
        self.answer_owed |= variant == Variant::Sotw && self.kind.full_state();
        true
    }

    /// Returns whether the client has no resources, so that all subscribed resources must be sent.
    fn has_nothing(&self) -> bool {
        matches!(self.level, Level::Nothing) && self.apart.is_empty()
    }

    fn sotw_names(&mut self, request: &Request, first: bool) {
        let hash = hash(&request.subscribe);
        if self.dropped.is_empty() && !self.dropped_wildcard && self.last_names == Some(hash) {
            return;
        }
        self.last_names = Some(hash);
        self.interest_changed = true;
        let base = self.base.clone();
        let mut collections = Collections::default();
        let mut names = HashSet::<&str>::with_capacity(request.subscribe.len());
        names.extend(request.subscribe.iter().filter(|name| !name.is_empty()).filter_map(|name| collections.add(name)));
        collections.all |= request.subscribe.is_empty() && self.kind.wildcard_by_default() && !self.ever_named;
        collections.all &= self.kind.may_be_listed();
        self.ever_named |= !request.subscribe.is_empty();
        let all_anew = std::mem::take(&mut self.dropped_wildcard) && collections.all;
        let widened = all_anew || !self.collections.include(&collections);
        let gone: Vec<Arc<str>> = self.names.iter().filter(|name| !names.contains(&***name)).cloned().collect();
        let narrowed = !gone.is_empty() || !collections.include(&self.collections);
        let dropped = std::mem::take(&mut self.dropped);
        let new = names.iter().filter(|name| !self.names.contains(**name) || dropped.contains(**name));
        let added: Vec<Arc<str>> = new.map(|name| self.shared_name(name)).collect();
        added.iter().for_each(|name| self.track(name));
        if widened && !matches!(self.level, Level::Nothing) {
            let all = base.all(self.kind).map(|resource| resource.name());
            all.filter(|name| collections.covers(name)).for_each(|name| self.track(name));
        }
        let all = collections.all;
        self.collections = collections;
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
            self.record_held(held);
        }

        if narrowed {
            self.forget_uncovered();
        }
        let whole = all && self.names.is_empty() && self.kind.full_state();
        if first && whole && request.version == base.version(self.kind).to_string() {
            // A returning client with the current version needs no response.
            self.sent_version.clone_from(&request.version);
            self.level = Level::Accepted;
            self.came_back = false;
            return;
        }
        if self.kind.full_state() {
            let asks = self.subscribes_to_collections() || !self.names.is_empty();
            self.answer_owed |= asks && (first || widened || narrowed || !added.is_empty());
        } else {
            self.answer_owed |= first && all;
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

    /// Returns `name`, shared with its resource.
    fn shared_name(&self, name: &str) -> Arc<str> {
        self.base.get(self.kind, name).map_or_else(|| name.into(), |resource| resource.name().clone())
    }

    /// Records the names that a stale request has dropped.
    pub fn record_dropped(&mut self, stale: &Request) {
        self.ever_named |= !stale.subscribe.is_empty();
        let named: HashSet<&str> = stale.subscribe.iter().map(String::as_str).collect();
        self.dropped.extend(self.names.iter().filter(|name| !named.contains(&***name)).cloned());
        self.dropped_wildcard |= self.is_wildcard() && self.ever_named && !named.contains("*");
    }

    fn delta_names(&mut self, request: &Request, first: bool) {
        let comes_back = first && !request.initial_versions.is_empty();
        let came_with_it = |name: &str| comes_back && request.initial_versions.contains_key(name);
        self.interest_changed |= first || !request.subscribe.is_empty() || !request.unsubscribe.is_empty();
        if comes_back {
            self.record_initial_versions(&request.initial_versions);
        }
        if first && request.subscribe.is_empty() && request.unsubscribe.is_empty() && self.kind.wildcard_by_default() {
            self.subscribe_all(!comes_back);
        }
        for name in request.subscribe.iter().filter(|name| !name.is_empty()) {
            match Selector::parse(name) {
                Selector::All if self.kind.may_be_listed() => self.subscribe_all(!comes_back),
                Selector::All => {}
                Selector::Glob(glob) => self.subscribe_glob(glob, came_with_it),
                Selector::Name(name) => {
                    let name = self.shared_name(name);
                    self.track(&name);
                    if !self.has_nothing() && !came_with_it(&name) {
                        self.touch(&name, Need::Asked);
                    }
                    self.names.insert(name);
                }
            }
        }
        for name in &request.unsubscribe {
            // A collection may still cover the name. The client cannot know this, so the resource is sent again.
            if let Some(name) = self.collections.remove(name)
                && self.names.remove(name).is_some()
                && self.covers(name)
            {
                self.touch(&name.into(), Need::Asked);
            }
        }
        if !request.unsubscribe.is_empty() || comes_back {
            self.forget_uncovered();
            self.answer_owed &= self.subscribes_to_collections();
        }
    }

    /// Subscribes to all resources. With `answer`, the client waits for a response even if there are none.
    fn subscribe_all(&mut self, answer: bool) {
        self.answer_owed |= answer;
        // The client will accept in-flight resources even if it has unsubscribed from them, because the wildcard covers
        // them now.
        let under_way: Vec<Arc<str>> = self.under_way().cloned().collect();
        under_way.iter().for_each(|name| self.touch(name, Need::Asked));
        if !self.has_nothing() {
            let base = self.base.clone();
            for resource in base.all(self.kind) {
                let name = resource.name();
                self.track(name);
                if answer {
                    self.touch(name, Need::Asked);
                } else if self.known(name).sent != *resource {
                    self.touch(name, Need::Changed);
                }
            }
        }
        self.collections.all = true;
    }

    /// Records the resources of a state-of-the-world client from an earlier stream that no longer exist. Their removal
    /// must wait for the client's routes.
    fn record_held(&mut self, held: &[Arc<Resource>]) {
        let base = self.base.clone();
        let all_there = held.iter().all(|resource| base.get(self.kind, resource.name()).is_some());
        if all_there && base.suspects().is_empty() {
            return;
        }
        self.came_back = false;
        self.level = Level::Accepted;
        let has: HashMap<&Arc<str>, &Arc<Resource>> = held.iter().map(|resource| (resource.name(), resource)).collect();
        for resource in base.all(self.kind) {
            let state =
                has.get(resource.name()).map_or(ClientState::Unknown, |held| ClientState::Resource((*held).clone()));
            self.apart.insert(resource.name().clone(), Known { sent: state.clone(), accepted: state });
        }
        for resource in held {
            if resource.kind() == self.kind && self.base.get(self.kind, resource.name()).is_none() {
                let state = ClientState::Resource(resource.clone());
                self.apart.insert(resource.name().clone(), Known { sent: state.clone(), accepted: state });
                self.touch(resource.name(), Need::Changed);
            }
        }
    }

    /// Records the versions that the client has from an earlier stream. Versions are hashes of the content, so they are
    /// comparable across replicas.
    fn record_initial_versions(&mut self, versions: &BTreeMap<String, String>) {
        self.level = Level::Accepted;
        for (name, version) in versions {
            // A version in another format is from another server, so the content differs.
            let version = Version::parse(version).unwrap_or_default();
            let name = self.shared_name(name);
            let state = match self.base.get(self.kind, &name) {
                Some(resource) if resource.version() == version => ClientState::Resource(resource.clone()),
                _ => ClientState::Version(version),
            };
            if !matches!(state, ClientState::Resource(_)) {
                self.touch(&name, Need::Changed);
            }
            self.apart.insert(name, Known { sent: state.clone(), accepted: state });
        }
    }

    /// Removes the state of names that are no longer subscribed or need no state.
    fn forget_uncovered(&mut self) {
        let mut apart = std::mem::take(&mut self.apart);
        apart.retain(|name, _| self.covers(name));
        self.apart = apart;
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.retain(|name, _| self.covers(name));
        self.dirty = dirty;
        self.forget_isolated();
        let names: Vec<Arc<str>> = self.apart.keys().filter(|name| !self.dirty.contains_key(*name)).cloned().collect();
        names.iter().for_each(|name| self.settle(name));
    }
}

/// Returns a hash of the names of a request, in their order.
fn hash(names: &[String]) -> u64 {
    let mut hash = Xxh3::new();
    for name in names {
        hash.update(&(name.len() as u64).to_le_bytes());
        hash.update(name.as_bytes());
    }
    hash.digest()
}
