//! The Envoy listeners of Gateways.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;
use std::sync::Arc;

use crate::model::{Bind, Destination, Host, Listener, ListenerId, Traffic};
use crate::objects::{Kind, ObjectId};
use crate::settings::Settings;
use crate::translate::gateway::hostname::covers;
use crate::translate::gateway::listener::{self, ListenerProtocol, ParsedGateway};
use crate::translate::source::Dependencies;
use crate::translate::translator::gateways::sets::seen_otherwise;
use crate::translate::translator::state::{Translator, Update};
use crate::translate::{listeners, verdict};

impl Translator {
    /// Replaces a Gateway with its ListenerSets. Adds the affected hosts to `hosts`. If the Gateway has changed,
    /// returns the parents whose routes may be affected.
    pub(super) fn replace_gateway(
        &mut self,
        id: &ObjectId,
        now: Result<ParsedGateway, Dependencies>,
        settings: &Settings,
        hosts: &mut BTreeSet<(ListenerId, Host)>,
        update: &mut Update,
    ) -> Option<BTreeSet<ObjectId>> {
        let reads = now.as_ref().map_or_else(|reads| reads, |gateway| &gateway.dependencies);
        self.replace_inputs(id, &reads.inputs);
        let now = now.ok().map(Arc::new);
        // The content of its ConfigMaps may have changed.
        let clients = now.iter().flat_map(|gateway| &gateway.listeners).filter_map(|one| one.clients.as_ref());
        update.touched.secrets.extend(clients.filter_map(|clients| clients.authorities.clone()));
        let before = self.gateways.gateways.get(&id.key).cloned();
        if before == now {
            return None;
        }
        self.store_gateway(id, before.as_deref(), now.clone());
        self.replace_sets(&id.key, before.as_deref(), now.as_deref(), update);
        let change = Change { before: before.as_deref(), now: now.as_deref() };
        let bound = now.iter().flat_map(|gateway| listeners_of(gateway, settings)).collect();
        self.remove_unbound(change, &bound, settings, update);
        for (listener, wanted) in bound {
            self.gateways.owners.insert(listener.clone(), id.key.clone());
            let is_new = self.bind_listener(&listener, wanted, update);
            self.add_hosts_of_change(&listener, change, is_new, hosts);
        }
        Some(change.parents(id))
    }

    /// Stores a Gateway, its conditions, and its problems.
    fn store_gateway(&mut self, id: &ObjectId, before: Option<&ParsedGateway>, now: Option<Arc<ParsedGateway>>) {
        let problems = |gateway: Option<&ParsedGateway>| gateway.map(ParsedGateway::problems).unwrap_or_default();
        self.ledger.replace(&problems(before), &problems(now.as_deref()));
        match now {
            Some(gateway) => {
                self.verdicts.insert(id.clone(), verdict::bounded(&gateway.verdicts));
                self.gateways.gateways.insert(id.key.clone(), gateway);
            }
            None => {
                self.verdicts.remove(id);
                self.gateways.gateways.remove(&id.key);
            }
        }
    }

    /// Removes the Envoy listeners that the Gateway no longer has, or has with another protocol.
    fn remove_unbound(
        &mut self,
        change: Change,
        bound: &BTreeMap<ListenerId, Listener>,
        settings: &Settings,
        update: &mut Update,
    ) {
        let before = change.before.map(|gateway| listeners_of(gateway, settings)).unwrap_or_default();
        let is_removed = |id: &ListenerId, old: &Listener| {
            bound.get(id.as_str()).is_none_or(|new| discriminant(&old.traffic) != discriminant(&new.traffic))
        };
        for (listener, _) in before.iter().filter(|(id, old)| is_removed(id, old)) {
            self.remove_listener(listener, update);
        }
    }

    /// Adds an Envoy listener to the model, or updates its port. Returns whether the listener is new.
    fn bind_listener(&mut self, id: &ListenerId, wanted: Listener, update: &mut Update) -> bool {
        let is_new = match self.model.listeners.get_mut(id.as_str()) {
            Some(there) if there.bind == wanted.bind => return false,
            Some(there) => {
                there.bind = wanted.bind;
                false
            }
            None => {
                self.model.listeners.insert(id.clone(), wanted);
                true
            }
        };
        update.touched.listeners.insert(id.clone());
        is_new
    }

    /// Extends `hosts` with the hosts of an Envoy listener that a change of its Gateway affects.
    ///
    /// Which listener serves a host depends on the listeners that cover it. All hosts depend on the certificate for backends.
    fn add_hosts_of_change(
        &self,
        listener: &ListenerId,
        change: Change,
        is_new: bool,
        hosts: &mut BTreeSet<(ListenerId, Host)>,
    ) {
        let patterns = change.patterns(listener);
        let are_all = is_new || change.before.map(|one| &one.certificate) != change.now.map(|one| &one.certificate);
        let is_affected = |host: &Host| are_all || patterns.iter().any(|pattern| covers(pattern, host));
        let attached = self.gateways.hosts_on(listener).map(|(place, _)| place);
        hosts.extend(attached.filter(|(_, host)| is_affected(host)).cloned());
        let served = self.model.listeners.get(listener.as_str()).map(|listener| served(&listener.traffic));
        let served = served.into_iter().flatten().filter(|host| is_affected(host));
        hosts.extend(served.chain(patterns.iter().copied().cloned()).map(|host| (listener.clone(), host)));
    }

    /// Removes an Envoy listener and its hosts from the model.
    fn remove_listener(&mut self, listener: &ListenerId, update: &mut Update) {
        let plain = self.model.plain(listener.as_str());
        let hosts: Option<Vec<Host>> = plain.map(|plain| plain.hosts.keys().cloned().collect());
        for host in hosts.unwrap_or_default() {
            self.replace_host(listener.as_str(), &host, None, &mut update.touched);
        }
        let tls = self.model.tls(listener.as_str());
        let names: Option<Vec<Host>> = tls.map(|tls| tls.hosts.keys().cloned().collect());
        for name in names.unwrap_or_default() {
            self.replace_tls(listener.as_str(), &name, None, &mut update.touched);
        }
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

/// The states of a Gateway before and after a change.
#[derive(Clone, Copy)]
struct Change<'a> {
    before: Option<&'a ParsedGateway>,
    now: Option<&'a ParsedGateway>,
}

impl<'a> Change<'a> {
    /// Returns the host names of the listeners on an Envoy listener that the change adds, removes, or modifies.
    fn patterns(self, id: &'a ListenerId) -> BTreeSet<&'a Host> {
        let by_name = |gateway: Option<&'a ParsedGateway>| -> BTreeMap<_, &'a listener::ParsedListener> {
            let on = gateway.into_iter().flat_map(|gateway| gateway.on(id));
            on.map(|one| ((&one.set, &one.name), one)).collect()
        };
        let (old, new) = (by_name(self.before), by_name(self.now));
        let differs = |name: &_| old.get(name) != new.get(name);
        let both = old.iter().chain(&new).filter(|(name, _)| differs(name));
        both.map(|(_, listener)| &listener.host).collect()
    }

    /// Returns the parents whose routes the change may affect: the Gateway `id`, and its ListenerSets.
    fn parents(self, id: &ObjectId) -> BTreeSet<ObjectId> {
        let Self { before, now } = self;
        let mut parents = seen_otherwise(&id.key, before, now);
        let has_fleet = |gateway: Option<&ParsedGateway>| gateway.is_some_and(|gateway| gateway.fleet.is_some());
        if has_fleet(before) != has_fleet(now) {
            // Other Envoys have to accept the routes from now on.
            let sets = before.into_iter().chain(now).flat_map(|gateway| gateway.sets.iter());
            parents.extend(sets.map(|set| Kind::LISTENER_SET.id(set.key().clone())));
            parents.insert(id.clone());
        }
        parents
    }
}

/// Returns the hosts that a listener serves. TCP and UDP serve every host.
fn served(traffic: &Traffic) -> Vec<Host> {
    match traffic {
        Traffic::Http(plain) => plain.hosts.keys().cloned().collect(),
        Traffic::Https(tls) => {
            let hosts = tls.hosts.values().flat_map(|tls| tls.virtual_hosts.keys());
            hosts.chain(tls.connections.keys()).cloned().collect()
        }
        Traffic::Tls(hosts) => hosts.keys().cloned().collect(),
        Traffic::Tcp(_) | Traffic::Udp(_) => vec![Host::Any],
    }
}

/// Returns the Envoy listeners of a Gateway, without hosts.
fn listeners_of(gateway: &ParsedGateway, settings: &Settings) -> BTreeMap<ListenerId, Listener> {
    let discovery = listeners::discovery(settings);
    let address = settings.listeners.http.address;
    let other = |port, traffic| Listener { bind: Bind { address, port }, traffic };
    let listener = |one: &listener::ParsedListener| {
        let (id, port) = one.bound.clone()?;
        let refusing = || Destination::refusing(one.origin.clone());
        match &one.protocol {
            Some(ListenerProtocol::Http) => Some((id, Listener::http(Bind { address, port }, discovery))),
            Some(ListenerProtocol::Https(_)) => Some((id, Listener::https(Bind { address, port }, None, None))),
            Some(ListenerProtocol::Tls(_) | ListenerProtocol::Passthrough) => {
                Some((id, other(port, Traffic::Tls(BTreeMap::new()))))
            }
            Some(ListenerProtocol::Tcp) => Some((id, other(port, Traffic::Tcp(refusing())))),
            Some(ListenerProtocol::Udp) => Some((id, other(port, Traffic::Udp(refusing())))),
            None => None,
        }
    };
    let mut listeners = BTreeMap::new();
    for (id, one) in gateway.listeners.iter().filter_map(listener) {
        let is_shared = matches!(one.traffic, Traffic::Tls(_)) && listeners.contains_key(&id);
        // The Envoy listener for HTTP over TLS forwards connections, too.
        if !is_shared {
            listeners.insert(id, one);
        }
    }
    listeners
}
