//! The access policies of hosts and routes of HTTPProxies.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::backend::UpstreamValidation;
use super::conditions::ValueCondition;
use super::headers::HeaderSetting;
use super::rest::Rest;

/// Addresses of clients.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct IpFilterPolicy {
    /// Which address of a client counts: `Peer` or `Remote`.
    pub source: String,
    /// A range, or a single address.
    pub cidr: String,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// Limits of the request rate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct RateLimitPolicy {
    /// The limit that each Envoy counts by itself.
    pub local: Option<LocalRateLimitPolicy>,
    /// The limit that a service counts for all Envoys.
    pub global: Option<GlobalRateLimitPolicy>,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// A limit that each Envoy counts by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct LocalRateLimitPolicy {
    /// The number of requests in each unit.
    pub requests: i64,
    /// `second`, `minute`, or `hour`.
    pub unit: String,
    /// The number of additional requests that may arrive at once.
    pub burst: i64,
    /// The status of requests over the limit; 429 if absent.
    pub response_status_code: Option<i64>,
    /// The headers of the answer to requests over the limit.
    pub response_headers_to_add: Vec<HeaderSetting>,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// The descriptors that a service counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct GlobalRateLimitPolicy {
    /// Whether the descriptors of the host, or of the settings, are not sent.
    pub disabled: bool,
    /// The descriptors.
    pub descriptors: Vec<RateLimitDescriptor>,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// A descriptor. It is sent only if a request has a value for each entry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct RateLimitDescriptor {
    /// The entries.
    pub entries: Vec<DescriptorEntry>,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// An entry of a descriptor: exactly one of its fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct DescriptorEntry {
    /// A constant.
    pub generic_key: Option<GenericKey>,
    /// The value of a header.
    pub request_header: Option<RequestHeaderEntry>,
    /// A constant for requests whose headers match.
    pub request_header_value_match: Option<HeaderValueMatch>,
    /// The address of the client.
    pub remote_address: Option<NoFields>,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// A block without fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct NoFields {}

/// A constant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct GenericKey {
    /// The key; `generic_key` if empty.
    pub key: String,
    /// The value.
    pub value: String,
}

/// The value of a header.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct RequestHeaderEntry {
    /// The header.
    pub header_name: String,
    /// The key.
    pub descriptor_key: String,
}

/// A constant for requests whose headers match.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct HeaderValueMatch {
    /// The conditions on headers. All must hold.
    pub headers: Vec<ValueCondition>,
    /// Whether the conditions must hold, the default, or must not.
    pub expect_match: Option<bool>,
    /// The value.
    pub value: String,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// The server that permits or denies the requests of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct AuthorizationServer {
    /// The ExtensionService.
    pub extension_ref: ExtensionServiceReference,
    /// `grpc` or `http`; `grpc` if empty.
    pub service_type: String,
    /// The settings of a server over HTTP.
    pub http_settings: Option<HttpAuthorizationSettings>,
    /// The policy of all routes.
    pub auth_policy: Option<AuthorizationPolicy>,
    /// The time limit of an answer. Empty: that of the ExtensionService.
    pub response_timeout: String,
    /// Whether requests pass if the server does not answer.
    pub fail_open: bool,
    /// The part of the body that the server receives.
    pub with_request_body: Option<AuthorizationServerBody>,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// A reference to an ExtensionService.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ExtensionServiceReference {
    /// The version of the API. Empty: that which is served.
    pub api_version: String,
    /// The namespace. Empty: that of the HTTPProxy.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// The settings of an authorization server over HTTP.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct HttpAuthorizationSettings {
    /// The beginning of the path.
    pub path_prefix: String,
    /// The headers of requests that the server receives.
    pub allowed_authorization_headers: Vec<HeaderNames>,
    /// The headers of the answer that the forwarded request has.
    pub allowed_upstream_headers: Vec<HeaderNames>,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// Names of headers. Empty texts are absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct HeaderNames {
    /// A name.
    pub exact: String,
    /// The beginning of names.
    pub prefix: String,
    /// The end of names.
    pub suffix: String,
    /// A part of names.
    pub contains: String,
    /// Whether the case of the names has no effect.
    pub ignore_case: bool,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// Whether and how requests are authorized.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct AuthorizationPolicy {
    /// Whether requests pass without the server. Absent: as the host says.
    pub disabled: bool,
    /// Texts that the server receives.
    pub context: BTreeMap<String, String>,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// The part of the body that an authorization server receives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct AuthorizationServerBody {
    /// The size in bytes; 1024 if absent.
    pub max_request_bytes: Option<i64>,
    /// Whether the server receives the beginning of a longer body.
    pub allow_partial_message: bool,
    /// Whether the body is sent as bytes instead of text.
    pub pack_as_bytes: bool,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// An issuer of tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct JwtProvider {
    /// The name, which routes refer to.
    pub name: String,
    /// Whether all routes without a policy need a token of this provider.
    pub default: bool,
    /// The claim `iss`. Empty: any.
    pub issuer: String,
    /// The values of the claim `aud`. Empty: any.
    pub audiences: Vec<String>,
    /// Keys that Envoy fetches.
    #[serde(rename = "remoteJWKS")]
    pub remote_jwks: Option<RemoteKeys>,
    /// Keys of a Secret.
    #[serde(rename = "localJWKS")]
    pub local_jwks: Option<LocalKeys>,
    /// Whether the backend receives the token.
    #[serde(rename = "forwardJWT")]
    pub forward_jwt: bool,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// Keys that Envoy fetches.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct RemoteKeys {
    /// The URI.
    pub uri: String,
    /// The time limit of an answer; 1 second if empty.
    pub timeout: String,
    /// The time after which the keys are fetched again; 5 minutes if empty.
    pub cache_duration: String,
    /// The address family of the server.
    pub dns_lookup_family: String,
    /// The verification of the certificate of the server.
    pub validation: Option<UpstreamValidation>,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// Keys of a Secret of the namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct LocalKeys {
    /// The Secret.
    pub secret_name: String,
    /// The data key.
    pub key: String,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// Which token a route needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct JwtVerificationPolicy {
    /// The name of the provider.
    pub require: String,
    /// Whether requests need no token.
    pub disabled: bool,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}
