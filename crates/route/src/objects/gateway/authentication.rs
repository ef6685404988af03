//! The features of HTTPPolicies that tell who may send requests.

use serde::{Deserialize, Serialize};

use super::policy_parts::PolicyBackend;

/// The users whose name and password requests need (HTTP basic authentication).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BasicAuthenticationSpec {
    /// The Secret with the users. Its data key `.htpasswd` or `auth` has a line for each user, as `htpasswd -s` writes it: Envoy verifies
    /// SHA-1 hashes alone.
    pub secret_ref: PolicySecret,
    /// The request header that tells the backend the name of the user.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 253)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_header: Option<String>,
}

/// The API keys of which requests need one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApiKeysSpec {
    /// The Secrets with the keys, of type `lockgate.dev/api-keys`: each data key is the name of a client, with its API key.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 16)))]
    pub secret_refs: Vec<PolicySecret>,
    /// The places of the key in a request. The first place that a request has counts. The key is removed before the request is forwarded.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 4)))]
    pub sources: Vec<ApiKeySourceSpec>,
    /// The request header that tells the backend the name of the client.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 253)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_header: Option<String>,
}

/// A place of an API key: exactly one of the fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "testing",
    derive(schemars::JsonSchema),
    schemars(extend("x-kubernetes-validations" = [{
        "rule": "[has(self.header), has(self.query), has(self.cookie)].filter(set, set).size() == 1",
        "message": "exactly one of header, query, and cookie must be set",
    }]))
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApiKeySourceSpec {
    /// A header with the key as its value. `Bearer ` before the key is ignored.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 253)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// A parameter of the query. It can end up in the logs of other programs.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 253)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// A cookie.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 253)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookie: Option<String>,
}

/// A Secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicySecret {
    /// The name.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 253)))]
    pub name: String,
    /// The namespace; that of the policy if not set. Another namespace needs a ReferenceGrant from the kind HTTPPolicy of the group
    /// lockgate.dev.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 63)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// The web pages whose requests may change something.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct CsrfSpec {
    /// The hosts of pages in addition to the host of the request: `app.example.com`, `app.example.com:8443` with another than the default port, or
    /// `*.example.com` for all its subdomains.
    #[cfg_attr(feature = "testing", schemars(length(max = 32), inner(length(min = 1, max = 259))))]
    pub additional_origins: Vec<String>,
}

/// The JSON Web Token that requests need.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JwtSpec {
    /// The issuers of tokens, each once. A token of any issuer is accepted.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 4)))]
    pub providers: Vec<JwtProviderSpec>,
}

/// An issuer of tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JwtProviderSpec {
    /// The required claim `iss`.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 253)))]
    pub issuer: String,
    /// The accepted values of the claim `aud`. Any value if empty.
    #[cfg_attr(feature = "testing", schemars(length(max = 16), inner(length(min = 1, max = 253))))]
    #[serde(default)]
    pub audiences: Vec<String>,
    /// The keys as a JSON Web Key Set: inline, of a server, or both.
    pub jwks: JwksSpec,
}

/// A JSON Web Key Set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "testing",
    derive(schemars::JsonSchema),
    schemars(extend("x-kubernetes-validations" = [{
        "rule": "has(self.inline) || has(self.remote)",
        "message": "inline or remote must be set",
    }]))
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JwksSpec {
    /// The set itself: a JSON object with the list `keys`. Beside `remote`, these keys are also accepted.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 16384)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline: Option<String>,
    /// A server with the set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteJwksSpec>,
}

/// A server with a JSON Web Key Set. Each Envoy fetches the set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RemoteJwksSpec {
    /// The URI of the set, such as `https://login.example.com/keys`. Its host and path are sent to `backendRef`. `https` needs a
    /// BackendTLSPolicy.
    #[cfg_attr(
        feature = "testing",
        schemars(length(min = 1, max = 1024), regex(pattern = "^https?://[^/?#@ ]+(/[^# ]*)?$"))
    )]
    pub uri: String,
    /// The server: a port of a Service. For a server outside of the cluster, the Service has the type ExternalName.
    pub backend_ref: PolicyBackend,
    /// The time limit of an answer, such as `500ms`; 5 s if not set.
    #[cfg_attr(feature = "testing", schemars(length(min = 2, max = 16)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// The time after which the set is fetched again, from `1m` to `24h`; 10 minutes if not set.
    #[cfg_attr(feature = "testing", schemars(length(min = 2, max = 16)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh_interval: Option<String>,
}
