//! The features of HTTPPolicies for requests that are forwarded: retries, time limits, held bodies, changes of the URL, and copies.

use serde::{Deserialize, Serialize};

use super::policy_parts::PolicyBackend;

/// The retries of requests to the backends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RetriesSpec {
    /// The maximum number of retries after the first attempt; 1 if not set. 0 disables retries. `tenants.maxRetries` of the settings, 10 by
    /// default, is the largest number.
    #[cfg_attr(feature = "testing", schemars(range(max = 1000)))]
    pub attempts: Option<u32>,
    /// The conditions of Envoy for a retry, as in the setting `retries.conditions`. If not set, requests are retried that received no response,
    /// and those with one of `codes`. With `5xx`, `reset`, and others, a request may be executed twice.
    #[cfg_attr(
        feature = "testing",
        schemars(
            length(max = 16),
            extend("items" = serde_json::json!({ "type": "string", "enum": ["5xx", "cancelled", "connect-failure", "deadline-exceeded", "envoy-ratelimited", "gateway-error", "http3-post-connect-failure", "internal", "refused-stream", "reset", "reset-before-request", "resource-exhausted", "retriable-4xx", "retriable-headers", "retriable-status-codes", "unavailable"] }))
        )
    )]
    pub conditions: Vec<String>,
    /// The statuses of responses that are retried, in addition to the conditions.
    #[cfg_attr(feature = "testing", schemars(length(max = 32), inner(range(min = 400, max = 599))))]
    pub codes: Vec<u16>,
    /// The time limit of each attempt, such as `500ms`. No limit if not set.
    #[cfg_attr(feature = "testing", schemars(length(min = 2, max = 16)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_try_timeout: Option<String>,
    /// The time before the first retry, such as `100ms`; up to `1m`. It doubles before each further retry, up to the tenfold, and a random part
    /// of it is waited. 25 ms if not set.
    #[cfg_attr(feature = "testing", schemars(length(min = 2, max = 16)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<String>,
}

/// The time limits of requests. `0s` is no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct TimeoutsSpec {
    /// The time limit of the complete response, such as `15s`, with all retries. It ends websockets and streams too.
    #[cfg_attr(feature = "testing", schemars(length(min = 2, max = 16)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// The time limit without any data of a request or its response, such as `1m`, instead of `timeouts.streamIdle` of the settings.
    #[cfg_attr(feature = "testing", schemars(length(min = 2, max = 16)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<String>,
}

/// The bodies of requests that Envoy holds until they are complete.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestBufferingSpec {
    /// The maximum size of a body, such as `512KiB`, at most `tenants.maxBufferedBytes` of the settings, 1MiB by default. Requests with a
    /// larger body are answered 413.
    #[cfg_attr(feature = "testing", schemars(regex(pattern = r"^[0-9]+(B|k|kB|Ki|KiB|M|MB|Mi|MiB|G|GB|Gi|GiB)?$")))]
    pub max_size: String,
}

/// A limit of the size of responses. Envoy reads the header `content-length`, and holds no body.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MaxResponseBodySpec {
    /// The maximum size of a body, such as `10MiB`.
    #[cfg_attr(feature = "testing", schemars(regex(pattern = r"^[0-9]+(B|k|kB|Ki|KiB|M|MB|Mi|MiB|G|GB|Gi|GiB)?$")))]
    pub size: String,
    /// The responses that do not state the length of their body, such as streams and calls of gRPC: `Refuse`, the default, answers 502;
    /// `Allow` passes them on without a limit.
    #[serde(default)]
    pub unknown_length: UnknownLength,
}

/// What happens to responses of unknown length.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[expect(missing_docs, reason = "the variants have the names of the API")]
pub enum UnknownLength {
    #[default]
    Refuse,
    Allow,
}

/// A WebAssembly module that Envoy runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WasmSpec {
    /// The name of the module in the setting `wasm.modules`.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 63)))]
    pub module: String,
}

/// The methods of gRPC that requests with JSON call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GrpcJsonSpec {
    /// The descriptors of the services in base64: the output of `protoc --include_imports --descriptor_set_out=FILE`.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 524_288)))]
    pub descriptors: String,
    /// The full names of the services, such as `shop.v1.Books`.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 16), inner(length(min = 1, max = 253))))]
    pub services: Vec<String>,
}

/// A change of the URL of requests to the backends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "testing",
    derive(schemars::JsonSchema),
    schemars(extend("minProperties" = 1, "x-kubernetes-validations" = [{
        "rule": "!(has(self.hostname) && has(self.hostnameFrom))",
        "message": "only one of hostname and hostnameFrom can be set",
    }]))
)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct UrlRewriteSpec {
    /// The host that the backends receive, a DNS name.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 253)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// The part of the request that contains the host for the backends, instead of `hostname`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname_from: Option<HostnameFromSpec>,
    /// The change of the path. The query stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathRewriteSpec>,
}

/// The part of a request that contains the host for the backends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "testing",
    derive(schemars::JsonSchema),
    schemars(extend("x-kubernetes-validations" = [{
        "rule": "has(self.header) != has(self.path)",
        "message": "exactly one of header and path must be set",
    }]))
)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct HostnameFromSpec {
    /// The name of a header. Without the header, or if it is empty, the host stays. A request with another text than a host, optionally with a
    /// port, is answered 403.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 256), regex(pattern = r"^[!-9;-~]+$")))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// A regular expression for the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<HostnameOfPathSpec>,
}

/// A regular expression for the path, and the host made of its groups.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HostnameOfPathSpec {
    /// The regular expression (RE2) for the complete path of the client without the query, such as `/shops/([a-z0-9-]+)(?:/.*)?`. A request with
    /// another path is answered 403.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 1024)))]
    pub pattern: String,
    /// The host, such as `\1.shops.example.com`. `\1` to `\9` are the groups of the expression, each at most once. They match only letters,
    /// digits, `.`, `-`, and `_`.
    #[cfg_attr(
        feature = "testing",
        schemars(length(min = 1, max = 253), regex(pattern = r"^([A-Za-z0-9._-]|\\[1-9])+$"))
    )]
    pub substitution: String,
}

/// A change of the path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PathRewriteSpec {
    /// Replaces the beginning of the path by a regular expression.
    pub regex: RegexRewriteSpec,
}

/// A regular expression, and its replacement.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegexRewriteSpec {
    /// The regular expression (RE2) for the beginning of the path, such as `/v1/([^/]+)/items`. The rest of the path stays. A path that it
    /// does not match stays as it is.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 1024)))]
    pub pattern: String,
    /// The replacement, such as `/items/\1`. It begins with `/`. `\1` to `\9` are the groups of the expression, and `\0` is the complete match.
    /// Each can occur once.
    #[cfg_attr(
        feature = "testing",
        schemars(length(min = 1, max = 1024), regex(pattern = r"^/([!-\[\]-~]|\\[0-9])*$"))
    )]
    pub substitution: String,
}

/// A receiver of copies of requests, whose responses are dropped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "testing",
    derive(schemars::JsonSchema),
    schemars(extend("x-kubernetes-validations" = [{
        "rule": "!(has(self.fraction) && has(self.percent))",
        "message": "only one of fraction and percent can be set",
    }]))
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MirrorSpec {
    /// The receiver: a port of a Service, in plain text unless a BackendTLSPolicy targets it.
    pub backend_ref: PolicyBackend,
    /// The share of the requests that are copied. All if neither `fraction` nor `percent` is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fraction: Option<MirrorFraction>,
    /// The share of the requests that are copied, in percent.
    #[cfg_attr(feature = "testing", schemars(range(max = 100)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<u32>,
}

/// A share of the requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "testing",
    derive(schemars::JsonSchema),
    schemars(extend("x-kubernetes-validations" = [{
        "rule": "self.numerator <= self.denominator",
        "message": "numerator must not be larger than denominator",
    }]))
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MirrorFraction {
    /// The number of copied requests in each `denominator` requests.
    pub numerator: u32,
    /// The number of requests; 100 if not set.
    #[cfg_attr(feature = "testing", schemars(range(min = 1)))]
    #[serde(default = "hundred")]
    pub denominator: u32,
}

fn hundred() -> u32 {
    100
}
