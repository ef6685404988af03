//! The virtual hosts of Gateways' listeners for HTTP.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Translator, Update};
use crate::model::{Host, ListenerId, Others, TlsHost, Traffic, VirtualHost};
use crate::settings::Settings;
use crate::translate::gateway::hostname::covers;
use crate::translate::gateway::listener::{Gateway, Protocol};
use crate::translate::gateway::parser::Attached;
use crate::translate::gateway::virtual_host::{not_found, virtual_host};
use crate::translate::problem::Problem;
use crate::translate::translator::set;

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
        let mut built = BTreeMap::new();
        for place in places {
            let host = gateway.as_ref().and_then(|gateway| self.virtual_host(gateway, &place, settings));
            let (host, problems) = host.map_or_else(Default::default, |(host, problems)| (Some(host), problems));
            built.insert(place.1.clone(), host);
            self.replace_problems(place, problems);
        }
        let Some(gateway) = gateway else { return };
        if self.model.tls(id.as_str()).is_some() {
            return self.replace_tls_hosts(id, &gateway, built, settings, update);
        }
        for (host, now) in built {
            let is_pattern = || gateway.on(id).any(|one| one.host == host);
            let now = now.or_else(|| is_pattern().then(|| not_found(&gateway.origin)));
            self.replace_host(id, &host, now, update);
        }
    }

    /// Returns the virtual host of a place, if it has routes.
    fn virtual_host(
        &self,
        gateway: &Gateway,
        place: &(ListenerId, Host),
        settings: &Settings,
    ) -> Option<(VirtualHost, Vec<Arc<Problem>>)> {
        let ranks = self.gateways.hosts.get(place)?.iter();
        let routes: Vec<&Attached> =
            ranks.filter_map(|rank| self.gateways.routes.get(&rank.id()).map(|route| &**route)).collect();
        let port = gateway.on(&place.0).next()?.port;
        Some(virtual_host(&routes, &gateway.origin, port, &settings.regexes))
    }

    /// Replaces hosts of an Envoy listener for HTTP over TLS. Each host is behind the most specific server name that covers
    /// it.
    fn replace_tls_hosts(
        &mut self,
        id: &ListenerId,
        gateway: &Gateway,
        built: BTreeMap<Host, Option<VirtualHost>>,
        settings: &Settings,
        update: &mut Update,
    ) {
        let before = self.model.tls(id.as_str()).map(|tls| tls.hosts.clone()).unwrap_or_default();
        // A host that no listener accepts is answered 404, a host of another listener 421.
        let serves_all = gateway.on(id).any(|listener| listener.host == Host::Any);
        let mut names: BTreeSet<&Host> = before.keys().collect();
        names.extend(gateway.on(id).map(|listener| &listener.host));
        for name in names {
            let listener = gateway.on(id).find(|listener| listener.host == *name);
            let now = listener.and_then(|listener| {
                let Some(Protocol::Https(pairs)) = &listener.protocol else { return None };
                let is_behind = |host: &Host| covers(name, host) && gateway.owns(listener, host);
                let old = before.get(name).into_iter().flat_map(|tls| tls.virtual_hosts.iter());
                let kept = old.filter(|(host, _)| !built.contains_key(*host));
                let new = built.iter().filter_map(|(host, content)| Some((host, content.as_ref()?)));
                let hosts = kept.chain(new.filter(|(host, _)| is_behind(host)));
                let others = gateway.on(id).map(|other| &other.host).filter(|other| *other != name);
                Some(TlsHost {
                    secrets: pairs.clone(),
                    minimum: settings.tls.parameters.minimum,
                    maximum: settings.tls.parameters.maximum,
                    virtual_hosts: hosts.map(|(host, content)| (host.clone(), content.clone())).collect(),
                    others: if serves_all && *name != Host::Any { Others::Misdirected } else { Others::NotFound },
                    misdirected: others.filter(|other| !covers(name, other)).cloned().collect(),
                    origins: vec![gateway.origin.clone()],
                })
            });
            self.replace_tls(id.as_str(), name, now, &mut update.touched);
        }
    }

    /// Replaces a host of an Envoy listener for plain HTTP.
    pub(super) fn replace_host(
        &mut self,
        listener: &ListenerId,
        host: &Host,
        now: Option<VirtualHost>,
        update: &mut Update,
    ) {
        let before = self.model.plain(listener.as_str()).and_then(|plain| plain.hosts.get(host));
        if before == now.as_ref() {
            return;
        }
        let (old, new) = VirtualHost::differing(before, now.as_ref());
        self.clusters.lead(old, new);
        self.served.replace(old, new);
        if let Some(plain) = self.model.plain_mut(listener.as_str()) {
            set(&mut plain.hosts, host, now);
        }
        update.touched.insert_host(listener.as_str(), host.clone());
    }

    /// Replaces the problems of a host.
    pub(super) fn replace_problems(&mut self, place: (ListenerId, Host), now: Vec<Arc<Problem>>) {
        let before = self.gateways.problems.remove(&place).unwrap_or_default();
        self.ledger.replace(&before, &now);
        if !now.is_empty() {
            self.gateways.problems.insert(place, now);
        }
    }
}
