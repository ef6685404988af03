//! The feature of HTTPPolicies that lets a server decide which requests are permitted.

use serde::{Deserialize, Serialize};

use super::policy_parts::PolicyBackend;

/// A server that permits or denies each request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExternalAuthorizationSpec {
    /// The server: a port of a Service, in plain text unless a BackendTLSPolicy targets it.
    pub backend_ref: PolicyBackend,
    /// The protocol of the server: `grpc`, the default, is `envoy.service.auth.v3.Authorization`. With `http`, the server
    /// receives a request with the same method and path, and answers 200 to permit it. Any other answer below 500 is the
    /// response to the client.
    #[cfg_attr(feature = "testing", schemars(extend("enum" = ["grpc", "http"])))]
    pub protocol: Option<String>,
    /// The time limit of the server's answer, such as `500ms`; 1 s if not set.
    #[cfg_attr(feature = "testing", schemars(length(min = 2, max = 16)))]
    pub timeout: Option<String>,
    /// Lets requests pass if the server does not respond.
    #[serde(default)]
    pub fail_open: bool,
    /// The part of the request body that the server receives.
    pub request_body: Option<AuthorizationBody>,
    /// Settings for the protocol `http`.
    pub http: Option<AuthorizationHttpSpec>,
}

/// The part of the request body that an authorization server receives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuthorizationBody {
    /// The size, such as `8KiB`, at most `tenants.maxBufferedBytes` of the settings, 1MiB by default. Requests with a larger body are
    /// answered 413.
    #[cfg_attr(feature = "testing", schemars(regex(pattern = r"^[0-9]+(B|k|kB|Ki|KiB|M|MB|Mi|MiB|G|GB|Gi|GiB)?$")))]
    pub max_bytes: String,
    /// Sends the beginning of a larger body, instead of 413.
    #[serde(default)]
    pub allow_partial: bool,
    /// Sends the body as bytes instead of text. Only with gRPC.
    #[serde(default)]
    pub pack_as_bytes: bool,
}

/// Settings for authorization servers with the protocol `http`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct AuthorizationHttpSpec {
    /// A prefix for the path of requests to the server.
    #[cfg_attr(feature = "testing", schemars(length(max = 253), regex(pattern = "^/[^?# ]*$")))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_prefix: Option<String>,
    /// Headers of the request that the server receives in addition to `Host`, `Authorization`, and `Content-Length`.
    #[cfg_attr(feature = "testing", schemars(length(max = 32), inner(length(min = 1, max = 253))))]
    pub allowed_request_headers: Vec<String>,
    /// Headers of the server's answer that replace headers of the request to the backend. Those of clients are removed, also if the answer
    /// lacks them, unless the server receives them.
    #[cfg_attr(feature = "testing", schemars(length(max = 32), inner(length(min = 1, max = 253))))]
    pub allowed_upstream_headers: Vec<String>,
}
