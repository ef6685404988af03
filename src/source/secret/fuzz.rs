//! Fuzz target: mutated certificates, private keys, and PEM. No input panics or takes much time.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::{Duration, Instant, UNIX_EPOCH};

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::certificate::Certificate;
use super::{authorities, key_pair, pem};

/// The time limit of one input. An RSA signature takes the most time.
const LIMIT: Duration = Duration::from_secs(2);

const PAIRS: [(&str, &str); 5] = [
    (include_str!("tests/p256.crt"), include_str!("tests/p256-sec1.key")),
    (include_str!("tests/p521.crt"), include_str!("tests/p521.key")),
    (include_str!("tests/rsa2048.crt"), include_str!("tests/rsa2048.key")),
    (include_str!("tests/version1.crt"), include_str!("tests/rsa2048-pkcs1.key")),
    (include_str!("tests/p224.crt"), include_str!("tests/p224.key")),
];

/// Returns the PEM label and the DER of a private key.
fn key_of(text: &str) -> (&'static str, Vec<u8>) {
    let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).unwrap();
    let label = match &key {
        PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
        PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
        _ => "PRIVATE KEY",
    };
    (label, key.secret_der().to_vec())
}

#[test]
fn fuzz_key_pairs() {
    let now = UNIX_EPOCH + Duration::from_secs(1_830_000_000);
    let keys = PAIRS.map(|(_, key)| key_of(key));
    let certificates = PAIRS.map(|(crt, _)| CertificateDer::from_pem_slice(crt.as_bytes()).unwrap().to_vec());
    fuzzing::run("der", 5_000, |random| {
        let which = random.below(PAIRS.len());
        let (crt, key) = PAIRS[which];
        let start = Instant::now();
        // Most inputs are certificates in DER, which are cheap. The others take the complete path.
        let outcome = match random.below(32) {
            0 => {
                let crt = random.mutate(crt.as_bytes(), &[key]);
                key_pair(&crt, key.as_bytes(), now).map_or("tls.crt rejected", |_| "tls.crt accepted")
            }
            1 => {
                let key = random.mutate(key.as_bytes(), &[crt]);
                key_pair(crt.as_bytes(), &key, now).map_or("tls.key rejected", |_| "tls.key accepted")
            }
            2 => {
                let (label, der) = &keys[which];
                let key = pem(label, &random.mutate(der, &certificates));
                key_pair(crt.as_bytes(), &key, now).map_or("key rejected", |_| "key accepted")
            }
            3 => {
                let crt = pem("CERTIFICATE", &random.mutate(&certificates[which], &certificates));
                key_pair(&crt, key.as_bytes(), now).map_or("leaf rejected", |_| "leaf accepted")
            }
            4 => {
                let ca = pem("CERTIFICATE", &random.mutate(&certificates[which], &certificates));
                authorities(&ca).map_or("authority rejected", |_| "authority accepted")
            }
            _ => {
                let der = random.mutate(&certificates[which], &certificates);
                match Certificate::parse(&der).map(|certificate| certificate.check_leaf()) {
                    None => "malformed",
                    Some(Err(_)) => "no leaf",
                    Some(Ok(())) => "well-formed",
                }
            }
        };
        assert!(start.elapsed() < LIMIT, "took {:?}", start.elapsed());
        outcome
    });
}
