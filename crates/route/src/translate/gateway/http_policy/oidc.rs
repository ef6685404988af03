//! The login of users at an OpenID provider, which an HTTPPolicy requires.

use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::references::{backend, permit};
use crate::model::{Oidc, SecretId, SecretPart};
use crate::objects::gateway::{OidcProviderSpec, OidcSpec, PolicySecret};
use crate::objects::{CLIENT_SECRET, Kind, ObjectKey};
use crate::translate::dialect::Resolver;
use crate::translate::fault::FieldFault;
use crate::translate::gateway::backend::Called;
use crate::translate::uri::Uri;

/// The maximum number of scopes. Source: CustomResourceDefinition. Manifests are not validated against it.
const SCOPES: usize = 16;
/// The longest path, identifier, and scope.
const LONGEST: usize = 253;
/// The scope of OpenID Connect.
const OPENID: &str = "openid";
/// The paths that do not reach backends, if the policy does not tell.
const REDIRECT_PATH: &str = "/oauth2/callback";
const LOGOUT_PATH: &str = "/oauth2/logout";

/// Parses the login that `policy` requires.
pub fn parse(
    spec: &OidcSpec,
    policy: &ObjectRef,
    namespace: &Arc<str>,
    resolver: &mut Resolver,
) -> Result<Arc<Oidc>, FieldFault> {
    let OidcSpec { provider, client_id, client_secret_ref, scopes, redirect_path, logout_path, forward_access_token } =
        spec;
    let OidcProviderSpec { authorization_endpoint, token_endpoint, end_session_endpoint, backend_ref } = provider;
    visitable(authorization_endpoint, ".provider.authorizationEndpoint")?;
    if let Some(endpoint) = end_session_endpoint {
        visitable(endpoint, ".provider.endSessionEndpoint")?;
    }
    let Some(Uri { is_https, .. }) = Uri::parse(token_endpoint) else {
        let message = format!("{token_endpoint:?} is not a URI such as https://login.example.com/token");
        return Err(FieldFault::new(".provider.tokenEndpoint", message));
    };
    if client_id.is_empty() || client_id.len() > LONGEST || client_id.chars().any(char::is_control) {
        return Err(FieldFault::new(".clientID", format!("not 1 to {LONGEST} characters without control characters")));
    }
    let scopes = self::scopes(scopes)?;
    let redirect_path = path(redirect_path.as_deref().unwrap_or(REDIRECT_PATH), ".redirectPath")?;
    let logout_path = path(logout_path.as_deref().unwrap_or(LOGOUT_PATH), ".logoutPath")?;
    if redirect_path == logout_path {
        return Err(FieldFault::new(".logoutPath", "it is also the redirectPath"));
    }
    let secret = client_secret(client_secret_ref, namespace, resolver)?;
    let Called { cluster, is_verified } =
        backend(backend_ref, None, namespace, resolver).map_err(|fault| fault.within(".provider"))?;
    if is_https && !is_verified {
        let message = "the token endpoint is https, but no BackendTLSPolicy targets this port of the Service";
        return Err(FieldFault::new(".provider.backendRef", message));
    }
    Ok(Arc::new(Oidc {
        session: format!("{}/{}", policy.namespace, policy.name).into(),
        client_id: client_id.as_str().into(),
        client_secret: SecretId::new(secret.clone(), SecretPart::ClientSecret),
        cookie_key: SecretId::new(secret, SecretPart::CookieKey),
        authorization_endpoint: authorization_endpoint.as_str().into(),
        token_endpoint: token_endpoint.as_str().into(),
        cluster,
        end_session_endpoint: end_session_endpoint.as_deref().map(Arc::from),
        scopes,
        redirect_path,
        logout_path,
        forwards_token: *forward_access_token,
    }))
}

/// Checks a URI to which browsers are redirected. Envoy adds a query.
fn visitable(text: &str, at: &str) -> Result<(), FieldFault> {
    let is_plain = Uri::parse(text).is_some() && !text.contains(['?', '%', '"', '<', '>', '\\']);
    let message = || format!("{text:?} is not a URI without a query, such as https://login.example.com/authorize");
    if is_plain { Ok(()) } else { Err(FieldFault::new(at, message())) }
}

fn scopes(texts: &[String]) -> Result<Box<[Arc<str>]>, FieldFault> {
    if texts.len() > SCOPES {
        return Err(FieldFault::new(".scopes", format!("more than {SCOPES} scopes")));
    }
    let mut all: Vec<Arc<str>> = vec![OPENID.into()];
    for (i, text) in texts.iter().enumerate() {
        // Source: RFC 6749 section 3.3.
        let is_allowed = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
        if text.is_empty() || text.len() > LONGEST || !text.bytes().all(is_allowed) {
            return Err(FieldFault::new(format!(".scopes[{i}]"), format!("{text:?} is not a scope such as email")));
        }
        if !all.iter().any(|one| **one == *text) {
            all.push(text.as_str().into());
        }
    }
    Ok(all.into())
}

/// Parses a path that is compared with the normalized path of requests.
fn path(text: &str, at: &str) -> Result<Arc<str>, FieldFault> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/._~-".contains(&byte);
    let is_normal = !text.contains("//") && !text.split('/').any(|segment| segment == "." || segment == "..");
    let is_path = text.len() > 1 && text.len() <= LONGEST && text.starts_with('/') && text.bytes().all(is_allowed);
    let message = || format!("{text:?} is not a path such as {REDIRECT_PATH}, of letters, digits, and /._~-");
    if is_path && is_normal { Ok(text.into()) } else { Err(FieldFault::new(at, message())) }
}

/// Returns the Secret, if it has the secret of the application.
fn client_secret(
    reference: &PolicySecret,
    namespace: &Arc<str>,
    resolver: &mut Resolver,
) -> Result<ObjectKey, FieldFault> {
    let PolicySecret { name, namespace: of } = reference;
    let key = ObjectKey::new(of.as_deref().unwrap_or(namespace), name);
    permit(Kind::SECRET, &key, namespace, resolver)
        .map_err(|message| FieldFault::new(".clientSecretRef.namespace", message))?;
    match resolver.secret(key.clone()).and_then(|secret| secret.client_secret.as_ref()) {
        Some(_) => Ok(key),
        None => {
            let message = format!("Secret \"{key}\" does not exist, or has no usable {CLIENT_SECRET:?}");
            Err(FieldFault::new(".clientSecretRef", message))
        }
    }
}
