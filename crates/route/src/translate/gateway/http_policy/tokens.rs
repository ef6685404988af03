//! The JSON Web Tokens that an HTTPPolicy requires.

use std::sync::Arc;
use std::time::Duration;

use super::references::backend;
use crate::duration;
use crate::model::{Jwks, Jwt, JwtIssuer, RemoteJwks};
use crate::objects::gateway::{JwksSpec, JwtProviderSpec, JwtSpec, RemoteJwksSpec};
use crate::translate::dialect::Resolver;
use crate::translate::fault::FieldFault;
use crate::translate::gateway::backend::Called;
use crate::translate::gateway::web_keys;
use crate::translate::uri::Uri;

/// The maximum number of providers. Source: CustomResourceDefinition. Manifests are not validated against it.
const PROVIDERS: usize = 4;
/// The time limit of an answer: the default, and the maximum.
const TIMEOUT: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60));
/// The time after which keys are fetched again: the minimum, the default, and the maximum. Each route fetches them, so a short time could
/// overload the server.
const REFRESH: (Duration, Duration, Duration) =
    (Duration::from_secs(60), Duration::from_secs(600), Duration::from_secs(24 * 3600));

/// Parses the tokens that requests need.
pub fn jwt(spec: &JwtSpec, namespace: &Arc<str>, resolver: &mut Resolver) -> Result<Arc<Jwt>, FieldFault> {
    let JwtSpec { providers } = spec;
    if providers.is_empty() || providers.len() > PROVIDERS {
        return Err(FieldFault::new(".providers", format!("not between 1 and {} providers", PROVIDERS)));
    }
    let provider = |(i, provider): (usize, &JwtProviderSpec)| {
        let JwtProviderSpec { issuer, audiences, jwks } = provider;
        let fault = |field: &str, message: String| FieldFault::new(format!(".providers[{i}].{field}"), message);
        if issuer.is_empty() {
            return Err(fault("issuer", "missing".to_owned()));
        }
        // Envoy verifies a token with the keys of all providers that have its issuer.
        if providers[..i].iter().any(|other| other.issuer == *issuer) {
            return Err(fault("issuer", format!("{issuer:?} is the issuer of another provider")));
        }
        let jwks =
            keys(jwks, namespace, resolver).map_err(|fault| fault.within(format_args!(".providers[{i}].jwks")))?;
        let audiences = audiences.iter().map(|one| one.as_str().into()).collect();
        Ok(JwtIssuer { issuer: issuer.as_str().into(), audiences, jwks, forwards: true, reads_query: false })
    };
    let providers = providers.iter().enumerate().map(provider).collect::<Result<_, _>>()?;
    Ok(Arc::new(Jwt { providers }))
}

fn keys(spec: &JwksSpec, namespace: &Arc<str>, resolver: &mut Resolver) -> Result<Jwks, FieldFault> {
    let JwksSpec { inline, remote } = spec;
    let inline = inline.as_ref().map(|text| web_keys::parse(text)).transpose();
    let inline = inline.map_err(|message| FieldFault::new(".inline", message))?;
    match (remote, inline) {
        (Some(remote), fallback) => {
            let remote = self::remote(remote, fallback, namespace, resolver);
            remote.map(Jwks::Remote).map_err(|fault| fault.within(".remote"))
        }
        (None, Some(keys)) => Ok(Jwks::Inline(keys)),
        (None, None) => Err(FieldFault::new("", "neither inline nor remote is set")),
    }
}

fn remote(
    spec: &RemoteJwksSpec,
    fallback: Option<Arc<str>>,
    namespace: &Arc<str>,
    resolver: &mut Resolver,
) -> Result<RemoteJwks, FieldFault> {
    let RemoteJwksSpec { uri, backend_ref, timeout, refresh_interval } = spec;
    let Some(Uri { is_https, .. }) = Uri::parse(uri) else {
        return Err(FieldFault::new(".uri", format!("{uri:?} is not a URI such as https://login.example.com/keys")));
    };
    let timeout = match timeout {
        None => TIMEOUT.0,
        Some(text) => {
            let limit = duration::parse(text).filter(|limit| (Duration::from_millis(1)..=TIMEOUT.1).contains(limit));
            limit.ok_or_else(|| {
                FieldFault::new(".timeout", format!("{text:?} is not a time from 1ms to 1m, such as 500ms"))
            })?
        }
    };
    let refresh = match refresh_interval {
        None => REFRESH.1,
        Some(text) => {
            let time = duration::parse(text).filter(|time| (REFRESH.0..=REFRESH.2).contains(time));
            time.ok_or_else(|| {
                FieldFault::new(".refreshInterval", format!("{text:?} is not a time from 1m to 24h, such as 10m"))
            })?
        }
    };
    let Called { cluster, is_verified } = backend(backend_ref, None, namespace, resolver)?;
    if is_https && !is_verified {
        let message = "the URI is https, but no BackendTLSPolicy targets this port of the Service".to_owned();
        return Err(FieldFault::new(".backendRef", message));
    }
    Ok(RemoteJwks { uri: uri.as_str().into(), cluster, timeout, refresh, fallback })
}
