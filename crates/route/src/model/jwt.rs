//! The JSON Web Tokens that requests need.

use std::sync::Arc;
use std::time::Duration;

use super::ClusterId;

/// The JSON Web Tokens that requests need: a token of any provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jwt {
    /// The providers, at least one.
    pub providers: Vec<JwtIssuer>,
}

impl Jwt {
    /// Returns whether a request can wait for keys.
    pub fn waits(&self) -> bool {
        self.providers.iter().any(|provider| matches!(provider.jwks, Jwks::Remote(_)))
    }
}

/// An issuer of tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtIssuer {
    /// The required claim `iss`. Empty: any.
    pub issuer: Arc<str>,
    /// The accepted values of the claim `aud`. Empty: any.
    pub audiences: Vec<Arc<str>>,
    /// The keys.
    pub jwks: Jwks,
    /// Whether the backend receives the token.
    pub forwards: bool,
    /// Whether the token may also be the parameter `access_token` of the query.
    pub reads_query: bool,
}

impl JwtIssuer {
    /// Returns the cluster of the server with the keys, if there is one.
    pub(super) fn cluster(&self) -> Option<&ClusterId> {
        match &self.jwks {
            Jwks::Inline(_) => None,
            Jwks::Remote(remote) => Some(&remote.cluster),
        }
    }
}

/// A JSON Web Key Set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Jwks {
    /// The set itself.
    Inline(Arc<str>),
    /// The set of a server.
    Remote(RemoteJwks),
}

/// A server with a JSON Web Key Set, which Envoy fetches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteJwks {
    /// The URI of the set. Envoy sends its host and its path.
    pub uri: Arc<str>,
    /// The server.
    pub cluster: ClusterId,
    /// The time limit of an answer.
    pub timeout: Duration,
    /// The time after which Envoy fetches the set again. Until then, and while the server does not answer, the last set is used.
    pub refresh: Duration,
    /// More keys, which are also accepted while the server has not answered yet.
    pub fallback: Option<Arc<str>>,
}
