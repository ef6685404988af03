//! The virtual hosts of the HTTP listeners of Gateways.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::{Host, ListenerId, Model, Others, TlsHost, Traffic, VirtualHostRoutes};
use crate::settings::Settings;
use crate::translate::conflicts::ConflictPlace;
use crate::translate::gateway::attach::ListenerName;
use crate::translate::gateway::hostname::covers;
use crate::translate::gateway::listener::{ListenerProtocol, ParsedGateway, ParsedListener};
use crate::translate::gateway::virtual_host::{not_found, virtual_host};
use crate::translate::problem::Problem;
use crate::translate::scope::Scope;
use crate::translate::source::Source;
use crate::translate::translator::state::{Translator, Update};

/// The maximum number of listeners for HTTPS on one port that distinguish hosts of other listeners from unknown hosts.
const LISTED: usize = 64;

impl Translator {
    /// Builds hosts of an Envoy listener from their routes, and replaces them in the model.
    pub(super) fn update_hosts(
        &mut self,
        id: &ListenerId,
        places: BTreeSet<(ListenerId, Host)>,
        settings: &Settings,
        update: &mut Update,
    ) {
        let gateway = self.gateways.owners.get(id).and_then(|key| self.gateways.gateways.get(key)).cloned();
        let traffic = self.model.listeners.get(id.as_str()).map(|listener| &listener.traffic);
        if let (Some(Traffic::Tls(_) | Traffic::Tcp(_) | Traffic::Udp(_)), Some(gateway)) = (traffic, &gateway) {
            return places.iter().for_each(|place| self.update_destination(place, gateway, settings, update));
        }
        let is_https = matches!(traffic, Some(Traffic::Https(_)));
        let (mut built, mut has_other_names) = (BTreeMap::new(), false);
        for place in places {
            if let Some(gateway) = gateway.as_ref().filter(|_| is_https) {
                let is_forwarded = |model: &Model| model.tls(id.as_str())?.connections.get(&place.1).map(drop);
                let before = is_forwarded(&self.model);
                self.update_destination(&place, gateway, settings, update);
                has_other_names |= before != is_forwarded(&self.model);
            }
            let host = gateway.as_ref().and_then(|gateway| self.virtual_host(gateway, &place, settings));
            let (host, problems) = host.map_or_else(Default::default, |(host, problems)| (Some(host), problems));
            built.insert(place.1.clone(), host);
            self.replace_problems(place, problems);
        }
        let Some(gateway) = gateway else { return };
        if is_https {
            return self.replace_tls_hosts(id, &gateway, (built, has_other_names), settings, update);
        }
        for (host, now) in built {
            let pattern = || gateway.on(id).find(|one| one.host == host);
            let now = now.or_else(|| pattern().map(|listener| not_found(&listener.origin)));
            self.replace_host(id.as_str(), &host, now, &mut update.touched);
        }
    }

    /// Returns the virtual host of a place, if it has routes.
    fn virtual_host(
        &self,
        gateway: &ParsedGateway,
        place: &(ListenerId, Host),
        settings: &Settings,
    ) -> Option<(VirtualHostRoutes, Vec<Arc<Problem>>)> {
        let sources: Vec<&Source> = self.sources.all_at(Some(self.gateways.hosts.get(place)?)).collect();
        let (id, host) = place;
        let is_http =
            |one: &&ParsedListener| matches!(one.protocol, Some(ListenerProtocol::Http | ListenerProtocol::Https(_)));
        let owner = gateway.owner_of(id, host).filter(is_http)?;
        let name = ListenerName { gateway: gateway.key().clone(), set: owner.set.clone(), name: owner.name.clone() };
        let policies = Scope::attached(&self.gateways.http_policies, &self.gateways.budget, &name);
        let (certificate, limits) = (&gateway.certificate, &settings.regexes);
        let closed = owner.closed.as_ref();
        Some(virtual_host(
            host,
            &sources,
            certificate,
            &owner.origin,
            owner.port,
            self.dialects,
            limits,
            &policies,
            closed,
        ))
    }

    /// Replaces hosts of an Envoy listener for HTTP over TLS. Each host belongs to the most specific server name that
    /// covers it. `has_other_names`: whether the server names of forwarded connections have changed.
    fn replace_tls_hosts(
        &mut self,
        id: &ListenerId,
        gateway: &ParsedGateway,
        (built, has_other_names): (BTreeMap<Host, Option<VirtualHostRoutes>>, bool),
        settings: &Settings,
        update: &mut Update,
    ) {
        let listeners: BTreeMap<&Host, &ParsedListener> = gateway.on(id).map(|one| (&one.host, one)).collect();
        // A host that no listener accepts is answered 404, a host of another listener 421. With many listeners, every other
        // host is answered 421: the lists of all other hosts would grow with the square of their number.
        let serves_all = listeners.contains_key(&Host::Any);
        let are_listed = listeners.len() <= LISTED;
        let none = BTreeMap::new();
        let before = self.model.tls(id.as_str()).map_or(&none, |tls| &tls.hosts);
        let of_https = listeners.values().filter(|one| matches!(one.protocol, Some(ListenerProtocol::Https(_))));
        let same_names = !has_other_names && before.keys().eq(of_https.map(|one| &one.host));
        let is_affected = |name: &Host, listener: Option<&ParsedListener>| {
            let unchanged = before.get(name).zip(listener).filter(|(old, listener)| {
                matches!(&listener.protocol, Some(ListenerProtocol::Https(pairs)) if *pairs == old.secrets)
                    && old.clients == listener.clients
                    && old.origins.iter().eq([&listener.origin])
            });
            !same_names || unchanged.is_none() || built.keys().any(|host| covers(name, host))
        };
        let names: BTreeSet<&Host> = before.keys().chain(listeners.keys().copied()).collect();
        let mut updates = Vec::new();
        for name in names {
            let listener = listeners.get(name).copied();
            if !is_affected(name, listener) {
                continue;
            }
            let now = listener.and_then(|listener| {
                let Some(ListenerProtocol::Https(pairs)) = &listener.protocol else { return None };
                let is_behind = |host: &Host| covers(name, host) && gateway.owns(listener, host);
                let old = before.get(name).into_iter().flat_map(|tls| tls.virtual_hosts.iter());
                let kept = old.filter(|(host, _)| !built.contains_key(*host));
                let new = built.iter().filter_map(|(host, content)| Some((host, content.as_ref()?)));
                let hosts = kept.chain(new.filter(|(host, _)| is_behind(host)));
                let others = listeners.keys().copied().filter(|other| *other != name && are_listed);
                Some(TlsHost {
                    secrets: pairs.clone(),
                    minimum: settings.tls.parameters.minimum,
                    maximum: settings.tls.parameters.maximum,
                    clients: listener.clients.clone(),
                    virtual_hosts: hosts.map(|(host, content)| (host.clone(), content.clone())).collect(),
                    others: match (serves_all || !are_listed) && *name != Host::Any {
                        true => Others::Misdirected,
                        false => Others::NotFound,
                    },
                    misdirected: others.filter(|other| !covers(name, other)).cloned().collect(),
                    is_without_server_name: false,
                    origins: vec![listener.origin.clone()],
                })
            });
            updates.push((name.clone(), now));
        }
        for (name, now) in updates {
            self.replace_tls(id.as_str(), &name, now, &mut update.touched);
        }
    }

    /// Replaces the problems of a host.
    pub(super) fn replace_problems(&mut self, place: (ListenerId, Host), now: Vec<Arc<Problem>>) {
        let before = self.gateways.problems.remove(&place).unwrap_or_default();
        self.replace_conflicts(ConflictPlace::Host(place.0.clone(), place.1.clone()), &before, &now);
        if !now.is_empty() {
            self.gateways.problems.insert(place, now);
        }
    }
}
