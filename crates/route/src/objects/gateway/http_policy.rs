//! HTTPPolicies: limits, access restrictions, and compression for Gateways, listeners, namespaces, routes, rules, and Ingresses.
//!
//! `make crds` writes the CustomResourceDefinition from these types. A feature that cannot be decoded stays part of the
//! object, and closes the routes of the policy. Otherwise an unreadable restriction would open the routes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::authentication::{ApiKeysSpec, BasicAuthenticationSpec, CsrfSpec, JwtSpec};
use super::authorization::ExternalAuthorizationSpec;
use super::cors::CorsSpec;
use super::error_responses::ErrorResponseSpec;
use super::external_processing::ExternalProcessingSpec;
use super::faults::FaultsSpec;
use super::forwarding::{
    GrpcJsonSpec, MaxResponseBodySpec, MirrorSpec, RequestBufferingSpec, RetriesSpec, TimeoutsSpec, UrlRewriteSpec,
    WasmSpec,
};
use super::global_rate_limit::GlobalRateLimitSpec;
use super::oidc::OidcSpec;
use super::policy_parts::Lenient;
use super::status::PolicyStatus;
use crate::objects::meta::Meta;

/// An HTTPPolicy.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpPolicy {
    /// The metadata.
    pub meta: Meta,
    /// The spec.
    pub spec: HttpPolicySpec,
    /// The status. The translation does not read it.
    pub status: PolicyStatus,
    /// `metadata.resourceVersion`.
    pub version: Arc<str>,
}

/// The targets of the policy, and its features. A rule, or a host of an Ingress, inherits a feature that is not set from the policy of
/// the route or of the Ingress. These inherit from the policy of the namespace, then of the listener, then of the Gateway. The features of
/// `overrides` apply in the opposite order, and replace all others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct HttpPolicySpec {
    /// The Gateways, routes, and Ingresses that the policy applies to, in its own namespace, or that namespace itself.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 16)))]
    pub target_refs: Vec<HttpPolicyTarget>,
    /// Features that a policy of a more specific target can replace, as if they were set in `spec` itself.
    #[cfg_attr(feature = "testing", schemars(with = "Option<HttpFeaturesSpec>"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defaults: Option<Lenient<HttpFeaturesSpec>>,
    /// Features that no policy of a more specific target can replace.
    #[cfg_attr(feature = "testing", schemars(with = "Option<HttpFeaturesSpec>"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overrides: Option<Lenient<HttpFeaturesSpec>>,
    /// Features that a policy of a more specific target can replace.
    #[serde(flatten)]
    pub features: HttpFeaturesSpec,
}

/// The features of a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct HttpFeaturesSpec {
    /// The clients that may send requests, by their IP address. Other clients are answered 403. Behind trusted proxies
    /// (`http.trustedHops`), the address of the original client counts.
    #[cfg_attr(feature = "testing", schemars(with = "Option<ClientAddressesSpec>"))]
    pub client_addresses: Option<Lenient<ClientAddressesSpec>>,
    /// The users whose name and password requests need. Other requests are answered 401.
    #[cfg_attr(feature = "testing", schemars(with = "Option<BasicAuthenticationSpec>"))]
    pub basic_authentication: Option<Lenient<BasicAuthenticationSpec>>,
    /// The API keys of which requests need one. Other requests are answered 401.
    #[cfg_attr(feature = "testing", schemars(with = "Option<ApiKeysSpec>"))]
    pub api_keys: Option<Lenient<ApiKeysSpec>>,
    /// The JSON Web Token that requests need in the header `Authorization: Bearer`. Requests without a valid token are
    /// answered 401, requests with a token for other audiences 403.
    #[cfg_attr(feature = "testing", schemars(with = "Option<JwtSpec>"))]
    pub jwt: Option<Lenient<JwtSpec>>,
    /// The login of users at an OpenID provider. Browsers without a session are redirected to it; other requests without one are answered 401.
    #[cfg_attr(feature = "testing", schemars(with = "Option<OidcSpec>"))]
    pub oidc: Option<Lenient<OidcSpec>>,
    /// The web pages whose requests may change something: requests with the method POST, PUT, DELETE, or PATCH that come from a page of
    /// another host, or do not tell their page, are answered 403 (cross-site request forgery).
    #[cfg_attr(feature = "testing", schemars(with = "Option<CsrfSpec>"))]
    pub csrf: Option<Lenient<CsrfSpec>>,
    /// The permissions of scripts of web pages of other origins (cross-origin resource sharing). Envoy answers preflight requests itself. The
    /// filter `CORS` of an HTTPRoute and the `corsPolicy` of an HTTPProxy precede it, unless it is in `overrides`.
    #[cfg_attr(feature = "testing", schemars(with = "Option<CorsSpec>"))]
    pub cors: Option<Lenient<CorsSpec>>,
    /// A server that permits or denies each request. If it does not respond, requests are answered 403.
    #[cfg_attr(feature = "testing", schemars(with = "Option<ExternalAuthorizationSpec>"))]
    pub external_authorization: Option<Lenient<ExternalAuthorizationSpec>>,
    /// A limit of the request rate, for all clients together or for each client address. Requests over it are answered 429. Each Envoy
    /// counts the requests of each match of a rule separately.
    #[cfg_attr(feature = "testing", schemars(with = "Option<LocalRateLimitSpec>"))]
    pub local_rate_limit: Option<Lenient<LocalRateLimitSpec>>,
    /// A limit of the request rate that a service counts for all Envoys together, with the settings `rateLimit.endpoint` and
    /// `tenants.globalRateLimits`. Requests over it are answered 429.
    #[cfg_attr(feature = "testing", schemars(with = "Option<GlobalRateLimitSpec>"))]
    pub global_rate_limit: Option<Lenient<GlobalRateLimitSpec>>,
    /// The maximum size of a request body, such as `10MiB`; a larger one is answered 413. Websockets, and streams of gRPC to
    /// GRPCRoutes, have no limit. `http.maxRequestBody` of the settings applies too.
    #[cfg_attr(
        feature = "testing",
        schemars(with = "Option<String>", regex(pattern = r"^[0-9]+(B|k|kB|Ki|KiB|M|MB|Mi|MiB|G|GB|Gi|GiB)?$"))
    )]
    pub max_request_body: Option<Lenient<String>>,
    /// Sends a request to the backend when its body is complete, so that slow clients keep no backend busy. A larger body than `maxSize` is
    /// answered 413. Not for websockets, and for streams of gRPC to GRPCRoutes.
    #[cfg_attr(feature = "testing", schemars(with = "Option<RequestBufferingSpec>"))]
    pub request_buffering: Option<Lenient<RequestBufferingSpec>>,
    /// A server that changes requests and responses, behind all checks and limits. If it does not respond, requests are answered 503 or 504.
    #[cfg_attr(feature = "testing", schemars(with = "Option<ExternalProcessingSpec>"))]
    pub external_processing: Option<Lenient<ExternalProcessingSpec>>,
    /// A WebAssembly module that Envoy runs for each request and response, behind all checks and limits. If it fails, requests are answered 503.
    /// Not with `externalProcessing`.
    #[cfg_attr(feature = "testing", schemars(with = "Option<WasmSpec>"))]
    pub wasm: Option<Lenient<WasmSpec>>,
    /// Requests with JSON call the methods of gRPC services, and their responses are JSON. The path selects the method: `google.api.http` of
    /// the method, or `POST /SERVICE/METHOD`. The setting `tenants.maxGrpcJsonBytes` allows it. Not with `externalProcessing`, `wasm`,
    /// `maxResponseBody`, or a change of the path.
    #[cfg_attr(feature = "testing", schemars(with = "Option<GrpcJsonSpec>"))]
    pub grpc_json: Option<Lenient<GrpcJsonSpec>>,
    /// The maximum size of the body of a response; a larger one is answered 502. Websockets have no limit. Not with `externalProcessing`.
    #[cfg_attr(feature = "testing", schemars(with = "Option<MaxResponseBodySpec>"))]
    pub max_response_body: Option<Lenient<MaxResponseBodySpec>>,
    /// Faults that are injected into a share of the requests, for tests of clients: delays, and answers without the backend.
    #[cfg_attr(feature = "testing", schemars(with = "Option<FaultsSpec>"))]
    pub faults: Option<Lenient<FaultsSpec>>,
    /// The retries of requests to the backends. The client receives the last response. Those that a route itself sets precede them, unless they are in `overrides`.
    #[cfg_attr(feature = "testing", schemars(with = "Option<RetriesSpec>"))]
    pub retries: Option<Lenient<RetriesSpec>>,
    /// The time limits of requests. A request over a limit is answered 504, or is aborted if its response has begun. Each limit that a route
    /// itself sets precedes that of the policy, unless it is in `overrides`.
    #[cfg_attr(feature = "testing", schemars(with = "Option<TimeoutsSpec>"))]
    pub timeouts: Option<Lenient<TimeoutsSpec>>,
    /// The change of the URL of requests to the backends. A host or path that a route itself changes precedes it, unless it is in `overrides`.
    #[cfg_attr(feature = "testing", schemars(with = "Option<UrlRewriteSpec>"))]
    pub url_rewrite: Option<Lenient<UrlRewriteSpec>>,
    /// The receivers of copies of requests, in addition to those of the route.
    #[cfg_attr(feature = "testing", schemars(with = "Option<Vec<MirrorSpec>>", length(max = 3)))]
    pub mirrors: Option<Lenient<Vec<MirrorSpec>>>,
    /// The changes of the headers of requests to the backends, after those of the route.
    #[cfg_attr(feature = "testing", schemars(with = "Option<HeaderChangesSpec>"))]
    pub request_headers: Option<Lenient<HeaderChangesSpec>>,
    /// The changes of the headers of responses, after those of the route. They also apply to redirects and to answers of Envoy for the route.
    #[cfg_attr(feature = "testing", schemars(with = "Option<HeaderChangesSpec>"))]
    pub response_headers: Option<Lenient<HeaderChangesSpec>>,
    /// Answers in the place of error responses, of the backends and of Envoy itself, at most 16. An empty list replaces none. Calls of gRPC
    /// keep their responses.
    #[cfg_attr(feature = "testing", schemars(with = "Option<Vec<ErrorResponseSpec>>", length(max = 16)))]
    pub error_responses: Option<Lenient<Vec<ErrorResponseSpec>>>,
    /// The compression of responses, instead of `compression.algorithms` of the settings.
    #[cfg_attr(feature = "testing", schemars(with = "Option<CompressionSpec>"))]
    pub compression: Option<Lenient<CompressionSpec>>,
    /// Features of other versions. Their restrictions are unknown.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub unknown: BTreeMap<String, Value>,
}

/// A Gateway, a route, or an Ingress, or a part of it; an HTTPProxy; or the namespace of the policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct HttpPolicyTarget {
    /// The API group: `gateway.networking.k8s.io`, `networking.k8s.io` for an Ingress, `projectcontour.io` for an HTTPProxy, and the empty
    /// string for a Namespace.
    #[cfg_attr(
        feature = "testing",
        schemars(extend("enum" = ["gateway.networking.k8s.io", "networking.k8s.io", "projectcontour.io", ""]))
    )]
    pub group: String,
    /// The kind.
    #[cfg_attr(
        feature = "testing",
        schemars(extend("enum" = ["Gateway", "HTTPRoute", "GRPCRoute", "Ingress", "HTTPProxy", "Namespace"]))
    )]
    pub kind: String,
    /// The name. A Namespace must be the namespace of the policy.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 253)))]
    pub name: String,
    /// The name of a listener of the Gateway, the name of a rule of the route, or a host of the rules of the Ingress, such as
    /// `shop.example.com` or `*.example.com`. All listeners, rules, or hosts if not set.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 253)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section_name: Option<Arc<str>>,
}

/// The clients that may send requests, by their IP address.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ClientAddressesSpec {
    /// The allowed addresses: single addresses, or ranges such as `192.0.2.0/24`. Empty: all addresses.
    #[cfg_attr(feature = "testing", schemars(length(max = 256), inner(length(min = 2, max = 43))))]
    pub allow: Vec<String>,
    /// The denied addresses, even if they are allowed.
    #[cfg_attr(feature = "testing", schemars(length(max = 256), inner(length(min = 2, max = 43))))]
    pub deny: Vec<String>,
}

/// A limit of the request rate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LocalRateLimitSpec {
    /// The number of requests in each unit of time.
    #[cfg_attr(feature = "testing", schemars(range(min = 1, max = 1_000_000_000)))]
    pub requests: u32,
    /// The unit of time.
    pub unit: RateUnit,
    /// The number of additional requests that may arrive at once.
    #[cfg_attr(feature = "testing", schemars(range(max = 1_000_000_000)))]
    #[serde(default)]
    pub burst: u32,
    /// Counts the requests of each client address separately.
    #[serde(default)]
    pub per_client_address: bool,
}

/// A unit of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the variants have the names of the API")]
pub enum RateUnit {
    #[default]
    Second,
    Minute,
    Hour,
}

/// Changes of headers, in this order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct HeaderChangesSpec {
    /// Headers that replace those with the same name.
    #[cfg_attr(feature = "testing", schemars(length(max = 32)))]
    pub set: Vec<HeaderSpec>,
    /// Headers in addition to those with the same name.
    #[cfg_attr(feature = "testing", schemars(length(max = 32)))]
    pub add: Vec<HeaderSpec>,
    /// The names of headers that are removed.
    #[cfg_attr(feature = "testing", schemars(length(max = 32), inner(length(min = 1, max = 253))))]
    pub remove: Vec<String>,
}

/// A header.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeaderSpec {
    /// The name. `Host`, headers that delimit messages, and those that control Envoy cannot be changed.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 253)))]
    pub name: String,
    /// The value.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 4096)))]
    pub value: String,
}

/// The compression of responses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompressionSpec {
    /// The algorithms, for clients that accept them. An empty list disables compression.
    #[cfg_attr(feature = "testing", schemars(length(max = 3)))]
    pub algorithms: Vec<CompressionAlgorithmSpec>,
}

/// A compression algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the variants have the names of the API")]
pub enum CompressionAlgorithmSpec {
    Gzip,
    Brotli,
    Zstd,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use serde_json::json;

    use super::*;

    #[test]
    fn a_feature_that_cannot_be_decoded_is_retained() {
        let spec = |value: Value| serde_json::from_value::<HttpPolicySpec>(value).unwrap();
        let good = spec(json!({ "localRateLimit": { "requests": 1, "unit": "second" } }));
        assert!(matches!(good.features.local_rate_limit, Some(Lenient::Valid(LocalRateLimitSpec { requests: 1, .. }))));
        for limit in [
            json!({ "requests": -1, "unit": "second" }),
            json!({ "requests": 1, "unit": "year" }),
            json!({ "unit": "second" }),
            json!({ "requests": 1, "unit": "second", "more": 1 }),
            json!("ten"),
        ] {
            let spec = spec(json!({ "localRateLimit": limit, "maxRequestBody": "1MiB" }));
            assert!(matches!(spec.features.local_rate_limit, Some(Lenient::Invalid(_))), "{limit}");
            assert_eq!(spec.features.max_request_body, Some(Lenient::Valid("1MiB".to_owned())));
        }
        assert_eq!(spec(json!({ "basicAuth": {} })).features.unknown.len(), 1);
        let Some(Lenient::Valid(overrides)) = spec(json!({ "overrides": { "basicAuth": {} } })).overrides else {
            panic!("overrides")
        };
        assert_eq!(overrides.unknown.len(), 1);
        assert!(matches!(spec(json!({ "overrides": 1 })).overrides, Some(Lenient::Invalid(_))));
        assert_eq!(spec(json!({ "jwt": null })), HttpPolicySpec::default());
    }
}
