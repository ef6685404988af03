//! The features of HTTPPolicies: which policy decides each feature.

mod applied;

use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use crate::model::{
    ApiKeys, Authorization, BasicAuthentication, ClientAddresses, CompressionAlgorithm, Cors, Csrf, ErrorResponse,
    Faults, GlobalRateLimit, GrpcJson, HeaderChange, Jwt, LocalRateLimit, Mirror, Oidc, Processing, ResponseLimit,
    Retry, RoutePolicy, TimeLimits, WasmModule,
};

use super::rewrite::CostlyRewrite;

/// The maximum number of filters of a route that wait: there are delegates for as many.
pub(super) const WAITS: usize = 2;

/// The features of a policy, or of the policies of several levels.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Layers {
    /// The features that a more specific policy can replace.
    pub features: Features,
    /// The features that no more specific policy can replace.
    pub overrides: Features,
}

impl Layers {
    /// Returns the features that apply.
    pub fn effective(&self) -> Features {
        self.overrides.or(&self.features)
    }
}

/// Returns the layers of the more specific policy within those of the more general one. Features that the more specific one does not set
/// come from the more general one, and so do all overrides of the more general one.
pub fn over(specific: Option<&Layers>, general: Option<&Layers>) -> Option<Layers> {
    match (specific, general) {
        (Some(specific), Some(general)) => Some(Layers {
            features: specific.features.or(&general.features),
            overrides: general.overrides.or(&specific.overrides),
        }),
        (one, other) => one.or(other).cloned(),
    }
}

/// A feature of a policy. `None`: the policy does not set it. An error: the feature cannot be enforced, so no request
/// may pass.
pub(in crate::translate) type Feature<T> = Option<Result<T, Unenforceable>>;

/// The mark of a feature that cannot be enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unenforceable;

/// A feature that a route itself can set too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::translate) struct Shared<T> {
    /// The feature.
    pub value: T,
    /// Whether it also replaces that of a route: a feature of `overrides`.
    pub replaces: bool,
}

/// The features of a policy, or of several policies in the order of precedence.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Features {
    pub(in crate::translate) client_addresses: Feature<Arc<ClientAddresses>>,
    pub(in crate::translate) basic_authentication: Feature<Arc<BasicAuthentication>>,
    pub(in crate::translate) api_keys: Feature<Arc<ApiKeys>>,
    pub(in crate::translate) jwt: Feature<Arc<Jwt>>,
    pub(in crate::translate) oidc: Feature<Arc<Oidc>>,
    pub(in crate::translate) csrf: Feature<Arc<Csrf>>,
    pub(in crate::translate) cors: Feature<Shared<Arc<Cors>>>,
    pub(in crate::translate) authorization: Feature<Arc<Authorization>>,
    pub(in crate::translate) local_rate_limit: Feature<Arc<LocalRateLimit>>,
    pub(in crate::translate) global_rate_limit: Feature<Arc<GlobalRateLimit>>,
    pub(in crate::translate) max_request_body_bytes: Feature<u32>,
    pub(in crate::translate) buffered_request_bytes: Feature<u32>,
    pub(in crate::translate) processing: Feature<Arc<Processing>>,
    pub(in crate::translate) wasm: Feature<Arc<WasmModule>>,
    pub(in crate::translate) grpc_json: Feature<Arc<GrpcJson>>,
    pub(in crate::translate) max_response_body: Feature<ResponseLimit>,
    pub(in crate::translate) faults: Feature<Faults>,
    pub(in crate::translate) retries: Feature<Shared<Arc<Retry>>>,
    pub(in crate::translate) timeouts: Feature<Shared<TimeLimits>>,
    pub(in crate::translate) rewrite: Feature<Shared<CostlyRewrite>>,
    pub(in crate::translate) mirrors: Feature<Arc<[Mirror]>>,
    pub(in crate::translate) request_headers: Feature<Arc<[HeaderChange]>>,
    pub(in crate::translate) response_headers: Feature<Arc<[HeaderChange]>>,
    pub(in crate::translate) error_responses: Feature<Arc<[ErrorResponse]>>,
    pub(in crate::translate) compression: Feature<Arc<[CompressionAlgorithm]>>,
    /// Features of other versions, which cannot be enforced.
    pub(in crate::translate) unknown: Feature<()>,
    /// The rule whose requests the limit of the request rate counts separately.
    pub(in crate::translate) counted_for: Option<Arc<str>>,
    /// The policies.
    pub(in crate::translate) origins: Vec<ObjectRef>,
    /// The policy that decides each feature, by its field.
    pub(in crate::translate) decided: Vec<(&'static str, ObjectRef)>,
}

impl Features {
    /// Returns features that cannot be enforced.
    pub fn unknown() -> Self {
        Self { unknown: Some(Err(Unenforceable)), ..Self::default() }
    }

    /// Returns the features with the policy that sets them.
    #[must_use]
    pub fn decided_by(self, policy: &ObjectRef) -> Self {
        let decided = self.names().map(|name| (name, policy.clone())).collect();
        Self { decided, ..self }
    }

    /// Returns the fields of the features that are set.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let Self {
            client_addresses,
            basic_authentication,
            api_keys,
            jwt,
            oidc,
            csrf,
            cors,
            authorization,
            local_rate_limit,
            global_rate_limit,
            max_request_body_bytes,
            buffered_request_bytes,
            processing,
            wasm,
            grpc_json,
            max_response_body,
            faults,
            retries,
            timeouts,
            rewrite,
            mirrors,
            request_headers,
            response_headers,
            error_responses,
            compression,
            unknown: _,
            counted_for: _,
            origins: _,
            decided: _,
        } = self;
        let all = [
            (client_addresses.is_some(), "clientAddresses"),
            (basic_authentication.is_some(), "basicAuthentication"),
            (api_keys.is_some(), "apiKeys"),
            (jwt.is_some(), "jwt"),
            (oidc.is_some(), "oidc"),
            (csrf.is_some(), "csrf"),
            (cors.is_some(), "cors"),
            (authorization.is_some(), "externalAuthorization"),
            (local_rate_limit.is_some(), "localRateLimit"),
            (global_rate_limit.is_some(), "globalRateLimit"),
            (max_request_body_bytes.is_some(), "maxRequestBody"),
            (buffered_request_bytes.is_some(), "requestBuffering"),
            (processing.is_some(), "externalProcessing"),
            (wasm.is_some(), "wasm"),
            (grpc_json.is_some(), "grpcJson"),
            (max_response_body.is_some(), "maxResponseBody"),
            (faults.is_some(), "faults"),
            (retries.is_some(), "retries"),
            (timeouts.is_some(), "timeouts"),
            (rewrite.is_some(), "urlRewrite"),
            (mirrors.is_some(), "mirrors"),
            (request_headers.is_some(), "requestHeaders"),
            (response_headers.is_some(), "responseHeaders"),
            (error_responses.is_some(), "errorResponses"),
            (compression.is_some(), "compression"),
        ];
        all.into_iter().filter(|(is_set, _)| *is_set).map(|(_, name)| name)
    }

    /// Returns the features. Features that are not set come from `general`.
    #[must_use]
    pub fn or(&self, general: &Self) -> Self {
        // Without `..`, so that a new feature does not compile until it is inherited.
        let Self {
            client_addresses,
            basic_authentication,
            api_keys,
            jwt,
            oidc,
            csrf,
            cors,
            authorization,
            local_rate_limit,
            global_rate_limit,
            max_request_body_bytes,
            buffered_request_bytes,
            processing,
            wasm,
            grpc_json,
            max_response_body,
            faults,
            retries,
            timeouts,
            rewrite,
            mirrors,
            request_headers,
            response_headers,
            error_responses,
            compression,
            unknown,
            counted_for,
            origins,
            decided,
        } = self;
        let inherited = general.decided.iter().filter(|(name, _)| !decided.iter().any(|(own, _)| own == name));
        Self {
            client_addresses: client_addresses.clone().or_else(|| general.client_addresses.clone()),
            basic_authentication: basic_authentication.clone().or_else(|| general.basic_authentication.clone()),
            api_keys: api_keys.clone().or_else(|| general.api_keys.clone()),
            jwt: jwt.clone().or_else(|| general.jwt.clone()),
            oidc: oidc.clone().or_else(|| general.oidc.clone()),
            csrf: csrf.clone().or_else(|| general.csrf.clone()),
            cors: cors.clone().or_else(|| general.cors.clone()),
            authorization: authorization.clone().or_else(|| general.authorization.clone()),
            local_rate_limit: local_rate_limit.clone().or_else(|| general.local_rate_limit.clone()),
            global_rate_limit: global_rate_limit.clone().or_else(|| general.global_rate_limit.clone()),
            max_request_body_bytes: max_request_body_bytes.or(general.max_request_body_bytes),
            buffered_request_bytes: buffered_request_bytes.or(general.buffered_request_bytes),
            processing: processing.clone().or_else(|| general.processing.clone()),
            wasm: wasm.clone().or_else(|| general.wasm.clone()),
            grpc_json: grpc_json.clone().or_else(|| general.grpc_json.clone()),
            max_response_body: max_response_body.or(general.max_response_body),
            faults: faults.or(general.faults),
            retries: retries.clone().or_else(|| general.retries.clone()),
            timeouts: timeouts.clone().or_else(|| general.timeouts.clone()),
            rewrite: rewrite.clone().or_else(|| general.rewrite.clone()),
            mirrors: mirrors.clone().or_else(|| general.mirrors.clone()),
            request_headers: request_headers.clone().or_else(|| general.request_headers.clone()),
            response_headers: response_headers.clone().or_else(|| general.response_headers.clone()),
            error_responses: error_responses.clone().or_else(|| general.error_responses.clone()),
            compression: compression.clone().or_else(|| general.compression.clone()),
            unknown: unknown.or(general.unknown),
            counted_for: counted_for.clone(),
            origins: origins.iter().chain(&general.origins).cloned().collect(),
            decided: decided.iter().chain(inherited).cloned().collect(),
        }
    }

    /// Returns the policy of a route. Errors: a feature cannot be enforced.
    pub fn resolve(&self) -> Result<RoutePolicy, Unenforceable> {
        let Self {
            client_addresses,
            basic_authentication,
            api_keys,
            jwt,
            oidc,
            csrf,
            cors,
            authorization,
            local_rate_limit,
            global_rate_limit,
            max_request_body_bytes,
            buffered_request_bytes,
            processing,
            wasm,
            grpc_json,
            max_response_body,
            faults,
            retries,
            timeouts,
            rewrite,
            mirrors,
            request_headers,
            response_headers,
            error_responses,
            compression,
            unknown,
            counted_for,
            origins,
            decided,
        } = self;
        unknown.transpose()?;
        Ok(RoutePolicy {
            client_addresses: client_addresses.clone().transpose()?,
            basic_authentication: basic_authentication.clone().transpose()?,
            api_keys: api_keys.clone().transpose()?,
            jwt: jwt.clone().transpose()?,
            oidc: oidc.clone().transpose()?,
            csrf: csrf.clone().transpose()?,
            cors: cors.clone().transpose()?.map(|cors| cors.value),
            authorization: authorization.clone().transpose()?,
            local_rate_limit: local_rate_limit.clone().transpose()?,
            global_rate_limit: global_rate_limit.clone().transpose()?,
            max_request_body_bytes: max_request_body_bytes.transpose()?,
            buffered_request_bytes: buffered_request_bytes.transpose()?,
            processing: processing.clone().transpose()?,
            wasm: wasm.clone().transpose()?,
            grpc_json: grpc_json.clone().transpose()?,
            max_response_body: max_response_body.transpose()?,
            faults: faults.transpose()?,
            retries: retries.clone().transpose()?.map(|retries| retries.value),
            timeouts: timeouts.clone().transpose()?.map(|timeouts| timeouts.value),
            rewrite: rewrite.clone().transpose()?.map(|rewrite| rewrite.value.rewrite),
            mirrors: mirrors.clone().transpose()?,
            request_headers: request_headers.clone().transpose()?,
            response_headers: response_headers.clone().transpose()?,
            error_responses: error_responses.clone().transpose()?,
            compression: compression.clone().transpose()?,
            counted_for: counted_for.clone(),
            origins: origins.clone(),
            decided: decided.clone(),
        })
    }

    /// Returns the features with a limit of the request rate that counts the requests of this rule separately.
    #[must_use]
    pub fn counted_for(self, rule: Option<&Arc<str>>) -> Self {
        Self { counted_for: rule.cloned().filter(|_| self.limits_rate()), ..self }
    }

    /// Returns whether the number of requests is limited.
    pub fn limits_rate(&self) -> bool {
        matches!(self.local_rate_limit, Some(Ok(_)))
    }
}
