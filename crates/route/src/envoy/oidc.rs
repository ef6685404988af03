//! The login of users at an OpenID provider.
//!
//! Envoy answers 503 until it has the secrets of a new policy, so that nobody can forge a session. Source: Envoy 1.40, tested.

use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::envoy::extensions::filters::http::oauth2::v3 as oauth2_v3;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher_v3;
use oauth2_v3::o_auth2_credentials::{CookieNames, TokenFormation};
use xxhash_rust::xxh3::xxh3_64;

use super::{delegate, wire};
use crate::model::Oidc;

/// The name of the filter.
const FILTER: &str = "envoy.filters.http.oauth2";
/// The time limit of an answer of the token endpoint.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The lifetime of an access token whose provider does not tell it.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(3600);
/// The requests that scripts send, which cannot follow a redirect to the provider. Source: Fetch Metadata Request Headers.
const MODES_OF_SCRIPTS: [&str; 3] = ["cors", "same-origin", "websocket"];

/// Builds the filter of a route that requires a login. Requests of scripts without a session are answered 401, others are redirected to the
/// provider.
pub fn of_route(oidc: &Oidc) -> core_v3::TypedExtensionConfig {
    let config = Some(config(oidc));
    delegate::part(FILTER, &oauth2_v3::OAuth2 { config })
}

fn config(oidc: &Oidc) -> oauth2_v3::OAuth2Config {
    let Oidc {
        session,
        client_id,
        client_secret,
        cookie_key,
        authorization_endpoint,
        token_endpoint,
        cluster,
        end_session_endpoint,
        scopes,
        redirect_path,
        logout_path,
        forwards_token,
    } = oidc;
    let credentials = oauth2_v3::OAuth2Credentials {
        client_id: client_id.to_string(),
        token_secret: Some(wire::secret(client_secret)),
        cookie_names: Some(cookie_names(session)),
        token_formation: Some(TokenFormation::HmacSecret(wire::secret(cookie_key))),
        ..Default::default()
    };
    // With proxies in front of Envoy, the header has the scheme of the client.
    let origin = "%REQ(x-forwarded-proto)%://%REQ(:authority)%";
    oauth2_v3::OAuth2Config {
        token_endpoint: Some(core_v3::HttpUri {
            uri: token_endpoint.to_string(),
            timeout: Some(wire::duration(TIMEOUT)),
            http_upstream_type: Some(core_v3::http_uri::HttpUpstreamType::Cluster(cluster.to_string())),
        }),
        authorization_endpoint: authorization_endpoint.to_string(),
        end_session_endpoint: end_session_endpoint.as_deref().unwrap_or_default().to_owned(),
        credentials: Some(credentials),
        redirect_uri: format!("{origin}{redirect_path}"),
        original_request_uri: origin.to_owned(),
        redirect_path_matcher: Some(path(redirect_path)),
        signout_path: Some(path(logout_path)),
        forward_bearer_token: *forwards_token,
        auth_scopes: scopes.iter().map(ToString::to_string).collect(),
        default_expires_in: Some(wire::duration(DEFAULT_LIFETIME)),
        deny_redirect_matcher: MODES_OF_SCRIPTS.iter().map(|mode| of_script(mode)).collect(),
        cookie_configs: Some(cookie_configs()),
        ..Default::default()
    }
}

fn path(path: &str) -> matcher_v3::PathMatcher {
    let exact = matcher_v3::StringMatcher {
        match_pattern: Some(matcher_v3::string_matcher::MatchPattern::Exact(path.to_owned())),
        ..Default::default()
    };
    matcher_v3::PathMatcher { rule: Some(matcher_v3::path_matcher::Rule::Path(exact)) }
}

fn of_script(mode: &str) -> route_v3::HeaderMatcher {
    use route_v3::header_matcher::HeaderMatchSpecifier;
    let exact = matcher_v3::StringMatcher {
        match_pattern: Some(matcher_v3::string_matcher::MatchPattern::Exact(mode.to_owned())),
        ..Default::default()
    };
    route_v3::HeaderMatcher {
        name: "sec-fetch-mode".to_owned(),
        header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(exact)),
        ..Default::default()
    }
}

/// Returns the names of the cookies. Two policies of one host have different cookies.
fn cookie_names(session: &str) -> CookieNames {
    let suffix = format!("{:08x}", xxh3_64(session.as_bytes()) >> 32);
    let name = |what: &str| format!("lockgate-{what}-{suffix}");
    CookieNames {
        bearer_token: name("access"),
        oauth_hmac: name("hmac"),
        oauth_expires: name("expires"),
        id_token: name("id"),
        refresh_token: name("refresh"),
        oauth_nonce: name("nonce"),
        code_verifier: name("verifier"),
    }
}

/// Cookies are not sent with requests that other sites cause, except for links, such as the redirect of the provider.
fn cookie_configs() -> oauth2_v3::CookieConfigs {
    let lax = || {
        let same_site = oauth2_v3::cookie_config::SameSite::Lax as i32;
        Some(oauth2_v3::CookieConfig { same_site, ..Default::default() })
    };
    oauth2_v3::CookieConfigs {
        bearer_token_cookie_config: lax(),
        oauth_hmac_cookie_config: lax(),
        oauth_expires_cookie_config: lax(),
        id_token_cookie_config: lax(),
        refresh_token_cookie_config: lax(),
        oauth_nonce_cookie_config: lax(),
        code_verifier_cookie_config: lax(),
    }
}
