//! Users with passwords (HTTP basic authentication).

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::extensions::filters::http::basic_auth::v3 as basic_auth_v3;

use super::{delegate, wire};
use crate::model::BasicAuthentication;

/// Builds the filter of a route for these users. Other requests are answered 401, with the header `WWW-Authenticate`. The backend receives
/// the password.
pub fn of_route(authentication: &BasicAuthentication) -> core_v3::TypedExtensionConfig {
    let BasicAuthentication { users, user_header } = authentication;
    let lines: Vec<String> = users.iter().map(|(name, hash)| format!("{name}:{}", &**hash)).collect();
    let config = basic_auth_v3::BasicAuth {
        users: Some(wire::inline_string(&lines.join("\n"))),
        forward_username_header: user_header.as_ref().map(ToString::to_string).unwrap_or_default(),
        ..Default::default()
    };
    delegate::part("envoy.filters.http.basic_auth", &config)
}
