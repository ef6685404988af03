//! Combines the watches of a kind, which may have one watch for each namespace, into events.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::runtime::watcher;
use lockgate_route::objects::{ENVOY_GATEWAY, Kind, KindInfo, Object, ObjectKey, gateway};

use super::failure::{describe, origin};
use super::installed::Installed;
use super::retry::{WatchResult, is_expired, status_code};
use super::watch::Arrival;
use crate::source::Event;

/// Combines the lists of several watches of a kind into one list.
pub struct Merge {
    kind: Kind,
    watches: Vec<State>,
    listed: bool,
    /// The watches with a fault, and the time at which each was last reported.
    faulty: BTreeMap<usize, Instant>,
    /// For an optional kind: whether the API server knows it, as logged last.
    known: Option<bool>,
    installed: Installed,
}

/// The state of one watch: its current list, and the keys of its objects.
#[derive(Default)]
struct State {
    /// The namespace; empty for all.
    namespace: Arc<str>,
    /// Whether the API server has refused the first list.
    is_unreadable: bool,
    /// The objects in the order of arrival, usually sorted by key. The list is sorted at its end.
    list: Option<Vec<(ObjectKey, Object)>>,
    /// The objects, until all watches have their lists. If it is the only watch, the map is empty afterwards.
    held: BTreeMap<ObjectKey, Option<Object>>,
    listed: bool,
    /// The time since when the API server has reported the kind as unknown, without another response in between.
    absent_since: Option<Instant>,
    /// Whether the kind is considered absent.
    is_absent: bool,
}

/// The time for which listed objects stay after the API server reports their kind as unknown.
const ABSENT_FOR: Duration = Duration::from_secs(30);

/// The time after which a fault that lasts is reported again.
const REPORTED_AGAIN: Duration = Duration::from_secs(60);

impl Merge {
    /// Creates the state of the watches of a kind, by namespace. An empty namespace means all.
    pub fn new(kind: Kind, namespaces: impl IntoIterator<Item = Arc<str>>, installed: Installed) -> Self {
        let watches = namespaces.into_iter().map(|namespace| State { namespace, ..State::default() }).collect();
        Self { kind, watches, listed: false, faulty: BTreeMap::new(), known: None, installed }
    }

    /// Returns the events for a result of watch `i`.
    pub fn take(&mut self, i: usize, result: WatchResult) -> Vec<Event> {
        let kind = self.kind;
        let arrival = match result {
            Ok(arrival) => arrival,
            Err((error, wait)) => return self.failed(i, &error, wait),
        };
        let mut events = Vec::new();
        // A list starts before its first request, so the start proves nothing.
        if !matches!(arrival, Arrival::ListStarted) {
            events.extend(self.healed(i));
        }
        let single = self.watches.len() == 1;
        let Some(watch) = self.watches.get_mut(i) else { return events };
        match arrival {
            Arrival::Alive => {}
            Arrival::ListStarted => watch.list = Some(Vec::new()),
            Arrival::ListItem(key, object) => {
                if let Some(object) = object {
                    watch.list.get_or_insert_default().push((key, object));
                }
            }
            Arrival::ListEnded => {
                // Of two objects with the same key, the last one wins.
                let list: BTreeMap<_, _> = watch.list.take().unwrap_or_default().into_iter().collect();
                watch.absent_since = None;
                watch.is_absent = false;
                self.log_known(true);
                events.extend(self.list_ended(i, list));
                events.extend(self.readable(i));
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

    /// Returns the events for a failure of watch `i`.
    fn failed(&mut self, i: usize, error: &watcher::Error, wait: Duration) -> Vec<Event> {
        let kind = self.kind;
        // An expired watch starts with a new list, which is not a fault.
        if is_expired(error) {
            return Vec::new();
        }
        if kind.info().optional && status_code(error) == Some(404) {
            // The response ends an earlier fault.
            let mut events: Vec<Event> = self.healed(i).into_iter().collect();
            events.extend(self.absent(i, Instant::now()));
            return events;
        }
        if let Some(watch) = self.watches.get_mut(i) {
            watch.absent_since = None;
        }
        let now = Instant::now();
        let repeated = self.faulty.get(&i).is_some_and(|reported| now.duration_since(*reported) < REPORTED_AGAIN);
        if !repeated {
            self.faulty.insert(i, now);
        }
        let mut events =
            vec![Event::Fault { origin: origin(kind), message: describe(kind, error), retry: Some(wait), repeated }];
        // Readiness does not wait for an optional kind. An earlier complete list stays. A kind that was absent has been installed,
        // unless its definition is known to be missing: then the refusal is a fault of the API server.
        let is_installed = !self.installed.lacks(kind);
        if kind.info().optional
            && status_code(error) == Some(403)
            && let Some(watch) = self.watches.get_mut(i)
            && (!watch.listed || watch.is_absent && is_installed)
        {
            let is_first = !watch.listed;
            watch.is_unreadable = true;
            watch.is_absent = false;
            events.push(Event::Readable { kind, namespace: watch.namespace.clone(), readable: false });
            if is_first {
                events.extend(self.list_ended(i, BTreeMap::new()));
            }
        }
        events
    }

    /// Returns the event for the end of the last fault of all watches, if watch `i` had it.
    fn healed(&mut self, i: usize) -> Option<Event> {
        (self.faulty.remove(&i).is_some() && self.faulty.is_empty()).then(|| Event::Healed(origin(self.kind)))
    }

    /// Returns the events for the complete list of watch `i`.
    fn list_ended(&mut self, i: usize, list: BTreeMap<ObjectKey, Object>) -> Vec<Event> {
        let (kind, single) = (self.kind, self.watches.len() == 1);
        let Some(watch) = self.watches.get_mut(i) else { return Vec::new() };
        watch.listed = true;
        if single {
            self.listed = true;
            return vec![Event::Listed(kind, list.into_values().collect())];
        }
        if self.listed {
            // One of several namespaces: only the difference is sent.
            let gone = watch.held.keys().filter(|key| !list.contains_key(key));
            let mut events: Vec<Event> = gone.map(|key| Event::Deleted(kind, key.clone())).collect();
            watch.held = list.keys().map(|key| (key.clone(), None)).collect();
            events.extend(list.into_values().map(Event::Applied));
            return events;
        }
        watch.held = list.into_iter().map(|(key, object)| (key, Some(object))).collect();
        self.first_list().into_iter().collect()
    }

    /// Returns the events if the API server does not know the kind. Its objects are gone with its
    /// CustomResourceDefinition. A starting API server briefly does not know it either, so served objects stay for
    /// [`ABSENT_FOR`].
    pub(super) fn absent(&mut self, i: usize, now: Instant) -> Vec<Event> {
        let Some(watch) = self.watches.get_mut(i) else { return Vec::new() };
        let since = *watch.absent_since.get_or_insert(now);
        if watch.is_absent || (watch.listed && now.saturating_duration_since(since) < ABSENT_FOR) {
            return Vec::new();
        }
        watch.is_absent = true;
        self.log_known(false);
        let mut events = self.list_ended(i, BTreeMap::new());
        events.extend(self.readable(i));
        events
    }

    /// Returns the event for the first list of watch `i` after the API server had refused it. It follows the objects of the list,
    /// because the translation fails closed until then.
    fn readable(&mut self, i: usize) -> Option<Event> {
        let watch = self.watches.get_mut(i).filter(|watch| watch.is_unreadable)?;
        watch.is_unreadable = false;
        Some(Event::Readable { kind: self.kind, namespace: watch.namespace.clone(), readable: true })
    }

    /// Logs whether the API server knows an optional kind, once for all watches.
    fn log_known(&mut self, known: bool) {
        if !self.kind.info().optional || self.known.replace(known) == Some(known) {
            return;
        }
        let KindInfo { name: kind, group, version, .. } = self.kind.info();
        let is_standard = [gateway::GROUP, gateway::EXPERIMENTAL_GROUP].contains(group);
        let api = if is_standard { "Gateway API: " } else { "" };
        let resource = self.kind.resource();
        match known {
            true => tracing::info!(kind, version, "{api}watching {resource}"),
            // Most clusters have no policies of other products, and nobody misses them.
            false if *group == ENVOY_GATEWAY => tracing::debug!(kind, "{resource} are not installed in this cluster"),
            false => tracing::info!(
                kind,
                "{api}{resource} are not installed in this cluster; Lockgate watches them once they are"
            ),
        }
    }

    /// Returns whether watch `i` has found the kind to be absent.
    pub fn is_absent(&self, i: usize) -> bool {
        self.watches.get(i).is_some_and(|watch| watch.is_absent)
    }

    /// Returns the combined list, once each watch has its own.
    fn first_list(&mut self) -> Option<Event> {
        if !self.watches.iter().all(|watch| watch.listed) {
            return None;
        }
        self.listed = true;
        let held = self.watches.iter_mut().flat_map(|watch| watch.held.values_mut());
        Some(Event::Listed(self.kind, held.filter_map(Option::take).collect()))
    }
}
