//! Validates the key pairs and certificate authorities of Secrets on arrival.
//!
//! All key pairs go to Envoy in one response, and Envoy rejects the whole response for one bad key pair. The checks are
//! therefore at least as strict as the checks of Envoy and BoringSSL (`isolation::key_pairs` compares them). One Secret
//! takes little time, however large its certificates and keys are.

mod certificate;
mod der;
mod key;
mod revocation;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use lockgate_route::model::KeyPair;
use lockgate_route::objects::EarlyPair;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::{Error as PemError, PemObject, SectionKind};
use x509_parser::certificate::X509Certificate;
use x509_parser::der_parser::asn1_rs::{FromDer, Oid};
use x509_parser::extensions::GeneralName;
use x509_parser::public_key::PublicKey;

use self::certificate::Certificate;
use self::key::PrivateKey;
pub use self::revocation::revocations;

/// The shortest RSA key that Envoy accepts, in bits. Source: Envoy `ContextImpl`, tested with Envoy 1.40.
const MIN_RSA_BITS: usize = 2048;
/// The longest RSA key that is served, in bits. BoringSSL accepts 16,384. It signs so slowly with such a key that a few
/// clients would keep a worker of Envoy busy.
const MAX_RSA_BITS: usize = 8192;
/// The longest chain that is served: certificates, and bytes of DER. As clients, BoringSSL and OpenSSL reject a chain
/// with more bytes. Source: OpenSSL `SSL_MAX_CERT_LIST_DEFAULT`.
const MAX_CHAIN: usize = 32;
const MAX_CHAIN_BYTES: usize = 100 * 1024;

/// Returns the key pair of `crt` and `key`, both PEM, if Envoy can serve it at the time `now`.
///
/// These inputs are rejected:
/// - certificates that are not X.509 in canonical DER, including the issuers;
/// - a chain that is too long;
/// - a first certificate that is not the leaf, has no names, or demands OCSP stapling;
/// - no private key, or several;
/// - a private key that is inconsistent or does not match the leaf;
/// - key types that Envoy rejects (RSA below 2048 bits, curves other than P-256, P-384, P-521), and RSA above 8192
///   bits;
/// - a leaf that has expired or is not valid yet.
///
/// The key is encoded again, so that Envoy never parses the bytes of a tenant; certificates are already canonical.
/// Comments and other PEM blocks are omitted.
///
/// The error is the fault in lower case with the data key, without any part of the key itself.
pub fn key_pair(crt: &[u8], key: &[u8], now: SystemTime) -> Result<KeyPair, Unusable> {
    let in_crt = |fault: &str| format!("data[\"tls.crt\"]: {fault}");
    let in_key = |fault: &str| format!("data[\"tls.key\"]: {fault}");
    let chain = certificates(crt, MAX_CHAIN).map_err(|fault| in_crt(&fault))?;
    if chain.iter().map(Vec::len).sum::<usize>() > MAX_CHAIN_BYTES {
        return Err(in_crt(&format!("the certificates have more than {} KiB", MAX_CHAIN_BYTES / 1024)).into());
    }
    let key = private_key(key).map_err(|fault| in_key(&fault))?;
    let parsed = parsed(&chain).map_err(|fault| in_crt(&fault))?;
    let Some(first) = parsed.first() else { return Err(in_crt("it contains no certificate").into()) };
    first.check_leaf().map_err(in_crt)?;
    // The library only extracts values from certificates that are already validated.
    let (_, leaf) = X509Certificate::from_der(&chain[0]).map_err(|_| in_crt("certificate 1 is not X.509"))?;
    let names = names(&leaf).map_err(|fault| in_crt(&fault))?;
    key_type(&leaf).map_err(|fault| in_crt(&fault))?;
    let unusable = || in_key("the key is not a usable RSA, ECDSA or Ed25519 key");
    let key = PrivateKey::parse(&key).ok_or_else(unusable)?;
    // The bytes must be equal. A verified signature is not sufficient, because other keys can be constructed that
    // verify it.
    let public_keys = key.public_keys();
    let is_of_key = |certificate: &Certificate<'_>| public_keys.iter().any(|public| public == certificate.public_key);
    if !is_of_key(first) {
        return Err(match parsed.iter().position(is_of_key) {
            Some(i) => in_crt(&format!(
                "the certificate of the key is number {} and must be the first: leaf first, then its issuers",
                i + 1
            )),
            None => in_key("the key does not match the certificate"),
        }
        .into());
    }
    if !key.signs_for(first.public_key) {
        return Err(unusable().into());
    }
    let private_key = pem("PRIVATE KEY", &key.pkcs8().ok_or_else(unusable)?);
    let now = now.duration_since(UNIX_EPOCH).map_or(0, |time| i64::try_from(time.as_secs()).unwrap_or(i64::MAX));
    let validity = leaf.validity();
    let pair = KeyPair {
        certificate_chain: chain.iter().flat_map(|der| pem("CERTIFICATE", der)).collect(),
        private_key,
        names: names.into(),
        not_after: validity.not_after.timestamp(),
        is_ed25519: matches!(key, PrivateKey::Ed25519(_)),
    };
    if now > pair.not_after {
        let fault = in_crt(&format!("the certificate expired on {}", validity.not_after));
        return Err(Unusable { fault, early: None, expired: Some(Arc::new(pair)) });
    }
    let not_before = validity.not_before.timestamp();
    if now < not_before {
        let fault = in_crt(&format!("the certificate is not valid before {}", validity.not_before));
        return Err(Unusable { fault, early: Some(EarlyPair { not_before, pair: Arc::new(pair) }), expired: None });
    }
    Ok(pair)
}

/// The reason why there is no key pair to serve.
#[derive(Debug)]
pub struct Unusable {
    /// The fault in lower case with the data key, without any part of the key itself.
    pub fault: String,
    /// The key pair if its only fault is that it is not valid yet.
    pub early: Option<EarlyPair>,
    /// The key pair if its only fault is that it has expired.
    pub expired: Option<Arc<KeyPair>>,
}

impl From<String> for Unusable {
    fn from(fault: String) -> Self {
        Self { fault, early: None, expired: None }
    }
}

/// Returns the certificate authorities of `ca.crt`, PEM, each once: the certificates that are trusted as issuers.
///
/// The error is the fault in lower case with the data key: a malformed certificate, or none at all.
pub fn authorities(ca: &[u8]) -> Result<String, String> {
    let mut found = certificates(ca, usize::MAX).map_err(|fault| format!("data[\"ca.crt\"]: {fault}"))?;
    parsed(&found).map_err(|fault| format!("data[\"ca.crt\"]: {fault}"))?;
    let mut seen = BTreeSet::new();
    found.retain(|der| seen.insert(der.clone()));
    let text = found.iter().flat_map(|der| pem("CERTIFICATE", der)).collect();
    String::from_utf8(text).map_err(|_| "data[\"ca.crt\"]: not text".to_owned())
}

/// Parses certificates. The error is the number of the malformed one.
fn parsed(chain: &[Vec<u8>]) -> Result<Vec<Certificate<'_>>, String> {
    let numbered = chain.iter().zip(1..);
    numbered.map(|(der, i)| Certificate::parse(der).ok_or_else(|| format!("certificate {i} is not X.509"))).collect()
}

/// Returns the certificates in `text` as DER. The error states that the text is not PEM, or has none or more than
/// `most`.
fn certificates(text: &[u8], most: usize) -> Result<Vec<Vec<u8>>, String> {
    let mut certificates = Vec::new();
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(text) {
        match section.map_err(pem_fault)? {
            (SectionKind::Certificate, _) if certificates.len() == most => {
                return Err(format!("more than {most} certificates in it"));
            }
            (SectionKind::Certificate, der) => certificates.push(der),
            (SectionKind::RsaPrivateKey | SectionKind::PrivateKey | SectionKind::EcPrivateKey, _) => {
                return Err("a private key is in it; it belongs into data[\"tls.key\"]".into());
            }
            _ => {}
        }
    }
    if certificates.is_empty() {
        return Err(if text.is_empty() { "empty".into() } else { "no PEM block \"CERTIFICATE\" in it".into() });
    }
    Ok(certificates)
}

/// Returns the only private key in `text`. Other blocks, such as `EC PARAMETERS`, are skipped.
fn private_key(text: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    let mut found = None;
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(text) {
        let key = match section.map_err(pem_fault)? {
            (SectionKind::PrivateKey, der) => PrivateKeyDer::Pkcs8(der.into()),
            (SectionKind::RsaPrivateKey, der) => PrivateKeyDer::Pkcs1(der.into()),
            (SectionKind::EcPrivateKey, der) => PrivateKeyDer::Sec1(der.into()),
            _ => continue,
        };
        if found.replace(key).is_some() {
            return Err("more than one private key in it".into());
        }
    }
    found.ok_or_else(|| {
        if text.is_empty() {
            "empty".into()
        } else if text.windows(9).any(|window| window == b"ENCRYPTED") {
            "the private key is encrypted; it must be without a passphrase".into()
        } else {
            "no PEM block \"PRIVATE KEY\", \"RSA PRIVATE KEY\" or \"EC PRIVATE KEY\" in it".into()
        }
    })
}

/// Describes half-written files and broken base64 without any of their content.
fn pem_fault(error: PemError) -> String {
    match error {
        PemError::MissingSectionEnd { .. } => "a PEM block has no end".into(),
        PemError::IllegalSectionStart { .. } => "the first line of a PEM block is malformed".into(),
        PemError::Base64Decode(_) => "a PEM block is not base64".into(),
        _ => "not PEM".into(),
    }
}

/// Returns the names that a certificate covers in lower case: its DNS names, or its common name if there are none. The
/// error states that its alternative names do not parse.
fn names(leaf: &X509Certificate<'_>) -> Result<Vec<String>, String> {
    let alternatives = match leaf.subject_alternative_name() {
        Ok(Some(extension)) => extension.value.general_names.as_slice(),
        Ok(None) => &[],
        Err(_) => return Err("the certificate's alternative names do not parse".into()),
    };
    let mut names: Vec<String> = alternatives
        .iter()
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
            _ => None,
        })
        .collect();
    let common_name =
        leaf.subject().iter_common_name().find_map(|name| name.as_str().ok().filter(|name| !name.is_empty()));
    if names.is_empty() {
        names.extend(common_name.map(str::to_lowercase));
    }
    Ok(names)
}

/// Checks that Envoy accepts a key of this type. Source: tested with Envoy 1.40.
fn key_type(leaf: &X509Certificate<'_>) -> Result<(), String> {
    const CURVES: [(&str, usize); 3] = [("1.2.840.10045.3.1.7", 256), ("1.3.132.0.34", 384), ("1.3.132.0.35", 521)];
    let algorithm = &leaf.public_key().algorithm;
    match algorithm.algorithm.to_id_string().as_str() {
        "1.2.840.113549.1.1.1" => match leaf.public_key().parsed() {
            Ok(PublicKey::RSA(key)) => match bits(key.modulus) {
                MIN_RSA_BITS..=MAX_RSA_BITS => Ok(()),
                bits @ ..MIN_RSA_BITS => {
                    Err(format!("the RSA key has {bits} bits; Envoy requires at least {MIN_RSA_BITS}"))
                }
                bits => Err(format!("the RSA key has {bits} bits; at most {MAX_RSA_BITS} are served")),
            },
            _ => Err("the RSA key does not parse".into()),
        },
        "1.2.840.10045.2.1" => {
            let curve = algorithm.parameters.as_ref().and_then(|any| Oid::try_from(any.clone()).ok());
            match curve {
                Some(curve) if CURVES.iter().any(|(known, _)| *known == curve.to_id_string()) => Ok(()),
                _ => Err("the key's elliptic curve is none of P-256, P-384 and P-521".into()),
            }
        }
        "1.3.101.112" => Ok(()), // Ed25519
        other => Err(format!("the key's algorithm \"{other}\" is not RSA, ECDSA, or Ed25519")),
    }
}

/// Returns the length of a big-endian number in bits.
fn bits(number: &[u8]) -> usize {
    let significant = number.iter().skip_while(|byte| **byte == 0);
    let leading_zeros = significant.clone().next().map_or(0, |byte| byte.leading_zeros() as usize);
    significant.count() * 8 - leading_zeros
}

/// Encodes `der` as PEM with lines of 64 characters. Source: RFC 7468.
fn pem(label: &str, der: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = format!("-----BEGIN {label}-----\n").into_bytes();
    for line in der.chunks(48) {
        for group in line.chunks(3) {
            let at = |i: usize| u32::from(group.get(i).copied().unwrap_or(0));
            let number = at(0) << 16 | at(1) << 8 | at(2);
            for i in 0..4 {
                let digit = DIGITS[(number >> (18 - 6 * i)) as usize & 63];
                text.push(if i <= group.len() { digit } else { b'=' });
            }
        }
        text.push(b'\n');
    }
    text.extend_from_slice(format!("-----END {label}-----\n").as_bytes());
    text
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
