//! The sources that are served: those with a route in the model.
//!
//! A source can lose all its routes to others. No request reaches it then, and its status must not claim otherwise.

use std::collections::HashMap;

use lockgate_xds::provenance::ObjectRef;

use crate::model::VirtualHost;
use crate::objects::{ObjectId, ObjectKey};
use crate::translate::dialect::{self, Dialect};
use crate::translate::few::{beyond, set_of};

/// The number of virtual hosts with a route of each source.
#[derive(Debug)]
pub struct Served {
    dialects: &'static [Dialect],
    hosts: HashMap<ObjectId, usize>,
    /// The sources that got their first virtual host, or lost their last one, with repetitions.
    changed: Vec<ObjectId>,
}

impl Served {
    /// Nothing is served yet. The sources are the objects of these dialects.
    pub fn new(dialects: &'static [Dialect]) -> Self {
        Self { dialects, hosts: HashMap::new(), changed: Vec::new() }
    }

    /// Whether a virtual host has a route of the source.
    pub fn contains(&self, source: &ObjectId) -> bool {
        self.hosts.contains_key(source)
    }

    /// Replaces the virtual host `before` by `now`.
    pub fn replace(&mut self, before: Option<&VirtualHost>, now: Option<&VirtualHost>) {
        let (before, now) = (self.sources_of(before), self.sources_of(now));
        for source in beyond(&now, &before) {
            let hosts = self.hosts.entry(source.clone()).or_default();
            *hosts += 1;
            if *hosts == 1 {
                self.changed.push(source.clone());
            }
        }
        for source in beyond(&before, &now) {
            if let Some(hosts) = self.hosts.get_mut(source).filter(|hosts| **hosts > 1) {
                *hosts -= 1;
            } else {
                self.hosts.remove(source);
                self.changed.push(source.clone());
            }
        }
    }

    /// Returns the sources that may have come to be served, or ceased to be, since the last call.
    pub fn take_changed(&mut self) -> Vec<ObjectId> {
        std::mem::take(&mut self.changed)
    }

    /// The sources of the routes of a virtual host.
    fn sources_of(&self, host: Option<&VirtualHost>) -> Box<[ObjectId]> {
        let mut origins: Vec<&ObjectRef> =
            host.into_iter().flat_map(|host| &host.routes).map(|route| &route.origin).collect();
        origins.dedup();
        let id = |origin: &ObjectRef| {
            let kind = dialect::by_name(self.dialects, origin.kind)?.kind;
            let key = ObjectKey { namespace: origin.namespace.clone(), name: origin.name.clone() };
            Some(kind.id(key))
        };
        set_of(origins.into_iter().filter_map(id).collect())
    }
}
