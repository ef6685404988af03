//! Builders of HTTPPolicies.

use crate::objects::Object;
use crate::objects::gateway::{
    AbortSpec, ApiKeySourceSpec, ApiKeysSpec, BasicAuthenticationSpec, BodyMode, ClientAddressesSpec, CompressionSpec,
    CorsSpec, CsrfSpec, DelaySpec, DescriptorEntrySpec, DescriptorEntryType, DescriptorSpec, ErrorResponseSpec,
    ExternalProcessingSpec, FaultsSpec, GlobalRateLimitSpec, GrpcJsonSpec, HeaderChangesSpec, HeaderMode, HeaderSpec,
    HostnameFromSpec, HostnameOfPathSpec, HttpFeaturesSpec, HttpPolicy, HttpPolicySpec, HttpPolicyTarget, JwksSpec,
    JwtProviderSpec, JwtSpec, Lenient, LocalRateLimitSpec, MaxResponseBodySpec, MirrorSpec, OidcProviderSpec, OidcSpec,
    PathRewriteSpec, PolicyBackend, PolicySecret, ProcessedSpec, RateUnit, RegexRewriteSpec, RemoteJwksSpec,
    RequestBufferingSpec, RetriesSpec, StatusesSpec, TimeoutsSpec, UnknownLength, UrlRewriteSpec, WasmSpec,
};
use crate::testing::objects::{meta, with_meta};

/// An HTTPPolicy.
#[derive(Clone)]
pub struct HttpPolicyBuilder(HttpPolicy);
with_meta!(HttpPolicyBuilder);

/// Starts the HTTPPolicy `shop/name`, or `name` if it has a namespace. It has neither targets nor features.
pub fn http_policy(name: &str) -> HttpPolicyBuilder {
    let spec = HttpPolicySpec::default();
    HttpPolicyBuilder(HttpPolicy { meta: meta(name), spec, status: Default::default(), version: "".into() })
}

impl HttpPolicyBuilder {
    /// Adds a target: an Ingress, a Namespace, or an object of Gateway API.
    pub fn target(mut self, kind: &str, name: &str) -> Self {
        let group = match kind {
            "Ingress" => "networking.k8s.io",
            "HTTPProxy" => "projectcontour.io",
            "Namespace" => "",
            _ => super::GROUP,
        };
        let (group, kind, name) = (group.to_owned(), kind.to_owned(), name.to_owned());
        self.0.spec.target_refs.push(HttpPolicyTarget { group, kind, name, section_name: None });
        self
    }

    /// Restricts the last target to a listener, a rule, or a host.
    pub fn section(mut self, name: &str) -> Self {
        if let Some(target) = self.0.spec.target_refs.last_mut() {
            target.section_name = Some(name.into());
        }
        self
    }

    /// Allows a number of requests per second.
    pub fn rate(self, requests: u32) -> Self {
        self.limit(requests, false)
    }

    /// Allows each client address a number of requests per second.
    pub fn rate_per_client(self, requests: u32) -> Self {
        self.limit(requests, true)
    }

    fn limit(self, requests: u32, per_client_address: bool) -> Self {
        let limit = LocalRateLimitSpec { requests, unit: RateUnit::Second, burst: 0, per_client_address };
        self.spec(|spec| spec.local_rate_limit = Some(limit.into()))
    }

    /// Allows the clients of these ranges.
    pub fn allow(self, ranges: &[&str]) -> Self {
        let allow = ranges.iter().map(|range| (*range).to_owned()).collect();
        self.spec(|spec| spec.client_addresses = Some(ClientAddressesSpec { allow, deny: Vec::new() }.into()))
    }

    /// Requires the password of a user of this Secret.
    pub fn users_of(self, secret: &str) -> Self {
        self.spec(|spec| {
            let spec = spec.basic_authentication.insert(BasicAuthenticationSpec::default().into());
            if let Lenient::Valid(spec) = spec {
                spec.secret_ref = secret_ref(secret);
            }
        })
    }

    /// Requires an API key of these Secrets in the header `x-api-key`.
    pub fn api_keys_of(self, secrets: &[&str]) -> Self {
        let secret_refs = secrets.iter().map(|secret| secret_ref(secret)).collect();
        let sources = vec![ApiKeySourceSpec { header: Some("x-api-key".to_owned()), ..Default::default() }];
        self.spec(|spec| spec.api_keys = Some(ApiKeysSpec { secret_refs, sources, client_header: None }.into()))
    }

    /// Requires a token that is signed with a key of this Service.
    pub fn keys_of(self, uri: &str, service: &str) -> Self {
        let (namespace, name) = super::named(service);
        let backend_ref = PolicyBackend { name, namespace, port: 80 };
        let remote = RemoteJwksSpec { uri: uri.to_owned(), backend_ref, ..Default::default() };
        let jwks = JwksSpec { inline: None, remote: Some(remote) };
        let provider = JwtProviderSpec { issuer: "https://issuer.test".to_owned(), audiences: Vec::new(), jwks };
        self.spec(|spec| spec.jwt = Some(JwtSpec { providers: vec![provider] }.into()))
    }

    /// Requires a login with this Secret at a provider whose token endpoint is a Service.
    pub fn login_of(self, secret: &str, service: &str) -> Self {
        let (namespace, name) = super::named(service);
        let backend_ref = PolicyBackend { name, namespace, port: 80 };
        let provider = OidcProviderSpec {
            authorization_endpoint: "https://login.test/authorize".to_owned(),
            token_endpoint: "http://login.test/token".to_owned(),
            end_session_endpoint: None,
            backend_ref,
        };
        let client_secret_ref = secret_ref(secret);
        let spec = OidcSpec { provider, client_id: "shop".to_owned(), client_secret_ref, ..OidcSpec::default() };
        self.spec(|policy| policy.oidc = Some(spec.into()))
    }

    /// Admits changes by web pages of these hosts.
    pub fn pages(self, hosts: &[&str]) -> Self {
        let additional_origins = hosts.iter().map(|host| (*host).to_owned()).collect();
        self.spec(|spec| spec.csrf = Some(CsrfSpec { additional_origins }.into()))
    }

    /// Admits scripts of pages of these origins.
    pub fn scripts_of(self, origins: &[&str]) -> Self {
        let allow_origins = origins.iter().map(|origin| (*origin).to_owned()).collect();
        self.spec(|spec| spec.cors = Some(CorsSpec { allow_origins, ..CorsSpec::default() }.into()))
    }

    /// Retries requests this often.
    pub fn retries(self, attempts: u32) -> Self {
        self.spec(|spec| spec.retries = Some(RetriesSpec { attempts: Some(attempts), ..Default::default() }.into()))
    }

    /// Limits the time of a response, and the time without data.
    pub fn timeouts(self, request: Option<&str>, idle: Option<&str>) -> Self {
        let (request, idle) = (request.map(str::to_owned), idle.map(str::to_owned));
        self.spec(|spec| spec.timeouts = Some(TimeoutsSpec { request, idle }.into()))
    }

    /// Replaces the beginning of paths.
    pub fn rewrite(self, pattern: &str, substitution: &str) -> Self {
        let regex = RegexRewriteSpec { pattern: pattern.to_owned(), substitution: substitution.to_owned() };
        let rewrite = UrlRewriteSpec { path: Some(PathRewriteSpec { regex }), ..UrlRewriteSpec::default() };
        self.spec(|spec| spec.url_rewrite = Some(rewrite.into()))
    }

    /// Takes the host for backends from a header.
    pub fn host_in(self, header: &str) -> Self {
        self.host_from(HostnameFromSpec { header: Some(header.to_owned()), path: None })
    }

    /// Makes the host for backends of the path.
    pub fn host_of_path(self, pattern: &str, substitution: &str) -> Self {
        let (pattern, substitution) = (pattern.to_owned(), substitution.to_owned());
        self.host_from(HostnameFromSpec { header: None, path: Some(HostnameOfPathSpec { pattern, substitution }) })
    }

    fn host_from(self, from: HostnameFromSpec) -> Self {
        let rewrite = UrlRewriteSpec { hostname_from: Some(from), ..UrlRewriteSpec::default() };
        self.spec(|spec| spec.url_rewrite = Some(rewrite.into()))
    }

    /// Copies requests to a Service.
    pub fn mirror(self, service: &str) -> Self {
        let (namespace, name) = super::named(service);
        let backend_ref = PolicyBackend { name, namespace, port: 80 };
        let mirror = MirrorSpec { backend_ref, ..MirrorSpec::default() };
        self.spec(|spec| spec.mirrors = Some(vec![mirror].into()))
    }

    /// Sets a header of requests and of responses.
    pub fn headers(self, name: &str, value: &str) -> Self {
        let set = vec![HeaderSpec { name: name.to_owned(), value: value.to_owned() }];
        let changes = HeaderChangesSpec { set, ..HeaderChangesSpec::default() };
        self.spec(|spec| {
            spec.request_headers = Some(changes.clone().into());
            spec.response_headers = Some(changes.into());
        })
    }

    /// Replaces the error responses with these statuses.
    pub fn error_responses(self, statuses: &str, body: &str) -> Self {
        let statuses = vec![StatusesSpec::Text(statuses.to_owned())];
        let answer = ErrorResponseSpec { statuses, body: body.to_owned(), ..ErrorResponseSpec::default() };
        self.spec(|spec| spec.error_responses = Some(vec![answer].into()))
    }

    /// Disables compression.
    pub fn uncompressed(self) -> Self {
        self.spec(|spec| spec.compression = Some(CompressionSpec { algorithms: Vec::new() }.into()))
    }

    /// Limits the size of request bodies.
    pub fn body(self, size: &str) -> Self {
        self.spec(|spec| spec.max_request_body = Some(size.to_owned().into()))
    }

    /// Holds bodies until they are complete.
    pub fn buffered(self, size: &str) -> Self {
        let spec = RequestBufferingSpec { max_size: size.to_owned() };
        self.spec(|policy| policy.request_buffering = Some(spec.into()))
    }

    /// Counts the requests with each value of this header, and those of each client address, in a service.
    pub fn counted_by(self, header: &str) -> Self {
        let entry = |r#type, key: Option<&str>, header: Option<&str>| DescriptorEntrySpec {
            r#type,
            key: key.map(str::to_owned),
            value: None,
            header: header.map(str::to_owned),
        };
        let entries = [
            entry(DescriptorEntryType::Header, Some("user"), Some(header)),
            entry(DescriptorEntryType::ClientAddress, None, None),
        ];
        let descriptors = entries.map(|entry| DescriptorSpec { entries: vec![entry] }).into();
        self.spec(|policy| policy.global_rate_limit = Some(GlobalRateLimitSpec { descriptors }.into()))
    }

    /// Changes requests in a server, which receives the body in this mode, and the headers of responses.
    pub fn processed_by(self, service: &str, body: BodyMode) -> Self {
        let (namespace, name) = super::named(service);
        let max_bytes = (body == BodyMode::Buffered).then(|| "64KiB".to_owned());
        let spec = ExternalProcessingSpec {
            backend_ref: PolicyBackend { name, namespace, port: 80 },
            request: Some(ProcessedSpec { headers: None, body, max_bytes }),
            response: Some(ProcessedSpec { headers: Some(HeaderMode::Send), ..ProcessedSpec::default() }),
            ..ExternalProcessingSpec::default()
        };
        self.spec(|policy| policy.external_processing = Some(spec.into()))
    }

    /// Runs a module of the settings.
    pub fn module(self, name: &str) -> Self {
        let spec = WasmSpec { module: name.to_owned() };
        self.spec(|policy| policy.wasm = Some(spec.into()))
    }

    /// Converts JSON for these services. `descriptors`: see [`GrpcJsonSpec`].
    pub fn grpc_json(self, descriptors: &str, services: &[&str]) -> Self {
        let services = services.iter().map(|service| (*service).to_owned()).collect();
        let spec = GrpcJsonSpec { descriptors: descriptors.to_owned(), services };
        self.spec(|policy| policy.grpc_json = Some(spec.into()))
    }

    /// Limits the size of responses.
    pub fn responses(self, size: &str, unknown_length: UnknownLength) -> Self {
        let spec = MaxResponseBodySpec { size: size.to_owned(), unknown_length };
        self.spec(|policy| policy.max_response_body = Some(spec.into()))
    }

    /// Delays and aborts requests.
    pub fn faults(self, delay: &str, status: u16) -> Self {
        let delay = Some(DelaySpec { duration: delay.to_owned(), percent: None });
        let spec = FaultsSpec { delay, abort: Some(AbortSpec { status, percent: Some(50) }) };
        self.spec(|policy| policy.faults = Some(spec.into()))
    }

    /// Moves the features to `overrides`.
    pub fn overriding(mut self) -> Self {
        self.0.spec.overrides = Some(std::mem::take(&mut self.0.spec.features).into());
        self
    }

    /// Moves the features to `defaults`.
    pub fn as_defaults(mut self) -> Self {
        self.0.spec.defaults = Some(std::mem::take(&mut self.0.spec.features).into());
        self
    }

    /// Applies any other change to the features.
    pub fn spec(mut self, change: impl FnOnce(&mut HttpFeaturesSpec)) -> Self {
        change(&mut self.0.spec.features);
        self
    }
}

/// Returns the reference to the Secret `name` or `namespace/name`.
fn secret_ref(text: &str) -> PolicySecret {
    let (namespace, name) = super::named(text);
    PolicySecret { name, namespace }
}
