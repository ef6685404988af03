//! Certificates: creation, parsing, and validation by the rules of the peer.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use lockgate_xds::identity::Names;
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
    PublicKeyData, SanType,
};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use x509_parser::certificate::X509Certificate;
use x509_parser::der_parser::asn1_rs::FromDer;
use x509_parser::extensions::GeneralName;
use x509_parser::time::ASN1Time;

use super::{CertificateError, Holder, WantedCertificates};

/// The time by which the start of validity is backdated, for clocks that are slow.
const BACKDATED: Duration = Duration::from_secs(60 * 60);
/// The maximum lifetime of a certificate. Dates cannot exceed the year 9999.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
/// The maximum length of a common name, in bytes. Source: RFC 5280, `ub-common-name`.
const COMMON_NAME: usize = 64;

/// The certificate of an authority.
#[derive(Debug, Clone)]
pub(super) struct Authority {
    /// The certificate in DER.
    pub der: CertificateDer<'static>,
    /// The end of its validity.
    pub not_after: SystemTime,
}

impl PartialEq for Authority {
    fn eq(&self, other: &Self) -> bool {
        self.der == other.der
    }
}

/// An authority that can issue.
#[derive(Debug)]
pub(super) struct Issuer {
    /// The certificate.
    pub authority: Authority,
    key: KeyPair,
}

/// A key pair that the peer accepts.
#[derive(Debug)]
pub(super) struct Leaf {
    /// The issuer.
    pub authority: Authority,
    /// The end of its validity.
    pub not_after: SystemTime,
}

/// Returns the certificates in `pem` as DER.
pub(super) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let parsed = parsed.map_err(|error| error.to_string())?;
    if parsed.is_empty() { Err("it contains no certificate".to_owned()) } else { Ok(parsed) }
}

/// Returns the end of validity of the first certificate in `pem`, and the earliest end of all certificates.
///
/// The error describes the fault.
pub fn not_after(pem: &[u8]) -> Result<(SystemTime, SystemTime), String> {
    let all: Result<Vec<_>, _> = certificates(pem)?.iter().map(|der| parse(der).map(|read| end(&read))).collect();
    let all = all?;
    let least = all.iter().min().copied().unwrap_or(UNIX_EPOCH);
    Ok((all.first().copied().unwrap_or(least), least))
}

/// Returns the names of the first certificate in `pem`.
pub fn names(pem: &[u8]) -> Names {
    let first = certificates(pem).ok().and_then(|all| all.into_iter().next());
    first.map(|leaf| Names::read(&leaf)).unwrap_or_default()
}

/// Returns the first DNS name of the first certificate in `pem`.
pub fn first_name(pem: &[u8]) -> Option<String> {
    names(pem).dns.into_iter().next()
}

fn parse<'a>(der: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, String> {
    match X509Certificate::from_der(der) {
        Ok(([], certificate)) => Ok(certificate),
        _ => Err("not X.509".to_owned()),
    }
}

fn end(certificate: &X509Certificate<'_>) -> SystemTime {
    moment(certificate.validity().not_after)
}

fn moment(time: ASN1Time) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(u64::try_from(time.timestamp()).unwrap_or_default())
}

impl Authority {
    /// Parses a certificate. Returns `None` if it has expired.
    pub fn read(der: CertificateDer<'static>, now: SystemTime) -> Result<Option<Self>, String> {
        let read = parse(&der)?;
        if !read.is_ca() {
            return Err("it contains a certificate that does not belong to an authority".to_owned());
        }
        let not_after = end(&read);
        Ok((now <= not_after).then_some(Self { der, not_after }))
    }

    /// Returns the certificate in PEM.
    pub fn pem(&self) -> String {
        let body = BASE64_STANDARD.encode(&self.der);
        let lines = body.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line));
        let lines: Vec<_> = lines.collect();
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
    }
}

impl Issuer {
    /// Creates an authority. Returns it with its private key in PEM.
    pub fn new(wanted: &WantedCertificates, now: SystemTime) -> Result<(Self, String), CertificateError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        // Two authorities with the same name would be hard to distinguish, even for TLS libraries.
        let number: String = key.public_key_raw().iter().skip(1).take(4).map(|byte| format!("{byte:02x}")).collect();
        let place = format!("{}/{}", wanted.namespace, wanted.prefix);
        let place: String = place.chars().filter(char::is_ascii).take(COMMON_NAME - number.len() - 1).collect();
        params.distinguished_name.push(DnType::OrganizationName, "lockgate");
        params.distinguished_name.push(DnType::CommonName, format!("{place} {number}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let not_after = now + wanted.authority_lifetime.min(LONGEST);
        set_dates(&mut params, now, not_after);
        let der = params.self_signed(&key)?.der().clone();
        let pem = key.serialize_pem();
        Ok((Self { authority: Authority { der, not_after: whole(not_after) }, key }, pem))
    }

    /// Finds the authority in `authorities` that the private key `pem` belongs to.
    pub fn read(pem: &[u8], authorities: &[Authority]) -> Result<Self, String> {
        let key = private_key(pem)?;
        let info = key.subject_public_key_info();
        let matches = |authority: &&Authority| parse(&authority.der).is_ok_and(|read| read.public_key().raw == info);
        match authorities.iter().find(matches) {
            Some(authority) => Ok(Self { authority: authority.clone(), key }),
            None => Err("it matches no valid certificate of ca.crt".to_owned()),
        }
    }

    /// Creates a key pair: certificate and private key in PEM.
    pub fn issue(
        &self,
        holder: Holder<'_>,
        wanted: &WantedCertificates,
        now: SystemTime,
    ) -> Result<(String, String), CertificateError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "lockgate");
        params.distinguished_name.push(DnType::CommonName, holder.subject());
        params.subject_alt_names = vec![SanType::URI(Ia5String::try_from(holder.uri(wanted))?)];
        if holder == Holder::Server {
            for name in &wanted.names {
                params.subject_alt_names.push(SanType::DnsName(Ia5String::try_from(name.as_str())?));
            }
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = usages(holder).to_vec();
        params.use_authority_key_identifier_extension = true;
        set_dates(&mut params, now, self.end_of_new(wanted, now));
        let issuer = rcgen::Issuer::from_ca_cert_der(&self.authority.der, &self.key)?;
        let certificate = params.signed_by(&key, &issuer)?;
        Ok((certificate.pem(), key.serialize_pem()))
    }

    /// Returns the end of validity of a new certificate. It is not after the end of validity of the authority.
    pub fn end_of_new(&self, wanted: &WantedCertificates, now: SystemTime) -> SystemTime {
        whole((now + wanted.certificate_lifetime.min(LONGEST)).min(self.authority.not_after))
    }
}

/// Validates the key pair of `holder` by the rules of the peer. The error is the reason why it is unusable.
pub(super) fn validate(
    holder: Holder<'_>,
    certificate: &[u8],
    key: &[u8],
    trusted: &[Authority],
    wanted: &WantedCertificates,
    now: SystemTime,
) -> Result<Leaf, String> {
    let chain = certificates(certificate).map_err(|why| format!("tls.crt: {why}"))?;
    let leaf = chain.first().ok_or("tls.crt: it contains no certificate")?;
    let read = parse(leaf).map_err(|why| format!("tls.crt: {why}"))?;
    let key = private_key(key).map_err(|why| format!("tls.key: {why}"))?;
    if read.public_key().raw != key.subject_public_key_info() {
        return Err("tls.key: it is not the key of tls.crt".to_owned());
    }
    let uris = read.subject_alternative_name().ok().flatten();
    let uri = holder.uri(wanted);
    if !uris.is_some_and(|names| names.value.general_names.iter().any(|name| *name == GeneralName::URI(&uri))) {
        return Err(format!("tls.crt: it does not have the name \"{uri}\""));
    }
    let mut why = "no authority is left".to_owned();
    for authority in trusted {
        match verify(holder, leaf, authority, wanted, now) {
            Ok(()) => return Ok(Leaf { authority: authority.clone(), not_after: end(&read) }),
            Err(error) => why = error,
        }
    }
    Err(format!("tls.crt: {why}"))
}

/// Validates a key pair with the TLS library.
fn verify(
    holder: Holder<'_>,
    leaf: &CertificateDer<'_>,
    authority: &Authority,
    wanted: &WantedCertificates,
    now: SystemTime,
) -> Result<(), String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(authority.der.clone()).map_err(|error| error.to_string())?;
    let roots = Arc::new(roots);
    let now = UnixTime::since_unix_epoch(now.duration_since(UNIX_EPOCH).unwrap_or_default());
    let clients = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
    let clients = clients.build().map_err(|error| error.to_string())?;
    clients.verify_client_cert(leaf, &[], now).map_err(|error| error.to_string())?;
    if holder == Holder::Server {
        let servers = WebPkiServerVerifier::builder_with_provider(roots, provider);
        let servers = servers.build().map_err(|error| error.to_string())?;
        for name in &wanted.names {
            let name = ServerName::try_from(name.as_str()).unwrap_or(ServerName::from(IpAddr::V4(Ipv4Addr::LOCALHOST)));
            servers.verify_server_cert(leaf, &[], &name, &[], now).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

fn private_key(pem: &[u8]) -> Result<KeyPair, String> {
    if pem.is_empty() {
        return Err("there is none".to_owned());
    }
    let text = std::str::from_utf8(pem).map_err(|_| "it is not PEM".to_owned())?;
    // The error of the library might quote the key.
    KeyPair::from_pem(text).map_err(|_| "it is not a private key in PEM".to_owned())
}

/// Returns the key usages of `holder`. The key pair of the server has both usages, because replicas connect to each other with
/// it, too.
fn usages(holder: Holder<'_>) -> &'static [ExtendedKeyUsagePurpose] {
    match holder {
        Holder::Server => &[ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
        Holder::Envoy | Holder::Fleet(_) => &[ExtendedKeyUsagePurpose::ClientAuth],
    }
}

/// Truncates `time` to whole seconds, as in certificates.
fn whole(time: SystemTime) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
}

/// Sets the validity from shortly before `now` until `end`.
fn set_dates(params: &mut CertificateParams, now: SystemTime, end: SystemTime) {
    let since_epoch = |time: SystemTime| whole(time).duration_since(UNIX_EPOCH).unwrap_or_default();
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + since_epoch(now).saturating_sub(BACKDATED);
    params.not_after = epoch + since_epoch(end);
}
