//! Filter chains that TLS hosts share, and the separate routes of each host.
//!
//! A filter chain determines the key pairs and TLS versions for clients
//! ([`Presented`](super::tls_listener::Presented)). All exact hosts with the same values share one chain. A matcher
//! outside of the chains selects the chain by server name (SNI). A new host therefore adds a line to the matcher and
//! leaves all chains unchanged, so no connection drains.
//!
//! Routes are selected by server name too, not by chain. Each host is a scope (SRDS), whose key is the server name of
//! the connection. This has three advantages: A change of the routes costs a few hundred bytes and a millisecond,
//! however many hosts share the chain. A connection for one host cannot reach the routes of another host. A host that
//! moves to another chain is still served on its existing connections. Scope keys are complete names, so each wildcard
//! host, and [`Host::Any`], has a chain and a route configuration of its own.
//!
//! A server name can have several virtual hosts ([`TlsHost::virtual_hosts`]). They are in the same scope or route
//! configuration, so a change of a virtual host changes only that resource.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use envoy_types::pb::envoy::config::route::v3 as route_v3;
use lockgate_xds::snapshot::{Key, Resource, ResourceType, Update};
use prost::Message;

use super::hcm::RouteFilters;
use super::listener::TlsListeners;
use super::statistics::Statistics;
use super::tls_listener::TlsListener;
use super::{downstream_tls, headers, listener, names, route};
use crate::model::{Action, Host, ListenerId, TlsHost, Touched, VirtualHostRoutes};
use crate::settings::Settings;

/// A listener for HTTP over TLS and the routes of its hosts, updated with the model.
#[derive(Debug, Default)]
pub struct Chains {
    /// The part of each server name in the listeners.
    hosts: BTreeMap<Host, Shape>,
    /// The hosts that the routes of [`Host::Any`] exclude. Empty while these routes have no backend.
    excluded: BTreeMap<Host, u16>,
    /// The hosts that the routes of [`Host::Any`] contain.
    without_server_name: BTreeSet<Host>,
    /// The existing Envoy listeners, over TCP and over QUIC.
    listeners: BTreeSet<ListenerId>,
    /// The connection managers of the chains that hosts share.
    managers: BTreeSet<Arc<str>>,
    /// The HTTP filters that the routes need in the listeners.
    filters: RouteFilters,
}

impl Chains {
    /// Returns the changed listeners and routes of the `touched` hosts. With `everything`, which new settings require,
    /// all are rebuilt.
    ///
    /// The size of a listener grows with the number of hosts. A listener is therefore rebuilt only if a host was added,
    /// removed, or presents other TLS properties.
    pub fn update(
        &mut self,
        listener: TlsListener,
        touched: &Touched,
        filters: RouteFilters,
        settings: &Settings,
        statistics: &Statistics,
        everything: bool,
    ) -> Update<Arc<Resource>> {
        let mut update = Update::default();
        let mut stale: BTreeSet<&Host> = touched.hosts_of(listener.id.as_str()).iter().collect();
        let gone: Vec<Host>;
        if everything {
            gone = self.hosts.keys().filter(|host| shape(host, &listener).is_none()).cloned().collect();
            stale.extend(gone.iter().chain(listener.tls.server_names()));
        }
        if self.update_excluded(&listener, touched, everything) {
            stale.insert(&Host::Any);
        }
        let mut listeners = everything | (std::mem::replace(&mut self.filters, filters) != filters);
        let mut above = BTreeSet::new();
        for host in &stale {
            let shape = shape(host, &listener);
            let before = match shape {
                Some(shape) => self.hosts.insert((*host).clone(), shape),
                None => self.hosts.remove(*host),
            };
            if before.is_some() != shape.is_some() {
                // The wildcard host above lists this host among the hosts that are served elsewhere.
                above.extend(wildcard_above(host, &listener));
            }
            if matches!(before, Some(Shape::Served(_))) && !listener.tls.hosts.contains_key(*host) {
                update.remove.push(key_of_routes(listener.id, host));
            }
            listeners |= before != shape;
            let is_without = listener.tls.hosts.get(*host).is_some_and(|tls| tls.is_without_server_name);
            let was_without = match is_without {
                true => !self.without_server_name.insert((*host).clone()),
                false => self.without_server_name.remove(*host),
            };
            if is_without || was_without {
                above.insert(Host::Any);
            }
        }
        stale.extend(&above);
        for host in stale {
            if let Some(tls) = listener.tls.hosts.get(host) {
                let more = if *host == Host::Any { &self.without_server_name } else { &BTreeSet::new() };
                update.set.push(Arc::new(routes(host, tls, more, &listener, settings, statistics)));
            }
        }
        if listeners {
            self.update_listeners(&listener, settings, everything, &mut update);
        }
        update
    }

    /// Updates the excluded hosts. Returns whether they have changed.
    fn update_excluded(&mut self, listener: &TlsListener, touched: &Touched, everything: bool) -> bool {
        if !serves_unnamed(listener) {
            self.excluded.clear();
            return false;
        }
        let of_tls = touched.hosts_of(listener.id.as_str());
        if everything || self.excluded.is_empty() || of_tls.contains(&Host::Any) {
            let now = excluded(listener).map(|(host, status)| (host.clone(), status)).collect();
            return std::mem::replace(&mut self.excluded, now) != self.excluded;
        }
        let mut changed = false;
        let of_plain = listener.tls.plain.iter().flat_map(|plain| touched.hosts_of(plain.as_str()));
        for host in of_plain.chain(of_tls) {
            let now = exclusion(host, listener);
            changed |= match now {
                Some(status) => self.excluded.insert(host.clone(), status) != now,
                None => self.excluded.remove(host).is_some(),
            };
        }
        changed
    }

    /// Returns the resources to remove with the listener.
    pub fn removal(self, listener: &ListenerId) -> impl Iterator<Item = Key> {
        let served = self.hosts.into_iter().filter(|(_, shape)| matches!(shape, Shape::Served(_)));
        let routes = served.map(|(host, _)| key_of_routes(listener, &host)).collect::<Vec<_>>();
        let listeners = self.listeners.into_iter().map(|id| (ResourceType::LISTENER, id.name().clone()));
        let managers = self.managers.into_iter().map(|name| (ResourceType::EXTENSION, name));
        routes.into_iter().chain(listeners).chain(managers)
    }

    fn update_listeners(
        &mut self,
        listener: &TlsListener,
        settings: &Settings,
        everything: bool,
        update: &mut Update<Arc<Resource>>,
    ) {
        let TlsListeners { listeners, managers } = listener::tls_listeners(listener, self.filters, settings);
        let names = listeners.iter().map(|(id, _)| id.clone()).collect();
        let gone = std::mem::replace(&mut self.listeners, names);
        let gone = gone.difference(&self.listeners).map(|id| (ResourceType::LISTENER, id.name().clone()));
        update.remove.extend(gone);
        update.set.extend(listeners.into_iter().map(|(_, resource)| Arc::new(resource)));
        let now = managers.iter().map(|manager| manager.name().clone()).collect();
        let before = std::mem::replace(&mut self.managers, now);
        let new = managers.into_iter().filter(|manager| everything || !before.contains(manager.name()));
        update.set.extend(new.map(Arc::new));
        let gone = before.difference(&self.managers).cloned();
        update.remove.extend(gone.map(|name| (ResourceType::EXTENSION, name)));
    }
}

/// The part of a server name in its listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Its connections are refused.
    Refused,
    /// Its connections are forwarded. A hash of the destination.
    Forwarded(u64),
    /// It is a host. A hash of its certificate settings and of its origins without generations.
    Served(u64),
}

/// Returns the part of a server name in its listener.
fn shape(host: &Host, listener: &TlsListener) -> Option<Shape> {
    let Some(tls) = listener.tls.hosts.get(host) else {
        let forwarded = listener.tls.connections.get(host).map(|connections| hash(&format!("{connections:?}")));
        let forwarded = forwarded.map(Shape::Forwarded);
        return forwarded.or_else(|| listener.tls.refused.contains(host).then_some(Shape::Refused));
    };
    let TlsHost {
        secrets,
        minimum,
        maximum,
        clients,
        virtual_hosts: _,
        others: _,
        misdirected: _,
        is_without_server_name: _,
        origins,
    } = tls;
    let secrets = secrets.iter().map(|secret| format!("{secret} "));
    let objects = origins.iter().map(|origin| format!(" {origin}"));
    let clients = clients.as_ref().map(|clients| format!(" {clients:?}"));
    let (secrets, clients) = (secrets.collect::<String>(), clients.unwrap_or_default());
    let text = format!("{secrets}{minimum:?} {maximum:?}{clients}{}", objects.collect::<String>());
    Some(Shape::Served(hash(&text)))
}

fn hash(text: &str) -> u64 {
    xxhash_rust::xxh3::xxh3_64(text.as_bytes())
}

/// Returns whether clients without a known server name are served any response other than 404.
fn serves_unnamed(listener: &TlsListener) -> bool {
    let nothing = Action::respond(404);
    let mut hosts = listener.tls.hosts.get(&Host::Any).into_iter().flat_map(|tls| tls.virtual_hosts.values());
    hosts.any(|host| host.routes.iter().any(|route| route.action != nothing))
}

/// Returns the status with which [`Host::Any`] answers requests for a host that a rule or a TLS entry names.
///
/// 421 makes a browser open a connection for that name. A host without TLS has no routes for such a connection.
fn exclusion(host: &Host, listener: &TlsListener) -> Option<u16> {
    match host {
        Host::Any => None,
        host if listener.tls.names(host) => Some(421),
        host => listener.plain.contains_key(host).then_some(404),
    }
}

/// Returns all hosts with an [`exclusion`].
fn excluded<'a>(listener: &TlsListener<'a>) -> impl Iterator<Item = (&'a Host, u16)> {
    let listener = *listener;
    let hosts = listener.tls.server_names().chain(listener.plain.keys());
    hosts.filter_map(move |host| Some((host, exclusion(host, &listener)?)))
}

/// Returns the key of the resource that contains the routes of a host.
fn key_of_routes(listener: &ListenerId, host: &Host) -> Key {
    let kind = if is_scope(host) { ResourceType::SCOPED_ROUTES } else { ResourceType::ROUTES };
    (kind, names::tls_routes(listener, host).into())
}

/// Returns whether the routes of a host are a scope, which has one name as its key.
fn is_scope(host: &Host) -> bool {
    matches!(host, Host::Exact(_))
}

/// A virtual host, by the host of the request.
type Served<'a> = (&'a Host, &'a VirtualHostRoutes);

/// Builds the routes of one host: a scope, or a route configuration. `more` are the other hosts that its connections serve.
pub fn routes(
    host: &Host,
    tls: &TlsHost,
    more: &BTreeSet<Host>,
    listener: &TlsListener,
    settings: &Settings,
    statistics: &Statistics,
) -> Resource {
    let name = names::tls_routes(listener.id, host);
    let content = |host: &Host| listener.tls.hosts.get(host)?.virtual_hosts.get(host);
    let more_served = more.iter().filter_map(|host| Some((host, content(host)?)));
    let served: Vec<Served> = tls.virtual_hosts.iter().chain(more_served).collect();
    let origins = served.iter().flat_map(|(_, content)| route::origins(content)).chain(tls.origins.iter().cloned());
    let origins = origins.collect();
    let mut answered = answered(host, tls, listener);
    answered.values_mut().for_each(|names| names.retain(|name| !more.contains(*name)));
    answered.retain(|_, names| !names.is_empty());
    let mut routes = route_configuration(listener.id, host, (tls, &served), answered, settings, statistics);
    match host {
        Host::Exact(server_name) => {
            if !served.iter().any(|(_, content)| route::keeps_key(content)) {
                // The header with the key is not for backends.
                routes.request_headers_to_remove.insert(0, names::SERVER_NAME.to_owned());
            }
            let key = format!("{}{server_name}", names::scope_key_prefix(listener.id));
            route::scope(&name, key, routes.encode_to_vec(), origins)
        }
        Host::Wildcard(_) | Host::Any => Resource::new(&name, &routes, origins),
    }
}

/// Builds the routes of a TLS host, with a response of 421 or 404 to requests for hosts that it does not serve.
///
/// A browser reuses a connection for every name that the certificate covers; 421 makes it open another connection. A
/// wildcard host therefore refuses the names below it that have chains of their own. The default backend must not
/// receive requests for a host that a rule or a TLS entry names. `answered` contains these names with their status.
/// Source: RFC 9110 section 15.5.20.
///
/// Each domain is in one virtual host. Envoy rejects repetitions.
///
/// If HTTP/3 is enabled, and the host supports TLS 1.3, responses announce it.
fn route_configuration(
    listener: &ListenerId,
    host: &Host,
    (tls, served): (&TlsHost, &[Served]),
    mut answered: BTreeMap<u16, BTreeSet<&Host>>,
    settings: &Settings,
    statistics: &Statistics,
) -> route_v3::RouteConfiguration {
    let served = served.iter().filter(|(served, _)| !answered.values().any(|hosts| hosts.contains(*served)));
    let mut virtual_hosts: Vec<_> =
        served.map(|(served, content)| virtual_host(served, content, settings, statistics)).collect();
    if tls.virtual_hosts.get(host).is_none() {
        virtual_hosts.push(route::answering_host(host, 404, settings));
    }
    if *host != Host::Any && tls.virtual_hosts.get(&Host::Any).is_none() {
        let status = tls.others.status();
        let mut others = route::answering_all(status, settings);
        others.domains.extend(answered.remove(&status).into_iter().flatten().map(ToString::to_string));
        virtual_hosts.push(others);
    }
    virtual_hosts.extend(answered.into_iter().map(|(status, hosts)| route_v3::VirtualHost {
        name: status.to_string(),
        domains: hosts.into_iter().map(ToString::to_string).collect(),
        ..route::answering_all(status, settings)
    }));
    let routes = route::route_configuration(&names::tls_routes(listener, host), virtual_hosts);
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

/// Builds the virtual host of `host`. Without routes, it answers 404 and does not request authorization.
fn virtual_host(
    host: &Host,
    content: &VirtualHostRoutes,
    settings: &Settings,
    statistics: &Statistics,
) -> route_v3::VirtualHost {
    match content.routes.is_empty() {
        true => route::answering_host(host, 404, settings),
        false => route::virtual_host(host, content, settings, statistics),
    }
}

/// Returns the nearest served wildcard host above `host`: `*.example.com` for `a.b.example.com`.
fn wildcard_above(host: &Host, listener: &TlsListener) -> Option<Host> {
    let (Host::Exact(name) | Host::Wildcard(name)) = host else { return None };
    let suffixes = name.match_indices('.').map(|(dot, _)| Host::Wildcard(name[dot + 1..].into()));
    suffixes.into_iter().find(|above| listener.tls.hosts.contains_key(above))
}

/// Returns the names that the TLS host `host` must not serve, grouped by their response status.
fn answered<'a>(host: &Host, tls: &'a TlsHost, listener: &TlsListener<'a>) -> BTreeMap<u16, BTreeSet<&'a Host>> {
    let mut answered = BTreeMap::<u16, BTreeSet<&Host>>::new();
    // The server name itself, and all hosts, have virtual hosts.
    let misdirected: BTreeSet<&Host> =
        tls.misdirected.iter().filter(|other| *other != host && **other != Host::Any).collect();
    let below = elsewhere(host, listener).into_iter().map(|name| (name, 421));
    let unnamed = *host == Host::Any && serves_unnamed(listener);
    let excluded = unnamed.then(|| excluded(listener)).into_iter().flatten();
    let excluded = excluded.filter(|(other, _)| !misdirected.contains(other));
    for (name, status) in below.chain(excluded).chain(misdirected.iter().map(|name| (*name, 421))) {
        answered.entry(status).or_default().insert(name);
    }
    answered
}

/// Returns the names that the domain of the TLS host `host` matches but that are served by other hosts. A wildcard name
/// covers the names below it.
fn elsewhere<'a>(host: &Host, listener: &TlsListener<'a>) -> Vec<&'a Host> {
    let Host::Wildcard(suffix) = host else { return vec![] };
    let below = |other: &&Host| match other {
        Host::Exact(name) | Host::Wildcard(name) => {
            name.strip_suffix(&**suffix).is_some_and(|labels| labels.ends_with('.'))
        }
        Host::Any => false,
    };
    let names: Vec<&Host> = listener.tls.server_names().filter(below).collect();
    let has_wildcards = names.iter().any(|name| matches!(name, Host::Wildcard(_)));
    let nearest = |name: &&Host| !has_wildcards || wildcard_above(name, listener).as_ref() == Some(host);
    names.into_iter().filter(nearest).collect()
}

#[cfg(test)]
mod tests;
