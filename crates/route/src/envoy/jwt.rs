//! JSON Web Tokens of requests.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::envoy::extensions::filters::http::jwt_authn::v3 as jwt_v3;
use jwt_v3::jwt_provider::JwksSourceSpecifier;
use jwt_v3::jwt_requirement::RequiresType;
use jwt_v3::requirement_rule::RequirementType;

use super::{delegate, wire};
use crate::model::{Jwks, Jwt, JwtIssuer, RemoteJwks};

/// The time until Envoy tries again to fetch keys. Without keys, each request with a token tries too.
const RETRY: Duration = Duration::from_secs(30);

/// Builds the filter of a route that requires a token of one of the providers.
/// Requests without a valid token are answered 401, requests with a token for other audiences 403. The backend receives
/// the token if the provider forwards it.
pub fn of_route(jwt: &Jwt) -> core_v3::TypedExtensionConfig {
    let named = jwt.providers.iter().flat_map(self::providers).enumerate();
    let providers: HashMap<String, jwt_v3::JwtProvider> =
        named.map(|(i, provider)| (i.to_string(), provider)).collect();
    let requirement =
        |i: usize| jwt_v3::JwtRequirement { requires_type: Some(RequiresType::ProviderName(i.to_string())) };
    let requires = match providers.len() {
        1 => requirement(0),
        count => {
            let requirements = (0..count).map(requirement).collect();
            let any = RequiresType::RequiresAny(jwt_v3::JwtRequirementOrList { requirements });
            jwt_v3::JwtRequirement { requires_type: Some(any) }
        }
    };
    let everything = route_v3::RouteMatch {
        path_specifier: Some(route_v3::route_match::PathSpecifier::Prefix(String::new())),
        ..Default::default()
    };
    let rules = vec![jwt_v3::RequirementRule {
        r#match: Some(everything),
        requirement_type: Some(RequirementType::Requires(requires)),
    }];
    let config = jwt_v3::JwtAuthentication { providers, rules, ..Default::default() };
    delegate::part("envoy.filters.http.jwt_authn", &config)
}

/// Returns the filter's providers of an issuer: one for each set of keys.
fn providers(provider: &JwtIssuer) -> Vec<jwt_v3::JwtProvider> {
    let JwtIssuer { issuer, audiences, jwks, forwards, reads_query } = provider;
    let with = |keys: JwksSourceSpecifier| jwt_v3::JwtProvider {
        issuer: issuer.to_string(),
        audiences: audiences.iter().map(ToString::to_string).collect(),
        jwks_source_specifier: Some(keys),
        forward: *forwards,
        // By default, Envoy also reads the query, which ends up in logs.
        from_headers: vec![jwt_v3::JwtHeader { name: "Authorization".to_owned(), value_prefix: "Bearer ".to_owned() }],
        from_params: reads_query.then(|| "access_token".to_owned()).into_iter().collect(),
        ..Default::default()
    };
    let local = |keys: &Arc<str>| with(JwksSourceSpecifier::LocalJwks(wire::inline_string(keys)));
    match jwks {
        Jwks::Inline(keys) => vec![local(keys)],
        // Local keys are tried first, because a request does not wait for them.
        Jwks::Remote(remote) => {
            let fetched = with(JwksSourceSpecifier::RemoteJwks(self::remote(remote)));
            remote.fallback.iter().map(local).chain([fetched]).collect()
        }
    }
}

/// Envoy fetches the keys before the first request, and keeps the last ones if the server does not answer.
fn remote(remote: &RemoteJwks) -> jwt_v3::RemoteJwks {
    let RemoteJwks { uri, cluster, timeout, refresh, fallback: _ } = remote;
    let http_uri = core_v3::HttpUri {
        uri: uri.to_string(),
        timeout: Some(wire::duration(*timeout)),
        http_upstream_type: Some(core_v3::http_uri::HttpUpstreamType::Cluster(cluster.to_string())),
    };
    jwt_v3::RemoteJwks {
        http_uri: Some(http_uri),
        cache_duration: Some(wire::duration(*refresh)),
        // A route configuration must not wait for a server of a tenant.
        async_fetch: Some(jwt_v3::JwksAsyncFetch {
            fast_listener: true,
            failed_refetch_duration: Some(wire::duration(RETRY)),
        }),
        retry_policy: None,
    }
}
