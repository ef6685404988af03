//! JSON Web Tokens of requests.

use std::collections::HashMap;

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::envoy::extensions::filters::http::jwt_authn::v3 as jwt_v3;
use jwt_v3::jwt_provider::JwksSourceSpecifier;
use jwt_v3::jwt_requirement::RequiresType;
use jwt_v3::requirement_rule::RequirementType;

use super::{delegate, wire};
use crate::model::{Jwt, JwtProvider};

/// Builds the filter of a route that requires a token of one of the providers.
/// Requests without a valid token are answered 401, requests with a token for other audiences 403. The backend receives
/// the token.
pub fn of_route(jwt: &Jwt) -> core_v3::TypedExtensionConfig {
    let named = |(i, provider): (usize, &JwtProvider)| (i.to_string(), self::provider(provider));
    let providers: HashMap<String, jwt_v3::JwtProvider> = jwt.providers.iter().enumerate().map(named).collect();
    let requirement =
        |i: usize| jwt_v3::JwtRequirement { requires_type: Some(RequiresType::ProviderName(i.to_string())) };
    let requires = match jwt.providers.len() {
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

fn provider(provider: &JwtProvider) -> jwt_v3::JwtProvider {
    let JwtProvider { issuer, audiences, jwks } = provider;
    jwt_v3::JwtProvider {
        issuer: issuer.to_string(),
        audiences: audiences.iter().map(ToString::to_string).collect(),
        jwks_source_specifier: Some(JwksSourceSpecifier::LocalJwks(wire::inline_string(jwks))),
        forward: true,
        // By default, Envoy also reads the query, which ends up in logs.
        from_headers: vec![jwt_v3::JwtHeader { name: "Authorization".to_owned(), value_prefix: "Bearer ".to_owned() }],
        ..Default::default()
    }
}
