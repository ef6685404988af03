//! Key pairs and certificate authorities of Secrets, checked as they come in: what Envoy would refuse never gets further
//! than this, for Envoy refuses the whole listener with it, and every other host on it.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::crypto::ring::default_provider;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::{Error as PemError, PemObject, SectionKind};
use x509_parser::certificate::X509Certificate;
use x509_parser::der_parser::asn1_rs::{Any, BitString, Class, FromDer, Integer, Oid, Sequence};
use x509_parser::extensions::GeneralName;
use x509_parser::public_key::PublicKey;

use crate::model::KeyPair;

/// The shortest RSA key that Envoy takes, in bits. Source: Envoy `ContextImpl`, tried with Envoy 1.40.
const RSA_BITS: usize = 2048;
/// The longest RSA key that our own TLS library reads; longer ones are matched by their modulus.
const RSA_BITS_OF_RING: usize = 4096;

/// The key pair of `crt` and `key`, both PEM, if Envoy can serve it at the time `now`.
///
/// Refused are: what does not parse; a first certificate that is not the leaf or names nothing; more or less than one
/// private key; a key that is not that of the leaf; key types that Envoy refuses (RSA below 2048 bits, curves other than
/// P-256, P-384, P-521); a leaf that has expired or is not valid yet.
///
/// Only the certificates and the key are kept, in one canonical form of PEM.
///
/// Errors: what is wrong, lower case, with the data key at fault; nothing of the key itself.
pub fn key_pair(crt: &[u8], key: &[u8], now: SystemTime) -> Result<KeyPair, String> {
    let chain = certificates(crt).map_err(|fault| format!("data[\"tls.crt\"]: {fault}"))?;
    let (label, key) = private_key(key).map_err(|fault| format!("data[\"tls.key\"]: {fault}"))?;
    let mut parsed = Vec::with_capacity(chain.len());
    for (i, der) in chain.iter().enumerate() {
        match X509Certificate::from_der(der) {
            Ok(([], certificate)) => parsed.push(certificate),
            _ => return Err(format!("data[\"tls.crt\"]: certificate {} is not X.509", i + 1)),
        }
    }
    let Some(leaf) = parsed.first() else {
        return Err("data[\"tls.crt\"]: no certificate in it".into());
    };
    let names = names(leaf).map_err(|fault| format!("data[\"tls.crt\"]: {fault}"))?;
    key_type(leaf).map_err(|fault| format!("data[\"tls.crt\"]: {fault}"))?;
    if !matches(leaf, &key).map_err(|fault| format!("data[\"tls.key\"]: {fault}"))? {
        let other = parsed.iter().skip(1).position(|certificate| matches(certificate, &key) == Ok(true));
        return Err(match other {
            Some(i) => format!(
                "data[\"tls.crt\"]: the certificate of the key is number {} and must be the first: leaf first, then its issuers",
                i + 2
            ),
            None => "data[\"tls.key\"]: the key does not match the certificate".into(),
        });
    }
    let now = now.duration_since(UNIX_EPOCH).map_or(0, |time| i64::try_from(time.as_secs()).unwrap_or(i64::MAX));
    let validity = leaf.validity();
    if now > validity.not_after.timestamp() {
        return Err(format!("data[\"tls.crt\"]: the certificate expired on {}", validity.not_after));
    }
    if now < validity.not_before.timestamp() {
        return Err(format!("data[\"tls.crt\"]: the certificate is not valid before {}", validity.not_before));
    }
    Ok(KeyPair {
        certificate_chain: chain.iter().flat_map(|der| pem("CERTIFICATE", der)).collect(),
        private_key: pem(label, key.secret_der()),
        names,
        not_after: validity.not_after.timestamp(),
    })
}

/// The certificate authorities of `ca.crt`, PEM, each once: certificates that whoever trusts them takes as issuers.
///
/// Errors: what is wrong, lower case, with the data key: what does not parse, and that there is none.
pub fn authorities(ca: &[u8]) -> Result<String, String> {
    let mut found = certificates(ca).map_err(|fault| format!("data[\"ca.crt\"]: {fault}"))?;
    if let Some(i) = found.iter().position(|der| !matches!(X509Certificate::from_der(der), Ok(([], _)))) {
        return Err(format!("data[\"ca.crt\"]: certificate {} is not X.509", i + 1));
    }
    let mut seen = BTreeSet::new();
    found.retain(|der| seen.insert(der.clone()));
    let text = found.iter().flat_map(|der| pem("CERTIFICATE", der)).collect();
    String::from_utf8(text).map_err(|_| "data[\"ca.crt\"]: not text".to_owned())
}

/// The certificates in `text`, DER.
fn certificates(text: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut certificates = Vec::new();
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(text) {
        match section.map_err(pem_fault)? {
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

/// The only private key in `text`, and the label of its PEM block. Other blocks, such as `EC PARAMETERS`, are skipped.
fn private_key(text: &[u8]) -> Result<(&'static str, PrivateKeyDer<'static>), String> {
    let mut found = None;
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(text) {
        let key = match section.map_err(pem_fault)? {
            (SectionKind::PrivateKey, der) => ("PRIVATE KEY", PrivateKeyDer::Pkcs8(der.into())),
            (SectionKind::RsaPrivateKey, der) => ("RSA PRIVATE KEY", PrivateKeyDer::Pkcs1(der.into())),
            (SectionKind::EcPrivateKey, der) => ("EC PRIVATE KEY", PrivateKeyDer::Sec1(der.into())),
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

/// Half-written files and broken base64, without any of their content.
fn pem_fault(error: PemError) -> String {
    match error {
        PemError::MissingSectionEnd { .. } => "a PEM block has no end".into(),
        PemError::IllegalSectionStart { .. } => "the first line of a PEM block is malformed".into(),
        PemError::Base64Decode(_) => "a PEM block is not base64".into(),
        _ => "not PEM".into(),
    }
}

/// The names that a certificate covers, lower case: its DNS names, else its common name.
/// Errors: it has neither a common name nor any alternative name, which Envoy refuses.
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
    if names.is_empty() && alternatives.is_empty() {
        return Err("the certificate has neither a common name nor a subject alternative name".into());
    }
    Ok(names)
}

/// Errors: Envoy would refuse a key of this type. Source: tried with Envoy 1.40.
fn key_type(leaf: &X509Certificate<'_>) -> Result<(), String> {
    const CURVES: [(&str, usize); 3] = [("1.2.840.10045.3.1.7", 256), ("1.3.132.0.34", 384), ("1.3.132.0.35", 521)];
    let algorithm = &leaf.public_key().algorithm;
    match algorithm.algorithm.to_id_string().as_str() {
        "1.2.840.113549.1.1.1" => match leaf.public_key().parsed() {
            Ok(PublicKey::RSA(key)) if bits(key.modulus) >= RSA_BITS => Ok(()),
            Ok(PublicKey::RSA(key)) => {
                Err(format!("the RSA key has {} bits; Envoy takes {RSA_BITS} and more", bits(key.modulus)))
            }
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
        other => Err(format!("the key's algorithm \"{other}\" is none of RSA, ECDSA and Ed25519")),
    }
}

/// The length of a big-endian number in bits.
fn bits(number: &[u8]) -> usize {
    let significant = number.iter().skip_while(|byte| **byte == 0);
    let leading_zeros = significant.clone().next().map_or(0, |byte| byte.leading_zeros() as usize);
    significant.count() * 8 - leading_zeros
}

/// Whether `key` is the private key of `certificate`. Errors: it is not a key that can be served.
fn matches(certificate: &X509Certificate<'_>, key: &PrivateKeyDer<'static>) -> Result<bool, String> {
    let public = certificate.public_key();
    if let Ok(loaded) = default_provider().key_provider.load_private_key(key.clone_key())
        && let Some(spki) = loaded.public_key()
    {
        let (_, spki) =
            x509_parser::x509::SubjectPublicKeyInfo::from_der(&spki).map_err(|_| "the key does not parse")?;
        return Ok(spki.algorithm.algorithm == public.algorithm.algorithm
            && spki.subject_public_key.data == public.subject_public_key.data);
    }
    // Envoy takes these two and our TLS library does not.
    match public.parsed() {
        Ok(PublicKey::RSA(public)) if bits(public.modulus) > RSA_BITS_OF_RING => {
            let modulus = rsa_modulus(key).ok_or("the key is not a usable RSA key")?;
            Ok(bits(&modulus) == bits(public.modulus) && modulus.ends_with(trimmed(public.modulus)))
        }
        Ok(PublicKey::EC(point)) if point.data().len() == 133 => {
            Ok(ec_point(key).ok_or("the key is not a usable P-521 key with its public point")? == point.data())
        }
        _ if key_is_readable(key) => Ok(false),
        _ => Err("the key is not a usable RSA, ECDSA or Ed25519 key".into()),
    }
}

/// Whether `key` is at least in the form that its label says, so that "does not match" is the better message.
fn key_is_readable(key: &PrivateKeyDer<'_>) -> bool {
    rsa_modulus(key).is_some_and(|modulus| bits(&modulus) > RSA_BITS_OF_RING)
        || ec_point(key).is_some_and(|point| point.len() == 133)
}

fn trimmed(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}

/// The elements of the DER SEQUENCE `der`.
fn elements(der: &[u8]) -> Option<Vec<Any<'_>>> {
    let (_, sequence) = Sequence::from_der(der).ok()?;
    // The borrow must outlive the sequence: walk the input behind its header instead.
    let mut rest = &der[der.len() - sequence.content.len()..];
    let mut elements = Vec::new();
    while !rest.is_empty() {
        let (after, element) = Any::from_der(rest).ok()?;
        elements.push(element);
        rest = after;
    }
    Some(elements)
}

/// The inner key of PKCS#8, or the key itself. Source: RFC 5958.
fn inner_key<'a>(key: &'a PrivateKeyDer<'_>) -> Option<&'a [u8]> {
    match key {
        PrivateKeyDer::Pkcs8(key) => Some(elements(key.secret_pkcs8_der())?.get(2)?.data),
        key => Some(key.secret_der()),
    }
}

/// The modulus of an RSA private key. Source: RFC 8017, A.1.2.
fn rsa_modulus(key: &PrivateKeyDer<'_>) -> Option<Vec<u8>> {
    let elements = elements(inner_key(key)?)?;
    let modulus = Integer::try_from(elements.get(1)?.clone()).ok()?;
    Some(trimmed(modulus.as_ref()).to_vec())
}

/// The public point of an EC private key, if it is in it. Source: RFC 5915.
fn ec_point(key: &PrivateKeyDer<'_>) -> Option<Vec<u8>> {
    let elements = elements(inner_key(key)?)?;
    let public = elements
        .into_iter()
        .find(|element| element.header.tag().0 == 1 && element.header.class() == Class::ContextSpecific)?;
    let (_, point) = BitString::from_der(public.data).ok()?;
    Some(point.data.to_vec())
}

/// `der` as PEM: lines of 64 characters. Source: RFC 7468.
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
mod tests;
