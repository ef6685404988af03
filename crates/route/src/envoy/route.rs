//! Route configurations and their parts. [`super::chains`] builds the route configurations of TLS hosts.

mod action;
mod encoded;
mod groups;
mod header_changes;
mod host_limit;
mod hosts;
mod internal_redirects;
mod matches;
mod redirect;
mod rewrite;
mod scopes;
mod size;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::google::protobuf as google;
use lockgate_xds::provenance::ObjectRef;
use lockgate_xds::snapshot::{Resource, ResourceType};
use prost::Message;

use super::statistics::{self, Counted, Statistics};
use super::{authorization, body_limit, cors, headers, local_rate_limit, names, policy, processing, session, wire};
use crate::model::{Action, Host, ListenerId, LocalRateLimit, Route, VirtualHostRoutes};
use crate::settings::{AccessLogFormat, Compression, HeaderPolicies, Settings};

pub(super) use action::{direct_response, route_action};
pub use hosts::VirtualHosts;
pub(super) use internal_redirects::keeps_key;
pub(super) use matches::header_matchers;
pub use scopes::{ScopedHosts, Scopes, scope};
pub use size::Sizes;

/// Builds the route configuration of a listener for plain HTTP with all its virtual hosts. Unknown hosts get 404.
pub fn http_routes(listener: &ListenerId, hosts: &BTreeMap<Host, VirtualHostRoutes>, settings: &Settings) -> Resource {
    let mut virtual_hosts = VirtualHosts::new(listener);
    virtual_hosts.update(hosts, hosts.keys().chain([&Host::Any]), settings, &Statistics::default());
    http_routes_of(listener, virtual_hosts.all(), settings)
}

/// Builds the same route configuration from existing virtual hosts.
pub fn http_routes_of<'a>(
    listener: &ListenerId,
    virtual_hosts: impl Iterator<Item = &'a Arc<Resource>> + Clone,
    settings: &Settings,
) -> Resource {
    let rest = with_settings(route_configuration(listener.as_str(), vec![]), settings);
    let message = encoded_configuration(rest, virtual_hosts.clone().map(|one| one.message()));
    let origins = virtual_hosts.flat_map(|one| one.origins().iter().cloned()).collect();
    Resource::from_encoded(ResourceType::ROUTES, listener.as_str(), &message, origins)
}

/// Encodes `routes` with these encoded virtual hosts.
fn encoded_configuration(
    routes: route_v3::RouteConfiguration,
    virtual_hosts: impl Iterator<Item = Bytes> + Clone,
) -> Vec<u8> {
    /// Field `virtual_hosts` of `RouteConfiguration`.
    const VIRTUAL_HOSTS: u32 = 2;
    let head = route_v3::RouteConfiguration { name: routes.name, ..Default::default() };
    let rest = route_v3::RouteConfiguration { name: String::new(), ..routes };
    // The fields are in the order of their numbers, as prost writes them.
    let mut message = head.encode_to_vec();
    message.reserve(virtual_hosts.clone().map(|one| one.len()).sum());
    for one in virtual_hosts {
        prost::encoding::bytes::encode(VIRTUAL_HOSTS, &one, &mut message);
    }
    message.extend(rest.encode_to_vec());
    message
}

/// Builds the route configuration of a listener for plain HTTP for clients that subscribe to its virtual hosts
/// individually.
pub fn http_routes_by_host(listener: &ListenerId, settings: &Settings) -> Resource {
    let routes = with_settings(route_configuration(listener.as_str(), vec![]), settings);
    let vhds = route_v3::Vhds { config_source: Some(wire::ads()) };
    Resource::new(listener.as_str(), &route_v3::RouteConfiguration { vhds: Some(vhds), ..routes }, vec![])
}

/// Returns the objects that define the routes of `host`, and their policies.
pub(super) fn origins(host: &VirtualHostRoutes) -> impl Iterator<Item = ObjectRef> {
    let policies = host.routes.iter().filter_map(|route| route.policy());
    let of_policies = policies.flat_map(|policy| policy.origins.iter().cloned());
    host.routes.iter().map(|route| route.origin.clone()).chain(of_policies)
}

/// Builds a route configuration. Envoy compares domains without the port, so they need no variants with `:*`.
pub fn route_configuration(name: &str, virtual_hosts: Vec<route_v3::VirtualHost>) -> route_v3::RouteConfiguration {
    route_v3::RouteConfiguration {
        name: name.to_owned(),
        virtual_hosts,
        ignore_port_in_host_matching: true,
        ..Default::default()
    }
}

/// Applies the settings of all route configurations to `routes`.
pub(super) fn with_settings(routes: route_v3::RouteConfiguration, settings: &Settings) -> route_v3::RouteConfiguration {
    let routes = headers::with_policies(routes, &settings.headers);
    authorization::with_context(routes, &settings.external_authorization)
}

/// Builds the virtual host of `host`.
pub fn virtual_host(
    host: &Host,
    content: &VirtualHostRoutes,
    settings: &Settings,
    statistics: &Statistics,
) -> route_v3::VirtualHost {
    route_v3::VirtualHost {
        name: names::of_statistics(host.to_string()),
        domains: vec![host.to_string()],
        routes: routes(host, content, &Marks::of(settings), statistics.on(host)),
        typed_per_filter_config: host_limit::config(host_limit::of(content)),
        ..Default::default()
    }
}

/// Builds the virtual host that answers all requests for unknown hosts with `status`.
pub(super) fn answering_all(status: u16, settings: &Settings) -> route_v3::VirtualHost {
    answering_host(&Host::Any, status, settings)
}

/// Builds the virtual host that answers all requests for `host` with `status`.
pub(super) fn answering_host(host: &Host, status: u16, settings: &Settings) -> route_v3::VirtualHost {
    route_v3::VirtualHost {
        name: names::of_statistics(host.to_string()),
        domains: vec![host.to_string()],
        routes: vec![answering(status, &Marks::of(settings))],
        ..Default::default()
    }
}

/// Builds the route that answers all requests with `status`. External authorization is off, because there is no
/// backend.
fn answering(status: u16, marks: &Marks) -> route_v3::Route {
    route_v3::Route {
        r#match: Some(route_v3::RouteMatch {
            path_specifier: Some(route_v3::route_match::PathSpecifier::Prefix("/".to_owned())),
            ..Default::default()
        }),
        action: Some(route_v3::route::Action::DirectResponse(direct_response(status))),
        typed_per_filter_config: marks.unasked.clone(),
        ..Default::default()
    }
}

/// Builds the last route of a scope. It answers 404, because Envoy looks for the routes of other hosts if a request has none.
fn closing(marks: &Marks, limit: Option<&Arc<LocalRateLimit>>) -> route_v3::Route {
    route_v3::Route { name: names::NOT_FOUND.to_owned(), ..host_limit::without(answering(404, marks), limit) }
}

/// The parts of a route that depend on settings.
#[derive(Debug, Default, PartialEq)]
struct Marks {
    /// Whether the metadata of a route names its object.
    named: bool,
    /// The filter configuration of routes without a backend.
    unasked: HashMap<String, google::Any>,
    /// Whether the settings limit request bodies.
    limits_bodies: bool,
    /// The compression of responses.
    compression: Compression,
    /// The headers of routes that are not those of Ingresses. `None`: the route configuration has the headers for all routes.
    headers: Option<Box<HeaderPolicies>>,
}

impl Marks {
    fn of(settings: &Settings) -> Self {
        let unasked = authorization::unasked(&settings.external_authorization);
        Self {
            named: names_objects(settings),
            unasked,
            limits_bodies: settings.http.max_request_body_bytes.is_some(),
            compression: settings.compression.clone(),
            headers: (!settings.headers.ingresses).then(|| Box::new(settings.headers.clone())),
        }
    }
}

/// Builds the routes of `host`.
///
/// Envoy's domain `*.example.com` matches several labels, but some routes are for one label only. A single route takes
/// the hosts with several labels, instead of a condition on each route. Envoy compares a request with the routes in
/// turn, and a tenant may have thousands. Otherwise Envoy would match thousands of regular expressions against a host
/// of up to 60 KiB. If the hosts with several labels have routes, each of these has the condition. A first route then
/// answers hosts that are longer than any name, so that the conditions cost little.
fn routes(host: &Host, content: &VirtualHostRoutes, marks: &Marks, counted: Option<&Counted>) -> Vec<route_v3::Route> {
    let limit = host_limit::of(content);
    let build = |one: &Route, headers: &[_]| {
        let conditions = Conditions { headers, cookie: None };
        route(one, conditions, marks, OnHost { counted: statistics::is_counted(one, counted), limit })
    };
    let (Host::Wildcard(suffix), 1..) = (host, content.one_label) else {
        return redirect::without_repetitions(&content.routes).flat_map(|one| build(one, &[])).collect();
    };
    let several_labels = [route_v3::HeaderMatcher { invert_match: true, ..matches::one_label_before(suffix) }];
    let nothing = |headers: &[route_v3::HeaderMatcher]| {
        let mut nothing = host_limit::without(answering(404, marks), limit);
        nothing.r#match.iter_mut().for_each(|matched| matched.headers.extend_from_slice(headers));
        nothing
    };
    let for_all = content.for_several_labels();
    let too_long =
        Some(for_all).filter(|for_all| !for_all.is_empty()).map(|_| nothing(&[matches::longer_than_a_name()]));
    let reached = for_all.iter().all(|one| !one.matches.is_everything());
    let for_several_labels = for_all.iter().flat_map(|one| build(one, &several_labels));
    let for_several_labels = for_several_labels.chain(Some(nothing(&several_labels)).filter(|_| reached));
    // Behind a route that takes everything, the others are only for several labels.
    let last = content.routes.iter().position(|one| one.matches.is_everything());
    let for_one_label = content.routes.iter().take(last.map_or(usize::MAX, |last| last + 1));
    too_long.into_iter().chain(for_several_labels).chain(for_one_label.flat_map(|one| build(one, &[]))).collect()
}

/// Returns whether a format string of the settings reads the object of a route from its metadata.
///
/// Otherwise routes have no metadata, because a change of routes with metadata takes Envoy over 50 % longer.
fn names_objects(settings: &Settings) -> bool {
    let asks = |format: &str| format.contains("METADATA(ROUTE:") && format.contains(names::METADATA);
    let HeaderPolicies { request, response, ingresses: _ } = &settings.headers;
    let mut headers = request.set.iter().chain(&response.set);
    let log = &settings.access_log;
    headers.any(|(_, value)| asks(value))
        || match log.format {
            AccessLogFormat::Off => false,
            AccessLogFormat::Text => asks(&log.text),
            AccessLogFormat::Json => log.json_fields.iter().any(|field| asks(&field.format)),
        }
}

/// The conditions of a route in Envoy in addition to the conditions of its object.
#[derive(Debug, Clone, Copy, Default)]
struct Conditions<'a> {
    headers: &'a [route_v3::HeaderMatcher],
    /// The cookie of a session.
    cookie: Option<&'a route_v3::CookieMatcher>,
}

/// The properties of a host that affect its routes.
#[derive(Debug, Clone, Copy, Default)]
struct OnHost<'a> {
    /// Whether the route has statistics on the host.
    counted: bool,
    /// The limit of the virtual host.
    limit: Option<&'a Arc<LocalRateLimit>>,
}

/// Builds `route` for requests that meet these conditions. A redirect may need two routes in Envoy: see
/// [`redirect::redirects`]. Sessions that stay at one of several clusters need a route for each cluster: see
/// [`session::by_cluster`]. All routes of an object on a host share its statistics.
fn route(route: &Route, conditions: Conditions, marks: &Marks, on: OnHost) -> Vec<route_v3::Route> {
    if let Some((by_cluster, new)) = session::by_cluster(route) {
        let kept = by_cluster.into_iter().flat_map(|(route, cookie)| {
            self::route(&route, Conditions { cookie: Some(&cookie), ..conditions }, marks, on)
        });
        return kept.chain(self::route(&new, conditions, marks, on)).collect();
    }
    let policy = route.policy();
    let Route { matches, filters, action, origin } = route;
    // The object of the route.
    let name = names::route(origin);
    let (built, forward) = match action {
        Action::Forward(forward) => {
            let mut built = route_action(forward, &name, &matches.path);
            policy.into_iter().for_each(|policy| action::add_policy(&mut built, &matches.path, policy));
            action::remove_unchecked_host(&mut built, forward, policy.map(|policy| &**policy));
            (Some(route_v3::route::Action::Route(built)), Some(&**forward))
        }
        Action::Redirect(_) => (None, None),
        Action::Respond { status, body } => {
            let answer = match body {
                Some(text) => action::response(*status, text),
                None => direct_response(*status),
            };
            (Some(route_v3::route::Action::DirectResponse(answer)), None)
        }
    };
    let has_streams = body_limit::has_streams(route);
    let cors = forward.and_then(|forward| cors::per_route(&forward.filters, policy.map(|policy| &**policy)));
    let mut route = route_v3::Route {
        r#match: Some(matches::route_match(matches, conditions)),
        metadata: marks.named.then(|| metadata(origin)),
        stat_prefix: if on.counted { names::of_statistics(name.clone()) } else { String::new() },
        name,
        action: built,
        typed_per_filter_config: cors.into_iter().collect(),
        ..Default::default()
    };
    if has_streams && marks.limits_bodies {
        route.typed_per_filter_config.extend(body_limit::for_streams());
    }
    action::add_header_changes(&mut route, filters, forward);
    if policy.and_then(|policy| policy.processing.as_deref()).is_some_and(processing::changes_methods) {
        // The response to the changed method can state the length of a body that it lacks.
        route.response_headers_to_remove.push("content-length".to_owned());
    }
    if let Some(policies) = marks.headers.as_ref().filter(|_| origin.kind != headers::INGRESS) {
        headers::add_policies(&mut route, policies);
    }
    let mut routes = match action {
        Action::Redirect(redirect) if redirect::is_to_https(redirect) => {
            redirect::redirects(redirect::marked(route, marks), &matches.path, redirect)
        }
        Action::Redirect(redirect) => redirect::redirects(route, &matches.path, redirect),
        Action::Forward(_) | Action::Respond { .. } => vec![route],
    };
    let of_forward = forward.map(|forward| &*forward.filters).unwrap_or_default();
    let config = policy::per_route(policy.map(|policy| &**policy), of_forward, has_streams, &marks.compression);
    let config: HashMap<_, _> = config.into_iter().chain(authorization::of_settings(of_forward)).collect();
    routes.iter_mut().for_each(|route| route.typed_per_filter_config.extend(config.clone()));
    let limit = policy.and_then(|policy| policy.local_rate_limit.as_deref());
    if let Some(of_host) = on.limit {
        routes.iter_mut().for_each(|route| host_limit::apply(route, limit, of_host));
    } else if let Some(limit) = limit.filter(|limit| local_rate_limit::is_in_table(limit)) {
        let rule = policy.and_then(|policy| policy.counted_for.as_deref());
        let matches = matches::route_match(matches, Conditions::default());
        let limit = local_rate_limit::metadata(limit, origin, rule, &matches);
        for route in &mut routes {
            let metadata = route.metadata.get_or_insert_default();
            metadata.filter_metadata.insert(names::LIMIT.to_owned(), limit.clone());
        }
    }
    routes
}

/// Builds the metadata that names the object of a route, for the access log and for readers of a configuration dump.
fn metadata(origin: &ObjectRef) -> core_v3::Metadata {
    let fields = [("kind", origin.kind), ("namespace", &*origin.namespace), ("name", &*origin.name)];
    core_v3::Metadata {
        filter_metadata: HashMap::from([(names::METADATA.to_owned(), wire::text_struct(fields))]),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests;
