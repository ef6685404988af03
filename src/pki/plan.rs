//! Computes the next write from the stored content and the time.

mod fleets;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use k8s_openapi::jiff::Timestamp;

use super::authorities::{self, Authorities};
use super::certificate::{Authority, Issuer, validate};
use super::{
    AT_ONCE, AUTHORITIES, AUTHORITY_KEY, CERTIFICATE, CertificateError, Holder, KEY, NEXT_KEY, ROTATE, Role,
    SecretContent, Step, Stored, WRITTEN, WantedCertificates,
};

/// The maximum clock difference of two replicas. The plan does not trust a write time that is further in the future.
const SKEW: Duration = Duration::from_secs(60);
/// The minimum gain of validity for which a certificate is replaced.
const WORTHWHILE: Duration = Duration::from_secs(1);

/// Returns the next action.
///
/// # Errors
///
/// [`CertificateError`]: a certificate cannot be created, because a name in `wanted` does not fit.
pub fn plan(now: SystemTime, stored: &Stored, wanted: &WantedCertificates) -> Result<Step, CertificateError> {
    let annotation = stored.get(Role::Authority).and_then(|content| content.annotations.get(ROTATE));
    if annotation.is_some_and(|value| value == AT_ONCE) {
        return new_authority(now, stored, wanted, vec![], format!("the annotation {ROTATE} requests it, at once"));
    }
    let authorities = match Authorities::read(stored.get(Role::Authority), now) {
        Ok(authorities) => authorities,
        Err(reason) => {
            let trusted = authorities::in_use(stored, wanted, now);
            return new_authority(now, stored, wanted, trusted, reason);
        }
    };
    // The earliest of all due times.
    let mut next = None::<SystemTime>;
    for (role, holder) in [(Role::Server, Holder::Server), (Role::Envoy, Holder::Envoy)] {
        match key_pair((role, holder), now, stored.get(role), &authorities, wanted)? {
            Step::Wait(until) => next = Some(next.map_or(until, |next| next.min(until))),
            step => return Ok(step),
        }
    }
    match fleets::plan(now, stored.get(Role::Fleets), &authorities, wanted)? {
        Some(Step::Wait(until)) => next = Some(next.map_or(until, |next| next.min(until))),
        Some(step) => return Ok(step),
        None => {}
    }
    let content = stored.get(Role::Authority).cloned().unwrap_or_default();
    Ok(match authority(now, stored, content, authorities, wanted)? {
        Step::Wait(until) => Step::Wait(next.map_or(until, |next| next.min(until)).max(now + WORTHWHILE)),
        step => step,
    })
}

/// Creates an authority because none can issue. The previous authorities are `trusted` for as long as a stepwise change
/// takes.
fn new_authority(
    now: SystemTime,
    stored: &Stored,
    wanted: &WantedCertificates,
    mut trusted: Vec<Authority>,
    reason: String,
) -> Result<Step, CertificateError> {
    let (issuer, key) = Issuer::new(wanted, now)?;
    // If key pairs of a lost authority are in use, the new authority must first be distributed.
    let of_key = if trusted.is_empty() { AUTHORITY_KEY } else { NEXT_KEY };
    trusted.push(issuer.authority);
    let mut content = stored.get(Role::Authority).cloned().unwrap_or_default();
    content.annotations.remove(ROTATE);
    let data = [(AUTHORITIES, authorities::bundle(&trusted)), (of_key, key.into_bytes())];
    let reason = format!("a new authority: {reason}");
    Ok(write(Role::Authority, now, content.annotations, data, reason))
}

/// Creates or renews the key pair of `role`, or updates its trusted authorities.
fn key_pair(
    (role, holder): (Role, Holder<'_>),
    now: SystemTime,
    content: Option<&SecretContent>,
    authorities: &Authorities,
    wanted: &WantedCertificates,
) -> Result<Step, CertificateError> {
    // `Authorities::read` ensures that there is an issuer.
    let Some(issuer) = authorities.issuer() else { return Ok(Step::Wait(now)) };
    let mut annotations = content.map(|content| content.annotations.clone()).unwrap_or_default();
    let is_asked = annotations.remove(ROTATE).is_some();
    let issue = |reason: String| {
        let (certificate, key) = issuer.issue(holder, wanted, now)?;
        let data =
            [(CERTIFICATE, certificate.into_bytes()), (KEY, key.into_bytes()), (AUTHORITIES, authorities.bundle())];
        Ok(write(role, now, annotations.clone(), data, format!("a new key pair: {reason}")))
    };
    let Some(content) = content else { return issue("there is no Secret".to_owned()) };
    if content.is_empty() {
        return issue("the Secret is empty".to_owned());
    }
    let (certificate, key) = (content.get(CERTIFICATE), content.get(KEY));
    let until = match lifetime(holder, (certificate, key), is_asked, authorities, wanted, now) {
        Ok(until) => until,
        Err(why) => return issue(why),
    };
    let keep = |reason: &str| {
        let annotations = content.annotations.clone();
        let data = [(CERTIFICATE, certificate.to_vec()), (KEY, key.to_vec()), (AUTHORITIES, authorities.bundle())];
        Ok(write(role, now, annotations, data, reason.to_owned()))
    };
    if content.get(AUTHORITIES) != authorities.bundle() {
        return keep("the trusted authorities have changed");
    }
    if written(now, content).is_none() {
        return keep("the time of the last write is missing");
    }
    Ok(Step::Wait(until))
}

/// Returns the time until which a key pair stays. `is_asked`: a user requests a new key pair.
///
/// # Errors
/// The reason why it must be replaced now.
fn lifetime(
    holder: Holder<'_>,
    (certificate, key): (&[u8], &[u8]),
    is_asked: bool,
    authorities: &Authorities,
    wanted: &WantedCertificates,
    now: SystemTime,
) -> Result<SystemTime, String> {
    let leaf = validate(holder, certificate, key, &authorities.trusted, wanted, now)?;
    if !authorities.keeps(&leaf.authority) {
        return Err("its authority is being replaced".to_owned());
    }
    // While no trusted authority issues, valid key pairs stay.
    let issues = authorities.issuing.is_some();
    if issues && is_asked {
        return Err(format!("the annotation {ROTATE} requests it"));
    }
    let due = leaf.not_after - wanted.certificate_lifetime / 3;
    // An authority at its own end cannot issue a longer validity.
    let end = |issuer: &Issuer| issuer.end_of_new(wanted, now.max(due));
    let gains = issues && authorities.issuer().is_some_and(|issuer| end(issuer) > leaf.not_after + WORTHWHILE);
    if now >= due && gains {
        return Err(format!("it expires at {}", timestamp(leaf.not_after)));
    }
    Ok(if gains { due } else { leaf.not_after })
}

/// Updates the Secret of the authority. The Secrets of the key pairs are already up to date with it.
fn authority(
    now: SystemTime,
    stored: &Stored,
    content: SecretContent,
    authorities: Authorities,
    wanted: &WantedCertificates,
) -> Result<Step, CertificateError> {
    // From that time on, all peers have the content of the key pairs' Secrets.
    let spread = [Role::Server, Role::Envoy, Role::Fleets];
    let spread = spread.into_iter().filter_map(|role| written(now, stored.get(role)?));
    let spread = spread.max().unwrap_or(now) + wanted.pause;
    let Authorities { mut trusted, issuing, next } = authorities;
    let key = |name: &str| content.get(name).to_vec();
    let mut annotations = content.annotations.clone();
    let write =
        |annotations, data: Vec<_>, reason: &str| Ok(write(Role::Authority, now, annotations, data, reason.to_owned()));

    if let Some(next) = next {
        if now < spread {
            return Ok(Step::Wait(spread));
        }
        trusted.retain(|authority| *authority != next.authority);
        trusted.insert(0, next.authority);
        let data = vec![(AUTHORITIES, authorities::bundle(&trusted)), (AUTHORITY_KEY, key(NEXT_KEY))];
        return write(annotations, data, "the new authority issues from now on");
    }
    // `Authorities::read` ensures that one of them exists.
    let Some(issuing) = issuing else { return Ok(Step::Wait(now)) };
    if trusted.len() > 1 {
        if now < spread {
            return Ok(Step::Wait(spread));
        }
        let data = vec![(AUTHORITIES, authorities::bundle(&[issuing.authority])), (AUTHORITY_KEY, key(AUTHORITY_KEY))];
        return write(annotations, data, "the old authority is no longer trusted");
    }
    let due = issuing.authority.not_after - wanted.authority_lifetime / 3;
    let asked = content.annotations.contains_key(ROTATE);
    if !asked && now < due {
        return Ok(Step::Wait(due));
    }
    let (new, new_key) = Issuer::new(wanted, now)?;
    if !asked && new.authority.not_after <= issuing.authority.not_after + WORTHWHILE {
        return Ok(Step::Wait(issuing.authority.not_after));
    }
    trusted.push(new.authority);
    let data = vec![
        (AUTHORITIES, authorities::bundle(&trusted)),
        (AUTHORITY_KEY, key(AUTHORITY_KEY)),
        (NEXT_KEY, new_key.into_bytes()),
    ];
    let reason = match asked {
        true => format!("announces a new authority: the annotation {ROTATE} requests it"),
        false => {
            format!(
                "announces a new authority: the current authority expires at {}",
                timestamp(issuing.authority.not_after)
            )
        }
    };
    annotations.remove(ROTATE);
    write(annotations, data, &reason)
}

fn write(
    role: Role,
    now: SystemTime,
    mut annotations: BTreeMap<String, String>,
    data: impl IntoIterator<Item = (&'static str, Vec<u8>)>,
    reason: String,
) -> Step {
    let data = data.into_iter().filter(|(_, value)| !value.is_empty());
    let data = data.map(|(key, value)| (key.to_owned(), value)).collect();
    annotations.insert(WRITTEN.to_owned(), timestamp(now));
    Step::Write { role, content: SecretContent { data, annotations }, reason }
}

/// Returns the time of the Secret's last write. Returns `None` if it is absent or not trustworthy.
fn written(now: SystemTime, content: &SecretContent) -> Option<SystemTime> {
    let time: Timestamp = content.annotations.get(WRITTEN)?.parse().ok()?;
    let time = SystemTime::from(time);
    (time <= now + SKEW).then_some(time)
}

/// Formats `time` according to RFC 3339.
pub fn timestamp(time: SystemTime) -> String {
    Timestamp::try_from(time).map(|time| format!("{time:.3}")).unwrap_or_default()
}

#[cfg(test)]
mod tests;
