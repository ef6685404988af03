//! Client certificates: the validation by listeners, and the certificate that a Gateway presents to backends.

use super::authorities::{self, Referrer};
use crate::model::{ClientValidation, SecretId};
use crate::objects::Kind;
use crate::objects::gateway::{FrontendTls, FrontendValidation, Gateway};
use crate::translate::dialect::Resolver;
use crate::translate::verdict::ConditionFault;

/// The key pair that a Gateway presents to backends with TLS. `Some(None)`: the key pair is not valid, so no requests
/// may be sent to such backends.
pub type ClientCertificate = Option<Option<SecretId>>;

/// The mode that accepts clients without a valid certificate.
const INSECURE: &str = "AllowInsecureFallback";

/// The validation of the clients of a listener.
#[derive(Debug, Default)]
pub struct ListenerClientValidation {
    /// The validation; `None` if no certificate is requested, or if no certificate authority is valid.
    pub validation: Option<ClientValidation>,
    /// The conditions of the listener that do not hold: the type, and the fault. A listener without a valid certificate
    /// authority must not be served.
    pub faults: Vec<(&'static str, ConditionFault)>,
}

/// Returns the validation of clients by the HTTPS listeners of `gateway` on `port`. Source: Gateway API v1,
/// `FrontendTLSConfig`.
pub fn of_port(gateway: &Gateway, port: u16, resolver: &mut Resolver) -> ListenerClientValidation {
    let Some(FrontendTls { default, per_port }) = frontend(gateway) else { return ListenerClientValidation::default() };
    let of_port = per_port.iter().enumerate().find(|(_, one)| one.port == port);
    let (field, tls) = match of_port {
        Some((index, one)) => (format!("spec.tls.frontend.perPort[{index}].tls"), &one.tls),
        None => ("spec.tls.frontend.default".to_owned(), default),
    };
    let Some(FrontendValidation { ca_certificate_refs, mode }) = &tls.validation else {
        return ListenerClientValidation::default();
    };
    let field = format!("{field}.validation.caCertificateRefs");
    let referrer = Referrer {
        kind: Kind::GATEWAY,
        namespace: &gateway.meta.key.namespace,
        field: &field,
        grants: true,
        invalid_kind: "InvalidCACertificateKind",
    };
    let resolved = authorities::resolve(ca_certificate_refs, referrer, resolver);
    let required = mode.as_deref() != Some(INSECURE);
    let validation = resolved.authorities.map(|authorities| ClientValidation::new(authorities, required));
    let is_empty = || ConditionFault::new("InvalidCACertificateRef", format!("{field} is empty"));
    let fault = resolved.fault.or_else(|| validation.is_none().then(is_empty));
    let unresolved = fault.clone().map(|fault| ("ResolvedRefs", fault));
    let refused = fault.filter(|_| validation.is_none());
    let refused = refused.map(|fault| ("Accepted", ConditionFault { reason: "NoValidCACertificate", ..fault }));
    ListenerClientValidation { validation, faults: unresolved.into_iter().chain(refused).collect() }
}

/// Returns whether listeners of `gateway` accept clients without a valid certificate although certificate authorities are
/// configured.
pub fn is_insecure(gateway: &Gateway) -> bool {
    let Some(FrontendTls { default, per_port }) = frontend(gateway) else { return false };
    let all = per_port.iter().map(|one| &one.tls).chain([default]);
    let mut validations = all.filter_map(|tls| tls.validation.as_ref());
    validations.any(|validation| validation.mode.as_deref() == Some(INSECURE))
}

fn frontend(gateway: &Gateway) -> Option<&FrontendTls> {
    gateway.spec.tls.as_ref()?.frontend.as_ref()
}
