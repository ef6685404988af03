//! TLS of the server: what new connections get may be exchanged at any time; those that are open stay as they are.

use std::path::Path;
use std::sync::Arc;

use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::sync::watch;

use super::ServerError;

/// What is wrong with one of the three parts of a TLS configuration.
#[derive(Debug, thiserror::Error)]
#[error("{part}: {problem}")]
pub struct TlsFault {
    /// `tls.crt`, `tls.key` or `ca.crt`.
    pub part: &'static str,
    /// What is wrong with it.
    pub problem: String,
}

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
    let fault = |part, problem| TlsFault { part, problem };
    let certificates = |part, pem: &[u8]| {
        let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        match parsed {
            Ok(parsed) if parsed.is_empty() => Err(fault(part, "no certificate in it".to_owned())),
            parsed => parsed.map_err(|error| fault(part, error.to_string())),
        }
    };
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| fault("tls.key", error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates("ca.crt", authorities)? {
        roots.add(certificate).map_err(|error| fault("ca.crt", error.to_string()))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    // A client without a certificate is let in to be told so in gRPC's own words, which are easier to find in its log.
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .allow_unauthenticated()
        .build()
        .map_err(|error| fault("ca.crt", error.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| fault("tls.crt", error.to_string()))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates("tls.crt", certificate)?, key)
        .map_err(|error| fault("tls.crt", error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // A session that is taken up again would outlive the certificate that it began with.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}
