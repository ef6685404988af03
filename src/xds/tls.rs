//! TLS of the server: what new connections get may be exchanged at any time; those that are open stay as they are.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use tokio::sync::watch;

use super::ServerError;
use crate::tls::{Clients, Pair, TlsFault, server_config};

/// The TLS configuration that the next connection gets. A clone sees the same changes.
#[derive(Clone)]
pub struct Tls(watch::Receiver<Option<Arc<ServerConfig>>>);

impl From<watch::Receiver<Option<Arc<ServerConfig>>>> for Tls {
    /// The newest one; as long as there is none, connections wait.
    fn from(configs: watch::Receiver<Option<Arc<ServerConfig>>>) -> Self {
        Self(configs)
    }
}

impl From<Arc<ServerConfig>> for Tls {
    /// Always the same.
    fn from(config: Arc<ServerConfig>) -> Self {
        Self(watch::channel(Some(config)).1)
    }
}

impl Tls {
    /// The newest one, as soon as there is one.
    pub(super) async fn current(&mut self) -> Option<Arc<ServerConfig>> {
        self.0.wait_for(Option::is_some).await.ok().and_then(|config| config.clone())
    }
}

/// The TLS configuration of `directory`: `tls.crt` and `tls.key` of this server, `ca.crt` that signs its clients.
///
/// # Errors
/// [`ServerError::Tls`] names the file and what is wrong with it.
pub fn tls_config(directory: &Path) -> Result<Arc<ServerConfig>, ServerError> {
    let fault = |name: &str, problem: String| ServerError::Tls { file: directory.join(name), problem };
    let read = |name: &str| std::fs::read(directory.join(name)).map_err(|error| fault(name, error.to_string()));
    let (key, certificate, authorities) = (read("tls.key")?, read("tls.crt")?, read("ca.crt")?);
    tls_config_of(&certificate, &key, &authorities).map_err(|error| fault(error.part, error.problem))
}

/// The same from the content of these files.
///
/// # Errors
/// [`TlsFault`]
pub fn tls_config_of(certificate: &[u8], key: &[u8], authorities: &[u8]) -> Result<Arc<ServerConfig>, TlsFault> {
    // A client without a certificate is told so in gRPC's own words, which are easier to find in its log.
    server_config(Pair { certificate, key }, Clients::KnownOrTold(authorities), &["h2", "http/1.1"])
}
