//! The content of the authority's Secret: the trusted authorities, the issuer, and the next issuer.

use std::time::SystemTime;

use super::certificate::{Authority, Issuer, certificates, validate};
use super::{
    AUTHORITIES, AUTHORITY_KEY, CERTIFICATE, Holder, KEY, NEXT_KEY, Role, SecretContent, Stored, WantedCertificates,
};

/// The parsed Secret of the authority. At least one of `issuing` and `next` exists.
#[derive(Debug)]
pub(super) struct Authorities {
    /// All trusted authorities in the order of the Secret. None has expired.
    pub trusted: Vec<Authority>,
    /// The issuer. `None` if its key is lost while its certificates are still in use.
    pub issuing: Option<Issuer>,
    /// The issuer that takes over when all peers trust it.
    pub next: Option<Issuer>,
}

impl Authorities {
    /// Parses the Secret. The error is the reason why no authority can issue certificates.
    pub fn read(content: Option<&SecretContent>, now: SystemTime) -> Result<Self, String> {
        let content = content.ok_or("there is no Secret")?;
        if content.is_empty() {
            return Err("the Secret is empty".to_owned());
        }
        let trusted = trusted(content, now).map_err(|why| format!("ca.crt: {why}"))?;
        let issuing = Issuer::read(content.get(AUTHORITY_KEY), &trusted);
        let next = Issuer::read(content.get(NEXT_KEY), &trusted);
        match (issuing, next) {
            (Err(why), Err(_)) => Err(format!("ca.key: {why}")),
            (issuing, next) => Ok(Self { trusted, issuing: issuing.ok(), next: next.ok() }),
        }
    }

    /// Returns the authority that issues certificates now.
    pub fn issuer(&self) -> Option<&Issuer> {
        self.issuing.as_ref().or(self.next.as_ref())
    }

    /// Returns whether a key pair of `authority` may stay. If the key of the authority is lost, its key pairs stay until its
    /// successor takes over.
    pub fn keeps(&self, authority: &Authority) -> bool {
        let issues = |issuer: &Option<Issuer>| issuer.as_ref().is_some_and(|issuer| issuer.authority == *authority);
        self.issuing.is_none() || issues(&self.issuing) || issues(&self.next)
    }

    /// Returns all trusted authorities in PEM, as in each of the Secrets.
    pub fn bundle(&self) -> Vec<u8> {
        bundle(&self.trusted)
    }
}

/// Concatenates `authorities` in PEM.
pub(super) fn bundle(authorities: &[Authority]) -> Vec<u8> {
    authorities.iter().flat_map(|authority| authority.pem().into_bytes()).collect()
}

/// Returns the authorities in `ca.crt` that have not expired, each once.
fn trusted(content: &SecretContent, now: SystemTime) -> Result<Vec<Authority>, String> {
    let mut trusted: Vec<Authority> = Vec::new();
    for der in certificates(content.get(AUTHORITIES))? {
        if let Some(authority) = Authority::read(der, now)?
            && !trusted.contains(&authority)
        {
            trusted.push(authority);
        }
    }
    Ok(trusted)
}

/// Returns the authorities that the Secrets trust, if the Secret of the authority is lost while a key pair is still valid. All
/// of these authorities stay trusted until their key pairs are replaced.
pub(super) fn in_use(stored: &Stored, wanted: &WantedCertificates, now: SystemTime) -> Vec<Authority> {
    let mut known: Vec<Authority> = Vec::new();
    for content in Role::ALL.into_iter().chain([Role::Fleets]).filter_map(|role| stored.get(role)) {
        for authority in trusted(content, now).unwrap_or_default() {
            if !known.contains(&authority) {
                known.push(authority);
            }
        }
    }
    let good = |role, holder| {
        let content: Option<&SecretContent> = stored.get(role);
        content.is_some_and(|content| {
            validate(holder, content.get(CERTIFICATE), content.get(KEY), &known, wanted, now).is_ok()
        })
    };
    if good(Role::Server, Holder::Server) || good(Role::Envoy, Holder::Envoy) { known } else { Vec::new() }
}
