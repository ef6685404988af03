//! Who may send requests: clients with a password or an API key, users with a login, and the web pages whose requests change something.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::{ClusterId, HeaderName, SecretId};

/// A confidential text, such as an API key. Its debug output is redacted.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Confidential(Arc<str>);

impl From<&str> for Confidential {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl Deref for Confidential {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Confidential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// The users whose name and password requests need. Source: RFC 7617.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BasicAuthentication {
    /// The name and the password of each user, at least one, each name once. The password is `{SHA}` and its SHA-1 hash in base64.
    pub users: Vec<(Arc<str>, Confidential)>,
    /// The header that tells the backend the name of the user.
    pub user_header: Option<HeaderName>,
}

/// The API keys of which requests need one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeys {
    /// The name and the key of each client, at least one, each key once.
    pub clients: Vec<(Arc<str>, Confidential)>,
    /// The places of the key in a request, at least one. The first place that a request has counts.
    pub sources: Vec<KeySource>,
    /// The header that tells the backend the name of the client.
    pub client_header: Option<HeaderName>,
}

/// The place of an API key in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// A header: its value, or the text behind `Bearer ` of the header `Authorization`.
    Header(HeaderName),
    /// A parameter of the query.
    Query(Arc<str>),
    /// A cookie.
    Cookie(Arc<str>),
}

/// The login of users at an OpenID provider. Source: OpenID Connect Core 1.0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Oidc {
    /// The name of the sessions, from which the names of their cookies are derived.
    pub session: Arc<str>,
    /// The identifier of the application at the provider.
    pub client_id: Arc<str>,
    /// The secret of the application, by identity in [`Model::secrets`](super::Model::secrets).
    pub client_secret: SecretId,
    /// The key that signs and encrypts the cookies, by identity.
    pub cookie_key: SecretId,
    /// The URI to which browsers are redirected for the login.
    pub authorization_endpoint: Arc<str>,
    /// The URI that Envoy requests.
    pub token_endpoint: Arc<str>,
    /// The cluster of the token endpoint.
    pub cluster: ClusterId,
    /// The URI to which browsers are redirected for the logout.
    pub end_session_endpoint: Option<Arc<str>>,
    /// The requested scopes, at least `openid`.
    pub scopes: Box<[Arc<str>]>,
    /// The path that ends the login.
    pub redirect_path: Arc<str>,
    /// The path that ends the session.
    pub logout_path: Arc<str>,
    /// Whether backends receive the access token.
    pub forwards_token: bool,
}

/// The web pages whose requests may change something, in addition to the pages of the same origin (cross-site request forgery).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Csrf {
    /// The hosts of the pages, with the port unless it is the default port.
    pub additional_origins: Vec<OriginHost>,
}

/// The hosts of web pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OriginHost {
    /// A host, such as `app.example.com` or `app.example.com:8443`.
    Exact(Arc<str>),
    /// All hosts that end with this text, such as `.example.com`.
    Suffix(Arc<str>),
}
