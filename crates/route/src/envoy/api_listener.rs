//! Resources for gRPC clients without a proxy: a listener for each name that clients can call, and routes that gRPC
//! supports.
//!
//! Such a client subscribes by name. Its target `xds:///cart.shop:80` is the listener `cart.shop:80`. The routes of
//! this listener use the same clusters and load assignments as Envoy. Envoy never receives the resources of this
//! module. A client rejects a message for a single unsupported field, so the messages contain only fields that gRPC
//! supports.
//!
//! - A host of an Ingress is called `shop.example.com`, `shop.example.com:443`, or `shop.example.com:80`. The name
//!   without a port uses the routes behind TLS if there are any, otherwise the plain routes. Clients cannot call
//!   wildcard hosts.
//! - A Service port is called as in [`names::service_targets`] if routes lead to its cluster without a policy of a route. It
//!   takes precedence over a host of that name. A policy of a route belongs to the routes that request it. A port that only
//!   such routes reach therefore has no target. The features of BackendPolicies have no effect on these clients.
//! - A host with the form `service.namespace` of a served namespace has no name unless all its routes are of that
//!   namespace.
//! - Timeouts are omitted, because a call has its own deadline. gRPC supports neither redirects nor direct responses:
//!   a call that matches such a route fails immediately with UNAVAILABLE.
//! - gRPC has no filters that change requests. A route with such a filter fails its calls, because the filter may
//!   restrict access.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use envoy_types::pb::envoy::config::cluster::v3 as cluster_v3;
use envoy_types::pb::envoy::config::listener::v3 as listener_v3;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm_v3;
use lockgate_xds::provenance::ObjectRef;
use lockgate_xds::snapshot::{Resource, ResourceType, Snapshot};
use prost::Message;

use super::{cluster, hcm, names, route, wire};
use crate::model::{
    Action, Cluster, ClusterFilter, ClusterId, Discovery, Forward, ForwardFilter, HeaderMatch, HeaderName, Host,
    Listener, ListenerId, Match, Model, ObjectKey, PathMatch, QueryMatch, Retry, Route, Traffic, TrafficPolicy,
    VirtualHostRoutes, WeightedCluster,
};
use crate::settings::Settings;

/// Retry conditions that gRPC supports. Source: gRFC A44.
const RETRY_ON: [&str; 5] = ["cancelled", "deadline-exceeded", "internal", "resource-exhausted", "unavailable"];

/// Suffixes that are reserved for Services, so no host of an Ingress is called by such a name.
const RESERVED: [&str; 2] = [".svc", ".svc.cluster.local"];

/// The clients of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Envoys.
    Envoy,
    /// gRPC clients and servers without a proxy.
    Grpc,
    /// All clients.
    All,
}

/// Returns the clients of a resource of unknown origin. A listener is for one kind of client; all other resources are
/// for both.
///
/// A gRPC client subscribes to an API listener by its target. A gRPC server subscribes by its own address, with the
/// name `grpc/server?…` (gRFC A36). Envoy accepts neither over xDS.
pub fn audience(resource: &Resource) -> Audience {
    if resource.kind() != ResourceType::LISTENER {
        return Audience::All;
    }
    let listener = listener_v3::Listener::decode(resource.message());
    match listener.is_ok_and(|listener| listener.api_listener.is_some()) || is_for_server(resource.name()) {
        true => Audience::Grpc,
        false => Audience::Envoy,
    }
}

/// Returns whether a gRPC server subscribes to a listener of this name.
fn is_for_server(name: &str) -> bool {
    name.starts_with("grpc/server?")
}

/// Returns the names of the clusters whose Envoy resource gRPC accepts unchanged.
pub fn shared_clusters(model: &Model) -> impl Iterator<Item = String> {
    let shared = model.clusters.iter().filter(|(_, cluster)| is_shared(cluster));
    shared.map(|(id, _)| id.to_string())
}

fn is_shared(cluster: &Cluster) -> bool {
    cluster.discovery == Discovery::Eds && !is_refused(cluster) && cluster.policy.features.is_none()
}

/// Returns whether gRPC rejects a cluster. TLS to a backend needs a certificate authority, which an Ingress cannot
/// name.
fn is_refused(cluster: &Cluster) -> bool {
    cluster.policy.protocol.is_tls()
}

/// Builds the resources for gRPC clients that Envoys do not use: clusters, route configurations, and listeners. They
/// are sorted by name within a type.
///
/// Unchanged resources of `previous` are reused: each Service has four resources here that hardly ever change.
pub fn resources(model: &Model, previous: &Snapshot) -> Vec<Arc<Resource>> {
    let mut made = Made { previous, clusters: vec![], routes: BTreeMap::new(), listeners: BTreeMap::new() };
    let listeners: Vec<(&ListenerId, &Traffic)> =
        model.listeners.iter().map(|(id, listener)| (id, &listener.traffic)).collect();
    for host in exact_hosts(model) {
        let key = Host::Exact(host.into());
        let plain = listeners.iter().filter_map(|(id, traffic)| match traffic {
            Traffic::Http(plain) => Some((*id, 80, plain.hosts.get(&key)?)),
            _ => None,
        });
        let tls = listeners.iter().filter_map(|(id, traffic)| match traffic {
            Traffic::Https(tls) => Some((*id, 443, tls.virtual_host(&key)?)),
            _ => None,
        });
        // Plain listeners come first, so that TLS gets the name without a port if the host has both.
        for (listener, port, content) in plain.chain(tls) {
            let Some(content) = Some(content).filter(|content| !impersonates(host, content, model)) else { continue };
            let name = names::api_routes_of_host(listener, host);
            let mut origins: Vec<ObjectRef> = content.routes.iter().map(|route| route.origin.clone()).collect();
            origins.sort();
            origins.dedup();
            let routes = route_configuration(&name, routes_of(content, model));
            let routes = reused(previous, &name, &routes, origins.clone());
            made.add(vec![host.to_owned(), format!("{host}:{port}")], routes, origins);
        }
    }
    for (id, content) in model.clusters.iter().filter(|(_, content)| !is_refused(content)) {
        let origins = vec![content.origin.clone()];
        if let Some(own) = own_cluster(id, content) {
            let own = reused(previous, &own.name, &own, origins.clone());
            made.clusters.push(own);
        }
        if !content.of_service {
            continue;
        }
        let (name, cluster) = (names::api_routes_of_port(&id.port), id.to_string());
        let known = previous.get(ResourceType::ROUTES, &name).filter(|old| {
            // Such routes contain nothing else.
            old.origins() == origins && old.references().clusters.iter().map(|name| &**name).eq([&*cluster])
        });
        let routes = known.cloned().unwrap_or_else(|| {
            Arc::new(Resource::new(&name, &route_configuration(&name, vec![all_to(id)]), origins.clone()))
        });
        made.add(names::service_targets(id.port.service(), content.port).into(), routes, origins);
    }
    made.clusters.into_iter().chain(made.routes.into_values()).chain(made.listeners.into_values()).collect()
}

/// The resources that have been built so far.
struct Made<'a> {
    previous: &'a Snapshot,
    clusters: Vec<Arc<Resource>>,
    routes: BTreeMap<String, Arc<Resource>>,
    listeners: BTreeMap<String, Arc<Resource>>,
}

impl Made<'_> {
    /// Directs the calls to `targets` to these routes. If a target already has routes, these replace them.
    fn add(&mut self, targets: Vec<String>, routes: Arc<Resource>, origins: Vec<ObjectRef>) {
        let name = routes.name();
        for target in targets {
            let known = self.previous.get(ResourceType::LISTENER, &target).filter(|old| {
                // Such a listener contains nothing else.
                old.origins() == origins && old.references().routes.iter().eq([name])
            });
            let listener = known
                .cloned()
                .unwrap_or_else(|| Arc::new(Resource::new(&target, &listener(&target, name), origins.clone())));
            self.listeners.insert(target, listener);
        }
        self.routes.insert(name.to_string(), routes);
    }
}

/// Builds the resource `name` with the content of `message`, or returns the resource of `previous` if it is equal.
/// `origins` are sorted.
fn reused<M: Message + prost::Name>(
    previous: &Snapshot,
    name: &str,
    message: &M,
    origins: Vec<ObjectRef>,
) -> Arc<Resource> {
    let old = ResourceType::of_url(&M::type_url()).and_then(|kind| previous.get(kind, name));
    match old {
        // Without maps, the encoding of a message is canonical. A message with maps may be built again without need.
        Some(old) if old.origins() == origins && *old.message() == message.encode_to_vec() => old.clone(),
        _ => Arc::new(Resource::new(name, message, origins)),
    }
}

/// Returns whether a host has the form of a Service in a served namespace, such as `cart.shop`, but has routes of
/// another namespace. Its listener `cart.shop:80` would receive the calls for that Service.
fn impersonates(host: &str, content: &VirtualHostRoutes, model: &Model) -> bool {
    let Some((_, namespace)) = host.split_once('.').filter(|(_, rest)| !rest.contains('.')) else { return false };
    let mut clusters = model.clusters.range(ClusterId::first_of(ObjectKey::new(namespace, ""))..);
    let served = clusters.next().is_some_and(|(id, _)| *id.port.service().namespace == *namespace);
    served && content.routes.iter().any(|route| *route.origin.namespace != *namespace)
}

/// Returns the hosts of a listener for HTTP.
fn hosts(listener: &Listener) -> Box<dyn Iterator<Item = &Host> + '_> {
    match &listener.traffic {
        Traffic::Http(plain) => Box::new(plain.hosts.keys()),
        Traffic::Https(tls) => {
            Box::new(tls.hosts.iter().flat_map(|(name, tls)| tls.virtual_hosts.keys().chain([name])))
        }
        Traffic::Tls(_) | Traffic::Tcp(_) | Traffic::Udp(_) => Box::new(std::iter::empty()),
    }
}

/// Returns the hosts that a client can call by name.
fn exact_hosts(model: &Model) -> impl Iterator<Item = &str> {
    let hosts: BTreeSet<&Host> = model.listeners.values().flat_map(hosts).collect();
    hosts.into_iter().filter_map(|host| match host {
        Host::Exact(name) if !RESERVED.iter().any(|suffix| name.ends_with(suffix)) => Some(&**name),
        Host::Exact(_) | Host::Wildcard(_) | Host::Any => None,
    })
}

/// Builds the listener of `target` with the routes `routes`.
///
/// The router is always the last filter: gRPC rejects a listener without filters.
fn listener(target: &str, routes: &str) -> listener_v3::Listener {
    let manager = hcm_v3::HttpConnectionManager {
        stat_prefix: "grpc".to_owned(),
        route_specifier: Some(hcm_v3::http_connection_manager::RouteSpecifier::Rds(hcm_v3::Rds {
            config_source: Some(wire::ads()),
            route_config_name: routes.to_owned(),
        })),
        http_filters: vec![hcm::router()],
        ..Default::default()
    };
    listener_v3::Listener {
        name: target.to_owned(),
        api_listener: Some(listener_v3::ApiListener { api_listener: Some(wire::any(&manager)) }),
        ..Default::default()
    }
}

/// Builds the route configuration of one target. It serves all calls of its clients, with any authority.
fn route_configuration(name: &str, routes: Vec<route_v3::Route>) -> route_v3::RouteConfiguration {
    let virtual_host =
        route_v3::VirtualHost { name: "*".to_owned(), domains: vec!["*".to_owned()], routes, ..Default::default() };
    route_v3::RouteConfiguration { name: name.to_owned(), virtual_hosts: vec![virtual_host], ..Default::default() }
}

/// Builds the route that sends all calls to `cluster`.
fn all_to(cluster: &ClusterId) -> route_v3::Route {
    let all = vec![WeightedCluster::new(cluster.clone(), 1)];
    let action = route_action(&Forward { clusters: all, ..Forward::default() });
    route_v3::Route { r#match: Some(prefix("/")), action: Some(action), ..Default::default() }
}

/// Builds the routes of a host, and a last route that fails all other calls: gRPC rejects a virtual host without
/// routes.
fn routes_of(host: &VirtualHostRoutes, model: &Model) -> Vec<route_v3::Route> {
    let mut routes: Vec<_> = host.routes.iter().flat_map(|one| self::route(one, model)).collect();
    let rest = route_v3::route::Action::DirectResponse(route::direct_response(404));
    routes.push(route_v3::Route { r#match: Some(prefix("/")), action: Some(rest), ..Default::default() });
    routes
}

/// Builds one route for gRPC, where each path is `/package.Service/Method`.
fn route(route: &Route, model: &Model) -> Vec<route_v3::Route> {
    let action = match &route.action {
        // No gRPC client enforces them, so the calls fail.
        Action::Forward(_) if route.asks() || route.policy().is_some_and(|policy| policy.restricts()) => answer(503),
        Action::Forward(forward) => forward_within(forward, route.retry(forward), model),
        // gRPC supports neither, and fails the calls of such a route.
        Action::Redirect(_) => answer(503),
        Action::Respond { status, .. } => answer(*status),
    };
    let with = |matched| route_v3::Route {
        name: names::route(&route.origin),
        r#match: Some(matched),
        action: Some(action.clone()),
        ..Default::default()
    };
    route_matches(&route.matches).into_iter().map(with).collect()
}

/// Builds the matches of calls, which are POST requests without a query; none if no call matches.
fn route_matches(matches: &Match) -> Vec<route_v3::RouteMatch> {
    let mut built = path_matches(&matches.path);
    if let Some(conditions) = matches.conditions() {
        let present = |query: &QueryMatch| query.value.is_some();
        // gRPC matches neither methods nor missing headers.
        let foreign = |header: &HeaderMatch| header.missing_is_empty || header.name.as_str() == HeaderName::METHOD;
        let is_other_method = conditions.method.as_deref().is_some_and(|method| method != "POST");
        if is_other_method || conditions.query.iter().any(present) || conditions.headers.iter().any(foreign) {
            return vec![];
        }
        built.iter_mut().for_each(|one| one.headers.extend(route::header_matchers(&conditions.headers)));
    }
    built
}

/// Builds the matches of a path. gRPC rejects a message with a match of whole path elements.
fn path_matches(path: &PathMatch) -> Vec<route_v3::RouteMatch> {
    use route_v3::route_match::PathSpecifier;
    let exact = |path: &str| route_v3::RouteMatch {
        path_specifier: Some(PathSpecifier::Path(path.to_owned())),
        ..Default::default()
    };
    match path {
        PathMatch::Exact(path) => vec![exact(path)],
        PathMatch::Prefix(text) => vec![prefix(text)],
        PathMatch::SeparatedPrefix(text) => vec![exact(text), prefix(&format!("{text}/"))],
        PathMatch::Regex(pattern) => vec![route_v3::RouteMatch {
            path_specifier: Some(PathSpecifier::SafeRegex(wire::regex(pattern.to_string()))),
            ..Default::default()
        }],
    }
}

fn prefix(text: &str) -> route_v3::RouteMatch {
    route_v3::RouteMatch {
        path_specifier: Some(route_v3::route_match::PathSpecifier::Prefix(text.to_owned())),
        ..Default::default()
    }
}

/// Builds the action that forwards to clusters that gRPC can use. If gRPC cannot use a cluster with a weight, the whole
/// route fails. Otherwise the other clusters would receive more than their share.
fn forward_within(forward: &Forward, retry: Option<&Retry>, model: &Model) -> route_v3::route::Action {
    let usable = |id: &ClusterId| model.clusters.get(id).is_some_and(|cluster| !is_refused(cluster));
    if forward.clusters.iter().any(|one| one.weight > 0 && !usable(&one.cluster)) {
        return answer(503);
    }
    if changes_requests(forward) {
        return answer(503);
    }
    let clusters = forward.clusters.iter().filter(|one| one.weight > 0);
    let clusters = clusters.map(|one| WeightedCluster::new(one.cluster.clone(), one.weight)).collect();
    let retry = retry.and_then(retry_within).map(Box::new);
    route_action(&Forward { clusters, retry, ..Forward::default() })
}

/// Returns whether a filter changes requests. Mirrors, time limits, sessions, and CORS, which is for browsers, do not.
fn changes_requests(forward: &Forward) -> bool {
    let by_route = |filter: &ForwardFilter| match filter {
        ForwardFilter::RequestHeaders(_) | ForwardFilter::Rewrite(_) | ForwardFilter::HostFromHeader(_) => true,
        ForwardFilter::Mirror(_) | ForwardFilter::Cors(_) => false,
        ForwardFilter::IdleTimeout(_) | ForwardFilter::Session(_) | ForwardFilter::Cookies(_) => false,
        // Answered before.
        ForwardFilter::Authorization(_) | ForwardFilter::SettingsAuthorization(_) => false,
        // Clients of gRPC do not send it, and servers do not redirect.
        ForwardFilter::GrpcWeb | ForwardFilter::InternalRedirects(_) => false,
    };
    let by_cluster =
        |filter: &ClusterFilter| matches!(filter, ClusterFilter::RequestHeaders(_) | ClusterFilter::Host(_));
    let mut of_clusters = forward.clusters.iter().flat_map(|cluster| cluster.filters.iter());
    forward.filters.iter().any(by_route) || of_clusters.any(by_cluster)
}

fn route_action(forward: &Forward) -> route_v3::route::Action {
    let made = route::route_action(forward, "", &PathMatch::root());
    let retry_policy = made.retry_policy.map(|retry| route_v3::RetryPolicy {
        retry_on: retry.retry_on,
        num_retries: retry.num_retries,
        ..Default::default()
    });
    let cluster_specifier = made.cluster_specifier;
    route_v3::route::Action::Route(route_v3::RouteAction { cluster_specifier, retry_policy, ..Default::default() })
}

/// Returns the retry policy with the conditions that gRPC supports. Returns `None` without such conditions or without
/// retries, because gRPC rejects both.
fn retry_within(retry: &Retry) -> Option<Retry> {
    let known: Vec<&str> = retry.on.split(',').map(str::trim).filter(|one| RETRY_ON.contains(one)).collect();
    let on = known.join(",");
    (!on.is_empty() && retry.retries > 0).then_some(Retry { on, retries: retry.retries, ..Retry::default() })
}

fn answer(status: u16) -> route_v3::route::Action {
    route_v3::route::Action::DirectResponse(route::direct_response(status))
}

/// Builds a cluster that gRPC does not accept in the form for Envoy. For DNS names, gRPC supports only the old type
/// `LOGICAL_DNS`; for fixed addresses, it supports no type.
fn own_cluster(id: &ClusterId, cluster: &Cluster) -> Option<cluster_v3::Cluster> {
    if is_shared(cluster) {
        return None;
    }
    // gRPC rejects some features of BackendPolicies, such as Maglev and the PROXY protocol.
    let policy = TrafficPolicy { features: None, ..cluster.policy.clone() };
    let for_envoy = cluster::cluster(id, &Cluster { policy, ..cluster.clone() }, &Settings::default());
    let address = match &cluster.discovery {
        Discovery::Eds => return Some(for_envoy),
        // The final dot prevents a search domain from turning the name into a Service inside the Kubernetes cluster.
        Discovery::Dns { hostname, port } => wire::socket_address(&format!("{hostname}."), *port),
        Discovery::Static { address, port } => wire::socket_address(&address.to_string(), *port),
    };
    let kind = cluster_v3::cluster::DiscoveryType::LogicalDns as i32;
    Some(cluster_v3::Cluster {
        cluster_discovery_type: Some(cluster_v3::cluster::ClusterDiscoveryType::Type(kind)),
        load_assignment: Some(cluster::one_endpoint(&for_envoy.name, address)),
        ..for_envoy
    })
}

#[cfg(test)]
mod tests;
