//! Certificate revocation lists as Envoy accepts them: the fields of RFC 5280 in canonical DER.
//!
//! An Envoy rejects a list that BoringSSL rejects, and with it the certificate authorities. Lists are therefore parsed here first, by
//! rules that are stricter than those of BoringSSL.

use der::Tag;
use rustls_pki_types::pem::{PemObject, SectionKind};

use super::certificate::{extensions, is_algorithm, name};
use super::der::{Element, bits};
use super::{pem, pem_fault};

/// The longest text of all revocation lists of a Secret, in bytes. Each filter chain has a copy.
pub const MAX_REVOCATION_BYTES: usize = 256 * 1024;

const AUTHORITY_KEY: &[u8] = &[0x55, 0x1d, 0x23];
const LIST_NUMBER: &[u8] = &[0x55, 0x1d, 0x14];
/// `2.5.29`, the identifiers of the extensions of RFC 5280.
const OF_STANDARD: &[u8] = &[0x55, 0x1d];

/// Returns the certificate revocation lists of `crl.pem`, PEM.
///
/// The error is the fault in lower case with the data key: a malformed list, or none at all.
pub fn revocations(crl: &[u8]) -> Result<String, String> {
    let fault = |fault: String| format!("data[\"crl.pem\"]: {fault}");
    if crl.len() > MAX_REVOCATION_BYTES {
        return Err(fault(format!("more than {} KiB", MAX_REVOCATION_BYTES / 1024)));
    }
    let mut lists = Vec::new();
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(crl) {
        if let (SectionKind::Crl, der) = section.map_err(|error| fault(pem_fault(error)))? {
            check(&der).ok_or_else(|| fault(format!("revocation list {} is not supported X.509", lists.len() + 1)))?;
            lists.push(der);
        }
    }
    if lists.is_empty() {
        return Err(fault("no PEM block \"X509 CRL\" in it".to_owned()));
    }
    let text = lists.iter().flat_map(|der| pem("X509 CRL", der)).collect();
    String::from_utf8(text).map_err(|_| fault("not text".to_owned()))
}

/// Checks a CertificateList. Lists of a part of all certificates, and differences to other lists, are not supported.
fn check(der: &[u8]) -> Option<()> {
    let fields = Element::only(der)?.sequence()?;
    let [signed, algorithm, signature] = fields.as_slice() else { return None };
    (is_algorithm(algorithm) && signature.tag == Tag::BitString && bits(signature.content)?.0 == 0).then_some(())?;
    let mut fields = signed.sequence()?.into_iter().peekable();
    let version = fields.next_if(|field| field.tag == Tag::Integer);
    version.is_none_or(|version| version.content == [1]).then_some(())?;
    fields.next().filter(|inner| inner.encoding == algorithm.encoding)?;
    name(&fields.next()?)?;
    fields.next().filter(is_time)?;
    fields.next_if(is_time);
    if let Some(revoked) = fields.next_if(|field| field.tag == Tag::Sequence) {
        let revoked = revoked.sequence()?;
        // An empty list must be absent.
        (!revoked.is_empty()).then_some(())?;
        revoked.iter().try_for_each(|entry| check_entry(entry, version.is_some()))?;
    }
    if let Some(field) = fields.next_if(|field| field.context() == Some((0, true))) {
        version?;
        extensions(&field)?.into_iter().try_for_each(|(identifier, value)| match identifier {
            AUTHORITY_KEY => check_authority_key(value),
            LIST_NUMBER => Element::only(value).filter(|number| number.tag == Tag::Integer).map(|_| ()),
            other => (!other.starts_with(OF_STANDARD)).then_some(()),
        })?;
    }
    fields.next().is_none().then_some(())
}

fn is_time(field: &Element<'_>) -> bool {
    matches!(field.tag, Tag::UtcTime | Tag::GeneralizedTime)
}

/// Checks a revoked certificate: its number, its time, and the reason at most.
fn check_entry(entry: &Element<'_>, has_version: bool) -> Option<()> {
    let fields = entry.sequence()?;
    let (number, time, rest) = match fields.as_slice() {
        [number, time] => (number, time, None),
        [number, time, rest] if has_version => (number, time, Some(rest)),
        _ => return None,
    };
    (number.tag == Tag::Integer && is_time(time)).then_some(())?;
    for extension in rest.map(Element::sequence).unwrap_or(Some(Vec::new()))? {
        match extension.sequence()?.as_slice() {
            // The reason, and the date of invalidity.
            [identifier, value]
                if value.tag == Tag::OctetString
                    && [&[0x55, 0x1d, 0x15][..], &[0x55, 0x1d, 0x18]].contains(&identifier.content) =>
            {
                Element::only(value.content).filter(|value| value.tag == Tag::Enumerated || is_time(value))?;
            }
            _ => return None,
        }
    }
    Some(())
}

/// Checks the identifier of the key that signs a list. Only the identifier of the key itself is supported.
fn check_authority_key(value: &[u8]) -> Option<()> {
    match Element::only(value)?.sequence()?.as_slice() {
        [identifier] => (identifier.context() == Some((0, false))).then_some(()),
        _ => None,
    }
}
