//! The collections that a client subscribes to: all resources of a type, or the resources below a path (globs). Other
//! modules only check whether a collection contains a name.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Need, Subscription};
use crate::snapshot::Glob;

/// The subscribed collections of one type.
#[derive(Debug, Default)]
pub(super) struct Collections {
    /// Whether the client subscribes to all resources of the type.
    pub all: bool,
    globs: BTreeSet<Glob>,
}

impl Collections {
    /// Returns whether a collection contains `name`.
    pub fn covers(&self, name: &str) -> bool {
        self.all || self.globs.iter().any(|glob| glob.covers(name))
    }

    /// Returns whether the client subscribes to no collection.
    pub fn is_empty(&self) -> bool {
        !self.all && self.globs.is_empty()
    }

    /// Returns whether these collections include every collection of `others`.
    pub fn include(&self, others: &Self) -> bool {
        (self.all || !others.all) && self.globs.is_superset(&others.globs)
    }

    /// Returns the number of stored globs.
    pub fn stored_names(&self) -> usize {
        self.globs.len()
    }

    /// Parses `name`. Adds a collection, and returns the name of a resource.
    pub fn add<'a>(&mut self, name: &'a str) -> Option<&'a str> {
        match Selector::parse(name) {
            Selector::All => self.all = true,
            Selector::Glob(glob) => drop(self.globs.insert(glob)),
            Selector::Name(name) => return Some(name),
        }
        None
    }

    /// Parses `name`. Removes a collection, and returns the name of a resource.
    pub fn remove<'a>(&mut self, name: &'a str) -> Option<&'a str> {
        match Selector::parse(name) {
            Selector::All => self.all = false,
            Selector::Glob(glob) => drop(self.globs.remove(&glob)),
            Selector::Name(name) => return Some(name),
        }
        None
    }
}

impl Subscription {
    /// Delta: subscribes to the resources of `glob`, and requests all resources except the resources that the client
    /// `has` from an earlier stream.
    pub(super) fn subscribe_glob(&mut self, glob: Glob, has: impl Fn(&str) -> bool) {
        let base = self.base.clone();
        let all = base.with_prefix(self.kind, glob.prefix().to_owned()).map(|resource| resource.name());
        let under_way = self.under_way();
        let names: Vec<Arc<str>> = all.chain(under_way).filter(|name| glob.covers(name)).cloned().collect();
        names.iter().for_each(|name| self.track(name));
        names.iter().filter(|name| !has(name)).for_each(|name| self.touch(name, Need::Asked));
        if names.is_empty() {
            // The absence is reported by the name of the glob. Envoy would not match an empty response.
            self.touch(glob.name(), Need::Asked);
        }
        self.collections.globs.insert(glob);
    }
}

/// The resources that a name in a request selects.
pub(super) enum Selector<'a> {
    All,
    Glob(Glob),
    Name(&'a str),
}

impl<'a> Selector<'a> {
    pub fn parse(name: &'a str) -> Self {
        match Glob::parse(name) {
            _ if name == "*" => Selector::All,
            Some(glob) => Selector::Glob(glob),
            None => Selector::Name(name),
        }
    }
}
