//! External authorization: the server of a host, and the routes that it authorizes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockgate_xds::provenance::ObjectRef;

use super::extension;
use super::report::{ProxyFault, ProxyReport};
use super::settings_server::{HostPolicy, context};
use super::situation::{self, Block};
use super::upstream::RootPolicies;
use crate::duration::{self, TimeLimit};
use crate::model::{
    Authorization, AuthorizationCheck, AuthorizationHttp, AuthorizationProtocol, HeaderPattern, RequestBody,
};
use crate::objects::http_proxy::{
    AuthorizationPolicy, AuthorizationServer, AuthorizationServerBody, HeaderNames, HttpAuthorizationSettings,
    VirtualHost,
};
use crate::translate::dialect::Resolver;

/// The field of the server.
const FIELD: &str = "spec.virtualhost.authorization";
/// The maximum time that a request waits for authorization.
pub const LONGEST: Duration = Duration::from_secs(60);
/// The maximum number of patterns of a list of headers, and the longest one in bytes. Each route has a copy.
const PATTERNS: usize = 32;
const LONGEST_NAME: usize = 256;

/// The consequence of a server that cannot be asked.
const CLOSED: &str = "routes with authorization are answered 503";

/// The authorization of a host.
#[derive(Debug, Default)]
pub struct HostAuthorization {
    /// The server. `None` within: it cannot be asked.
    server: Option<Option<Arc<Authorization>>>,
    /// Whether routes without a policy are not authorized.
    is_disabled: bool,
    /// Whether Envoy can send a context to the server.
    sends: Sends,
    /// The policy for the server of the settings, if the host has no server.
    of_settings: HostPolicy,
}

/// Whether Envoy can send a context to the server of a host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Sends {
    /// For all requests.
    #[default]
    All,
    /// Only for requests over TLS: a wildcard host in plain HTTP has no scope of its own.
    OverTls,
    /// For no request: the server of the settings can change the route of a request.
    Nothing,
}

impl HostAuthorization {
    /// Parses the authorization of a host.
    pub fn parse(
        host: &VirtualHost,
        origin: &ObjectRef,
        report: &mut ProxyReport,
        resolver: &mut Resolver,
        policies: &mut RootPolicies,
    ) -> Self {
        let Some(spec) = &host.authorization else { return Self::default() };
        if HostPolicy::concerns(spec, resolver.context.settings) {
            let (policy, field) = (spec.auth_policy.as_ref(), format!("{FIELD}.authPolicy"));
            let of_settings = HostPolicy::parse(policy, &field, origin, report, resolver.context.settings);
            return Self { of_settings, ..Self::default() };
        }
        let mut is_closed = report.add_rest(origin, FIELD, (&spec.rest, &[]), Block::Authorization, CLOSED);
        if let Some(policy) = &spec.auth_policy {
            let field = format!("{FIELD}.authPolicy");
            is_closed |= report.add_rest(origin, &field, (&policy.rest, &[]), Block::Authorization, CLOSED);
        }
        let is_http = spec.service_type == "http";
        let server = match server(spec, &origin.namespace, resolver, policies) {
            Ok((server, warnings)) => {
                for warning in warnings {
                    report.add_fault(origin, FIELD, warning, "left out");
                }
                Some(server).filter(|_| !is_closed)
            }
            Err(fault) => {
                report.add_fault(origin, FIELD, fault, CLOSED);
                None
            }
        };
        let policy = spec.auth_policy.as_ref();
        let field = format!("{FIELD}.authPolicy");
        let context = policy.map(|policy| context(policy, is_http, (origin, &field), CLOSED, report));
        let server = server.zip(context.unwrap_or_else(|| Ok(BTreeMap::new())).ok());
        let server = server.map(|(server, context)| with_context(server, context));
        let is_disabled = policy.is_some_and(|policy| policy.disabled);
        let sends = match resolver.context.settings.external_authorization.endpoint {
            Some(_) => Sends::Nothing,
            None if host.fqdn.starts_with("*.") => Sends::OverTls,
            None => Sends::All,
        };
        Self { server: Some(server), is_disabled, sends, ..Self::default() }
    }

    /// Returns the policy for the server of the settings. `None`: the host has a server of its own.
    pub fn of_settings(&self) -> Option<&HostPolicy> {
        self.server.is_none().then_some(&self.of_settings)
    }

    /// Returns the server of a route. `is_in_plain_text`: the route is served over plain HTTP. The error is reported, or the fault of the server has been.
    pub fn of_route(
        &self,
        policy: Option<&AuthorizationPolicy>,
        is_in_plain_text: bool,
        (origin, field): (&ObjectRef, &str),
        report: &mut ProxyReport,
    ) -> Result<Option<Arc<Authorization>>, ()> {
        let field = format!("{field}.authPolicy");
        if let Some(policy) = policy
            && report.add_rest(origin, &field, (&policy.rest, &[]), Block::Authorization, "answered 503")
        {
            return Err(());
        }
        let Some(server) = &self.server else { return Ok(None) };
        if policy.map_or(self.is_disabled, |policy| policy.disabled) {
            return Ok(None);
        }
        let server = server.clone().ok_or(())?;
        let is_http = server.check.protocol == AuthorizationProtocol::Http;
        let own = policy.map(|policy| context(policy, is_http, (origin, &field), "answered 503", report));
        let own = own.unwrap_or_else(|| Ok(BTreeMap::new()))?;
        let server = with_context(server, own);
        if server.context.is_empty() {
            return Ok(Some(server));
        }
        let message = match self.sends {
            Sends::All => return Ok(Some(server)),
            Sends::OverTls if !is_in_plain_text => return Ok(Some(server)),
            Sends::OverTls => "a wildcard host sends no context for requests over plain HTTP",
            Sends::Nothing => "no context can be sent beside the server of the setting \"externalAuthorization\"",
        };
        let field = format!("{field}.context");
        report.add(origin, field, &Block::Authorization.unsupported(), message, "answered 503");
        Err(())
    }
}

/// Adds values to the context of a server.
fn with_context(server: Arc<Authorization>, own: BTreeMap<String, String>) -> Arc<Authorization> {
    if own.is_empty() {
        return server;
    }
    let mut server = Arc::unwrap_or_clone(server);
    let mut context = Arc::unwrap_or_clone(server.context);
    context.extend(own);
    server.context = Arc::new(context);
    Arc::new(server)
}

/// Returns the server, and the warnings.
fn server(
    spec: &AuthorizationServer,
    namespace: &Arc<str>,
    resolver: &mut Resolver,
    policies: &mut RootPolicies,
) -> Result<(Arc<Authorization>, Vec<ProxyFault>), ProxyFault> {
    let AuthorizationServer {
        extension_ref,
        service_type,
        http_settings,
        auth_policy: _,
        response_timeout,
        fail_open,
        with_request_body,
        rest: _,
    } = spec;
    let protocol = match &**service_type {
        "" | "grpc" => AuthorizationProtocol::Grpc,
        "http" => AuthorizationProtocol::Http,
        other => {
            let message = format!("{other:?} is neither \"grpc\" nor \"http\"");
            return Err(ProxyFault::new(situation::auth("AuthServiceTypeInvalid"), ".serviceType", message));
        }
    };
    let http = match (http_settings, protocol) {
        (None, _) => AuthorizationHttp::default(),
        (Some(settings), AuthorizationProtocol::Http) => self::http(settings)?,
        (Some(_), AuthorizationProtocol::Grpc) => {
            let message = "only a server with \"serviceType: http\" has settings of HTTP";
            return Err(ProxyFault::new(situation::auth("AuthBadHTTPSettings"), ".httpSettings", message));
        }
    };
    let request_body = with_request_body.as_ref().map(|spec| body(spec, resolver)).transpose()?.unwrap_or_default();
    let mut warnings = Vec::new();
    let (clusters, of_service) = extension::clusters(extension_ref, protocol, namespace, resolver, policies)?;
    let default = of_service.unwrap_or(AuthorizationCheck::default().timeout);
    let timeout = match duration::limit(response_timeout) {
        None if response_timeout.is_empty() => default,
        Some(TimeLimit::After(time)) => time,
        Some(TimeLimit::Default) => default,
        Some(TimeLimit::Infinite) => LONGEST,
        None => {
            let message = format!("{response_timeout:?} is not a duration");
            let situation = situation::auth("AuthResponseTimeoutInvalid");
            warnings.push(ProxyFault::new(situation, ".responseTimeout", message));
            default
        }
    };
    let check =
        AuthorizationCheck { protocol, timeout: timeout.min(LONGEST), fail_open: *fail_open, request_body, http };
    Ok((
        Arc::new(Authorization {
            cluster: clusters.cluster,
            shares: clusters.shares,
            check,
            grpc_headers: Vec::new(),
            copies_answer: false,
            context: Arc::default(),
        }),
        warnings,
    ))
}

fn http(settings: &HttpAuthorizationSettings) -> Result<AuthorizationHttp, ProxyFault> {
    let HttpAuthorizationSettings { path_prefix, allowed_authorization_headers, allowed_upstream_headers, rest } =
        settings;
    let field = ".httpSettings";
    if let Some(name) = rest.names().next() {
        let message = format!("field {name:?} is not supported");
        return Err(ProxyFault::new(Block::Authorization.unsupported(), format!("{field}.{name}"), message));
    }
    let is_path = path_prefix.starts_with('/')
        && path_prefix.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#".contains(&byte));
    if !path_prefix.is_empty() && (!is_path || path_prefix.len() > LONGEST_NAME) {
        let message = format!("{path_prefix:?} is not the beginning of a path");
        return Err(ProxyFault::new(situation::auth("AuthBadPathPrefix"), format!("{field}.pathPrefix"), message));
    }
    Ok(AuthorizationHttp {
        path_prefix: (!path_prefix.is_empty()).then(|| path_prefix.clone()),
        request_patterns: patterns(&format!("{field}.allowedAuthorizationHeaders"), allowed_authorization_headers)?,
        upstream_patterns: patterns(&format!("{field}.allowedUpstreamHeaders"), allowed_upstream_headers)?,
        ..AuthorizationHttp::default()
    })
}

fn patterns(field: &str, list: &[HeaderNames]) -> Result<Vec<HeaderPattern>, ProxyFault> {
    let fault =
        |field: String, message: String| ProxyFault::new(situation::auth("AuthBadAllowedHeader"), field, message);
    if list.len() > PATTERNS {
        return Err(fault(field.to_owned(), format!("more than {PATTERNS} entries")));
    }
    let pattern = |(index, names): (usize, &HeaderNames)| {
        let HeaderNames { exact, prefix, suffix, contains, ignore_case: _, rest } = names;
        let field = format!("{field}[{index}]");
        if let Some(name) = rest.names().next() {
            return Err(fault(format!("{field}.{name}"), format!("field {name:?} is not supported")));
        }
        let pattern = match [&**exact, prefix, suffix, contains] {
            [text, "", "", ""] if !text.is_empty() => HeaderPattern::Exact(text.to_ascii_lowercase()),
            ["", text, "", ""] if !text.is_empty() => HeaderPattern::Prefix(text.to_ascii_lowercase()),
            ["", "", text, ""] if !text.is_empty() => HeaderPattern::Suffix(text.to_ascii_lowercase()),
            ["", "", "", text] if !text.is_empty() => HeaderPattern::Contains(text.to_ascii_lowercase()),
            _ => {
                let message = "not exactly one of \"exact\", \"prefix\", \"suffix\", and \"contains\"".to_owned();
                return Err(fault(field, message));
            }
        };
        let texts = [exact, prefix, suffix, contains];
        let is_name = |text: &&String| {
            text.len() <= LONGEST_NAME && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':')
        };
        match texts.into_iter().find(|text| !is_name(text)) {
            Some(text) => Err(fault(field, format!("{text:?} is no part of the name of a header"))),
            None => Ok(pattern),
        }
    };
    list.iter().enumerate().map(pattern).collect()
}

/// Returns the part of the body that the server receives. A smaller size than the object sets could hide a part of the body from the
/// server.
fn body(spec: &AuthorizationServerBody, resolver: &Resolver) -> Result<RequestBody, ProxyFault> {
    let AuthorizationServerBody { max_request_bytes, allow_partial_message, pack_as_bytes, rest } = spec;
    let field = ".withRequestBody";
    if let Some(name) = rest.names().next() {
        let message = format!("field {name:?} is not supported");
        return Err(ProxyFault::new(Block::Authorization.unsupported(), format!("{field}.{name}"), message));
    }
    let most = resolver.context.settings.tenants.max_buffered_bytes;
    let bytes = max_request_bytes.filter(|bytes| *bytes != 0).unwrap_or(1024);
    let valid = u32::try_from(bytes).ok().filter(|bytes| (1..=most).contains(bytes));
    let fault = || {
        let message = format!("{bytes} is not between 1 and {most}, the setting tenants.maxBufferedBytes");
        ProxyFault::new(situation::auth("AuthRequestBodyInvalid"), format!("{field}.maxRequestBytes"), message)
    };
    let max_bytes = Some(valid.ok_or_else(fault)?);
    Ok(RequestBody { max_bytes, allow_partial: *allow_partial_message, pack_as_bytes: *pack_as_bytes })
}
