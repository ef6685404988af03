//! JSON Web Tokens: the providers of a host, and the provider whose token a route needs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockgate_xds::provenance::ObjectRef;

use super::report::{ProxyFault, ProxyReport};
use super::server::{Refusal, Server, ServerTrafficPolicy};
use super::situation::{self, Block, Situation};
use super::upstream::{self, RootPolicies};
use super::validation::{self, ValidationField};
use crate::duration::{self, TimeLimit};
use crate::model::{Jwks, Jwt, JwtIssuer, RemoteJwks, UpstreamProtocol, Verification};
use crate::objects::http_proxy::{self as objects, JwtVerificationPolicy, LocalKeys, RemoteKeys};
use crate::objects::{Kind, ObjectKey};
use crate::translate::dialect::Resolver;
use crate::translate::fault::FieldFault;
use crate::translate::gateway::web_keys;
use crate::translate::grants::Reference;
use crate::translate::problem::Reason;
use crate::translate::uri::Uri;

/// The maximum number of providers of a host.
const PROVIDERS: usize = 32;
/// The maximum number of audiences of a provider, and the longest text of a provider, in bytes.
const AUDIENCES: usize = 32;
const LONGEST: usize = 1024;
/// The time limit of an answer: the default, and the maximum.
const TIMEOUT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// The time after which keys are fetched again: the minimum, the default, and the maximum. Each route fetches them.
const REFRESH: (Duration, Duration, Duration) =
    (Duration::from_secs(60), Duration::from_secs(300), Duration::from_secs(24 * 3600));

/// The errors of the verification of a server.
const VALIDATION_NOT_VALID: Situation = situation::jwt("RemoteJWKSUpstreamValidationInvalid");
const CA_NOT_DELEGATED: Situation =
    situation::error("JWTVerificationError", "RemoteJWKSCACertificateNotDelegated", Reason::ReferenceNotPermitted);

/// The consequence of a provider that is not valid.
const CLOSED: &str = "routes that need its tokens are answered 503";

/// The providers of a host.
#[derive(Debug, Default)]
pub struct Tokens {
    /// The providers. `None`: it is not valid.
    providers: BTreeMap<String, Option<Arc<Jwt>>>,
    /// The provider of routes without a policy. `None` within: there are several.
    default: Option<Option<String>>,
}

impl Tokens {
    /// Parses the providers of a host.
    pub fn parse(
        providers: &[objects::JwtProvider],
        origin: &ObjectRef,
        report: &mut ProxyReport,
        resolver: &mut Resolver,
        policies: &mut RootPolicies,
    ) -> Self {
        let mut tokens = Self::default();
        for (index, provider) in providers.iter().enumerate() {
            let field = format!("spec.virtualhost.jwtProviders[{index}]");
            let mut is_closed = report.add_rest(origin, &field, (&provider.rest, &[]), Block::Jwt, CLOSED);
            let keys = provider.remote_jwks.as_ref();
            let verification = keys.and_then(|keys| verification(keys, (origin, &field), report, resolver).transpose());
            let verification = verification.transpose().unwrap_or_else(|()| {
                is_closed = true;
                None
            });
            let parsed = match self::provider(provider, index, &origin.namespace, verification, resolver, policies) {
                Ok(parsed) => Some(parsed).filter(|_| !is_closed),
                Err(fault) => {
                    report.add_fault(origin, &field, fault, CLOSED);
                    None
                }
            };
            if provider.default {
                if tokens.default.is_some() {
                    let message = "another provider is the default too";
                    let closed = "routes without a policy for tokens are answered 503";
                    report.add(origin, format!("{field}.default"), &situation::JWT_DEFAULTS, message, closed);
                }
                tokens.default = Some(tokens.default.is_none().then(|| provider.name.clone()));
            }
            let is_known = tokens.providers.insert(provider.name.clone(), parsed).is_some();
            if is_known {
                // It is unknown which one a route needs.
                let message = format!("another provider has the name {:?}", provider.name);
                report.add(origin, format!("{field}.name"), &situation::JWT_NAME_DUPLICATE, message, CLOSED);
                tokens.providers.insert(provider.name.clone(), None);
            }
        }
        tokens
    }

    /// Returns the tokens that a route needs. The error is reported, or the fault of the provider has been.
    pub fn of_route(
        &self,
        policy: Option<&JwtVerificationPolicy>,
        origin: &ObjectRef,
        field: &str,
        report: &mut ProxyReport,
    ) -> Result<Option<Arc<Jwt>>, ()> {
        let field = format!("{field}.jwtVerificationPolicy");
        let closed = "answered 503";
        if let Some(policy) = policy {
            if report.add_rest(origin, &field, (&policy.rest, &[]), Block::Jwt, closed) {
                return Err(());
            }
            if policy.disabled && !policy.require.is_empty() {
                let message = "only one of \"require\" and \"disabled\" can be set";
                report.add(origin, field, &situation::JWT_POLICY_NOT_VALID, message, closed);
                return Err(());
            }
            if policy.disabled {
                return Ok(None);
            }
            if !policy.require.is_empty() {
                return match self.providers.get(&policy.require) {
                    Some(provider) => provider.clone().map(Some).ok_or(()),
                    None => {
                        let message = format!("the host has no provider {:?}", policy.require);
                        let field = format!("{field}.require");
                        report.add(origin, field, &situation::JWT_PROVIDER_NOT_DEFINED, message, closed);
                        Err(())
                    }
                };
            }
        }
        match &self.default {
            None => Ok(None),
            Some(name) => {
                let provider = name.as_ref().and_then(|name| self.providers.get(name)?.clone());
                provider.map(Some).ok_or(())
            }
        }
    }
}

fn provider(
    provider: &objects::JwtProvider,
    index: usize,
    namespace: &Arc<str>,
    verification: Option<(Verification, usize)>,
    resolver: &mut Resolver,
    policies: &mut RootPolicies,
) -> Result<Arc<Jwt>, ProxyFault> {
    let objects::JwtProvider { name, default: _, issuer, audiences, remote_jwks, local_jwks, forward_jwt, rest: _ } =
        provider;
    let fault = |below: &str, message: String| ProxyFault::new(situation::JWT_PROVIDER_NOT_VALID, below, message);
    if index >= PROVIDERS {
        return Err(fault("", format!("the host has more than {PROVIDERS} providers")));
    }
    if name.is_empty() {
        return Err(fault(".name", "missing".to_owned()));
    }
    if audiences.len() > AUDIENCES {
        return Err(fault(".audiences", format!("more than {AUDIENCES} audiences")));
    }
    if issuer.len() > LONGEST || audiences.iter().any(|one| one.len() > LONGEST) {
        return Err(fault("", format!("a text is longer than {LONGEST} bytes")));
    }
    let jwks = match (remote_jwks, local_jwks) {
        (Some(_), Some(_)) => {
            let message = "only one of \"remoteJWKS\" and \"localJWKS\" can be set";
            return Err(ProxyFault::new(situation::jwt("JWKSSourceConflict"), "", message));
        }
        (None, None) => {
            let message = "neither \"remoteJWKS\" nor \"localJWKS\" is set";
            return Err(ProxyFault::new(situation::jwt("JWKSSourceMissing"), "", message));
        }
        (Some(keys), None) => Jwks::Remote(remote(keys, namespace, verification, resolver, policies)?),
        (None, Some(keys)) => Jwks::Inline(local(keys, namespace, resolver).map_err(|fault| {
            let FieldFault { field, message } = fault.within(".localJWKS");
            ProxyFault::new(situation::jwt("LocalJWKSInvalid"), field, message)
        })?),
    };
    let audiences = audiences.iter().map(|one| one.as_str().into()).collect();
    let (issuer, forwards) = (issuer.as_str().into(), *forward_jwt);
    let provider = JwtIssuer { issuer, audiences, jwks, forwards, reads_query: true };
    Ok(Arc::new(Jwt { providers: vec![provider] }))
}

/// Returns the keys of a Secret. The message of a fault has no content of the Secret.
fn local(keys: &LocalKeys, namespace: &Arc<str>, resolver: &mut Resolver) -> Result<Arc<str>, FieldFault> {
    let LocalKeys { secret_name, key, rest } = keys;
    if let Some(name) = rest.names().next() {
        return Err(FieldFault::new(format!(".{name}"), format!("field {name:?} is not supported")));
    }
    let secret = ObjectKey { namespace: namespace.clone(), name: secret_name.as_str().into() };
    let Some(found) = resolver.secret(secret.clone()) else {
        return Err(FieldFault::new(".secretName", format!("Secret \"{secret}\" does not exist")));
    };
    let text = found.key_sets.iter().find(|(name, _)| **name == **key);
    let Some((_, text)) = text else {
        let message = format!("Secret \"{secret}\" has no JSON Web Key Set at data[{key:?}]");
        return Err(FieldFault::new(".key", message));
    };
    web_keys::parse(text)
        .map_err(|message| FieldFault::new(".key", format!("Secret \"{secret}\", data[{key:?}]: {message}")))
}

/// Returns the verification of a server, if there is one, and the size of its certificate authorities in bytes. The error is reported.
fn verification(
    keys: &RemoteKeys,
    (origin, field): (&ObjectRef, &str),
    report: &mut ProxyReport,
    resolver: &mut Resolver,
) -> Result<Option<(Verification, usize)>, ()> {
    let Some(validation) = &keys.validation else { return Ok(None) };
    let field = format!("{field}.remoteJWKS.validation");
    let uri = Uri::parse(&keys.uri);
    if uri.is_some_and(|uri| !uri.is_https) {
        let message = "a server with the scheme \"http\" has no certificate";
        report.add(origin, field, &VALIDATION_NOT_VALID, message, CLOSED);
        return Err(());
    }
    // As with Contour, the server name is the host that Envoy connects to.
    let external = uri.and_then(|uri| upstream::external_name(resolver.context.objects, &uri.service()?));
    let server_name = external.or_else(|| uri.map(|uri| uri.host.into()));
    let place = ValidationField {
        origin,
        field: &field,
        block: Block::Jwt,
        not_valid: VALIDATION_NOT_VALID,
        not_delegated: CA_NOT_DELEGATED,
        closed: CLOSED,
    };
    validation::parse(validation, server_name, place, report, resolver).map(Some)
}

/// Returns the keys of a server, a Service.
fn remote(
    keys: &RemoteKeys,
    namespace: &Arc<str>,
    verification: Option<(Verification, usize)>,
    resolver: &mut Resolver,
    policies: &mut RootPolicies,
) -> Result<RemoteJwks, ProxyFault> {
    let RemoteKeys { uri, timeout, cache_duration, dns_lookup_family, validation: _, rest } = keys;
    let fault = |reason: &'static str, below: &str, message: String| {
        ProxyFault::new(situation::jwt(reason), format!(".remoteJWKS{below}"), message)
    };
    if let Some(name) = rest.names().next() {
        let message = format!("field {name:?} is not supported");
        return Err(ProxyFault::new(Block::Jwt.unsupported(), format!(".remoteJWKS.{name}"), message));
    }
    if !matches!(&**dns_lookup_family, "" | "auto" | "v4" | "v6") {
        let message = format!("{dns_lookup_family:?} is none of \"auto\", \"v4\", and \"v6\"");
        return Err(fault("RemoteJWKSDNSLookupFamilyInvalid", ".dnsLookupFamily", message));
    }
    let time = |text: &str, default: Duration| match text {
        "" => Some(default),
        text => match duration::limit(text)? {
            TimeLimit::Default => Some(default),
            TimeLimit::After(time) => Some(time),
            TimeLimit::Infinite => None,
        },
    };
    let Some(timeout) = time(timeout, TIMEOUT.0).filter(|time| *time <= TIMEOUT.1) else {
        let message = format!("{timeout:?} is not a time up to 1m, such as 500ms");
        return Err(fault("RemoteJWKSTimeoutInvalid", ".timeout", message));
    };
    let Some(refresh) = time(cache_duration, REFRESH.1) else {
        let message = format!("{cache_duration:?} is not a time such as 10m");
        return Err(fault("RemoteJWKSCacheDurationInvalid", ".cacheDuration", message));
    };
    let Some(parsed) = Uri::parse(uri) else {
        let message = format!("{uri:?} is not a URI such as https://login.example.com/keys");
        return Err(fault("RemoteJWKSURIInvalid", ".uri", message));
    };
    let Some(service) = parsed.service() else {
        let message = format!(
            "{:?} is not the name of a Service, such as keys.{}.svc; a Service of type ExternalName can name another host",
            parsed.host, namespace
        );
        return Err(fault("RemoteJWKSURIInvalid", ".uri", message));
    };
    let grant = Reference { from: Kind::HTTP_PROXY, namespace, group: "", kind: "Service", to: &service };
    if !resolver.permits(&grant) {
        let message = format!("no ReferenceGrant permits the reference to Service \"{service}\"");
        return Err(fault("RemoteJWKSURIInvalid", ".uri", message));
    }
    let protocol = parsed.is_https.then_some(UpstreamProtocol::Tls);
    let wanted = ServerTrafficPolicy { protocol, verification, ..ServerTrafficPolicy::default() };
    let server = Server::new(service, parsed.port, wanted, resolver.context);
    let cluster = server.cluster(policies, resolver).map_err(|refusal| match refusal {
        Refusal::TooMany => fault("TooManyPolicies", ".validation", upstream::too_many()),
        Refusal::Fault(message) => fault("RemoteJWKSURIInvalid", ".uri", message),
    })?;
    let refresh = refresh.clamp(REFRESH.0, REFRESH.2);
    Ok(RemoteJwks { uri: uri.as_str().into(), cluster, timeout, refresh, fallback: None })
}
