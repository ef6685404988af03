//! The served routes of Ingresses: the hosts of the shared listeners of the model.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_route::model::{Action, Host, ListenerId, Model, Route, SecretId, TlsHost, VirtualHost};
use lockgate_route::settings::Settings;
use lockgate_route::translate::Translator;

use super::losses::{Losses, ingress_of};

/// The answer of a request without a matching route.
const NOT_FOUND: Action = Action::respond(404);

/// The hosts of Ingresses, by their patterns.
pub struct Served<'m> {
    /// The routes for plain HTTP.
    pub plain: BTreeMap<&'m Host, Vec<&'m Route>>,
    /// The hosts behind TLS.
    pub tls: BTreeMap<&'m Host, Tls<'m>>,
    /// The hosts whose TLS connections are refused, with the first route of each. A host that only a TLS entry names has none.
    refused: Vec<(&'m Host, Option<&'m Route>)>,
}

/// A host behind TLS.
pub struct Tls<'m> {
    /// The certificate.
    pub secret: &'m SecretId,
    /// The routes.
    pub routes: Vec<&'m Route>,
    host: &'m TlsHost,
}

impl<'m> Served<'m> {
    /// Returns the hosts of the Ingresses of a model.
    pub fn new(model: &'m Model) -> Self {
        let mut plain: BTreeMap<&Host, Vec<&Route>> = BTreeMap::new();
        for (host, content) in model.plain(ListenerId::HTTP).iter().flat_map(|plain| &plain.hosts) {
            plain.insert(host, reached(host, content));
        }
        // A host that is closed in plain text must not get the routes of a wildcard above it.
        let open: Vec<&Host> = plain.iter().filter(|(_, routes)| !routes.is_empty()).map(|(host, _)| *host).collect();
        for (host, content) in model.plain(ListenerId::HTTP).iter().flat_map(|plain| &plain.hosts) {
            let is_covered = open.iter().any(|other| *other != host && covers(other, host));
            if let Some(routes) = plain.get_mut(host).filter(|routes| routes.is_empty() && is_covered) {
                routes.extend(content.routes.first().map(|route| &**route));
            }
        }
        let mut tls = BTreeMap::new();
        for (name, host) in model.tls(ListenerId::HTTPS).iter().flat_map(|tls| &tls.hosts) {
            let routes = host.virtual_hosts.get(name).map(|content| reached(name, content)).unwrap_or_default();
            let Some(secret) = host.secrets.first() else { continue };
            tls.insert(name, Tls { secret, routes, host });
        }
        let refused = model.tls(ListenerId::HTTPS).into_iter().flat_map(|tls| &tls.refused);
        // The route may be missing from `plain`: a host that is served over TLS alone is closed there.
        let first = |host| model.plain(ListenerId::HTTP)?.hosts.get(host)?.routes.first().map(|route| &**route);
        let refused = refused.map(|host| (host, first(host))).collect();
        Self { plain, tls, refused }
    }

    /// Returns the patterns of all hosts.
    pub fn hosts(&self) -> impl Iterator<Item = &'m Host> {
        let mut hosts: Vec<&Host> = self.plain.keys().chain(self.tls.keys()).copied().collect();
        hosts.sort();
        hosts.dedup();
        hosts.into_iter()
    }

    /// Reports the properties of hosts that Gateway API does not express.
    pub fn report(&self, settings: &Settings, translator: &Translator, losses: &mut Losses) {
        let bounds = &settings.tls.parameters;
        for (host, tls) in &self.tls {
            if (tls.host.minimum, tls.host.maximum) != (bounds.minimum, bounds.maximum) {
                tls.host
                    .origins
                    .iter()
                    .filter_map(ingress_of)
                    .for_each(|ingress| losses.report_tls_versions(&ingress, host));
            }
        }
        for host in self.hosts().filter(|host| matches!(host, Host::Wildcard(_))) {
            let of_tls = self.tls.get(host).map(|tls| &tls.routes);
            let routes = self.plain.get(host).into_iter().chain(of_tls).flatten();
            let mut origins: Vec<_> = routes.filter_map(|route| ingress_of(&route.origin)).collect();
            origins.sort();
            origins.dedup();
            origins.iter().for_each(|ingress| losses.report_several_labels(ingress, host));
        }
        let mut only_in_entries = BTreeSet::new();
        for (host, route) in &self.refused {
            match route.and_then(|route| ingress_of(&route.origin)) {
                Some(ingress) => losses.report_refused(&ingress, host),
                None => _ = only_in_entries.insert(*host),
            }
        }
        losses.report_refused_entries(&only_in_entries, translator);
        let default = self.tls.get(&Host::Any).filter(|tls| !tls.routes.is_empty());
        let unnamed = self.plain.keys().filter(|host| !self.tls.contains_key(**host) && ***host != Host::Any);
        if let (Some(tls), Some(host)) = (default, unnamed.into_iter().next()) {
            tls.routes.iter().take(1).filter_map(|route| ingress_of(&route.origin)).for_each(|ingress| {
                losses.report_default_certificate(&ingress, host);
            });
        }
    }
}

/// Returns the routes that requests for `host` can reach. Requests for names of several labels below a wildcard are not
/// considered. Trailing routes that answer 404 are left out: a Gateway answers so without a route.
fn reached<'m>(host: &Host, content: &'m VirtualHost) -> Vec<&'m Route> {
    let count = if matches!(host, Host::Wildcard(_)) { content.one_label } else { content.routes.len() };
    let mut routes = Vec::new();
    for route in content.routes.iter().take(count).map(Arc::as_ref) {
        routes.push(route);
        if route.matches.is_everything() {
            break;
        }
    }
    while routes.last().is_some_and(|route| route.action == NOT_FOUND) {
        routes.pop();
    }
    routes
}

/// Returns whether every name of `host` also matches `pattern` in Gateway API, where a wildcard stands for several labels.
fn covers(pattern: &Host, host: &Host) -> bool {
    match (pattern, host) {
        (Host::Any, _) => true,
        (Host::Wildcard(suffix), Host::Exact(name)) => name.ends_with(&format!(".{suffix}")),
        (Host::Wildcard(suffix), Host::Wildcard(other)) => suffix == other || other.ends_with(&format!(".{suffix}")),
        _ => false,
    }
}
