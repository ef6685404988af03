//! The Secret with the key pairs of dedicated fleets.
//!
//! A single Secret, which the chart creates, so the controller needs no permission for other Secrets. The pods of a fleet mount
//! only their own key pair and the authorities.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use lockgate_route::objects::ObjectKey;

use super::{lifetime, written};
use crate::fleet::certificate_key;
use crate::pki::authorities::Authorities;
use crate::pki::{
    AUTHORITIES, CertificateError, DedicatedFleets, Holder, ROTATE, Role, SecretContent, Step, WRITTEN,
    WantedCertificates,
};

/// The ends of the data keys of a certificate and of its private key.
const PARTS: [&str; 2] = ["crt", "key"];

/// Returns the next write, or how long there is none. `None`: there are no fleets.
pub fn plan(
    now: SystemTime,
    content: Option<&SecretContent>,
    authorities: &Authorities,
    wanted: &WantedCertificates,
) -> Result<Option<Step>, CertificateError> {
    let empty = SecretContent::default();
    let stored = content.unwrap_or(&empty);
    let known = match &wanted.fleets {
        DedicatedFleets::Off => return Ok(None),
        DedicatedFleets::Unknown => names(stored),
        DedicatedFleets::Known(names) => (**names).clone(),
    };
    let Some(issuer) = authorities.issuer() else { return Ok(Some(Step::Wait(now))) };
    let is_asked = stored.annotations.contains_key(ROTATE);
    let mut data = BTreeMap::new();
    let (mut reasons, mut next) = (Vec::new(), None::<SystemTime>);
    for name in &known {
        let keys = PARTS.map(|part| certificate_key(name, part));
        let [certificate, key] = keys.each_ref().map(|key| stored.get(key));
        let holder = Holder::Fleet(name);
        let pair = match lifetime(holder, (certificate, key), is_asked, authorities, wanted, now) {
            Ok(until) => {
                next = Some(next.map_or(until, |next| next.min(until)));
                [certificate.to_vec(), key.to_vec()]
            }
            Err(why) => {
                let why = if certificate.is_empty() { "there is none".to_owned() } else { why };
                reasons.push(format!("a new key pair for Gateway \"{name}\": {why}"));
                let (certificate, key) = issuer.issue(holder, wanted, now)?;
                [certificate.into_bytes(), key.into_bytes()]
            }
        };
        data.extend(keys.into_iter().zip(pair));
    }
    if !known.is_empty() {
        data.insert(AUTHORITIES.to_owned(), authorities.bundle());
    }
    let is_stored = stored.data.iter().filter(|(_, value)| !value.is_empty()).eq(&data);
    if is_stored && (known.is_empty() || written(now, stored).is_some()) {
        return Ok(next.map(Step::Wait));
    }
    let reason = match reasons.as_slice() {
        [] => "the fleets or the trusted authorities have changed".to_owned(),
        [reason] => reason.clone(),
        [first, rest @ ..] => format!("{first}, and {} more", rest.len()),
    };
    let mut annotations = stored.annotations.clone();
    annotations.remove(ROTATE);
    annotations.insert(WRITTEN.to_owned(), super::timestamp(now));
    Ok(Some(Step::Write { role: Role::Fleets, content: SecretContent { data, annotations }, reason }))
}

/// Returns the Gateways with a stored certificate.
fn names(content: &SecretContent) -> BTreeSet<ObjectKey> {
    let certificates = content.data.keys().filter_map(|key| key.strip_suffix(".crt"));
    let gateways = certificates.filter_map(|name| name.split_once('.'));
    gateways.map(|(namespace, name)| ObjectKey::new(namespace, name)).collect()
}
