//! The served sources: the sources with a route in the model.
//!
//! A source can lose all its routes to other sources. It then receives no requests, and its status must reflect that.

use std::collections::HashMap;
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::state::conflicts::id_of;
use crate::model::Route;
use crate::objects::ObjectId;
use crate::translate::dialect::Dialect;

/// The number of routes of each source.
#[derive(Debug)]
pub struct Served {
    dialects: &'static [Dialect],
    routes: HashMap<ObjectId, usize>,
    /// The sources that gained their first route or lost their last route, with repetitions.
    changed: Vec<ObjectId>,
}

impl Served {
    /// Creates an empty set. The sources are the objects of these dialects.
    pub fn new(dialects: &'static [Dialect]) -> Self {
        Self { dialects, routes: HashMap::new(), changed: Vec::new() }
    }

    /// Returns whether the model has a route of the source.
    pub fn contains(&self, source: &ObjectId) -> bool {
        self.routes.contains_key(source)
    }

    /// Replaces the routes `before` by `now`.
    pub fn replace(&mut self, before: &[Arc<Route>], now: &[Arc<Route>]) {
        fn origins(routes: &[Arc<Route>]) -> impl Iterator<Item = &ObjectRef> {
            routes.iter().map(|route| &route.origin)
        }
        self.replace_origins(origins(before), origins(now));
    }

    /// Replaces the origins `before` of routes and destinations by `now`.
    pub fn replace_origins<'a>(
        &mut self,
        before: impl Iterator<Item = &'a ObjectRef>,
        now: impl Iterator<Item = &'a ObjectRef>,
    ) {
        let dialects = self.dialects;
        for source in now.filter_map(|origin| id_of(dialects, origin)) {
            let routes = self.routes.entry(source.clone()).or_default();
            *routes += 1;
            if *routes == 1 {
                self.changed.push(source);
            }
        }
        for source in before.filter_map(|origin| id_of(dialects, origin)) {
            if let Some(routes) = self.routes.get_mut(&source).filter(|routes| **routes > 1) {
                *routes -= 1;
            } else {
                self.routes.remove(&source);
                self.changed.push(source);
            }
        }
    }

    /// Returns the sources that may have started or stopped being served since the last call.
    pub fn take_changed(&mut self) -> Vec<ObjectId> {
        std::mem::take(&mut self.changed)
    }
}
