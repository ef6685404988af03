//! Policies of routes: limits, access restrictions, and compression, in addition to the action of a route.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lockgate_xds::provenance::ObjectRef;

use super::{
    ApiKeys, Authorization, BasicAuthentication, ClientAddresses, ClusterId, Cors, Csrf, ErrorResponse, Faults,
    GlobalRateLimit, HeaderChange, HeaderName, HeaderValue, Jwt, JwtIssuer, Mirror, Oidc, PolicyRewrite, Processing,
    Retry, SecretId,
};

/// The features that apply to a route. `None`: only the settings of the installation apply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoutePolicy {
    /// The clients that may send requests, by address.
    pub client_addresses: Option<Arc<ClientAddresses>>,
    /// The users whose password requests need.
    pub basic_authentication: Option<Arc<BasicAuthentication>>,
    /// The API keys of which requests need one.
    pub api_keys: Option<Arc<ApiKeys>>,
    /// The tokens that requests need.
    pub jwt: Option<Arc<Jwt>>,
    /// The web pages whose requests may change something.
    pub csrf: Option<Arc<Csrf>>,
    /// The permissions of scripts of other origins, instead of those of the route.
    pub cors: Option<Arc<Cors>>,
    /// The login that requests need.
    pub oidc: Option<Arc<Oidc>>,
    /// The server that permits or denies requests.
    pub authorization: Option<Arc<Authorization>>,
    /// The limit of the request rate.
    pub local_rate_limit: Option<Arc<LocalRateLimit>>,
    /// The descriptors for the service that counts requests.
    pub global_rate_limit: Option<Arc<GlobalRateLimit>>,
    /// The maximum size of a request body in bytes.
    pub max_request_body_bytes: Option<u32>,
    /// The maximum size of a request body that Envoy holds until it is complete, in bytes. `None`: bodies are streamed.
    pub buffered_request_bytes: Option<u32>,
    /// The server that changes requests and responses.
    pub processing: Option<Arc<Processing>>,
    /// The module that runs in Envoy.
    pub wasm: Option<Arc<WasmModule>>,
    /// The methods of gRPC that requests with JSON call.
    pub grpc_json: Option<Arc<GrpcJson>>,
    /// The maximum size of a response.
    pub max_response_body: Option<ResponseLimit>,
    /// The faults that are injected.
    pub faults: Option<Faults>,
    /// The retries, instead of those of the route.
    pub retries: Option<Arc<Retry>>,
    /// The time limits, instead of those of the route.
    pub timeouts: Option<TimeLimits>,
    /// The change of the URL, instead of that of the route.
    pub rewrite: Option<PolicyRewrite>,
    /// The receivers of copies of requests, in addition to those of the route.
    pub mirrors: Option<Arc<[Mirror]>>,
    /// The changes of the headers of requests, after those of the route.
    pub request_headers: Option<Arc<[HeaderChange]>>,
    /// The changes of the headers of responses, after those of the route.
    pub response_headers: Option<Arc<[HeaderChange]>>,
    /// The answers in the place of error responses.
    pub error_responses: Option<Arc<[ErrorResponse]>>,
    /// The algorithms for compressed responses. An empty list disables compression.
    pub compression: Option<Arc<[CompressionAlgorithm]>>,
    /// The rule whose requests the limit counts separately from equal matches of the same object. `None`: all are counted together.
    pub counted_for: Option<Arc<str>>,
    /// The objects that set the features.
    pub origins: Vec<ObjectRef>,
    /// The object that decides each feature, by its field in an HTTPPolicy.
    pub decided: Vec<(&'static str, ObjectRef)>,
}

impl RoutePolicy {
    /// Returns whether a feature can refuse or change requests.
    pub fn restricts(&self) -> bool {
        // Without `..`, so that a new feature does not compile until it is considered.
        let Self {
            client_addresses,
            basic_authentication,
            api_keys,
            jwt,
            oidc,
            csrf,
            cors: _,
            authorization,
            local_rate_limit,
            global_rate_limit,
            max_request_body_bytes,
            buffered_request_bytes,
            processing,
            wasm,
            grpc_json,
            max_response_body,
            faults: _,
            retries: _,
            timeouts: _,
            rewrite,
            mirrors: _,
            request_headers,
            response_headers: _,
            error_responses: _,
            compression: _,
            counted_for: _,
            origins: _,
            decided: _,
        } = self;
        client_addresses.is_some()
            || basic_authentication.is_some()
            || api_keys.is_some()
            || jwt.is_some()
            || oidc.is_some()
            || csrf.is_some()
            || authorization.is_some()
            || local_rate_limit.is_some()
            || global_rate_limit.is_some()
            || max_request_body_bytes.is_some()
            || buffered_request_bytes.is_some()
            || processing.is_some()
            || wasm.is_some()
            || grpc_json.is_some()
            || max_response_body.is_some()
            || rewrite.is_some()
            || request_headers.is_some()
    }

    /// Returns the clusters that requests depend on, and those of copies.
    pub fn clusters(&self) -> impl Iterator<Item = &ClusterId> {
        let of_tokens = self.jwt.iter().flat_map(|jwt| &jwt.providers).filter_map(JwtIssuer::cluster);
        let of_login = self.oidc.iter().map(|oidc| &oidc.cluster);
        let of_mirrors = self.mirrors.iter().flat_map(|mirrors| mirrors.iter()).map(|mirror| &mirror.cluster);
        let of_servers =
            self.authorization.iter().flat_map(|server| [&server.cluster].into_iter().chain(&server.shares));
        let of_processing = self.processing.iter().map(|server| &server.cluster);
        of_tokens.chain(of_login).chain(of_servers).chain(of_mirrors).chain(of_processing)
    }

    /// Returns the secrets that requests depend on.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretId> {
        self.oidc.iter().flat_map(|oidc| [&oidc.client_secret, &oidc.cookie_key])
    }

    /// Returns the maximum size of a request body that Envoy holds until it is complete, for the backend or for the server that changes it.
    pub fn held_bytes(&self) -> Option<u32> {
        let processed = self.processing.as_ref().and_then(|server| server.request.held_bytes());
        self.buffered_request_bytes.into_iter().chain(processed).chain(self.json_bytes()).min()
    }

    /// Returns the maximum size of the body of a request with JSON that calls a method of gRPC.
    pub fn json_bytes(&self) -> Option<u32> {
        self.grpc_json.as_ref().map(|json| json.max_bytes)
    }

    /// Returns whether a request waits for a delay in front of the filter that holds its body.
    pub fn delays_held_bodies(&self) -> bool {
        self.held_bytes().is_some() && self.faults.is_some_and(|faults| faults.delay.is_some())
    }

    /// Returns the features that let a request wait for a server.
    pub fn waiting(&self) -> impl Iterator<Item = &'static str> {
        let of_tokens = self.jwt.as_ref().is_some_and(|jwt| jwt.waits());
        let of_servers = self.authorization.is_some();
        let all =
            [("oidc", self.oidc.is_some()), ("jwt with remote keys", of_tokens), ("externalAuthorization", of_servers)];
        all.into_iter().filter(|(_, waits)| *waits).map(|(name, _)| name)
    }
}

/// A WebAssembly module that Envoy runs for the requests of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WasmModule {
    /// The name of the module in the settings.
    pub name: Arc<str>,
    /// The namespace of the policy. Its routes share an instance of the module for each thread of Envoy.
    pub namespace: Arc<str>,
    /// Its file in the file system of Envoy.
    pub file: Arc<str>,
    /// The name of its root context. Empty: the only one.
    pub root: Arc<str>,
    /// The text that the module receives when it is configured.
    pub configuration: Arc<str>,
}

/// The methods of gRPC that requests with JSON call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrpcJson {
    /// An encoded set of descriptors, which Envoy accepts.
    pub descriptors: Bytes,
    /// The full names of the services.
    pub services: Box<[Arc<str>]>,
    /// The maximum size of the body of a request or a response, in bytes.
    pub max_bytes: u32,
}

/// A limit of the size of responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseLimit {
    /// The maximum size of a body in bytes.
    pub bytes: u32,
    /// Whether responses pass that do not state the length of their body.
    pub allows_unknown: bool,
}

/// Time limits of requests. The outer `None`: the limit of the route applies. The inner `None`: no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimeLimits {
    /// The limit of the complete response.
    pub request: Option<Option<Duration>>,
    /// The limit of the time without any data.
    pub idle: Option<Option<Duration>>,
}

/// A limit of the request rate, counted by each Envoy for each route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalRateLimit {
    /// The number of requests in each period.
    pub requests: u32,
    /// The period.
    pub period: Duration,
    /// The number of additional requests that may arrive at once.
    pub burst: u32,
    /// Whether the requests of each client address are counted separately.
    pub per_client_address: bool,
    /// The name of a bucket that several routes share. `None`: each route has its own bucket. The routes of each virtual host share a bucket
    /// with a burst, or with an answer of its own.
    pub shared: Option<Arc<str>>,
    /// The answer to requests over the limit. `None`: 429.
    pub answer: Option<Box<LimitAnswer>>,
}

/// The answer to requests over a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitAnswer {
    /// The status, one of [`LimitAnswer::STATUSES`].
    pub status: u16,
    /// The headers that are set.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

impl LimitAnswer {
    /// The statuses of errors that Envoy knows. It rejects a complete host for another one. Source: Envoy, `envoy.type.v3.StatusCode`.
    pub const STATUSES: [u16; 37] = [
        400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 421, 422, 423, 424,
        426, 428, 429, 431, 500, 501, 502, 503, 504, 505, 506, 507, 508, 510, 511,
    ];
}

impl LocalRateLimit {
    /// The maximum number of client addresses that a route counts separately. Beyond it, the least recently used
    /// address is dropped.
    pub const MAX_ADDRESSES: u32 = 10_000;
}

/// A compression algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CompressionAlgorithm {
    /// `gzip`
    Gzip,
    /// `br`
    Brotli,
    /// `zstd`
    Zstd,
}

impl CompressionAlgorithm {
    /// All algorithms.
    pub const ALL: [Self; 3] = [Self::Gzip, Self::Brotli, Self::Zstd];
}
