//! Lists of names that clients ask for: many ask for the same long one, so it is looked up and kept once.

use std::sync::{Arc, Mutex, PoisonError};

use imbl::OrdSet;

use super::Resource;

/// Lists of one type of one snapshot that are remembered.
const LISTS: usize = 8;

/// What one list of names means in one snapshot.
#[derive(Debug)]
pub struct Asked {
    hash: u64,
    in_order: Vec<Arc<str>>,
    /// The names, shared with the resources that have them.
    pub names: OrdSet<Arc<str>>,
    /// Those that do not exist, sorted.
    pub absent: Vec<Arc<str>>,
    /// Whether they are all that there is of the type, and perhaps more.
    pub all: bool,
}

impl Asked {
    /// Looks `names` up; `count`: how many resources there are.
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

/// The lists of one type of one snapshot.
#[derive(Debug, Default)]
pub(super) struct Lists(Mutex<Vec<Arc<Asked>>>);

impl Lists {
    /// What `names`, with this `hash`, mean.
    pub fn get_or_look_up<'a>(
        &self,
        hash: u64,
        names: &[String],
        get: impl Fn(&str) -> Option<&'a Arc<Resource>>,
        count: usize,
    ) -> Arc<Asked> {
        // Held while a list is looked up: clients that ask for the same at the same time wait, and find it.
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lists.iter().find(|list| list.is(hash, names)) {
            return known.clone();
        }
        let list = Arc::new(Asked::new(hash, names, get, count));
        if lists.len() == LISTS {
            lists.remove(0);
        }
        lists.push(list.clone());
        list
    }
}
