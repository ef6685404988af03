//! TLS between Lockgate's components, configured from three PEM files.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// An error in one of the files.
#[derive(Debug, thiserror::Error)]
#[error("{part}: {problem}")]
pub struct TlsFault {
    /// `tls.crt`, `tls.key` or `ca.crt`.
    pub part: &'static str,
    /// The error.
    pub problem: String,
}

/// A certificate chain and its private key.
#[derive(Debug, Clone, Copy)]
pub struct Pair<'a> {
    /// `tls.crt`
    pub certificate: &'a [u8],
    /// `tls.key`
    pub key: &'a [u8],
}

/// The client certificates that a server requires.
#[derive(Debug, Clone, Copy)]
pub enum Clients<'a> {
    /// No certificate.
    Anybody,
    /// A certificate that these authorities (`ca.crt`) issued. Other handshakes fail.
    Known(&'a [u8]),
}

/// Builds the configuration of a server that presents `pair` and offers these ALPN protocols.
///
/// # Errors
/// [`TlsFault`]
pub fn server_config(pair: Pair, clients: Clients, alpn: &[&str]) -> Result<Arc<ServerConfig>, TlsFault> {
    let provider = provider();
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| fault("tls.crt", error))?;
    let verifier = |pem| Ok(WebPkiClientVerifier::builder_with_provider(Arc::new(roots(pem)?), provider.clone()));
    let verifier = match clients {
        Clients::Anybody => None,
        Clients::Known(authorities) => Some(verifier(authorities)?),
    };
    let builder = match verifier {
        None => builder.with_no_client_auth(),
        Some(verifier) => builder.with_client_cert_verifier(verifier.build().map_err(|error| fault("ca.crt", error))?),
    };
    let (chain, key) = parsed(pair)?;
    let mut config = builder.with_single_cert(chain, key).map_err(|error| fault("tls.crt", error))?;
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    // A resumed session would outlive the certificate of its first handshake.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Builds the configuration of a client that presents `pair` and trusts these authorities (`ca.crt`).
///
/// # Errors
/// [`TlsFault`]
pub fn client_config(pair: Pair, authorities: &[u8]) -> Result<Arc<ClientConfig>, TlsFault> {
    let (chain, key) = parsed(pair)?;
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| fault("tls.crt", error))?
        .with_root_certificates(roots(authorities)?)
        .with_client_auth_cert(chain, key)
        .map_err(|error| fault("tls.crt", error))?;
    Ok(Arc::new(config))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn fault(part: &'static str, problem: impl ToString) -> TlsFault {
    TlsFault { part, problem: problem.to_string() }
}

fn roots(pem: &[u8]) -> Result<RootCertStore, TlsFault> {
    let mut roots = RootCertStore::empty();
    for authority in certificates("ca.crt", pem)? {
        roots.add(authority).map_err(|error| fault("ca.crt", error))?;
    }
    Ok(roots)
}

fn parsed(pair: Pair) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsFault> {
    let key = PrivateKeyDer::from_pem_slice(pair.key).map_err(|error| fault("tls.key", error))?;
    Ok((certificates("tls.crt", pair.certificate)?, key))
}

fn certificates(part: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsFault> {
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let parsed = parsed.map_err(|error| fault(part, error))?;
    if parsed.is_empty() { Err(fault(part, "it contains no certificate")) } else { Ok(parsed) }
}
