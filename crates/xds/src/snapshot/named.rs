//! Lookups of the lists of names that clients subscribe to. Many clients send the same long list, so they share a lookup.

use std::sync::{Arc, Mutex, PoisonError};

use imbl::OrdSet;

use super::Resource;

/// The lookups that are retained for one type of one snapshot.
const LISTS: usize = 8;

/// One list of names, looked up in one snapshot.
#[derive(Debug)]
pub struct NamedResources {
    hash: u64,
    in_order: Vec<Arc<str>>,
    /// The names, shared with the resources that have them.
    pub names: OrdSet<Arc<str>>,
    /// The names without a resource, sorted.
    pub absent: Vec<Arc<str>>,
    /// Whether the list names every resource of the type.
    pub all: bool,
}

impl NamedResources {
    /// Looks `names` up. `count` is the number of resources of the type.
    fn new<'a>(hash: u64, names: &[String], get: impl Fn(&str) -> Option<&'a Arc<Resource>>, count: usize) -> Self {
        let own = |name: &String| get(name).map_or_else(|| name.as_str().into(), |resource| resource.name().clone());
        let in_order: Vec<Arc<str>> = names.iter().map(own).collect();
        let names: OrdSet<Arc<str>> = in_order.iter().cloned().collect();
        let absent: Vec<Arc<str>> = names.iter().filter(|name| get(name).is_none()).cloned().collect();
        let all = names.len() - absent.len() == count;
        Self { hash, in_order, names, absent, all }
    }

    fn is(&self, hash: u64, names: &[String]) -> bool {
        self.hash == hash
            && self.in_order.len() == names.len()
            && self.in_order.iter().zip(names).all(|(own, name)| **own == **name)
    }
}

/// The lookups in one type of one snapshot.
#[derive(Debug, Default)]
pub(super) struct Lists(Mutex<Vec<Arc<NamedResources>>>);

impl Lists {
    /// Returns the lookup of `names`, whose hash is `hash`.
    pub fn get_or_insert<'a>(
        &self,
        hash: u64,
        names: &[String],
        get: impl Fn(&str) -> Option<&'a Arc<Resource>>,
        count: usize,
    ) -> Arc<NamedResources> {
        // The lock is held during the lookup, so that clients with the same list wait and share it.
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lists.iter().find(|list| list.is(hash, names)) {
            return known.clone();
        }
        let list = Arc::new(NamedResources::new(hash, names, get, count));
        if lists.len() == LISTS {
            lists.remove(0);
        }
        lists.push(list.clone());
        list
    }
}
