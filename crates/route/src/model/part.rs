//! The part of a model that some of its listeners need, updated incrementally.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{
    Cluster, ClusterId, Discovery, Host, ListenerId, Model, Route, SecretId, ServicePortId, TlsConnections, TlsHost,
    Touched, Traffic,
};

/// The model of some listeners, with only the clusters, endpoints, and secrets that these listeners need.
///
/// The update costs as much as the change. A listener for HTTP over TLS belongs together with its listener for plain HTTP.
#[derive(Debug, Default)]
pub struct Part {
    model: Model,
    /// The number of routes and destinations that use each cluster.
    clusters: Uses<ClusterId>,
    /// The number of clusters that reach the endpoints of each port.
    ports: Uses<ServicePortId>,
    /// The number of hosts, listeners, and clusters that need each secret.
    secrets: Uses<SecretId>,
}

impl Part {
    /// Returns the model of the part.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Updates the part to the listeners of `all` for which `is_in` is true. `touched` are the changed entries of `all`;
    /// `moved` are the listeners that may have joined or left the part. Returns the touched entries of the part.
    pub fn update(
        &mut self,
        all: &Model,
        touched: &Touched,
        moved: &BTreeSet<ListenerId>,
        is_in: impl Fn(&ListenerId) -> bool,
    ) -> Touched {
        let mut out = Touched { stats_tls: touched.stats_tls, ..Touched::default() };
        self.model.installation = all.installation;
        for id in touched.listeners.union(moved) {
            self.replace_listener(id, all, is_in(id), &mut out);
        }
        for (id, hosts) in &touched.hosts {
            let known = self.model.listeners.contains_key(id.as_str());
            for host in hosts.iter().filter(|_| known) {
                self.replace_host(id, host, all);
                out.insert_host(id.as_str(), host.clone());
            }
        }
        if touched.stats_tls {
            let stats = |model: &Model| model.stats_tls.clone();
            for secret in stats(all).iter().flat_map(|stats| stats.clients.iter().chain([&stats.secret])) {
                self.secrets.add(secret);
            }
            for secret in stats(&self.model).iter().flat_map(|stats| stats.clients.iter().chain([&stats.secret])) {
                self.secrets.remove(secret);
            }
            self.model.stats_tls = stats(all);
        }
        for id in changed(&mut self.clusters, &touched.clusters, &self.model.clusters) {
            let now = all.clusters.get(&id).filter(|_| self.clusters.contains(&id)).cloned();
            let before = self.model.clusters.get(&id).cloned();
            now.iter().for_each(|cluster| self.use_cluster(&id, cluster, true));
            before.iter().for_each(|cluster| self.use_cluster(&id, cluster, false));
            set(&mut self.model.clusters, &id, now);
            out.clusters.insert(id);
        }
        for id in changed(&mut self.ports, &touched.endpoints, &self.model.endpoints) {
            let now = all.endpoints.get(&id).filter(|_| self.ports.contains(&id)).cloned();
            set(&mut self.model.endpoints, &id, now);
            out.endpoints.insert(id);
        }
        for id in changed(&mut self.secrets, &touched.secrets, &self.model.secrets) {
            let now = all.secrets.get(&id).filter(|_| self.secrets.contains(&id)).cloned();
            set(&mut self.model.secrets, &id, now);
            out.secrets.insert(id);
        }
        out
    }

    /// Returns the entries of `all` that are not in the part.
    pub fn rest(&self, all: &Model) -> Touched {
        let mut rest = Touched {
            listeners: beyond(&all.listeners, &self.model.listeners),
            clusters: beyond(&all.clusters, &self.model.clusters),
            endpoints: beyond(&all.endpoints, &self.model.endpoints),
            secrets: beyond(&all.secrets, &self.model.secrets),
            ..Touched::default()
        };
        for id in rest.listeners.clone() {
            let hosts = all.listeners.get(id.as_str()).into_iter().flat_map(|listener| listener.traffic.hosts());
            hosts.for_each(|host| rest.insert_host(id.as_str(), host.clone()));
        }
        rest
    }

    /// Replaces a whole listener.
    fn replace_listener(&mut self, id: &ListenerId, all: &Model, is_in: bool, out: &mut Touched) {
        let now = all.listeners.get(id.as_str()).filter(|_| is_in);
        let before = self.model.listeners.remove(id.as_str());
        for traffic in now.iter().map(|listener| &listener.traffic) {
            traffic.clusters().for_each(|cluster| self.clusters.add(cluster));
            traffic.secrets().for_each(|secret| self.secrets.add(secret));
        }
        for traffic in before.iter().map(|listener| &listener.traffic) {
            traffic.clusters().for_each(|cluster| self.clusters.remove(cluster));
            traffic.secrets().for_each(|secret| self.secrets.remove(secret));
        }
        if before.is_none() && now.is_none() {
            return;
        }
        out.listeners.insert(id.clone());
        // The builder builds all hosts of a new listener, and removes all hosts of a removed listener.
        if before.is_none() != now.is_none() {
            for traffic in before.iter().chain(now).map(|listener| &listener.traffic) {
                traffic.hosts().for_each(|host| out.insert_host(id.as_str(), host.clone()));
            }
        }
        if let Some(now) = now {
            self.model.listeners.insert(id.clone(), now.clone());
        }
    }

    /// Replaces a host of a listener for HTTP.
    fn replace_host(&mut self, id: &ListenerId, host: &Host, all: &Model) {
        let id = id.as_str();
        if let Some(of_all) = all.plain(id) {
            let now = of_all.hosts.get(host).cloned();
            let Some(plain) = self.model.plain_mut(id) else { return };
            let before = plain.hosts.remove(host);
            plain.hosts.extend(now.iter().map(|now| (host.clone(), now.clone())));
            now.iter().for_each(|one| add(&one.routes, &mut self.clusters, &mut self.secrets));
            before.iter().for_each(|one| remove(&one.routes, &mut self.clusters, &mut self.secrets));
        }
        if let Some(of_all) = all.tls(id) {
            let now = of_all.hosts.get(host).cloned();
            let Some(tls) = self.model.tls_mut(id) else { return };
            match of_all.refused.contains(host) {
                true => drop(tls.refused.insert(host.clone())),
                false => drop(tls.refused.remove(host)),
            }
            let before = tls.hosts.remove(host);
            tls.hosts.extend(now.iter().map(|now| (host.clone(), now.clone())));
            for one in now.iter() {
                let served = one.virtual_hosts.values();
                served.for_each(|one| add(&one.routes, &mut self.clusters, &mut self.secrets));
                one.all_secrets().for_each(|secret| self.secrets.add(secret));
            }
            for one in before.iter() {
                let served = one.virtual_hosts.values();
                served.for_each(|one| remove(&one.routes, &mut self.clusters, &mut self.secrets));
                one.all_secrets().for_each(|secret| self.secrets.remove(secret));
            }
            let before = tls.connections.remove(host);
            let now = of_all.connections.get(host).cloned();
            tls.connections.extend(now.iter().map(|now| (host.clone(), now.clone())));
            for one in now.iter() {
                one.clusters().for_each(|cluster| self.clusters.add(cluster));
                one.secrets().for_each(|secret| self.secrets.add(secret));
            }
            for one in before.iter() {
                one.clusters().for_each(|cluster| self.clusters.remove(cluster));
                one.secrets().for_each(|secret| self.secrets.remove(secret));
            }
        }
    }

    /// Adds or removes the entries that a cluster needs.
    fn use_cluster(&mut self, id: &ClusterId, cluster: &Cluster, is_added: bool) {
        let port = Some(&id.port).filter(|_| cluster.discovery == Discovery::Eds);
        match is_added {
            true => {
                port.into_iter().for_each(|port| self.ports.add(port));
                cluster.policy.secrets().for_each(|secret| self.secrets.add(secret));
            }
            false => {
                port.into_iter().for_each(|port| self.ports.remove(port));
                cluster.policy.secrets().for_each(|secret| self.secrets.remove(secret));
            }
        }
    }
}

/// The number of users of each entry.
#[derive(Debug)]
struct Uses<K> {
    counts: BTreeMap<K, usize>,
    /// The entries that gained their first user or lost their last user.
    changed: BTreeSet<K>,
}

impl<K> Default for Uses<K> {
    fn default() -> Self {
        Self { counts: BTreeMap::new(), changed: BTreeSet::new() }
    }
}

impl<K: Ord + Clone> Uses<K> {
    fn add(&mut self, key: &K) {
        match self.counts.get_mut(key) {
            Some(count) => *count += 1,
            None => {
                self.counts.insert(key.clone(), 1);
                self.changed.insert(key.clone());
            }
        }
    }

    fn remove(&mut self, key: &K) {
        match self.counts.get_mut(key) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                self.counts.remove(key);
                self.changed.insert(key.clone());
            }
        }
    }

    fn contains(&self, key: &K) -> bool {
        self.counts.contains_key(key)
    }
}

/// Returns the entries that joined or left the part, and the touched entries in the part.
fn changed<K: Ord + Clone, V>(uses: &mut Uses<K>, touched: &BTreeSet<K>, there: &BTreeMap<K, V>) -> BTreeSet<K> {
    let mut changed = std::mem::take(&mut uses.changed);
    changed.retain(|key| uses.contains(key) != there.contains_key(key));
    changed.extend(touched.iter().filter(|key| uses.contains(key) || there.contains_key(*key)).cloned());
    changed
}

/// Returns the keys of `all` that are not in `part`.
fn beyond<K: Ord + Clone, V>(all: &BTreeMap<K, V>, part: &BTreeMap<K, V>) -> BTreeSet<K> {
    all.keys().filter(|key| !part.contains_key(*key)).cloned().collect()
}

/// Sets or removes an entry.
fn set<K: Ord + Clone, V>(map: &mut BTreeMap<K, V>, key: &K, value: Option<V>) {
    match value {
        Some(value) => drop(map.insert(key.clone(), value)),
        None => drop(map.remove(key)),
    }
}

/// Adds the clusters and secrets that routes need.
fn add(routes: &[Arc<Route>], clusters: &mut Uses<ClusterId>, secrets: &mut Uses<SecretId>) {
    routes.iter().flat_map(|route| route.clusters()).for_each(|cluster| clusters.add(cluster));
    routes.iter().flat_map(|route| route.secrets()).for_each(|secret| secrets.add(secret));
}

/// Removes the clusters and secrets that routes need.
fn remove(routes: &[Arc<Route>], clusters: &mut Uses<ClusterId>, secrets: &mut Uses<SecretId>) {
    routes.iter().flat_map(|route| route.clusters()).for_each(|cluster| clusters.remove(cluster));
    routes.iter().flat_map(|route| route.secrets()).for_each(|secret| secrets.remove(secret));
}

impl Traffic {
    /// Returns the routes of requests.
    fn routes(&self) -> impl Iterator<Item = &Route> {
        let mut routes: Vec<&Route> = Vec::new();
        match self {
            Self::Http(plain) => {
                routes.extend(plain.hosts.values().flat_map(|host| &host.routes).map(|route| &**route))
            }
            Self::Https(tls) => {
                let hosts = tls.hosts.values().flat_map(|tls| tls.virtual_hosts.values());
                routes.extend(hosts.flat_map(|host| &host.routes).map(|route| &**route));
            }
            Self::Tls(_) | Self::Tcp(_) | Self::Udp(_) => {}
        }
        routes.into_iter()
    }

    /// Returns the clusters that requests and connections are sent to, with repetitions.
    pub fn clusters(&self) -> impl Iterator<Item = &ClusterId> {
        let mut direct: Vec<&ClusterId> = Vec::new();
        match self {
            Self::Http(_) => {}
            Self::Https(tls) => direct.extend(tls.connections.values().flat_map(TlsConnections::clusters)),
            Self::Tls(hosts) => direct.extend(hosts.values().flat_map(TlsConnections::clusters)),
            Self::Tcp(to) | Self::Udp(to) => direct.extend(to.clusters.iter().map(|one| &one.cluster)),
        }
        direct.into_iter().chain(self.routes().flat_map(|route| route.clusters()))
    }

    /// Returns the key pairs that are presented to clients, the authorities that validate clients, and the secrets of routes, with
    /// repetitions.
    fn secrets(&self) -> impl Iterator<Item = &SecretId> {
        let mut secrets: Vec<&SecretId> = self.routes().flat_map(|route| route.secrets()).collect();
        match self {
            Self::Https(tls) => {
                secrets.extend(tls.hosts.values().flat_map(TlsHost::all_secrets));
                secrets.extend(tls.connections.values().flat_map(TlsConnections::secrets));
            }
            Self::Tls(hosts) => secrets.extend(hosts.values().flat_map(TlsConnections::secrets)),
            Self::Http(_) | Self::Tcp(_) | Self::Udp(_) => {}
        }
        secrets.into_iter()
    }

    /// Returns the hosts of a listener for HTTP.
    fn hosts(&self) -> impl Iterator<Item = &Host> {
        let mut hosts: Vec<&Host> = Vec::new();
        match self {
            Self::Http(plain) => hosts.extend(plain.hosts.keys()),
            Self::Https(tls) => hosts.extend(tls.server_names()),
            Self::Tls(_) | Self::Tcp(_) | Self::Udp(_) => {}
        }
        hosts.into_iter()
    }
}

#[cfg(test)]
mod tests;
