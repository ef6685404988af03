//! External authorization: a server that permits or denies each request.

use std::collections::HashMap;

use envoy_types::pb::envoy::config::common::mutation_rules::v3 as mutation_rules_v3;
use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::envoy::extensions::filters::http::ext_authz::v3 as ext_authz_v3;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm_v3;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher_v3;
use envoy_types::pb::google::protobuf as google;

use super::{delegate, names, services, wire};
use crate::model::{
    Authorization, AuthorizationCheck, AuthorizationHttp, AuthorizationProtocol, HeaderName, HeaderPattern, LOOP,
    RequestBody,
};
use crate::settings::ExternalAuthorization;

/// The name of the filter, to which routes refer.
const FILTER: &str = "envoy.filters.http.ext_authz";

/// Builds the HTTP filter if a server is configured.
///
/// The server's response may change the route, so the route is selected again afterwards.
pub fn filter(settings: &ExternalAuthorization) -> Option<hcm_v3::HttpFilter> {
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

/// Builds the filter of a route with a separate server.
///
/// The response never changes the route: the policies of another route would not apply.
pub fn of_route(authorization: &Authorization) -> core_v3::TypedExtensionConfig {
    let Authorization { cluster, check, grpc_headers, copies_answer } = authorization;
    let service = cluster.port.service();
    let host = format!("{}.{}", service.name, service.namespace);
    let mut config = ext_authz_v3::ExtAuthz {
        decoder_header_mutation_rules: Some(changeable()),
        ..asking(check, &cluster.to_string(), &host)
    };
    match &mut config.services {
        Some(ext_authz_v3::ext_authz::Services::GrpcService(service)) => {
            services::set_authority(service, &host);
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
    let RequestBody { max_bytes, allow_partial, pack_as_bytes } = *request_body;
    ext_authz_v3::ExtAuthz {
        services: Some(services),
        transport_api_version: core_v3::ApiVersion::V3 as i32,
        failure_mode_allow: *fail_open,
        with_request_body: max_bytes.map(|max_request_bytes| ext_authz_v3::BufferSettings {
            max_request_bytes,
            allow_partial_message: allow_partial,
            pack_as_bytes,
        }),
        include_peer_certificate: true,
        allowed_headers: matching(&sent, request_patterns),
        ..Default::default()
    }
}

/// Builds the rules for headers that the server of a tenant sets, adds, or removes. Envoy ignores the other changes, and by default
/// also those of pseudo-headers and `host`.
fn changeable() -> mutation_rules_v3::HeaderMutationRules {
    let regex = format!("(?i)({})", HeaderName::unchangeable());
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
