//! The destinations of the TLS, TCP, and UDP listeners of Gateways. The oldest route for a server name, or for a
//! listener without server names, receives all connections. Listeners for TLS share a port with those for HTTPS.

use crate::model::{Destination, Host, ListenerId, SecretId, Termination, TlsConnections, Touched, Traffic};
use crate::objects::Precedence;
use crate::settings::Settings;
use crate::translate::gateway::attach::ListenerName;
use crate::translate::gateway::listener::{ListenerProtocol, ParsedGateway};
use crate::translate::translator::state::{Translator, Update, set};

impl Translator {
    /// Builds a host of a listener for TLS, TCP, or UDP, and replaces it in the model. A host of a listener for HTTPS forwards no
    /// connections.
    pub(super) fn update_destination(
        &mut self,
        place: &(ListenerId, Host),
        gateway: &ParsedGateway,
        settings: &Settings,
        update: &mut Update,
    ) {
        let (id, host) = place;
        let traffic = self.model.listeners.get(id.as_str()).map(|listener| &listener.traffic);
        let has_names = matches!(traffic, Some(Traffic::Tls(_) | Traffic::Https(_)));
        let owner =
            gateway.owner_of(id, host).filter(|owner| !matches!(owner.protocol, Some(ListenerProtocol::Https(_))));
        let is_decrypted = owner.is_some_and(|listener| matches!(listener.protocol, Some(ListenerProtocol::Tls(_))));
        let ranks = self.gateways.hosts.get(place).into_iter().flat_map(|ranks| ranks.iter());
        let of_rank = |rank: &Precedence| {
            let route = self.sources.at(rank)?;
            let to = route.attached.destination(&gateway.certificate, is_decrypted)?;
            let listener =
                ListenerName { gateway: gateway.key().clone(), set: owner?.set.clone(), name: owner?.name.clone() };
            let is_closed = self.gateways.budget.is_closed(rank, &listener.owner(), host) || owner?.closed.is_some();
            Some(if is_closed { Destination::refusing(to.origin.clone()) } else { to.clone() })
        };
        let to = ranks.filter_map(of_rank).next();
        let is_pattern = owner.is_some_and(|listener| listener.host == *host);
        // A listener without routes refuses connections. Otherwise, less specific listeners would accept them.
        let refusing = || owner.map(|listener| Destination::refusing(listener.origin.clone()));
        let to = to.or_else(|| refusing().filter(|_| is_pattern));
        let (Some(to), Some(owner)) = (to, owner) else { return self.replace_connections(id, host, None, update) };
        if !has_names {
            return self.replace_destination(id, to, update);
        }
        let (minimum, maximum) = (settings.tls.parameters.minimum, settings.tls.parameters.maximum);
        let terminated = match &owner.protocol {
            Some(ListenerProtocol::Tls(pairs)) => {
                Some(Termination { secrets: pairs.clone(), minimum, maximum, clients: None })
            }
            _ => None,
        };
        self.replace_connections(id, host, Some(TlsConnections { terminated, to }), update);
    }

    /// Removes all destinations of an Envoy listener for TLS, TCP, or UDP.
    pub(super) fn remove_destinations(&mut self, id: &ListenerId, update: &mut Update) {
        let (hosts, to) = match self.model.listeners.get(id.as_str()).map(|listener| &listener.traffic) {
            Some(Traffic::Tls(hosts)) => (hosts.keys().cloned().collect(), None),
            Some(Traffic::Tcp(to) | Traffic::Udp(to)) => (Vec::new(), Some(to.clone())),
            Some(Traffic::Https(tls)) => (tls.connections.keys().cloned().collect(), None),
            Some(Traffic::Http(_)) | None => return,
        };
        for host in hosts {
            self.replace_connections(id, &host, None, update);
        }
        self.replace_destinations(to.as_ref(), None);
    }

    /// Replaces the destination of an Envoy listener for TCP or UDP.
    fn replace_destination(&mut self, id: &ListenerId, now: Destination, update: &mut Update) {
        let Some(listener) = self.model.listeners.get_mut(id.as_str()) else { return };
        let (Traffic::Tcp(to) | Traffic::Udp(to)) = &mut listener.traffic else { return };
        if *to == now {
            return;
        }
        let before = std::mem::replace(to, now.clone());
        update.touched.listeners.insert(id.clone());
        self.replace_destinations(Some(&before), Some(&now));
    }

    /// Replaces the connections for a server name of an Envoy listener for TLS, or for HTTP over TLS.
    fn replace_connections(&mut self, id: &ListenerId, host: &Host, now: Option<TlsConnections>, update: &mut Update) {
        let Some(listener) = self.model.listeners.get_mut(id.as_str()) else { return };
        let hosts = match &mut listener.traffic {
            Traffic::Tls(hosts) => hosts,
            Traffic::Https(_) => return self.replace_stream(id.as_str(), host, now, &mut update.touched),
            Traffic::Http(_) | Traffic::Tcp(_) | Traffic::Udp(_) => return,
        };
        let before = hosts.get(host).cloned();
        if before == now {
            return;
        }
        set(hosts, host, now.clone());
        update.touched.listeners.insert(id.clone());
        self.replace_connected(before, now, &mut update.touched);
    }

    /// Replaces the users of the clusters and key pairs of forwarded connections.
    pub(in crate::translate::translator) fn replace_connected(
        &mut self,
        before: Option<TlsConnections>,
        now: Option<TlsConnections>,
        touched: &mut Touched,
    ) {
        self.replace_destinations(before.as_ref().map(|one| &one.to), now.as_ref().map(|one| &one.to));
        let secrets = |connections: Option<TlsConnections>| -> Vec<SecretId> {
            connections.iter().flat_map(TlsConnections::secrets).cloned().collect()
        };
        let (before, now) = (secrets(before), secrets(now));
        if before != now {
            now.into_iter().for_each(|secret| self.use_secret(None, Some(secret), touched));
            before.into_iter().for_each(|secret| self.use_secret(Some(secret), None, touched));
        }
    }

    fn replace_destinations(&mut self, before: Option<&Destination>, now: Option<&Destination>) {
        self.clusters.connect(before, now);
        let origin = |to: Option<&'_ Destination>| to.map(|to| to.origin.clone());
        self.served.replace_origins(origin(before).iter(), origin(now).iter());
    }
}
