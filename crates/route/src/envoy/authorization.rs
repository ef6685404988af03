//! External authorization: a server that permits or denies each request.

use std::collections::HashMap;

use envoy_types::pb::envoy::config::common::mutation_rules::v3 as mutation_rules_v3;
use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::envoy::extensions::filters::http::ext_authz::v3 as ext_authz_v3;
use envoy_types::pb::envoy::extensions::filters::http::header_mutation::v3 as header_mutation_v3;
use envoy_types::pb::envoy::extensions::filters::http::rbac::v3 as rbac_v3;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm_v3;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher_v3;
use envoy_types::pb::google::protobuf as google;

use super::{delegate, names, services, wire};
use crate::model::{
    Authorization, AuthorizationCheck, AuthorizationHttp, AuthorizationProtocol, ClusterId, ForwardFilter, HeaderName,
    HeaderPattern, LOOP, RequestBody, SettingsAuthorization,
};
use crate::settings::ExternalAuthorization;

/// The name of the filter, to which routes refer.
const FILTER: &str = "envoy.filters.http.ext_authz";

/// The filters of routes that send a context, by whether a server that does not answer permits requests. Envoy takes a context only from the
/// configuration of a route for a filter of the listener, not in a [`delegate`], and the other one only from the listener.
const WITH_CONTEXT: [(&str, bool); 2] = [("lockgate.authorization", false), ("lockgate.authorization-or-permit", true)];

/// The cluster of these filters without a route. It does not exist.
const NO_CLUSTER: &str = "lockgate.no-authorization";

/// Builds the HTTP filters if a server is configured.
///
/// The server's response may change the route, so the route is selected again afterwards.
pub fn filters(settings: &ExternalAuthorization) -> impl Iterator<Item = hcm_v3::HttpFilter> {
    let asking = filter(settings);
    let removing = without_answers(&settings.check).filter(|_| asking.is_some()).map(|part| hcm_v3::HttpFilter {
        name: part.name,
        config_type: part.typed_config.map(hcm_v3::http_filter::ConfigType::TypedConfig),
        ..Default::default()
    });
    removing.into_iter().chain(asking)
}

fn filter(settings: &ExternalAuthorization) -> Option<hcm_v3::HttpFilter> {
    let ExternalAuthorization { endpoint, check, context: _ } = settings;
    let cluster = match check.protocol {
        AuthorizationProtocol::Grpc => names::AUTHORIZATION_CLUSTER,
        AuthorizationProtocol::Http => names::HTTP_AUTHORIZATION_CLUSTER,
    };
    let filter =
        ext_authz_v3::ExtAuthz { clear_route_cache: true, ..asking(check, cluster, &endpoint.as_ref()?.to_string()) };
    Some(hcm_v3::HttpFilter {
        name: FILTER.to_owned(),
        config_type: Some(hcm_v3::http_filter::ConfigType::TypedConfig(wire::any(&filter))),
        ..Default::default()
    })
}

/// Builds the filters of routes that send a context. They are always disabled: an enabled one would ask a server for all requests.
///
/// Envoy selects them with the first route of a request. If the fallback selects another route, that route must deny the request:
/// [`only_lower_case`].
pub fn filters_with_context() -> impl Iterator<Item = hcm_v3::HttpFilter> {
    WITH_CONTEXT.into_iter().map(|(name, fail_open)| {
        let check = AuthorizationCheck { fail_open, ..AuthorizationCheck::default() };
        let config = ext_authz_v3::ExtAuthz {
            decoder_header_mutation_rules: Some(changeable()),
            ..asking(&check, NO_CLUSTER, NO_CLUSTER)
        };
        hcm_v3::HttpFilter {
            name: name.to_owned(),
            disabled: true,
            config_type: Some(hcm_v3::http_filter::ConfigType::TypedConfig(wire::any(&config))),
            ..Default::default()
        }
    })
}

/// Returns whether a filter of the listener is one for routes that send a context.
pub fn is_with_context(filter: &str) -> bool {
    WITH_CONTEXT.iter().any(|(name, _)| *name == filter)
}

/// Builds the configuration of a route that sends a context, by filter.
pub fn of_route_with_context(authorization: &Authorization) -> Option<(String, google::Any)> {
    use ext_authz_v3::check_settings::ServiceOverride;
    let Authorization { cluster, shares: _, check, context, grpc_headers: _, copies_answer: _ } = authorization;
    let (name, _) =
        WITH_CONTEXT.into_iter().find(|(_, fail_open)| !context.is_empty() && *fail_open == check.fail_open)?;
    let mut service = services::grpc(&cluster.to_string(), check.timeout);
    services::forward_marks(&mut service);
    services::set_authority(&mut service, &host(cluster));
    let check = ext_authz_v3::CheckSettings {
        context_extensions: context.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
        with_request_body: body(check.request_body),
        service_override: Some(ServiceOverride::GrpcService(service)),
        ..Default::default()
    };
    let check = ext_authz_v3::ext_authz_per_route::Override::CheckSettings(check);
    let check = ext_authz_v3::ExtAuthzPerRoute { r#override: Some(check) };
    Some((name.to_owned(), wire::any(&check)))
}

/// Builds the filter of a route that sends a context: requests for hosts in upper case, whose route the fallback selects, are denied.
pub fn only_lower_case(authorization: &Authorization) -> Option<core_v3::TypedExtensionConfig> {
    use envoy_types::pb::envoy::config::rbac::v3 as rbac_config_v3;
    use rbac_config_v3::{permission, principal};
    if authorization.context.is_empty() {
        return None;
    }
    let upper_case = route_v3::HeaderMatcher {
        name: ":authority".to_owned(),
        header_match_specifier: Some(route_v3::header_matcher::HeaderMatchSpecifier::StringMatch(
            matcher_v3::StringMatcher {
                match_pattern: Some(matcher_v3::string_matcher::MatchPattern::SafeRegex(matcher_v3::RegexMatcher {
                    regex: ".*[A-Z].*".to_owned(),
                    ..Default::default()
                })),
                ..Default::default()
            },
        )),
        ..Default::default()
    };
    let rule = Some(permission::Rule::Header(upper_case));
    let any = rbac_config_v3::Principal { identifier: Some(principal::Identifier::Any(true)) };
    let policy = rbac_config_v3::Policy {
        permissions: vec![rbac_config_v3::Permission { rule }],
        principals: vec![any],
        ..Default::default()
    };
    let rules = rbac_config_v3::Rbac {
        action: rbac_config_v3::rbac::Action::Deny as i32,
        policies: HashMap::from([("upper-case".to_owned(), policy)]),
        ..Default::default()
    };
    let rbac = rbac_v3::Rbac { rules: Some(rules), ..Default::default() };
    Some(delegate::part("envoy.filters.http.rbac", &rbac))
}

/// Returns the host of a server.
pub fn host(cluster: &ClusterId) -> String {
    let service = cluster.port.service();
    format!("{}.{}", service.name, service.namespace)
}

/// Builds the filter of a route with a separate server.
///
/// The response never changes the route: the policies of another route would not apply.
pub fn of_route(authorization: &Authorization) -> core_v3::TypedExtensionConfig {
    let Authorization { cluster, shares: _, check, grpc_headers, copies_answer, context: _ } = authorization;
    let host = host(cluster);
    let mut config = ext_authz_v3::ExtAuthz {
        decoder_header_mutation_rules: Some(changeable()),
        ..asking(check, &cluster.to_string(), &host)
    };
    match &mut config.services {
        Some(ext_authz_v3::ext_authz::Services::GrpcService(service)) => {
            services::set_authority(service, &host);
            services::forward_marks(service);
            config.allowed_headers = matching(grpc_headers, &[]);
        }
        Some(ext_authz_v3::ext_authz::Services::HttpService(service)) if *copies_answer => {
            let answer = service.authorization_response.get_or_insert_default();
            answer.allowed_upstream_headers = Some(everything());
        }
        _ => {}
    }
    delegate::part(FILTER, &config)
}

/// Builds the filter in front of the server that removes the headers which its answer sets: Envoy leaves a header of the client as it is if
/// the answer lacks it, so a client could pose as another user. What the server receives and what Envoy itself sets stays, and so do headers
/// that only a pattern names.
pub fn without_answers(check: &AuthorizationCheck) -> Option<core_v3::TypedExtensionConfig> {
    use mutation_rules_v3::header_mutation::Action;
    let AuthorizationHttp {
        path_prefix: _,
        allowed_request_headers,
        allowed_upstream_headers,
        request_patterns,
        upstream_patterns,
    } = &check.http;
    let exact = upstream_patterns.iter().filter_map(|pattern| match pattern {
        HeaderPattern::Exact(name) => Some(name),
        HeaderPattern::Prefix(_) | HeaderPattern::Suffix(_) | HeaderPattern::Contains(_) => None,
    });
    let stays = |name: &str| {
        let name = name.to_ascii_lowercase();
        let is_of_envoy = name == "x-request-id" || name.starts_with("x-forwarded-");
        let is_sent = allowed_request_headers.iter().any(|sent| sent.eq_ignore_ascii_case(&name))
            || request_patterns.iter().any(|pattern| pattern.matches(&name));
        is_of_envoy || is_sent || name == "authorization"
    };
    let names = allowed_upstream_headers.iter().chain(exact).filter(|name| !stays(name));
    let removed = names.map(|name| mutation_rules_v3::HeaderMutation { action: Some(Action::Remove(name.clone())) });
    let request_mutations: Vec<_> = removed.collect();
    if check.protocol != AuthorizationProtocol::Http || request_mutations.is_empty() {
        return None;
    }
    let mutations = header_mutation_v3::Mutations { request_mutations, ..Default::default() };
    let config = header_mutation_v3::HeaderMutation { mutations: Some(mutations), ..Default::default() };
    Some(delegate::part("lockgate.without-answers", &config))
}

/// Builds the configuration of the filter. The server receives the certificate of a client that presents one.
fn asking(check: &AuthorizationCheck, cluster: &str, host: &str) -> ext_authz_v3::ExtAuthz {
    use ext_authz_v3::ext_authz::Services;
    let AuthorizationCheck { protocol, timeout, fail_open, request_body, http } = check;
    let services = match protocol {
        AuthorizationProtocol::Grpc => Services::GrpcService(services::grpc(cluster, *timeout)),
        AuthorizationProtocol::Http => Services::HttpService(ext_authz_v3::HttpService {
            server_uri: Some(core_v3::HttpUri {
                uri: format!("http://{host}"),
                timeout: Some(wire::duration(*timeout)),
                http_upstream_type: Some(core_v3::http_uri::HttpUpstreamType::Cluster(cluster.to_owned())),
            }),
            path_prefix: http.path_prefix.clone().unwrap_or_default(),
            authorization_response: Some(ext_authz_v3::AuthorizationResponse {
                allowed_upstream_headers: matching(&http.allowed_upstream_headers, &http.upstream_patterns),
                ..Default::default()
            }),
            ..Default::default()
        }),
    };
    let AuthorizationHttp { allowed_request_headers, request_patterns, .. } = http;
    // The header with the mark ends a loop through the server.
    let mark = (*protocol == AuthorizationProtocol::Http).then(|| LOOP.to_owned());
    let sent: Vec<String> = allowed_request_headers.iter().cloned().chain(mark).collect();
    ext_authz_v3::ExtAuthz {
        services: Some(services),
        transport_api_version: core_v3::ApiVersion::V3 as i32,
        failure_mode_allow: *fail_open,
        with_request_body: body(*request_body),
        include_peer_certificate: true,
        allowed_headers: matching(&sent, request_patterns),
        ..Default::default()
    }
}

fn body(part: RequestBody) -> Option<ext_authz_v3::BufferSettings> {
    let RequestBody { max_bytes, allow_partial, pack_as_bytes } = part;
    let max_request_bytes = max_bytes?;
    Some(ext_authz_v3::BufferSettings { max_request_bytes, allow_partial_message: allow_partial, pack_as_bytes })
}

/// Builds the rules for headers that the server of a tenant sets, adds, or removes. Envoy ignores the other changes, and by default
/// also those of pseudo-headers and `host`.
pub fn changeable() -> mutation_rules_v3::HeaderMutationRules {
    let regex = format!("(?i)({})", HeaderName::UNCHANGEABLE);
    mutation_rules_v3::HeaderMutationRules {
        disallow_expression: Some(matcher_v3::RegexMatcher { regex, ..Default::default() }),
        ..Default::default()
    }
}

/// Builds the matcher of all header names.
fn everything() -> matcher_v3::ListStringMatcher {
    let regex = matcher_v3::RegexMatcher { regex: ".*".to_owned(), ..Default::default() };
    let any = matcher_v3::string_matcher::MatchPattern::SafeRegex(regex);
    let patterns = vec![matcher_v3::StringMatcher { match_pattern: Some(any), ..Default::default() }];
    matcher_v3::ListStringMatcher { patterns }
}

/// Builds matchers of header names, which are in lower case. Returns `None` if there are no names.
fn matching(headers: &[String], patterns: &[HeaderPattern]) -> Option<matcher_v3::ListStringMatcher> {
    use matcher_v3::string_matcher::MatchPattern;
    let exact = headers.iter().map(|name| MatchPattern::Exact(name.clone()));
    let others = patterns.iter().cloned().map(|pattern| match pattern {
        HeaderPattern::Exact(text) => MatchPattern::Exact(text),
        HeaderPattern::Prefix(text) => MatchPattern::Prefix(text),
        HeaderPattern::Suffix(text) => MatchPattern::Suffix(text),
        HeaderPattern::Contains(text) => MatchPattern::Contains(text),
    });
    let matcher = |pattern| matcher_v3::StringMatcher { match_pattern: Some(pattern), ..Default::default() };
    let patterns: Vec<_> = exact.chain(others).map(matcher).collect();
    (!patterns.is_empty()).then_some(matcher_v3::ListStringMatcher { patterns })
}

/// Adds to `routes` the context that the settings send to the server. The context is on the route configuration, so
/// routes do not grow.
pub fn with_context(
    mut routes: route_v3::RouteConfiguration,
    settings: &ExternalAuthorization,
) -> route_v3::RouteConfiguration {
    use ext_authz_v3::ext_authz_per_route::Override;
    if settings.endpoint.is_some() && !settings.context.is_empty() {
        let context_extensions = settings.context.clone().into_iter().collect();
        let check = ext_authz_v3::CheckSettings { context_extensions, ..Default::default() };
        routes.typed_per_filter_config.extend(overriding(Override::CheckSettings(check)));
    }
    routes
}

/// Builds the configuration of a route that differs from other routes for the server of the settings.
pub fn of_settings(filters: &[ForwardFilter]) -> HashMap<String, google::Any> {
    use ext_authz_v3::ext_authz_per_route::Override;
    let difference = filters.iter().find_map(|filter| match filter {
        ForwardFilter::SettingsAuthorization(difference) => Some(difference),
        _ => None,
    });
    match difference {
        None => HashMap::new(),
        Some(SettingsAuthorization::Off) => overriding(Override::Disabled(true)),
        Some(SettingsAuthorization::Context(context)) => {
            let context_extensions = context.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            overriding(Override::CheckSettings(ext_authz_v3::CheckSettings {
                context_extensions,
                ..Default::default()
            }))
        }
    }
}

/// Builds the configuration that disables authorization on a route. It is empty if no server is configured.
pub fn unasked(settings: &ExternalAuthorization) -> HashMap<String, google::Any> {
    match settings.endpoint {
        Some(_) => overriding(ext_authz_v3::ext_authz_per_route::Override::Disabled(true)),
        None => HashMap::new(),
    }
}

fn overriding(said: ext_authz_v3::ext_authz_per_route::Override) -> HashMap<String, google::Any> {
    let said = ext_authz_v3::ExtAuthzPerRoute { r#override: Some(said) };
    HashMap::from([(FILTER.to_owned(), wire::any(&said))])
}
