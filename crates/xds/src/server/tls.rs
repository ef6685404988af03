//! TLS of the server. New connections use the newest certificate and policy; open connections keep theirs.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use tokio::sync::watch;

use super::ServerError;
use crate::identity::Policy;
use crate::tls::{Clients, Pair, TlsFault, server_config};

/// The certificate of a server, and the clients that it accepts.
#[derive(Debug, Clone)]
pub struct Secured {
    /// The TLS configuration. Its verifier must require client certificates.
    pub config: Arc<ServerConfig>,
    /// The roles of names in client certificates.
    pub policy: Arc<Policy>,
}

/// The TLS settings for the next connection. A clone sees the same changes.
#[derive(Clone)]
pub struct Tls(watch::Receiver<Option<Secured>>);

impl From<watch::Receiver<Option<Secured>>> for Tls {
    /// Returns settings that change. Connections wait for the first settings.
    fn from(settings: watch::Receiver<Option<Secured>>) -> Self {
        Self(settings)
    }
}

impl From<Secured> for Tls {
    /// Returns settings that never change.
    fn from(settings: Secured) -> Self {
        Self(watch::channel(Some(settings)).1)
    }
}

impl Tls {
    /// Waits for the first settings, and returns the newest settings.
    pub(super) async fn current(&mut self) -> Option<Secured> {
        self.0.wait_for(Option::is_some).await.ok().and_then(|settings| settings.clone())
    }
}

/// Returns the TLS configuration of `directory`: `tls.crt` and `tls.key` of this server, and `ca.crt` of its clients' CA.
///
/// # Errors
/// [`ServerError::Tls`] contains the file and its fault.
pub fn tls_config(directory: &Path) -> Result<Arc<ServerConfig>, ServerError> {
    let fault = |name: &str, problem: String| ServerError::Tls { file: directory.join(name), problem };
    let read = |name: &str| std::fs::read(directory.join(name)).map_err(|error| fault(name, error.to_string()));
    let (key, certificate, authorities) = (read("tls.key")?, read("tls.crt")?, read("ca.crt")?);
    tls_config_of(&certificate, &key, &authorities).map_err(|error| fault(error.part, error.problem))
}

/// Returns the TLS configuration for the content of these files. The handshake fails without a client certificate of these
/// CAs.
///
/// # Errors
/// [`TlsFault`]
pub fn tls_config_of(certificate: &[u8], key: &[u8], authorities: &[u8]) -> Result<Arc<ServerConfig>, TlsFault> {
    server_config(Pair { certificate, key }, Clients::Known(authorities), &["h2", "http/1.1"])
}
