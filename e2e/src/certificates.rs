//! Certificates for tests.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer, KeyIdMethod, KeyPair,
    KeyUsagePurpose, RevocationReason, RevokedCertParams, SanType,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// A certificate authority.
pub struct Authority {
    certificate: rcgen::Certificate,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its private key.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The certificate, PEM.
    pub certificate: String,
    /// The certificate, DER.
    pub der: CertificateDer<'static>,
    /// The private key, PEM.
    pub key: String,
}

impl Authority {
    /// Creates an authority.
    ///
    /// # Panics
    /// If there is no randomness.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        let key = KeyPair::generate().expect("a key");
        // Envoy tries only one of two authorities with the same name.
        let number: String = key.public_key_raw()[1..5].iter().map(|byte| format!("{byte:02x}")).collect();
        params.distinguished_name.push(DnType::CommonName, format!("test authority {number}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key).expect("a certificate");
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    /// Returns the certificate, DER.
    pub fn der(&self) -> CertificateDer<'static> {
        self.certificate.der().clone()
    }

    /// Returns the certificate, PEM.
    pub fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// Returns a Secret with the certificate in `ca.crt`.
    pub fn secret(&self, namespace: &str, name: &str) -> String {
        let ca = BASE64_STANDARD.encode(self.pem());
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{ name: {name}, namespace: {namespace} }}\ndata:\n  ca.crt: {ca}\n"
        )
    }

    /// Issues a key pair like [`Authority::issue`] with this serial number.
    ///
    /// # Panics
    /// If a name is invalid.
    pub fn issue_with_number(&self, names: &[&str], number: u64) -> Pair {
        issue_with(&self.issuer, names, |params| params.serial_number = Some(number.into()))
    }

    /// Returns a Secret with a list of revoked serial numbers in `crl.pem`.
    ///
    /// # Panics
    /// If the list cannot be signed.
    pub fn revocations(&self, namespace: &str, name: &str, numbers: &[u64]) -> String {
        let start = rcgen::date_time_ymd(2020, 1, 1);
        let revoked = |number: &u64| RevokedCertParams {
            serial_number: (*number).into(),
            revocation_time: start,
            reason_code: Some(RevocationReason::KeyCompromise),
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: start,
            next_update: rcgen::date_time_ymd(2100, 1, 1),
            crl_number: 1.into(),
            issuing_distribution_point: None,
            revoked_certs: numbers.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.issuer).expect("a list");
        let list = BASE64_STANDARD.encode(pem("X509 CRL", list.der()));
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{ name: {name}, namespace: {namespace} }}\ndata:\n  crl.pem: {list}\n"
        )
    }

    /// Loads an authority from its certificate and private key, PEM.
    ///
    /// # Panics
    /// If they are invalid.
    pub fn stolen(certificate: &str, key: &str) -> Issuer<'static, KeyPair> {
        let key = KeyPair::from_pem(key).expect("a private key");
        Issuer::from_ca_cert_pem(certificate, key).expect("a certificate")
    }

    /// Issues a key pair for names or addresses, with a unique serial number.
    ///
    /// # Panics
    /// If a name is invalid.
    pub fn issue(&self, names: &[&str]) -> Pair {
        issue(&self.issuer, names)
    }

    /// Issues a key pair like [`Authority::issue`] that is valid from `start`, rounded down to seconds.
    ///
    /// # Panics
    /// If a name is invalid, or if `start` precedes 1970.
    pub fn issue_from(&self, names: &[&str], start: SystemTime) -> Pair {
        let since_1970 = start.duration_since(UNIX_EPOCH).expect("a time after 1970");
        issue_with(&self.issuer, names, |params| params.not_before = rcgen::date_time_ymd(1970, 1, 1) + since_1970)
    }
}

/// Creates a key pair signed by `issuer`, for names, URIs such as `spiffe://...`, or addresses.
///
/// # Panics
/// If a name is invalid.
pub fn issue(issuer: &Issuer<'_, KeyPair>, names: &[&str]) -> Pair {
    issue_with(issuer, names, |_| {})
}

fn issue_with(issuer: &Issuer<'_, KeyPair>, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Pair {
    let (uris, names): (Vec<&str>, Vec<&str>) = names.iter().partition(|name| name.contains("://"));
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(names).expect("names for a certificate");
    let uris = uris.into_iter().map(|uri| SanType::URI(uri.try_into().expect("a URI")));
    params.subject_alt_names.extend(uris);
    params.distinguished_name.push(DnType::CommonName, "test");
    change(&mut params);
    let key = KeyPair::generate().expect("a key");
    let certificate = params.signed_by(&key, issuer).expect("a certificate");
    Pair { certificate: certificate.pem(), der: certificate.der().clone(), key: key.serialize_pem() }
}

impl Pair {
    /// Returns a Secret of type `kubernetes.io/tls`.
    pub fn secret(&self, namespace: &str, name: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{ name: {name}, namespace: {namespace} }}\ntype: kubernetes.io/tls\n\
             data:\n  tls.crt: {}\n  tls.key: {}\n",
            BASE64_STANDARD.encode(&self.certificate),
            BASE64_STANDARD.encode(&self.key)
        )
    }
}

/// Converts DER to PEM.
pub fn pem(label: &str, der: &[u8]) -> String {
    let base64 = BASE64_STANDARD.encode(der);
    let lines: Vec<&str> = base64.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

/// Returns the certificate in the manifest of a Secret.
///
/// # Panics
/// If there is none.
pub fn certificate_in(manifest: &str) -> CertificateDer<'static> {
    let field = manifest.lines().find_map(|line| line.trim().strip_prefix("tls.crt: ")).expect("a field tls.crt");
    let pem = BASE64_STANDARD.decode(field).expect("base64");
    CertificateDer::from_pem_slice(&pem).expect("a certificate")
}
