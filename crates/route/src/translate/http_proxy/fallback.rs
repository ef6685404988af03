//! The fallback certificate of a root, for clients that send no server name (SNI).

use super::client_validation::INCOMPATIBLE;
use super::report::{ProxyFault, ProxyReport};
use super::situation::{self, Situation};
use super::tls::is_delegated;
use crate::model::Host;
use crate::objects::http_proxy::{HttpProxy, Tls};
use crate::objects::{Kind, ObjectKey};
use crate::translate::dialect::Resolver;
use crate::translate::problem::{Cause, Message, Reason};

const FIELD: &str = "spec.virtualhost.tls.enableFallbackCertificate";

/// The consequence of faults.
const LEFT_OUT: &str = "clients without a server name do not reach the host";

const NOT_PRESENT: Situation = situation::error("TLSError", "FallbackNotPresent", Reason::TLSConfigNotValid);
const NOT_DELEGATED: Situation = situation::error("TLSError", "FallbackNotDelegated", Reason::ReferenceNotPermitted);
const NOT_VALID: Situation = situation::error("TLSError", "FallbackNotValid", Reason::SecretNotValid);

/// Returns whether clients without a known server name reach the host: with the certificate of the settings, if a
/// TLSCertificateDelegation permits the namespace of the root to use it.
pub fn parse(proxy: &HttpProxy, tls: &Tls, host: &Host, report: &mut ProxyReport, resolver: &mut Resolver) -> bool {
    match fault(proxy, tls, host, resolver) {
        None => true,
        Some(fault) => {
            report.add_fault(&proxy.meta.object_ref(Kind::HTTP_PROXY), FIELD, fault, LEFT_OUT);
            false
        }
    }
}

fn fault(proxy: &HttpProxy, tls: &Tls, host: &Host, resolver: &mut Resolver) -> Option<ProxyFault> {
    let incompatible = |message: &str| Some(ProxyFault::new(INCOMPATIBLE, "", message));
    if tls.passthrough || proxy.spec.tcpproxy.is_some() {
        return incompatible("Envoy forwards the connections of the host by their server name");
    }
    if tls.client_validation.is_some() {
        return incompatible("Envoy verifies the clients of the host by the server name of their connection");
    }
    if matches!(host, Host::Wildcard(_)) {
        return incompatible("a wildcard host would also serve hosts below it that have a certificate of their own");
    }
    let settings = &resolver.context.settings.tls;
    let Some((namespace, name)) = settings.default_secret.as_ref().or(settings.fallback_secret.as_ref()) else {
        return Some(ProxyFault::new(NOT_PRESENT, "", "the setting \"tls.fallbackSecret\" is not set"));
    };
    let key = ObjectKey::new(namespace, name);
    if !is_delegated(&key, &proxy.meta.key.namespace, resolver) {
        let message = format!("no TLSCertificateDelegation permits the use of Secret \"{key}\"");
        let message = Message::from(message).because(Cause::NotDelegated(key.namespace));
        return Some(ProxyFault::new(NOT_DELEGATED, "", message));
    }
    match resolver.secret(key.clone()) {
        Some(secret) if secret.pair.is_some() => None,
        Some(_) => Some(ProxyFault::new(NOT_VALID, "", format!("Secret \"{key}\" has no valid key pair"))),
        None => {
            let message = Message::missing(Kind::SECRET, &key, "does not exist, or has no key pair");
            Some(ProxyFault::new(NOT_VALID, "", message))
        }
    }
}
