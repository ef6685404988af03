//! The verification of client certificates by a root.
//!
//! A host whose clients cannot be verified accepts no TLS connections.

use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::report::ProxyReport;
use super::situation::{self, Block, Situation};
use super::tls::{is_delegated, secret_key};
use crate::model::{ClientValidation, ForwardedParts, SecretId};
use crate::objects::http_proxy::{ClientVerification, ForwardClientCertificate, HttpProxy, Tls};
use crate::objects::{Kind, ObjectKey, Secret};
use crate::translate::dialect::Resolver;
use crate::translate::problem::{Cause, Message, Reason};
use crate::translate::source::HostClientValidation;

const FIELD: &str = "spec.virtualhost.tls.clientValidation";

/// The consequence of faults.
const CLOSED: &str = "TLS connections for the host are closed";

/// The longest text of certificate authorities, in bytes. Each filter chain has a copy.
const MOST_AUTHORITIES: usize = 256 << 10;

/// The size of authorities and revocation lists in the memory of Envoy, as a multiple of their text.
const EXPANSION: u64 = 5;

const INVALID: Situation = situation::error("TLSError", "ClientValidationInvalid", Reason::SecretNotValid);
/// The error of features that exclude each other.
pub const INCOMPATIBLE: Situation = situation::error("TLSError", "TLSIncompatibleFeatures", Reason::TLSConfigNotValid);

/// Parses the verification of clients. `None`: no certificate is requested.
pub fn parse(
    proxy: &HttpProxy,
    tls: &Tls,
    report: &mut ProxyReport,
    resolver: &mut Resolver,
) -> Option<Arc<HostClientValidation>> {
    let spec = tls.client_validation.as_deref()?;
    let origin = proxy.meta.object_ref(Kind::HTTP_PROXY);
    let mut parser = Parser { proxy, origin, report, resolver, size: 0 };
    let validation = parser.validation(tls, spec);
    Some(Arc::new(HostClientValidation { validation: validation.ok(), size: parser.size }))
}

/// The fault is reported already.
struct Reported;

struct Parser<'p, 'o, 'r> {
    proxy: &'p HttpProxy,
    origin: ObjectRef,
    report: &'p mut ProxyReport,
    resolver: &'o mut Resolver<'r>,
    /// The size of the Secrets that are read, in bytes.
    size: u64,
}

impl Parser<'_, '_, '_> {
    fn validation(&mut self, tls: &Tls, spec: &ClientVerification) -> Result<ClientValidation, Reported> {
        if tls.passthrough {
            let message = "Envoy does not read the certificates of clients whose TLS is passed through";
            self.report.add(&self.origin, FIELD, &INCOMPATIBLE, message, CLOSED);
            return Err(Reported);
        }
        let is_closed = self.report.add_rest(&self.origin, FIELD, (&spec.rest, &[]), Block::Tls, CLOSED);
        let forwarded = self.forwarded(spec.forward_client_certificate.as_ref());
        let is_verified = !spec.skip_client_cert_validation;
        let authorities = match (&*spec.ca_secret, is_verified) {
            ("", true) => {
                let message = "\"caSecret\" must be set, unless \"skipClientCertValidation\" is";
                self.report.add(&self.origin, FIELD, &INVALID, message, CLOSED);
                return Err(Reported);
            }
            ("", false) => None,
            (name, _) => Some(self.secret("caSecret", name, "ca.crt")?),
        };
        let revocations = match (&*spec.crl_secret, &authorities) {
            ("", _) => None,
            (name, Some(_)) if is_verified => Some(self.secret("crlSecret", name, "crl.pem")?),
            _ => {
                let (field, message) = (format!("{FIELD}.crlSecret"), "no certificate is verified");
                self.report.add(&self.origin, field, &Block::Tls.ignored(), message, "left out");
                None
            }
        };
        if is_closed {
            return Err(Reported);
        }
        let is_leaf_only = revocations.is_some() && spec.crl_only_verify_leaf_cert;
        let required = authorities.is_some() && !spec.optional_client_certificate;
        let authorities = authorities.map(|key| SecretId::of_authorities(key, revocations, is_leaf_only));
        Ok(ClientValidation { authorities, required, is_verified, forwarded })
    }

    /// Returns a Secret with valid content of this kind.
    fn secret(&mut self, name: &str, text: &str, data: &str) -> Result<ObjectKey, Reported> {
        let field = format!("{FIELD}.{name}");
        let namespace = &self.proxy.meta.key.namespace;
        let key = secret_key(text, namespace);
        if !is_delegated(&key, namespace, self.resolver) {
            let message = format!("no TLSCertificateDelegation permits the reference to Secret \"{key}\"");
            let message = Message::from(message).because(Cause::NotDelegated(key.namespace));
            self.report.add(&self.origin, field, &situation::DELEGATION_NOT_PERMITTED, message, CLOSED);
            return Err(Reported);
        }
        let Some(secret) = self.resolver.secret(key.clone()) else {
            let message = Message::missing(Kind::SECRET, &key, &format!("does not exist, or has no key \"{data}\""));
            self.report.add(&self.origin, field, &INVALID, message, CLOSED);
            return Err(Reported);
        };
        let (content, fault) = content(secret, data);
        let fault = fault.map(|fault| format!("Secret \"{key}\": {fault}"));
        let Some(content) = content else {
            let message = fault.unwrap_or_else(|| format!("Secret \"{key}\" has no key \"{data}\""));
            self.report.add(&self.origin, field, &INVALID, message, CLOSED);
            return Err(Reported);
        };
        if content.len() > MOST_AUTHORITIES {
            let message = format!("Secret \"{key}\": more than {} KiB", MOST_AUTHORITIES >> 10);
            self.report.add(&self.origin, field, &INVALID, message, CLOSED);
            return Err(Reported);
        }
        if let Some(message) = fault {
            self.report.add(&self.origin, field, &INVALID, message, "last good authorities kept");
        }
        self.size =
            self.size.saturating_add((content.len() as u64).next_multiple_of(4 << 10).saturating_mul(EXPANSION));
        Ok(secret.meta.key.clone())
    }

    fn forwarded(&mut self, spec: Option<&ForwardClientCertificate>) -> ForwardedParts {
        let Some(spec) = spec else { return ForwardedParts::default() };
        let field = format!("{FIELD}.forwardClientCertificate");
        let harmless: Vec<&str> = spec.rest.names().collect();
        self.report.add_rest(&self.origin, &field, (&spec.rest, &harmless), Block::Tls, CLOSED);
        let &ForwardClientCertificate { subject, cert, chain, dns, uri, rest: _ } = spec;
        if self.proxy.spec.tcpproxy.is_some() {
            let message = "connections have no headers";
            self.report.add(&self.origin, field, &Block::Tls.ignored(), message, "left out");
            return ForwardedParts::default();
        }
        ForwardedParts { subject, certificate: cert, chain, dns, uri }
    }
}

/// Returns the certificate authorities or the revocation lists of a Secret, and their fault. Faulty authorities are the last good ones.
fn content<'s>(secret: &'s Secret, data: &str) -> (Option<&'s str>, Option<&'s str>) {
    match data {
        "ca.crt" => (secret.authorities.as_deref(), secret.authorities_fault.as_deref()),
        _ => (
            secret.revocations.as_ref().and_then(|lists| lists.as_deref().ok()),
            secret.revocations.as_ref().and_then(|lists| lists.as_ref().err()).map(|fault| &**fault),
        ),
    }
}
