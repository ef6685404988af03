//! Keeps the resources of a model up to date: what a change touches is made again, and nothing else.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockgate_xds::snapshot::{Key, Resource, ResourceType, Update};

use super::chains::Chains;
use super::route::{self, Buckets, VirtualHosts};
use super::{cluster, endpoint, listener, names, runtime, secret, services};
use crate::model::{Host, Model, Touched};
use crate::parallel;
use crate::settings::{Discovery, Settings};

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
    plain: Plain,
    chains: Chains,
    listeners: BTreeSet<Arc<str>>,
    started: bool,
}

/// The routes of the plain-text listener.
#[derive(Debug)]
enum Plain {
    /// By virtual hosts, in the forms that are wanted.
    Hosts(Hosts),
    /// In buckets, for everybody.
    Buckets(Buckets),
}

impl Default for Plain {
    fn default() -> Self {
        Self::Hosts(Hosts::default())
    }
}

#[derive(Debug, Default)]
struct Hosts {
    virtual_hosts: VirtualHosts,
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
        }
        let touched = if everything { &all } else { touched };
        self.started = true;

        let mut built = Built::default();
        parts(model, touched, settings, &mut built.shared);
        if everything {
            for (name, cluster) in services::clusters(settings) {
                match cluster {
                    Some(cluster) => built.shared.set.push(Arc::new(cluster)),
                    None => built.shared.remove.push((ResourceType::CLUSTER, name.into())),
                }
            }
            built.shared.set.push(Arc::new(runtime::resource(settings)));
        }
        if everything || touched.stats_tls {
            self.listeners(model, settings, &mut built.shared);
        }
        let https = self.chains.update(model, touched, settings, everything);
        built.shared.set.extend(https.set);
        built.shared.remove.extend(https.remove);
        self.in_form(settings, &mut built);
        match &mut self.plain {
            Plain::Hosts(hosts) => hosts.update(model, touched, settings, everything, wanted, &mut built),
            Plain::Buckets(buckets) => {
                let changed = buckets.update(&model.http, &touched.http, settings, everything);
                built.shared.set.extend(changed.set);
            }
        }
        built
    }

    /// Takes leave of what the settings no longer ask for.
    fn in_form(&mut self, settings: &Settings, built: &mut Built) {
        let buckets = settings.routes.discovery == Discovery::Buckets;
        match &self.plain {
            Plain::Hosts(hosts) if buckets => {
                let routes: Key = (ResourceType::ROUTES, names::HTTP.into());
                built.vhds.remove = hosts.virtual_hosts.removal().chain([routes.clone()]).collect();
                built.rds.remove = vec![routes];
                self.plain = Plain::Buckets(Buckets::default());
            }
            Plain::Buckets(_) if !buckets => {
                built.shared.remove.extend(Buckets::removal());
                self.plain = Plain::default();
            }
            Plain::Hosts(_) | Plain::Buckets(_) => {}
        }
    }

    /// The listeners that do not depend on hosts.
    fn listeners(&mut self, model: &Model, settings: &Settings, update: &mut Update<Arc<Resource>>) {
        let listeners = listener::listeners(model, settings);
        let now: BTreeSet<Arc<str>> = listeners.iter().map(|listener| listener.name().clone()).collect();
        let gone = self.listeners.difference(&now).map(|name| (ResourceType::LISTENER, name.clone()));
        update.remove.extend(gone);
        update.set.extend(listeners.into_iter().map(Arc::new));
        self.listeners = now;
    }
}

impl Hosts {
    fn update(
        &mut self,
        model: &Model,
        touched: &Touched,
        settings: &Settings,
        everything: bool,
        wanted: Forms,
        built: &mut Built,
    ) {
        let first = !std::mem::replace(&mut self.started, true);
        let default = (first || everything).then_some(&Host::Any);
        let changed = self.virtual_hosts.update(&model.http, touched.http.iter().chain(default), settings);
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
}

/// What has one resource for each entry of the model.
fn parts(model: &Model, touched: &Touched, settings: &Settings, update: &mut Update<Arc<Resource>>) {
    let clusters: Vec<_> = touched.clusters.iter().collect();
    let made = parallel::map(&clusters, |name| {
        model.clusters.get(name).map(|cluster| Arc::new(cluster::resource(name, cluster, settings)))
    });
    take(update, made, clusters.iter().map(|name| (ResourceType::CLUSTER, name.0.clone())));
    let endpoints: Vec<_> = touched.endpoints.iter().collect();
    let made = parallel::map(&endpoints, |name| {
        model.endpoints.get(name).map(|endpoints| Arc::new(endpoint::load_assignment(name, endpoints)))
    });
    take(update, made, endpoints.iter().map(|name| (ResourceType::ENDPOINTS, name.0.clone())));
    let secrets: Vec<_> = touched.secrets.iter().collect();
    let made =
        parallel::map(&secrets, |name| model.secrets.get(name).map(|secret| Arc::new(secret::resource(name, secret))));
    take(update, made, secrets.iter().map(|name| (ResourceType::SECRET, name.0.clone())));
}

/// Sets what was `made`, and removes what is no more.
fn take(update: &mut Update<Arc<Resource>>, made: Vec<Option<Arc<Resource>>>, keys: impl Iterator<Item = Key>) {
    for (resource, key) in made.into_iter().zip(keys) {
        match resource {
            Some(resource) => update.set.push(resource),
            None => update.remove.push(key),
        }
    }
}

#[cfg(test)]
mod tests;
