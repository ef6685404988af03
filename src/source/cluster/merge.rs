//! Makes the events of a kind of what its watches tell, of which there may be one for each namespace.

use std::collections::{BTreeMap, BTreeSet};

use lockgate_route::objects::{Kind, Object, ObjectKey};

use super::watch::Arrival;
use super::{Told, describe, is_expired, origin};
use crate::source::Event;

/// Makes one list of the lists of several watches of a kind.
pub struct Merge {
    kind: Kind,
    watches: Vec<State>,
    listed: bool,
    faulty: BTreeSet<usize>,
}

/// One watch: what a list under way has brought, and the keys of what it holds.
#[derive(Default)]
struct State {
    list: Option<BTreeMap<ObjectKey, Object>>,
    /// Until all watches are listed: the objects. Empty from then on, if it is the only watch.
    held: BTreeMap<ObjectKey, Option<Object>>,
    listed: bool,
}

impl Merge {
    pub fn new(kind: Kind, watches: usize) -> Self {
        let watches = (0..watches).map(|_| State::default()).collect();
        Self { kind, watches, listed: false, faulty: BTreeSet::new() }
    }

    /// The events of what watch `i` told.
    pub fn take(&mut self, i: usize, told: Told) -> Vec<Event> {
        let kind = self.kind;
        let arrival = match told {
            Ok(arrival) => arrival,
            Err((error, wait)) => {
                // An expired watch starts over with a list, which is nobody's fault.
                if is_expired(&error) {
                    return Vec::new();
                }
                self.faulty.insert(i);
                return vec![Event::Fault { origin: origin(kind), message: describe(kind, &error, wait) }];
            }
        };
        let mut events = Vec::new();
        // A list begins before the first request is made, so it proves nothing.
        if !matches!(arrival, Arrival::ListStarted) && self.faulty.remove(&i) && self.faulty.is_empty() {
            events.push(Event::Healed(origin(kind)));
        }
        let single = self.watches.len() == 1;
        let Some(watch) = self.watches.get_mut(i) else { return events };
        match arrival {
            Arrival::Alive => {}
            Arrival::ListStarted => watch.list = Some(BTreeMap::new()),
            Arrival::ListItem(key, object) => {
                if let Some(object) = object {
                    watch.list.get_or_insert_default().insert(key, object);
                }
            }
            Arrival::ListEnded => {
                let list = watch.list.take().unwrap_or_default();
                watch.listed = true;
                if single {
                    self.listed = true;
                    events.push(Event::Listed(kind, list.into_values().collect()));
                } else if self.listed {
                    // One namespace of several: told as the difference.
                    let gone = watch.held.keys().filter(|key| !list.contains_key(key));
                    events.extend(gone.map(|key| Event::Deleted(kind, key.clone())));
                    watch.held = list.keys().map(|key| (key.clone(), None)).collect();
                    events.extend(list.into_values().map(Event::Applied));
                } else {
                    watch.held = list.into_iter().map(|(key, object)| (key, Some(object))).collect();
                    events.extend(self.first_list());
                }
            }
            Arrival::Applied(key, Some(object)) => {
                let keep = (!self.listed).then(|| object.clone());
                if !single {
                    watch.held.insert(key, keep);
                }
                if self.listed {
                    events.push(Event::Applied(object));
                }
            }
            Arrival::Deleted(key) | Arrival::Applied(key, None) => {
                watch.held.remove(&key);
                if self.listed {
                    events.push(Event::Deleted(kind, key));
                }
            }
        }
        events
    }

    /// The list of all watches, once each has its own.
    fn first_list(&mut self) -> Option<Event> {
        if !self.watches.iter().all(|watch| watch.listed) {
            return None;
        }
        self.listed = true;
        let held = self.watches.iter_mut().flat_map(|watch| watch.held.values_mut());
        Some(Event::Listed(self.kind, held.filter_map(Option::take).collect()))
    }
}
