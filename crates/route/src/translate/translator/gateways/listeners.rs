//! The Envoy listeners of Gateways.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;
use std::sync::Arc;

use super::clients::clients_of;
use super::sets::seen_otherwise;
use super::{Translator, Update};
use crate::model::{Bind, Destination, Host, Listener, ListenerId, RouteDiscovery, Traffic};
use crate::objects::{Kind, ObjectId};
use crate::settings::{Discovery, Settings};
use crate::translate::gateway::hostname::covers;
use crate::translate::gateway::listener::{self, Gateway, Protocol};
use crate::translate::source::Dependencies;
use crate::translate::verdict;

impl Translator {
    /// Replaces a Gateway with its ListenerSets. Adds the hosts that it may change to `hosts`. If it has changed, returns the
    /// parents whose routes it may change.
    pub(super) fn replace_gateway(
        &mut self,
        id: &ObjectId,
        now: Result<Gateway, Dependencies>,
        settings: &Settings,
        hosts: &mut BTreeSet<(ListenerId, Host)>,
        update: &mut Update,
    ) -> Option<BTreeSet<ObjectId>> {
        let reads = now.as_ref().map_or_else(|reads| reads, |gateway| &gateway.dependencies);
        self.replace_inputs(id, &reads.inputs);
        let now = now.ok().map(Arc::new);
        // The content of its ConfigMaps may have changed.
        let clients = now.iter().flat_map(|gateway| &gateway.listeners).filter_map(|one| one.clients.as_ref());
        update.touched.secrets.extend(clients.map(|clients| clients.authorities.clone()));
        let before = self.gateways.gateways.get(&id.key).cloned();
        if before == now {
            return None;
        }
        match &now {
            Some(gateway) => {
                self.verdicts.insert(id.clone(), verdict::bounded(&gateway.verdicts));
                self.gateways.gateways.insert(id.key.clone(), gateway.clone());
            }
            None => {
                self.verdicts.remove(id);
                self.gateways.gateways.remove(&id.key);
            }
        }
        let problems =
            |gateway: &Option<Arc<Gateway>>| gateway.as_ref().map(|gateway| gateway.problems()).unwrap_or_default();
        self.ledger.replace(&problems(&before), &problems(&now));
        self.replace_sets(&id.key, before.as_deref(), now.as_deref(), update);
        let mut parents = seen_otherwise(&id.key, before.as_deref(), now.as_deref());
        let has_fleet =
            |gateway: &Option<Arc<Gateway>>| gateway.as_ref().is_some_and(|gateway| gateway.fleet.is_some());
        if has_fleet(&before) != has_fleet(&now) {
            // Other Envoys have to accept the routes from now on.
            let sets = before.iter().chain(&now).flat_map(|gateway| gateway.sets.iter());
            parents.extend(sets.map(|set| Kind::LISTENER_SET.id(set.key().clone())));
            parents.insert(id.clone());
        }
        let earlier = before.clone();
        let before = before.map(|gateway| listeners_of(&gateway, settings)).unwrap_or_default();
        let now_bound = now.as_ref().map(|gateway| listeners_of(gateway, settings)).unwrap_or_default();
        let is_replaced = |id: &ListenerId, old: &Listener| {
            now_bound.get(id.as_str()).is_none_or(|new| discriminant(&old.traffic) != discriminant(&new.traffic))
        };
        for listener in before.iter().filter(|(id, old)| is_replaced(id, old)).map(|(id, _)| id) {
            self.remove_listener(listener, update);
        }
        for (listener, wanted) in now_bound {
            self.gateways.owners.insert(listener.clone(), id.key.clone());
            let mut is_new = false;
            match self.model.listeners.get_mut(listener.as_str()) {
                Some(there) if there.bind == wanted.bind => {}
                Some(there) => {
                    there.bind = wanted.bind;
                    update.touched.listeners.insert(listener.clone());
                }
                None => {
                    is_new = true;
                    self.model.listeners.insert(listener.clone(), wanted);
                    update.touched.listeners.insert(listener.clone());
                }
            }
            let clients = now.as_ref().and_then(|gateway| clients_of(gateway, &listener));
            self.replace_clients(&listener, clients, update);
            let is_shared = now.as_ref().is_some_and(|gateway| gateway.is_shared);
            if self.model.listeners.get_mut(listener.as_str()).is_some_and(|there| there.set_shared(is_shared)) {
                update.touched.listeners.insert(listener.clone());
            }
            // Which listener serves a host depends on the listeners that cover it. All hosts depend on the certificate for
            // backends.
            let changed = changed_patterns(&listener, earlier.as_deref(), now.as_deref());
            let certificate = |gateway: &Option<Arc<Gateway>>| gateway.as_ref().map(|one| one.certificate.clone());
            let is_new = is_new || certificate(&earlier) != certificate(&now);
            let is_affected = |host: &Host| is_new || changed.iter().any(|pattern| covers(pattern, host));
            let first = (listener.clone(), Host::Exact("".into()));
            let attached = self.gateways.hosts.range(first..).take_while(|((id, _), _)| *id == listener);
            hosts.extend(attached.map(|(place, _)| place).filter(|(_, host)| is_affected(host)).cloned());
            let served = self.model.listeners.get(listener.as_str()).map(|listener| served(&listener.traffic));
            let served = served.into_iter().flatten().filter(|host| is_affected(host));
            hosts.extend(served.chain(changed.iter().copied().cloned()).map(|host| (listener.clone(), host)));
        }
        Some(parents)
    }

    /// Removes an Envoy listener and its hosts from the model.
    fn remove_listener(&mut self, listener: &ListenerId, update: &mut Update) {
        let plain = self.model.plain(listener.as_str());
        let hosts: Option<Vec<Host>> = plain.map(|plain| plain.hosts.keys().cloned().collect());
        for host in hosts.unwrap_or_default() {
            self.replace_host(listener, &host, None, update);
        }
        let tls = self.model.tls(listener.as_str());
        let names: Option<Vec<Host>> = tls.map(|tls| tls.hosts.keys().cloned().collect());
        for name in names.unwrap_or_default() {
            self.replace_tls(listener.as_str(), &name, None, &mut update.touched);
        }
        self.replace_clients(listener, None, update);
        self.remove_destinations(listener, update);
        let first = (listener.clone(), Host::Exact("".into()));
        let places = self.gateways.problems.range(first..).take_while(|((id, _), _)| id == listener);
        for place in places.map(|(place, _)| place.clone()).collect::<Vec<_>>() {
            self.replace_problems(place, Vec::new());
        }
        self.model.listeners.remove(listener.as_str());
        self.gateways.owners.remove(listener);
        update.touched.listeners.insert(listener.clone());
    }
}

/// Returns the host names of the listeners on an Envoy listener that differ between two states of a Gateway.
fn changed_patterns<'a>(
    id: &'a ListenerId,
    before: Option<&'a Gateway>,
    now: Option<&'a Gateway>,
) -> BTreeSet<&'a Host> {
    let by_name = |gateway: Option<&'a Gateway>| -> BTreeMap<_, &'a listener::Listener> {
        let on = gateway.into_iter().flat_map(|gateway| gateway.on(id));
        on.map(|one| ((&one.set, &one.name), one)).collect()
    };
    let (old, new) = (by_name(before), by_name(now));
    let differs = |name: &_| old.get(name) != new.get(name);
    let both = old.iter().chain(&new).filter(|(name, _)| differs(name));
    both.map(|(_, listener)| &listener.host).collect()
}

/// Returns the hosts that a listener serves. TCP and UDP serve every host.
fn served(traffic: &Traffic) -> Vec<Host> {
    match traffic {
        Traffic::Http(plain) => plain.hosts.keys().cloned().collect(),
        Traffic::Https(tls) => tls.hosts.values().flat_map(|tls| tls.virtual_hosts.keys().cloned()).collect(),
        Traffic::Tls(hosts) => hosts.keys().cloned().collect(),
        Traffic::Tcp(_) | Traffic::Udp(_) => vec![Host::Any],
    }
}

/// Returns the Envoy listeners of a Gateway, without hosts.
fn listeners_of(gateway: &Gateway, settings: &Settings) -> BTreeMap<ListenerId, Listener> {
    let discovery = match settings.routes.discovery {
        Discovery::Auto | Discovery::Rds | Discovery::Vhds => RouteDiscovery::ByHost,
        Discovery::Buckets => RouteDiscovery::Buckets,
    };
    let address = settings.listeners.http.address;
    let other = |port, traffic| Listener { bind: Bind { address, port }, traffic };
    let listener = |one: &listener::Listener| {
        let (id, port) = one.bound.clone()?;
        let refusing = || Destination::refusing(one.origin.clone());
        match &one.protocol {
            Some(Protocol::Http) => Some((id, Listener::http(Bind { address, port }, discovery))),
            Some(Protocol::Https(_)) => Some((id, Listener::https(Bind { address, port }, None, None))),
            Some(Protocol::Tls(_) | Protocol::Passthrough) => Some((id, other(port, Traffic::Tls(BTreeMap::new())))),
            Some(Protocol::Tcp) => Some((id, other(port, Traffic::Tcp(refusing())))),
            Some(Protocol::Udp) => Some((id, other(port, Traffic::Udp(refusing())))),
            None => None,
        }
    };
    gateway.listeners.iter().filter_map(listener).collect()
}
