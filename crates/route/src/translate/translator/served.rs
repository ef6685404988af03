//! Which Ingresses are served: those that a route of the model comes from.
//!
//! An Ingress can lose all its paths and its default backend to others. No request reaches it then, and its status must
//! not say otherwise.

use std::collections::HashMap;

use lockgate_xds::provenance::ObjectRef;

use crate::model::VirtualHost;
use crate::objects::{Kind, ObjectKey};
use crate::translate::few::{beyond, set_of};

/// How many virtual hosts have a route of each Ingress.
#[derive(Debug, Default)]
pub struct Served {
    hosts: HashMap<ObjectKey, usize>,
    /// The Ingresses that got their first virtual host, or lost their last one, with repetitions.
    changed: Vec<ObjectKey>,
}

impl Served {
    /// Whether any virtual host has a route of the Ingress.
    pub fn contains(&self, ingress: &ObjectKey) -> bool {
        self.hosts.contains_key(ingress)
    }

    /// Replaces the virtual host `before` by `now`.
    pub fn replace(&mut self, before: Option<&VirtualHost>, now: Option<&VirtualHost>) {
        let (before, now) = (ingresses_of(before), ingresses_of(now));
        for ingress in beyond(&now, &before) {
            let hosts = self.hosts.entry(ingress.clone()).or_default();
            *hosts += 1;
            if *hosts == 1 {
                self.changed.push(ingress.clone());
            }
        }
        for ingress in beyond(&before, &now) {
            if let Some(hosts) = self.hosts.get_mut(ingress).filter(|hosts| **hosts > 1) {
                *hosts -= 1;
            } else {
                self.hosts.remove(ingress);
                self.changed.push(ingress.clone());
            }
        }
    }

    /// Returns the Ingresses that may have come to be served, or ceased to be, since the last call.
    pub fn take_changed(&mut self) -> Vec<ObjectKey> {
        std::mem::take(&mut self.changed)
    }
}

/// The Ingresses that the routes of a virtual host come from.
fn ingresses_of(host: Option<&VirtualHost>) -> Box<[ObjectKey]> {
    let mut origins: Vec<&ObjectRef> =
        host.into_iter().flat_map(|host| &host.routes).map(|route| &route.origin).collect();
    origins.dedup();
    let key = |origin: &ObjectRef| ObjectKey { namespace: origin.namespace.clone(), name: origin.name.clone() };
    let ingresses = origins.into_iter().filter(|origin| origin.kind == Kind::INGRESS.as_str());
    set_of(ingresses.map(key).collect())
}
