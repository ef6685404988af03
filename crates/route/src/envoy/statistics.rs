//! Selects the objects whose requests Envoy counts separately, up to the limit of the settings.
//!
//! The unit is an object on a host, which Envoy counts in one set of statistics. If there are more units than the
//! limit, every namespace gets the same number of units. A namespace with fewer units leaves the rest to the others. A
//! namespace therefore cannot use up the limit. The selection depends only on the model, so all replicas agree. Adding
//! or removing a unit changes the selection of at most one other unit: [`shares`] moves one unit from one namespace to
//! another, and the units of a namespace are selected in their order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use crate::few::Few;
use crate::model::{Action, Host, Listener, ListenerId, Model, Route, Touched, Traffic, VirtualHostRoutes};
use crate::settings::{Settings, is_label, is_subdomain};

/// A host of a listener, whose routes are built together.
pub type ListenerHost = (ListenerId, Host);

/// The namespace, the kind, and the name of an object.
type Object = (Arc<str>, &'static str, Arc<str>);

/// The objects with statistics on one host.
pub type Counted = BTreeSet<Object>;

/// An object of a namespace on a host, in the order of selection: kind, name, host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Unit {
    kind: &'static str,
    name: Arc<str>,
    host: Host,
}

/// The units of a namespace.
#[derive(Debug, Default)]
struct Namespace {
    /// Each unit with the places of its routes.
    units: BTreeMap<Unit, Few<ListenerHost>>,
    /// The selected units.
    selected: BTreeSet<Unit>,
}

/// The units of a model, and the units with statistics. Empty if the settings permit none.
#[derive(Debug, Default)]
pub struct Statistics {
    places: BTreeMap<ListenerHost, Few<(Arc<str>, Unit)>>,
    namespaces: BTreeMap<Arc<str>, Namespace>,
    total: usize,
    counted: BTreeMap<Host, Counted>,
}

impl Statistics {
    /// Updates the `touched` hosts. Returns the places whose routes change because the selection does.
    pub fn update(&mut self, model: &Model, touched: &Touched, settings: &Settings) -> BTreeSet<ListenerHost> {
        let most = settings.statistics.max_objects as usize;
        if most == 0 {
            *self = Self::default();
            return BTreeSet::new();
        }
        let total = self.total;
        let mut changed = BTreeSet::new();
        if !touched.listeners.is_empty() {
            let is_gone = |(listener, _): &&ListenerHost| !model.listeners.contains_key(listener.as_str());
            for place in self.places.keys().filter(is_gone).cloned().collect::<Vec<_>>() {
                self.replace(place, Few::None, &mut changed);
            }
        }
        for (listener, hosts) in &touched.hosts {
            let traffic = model.listeners.get(listener.as_str()).map(|Listener { traffic, .. }| traffic);
            for host in hosts {
                let units = traffic.map(|traffic| units(traffic, host)).unwrap_or_default();
                self.replace((listener.clone(), host.clone()), units, &mut changed);
            }
        }
        let mut moved = BTreeSet::new();
        if changed.is_empty() {
            return moved;
        }
        if total > most || self.total > most {
            for (namespace, share) in self.shares(most) {
                self.select(&namespace, share, &mut moved);
            }
        } else {
            changed.iter().for_each(|namespace| self.select(namespace, usize::MAX, &mut moved));
        }
        moved
    }

    /// Returns the objects with statistics on `host`.
    pub fn on(&self, host: &Host) -> Option<&Counted> {
        self.counted.get(host)
    }

    /// Returns the numbers of units with and without statistics.
    pub fn counts(&self) -> (usize, usize) {
        let selected = self.counted.values().map(BTreeSet::len).sum();
        (selected, self.total - selected)
    }

    /// Replaces the units of a place. Adds the namespaces whose units change to `changed`.
    fn replace(&mut self, place: ListenerHost, now: Few<(Arc<str>, Unit)>, changed: &mut BTreeSet<Arc<str>>) {
        let before = match now.is_empty() {
            true => self.places.remove(&place).unwrap_or_default(),
            false => self.places.insert(place.clone(), now.clone()).unwrap_or_default(),
        };
        for (namespace, unit) in before.difference(&now) {
            let Some(of_namespace) = self.namespaces.get_mut(namespace) else { continue };
            let Some(places) = of_namespace.units.get_mut(unit) else { continue };
            places.remove(&place);
            if places.is_empty() {
                of_namespace.units.remove(unit);
                self.total -= 1;
                changed.insert(namespace.clone());
            }
        }
        for (namespace, unit) in now.difference(&before) {
            let units = &mut self.namespaces.entry(namespace.clone()).or_default().units;
            let places = units.entry(unit.clone()).or_default();
            if places.is_empty() {
                self.total += 1;
                changed.insert(namespace.clone());
            }
            places.insert(place.clone());
        }
    }

    /// Selects the first `share` units of a namespace. Adds the places of the other units whose selection changes to
    /// `moved`.
    fn select(&mut self, name: &Arc<str>, share: usize, moved: &mut BTreeSet<ListenerHost>) {
        let Some(namespace) = self.namespaces.get_mut(name) else { return };
        let now: BTreeSet<Unit> = namespace.units.keys().take(share).cloned().collect();
        let before = std::mem::replace(&mut namespace.selected, now);
        let object = |unit: &Unit| (name.clone(), unit.kind, unit.name.clone());
        for unit in before.difference(&namespace.selected) {
            if let Some(objects) = self.counted.get_mut(&unit.host) {
                objects.remove(&object(unit));
                if objects.is_empty() {
                    self.counted.remove(&unit.host);
                }
            }
            moved.extend(namespace.units.get(unit).into_iter().flat_map(Few::iter).cloned());
        }
        for unit in namespace.selected.difference(&before) {
            self.counted.entry(unit.host.clone()).or_default().insert(object(unit));
            moved.extend(namespace.units.get(unit).into_iter().flat_map(Few::iter).cloned());
        }
        if namespace.units.is_empty() {
            self.namespaces.remove(name);
        }
    }

    /// Returns the number of units that each namespace may have with statistics.
    fn shares(&self, most: usize) -> Vec<(Arc<str>, usize)> {
        let counts: Vec<usize> = self.namespaces.values().map(|namespace| namespace.units.len()).collect();
        self.namespaces.keys().cloned().zip(shares(&counts, most)).collect()
    }
}

/// Divides `most` units among namespaces with these numbers of units. Each namespace gets an equal share, up to its
/// number of units. The remainder goes to the first namespaces with more units.
fn shares(counts: &[usize], most: usize) -> Vec<usize> {
    let used = |level: usize| counts.iter().map(|count| (*count).min(level)).sum::<usize>();
    let (mut level, mut above) = (0, most + 1);
    while above - level > 1 {
        let middle = level + (above - level) / 2;
        if used(middle) <= most {
            level = middle;
        } else {
            above = middle;
        }
    }
    let mut rest = most - used(level);
    let mut share = |count: &usize| {
        let more = *count > level && rest > 0;
        rest -= usize::from(more);
        (*count).min(level) + usize::from(more)
    };
    counts.iter().map(&mut share).collect()
}

/// Returns whether a route of an object in `counted` has statistics.
pub fn is_counted(route: &Route, counted: Option<&Counted>) -> bool {
    let ObjectRef { kind, namespace, name, .. } = &route.origin;
    counted.is_some_and(|objects| is_countable(route) && objects.contains(&(namespace.clone(), *kind, name.clone())))
}

/// Returns whether Envoy can count the requests of a route. It counts only forwarded requests. Names that are not valid
/// in Kubernetes, which a directory may contain, could imitate another object.
fn is_countable(route: &Route) -> bool {
    let ObjectRef { namespace, name, .. } = &route.origin;
    matches!(route.action, Action::Forward(_)) && is_label(namespace) && is_subdomain(name)
}

/// Returns the units of the routes of a host.
fn units(traffic: &Traffic, host: &Host) -> Few<(Arc<str>, Unit)> {
    let mut units = Few::None;
    let mut add = |host: &Host, content: &VirtualHostRoutes| {
        let mut last = None;
        for route in content.routes.iter().filter(|route| is_countable(route)) {
            let ObjectRef { kind, namespace, name, .. } = &route.origin;
            // The routes of an object often follow each other.
            if last.replace((kind, namespace, name)) != Some((kind, namespace, name)) {
                units.insert((namespace.clone(), Unit { kind, name: name.clone(), host: host.clone() }));
            }
        }
    };
    match traffic {
        Traffic::Http(plain) => plain.hosts.get(host).into_iter().for_each(|content| add(host, content)),
        Traffic::Https(tls) => {
            let served = tls.hosts.get(host).into_iter().flat_map(|tls| tls.virtual_hosts.iter());
            served.for_each(|(served, content)| add(served, content));
        }
        Traffic::Tls(_) | Traffic::Tcp(_) | Traffic::Udp(_) => {}
    }
    units
}

#[cfg(test)]
mod tests;
