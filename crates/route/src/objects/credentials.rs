//! The credentials of clients in Secrets: passwords and API keys.

use std::sync::Arc;

use crate::model::Confidential;

/// The type of a Secret whose data keys are the names of clients, and whose values are their API keys.
pub const API_KEYS_TYPE: &str = "lockgate.dev/api-keys";

/// The keys of a Secret's data with names and password hashes as in the files of `htpasswd`, in order of precedence.
pub const HTPASSWD: [&str; 2] = [".htpasswd", "auth"];

/// The key of a Secret's data with the secret of an application at an OpenID provider.
pub const CLIENT_SECRET: &str = "client-secret";

/// The credentials of clients in a Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The kind of the credentials.
    pub kind: CredentialKind,
    /// The name of each client, with its password or API key. Each name is unique. A password is `{SHA}` and its SHA-1 hash in base64, the
    /// only kind that Envoy verifies.
    pub clients: Vec<(Arc<str>, Confidential)>,
    /// The faults of the other entries: lower case, no full stop, with the data key, without a credential.
    pub faults: Vec<String>,
}

/// A kind of credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialKind {
    /// Passwords, in one of the data keys [`HTPASSWD`].
    Passwords,
    /// API keys, in a Secret of type [`API_KEYS_TYPE`].
    ApiKeys,
}
