//! Keeps the resources of a model up to date: what a change touches is made again, and nothing else.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::route::{self, VirtualHosts};
use super::{cluster, endpoint, listener, names, runtime, secret, tracing};
use crate::model::{Host, Model, Touched};
use crate::settings::Settings;
use crate::snapshot::{Key, Resource, ResourceType, Update};

/// In which forms the routes of the plain-text listener are wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Forms {
    /// Each virtual host is a resource, for delta clients.
    pub vhds: bool,
    /// One route configuration has them all. To make it costs what there is, not what has changed.
    pub rds: bool,
}

/// What is to be published after a change. A resource may be in it that has not changed.
#[derive(Debug, Default)]
pub struct Built {
    /// Of all Envoys.
    pub shared: Update<Arc<Resource>>,
    /// Only of those with [`Forms::vhds`].
    pub vhds: Update<Arc<Resource>>,
    /// Only of those with [`Forms::rds`].
    pub rds: Update<Arc<Resource>>,
}

/// Makes the resources of a model that changes. What they are depends on the model alone, not on what it was before.
#[derive(Debug, Default)]
pub struct Builder {
    virtual_hosts: VirtualHosts,
    listeners: BTreeSet<Arc<str>>,
    /// Whether everything of the form by VHDS has been given out.
    vhds_given: bool,
    /// Whether what was given out of the form by RDS is what there is.
    rds_given: bool,
    started: bool,
}

impl Builder {
    /// What to publish after `touched` has changed in `model`, or, if `settings_changed`, anything may have.
    ///
    /// Forms that are not `wanted` are not made. One that was not and now is gets all that it has; so does, in effect,
    /// whoever left out [`Forms::rds`] for a while.
    pub fn update(
        &mut self,
        model: &Model,
        touched: &Touched,
        settings: &Settings,
        settings_changed: bool,
        wanted: Forms,
    ) -> Built {
        let everything = settings_changed || !self.started;
        let mut all = Touched::default();
        if everything {
            all = Touched::all(model);
            all.extend(touched.clone());
            all.http.extend(self.virtual_hosts.hosts().cloned());
        }
        let touched = if everything { &all } else { touched };
        self.started = true;

        let mut built = Built::default();
        parts(model, touched, settings, &mut built.shared);
        if everything {
            match tracing::cluster_resource(&settings.tracing) {
                Some(resource) => built.shared.set.push(Arc::new(resource)),
                None => built.shared.remove.push((ResourceType::CLUSTER, names::TRACING_CLUSTER.into())),
            }
            built.shared.set.push(Arc::new(runtime::resource(settings)));
        }
        self.https(model, touched, settings, everything, &mut built.shared);
        self.http(model, touched, settings, everything, wanted, &mut built);
        built
    }

    /// The routes of the plain-text listener.
    fn http(
        &mut self,
        model: &Model,
        touched: &Touched,
        settings: &Settings,
        everything: bool,
        wanted: Forms,
        built: &mut Built,
    ) {
        let changed = self.virtual_hosts.update(&model.http, &touched.http);
        self.rds_given &= !everything && changed.set.is_empty() && changed.remove.is_empty();
        if wanted.vhds {
            if everything || !self.vhds_given {
                built.vhds.set.push(Arc::new(route::http_routes_by_host(settings)));
            }
            if self.vhds_given {
                built.vhds.set.extend(changed.set);
                built.vhds.remove = changed.remove;
            } else {
                built.vhds.set.extend(self.virtual_hosts.all().cloned());
            }
        }
        self.vhds_given = wanted.vhds;
        if wanted.rds && !self.rds_given {
            built.rds.set.push(Arc::new(route::http_routes_of(self.virtual_hosts.all(), settings)));
            self.rds_given = true;
        }
    }

    /// Listeners, and the routes behind TLS.
    fn https(
        &mut self,
        model: &Model,
        touched: &Touched,
        settings: &Settings,
        everything: bool,
        update: &mut Update<Arc<Resource>>,
    ) {
        // A wildcard refuses the names under it that have a chain of their own.
        let above = |host: &Host| match host {
            Host::Exact(name) | Host::Wildcard(name) => {
                let suffixes = name.match_indices('.').map(|(dot, _)| Host::Wildcard(name[dot + 1..].into()));
                suffixes.filter(|host| model.https.contains_key(host)).collect()
            }
            Host::Any => vec![],
        };
        let hosts: BTreeSet<Host> =
            touched.https.iter().flat_map(|host| above(host).into_iter().chain([host.clone()])).collect();
        for host in &hosts {
            match model.https.get(host) {
                Some(tls) => {
                    let elsewhere = route::elsewhere(host, model);
                    update.set.push(Arc::new(route::https_routes(host, tls, &elsewhere, settings)));
                }
                None => update.remove.push((ResourceType::ROUTES, names::https_routes(host).into())),
            }
        }
        if !everything && hosts.is_empty() {
            return;
        }
        let listeners = listener::listeners(model, settings);
        let now: BTreeSet<Arc<str>> = listeners.iter().map(|listener| listener.name().clone()).collect();
        let gone = self.listeners.difference(&now).map(|name| (ResourceType::LISTENER, name.clone()));
        update.remove.extend(gone);
        update.set.extend(listeners.into_iter().map(Arc::new));
        self.listeners = now;
    }
}

/// What has one resource for each entry of the model.
fn parts(model: &Model, touched: &Touched, settings: &Settings, update: &mut Update<Arc<Resource>>) {
    let mut take = |resource: Option<Resource>, key: Key| match resource {
        Some(resource) => update.set.push(Arc::new(resource)),
        None => update.remove.push(key),
    };
    for name in &touched.clusters {
        let made = model.clusters.get(name).map(|cluster| cluster::resource(name, cluster, settings));
        take(made, (ResourceType::CLUSTER, name.0.clone()));
    }
    for name in &touched.endpoints {
        let made = model.endpoints.get(name).map(|endpoints| endpoint::load_assignment(name, endpoints));
        take(made, (ResourceType::ENDPOINTS, name.0.clone()));
    }
    for name in &touched.secrets {
        let made = model.secrets.get(name).map(|secret| secret::resource(name, secret));
        take(made, (ResourceType::SECRET, name.0.clone()));
    }
}

#[cfg(test)]
mod tests;
