//! The changed parts of a model. The builder rebuilds only the resources of these parts.

use std::collections::{BTreeMap, BTreeSet};

use super::{ClusterId, Host, ListenerId, Model, SecretId, ServicePortId, Traffic};

/// The entries of a [`Model`] that may have been added, changed, or removed since the previous update. All other
/// entries are unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Touched {
    /// Listeners with changes other than changes of their hosts.
    pub listeners: BTreeSet<ListenerId>,
    /// Hosts of listeners.
    pub hosts: BTreeMap<ListenerId, BTreeSet<Host>>,
    /// Entries of [`Model::clusters`].
    pub clusters: BTreeSet<ClusterId>,
    /// Entries of [`Model::endpoints`].
    pub endpoints: BTreeSet<ServicePortId>,
    /// Entries of [`Model::secrets`].
    pub secrets: BTreeSet<SecretId>,
    /// Whether [`Model::stats_tls`] may have changed.
    pub stats_tls: bool,
}

impl Touched {
    /// Returns all entries of `model`.
    pub fn all(model: &Model) -> Self {
        let mut touched = Self {
            listeners: model.listeners.keys().cloned().collect(),
            hosts: BTreeMap::new(),
            clusters: model.clusters.keys().cloned().collect(),
            endpoints: model.endpoints.keys().cloned().collect(),
            secrets: model.secrets.keys().cloned().collect(),
            stats_tls: true,
        };
        for (id, listener) in &model.listeners {
            let hosts: BTreeSet<Host> = match &listener.traffic {
                Traffic::Http(plain) => plain.hosts.keys().cloned().collect(),
                Traffic::Https(tls) => tls.server_names().cloned().collect(),
                Traffic::Tls(_) | Traffic::Tcp(_) | Traffic::Udp(_) => continue,
            };
            touched.hosts.insert(id.clone(), hosts);
        }
        touched
    }

    /// Returns whether nothing is touched.
    pub fn is_empty(&self) -> bool {
        let Self { listeners, hosts, clusters, endpoints, secrets, stats_tls } = self;
        let listeners = listeners.is_empty() && hosts.values().all(BTreeSet::is_empty);
        listeners && clusters.is_empty() && endpoints.is_empty() && secrets.is_empty() && !stats_tls
    }

    /// Adds the entries that `other` touches.
    pub fn extend(&mut self, other: Self) {
        let Self { listeners, hosts, clusters, endpoints, secrets, stats_tls } = other;
        self.listeners.extend(listeners);
        for (listener, hosts) in hosts {
            self.hosts.entry(listener).or_default().extend(hosts);
        }
        self.clusters.extend(clusters);
        self.endpoints.extend(endpoints);
        self.secrets.extend(secrets);
        self.stats_tls |= stats_tls;
    }

    /// Adds a host of a listener.
    pub fn insert_host(&mut self, listener: &str, host: Host) {
        match self.hosts.get_mut(listener) {
            Some(hosts) => drop(hosts.insert(host)),
            None => drop(self.hosts.insert(ListenerId::new(listener), BTreeSet::from([host]))),
        }
    }

    /// Returns the hosts of a listener.
    pub fn hosts_of(&self, listener: &str) -> &BTreeSet<Host> {
        static NONE: BTreeSet<Host> = BTreeSet::new();
        self.hosts.get(listener).unwrap_or(&NONE)
    }

    /// Returns whether a host or a listener is touched, so that routes may lead elsewhere.
    pub fn has_routes(&self) -> bool {
        !self.listeners.is_empty() || self.hosts.values().any(|hosts| !hosts.is_empty())
    }

    /// Returns whether a listener for plain HTTP in `model`, or a removed one, is touched.
    pub fn has_plain_routes(&self, model: &Model) -> bool {
        let hosts = self.hosts.iter().filter(|(_, hosts)| !hosts.is_empty()).map(|(id, _)| id);
        let is_plain = |id: &ListenerId| {
            model.listeners.get(id.as_str()).is_none_or(|listener| matches!(listener.traffic, Traffic::Http(_)))
        };
        hosts.chain(&self.listeners).any(is_plain)
    }
}
