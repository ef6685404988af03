//! The routes of a listener for plain HTTP in scopes (SRDS): one for each exact host, and one for all other hosts. A change makes
//! Envoy process the scopes that changed instead of all virtual hosts.
//!
//! The key of the scope of a request is its host. Wildcard hosts and the default host are in one scope, which
//! [`fallback`] selects for requests that have no other.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::google::protobuf as google;
use lockgate_xds::provenance::ObjectRef;
use lockgate_xds::snapshot::{Key, Resource, ResourceType, Update};
use prost::Message;
use route_v3::scoped_route_configuration::{Key as ScopeKey, key};

use super::encoded::{self, LargeHost};
use super::redirect::is_to_https;
use super::{Marks, VirtualHosts, host_limit};
use crate::envoy::hcm::{self, RouteFilters};
use crate::envoy::statistics::Statistics;
use crate::envoy::tls_listener::TlsListener;
use crate::envoy::{fallback, names};
use crate::model::{Action, Host, ListenerId, VirtualHostRoutes};
use crate::parallel;
use crate::settings::Settings;

/// The hosts of a listener for plain HTTP.
#[derive(Clone, Copy)]
pub struct ScopedHosts<'a> {
    /// The content of each host.
    pub content: &'a BTreeMap<Host, VirtualHostRoutes>,
    /// The listener to which hosts redirect their clients.
    pub https: Option<TlsListener<'a>>,
}

/// The scopes of a listener. They depend only on the current hosts, not on their history.
#[derive(Debug)]
pub struct Scopes {
    listener: ListenerId,
    /// The exact hosts that have a scope. Those with many routes retain them.
    exact: BTreeMap<Host, Option<Box<(LargeHost, Bytes)>>>,
    /// Wildcard hosts and the default host.
    others: VirtualHosts,
    /// The marks of the retained routes.
    marks: Marks,
    /// The filters that are off for exact hosts.
    off: HashMap<String, google::Any>,
    given: bool,
}

impl Scopes {
    /// Creates the scopes of a listener without hosts.
    pub fn new(listener: &ListenerId) -> Self {
        let others = VirtualHosts::new(listener);
        let listener = listener.clone();
        let (exact, marks, off) = Default::default();
        Self { listener, exact, others, marks, off, given: false }
    }

    /// Updates the `touched` hosts from `hosts`. Returns the changed and the removed scopes.
    pub fn update<'a>(
        &mut self,
        hosts: ScopedHosts,
        touched: impl IntoIterator<Item = &'a Host>,
        filters: RouteFilters,
        settings: &Settings,
        statistics: &Statistics,
        everything: bool,
    ) -> Update<Arc<Resource>> {
        let (exact, mut others): (Vec<&Host>, Vec<&Host>) =
            touched.into_iter().partition(|host| matches!(host, Host::Exact(_)));
        let all = !std::mem::replace(&mut self.given, true) || everything;
        if all {
            self.off = fallback::off(hcm::filters_of_routes(filters, settings));
        }
        let mut update = self.update_exact(hosts, &exact, settings, statistics);
        if all {
            others.push(&Host::Any);
        }
        let changed = self.others.update(hosts.content, others, settings, statistics);
        if all || !changed.set.is_empty() || !changed.remove.is_empty() {
            update.set.push(Arc::new(self.scope_of_others(settings)));
        }
        update
    }

    fn update_exact(
        &mut self,
        hosts: ScopedHosts,
        touched: &[&Host],
        settings: &Settings,
        statistics: &Statistics,
    ) -> Update<Arc<Resource>> {
        let marks = Marks::of(settings);
        if self.marks != marks {
            self.exact.values_mut().for_each(|retained| *retained = None);
            self.marks = marks;
        }
        let mut update = Update::default();
        let made = parallel::map(touched, |host| {
            hosts.content.get(*host).map(|content| {
                let (scope, retained) = self.scope(host, content, settings, statistics);
                let follows = hosts.https.map(|https| redirected_to(https, host, content)).unwrap_or_default();
                (scope.following(follows), retained)
            })
        });
        for (host, made) in touched.iter().zip(made) {
            match made {
                Some((resource, retained)) => {
                    self.exact.insert((*host).clone(), retained);
                    update.set.push(Arc::new(resource));
                }
                None if self.exact.remove(*host).is_some() => update.remove.push(key_of(&self.listener, host)),
                None => {}
            }
        }
        update
    }

    /// Returns the resources to remove with the listener.
    pub fn removal(&self) -> impl Iterator<Item = Key> {
        let others = (ResourceType::SCOPED_ROUTES, names::scope_of_others(&self.listener).into());
        self.exact.keys().map(|host| key_of(&self.listener, host)).chain([others])
    }

    /// Builds the scope of an exact host. Returns the routes to retain with it.
    fn scope(
        &self,
        host: &Host,
        content: &VirtualHostRoutes,
        settings: &Settings,
        statistics: &Statistics,
    ) -> (Resource, Option<Box<(LargeHost, Bytes)>>) {
        let counted = statistics.on(host);
        let (mut table, retained) = match LargeHost::is_large(host, content) {
            false => (encoded::encode(super::routes(host, content, &self.marks, counted)), None),
            true => {
                let before = self.exact.get(host).and_then(Option::as_deref).map(|(large, bytes)| (large, &**bytes));
                let (large, bytes) = LargeHost::encode(content, before, &self.marks, counted);
                let bytes = Bytes::from(bytes);
                (bytes.to_vec(), Some(Box::new((large, bytes))))
            }
        };
        if !content.routes.iter().any(|one| one.matches.is_everything()) {
            table.extend(encoded::encode(vec![super::closing(&self.marks, host_limit::of(content))]));
        }
        table.extend(encoded::encode_config(content));
        let name = names::virtual_host(&self.listener, host);
        let head = route_v3::VirtualHost { name, domains: vec![host.to_string()], ..Default::default() };
        let mut virtual_host = head.encode_to_vec();
        virtual_host.extend(table);
        let name = names::scope(&self.listener, host);
        let mut routes = self.routes(&name, super::keeps_key(content), settings);
        routes.typed_per_filter_config.extend(self.off.clone());
        let encoded = super::encoded_configuration(routes, [Bytes::from(virtual_host)].into_iter());
        (scope(&name, name.clone(), encoded, super::origins(content).collect()), retained)
    }

    /// Builds the scope of wildcard hosts and the default host.
    fn scope_of_others(&self, settings: &Settings) -> Resource {
        let name = names::scope_of_others(&self.listener);
        let virtual_hosts = self.others.all().map(|one| one.message());
        let encoded = super::encoded_configuration(self.routes(&name, false, settings), virtual_hosts);
        let origins = self.others.all().flat_map(|one| one.origins().iter().cloned()).collect();
        scope(&name, name.clone(), encoded, origins)
    }

    fn routes(&self, name: &str, keeps_key: bool, settings: &Settings) -> route_v3::RouteConfiguration {
        let mut routes = super::with_settings(super::route_configuration(name, vec![]), settings);
        if !keeps_key {
            // The header with the key is not for backends.
            routes.request_headers_to_remove.insert(0, names::HOST.to_owned());
        }
        routes
    }
}

/// Returns the listener and the secrets of the certificates that clients need when `host` redirects them to HTTPS.
fn redirected_to(https: TlsListener, host: &Host, content: &VirtualHostRoutes) -> Vec<Key> {
    let redirects = content.routes.iter().any(|one| matches!(&one.action, Action::Redirect(to) if is_to_https(to)));
    let Some(tls) = https.tls.hosts.get(host).filter(|_| redirects) else { return Vec::new() };
    let secrets = tls.secrets.iter().map(|secret| (ResourceType::SECRET, secret.to_string().into()));
    [(ResourceType::LISTENER, https.id.name().clone())].into_iter().chain(secrets).collect()
}

fn key_of(listener: &ListenerId, host: &Host) -> Key {
    (ResourceType::SCOPED_ROUTES, names::scope(listener, host).into())
}

/// Builds the scope with this key and an encoded route configuration.
pub fn scope(name: &str, key: String, routes: Vec<u8>, origins: Vec<ObjectRef>) -> Resource {
    /// Field `route_configuration` of `ScopedRouteConfiguration`.
    const ROUTE_CONFIGURATION: u32 = 5;
    let fragment = key::Fragment { r#type: Some(key::fragment::Type::StringKey(key)) };
    let head = route_v3::ScopedRouteConfiguration {
        name: name.to_owned(),
        key: Some(ScopeKey { fragments: vec![fragment] }),
        ..Default::default()
    };
    let mut message = head.encode_to_vec();
    prost::encoding::bytes::encode(ROUTE_CONFIGURATION, &routes, &mut message);
    Resource::from_encoded(ResourceType::SCOPED_ROUTES, name, &message, origins)
}
