//! Key pairs that Envoy rejects, together with all others in the same response.

use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;

use crate::certificates::{Pair, pem};
use crate::process::repository;

/// Reads a fixture of the check of key pairs.
///
/// # Panics
/// If it does not exist.
pub fn fixture(name: &str) -> Vec<u8> {
    let path = repository().join("src/source/secret/tests").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns a certificate that `x509-parser` accepts and BoringSSL rejects: its common name is not UTF-8.
///
/// # Panics
/// If the certificate is not one of [`crate::Authority`].
pub fn malformed(pair: &Pair) -> Pair {
    let mut der = pair.der.to_vec();
    let name = b"\x55\x04\x03\x0c\x04test";
    let at = der.windows(name.len()).rposition(|part| part == name).expect("the common name");
    der[at + 5] = 0xff;
    Pair { certificate: pem("CERTIFICATE", &der), der: der.into(), key: pair.key.clone() }
}

/// Returns a certificate with one changed byte.
///
/// # Panics
/// If the certificate is shorter.
pub fn mutated(pair: &Pair, at: usize) -> Pair {
    let mut der = pair.der.to_vec();
    der[at] ^= 0x80;
    Pair { certificate: pem("CERTIFICATE", &der), der: der.into(), key: pair.key.clone() }
}

/// Returns an RSA certificate of 5,000 bits with a key of the same modulus that cannot sign.
///
/// # Panics
/// If the fixture is not as expected.
pub fn mismatched() -> Pair {
    let certificate = String::from_utf8(fixture("rsa5000.crt")).expect("PEM");
    let der = rustls::pki_types::CertificateDer::from_pem_slice(certificate.as_bytes()).expect("a certificate");
    let PrivateKeyDer::Pkcs8(key) = PrivateKeyDer::from_pem_slice(&fixture("rsa5000.key")).expect("a key") else {
        panic!("a key in PKCS #8")
    };
    let mut key = key.secret_pkcs8_der().to_vec();
    // A byte of the private exponent, after the modulus of 625 bytes and the short public exponent.
    key[900] ^= 0x01;
    Pair { certificate, der, key: pem("PRIVATE KEY", &key) }
}
