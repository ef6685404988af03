//! Secrets that the settings reference.

use lockgate_xds::provenance::ObjectRef;

use crate::model::{SecretId, SecretPart, StatsTls};
use crate::objects::{Kind, ObjectKey, Objects, Secret};
use crate::settings::{self, Settings};
use crate::translate::problem::{Cause, Message, Problem, Reason};

use super::{NOT_OVER_QUIC, is_servable};

/// The end of a message about a Secret that does not exist.
const MISSING: &str = "does not exist, is in a namespace that is not watched, has none of the keys \"tls.crt\", \"tls.key\", and \"ca.crt\", or \
                       is neither of type \"kubernetes.io/tls\" nor \"Opaque\"";

/// Returns the default Secret if it has a key pair. Reports a problem if the configured Secret has none.
pub fn default_secret(objects: &Objects, settings: &Settings, problems: &mut Vec<Problem>) -> Option<SecretId> {
    let secret = settings.tls.default_secret.as_ref()?;
    presented(secret, objects, settings, ("default TLS Secret", "no default certificate"), problems)
}

/// Returns the fallback Secret if it has a key pair. Reports a problem if the configured Secret has none.
pub fn fallback_secret(objects: &Objects, settings: &Settings, problems: &mut Vec<Problem>) -> Option<SecretId> {
    let secret = settings.tls.fallback_secret.as_ref()?;
    presented(secret, objects, settings, ("fallback TLS Secret", "no fallback certificate"), problems)
}

/// Returns a Secret whose key pair is presented to clients.
fn presented(
    secret: &(String, String),
    objects: &Objects,
    settings: &Settings,
    (what, without): (&str, &str),
    problems: &mut Vec<Problem>,
) -> Option<SecretId> {
    let (namespace, name) = secret;
    let found = objects.get::<Secret>(&ObjectKey::new(namespace, name));
    if let Some(found) = found.filter(|found| found.pair.as_ref().is_some_and(|pair| !is_servable(pair, settings))) {
        problems.push(Problem {
            object: found.meta.object_ref(Kind::SECRET),
            field: String::new(),
            reason: Reason::SecretNotValid,
            message: format!("{what} \"{namespace}/{name}\": {NOT_OVER_QUIC}").into(),
            consequence: without.to_owned(),
        });
        return None;
    }
    chosen(SecretPart::KeyPair, secret, objects, what, without, problems)
}

/// Returns the key pair that Envoy presents to backends. Returns `None` if none is configured, and `Some(None)` with a
/// problem if the configured Secret has none.
pub fn client_certificate(
    objects: &Objects,
    settings: &Settings,
    problems: &mut Vec<Problem>,
) -> Option<Option<SecretId>> {
    let secret = settings.upstream.client_certificate.as_ref()?;
    let consequence = "paths to backends with TLS answer 503";
    Some(chosen(SecretPart::KeyPair, secret, objects, "Secret of the client certificate", consequence, problems))
}

/// Returns the TLS configuration of statistics. Returns `None` if it is disabled, or with a problem if one of its
/// Secrets is unusable.
pub fn stats(objects: &Objects, settings: &Settings, problems: &mut Vec<Problem>) -> Option<StatsTls> {
    let settings::StatsTlsSettings { at, secret, client_ca } = &settings.listeners.stats_tls;
    let pair = secret.as_ref().filter(|_| at.port != 0)?;
    let mut chosen = |part, secret, what| chosen(part, secret, objects, what, "no statistics are served", problems);
    let pair = chosen(SecretPart::KeyPair, pair, "Secret of the statistics' certificate");
    let authorities = "Secret of the authorities of scrapers";
    let clients = client_ca.as_ref().map(|secret| chosen(SecretPart::Authorities, secret, authorities));
    Some(StatsTls {
        secret: pair?,
        clients: match clients {
            None => None,
            Some(found) => Some(found?),
        },
    })
}

/// Returns the part of a Secret that the settings reference for `what`. Reports a problem if the Secret has no such
/// part.
fn chosen(
    part: SecretPart,
    (namespace, name): &(String, String),
    objects: &Objects,
    what: &str,
    without: &str,
    problems: &mut Vec<Problem>,
) -> Option<SecretId> {
    let key = ObjectKey::new(namespace, name);
    let secret = objects.get::<Secret>(&key);
    let object = match secret {
        Some(secret) => secret.meta.object_ref(Kind::SECRET),
        None => ObjectRef::new(Kind::SECRET.as_str(), namespace, name),
    };
    let (usable, fault, kept) = match part {
        SecretPart::KeyPair => {
            let fault = secret.and_then(|secret| secret.fault.as_deref());
            (secret.is_some_and(|secret| secret.pair.is_some()), fault, "last good key pair kept")
        }
        SecretPart::Authorities => {
            let fault = secret.and_then(|secret| secret.authorities_fault.as_deref());
            (secret.is_some_and(|secret| secret.authorities.is_some()), fault, "last good authorities kept")
        }
        // The settings refer to no login.
        SecretPart::ClientSecret | SecretPart::CookieKey => (false, None, without),
    };
    let fault = match secret {
        None => Some(format!("\"{key}\" {MISSING}")),
        Some(_) => fault.map(|fault| format!("\"{key}\": {fault}")),
    };
    if let Some(fault) = fault {
        problems.push(Problem {
            object,
            field: String::new(),
            reason: Reason::SecretNotValid,
            message: match secret {
                None => Message::from(format!("{what} {fault}")).because(Cause::Missing(Kind::SECRET.id(key.clone()))),
                Some(_) => format!("{what} {fault}").into(),
            },
            consequence: if usable { kept } else { without }.to_owned(),
        });
    }
    usable.then(|| SecretId::new(key, part))
}
