//! X.509 certificates as Envoy accepts them: the fields of RFC 5280 in canonical DER.
//!
//! BoringSSL and `x509-parser` disagree about thousands of malformed certificates, and a certificate that BoringSSL
//! rejects makes an Envoy reject all its certificates. Certificates are therefore parsed here first, by the rules of
//! BoringSSL or stricter ones.

use der::Tag;

use super::der::{Element, bits, is_object_identifier};

/// The largest name that BoringSSL accepts, in bytes. Source: BoringSSL `X509_NAME_MAX`.
const MAX_NAME: usize = 1024 * 1024;

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];
/// `1.3.6.1.5.5.7.1.24`, the extension of "must staple". Source: RFC 7633.
const TLS_FEATURE: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 1, 0x18];
/// `1.2.840.10045.2.1`
const EC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
/// The TLS feature `status_request`. Source: RFC 7633, RFC 6066.
const STATUS_REQUEST: &[u8] = &[5];

/// The fields that are read of a certificate in canonical DER.
#[derive(Debug)]
pub struct Certificate<'a> {
    /// SubjectPublicKeyInfo, DER.
    pub public_key: &'a [u8],
    is_ecdsa: bool,
    /// The first common name of the subject, in any encoding of text.
    common_name: Option<&'a [u8]>,
    /// Object identifier and value of each extension.
    extensions: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> Certificate<'a> {
    /// Parses a certificate. Returns `None` if a part of it is malformed.
    ///
    /// It is stricter than BoringSSL 2026-08. It also rejects an explicit version 1, a repeated extension, a UTCTime
    /// with an offset, and signatures with long forms of their length.
    pub fn parse(der: &'a [u8]) -> Option<Self> {
        let fields = Element::only(der)?.sequence()?;
        let [signed, algorithm, signature] = fields.as_slice() else { return None };
        if !is_algorithm(algorithm) || signature.tag != Tag::BitString {
            return None;
        }
        let mut fields = signed.sequence()?.into_iter().peekable();
        let version = match fields.next_if(|field| field.context() == Some((0, true))) {
            None => 1,
            Some(field) => match Element::only(field.content)? {
                Element { tag: Tag::Integer, content: [version @ 1..=2], .. } => *version + 1,
                _ => return None,
            },
        };
        let _serial_number = fields.next().filter(|field| field.tag == Tag::Integer)?;
        let _algorithm = fields.next().filter(is_algorithm)?;
        let _issuer = name(&fields.next()?)?;
        let validity = fields.next()?.sequence()?;
        let is_time = |field: &Element<'_>| matches!(field.tag, Tag::UtcTime | Tag::GeneralizedTime);
        if validity.len() != 2 || !validity.iter().all(is_time) {
            return None;
        }
        let subject = name(&fields.next()?)?;
        let public_key = fields.next()?;
        let is_ecdsa = is_ecdsa(&public_key)?;
        for number in [1, 2] {
            if let Some(identifier) = fields.next_if(|field| field.context() == Some((number, false))) {
                bits(identifier.content).filter(|_| version >= 2)?;
            }
        }
        let extensions = match fields.next_if(|field| field.context() == Some((3, true))) {
            Some(field) if version == 3 => extensions(&field)?,
            Some(_) => return None,
            None => Vec::new(),
        };
        if fields.next().is_some() {
            return None;
        }
        Some(Self {
            public_key: public_key.encoding,
            is_ecdsa,
            common_name: subject.into_iter().find(|(kind, _)| *kind == COMMON_NAME).map(|(_, value)| value),
            extensions,
        })
    }

    /// Checks that Envoy serves it as the first certificate of a chain.
    ///
    /// Source: Envoy `ServerContextImpl`, BoringSSL `SSLCredential::SetLeafCert`; tested with Envoy 1.40.
    ///
    /// The error is the reason why Envoy would reject it.
    pub fn check_leaf(&self) -> Result<(), &'static str> {
        if self.common_name.is_some_and(<[u8]>::is_empty) {
            return Err("the certificate's common name is empty");
        }
        let hosts = match self.extension(ALTERNATIVE_NAMES) {
            Some(value) => count_hosts(value).ok_or("the certificate's alternative names do not parse")?,
            None => 0,
        };
        if self.common_name.is_none() && hosts == 0 {
            return Err("the certificate has neither a common name nor a subject alternative name");
        }
        if let Some(value) = self.extension(KEY_USAGE) {
            let usage = Element::only(value).filter(|usage| usage.tag == Tag::BitString);
            let (_, usage) =
                usage.and_then(|usage| bits(usage.content)).ok_or("the certificate's key usage does not parse")?;
            if self.is_ecdsa && usage.first().is_none_or(|first| first & 0x80 == 0) {
                return Err("the certificate's key usage lacks digitalSignature, which an ECDSA key needs");
            }
        }
        if let Some(value) = self.extension(TLS_FEATURE) {
            let features = Element::only(value).and_then(|value| value.sequence());
            let features = features.ok_or("the certificate's TLS features do not parse")?;
            if features.iter().any(|feature| feature.content == STATUS_REQUEST) {
                return Err("the certificate demands OCSP stapling (\"must staple\"), which is not supported");
            }
        }
        Ok(())
    }

    fn extension(&self, identifier: &[u8]) -> Option<&'a [u8]> {
        self.extensions.iter().find(|(found, _)| *found == identifier).map(|(_, value)| *value)
    }
}

/// Returns whether an element is an AlgorithmIdentifier.
pub fn is_algorithm(element: &Element<'_>) -> bool {
    let fields = element.sequence().unwrap_or_default();
    matches!(fields.len(), 1 | 2) && fields[0].tag == Tag::ObjectIdentifier
}

/// Returns object identifier and value of each attribute of a Name.
pub fn name<'a>(element: &Element<'a>) -> Option<Vec<(&'a [u8], &'a [u8])>> {
    let mut attributes = Vec::new();
    for set in element.sequence().filter(|_| element.content.len() <= MAX_NAME)? {
        let members = set.children().filter(|members| set.tag == Tag::Set && !members.is_empty())?;
        for member in members {
            match member.sequence()?.as_slice() {
                [kind, value] if kind.tag == Tag::ObjectIdentifier => attributes.push((kind.content, value.content)),
                _ => return None,
            }
        }
    }
    Some(attributes)
}

/// Returns whether a SubjectPublicKeyInfo has an elliptic curve, or `None` if it is malformed.
fn is_ecdsa(element: &Element<'_>) -> Option<bool> {
    match element.sequence()?.as_slice() {
        [algorithm, key] if is_algorithm(algorithm) && key.tag == Tag::BitString => {
            Some(algorithm.sequence()?.first()?.content == EC_KEY)
        }
        _ => None,
    }
}

/// Returns the object identifier and the value of each extension, or `None` if one is malformed or repeated.
pub fn extensions<'a>(field: &Element<'a>) -> Option<Vec<(&'a [u8], &'a [u8])>> {
    let mut extensions: Vec<(&[u8], &[u8])> = Vec::new();
    for extension in Element::only(field.content)?.sequence()? {
        let fields = extension.sequence()?;
        let (identifier, value) = match fields.as_slice() {
            [identifier, value] => (identifier, value),
            // Many authorities write the default "not critical", which DER omits.
            [identifier, critical, value] if critical.tag == Tag::Boolean => (identifier, value),
            _ => return None,
        };
        if identifier.tag != Tag::ObjectIdentifier
            || value.tag != Tag::OctetString
            || extensions.iter().any(|(other, _)| *other == identifier.content)
        {
            return None;
        }
        extensions.push((identifier.content, value.content));
    }
    Some(extensions)
}

/// Counts the DNS names, URIs, and addresses in the extension of alternative names. Returns `None` if it is malformed.
/// Envoy counts only these three (`generateHashForSessionContextId`). Source: RFC 5280, 4.2.1.6.
fn count_hosts(value: &[u8]) -> Option<usize> {
    let mut hosts = 0;
    for name in Element::only(value)?.sequence()? {
        let well_formed = match name.context()? {
            (1, false) => name.content.is_ascii(),
            (2 | 6, false) => {
                hosts += 1;
                name.content.is_ascii()
            }
            (7, false) => {
                hosts += 1;
                true
            }
            (0, true) => match name.children()?.as_slice() {
                [kind, value] => {
                    kind.tag == Tag::ObjectIdentifier
                        && value.context() == Some((0, true))
                        && value.children()?.len() == 1
                }
                _ => false,
            },
            (4, true) => self::name(&Element::only(name.content)?).is_some(),
            (8, false) => is_object_identifier(name.content),
            // X.400 addresses and EDI parties are extinct.
            _ => false,
        };
        if !well_formed {
            return None;
        }
    }
    Some(hosts)
}
