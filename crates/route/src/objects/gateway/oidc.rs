//! The feature of HTTPPolicies for the login of users at an OpenID provider.

use serde::{Deserialize, Serialize};

use super::authentication::PolicySecret;
use super::policy_parts::PolicyBackend;

/// The login of users at an OpenID provider. Source: OpenID Connect Core 1.0, the authorization code flow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OidcSpec {
    /// The provider.
    pub provider: OidcProviderSpec,
    /// The identifier of this application at the provider.
    #[serde(rename = "clientID")]
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 253)))]
    pub client_id: String,
    /// The Secret with the secret of this application, in the data key `client-secret`. The key of the cookies is derived from it, so a new
    /// secret ends all sessions.
    pub client_secret_ref: PolicySecret,
    /// The requested scopes in addition to `openid`, such as `email`.
    #[cfg_attr(feature = "testing", schemars(length(max = 16), inner(length(min = 1, max = 253))))]
    #[serde(default)]
    pub scopes: Vec<String>,
    /// The path to which the provider redirects browsers after the login; `/oauth2/callback` if not set. A route of the policy must match it.
    /// The provider must permit it, as `https://HOST/oauth2/callback`, for each host of the policy.
    #[cfg_attr(feature = "testing", schemars(length(min = 2, max = 253), regex(pattern = r"^/[A-Za-z0-9/._~-]+$")))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect_path: Option<String>,
    /// The path that ends the session; `/oauth2/logout` if not set. A route of the policy must match it.
    #[cfg_attr(feature = "testing", schemars(length(min = 2, max = 253), regex(pattern = r"^/[A-Za-z0-9/._~-]+$")))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logout_path: Option<String>,
    /// Sends the access token to backends, as `Authorization: Bearer`. Without it, the header of the client is removed.
    #[serde(default)]
    pub forward_access_token: bool,
}

/// An OpenID provider. Its endpoints are in its configuration, at `/.well-known/openid-configuration`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OidcProviderSpec {
    /// The `authorization_endpoint`, to which browsers are redirected for the login.
    #[cfg_attr(
        feature = "testing",
        schemars(length(min = 1, max = 1024), regex(pattern = "^https?://[^/?#@ ]+(/[^?# ]*)?$"))
    )]
    pub authorization_endpoint: String,
    /// The `token_endpoint`, which Envoy requests. Its host and path are sent to `backendRef`. `https` needs a BackendTLSPolicy.
    #[cfg_attr(
        feature = "testing",
        schemars(length(min = 1, max = 1024), regex(pattern = "^https?://[^/?#@ ]+(/[^# ]*)?$"))
    )]
    pub token_endpoint: String,
    /// The `end_session_endpoint`, to which browsers are redirected by `logoutPath`. If not set, the session at the provider goes on.
    #[cfg_attr(
        feature = "testing",
        schemars(length(min = 1, max = 1024), regex(pattern = "^https?://[^/?#@ ]+(/[^?# ]*)?$"))
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_session_endpoint: Option<String>,
    /// The server of the token endpoint: a port of a Service. For a server outside of the cluster, the Service has the type ExternalName.
    pub backend_ref: PolicyBackend,
}
