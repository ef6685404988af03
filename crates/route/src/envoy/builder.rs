//! Keeps the resources of a changing model up to date. Only affected resources are rebuilt.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_xds::snapshot::{Key, Resource, ResourceType, Update};

use super::chains::Chains;
use super::hcm::RouteFilters;
use super::route::{self, Scopes, VirtualHosts};
use super::statistics::Statistics;
use super::tls_listener::TlsListener;
use super::{cluster, endpoint, listener, runtime, secret, services, stats, stream};
use crate::model::{
    ClusterId, Host, Listener, ListenerId, Model, PlainHosts, RouteDiscovery, ServicePortId, Touched, Traffic,
};
use crate::parallel;
use crate::settings::Settings;

/// A change of the model or of the settings.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    /// The model after the change.
    pub model: &'a Model,
    /// The entries of the model that may have changed.
    pub touched: &'a Touched,
    /// The settings after the change.
    pub settings: &'a Settings,
    /// Whether the settings may have changed, so that everything is built again.
    pub settings_changed: bool,
}

/// The required forms of the routes of listeners for plain HTTP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Forms {
    /// Each virtual host is a resource, for delta clients.
    pub vhds: bool,
    /// One route configuration contains all virtual hosts. Its cost depends on their number, not on the size of the
    /// change.
    pub rds: bool,
    /// Whether all listeners for plain HTTP have one route configuration, which is what readers of files expect.
    pub no_scopes: bool,
}

/// The resources to publish after a change. Some of them may be unchanged.
#[derive(Debug, Default)]
pub struct Built {
    /// Resources for all Envoys.
    pub shared: Update<Arc<Resource>>,
    /// Resources for Envoys with [`Forms::vhds`].
    pub vhds: Update<Arc<Resource>>,
    /// Resources for Envoys with [`Forms::rds`].
    pub rds: Update<Arc<Resource>>,
    /// Whether routes have changed because their objects got or lost statistics.
    pub statistics_moved: bool,
}

/// Builds the resources of a changing model. They depend only on the current model, not on its history.
#[derive(Debug, Default)]
pub struct Builder {
    listeners: BTreeMap<ListenerId, State>,
    /// The listeners outside the model, for probes and scrapers.
    operators: BTreeSet<Arc<str>>,
    statistics: Statistics,
    /// The clusters whose requests are divided among Service ports, with these ports.
    divided: BTreeMap<ClusterId, Vec<ServicePortId>>,
    /// The same clusters by port.
    divided_by_port: BTreeMap<ServicePortId, BTreeSet<ClusterId>>,
    started: bool,
}

/// The state of the routes of a listener.
#[derive(Debug)]
enum State {
    /// Plain HTTP, with a resource for each virtual host or one resource for all.
    Hosts(Hosts),
    /// Plain HTTP with a scope for each host.
    Scopes(Scopes),
    /// HTTP over TLS.
    Tls(Chains),
    /// Connections or datagrams without HTTP: only the listener itself.
    Streams,
}

/// The routes of a listener for plain HTTP, by virtual host.
#[derive(Debug)]
struct Hosts {
    listener: ListenerId,
    virtual_hosts: VirtualHosts,
    /// Whether the complete VHDS form has been returned.
    vhds_given: bool,
    /// Whether the RDS form that was last returned is current.
    rds_given: bool,
    started: bool,
}

impl Builder {
    /// Returns the resources to publish after a change.
    ///
    /// Only `wanted` forms are built. A newly enabled form is built in full. The same applies to [`Forms::rds`] after
    /// it was disabled for a while.
    pub fn update(&mut self, change: Change<'_>, wanted: Forms) -> Built {
        let Change { model, touched, settings, settings_changed } = change;
        let everything = settings_changed || !self.started;
        let mut all = Touched::default();
        if everything {
            all = Touched::all(model);
            all.extend(touched.clone());
        }
        if everything {
            self.statistics = Statistics::default();
        }
        let moved = self.statistics.update(model, if everything { &all } else { touched }, settings);
        let statistics_moved = !moved.is_empty();
        if statistics_moved && !everything {
            all.extend(touched.clone());
            moved.into_iter().for_each(|(listener, host)| all.insert_host(listener.as_str(), host));
        }
        let touched = if everything || statistics_moved { &all } else { touched };
        self.started = true;

        let mut built = Built { statistics_moved, ..Built::default() };
        parts(model, touched, settings, &mut built.shared);
        self.update_divided(model, touched, &mut built.shared);
        if everything {
            for (name, cluster) in services::clusters(settings) {
                match cluster {
                    Some(cluster) => built.shared.set.push(Arc::new(cluster)),
                    None => built.shared.remove.push((ResourceType::CLUSTER, name.into())),
                }
            }
        }
        if everything || !touched.listeners.is_empty() {
            built.shared.set.push(Arc::new(runtime::resource(model, settings)));
        }
        self.remove_listeners(model, wanted, &mut built);
        for (id, listener) in &model.listeners {
            let first = !self.listeners.contains_key(id);
            let state = self.listeners.entry(id.clone()).or_insert_with(|| State::new(id, &listener.traffic, wanted));
            let filters = RouteFilters { policies: true, installation: model.installation, ..RouteFilters::default() };
            let everything = everything || first;
            let listener_changed = everything || touched.listeners.contains(id.as_str());
            let statistics = &self.statistics;
            let change =
                ListenerChange { touched, filters, settings, statistics, everything, listener_changed, wanted };
            state.update(id, model, &change, &mut built);
        }
        if everything || touched.stats_tls {
            self.update_operators(model, settings, &mut built.shared);
        }
        built
    }

    /// Updates the endpoints of clusters whose requests are divided among Service ports.
    fn update_divided(&mut self, model: &Model, touched: &Touched, update: &mut Update<Arc<Resource>>) {
        let shares = |id: &ClusterId| model.clusters.get(id).map(|cluster| cluster.policy.shares()).unwrap_or_default();
        let mut due = BTreeSet::new();
        for id in &touched.clusters {
            let before = self.divided.remove(id);
            for port in before.iter().flatten() {
                if let Some(clusters) = self.divided_by_port.get_mut(port) {
                    clusters.remove(id);
                    if clusters.is_empty() {
                        self.divided_by_port.remove(port);
                    }
                }
            }
            let ports: Vec<ServicePortId> = shares(id).iter().map(|(port, _)| port.clone()).collect();
            if !ports.is_empty() {
                for port in &ports {
                    self.divided_by_port.entry(port.clone()).or_default().insert(id.clone());
                }
                self.divided.insert(id.clone(), ports);
                due.insert(id.clone());
            } else if before.is_some() {
                update.remove.push((ResourceType::ENDPOINTS, id.to_string().into()));
            }
        }
        due.extend(touched.endpoints.iter().filter_map(|port| self.divided_by_port.get(port)).flatten().cloned());
        for id in &due {
            update.set.push(Arc::new(endpoint::divided(id, shares(id), &model.endpoints)));
        }
    }

    /// Returns the statistics of objects.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Removes the listeners that no longer exist or that have changed their form.
    fn remove_listeners(&mut self, model: &Model, wanted: Forms, built: &mut Built) {
        let stays = |id: &ListenerId, state: &State| {
            model.listeners.get(id.as_str()).is_some_and(|listener| state.is_for(&listener.traffic, wanted))
        };
        let gone = self.listeners.iter().filter(|(id, state)| !stays(id, state)).map(|(id, _)| id.clone());
        for id in gone.collect::<Vec<_>>() {
            if let Some(state) = self.listeners.remove(id.as_str()) {
                state.remove(&id, model, built);
            }
        }
    }

    /// Updates the listeners for probes and scrapers.
    fn update_operators(&mut self, model: &Model, settings: &Settings, update: &mut Update<Arc<Resource>>) {
        let listeners = stats::listeners(model, settings);
        let now: BTreeSet<Arc<str>> = listeners.iter().map(|listener| listener.name().clone()).collect();
        let gone = self.operators.difference(&now).map(|name| (ResourceType::LISTENER, name.clone()));
        update.remove.extend(gone);
        update.set.extend(listeners.into_iter().map(Arc::new));
        self.operators = now;
    }
}

impl State {
    fn new(id: &ListenerId, traffic: &Traffic, wanted: Forms) -> Self {
        match traffic {
            Traffic::Http(plain) if plain.discovery == RouteDiscovery::Scopes && !wanted.no_scopes => {
                Self::Scopes(Scopes::new(id))
            }
            Traffic::Http(_) => Self::Hosts(Hosts::new(id)),
            Traffic::Https(_) => Self::Tls(Chains::default()),
            Traffic::Tls(_) | Traffic::Tcp(_) | Traffic::Udp(_) => Self::Streams,
        }
    }

    /// Returns whether this is the state of a listener with such traffic.
    fn is_for(&self, traffic: &Traffic, wanted: Forms) -> bool {
        match (self, traffic) {
            (Self::Hosts(_) | Self::Scopes(_), Traffic::Http(plain)) => {
                let scopes = plain.discovery == RouteDiscovery::Scopes && !wanted.no_scopes;
                scopes == matches!(self, Self::Scopes(_))
            }
            (Self::Tls(_), Traffic::Https(_)) => true,
            (Self::Streams, Traffic::Tls(_) | Traffic::Tcp(_) | Traffic::Udp(_)) => true,
            _ => false,
        }
    }

    /// Removes the resources of the listener. The listener resource itself stays if a listener of the model replaces
    /// it.
    fn remove(self, id: &ListenerId, model: &Model, built: &mut Built) {
        let listener: Key = (ResourceType::LISTENER, id.name().clone());
        let is_gone = !model.listeners.contains_key(id.as_str());
        built.shared.remove.extend(Some(listener.clone()).filter(|_| is_gone));
        match self {
            Self::Hosts(hosts) => {
                let routes: Key = (ResourceType::ROUTES, id.name().clone());
                built.vhds.remove.extend(hosts.virtual_hosts.removal().chain([routes.clone()]));
                built.rds.remove.push(routes);
            }
            Self::Scopes(scopes) => built.shared.remove.extend(scopes.removal()),
            Self::Tls(chains) => {
                built.shared.remove.extend(chains.removal(id).filter(|key| is_gone || *key != listener));
            }
            Self::Streams => {}
        }
    }

    /// Adds the changes of the listener `id` to `built`.
    fn update(&mut self, id: &ListenerId, model: &Model, change: &ListenerChange, built: &mut Built) {
        let ListenerChange { touched, filters, settings, statistics, everything, listener_changed, .. } = *change;
        let Some(Listener { bind, traffic }) = model.listeners.get(id.as_str()) else { return };
        let plain_listener = |discovery| {
            let message = listener::http(id, bind, discovery, filters, settings);
            Arc::new(Resource::new(id.as_str(), &message, vec![]))
        };
        match (self, traffic) {
            (Self::Hosts(hosts), Traffic::Http(plain)) => {
                built.shared.set.extend(listener_changed.then(|| plain_listener(RouteDiscovery::ByHost)));
                hosts.update(plain, change, built);
            }
            (Self::Scopes(scopes), Traffic::Http(plain)) => {
                built.shared.set.extend(listener_changed.then(|| plain_listener(RouteDiscovery::Scopes)));
                let hosts = touched.hosts_of(id.as_str());
                let plain = route::ScopedHosts { content: &plain.hosts, https: TlsListener::beside(model, id) };
                let changed = scopes.update(plain, hosts, filters, settings, statistics, everything);
                built.shared.set.extend(changed.set);
                built.shared.remove.extend(changed.remove);
            }
            (Self::Tls(chains), Traffic::Https(_)) => {
                let Some(listener) = TlsListener::of(model, id.as_str()) else { return };
                let everything = everything || touched.listeners.contains(id.as_str());
                let changed = chains.update(listener, touched, filters, settings, statistics, everything);
                built.shared.set.extend(changed.set);
                built.shared.remove.extend(changed.remove);
            }
            (Self::Streams, traffic) if listener_changed => {
                built.shared.set.extend(stream::listener(id, bind, traffic, settings).map(Arc::new));
            }
            _ => {}
        }
    }
}

/// A change of the model, as one listener sees it.
#[derive(Clone, Copy)]
struct ListenerChange<'a> {
    touched: &'a Touched,
    /// The HTTP filters of the listener.
    filters: RouteFilters,
    settings: &'a Settings,
    statistics: &'a Statistics,
    /// Whether all resources are rebuilt.
    everything: bool,
    /// Whether the listener resource is rebuilt.
    listener_changed: bool,
    wanted: Forms,
}

impl Hosts {
    fn new(listener: &ListenerId) -> Self {
        let virtual_hosts = VirtualHosts::new(listener);
        Self { listener: listener.clone(), virtual_hosts, vhds_given: false, rds_given: false, started: false }
    }

    fn update(&mut self, plain: &PlainHosts, change: &ListenerChange, built: &mut Built) {
        let ListenerChange { touched, settings, statistics, everything, wanted, .. } = *change;
        let first = !std::mem::replace(&mut self.started, true);
        let hosts = touched.hosts_of(self.listener.as_str());
        let default = (first || everything).then_some(&Host::Any);
        let changed = self.virtual_hosts.update(&plain.hosts, hosts.iter().chain(default), settings, statistics);
        self.rds_given &= !everything && changed.set.is_empty() && changed.remove.is_empty();
        if wanted.vhds {
            if everything || !self.vhds_given {
                built.vhds.set.push(Arc::new(route::http_routes_by_host(&self.listener, settings)));
            }
            if self.vhds_given {
                built.vhds.set.extend(changed.set);
                built.vhds.remove.extend(changed.remove);
            } else {
                built.vhds.set.extend(self.virtual_hosts.all().cloned());
            }
        }
        self.vhds_given = wanted.vhds;
        if wanted.rds && !self.rds_given {
            built.rds.set.push(Arc::new(route::http_routes_of(&self.listener, self.virtual_hosts.all(), settings)));
            self.rds_given = true;
        }
    }
}

/// Builds the resources that represent a single entry of the model: clusters, endpoints, and secrets.
fn parts(model: &Model, touched: &Touched, settings: &Settings, update: &mut Update<Arc<Resource>>) {
    let clusters: Vec<_> = touched.clusters.iter().collect();
    let made = parallel::map(&clusters, |id| {
        model.clusters.get(id).map(|cluster| Arc::new(cluster::resource(id, cluster, settings)))
    });
    take(update, made, ResourceType::CLUSTER, &clusters);
    let endpoints: Vec<_> = touched.endpoints.iter().collect();
    let made = parallel::map(&endpoints, |port| {
        model.endpoints.get(port).map(|endpoints| Arc::new(endpoint::load_assignment(port, endpoints)))
    });
    take(update, made, ResourceType::ENDPOINTS, &endpoints);
    let secrets: Vec<_> = touched.secrets.iter().collect();
    let made = parallel::map(&secrets, |id| model.secrets.get(id).map(|secret| Arc::new(secret::resource(id, secret))));
    take(update, made, ResourceType::SECRET, &secrets);
}

/// Adds the resources in `made` for these `ids` to the update, and removes resources that no longer exist.
fn take(
    update: &mut Update<Arc<Resource>>,
    made: Vec<Option<Arc<Resource>>>,
    kind: ResourceType,
    ids: &[&impl std::fmt::Display],
) {
    for (resource, id) in made.into_iter().zip(ids) {
        match resource {
            Some(resource) => update.set.push(resource),
            None => update.remove.push((kind, id.to_string().into())),
        }
    }
}

#[cfg(test)]
mod tests;
