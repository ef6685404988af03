//! What is served behind TLS: filter chains that hosts share, and routes that each host has for itself.
//!
//! A chain says what a client is presented: a key pair and versions of TLS ([`Presented`]). All hosts of an exact name that
//! agree in this share one; the server name (SNI) leads to it, by a matcher that stands apart from the chains. So a new host
//! adds a line to the matcher, leaves every chain as it is, and no connection is drained.
//!
//! Routes are found by the server name, too, not by the chain: each host is a scope, whose key is the name for which the
//! connection was opened (SRDS). So a change of its routes costs a few hundred bytes and a millisecond however many hosts
//! share the chain, a connection for one host cannot reach another's routes, and a host that moves to another chain goes on
//! to be served on the connections that it has. The keys of scopes are whole names, so a wildcard host, and [`Host::Any`],
//! has a chain of its own with a route configuration of its own.

mod matcher;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use envoy_types::pb::envoy::config::route::v3 as route_v3;
use lockgate_xds::snapshot::{Key, Resource, ResourceType, Update};

use super::{downstream_tls, headers, listener, names, route};
use crate::model::{Action, Host, Model, SecretName, TlsHost, TlsVersion, Touched};
use crate::settings::Settings;

pub use matcher::Choice;

/// What clients are presented: hosts that have it in common share a filter chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Presented<'a> {
    /// The key pair.
    pub secret: &'a SecretName,
    /// Lowest TLS version.
    pub minimum: TlsVersion,
    /// Highest TLS version.
    pub maximum: TlsVersion,
}

impl<'a> From<&'a TlsHost> for Presented<'a> {
    fn from(host: &'a TlsHost) -> Self {
        let TlsHost { secret, minimum, maximum, virtual_host: _, origins: _ } = host;
        Self { secret, minimum: *minimum, maximum: *maximum }
    }
}

/// The listeners for TLS, and the routes of all hosts behind it, following a model that changes.
#[derive(Debug, Default)]
pub struct Chains {
    /// What each host contributes to the listeners: a hash of its certificate settings and of its origins without
    /// their generations, or [`REFUSED`].
    hosts: BTreeMap<Host, u64>,
    /// The hosts that the routes of [`Host::Any`] exclude. Empty while these routes lead nowhere.
    excluded: BTreeMap<Host, u16>,
    /// The listeners that there are.
    listeners: BTreeSet<&'static str>,
}

impl Chains {
    /// What has changed with the hosts that are touched: listeners and routes. With `everything`, which new settings ask for,
    /// all of it is made anew.
    ///
    /// A listener is as large as the number of hosts, so it is made only if one has come, gone, or is presented otherwise.
    pub fn update(
        &mut self,
        model: &Model,
        touched: &Touched,
        settings: &Settings,
        everything: bool,
    ) -> Update<Arc<Resource>> {
        let mut update = Update::default();
        let mut stale: BTreeSet<&Host> = touched.https.iter().collect();
        let gone: Vec<Host>;
        if everything {
            gone = self.hosts.keys().filter(|host| shape(host, model).is_none()).cloned().collect();
            stale.extend(gone.iter().chain(model.https.keys()).chain(&model.refused));
        }
        if self.update_excluded(model, touched, everything) {
            stale.insert(&Host::Any);
        }
        let mut listeners = everything;
        let mut above = BTreeSet::new();
        for host in &stale {
            let shape = shape(host, model);
            let before = match shape {
                Some(shape) => self.hosts.insert((*host).clone(), shape),
                None => self.hosts.remove(*host),
            };
            if before.is_some() != shape.is_some() {
                // The wildcard above it names it as being elsewhere.
                above.extend(wildcard_above(host, model));
            }
            if before.is_some_and(|before| before != REFUSED) && !model.https.contains_key(*host) {
                update.remove.push(key_of_routes(host));
            }
            listeners |= before != shape;
        }
        stale.extend(&above);
        for host in stale {
            if let Some(tls) = model.https.get(host) {
                update.set.push(Arc::new(routes(host, tls, model, settings)));
            }
        }
        if listeners {
            self.update_listeners(model, settings, &mut update);
        }
        update
    }

    /// Brings the excluded hosts up to date. Returns whether they have changed.
    fn update_excluded(&mut self, model: &Model, touched: &Touched, everything: bool) -> bool {
        if !serves_unnamed(model) {
            self.excluded.clear();
            return false;
        }
        if everything || self.excluded.is_empty() || touched.https.contains(&Host::Any) {
            let now = excluded(model).map(|(host, status)| (host.clone(), status)).collect();
            return std::mem::replace(&mut self.excluded, now) != self.excluded;
        }
        let mut changed = false;
        for host in touched.http.iter().chain(&touched.https) {
            let now = exclusion(host, model);
            changed |= match now {
                Some(status) => self.excluded.insert(host.clone(), status) != now,
                None => self.excluded.remove(host).is_some(),
            };
        }
        changed
    }

    fn update_listeners(&mut self, model: &Model, settings: &Settings, update: &mut Update<Arc<Resource>>) {
        let made = listener::tls_listeners(model, settings);
        let names = made.iter().map(|(name, _)| *name).collect();
        let gone = std::mem::replace(&mut self.listeners, names);
        let gone = gone.difference(&self.listeners).map(|name| (ResourceType::LISTENER, Arc::from(*name)));
        update.remove.extend(gone);
        update.set.extend(made.into_iter().map(|(_, resource)| Arc::new(resource)));
    }
}

/// The [`shape`] of a host whose connections are refused.
const REFUSED: u64 = 0;

/// A hash of what a listener has of a host.
fn shape(host: &Host, model: &Model) -> Option<u64> {
    let Some(tls) = model.https.get(host) else { return model.refused.contains(host).then_some(REFUSED) };
    let TlsHost { secret, minimum, maximum, virtual_host: _, origins } = tls;
    let objects = origins.iter().map(|origin| format!(" {origin}"));
    let text = format!("{secret} {minimum:?} {maximum:?}{}", objects.collect::<String>());
    Some(xxhash_rust::xxh3::xxh3_64(text.as_bytes()).max(REFUSED + 1))
}

/// Whether clients without a known server name are served anything but 404.
fn serves_unnamed(model: &Model) -> bool {
    let nothing = Action::Respond { status: 404 };
    let routes = model.https.get(&Host::Any).map(|tls| &tls.virtual_host.routes);
    routes.is_some_and(|routes| routes.iter().any(|route| route.action != nothing))
}

/// The status with which the routes of [`Host::Any`] answer requests for a host that a rule or a TLS entry names.
///
/// 421 tells a browser to open a connection for that name; a host without TLS has nothing to offer there.
fn exclusion(host: &Host, model: &Model) -> Option<u16> {
    match host {
        Host::Any => None,
        host if model.https.contains_key(host) || model.refused.contains(host) => Some(421),
        host => model.http.contains_key(host).then_some(404),
    }
}

/// All hosts with an [`exclusion`].
fn excluded(model: &Model) -> impl Iterator<Item = (&Host, u16)> {
    let hosts = model.https.keys().chain(&model.refused).chain(model.http.keys());
    hosts.filter_map(|host| Some((host, exclusion(host, model)?)))
}

/// The resource that has the routes of a host.
fn key_of_routes(host: &Host) -> Key {
    let kind = if is_scope(host) { ResourceType::SCOPED_ROUTES } else { ResourceType::ROUTES };
    (kind, names::https_routes(host).into())
}

/// Whether the routes of a host are a scope, which has one name for its key.
fn is_scope(host: &Host) -> bool {
    matches!(host, Host::Exact(_))
}

/// The routes of one host: a scope, or a route configuration.
pub fn routes(host: &Host, tls: &TlsHost, model: &Model, settings: &Settings) -> Resource {
    let name = names::https_routes(host);
    let virtual_host = &tls.virtual_host;
    let origins = route::origins(virtual_host).chain(tls.origins.iter().cloned()).collect();
    let mut routes = route_configuration(host, tls, &answered(host, model), settings);
    match host {
        Host::Exact(server_name) => {
            // The key goes no further than Envoy.
            routes.request_headers_to_remove.insert(0, names::SERVER_NAME.to_owned());
            Resource::new(&name, &scope(&name, server_name, routes), origins)
        }
        Host::Wildcard(_) | Host::Any => Resource::new(&name, &routes, origins),
    }
}

/// The routes of a TLS host, and 421 for requests that are for another host.
///
/// A browser reuses a connection for every name that the certificate covers; 421 makes it open another one. So a
/// wildcard host must refuse the names under it that are served on chains of their own, and the default backend must not
/// get requests for a host that somebody names: `answered` has these names and the status for each.
/// Source: RFC 9110 section 15.5.20.
///
/// Where HTTP/3 is on, and the host takes its TLS 1.3, clients are told.
fn route_configuration(
    host: &Host,
    tls: &TlsHost,
    answered: &BTreeMap<u16, BTreeSet<&Host>>,
    settings: &Settings,
) -> route_v3::RouteConfiguration {
    let mut virtual_hosts = vec![match tls.virtual_host.routes.is_empty() && *host == Host::Any {
        true => route::answering_all(404, settings),
        false => route::virtual_host(host, &tls.virtual_host, settings),
    }];
    if *host != Host::Any {
        let mut others = route::answering_all(421, settings);
        others.domains.extend(answered.values().flatten().map(ToString::to_string));
        virtual_hosts.push(others);
    } else {
        virtual_hosts.extend(answered.iter().map(|(status, hosts)| route_v3::VirtualHost {
            name: status.to_string(),
            domains: hosts.iter().map(ToString::to_string).collect(),
            ..route::answering_all(*status, settings)
        }));
    }
    let routes = route::route_configuration(&names::https_routes(host), virtual_hosts);
    let mut routes = route::with_settings(routes, settings);
    if *host != Host::Any {
        routes = headers::with_hsts(routes, &settings.tls.hsts);
    }
    let http3 = &settings.http.http3;
    match http3.enabled && downstream_tls::is_over_quic(tls) {
        true => headers::with_alternative_service(routes, http3.advertised_port),
        false => routes,
    }
}

/// The scope of the connections that were opened for `server_name`.
fn scope(name: &str, server_name: &str, routes: route_v3::RouteConfiguration) -> route_v3::ScopedRouteConfiguration {
    use route_v3::scoped_route_configuration::{Key, key};
    let fragment = key::Fragment { r#type: Some(key::fragment::Type::StringKey(server_name.to_owned())) };
    route_v3::ScopedRouteConfiguration {
        name: name.to_owned(),
        key: Some(Key { fragments: vec![fragment] }),
        route_configuration: Some(routes),
        ..Default::default()
    }
}

/// The nearest wildcard host above `host` that is served: `*.example.com` for `a.b.example.com`.
fn wildcard_above(host: &Host, model: &Model) -> Option<Host> {
    let (Host::Exact(name) | Host::Wildcard(name)) = host else { return None };
    let suffixes = name.match_indices('.').map(|(dot, _)| Host::Wildcard(name[dot + 1..].into()));
    suffixes.into_iter().find(|above| model.https.contains_key(above))
}

/// The names that the domain of a TLS host takes too but must not serve, by the status with which they are answered.
fn answered<'a>(host: &Host, model: &'a Model) -> BTreeMap<u16, BTreeSet<&'a Host>> {
    let mut answered = BTreeMap::<u16, BTreeSet<&Host>>::new();
    if *host == Host::Any {
        for (host, status) in excluded(model).filter(|_| serves_unnamed(model)) {
            answered.entry(status).or_default().insert(host);
        }
    } else {
        let elsewhere = elsewhere(host, model);
        if !elsewhere.is_empty() {
            answered.insert(421, elsewhere.into_iter().collect());
        }
    }
    answered
}

/// The names that the domain of the TLS host `host` takes too, though they are served otherwise. A wildcard among them takes
/// those below it along.
fn elsewhere<'a>(host: &Host, model: &'a Model) -> Vec<&'a Host> {
    let Host::Wildcard(suffix) = host else { return vec![] };
    let below = |other: &&Host| match other {
        Host::Exact(name) | Host::Wildcard(name) => {
            name.strip_suffix(&**suffix).is_some_and(|labels| labels.ends_with('.'))
        }
        Host::Any => false,
    };
    let names: Vec<&Host> = model.https.keys().chain(&model.refused).filter(below).collect();
    let has_wildcards = names.iter().any(|name| matches!(name, Host::Wildcard(_)));
    let nearest = |name: &&Host| !has_wildcards || wildcard_above(name, model).as_ref() == Some(host);
    names.into_iter().filter(nearest).collect()
}

#[cfg(test)]
mod tests;
