//! The served routes of Ingresses or HTTPProxies: the hosts of the shared listeners of the model.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_route::model::{
    Action, Host, ListenerId, Model, Route, SecretId, TlsConnections, TlsHost, VirtualHostRoutes,
};
use lockgate_route::objects::Kind;
use lockgate_route::settings::Settings;
use lockgate_route::translate::Translator;

use super::Migrated;
use super::losses::{FindingText, Losses, is_of};

/// The answer of a request without a matching route.
const NOT_FOUND: Action = Action::respond(404);

/// The hosts of the migrated objects, by their patterns.
pub struct Served<'m> {
    /// The routes for plain HTTP.
    pub plain: BTreeMap<&'m Host, Vec<&'m Route>>,
    /// The hosts behind TLS.
    pub tls: BTreeMap<&'m Host, Tls<'m>>,
    /// The hosts whose TLS connections are refused, with the first route of each. A host that only a TLS entry names has none.
    refused: Vec<(&'m Host, Option<&'m Route>)>,
    /// The server names whose connections are forwarded.
    pub connections: Vec<(&'m Host, &'m TlsConnections)>,
}

/// A host behind TLS.
pub struct Tls<'m> {
    /// The certificate.
    pub secret: &'m SecretId,
    /// The routes.
    pub routes: Vec<&'m Route>,
    host: &'m TlsHost,
}

impl Tls<'_> {
    /// Returns whether clients need a certificate.
    pub fn needs_client_certificate(&self) -> bool {
        self.host.clients.as_ref().is_some_and(|clients| clients.required)
    }
}

impl<'m> Served<'m> {
    /// Returns the hosts of the objects of this kind.
    pub fn new(model: &'m Model, migrated: Migrated) -> Self {
        let kind = migrated.kind();
        let mut plain: BTreeMap<&Host, Vec<&Route>> = BTreeMap::new();
        let of_plain: Vec<(&Host, &VirtualHostRoutes)> = match model.plain(ListenerId::HTTP) {
            Some(hosts) => hosts.hosts.iter().filter(|(_, content)| has(content, kind)).collect(),
            None => Vec::new(),
        };
        for (host, content) in of_plain.iter().copied() {
            plain.insert(host, reached(host, content, kind));
        }
        // A host that is closed in plain text must not get the routes of a wildcard above it.
        let open: Vec<&Host> = plain.iter().filter(|(_, routes)| !routes.is_empty()).map(|(host, _)| *host).collect();
        for (host, content) in of_plain {
            let is_covered = open.iter().any(|other| *other != host && covers(other, host));
            if let Some(routes) = plain.get_mut(host).filter(|routes| routes.is_empty() && is_covered) {
                routes.extend(content.routes.iter().map(|route| &**route).find(|route| is_of(kind, &route.origin)));
            }
        }
        let mut tls = BTreeMap::new();
        for (name, host) in model.tls(ListenerId::HTTPS).iter().flat_map(|tls| &tls.hosts) {
            // The default certificate belongs to no object.
            let is_default = migrated == Migrated::Ingresses && *name == Host::Any;
            let is_asked = host.origins.iter().any(|origin| is_of(kind, origin));
            if !is_default && !is_asked && !host.virtual_hosts.values().any(|content| has(content, kind)) {
                continue;
            }
            let routes = host.virtual_hosts.get(name).map(|content| reached(name, content, kind)).unwrap_or_default();
            let Some(secret) = host.secrets.first() else { continue };
            tls.insert(name, Tls { secret, routes, host });
        }
        let of_tls = model.tls(ListenerId::HTTPS);
        let refused = of_tls.into_iter().flat_map(|tls| &tls.refused);
        // The route may be missing from `plain`: a host that is served over TLS alone is closed there.
        let first = |host| model.plain(ListenerId::HTTP)?.hosts.get(host)?.routes.first().map(|route| &**route);
        let refused = refused.map(|host| (host, first(host))).collect();
        let connections = of_tls.into_iter().flat_map(|tls| &tls.connections);
        let connections = connections.filter(|(_, one)| is_of(kind, &one.to.origin)).collect();
        Self { plain, tls, refused, connections }
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
                let owners: Vec<_> = tls.host.origins.iter().filter_map(|origin| losses.owner(origin)).collect();
                for owner in owners {
                    losses.report_tls_versions(&owner, host);
                }
            }
            self.report_clients(tls, losses);
        }
        for (host, connections) in &self.connections {
            let (Some(tls), Some(owner)) = (&connections.terminated, losses.owner(&connections.to.origin)) else {
                continue;
            };
            if (tls.minimum, tls.maximum) != (bounds.minimum, bounds.maximum) {
                losses.report_tls_versions(&owner, host);
            }
            if tls.clients.is_some() {
                let text = FindingText {
                    message: "listeners of the protocol TLS verify no certificates of clients".to_owned(),
                    consequence: "the TCP proxy has no TLSRoute, and its connections are closed",
                    remedy: "Keep the HTTPProxy.",
                };
                losses.add_lost(&owner, "spec.virtualhost.tls.clientValidation".to_owned(), text);
            }
        }
        for host in self.hosts().filter(|host| matches!(host, Host::Wildcard(_))) {
            let of_tls = self.tls.get(host).map(|tls| &tls.routes);
            let routes = self.plain.get(host).into_iter().chain(of_tls).flatten();
            let mut origins: Vec<_> = routes.filter_map(|route| losses.owner(&route.origin)).collect();
            origins.sort();
            origins.dedup();
            origins.iter().for_each(|owner| losses.report_several_labels(owner, host));
        }
        let mut only_in_entries = BTreeSet::new();
        for (host, route) in &self.refused {
            // Without a wildcard above it, nothing accepts its connections afterwards.
            if losses.migrated() == Migrated::HttpProxies && !self.tls.keys().any(|other| covers(other, host)) {
                continue;
            }
            match route.and_then(|route| losses.owner(&route.origin)) {
                Some(owner) => losses.report_refused(&owner, host),
                None => _ = only_in_entries.insert(*host),
            }
        }
        if losses.migrated() != Migrated::Ingresses {
            return;
        }
        losses.report_refused_entries(&only_in_entries, translator);
        let default = self.tls.get(&Host::Any).filter(|tls| !tls.routes.is_empty());
        let unnamed = self.plain.keys().filter(|host| !self.tls.contains_key(**host) && ***host != Host::Any);
        if let (Some(tls), Some(host)) = (default, unnamed.into_iter().next()) {
            let ingresses = tls.routes.iter().take(1).filter_map(|route| losses.owner(&route.origin));
            let ingresses: Vec<_> = ingresses.collect();
            ingresses.iter().for_each(|ingress| losses.report_default_certificate(ingress, host));
        }
    }

    /// Reports the verification of clients, and clients without a server name.
    fn report_clients(&self, tls: &Tls, losses: &mut Losses) {
        let owners: Vec<_> = tls.host.origins.iter().filter_map(|origin| losses.owner(origin)).collect();
        for owner in owners {
            if tls.host.clients.is_some() {
                let text = FindingText {
                    message: "Gateway API verifies certificates of clients by port, not by host".to_owned(),
                    consequence: match tls.needs_client_certificate() {
                        true => "the rules of the host have no backend behind TLS, and its requests are answered 500",
                        false => "clients are not asked for a certificate",
                    },
                    remedy: "Set spec.tls.frontend of a Gateway for this host alone, or keep the HTTPProxy.",
                };
                losses.add_lost(&owner, "spec.virtualhost.tls.clientValidation".to_owned(), text);
            }
            if tls.host.is_without_server_name {
                let text = FindingText {
                    message: "listeners of Gateway API have no fallback certificate for one host".to_owned(),
                    consequence: "connections without a server name are closed",
                    remedy: "Let clients send a server name (SNI), or keep the HTTPProxy.",
                };
                losses.add_changed(&owner, "spec.virtualhost.tls.enableFallbackCertificate".to_owned(), text);
            }
        }
    }
}

/// Returns whether an object of this kind declares a route of a host.
fn has(content: &VirtualHostRoutes, kind: Kind) -> bool {
    content.routes.iter().any(|route| is_of(kind, &route.origin))
}

/// Returns the routes of the objects of this kind that requests for `host` can reach. Requests for names of several labels below a wildcard are not
/// considered. Trailing routes that answer 404 are left out: a Gateway answers so without a route.
fn reached<'m>(host: &Host, content: &'m VirtualHostRoutes, kind: Kind) -> Vec<&'m Route> {
    let count = if matches!(host, Host::Wildcard(_)) { content.one_label } else { content.routes.len() };
    let mut routes = Vec::new();
    let of_kind = content.routes.iter().take(count).map(Arc::as_ref).filter(|route| is_of(kind, &route.origin));
    for route in of_kind {
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
