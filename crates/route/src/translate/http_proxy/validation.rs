//! The verification of the certificates of Services, and of the servers of policies.

use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::report::{ProxyFault, ProxyReport};
use super::situation::{Block, Situation};
use super::tls;
use crate::model::{Authorities, Host, PeerName, SecretId, SecretPart, Verification};
use crate::objects::http_proxy::UpstreamValidation;
use crate::translate::dialect::Resolver;
use crate::translate::host;
use crate::translate::problem::{Cause, Message};

/// The maximum number of names, and the longest one in bytes. Source: CustomResourceDefinition of Contour. Manifests are not
/// validated against it.
const MOST: (usize, usize) = (8, 250);

/// The field of a validation, and how its faults are reported.
#[derive(Debug, Clone, Copy)]
pub struct ValidationField<'a> {
    /// The object.
    pub origin: &'a ObjectRef,
    /// The field.
    pub field: &'a str,
    /// The block of a field that is not served.
    pub block: Block,
    /// The error of authorities or names that are not valid.
    pub not_valid: Situation,
    /// The error of a Secret that is not delegated to the namespace of the object.
    pub not_delegated: Situation,
    /// The consequence of a fault.
    pub closed: &'a str,
}

/// Returns the verification of a server, and the size of its certificate authorities in bytes. On an error, which is reported, no
/// request may be sent to the server. `server_name` takes precedence over the name in the certificate.
pub fn parse(
    validation: &UpstreamValidation,
    server_name: Option<Arc<str>>,
    place: ValidationField,
    report: &mut ProxyReport,
    resolver: &mut Resolver,
) -> Result<(Verification, usize), ()> {
    let ValidationField { origin, field, block, not_valid, not_delegated: _, closed } = place;
    if report.add_rest(origin, field, (&validation.rest, &[]), block, closed) {
        return Err(());
    }
    let names = names(validation).map_err(|message| ProxyFault::new(not_valid, "", message));
    let parsed = names.and_then(|names| {
        let (secret, size) = authorities(&validation.ca_secret, place, report, resolver)?;
        Ok((names, secret, size))
    });
    match parsed {
        Ok((names, secret, size)) => {
            let first = match names.first() {
                Some(PeerName::Dns(name)) if !name.starts_with('*') => Some(name.clone()),
                _ => None,
            };
            let server_name = server_name.or(first).unwrap_or_default();
            Ok((Verification { server_name, authorities: Authorities::Secret(secret), names }, size))
        }
        Err(fault) => {
            report.add_fault(origin, field, fault, closed);
            Err(())
        }
    }
}

/// Returns the Secret with the certificate authorities, and their size in bytes.
fn authorities(
    secret: &str,
    place: ValidationField,
    report: &mut ProxyReport,
    resolver: &mut Resolver,
) -> Result<(SecretId, usize), ProxyFault> {
    let ValidationField { origin, field, not_valid, not_delegated, .. } = place;
    let invalid = |message: Message| ProxyFault::new(not_valid, ".caSecret", message);
    if secret.is_empty() {
        return Err(invalid("no Secret with certificate authorities is named".into()));
    }
    let namespace = &origin.namespace;
    let key = tls::secret_key(secret, namespace);
    if !tls::is_delegated(&key, namespace, resolver) {
        let message = format!("no TLSCertificateDelegation permits the reference to Secret \"{key}\"");
        let message = Message::from(message).because(Cause::NotDelegated(key.namespace));
        return Err(ProxyFault::new(not_delegated, ".caSecret", message));
    }
    let found = resolver.secret(key.clone());
    let Some(secret) = found else {
        let why = "does not exist, has no key \"ca.crt\", or is neither of type \"kubernetes.io/tls\" nor \"Opaque\"";
        return Err(invalid(format!("Secret \"{key}\" {why}").into()));
    };
    let fault = secret.authorities_fault.as_deref().map(|fault| format!("Secret \"{key}\": {fault}"));
    match (&secret.authorities, fault) {
        (Some(authorities), fault) => {
            if let Some(message) = fault {
                let (field, kept) = (format!("{field}.caSecret"), "last good certificate authorities kept");
                report.add(origin, field, &not_valid, message, kept);
            }
            // Long-lived data uses the text of the stored object, so that it is shared.
            Ok((SecretId::new(secret.meta.key.clone(), SecretPart::Authorities), authorities.len()))
        }
        (None, fault) => Err(invalid(fault.unwrap_or_default().into())),
    }
}

/// Returns the names of which the certificate must have one, in their order.
fn names(validation: &UpstreamValidation) -> Result<Vec<PeerName>, String> {
    let UpstreamValidation { ca_secret: _, subject_name, subject_names, rest: _ } = validation;
    let texts: Vec<&str> = match (subject_name.as_str(), subject_names.as_slice()) {
        ("", []) => return Err("neither \"subjectName\" nor \"subjectNames\" is set".to_owned()),
        (name, []) => vec![name],
        (name, [first, ..]) if !name.is_empty() && name != first => {
            return Err(format!("\"subjectName\" {name:?} is not the first of \"subjectNames\", {first:?}"));
        }
        (_, names) => names.iter().map(String::as_str).collect(),
    };
    if texts.len() > MOST.0 {
        return Err(format!("more than {} subject names", MOST.0));
    }
    let mut names = Vec::new();
    for text in texts {
        let name = match host::parse(text) {
            _ if text.len() > MOST.1 => return Err(format!("a subject name is longer than {} bytes", MOST.1)),
            Ok(Host::Exact(name)) => PeerName::Dns(name),
            // The certificate must have exactly this name.
            Ok(host @ Host::Wildcard(_)) => PeerName::Dns(host.to_string().into()),
            _ if text.contains("://") && text.bytes().all(|byte| byte.is_ascii_graphic()) => PeerName::Uri(text.into()),
            _ => return Err(format!("subject name {text:?} is neither a DNS name nor a URI")),
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(subject_name: &str, subject_names: &[&str]) -> Result<Vec<String>, String> {
        let subject_names = subject_names.iter().map(ToString::to_string).collect();
        let validation =
            UpstreamValidation { subject_name: subject_name.to_owned(), subject_names, ..Default::default() };
        names(&validation).map(|names| names.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_names_of_a_certificate_are_listed_in_their_order() {
        assert_eq!(of("Web", &[]), Ok(vec!["dns:web".to_owned()]));
        assert_eq!(of("b.test", &["b.test", "a.test"]), Ok(vec!["dns:b.test".to_owned(), "dns:a.test".to_owned()]));
        assert_eq!(
            of("", &["*.test", "spiffe://shop/a"]),
            Ok(vec!["dns:*.test".to_owned(), "uri:spiffe://shop/a".to_owned()])
        );
        let long = "a".repeat(251);
        for (name, names) in [("", &[][..]), ("a", &["b"]), ("a b", &[]), ("*", &[]), (&long, &[]), ("", &[""])] {
            assert!(of(name, names).is_err(), "{name} {names:?}");
        }
        let many: Vec<String> = (0..9).map(|at| format!("a{at}")).collect();
        assert!(of("", &many.iter().map(String::as_str).collect::<Vec<_>>()).is_err());
    }
}
