//! The identity of a client: the names in its certificate, their roles, and the patterns that grant roles.
//!
//! A certificate of a trusted CA proves only a name. The role of this name grants access. An Envoy receives private
//! keys, and a gRPC client without a proxy receives none. A replica can only request acceptance and last good key
//! pairs. This module has no I/O: it parses certificates that a TLS library has verified.

mod pattern;

use std::fmt;

use x509_parser::certificate::X509Certificate;
use x509_parser::der_parser::asn1_rs::FromDer;
use x509_parser::extensions::GeneralName;

pub use pattern::Pattern;

/// The maximum number of names of one certificate in a log line.
const SHOWN: usize = 5;
/// The maximum number of bytes of one name in a log line.
const SHOWN_BYTES: usize = 200;

/// The subject alternative names of a certificate that can give a role.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// DNS names.
    pub dns: Vec<String>,
    /// URIs, such as SPIFFE IDs.
    pub uris: Vec<String>,
}

impl Names {
    /// Parses the names of a DER certificate. An invalid certificate has none.
    pub fn read(der: &[u8]) -> Self {
        let mut names = Self::default();
        let Ok((_, certificate)) = X509Certificate::from_der(der) else { return names };
        let Ok(Some(alternative)) = certificate.subject_alternative_name() else { return names };
        for name in &alternative.value.general_names {
            match name {
                GeneralName::DNSName(name) => names.dns.push((*name).to_owned()),
                GeneralName::URI(uri) => names.uris.push((*uri).to_owned()),
                _ => {}
            }
        }
        names
    }

    /// Returns patterns that match exactly these names.
    pub fn patterns(&self) -> Vec<Pattern> {
        let dns = self.dns.iter().map(|name| Pattern::exact_dns(name));
        dns.chain(self.uris.iter().map(|uri| Pattern::exact_uri(uri))).collect()
    }
}

/// For log lines: `DNS:envoy, URI:spiffe://...`, escaped and shortened.
impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dns = self.dns.iter().map(|name| ("DNS", name));
        let all = dns.chain(self.uris.iter().map(|uri| ("URI", uri)));
        let count = self.dns.len() + self.uris.len();
        if count == 0 {
            return f.write_str("no DNS name and no URI");
        }
        for (i, (kind, name)) in all.take(SHOWN).enumerate() {
            let end = (0..=name.len().min(SHOWN_BYTES)).rev().find(|end| name.is_char_boundary(*end));
            let shown = name.get(..end.unwrap_or_default()).unwrap_or_default();
            let (comma, dots) = (if i > 0 { ", " } else { "" }, if shown.len() < name.len() { "..." } else { "" });
            write!(f, "{comma}{kind}:{}{dots}", shown.escape_debug())?;
        }
        match count.saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// A role of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// An Envoy: every resource of its store, private keys included.
    Envoy,
    /// An Envoy that may also read the status of all clients.
    Status,
    /// A gRPC client without a proxy: its own view, without secrets.
    Grpc,
    /// A replica of the controller: the acceptance by Envoys, and last good key pairs.
    Replica,
}

/// For messages.
impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Envoy => "the Envoys",
            Self::Status => "the Envoys that may read the status of all clients",
            Self::Grpc => "the gRPC clients",
            Self::Replica => "the replicas",
        })
    }
}

/// The roles of one client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Roles {
    /// [`Role::Envoy`]
    pub envoy: bool,
    /// [`Role::Status`]
    pub status: bool,
    /// [`Role::Grpc`]
    pub grpc: bool,
    /// [`Role::Replica`]
    pub replica: bool,
}

impl Roles {
    /// Every role: for clients of a server without TLS.
    pub const ALL: Self = Self { envoy: true, status: true, grpc: true, replica: true };

    /// Returns whether the client has no role.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// Returns whether the client has `role`.
    pub fn has(self, role: Role) -> bool {
        match role {
            Role::Envoy => self.envoy,
            Role::Status => self.status,
            Role::Grpc => self.grpc,
            Role::Replica => self.replica,
        }
    }
}

/// The names that grant each role.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// Names of Envoys.
    pub envoys: Vec<Pattern>,
    /// Names of Envoys that may not read the status of other clients, because they receive only a part of the resources.
    pub members: Vec<Pattern>,
    /// Names of gRPC clients without a proxy.
    pub grpc: Vec<Pattern>,
    /// Names of replicas.
    pub replicas: Vec<Pattern>,
}

impl Policy {
    /// Returns the roles of a client whose certificate has `names`.
    pub fn roles(&self, names: &Names) -> Roles {
        let any = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(names));
        let status = any(&self.envoys);
        let envoy = status || any(&self.members);
        Roles { envoy, status, grpc: any(&self.grpc), replica: any(&self.replicas) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn names(dns: &[&str], uris: &[&str]) -> Names {
        let owned = |list: &[&str]| list.iter().map(ToString::to_string).collect();
        Names { dns: owned(dns), uris: owned(uris) }
    }

    #[test]
    fn names_are_read_from_a_certificate() {
        let mut params = rcgen::CertificateParams::new(vec!["envoy".to_owned(), "192.0.2.1".to_owned()]).unwrap();
        params.subject_alt_names.push(rcgen::SanType::URI("spiffe://example.org/envoy".try_into().unwrap()));
        params.distinguished_name.push(rcgen::DnType::CommonName, "controller");
        let certificate = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
        assert_eq!(Names::read(certificate.der()), names(&["envoy"], &["spiffe://example.org/envoy"]));
        assert_eq!(Names::read(b"nothing"), Names::default());
    }

    #[test]
    fn a_role_requires_a_name_of_that_role() {
        let policy = Policy {
            envoys: vec![Pattern::parse("envoy").unwrap()],
            members: vec![Pattern::parse("spiffe://example.org/fleet/*/*").unwrap()],
            grpc: vec![Pattern::parse("spiffe://example.org/ns/*/sa/*").unwrap()],
            replicas: names(&["lockgate"], &[]).patterns(),
        };
        let roles = |dns: &[&str], uris: &[&str]| policy.roles(&names(dns, uris));
        assert_eq!(roles(&["envoy"], &[]), Roles { envoy: true, status: true, ..Roles::default() });
        let member = roles(&[], &["spiffe://example.org/fleet/shop/public"]);
        assert_eq!(member, Roles { envoy: true, ..Roles::default() }, "it receives its part, and no status of others");
        assert_eq!(roles(&[], &["spiffe://example.org/ns/shop/sa/cart"]), Roles { grpc: true, ..Roles::default() });
        assert_eq!(roles(&["lockgate", "envoy"], &[]), Roles { grpc: false, ..Roles::ALL });
        assert!(roles(&["web.shop.svc"], &["spiffe://example.org/other"]).is_empty());
        assert!(roles(&[], &[]).is_empty());
    }

    #[test]
    fn names_are_displayed_escaped_and_shortened() {
        assert_eq!(names(&[], &[]).to_string(), "no DNS name and no URI");
        assert_eq!(names(&["a\nb"], &["spiffe://c"]).to_string(), "DNS:a\\nb, URI:spiffe://c");
        let long = "ü".repeat(SHOWN_BYTES);
        let many = names(&[&long, "b", "c", "d", "e", "f", "g"], &[]).to_string();
        assert!(many.len() < 300 && many.contains("...") && many.ends_with(" and 2 more"), "{many}");
    }
}
