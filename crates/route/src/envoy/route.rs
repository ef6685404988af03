//! Route configurations, and what they consist of. Those behind TLS are put together by [`super::chains`].

pub(super) mod buckets;
mod groups;
mod hosts;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::envoy::extensions::retry::host::previous_hosts::v3 as previous_hosts_v3;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher_v3;
use envoy_types::pb::google::protobuf as google;
use lockgate_xds::provenance::ObjectRef;
use lockgate_xds::snapshot::{Resource, ResourceType};
use prost::Message;

use super::{authorization, headers, names, wire};
use crate::model::{Action, Forward, Host, ListenerId, PathMatch, Retry, Route, VirtualHost};
use crate::settings::{AccessLogFormat, HeaderPolicies, Settings};

pub use buckets::Buckets;
pub use hosts::VirtualHosts;

/// The route configuration of a listener for plain HTTP with all virtual hosts in it: every host, and 404 for those that
/// nobody named.
pub fn http_routes(listener: &ListenerId, hosts: &BTreeMap<Host, VirtualHost>, settings: &Settings) -> Resource {
    let mut virtual_hosts = VirtualHosts::new(listener);
    virtual_hosts.update(hosts, hosts.keys().chain([&Host::Any]), settings);
    http_routes_of(listener, virtual_hosts.all(), settings)
}

/// The same of virtual hosts that have been made.
pub fn http_routes_of<'a>(
    listener: &ListenerId,
    virtual_hosts: impl Iterator<Item = &'a Arc<Resource>> + Clone,
    settings: &Settings,
) -> Resource {
    let rest = with_settings(route_configuration(listener.as_str(), vec![]), settings);
    with_virtual_hosts(rest, virtual_hosts)
}

/// The resource of `routes` with these virtual hosts, which have been encoded.
fn with_virtual_hosts<'a>(
    routes: route_v3::RouteConfiguration,
    virtual_hosts: impl Iterator<Item = &'a Arc<Resource>> + Clone,
) -> Resource {
    /// Field `virtual_hosts` of `RouteConfiguration`.
    const VIRTUAL_HOSTS: u32 = 2;
    let head = route_v3::RouteConfiguration { name: routes.name, ..Default::default() };
    let rest = route_v3::RouteConfiguration { name: String::new(), ..routes };
    // In the order of the fields' numbers, as prost writes it.
    let mut message = head.encode_to_vec();
    message.reserve(virtual_hosts.clone().map(|one| one.size()).sum());
    for one in virtual_hosts.clone() {
        prost::encoding::bytes::encode(VIRTUAL_HOSTS, &one.message(), &mut message);
    }
    message.extend(rest.encode_to_vec());
    let origins = virtual_hosts.flat_map(|one| one.origins().iter().cloned()).collect();
    Resource::from_encoded(ResourceType::ROUTES, &head.name, &message, origins)
}

/// The route configuration of a listener for plain HTTP for clients that ask for its virtual hosts one by one.
pub fn http_routes_by_host(listener: &ListenerId, settings: &Settings) -> Resource {
    let routes = with_settings(route_configuration(listener.as_str(), vec![]), settings);
    let vhds = route_v3::Vhds { config_source: Some(wire::ads()) };
    Resource::new(listener.as_str(), &route_v3::RouteConfiguration { vhds: Some(vhds), ..routes }, vec![])
}

/// The objects that asked for the routes of `host`.
pub(super) fn origins(host: &VirtualHost) -> impl Iterator<Item = ObjectRef> {
    host.routes.iter().map(|route| route.origin.clone())
}

/// The message. Domains are compared without the port, so they need no `:*` twins.
pub fn route_configuration(name: &str, virtual_hosts: Vec<route_v3::VirtualHost>) -> route_v3::RouteConfiguration {
    route_v3::RouteConfiguration {
        name: name.to_owned(),
        virtual_hosts,
        ignore_port_in_host_matching: true,
        ..Default::default()
    }
}

/// `routes` with all that the settings say of every one of them.
pub(super) fn with_settings(routes: route_v3::RouteConfiguration, settings: &Settings) -> route_v3::RouteConfiguration {
    let routes = headers::with_policies(routes, &settings.headers);
    authorization::with_context(routes, &settings.external_authorization)
}

/// The virtual host of `host`.
pub fn virtual_host(host: &Host, content: &VirtualHost, settings: &Settings) -> route_v3::VirtualHost {
    route_v3::VirtualHost {
        name: host.to_string(),
        domains: vec![host.to_string()],
        routes: routes(host, content, &Marks::of(settings)),
        ..Default::default()
    }
}

/// The virtual host for every host that no other one takes: all its requests get `status`.
pub(super) fn answering_all(status: u16, settings: &Settings) -> route_v3::VirtualHost {
    route_v3::VirtualHost {
        name: "*".to_owned(),
        domains: vec!["*".to_owned()],
        routes: vec![answering(status, &Marks::of(settings))],
        ..Default::default()
    }
}

/// Its route. Nobody is asked about it: there is nothing behind it.
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

/// What routes bear for the sake of settings.
#[derive(Debug)]
struct Marks {
    /// Whether the object behind a route is in its metadata.
    named: bool,
    /// What a route says that leads nowhere.
    unasked: HashMap<String, google::Any>,
}

impl Marks {
    fn of(settings: &Settings) -> Self {
        let unasked = authorization::unasked(&settings.external_authorization);
        Self { named: names_objects(settings), unasked }
    }
}

/// The routes of `host`.
///
/// Envoy's domain `*.example.com` takes several labels, where some routes are for one label only. Hosts of several labels are
/// told apart by one route for all, not by each: a request is compared with the routes in turn, and a tenant may have
/// thousands, so the time would be that of thousands of regular expressions on a host of up to 60 KiB.
fn routes(host: &Host, content: &VirtualHost, marks: &Marks) -> Vec<route_v3::Route> {
    let any_host = content.routes.iter().flat_map(|one| route(one, &[], marks));
    let (Host::Wildcard(suffix), true) = (host, content.routes.iter().any(|one| one.one_label_host)) else {
        return any_host.collect();
    };
    let several_labels = [route_v3::HeaderMatcher { invert_match: true, ..one_label_before(suffix) }];
    let for_all = content.routes.iter().filter(|one| !one.one_label_host);
    let mut nothing = answering(404, marks);
    if let Some(matched) = &mut nothing.r#match {
        matched.headers.extend_from_slice(&several_labels);
    }
    let reached = for_all.clone().all(|one| one.path != PathMatch::Prefix("/".to_owned()));
    let for_several_labels = for_all.flat_map(|one| route(one, &several_labels, marks));
    for_several_labels.chain(Some(nothing).filter(|_| reached)).chain(any_host).collect()
}

/// Whether a format string of the settings asks the routes' metadata for the objects behind them.
///
/// Otherwise routes have none: it makes Envoy's work of a change of routes more than half as long again.
fn names_objects(settings: &Settings) -> bool {
    let asks = |format: &str| format.contains("METADATA(ROUTE:") && format.contains(names::METADATA);
    let HeaderPolicies { request, response } = &settings.headers;
    let mut headers = request.set.iter().chain(&response.set);
    let log = &settings.access_log;
    headers.any(|(_, value)| asks(value))
        || match log.format {
            AccessLogFormat::Off => false,
            AccessLogFormat::Text => asks(&log.text),
            AccessLogFormat::Json => log.json_fields.iter().any(|field| asks(&field.format)),
        }
}

/// What `route` is to Envoy, for requests with these headers. It may take two: see [`redirects_to_https`].
fn route(route: &Route, headers: &[route_v3::HeaderMatcher], marks: &Marks) -> Vec<route_v3::Route> {
    let action = match &route.action {
        Action::Forward(forward) => route_v3::route::Action::Route(route_action(forward)),
        Action::RedirectToHttps { status, port } => {
            return redirects_to_https(&route_match(route, headers), *status, *port, marks);
        }
        Action::Deny { reason } => route_v3::route::Action::DirectResponse(response(403, reason)),
        Action::Respond { status } => route_v3::route::Action::DirectResponse(direct_response(*status)),
    };
    vec![route_v3::Route {
        // The object behind it.
        name: names::route(&route.origin),
        r#match: Some(route_match(route, headers)),
        metadata: marks.named.then(|| metadata(&route.origin)),
        action: Some(action),
        ..Default::default()
    }]
}

/// Envoy's match. `SeparatedPrefix` takes whole elements, so `/foo` takes `/foo/bar` and not `/foobar`.
fn route_match(route: &Route, headers: &[route_v3::HeaderMatcher]) -> route_v3::RouteMatch {
    use route_v3::route_match::PathSpecifier;
    let path = match &route.path {
        PathMatch::Exact(path) => PathSpecifier::Path(path.clone()),
        PathMatch::Regex(pattern) => PathSpecifier::SafeRegex(regex(pattern.clone())),
        PathMatch::SeparatedPrefix(prefix) => PathSpecifier::PathSeparatedPrefix(prefix.clone()),
        PathMatch::Prefix(prefix) => PathSpecifier::Prefix(prefix.clone()),
    };
    route_v3::RouteMatch { path_specifier: Some(path), headers: headers.to_vec(), ..Default::default() }
}

/// Takes `:authority` only if it is one label before `.suffix`.
///
/// Hosts arrive in any case and with a port or without; Envoy folds neither for a header match.
fn one_label_before(suffix: &str) -> route_v3::HeaderMatcher {
    let pattern = format!(r"(?i)[^.:]+\.{}(:[0-9]+)?", suffix.replace('.', r"\."));
    authority(matcher_v3::string_matcher::MatchPattern::SafeRegex(regex(pattern)))
}

/// A match of `:authority`.
fn authority(pattern: matcher_v3::string_matcher::MatchPattern) -> route_v3::HeaderMatcher {
    route_v3::HeaderMatcher {
        name: ":authority".to_owned(),
        header_match_specifier: Some(route_v3::header_matcher::HeaderMatchSpecifier::StringMatch(
            matcher_v3::StringMatcher { match_pattern: Some(pattern), ..Default::default() },
        )),
        ..Default::default()
    }
}

/// A full match of an RE2 pattern.
pub(super) fn regex(pattern: String) -> matcher_v3::RegexMatcher {
    matcher_v3::RegexMatcher { regex: pattern, engine_type: None }
}

/// Forwarding. An absent timeout is written as 0, for Envoy takes 15 s where nothing is said.
pub(super) fn route_action(forward: &Forward) -> route_v3::RouteAction {
    use route_v3::route_action::{ClusterSpecifier, UpgradeConfig};
    let Forward { clusters, timeout, retry, websocket } = forward;
    let cluster = match clusters.as_slice() {
        [only] => ClusterSpecifier::Cluster(only.cluster.to_string()),
        several => ClusterSpecifier::WeightedClusters(route_v3::WeightedCluster {
            clusters: several
                .iter()
                .map(|one| route_v3::weighted_cluster::ClusterWeight {
                    name: one.cluster.to_string(),
                    weight: Some(wire::uint32(one.weight)),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        }),
    };
    // The connection manager lets websockets through, so a route speaks only to forbid them.
    let refused = UpgradeConfig {
        upgrade_type: "websocket".to_owned(),
        enabled: Some(wire::boolean(false)),
        ..Default::default()
    };
    route_v3::RouteAction {
        cluster_specifier: Some(cluster),
        timeout: Some(wire::duration(timeout.unwrap_or(Duration::ZERO))),
        retry_policy: retry.as_deref().map(retry_policy),
        upgrade_configs: if *websocket { vec![] } else { vec![refused] },
        ..Default::default()
    }
}

/// A retry goes to another endpoint if there is one.
fn retry_policy(retry: &Retry) -> route_v3::RetryPolicy {
    use route_v3::retry_policy::{RetryHostPredicate, retry_host_predicate::ConfigType};
    let Retry { on, retries, per_try_timeout } = retry;
    route_v3::RetryPolicy {
        retry_on: on.clone(),
        num_retries: Some(wire::uint32(*retries)),
        per_try_timeout: per_try_timeout.map(wire::duration),
        retry_host_predicate: vec![RetryHostPredicate {
            name: "envoy.retry_host_predicates.previous_hosts".to_owned(),
            config_type: Some(ConfigType::TypedConfig(wire::any(&previous_hosts_v3::PreviousHostsPredicate {}))),
        }],
        host_selection_retry_max_attempts: 3,
        ..Default::default()
    }
}

/// Redirects to the same URL on https.
///
/// A port in the request's `Host` is that of the plain-text listener and leads nowhere on https. Envoy keeps it unless it
/// is told one to put in its place, and then writes that one always; so requests that bring a port have a route of their
/// own, which makes it 443.
///
/// Nothing in them tells hosts apart, neither the host nor the object behind it: all hosts with nothing but redirects are
/// one virtual host, and redirects are most of what a site with TLS has here. Nobody is asked whether one may be sent.
fn redirects_to_https(
    matched: &route_v3::RouteMatch,
    status: u16,
    port: Option<u16>,
    marks: &Marks,
) -> Vec<route_v3::Route> {
    let redirect = |matched: route_v3::RouteMatch, port: u16| route_v3::Route {
        name: names::REDIRECT.to_owned(),
        r#match: Some(matched),
        action: Some(route_v3::route::Action::Redirect(redirect_to_https(status, port))),
        typed_per_filter_config: marks.unasked.clone(),
        ..Default::default()
    };
    if let Some(port) = port.filter(|port| *port != 443) {
        return vec![redirect(matched.clone(), port)];
    }
    let has_port = authority(matcher_v3::string_matcher::MatchPattern::Contains(":".to_owned()));
    let (mut with_port, mut without) = (matched.clone(), matched.clone());
    // Envoy looks at headers first, and shall not try the same regular expression twice.
    if let Some(route_v3::route_match::PathSpecifier::SafeRegex(_)) = matched.path_specifier {
        without.headers.push(route_v3::HeaderMatcher { invert_match: true, ..has_port.clone() });
    }
    with_port.headers.push(has_port);
    vec![redirect(with_port, 443), redirect(without, 0)]
}

/// The redirect; a port of 0 leaves it as it is.
fn redirect_to_https(status: u16, port: u16) -> route_v3::RedirectAction {
    use route_v3::redirect_action::{RedirectResponseCode, SchemeRewriteSpecifier};
    let response_code = match status {
        302 => RedirectResponseCode::Found,
        303 => RedirectResponseCode::SeeOther,
        307 => RedirectResponseCode::TemporaryRedirect,
        308 => RedirectResponseCode::PermanentRedirect,
        _ => RedirectResponseCode::MovedPermanently,
    };
    route_v3::RedirectAction {
        port_redirect: port.into(),
        response_code: response_code as i32,
        scheme_rewrite_specifier: Some(SchemeRewriteSpecifier::HttpsRedirect(true)),
        ..Default::default()
    }
}

/// An answer by Envoy itself. The text tells it from the same status out of a backend.
pub(super) fn direct_response(status: u16) -> route_v3::DirectResponseAction {
    let text = match status {
        404 => "no route for this host and path\n",
        421 => "this connection was opened for another host\n",
        503 => "the backend of this route is not available\n",
        _ => "",
    };
    response(status, text)
}

/// An answer with this text.
fn response(status: u16, text: &str) -> route_v3::DirectResponseAction {
    route_v3::DirectResponseAction {
        status: status.into(),
        body: (!text.is_empty()).then(|| wire::inline_string(text)),
        ..Default::default()
    }
}

/// The object behind a route, for the access log and for whoever reads a configuration dump.
fn metadata(origin: &ObjectRef) -> core_v3::Metadata {
    let fields = [("kind", origin.kind), ("namespace", &*origin.namespace), ("name", &*origin.name)];
    core_v3::Metadata {
        filter_metadata: HashMap::from([(names::METADATA.to_owned(), wire::text_struct(fields))]),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests;
