//! Objects to model, as a pure function: no I/O, no clock, no randomness, no logging. The order of objects never shows.

mod annotations;
mod backend;
mod class;
mod duration;
mod endpoints;
mod external_name;
mod host;
mod ingress;
mod path;
pub mod problem;
mod regex;
mod tls;
mod virtual_host;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, BTreeSet};

pub use endpoints::endpoints_of;
pub use problem::{Problem, Reason};

use crate::model::{Action, Cluster, ClusterName, Discovery, Host, Model, TlsHost, VirtualHost};
use crate::provenance::ObjectRef;
use crate::settings::Settings;
use crate::source::objects::{Kind, ObjectKey, Objects};

use backend::Backends;
use virtual_host::{Rules, Side};

/// What the objects ask for, and what is wrong with them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Translation {
    /// What is to be served.
    pub model: Model,
    /// What is wrong, sorted, each once.
    pub problems: Vec<Problem>,
    /// The Ingresses that are ours, by class.
    pub ingresses: BTreeSet<ObjectKey>,
}

/// What `objects` ask for. Whatever they hold, something is served: a fault costs only itself.
pub fn translate(objects: &Objects, settings: &Settings) -> Translation {
    let mut problems = class::problems(objects, settings);
    let classes = class::Classes::new(objects, settings);
    let mut ours: Vec<_> = objects.ingresses.values().filter(|ingress| classes.serve(ingress)).collect();
    ours.sort_by_key(|ingress| ingress.meta.precedence());
    let client_certificate = tls::client_certificate(objects, settings, &mut problems);
    let mut backends = Backends::new(objects, settings, client_certificate);
    let parsed: Vec<_> =
        ours.iter().map(|ingress| ingress::parse(ingress, settings, &mut backends, &mut problems)).collect();
    problems.append(&mut backends.problems);
    let rules = Rules::merge(&parsed, &mut problems);
    let http = plain_text(&rules);
    let default = tls::default_secret(objects, settings, &mut problems);
    let chains = tls::chains(&parsed, &rules, objects, default.as_ref(), &mut problems);
    let mut https: BTreeMap<Host, TlsHost> = chains
        .into_iter()
        .map(|(host, chain)| {
            let origin = chain.origins.first().cloned().unwrap_or_else(nobody);
            let virtual_host = rules.virtual_host(&host, Side::Tls, &origin);
            let tls::Chain { secret, minimum, maximum, origins } = chain;
            (host, TlsHost { secret, minimum, maximum, virtual_host, origins })
        })
        .collect();
    if let Some(name) = default
        && let Some(secret) = tls::secret(objects, &name)
    {
        let virtual_host = rules.virtual_host(&Host::Any, Side::Tls, &secret.origin);
        let (minimum, maximum) = (settings.tls.parameters.minimum, settings.tls.parameters.maximum);
        let origins = vec![secret.origin];
        https.insert(Host::Any, TlsHost { secret: name, minimum, maximum, virtual_host, origins });
    }
    let clusters = referenced(backends.clusters, http.values().chain(https.values().map(|host| &host.virtual_host)));
    let secrets = https.values().map(|host| &host.secret);
    let secrets: BTreeSet<_> =
        secrets.chain(clusters.values().filter_map(|cluster| cluster.client_certificate.as_ref())).collect();
    let secrets = secrets.into_iter().filter_map(|name| Some((name.clone(), tls::secret(objects, name)?))).collect();
    let endpoints = clusters
        .iter()
        .filter(|(_, cluster)| cluster.discovery == Discovery::Eds)
        .map(|(name, _)| {
            let (endpoints, faults) = endpoints_of(objects, name).unwrap_or_default();
            problems.extend(faults);
            (name.clone(), endpoints)
        })
        .collect();
    problems.sort();
    problems.dedup();
    let ingresses = ours.iter().map(|ingress| ingress.meta.key.clone()).collect();
    Translation { model: Model { http, https, clusters, endpoints, secrets }, problems, ingresses }
}

/// The virtual hosts of the plain-text port.
fn plain_text(rules: &Rules) -> BTreeMap<Host, VirtualHost> {
    let mut hosts: BTreeSet<Host> = rules.hosts.keys().cloned().collect();
    if rules.has_catch_all() {
        hosts.insert(Host::Any);
    }
    let virtual_host = |host: Host| (host.clone(), rules.virtual_host(&host, Side::PlainText, &nobody()));
    hosts.into_iter().map(virtual_host).collect()
}

/// Stands where an origin is asked for and never needed: what has no object behind it is not served.
fn nobody() -> ObjectRef {
    ObjectRef::new(Kind::Ingress.as_str(), "", "")
}

/// Those of `clusters` that a route of `hosts` leads to.
fn referenced<'a>(
    mut clusters: BTreeMap<ClusterName, Cluster>,
    hosts: impl Iterator<Item = &'a VirtualHost>,
) -> BTreeMap<ClusterName, Cluster> {
    let used: BTreeSet<&ClusterName> = hosts
        .flat_map(|host| &host.routes)
        .filter_map(|route| match &route.action {
            Action::Forward(forward) => Some(forward),
            Action::RedirectToHttps { .. } | Action::Respond { .. } => None,
        })
        .flat_map(|forward| forward.clusters.iter().map(|weighted| &weighted.cluster))
        .collect();
    clusters.retain(|name, _| used.contains(name));
    clusters
}
