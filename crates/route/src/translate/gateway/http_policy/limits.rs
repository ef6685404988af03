//! The retries, the time limits, the held bodies, and the limit of responses of an HTTPPolicy.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::duration;
use crate::model::{ResponseLimit, Retry, TimeLimits};
use crate::objects::gateway::{MaxResponseBodySpec, RequestBufferingSpec, RetriesSpec, TimeoutsSpec, UnknownLength};
use crate::settings::RETRY_CONDITIONS;
use crate::translate::fault::FieldFault;
use crate::translate::gateway::timeouts;

/// The maximum number of statuses. Source: CustomResourceDefinition. Manifests are not validated against it.
const CODES: usize = 32;
/// Envoy's unit of time limits.
const SHORTEST: Duration = Duration::from_millis(1);
/// The longest time before the first retry.
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);

/// Parses the retries. `most` is the largest number. The part is a larger number, which is left out.
pub fn retries(spec: &RetriesSpec, most: u32) -> Result<(Arc<Retry>, Option<FieldFault>), FieldFault> {
    let RetriesSpec { attempts, conditions, codes, per_try_timeout, backoff } = spec;
    if codes.len() > CODES {
        return Err(FieldFault::new(".codes", format!("more than {CODES} statuses")));
    }
    if let Some((i, code)) = codes.iter().enumerate().find(|(_, code)| !(400..=599).contains(*code)) {
        return Err(FieldFault::new(format!(".codes[{i}]"), format!("{code} is not a status from 400 to 599")));
    }
    let mut on = BTreeSet::new();
    for (i, text) in conditions.iter().enumerate() {
        match RETRY_CONDITIONS.iter().find(|known| *known == text) {
            // Envoy has a copy for each match, so each condition counts once.
            Some(known) => drop(on.insert(*known)),
            None => {
                return Err(FieldFault::new(
                    format!(".conditions[{i}]"),
                    format!("{text:?} is not a retry condition of Envoy"),
                ));
            }
        }
    }
    let on = match on.is_empty() {
        true => timeouts::CONDITIONS.to_owned(),
        false => {
            on.extend((!codes.is_empty()).then_some("retriable-status-codes"));
            on.into_iter().collect::<Vec<_>>().join(",")
        }
    };
    let backoff = backoff.as_deref().map(|text| {
        let time = duration::parse(text).filter(|time| (SHORTEST..=LONGEST_BACKOFF).contains(time));
        time.ok_or_else(|| FieldFault::new(".backoff", format!("{text:?} is not a time from 1ms to 1m, such as 100ms")))
    });
    let attempts = attempts.unwrap_or(timeouts::ATTEMPTS);
    let retry = Retry {
        on,
        retries: attempts.min(most),
        per_try_timeout: limit(".perTryTimeout", per_try_timeout.as_deref())?.flatten(),
        status_codes: codes.iter().copied().collect::<BTreeSet<u16>>().into_iter().collect(),
        backoff: backoff.transpose()?,
    };
    let excess = (attempts > most).then(|| {
        FieldFault::new(".attempts", format!("{attempts} is larger than {most}, the setting tenants.maxRetries"))
    });
    Ok((Arc::new(retry), excess))
}

/// Parses the size of bodies that Envoy holds. `most` is the largest size. The part is a larger size, which is left out.
pub fn buffered(spec: &RequestBufferingSpec, most: u32) -> Result<(u32, Option<FieldFault>), FieldFault> {
    let RequestBufferingSpec { max_size } = spec;
    let bytes = super::body(max_size).map_err(|fault| fault.within(".maxSize"))?;
    let excess = (bytes > most).then(|| {
        let message = format!("{max_size:?} is larger than {most} bytes, the setting tenants.maxBufferedBytes");
        FieldFault::new(".maxSize", message)
    });
    Ok((bytes.min(most), excess))
}

/// Parses the limit of responses.
pub fn response(spec: &MaxResponseBodySpec) -> Result<ResponseLimit, FieldFault> {
    let MaxResponseBodySpec { size, unknown_length } = spec;
    let bytes = super::body(size).map_err(|fault| fault.within(".size"))?;
    Ok(ResponseLimit { bytes, allows_unknown: *unknown_length == UnknownLength::Allow })
}

/// Parses the time limits.
pub fn timeouts(spec: &TimeoutsSpec) -> Result<TimeLimits, FieldFault> {
    let TimeoutsSpec { request, idle } = spec;
    Ok(TimeLimits { request: limit(".request", request.as_deref())?, idle: limit(".idle", idle.as_deref())? })
}

/// Parses a time limit, if it is set. `0s` is no limit.
fn limit(field: &str, text: Option<&str>) -> Result<Option<Option<Duration>>, FieldFault> {
    let Some(text) = text else { return Ok(None) };
    match duration::parse(text) {
        Some(limit) => Ok(Some((!limit.is_zero()).then(|| limit.max(SHORTEST)))),
        None => Err(FieldFault::new(field, format!("{text:?} is not a time such as 500ms, or 0s for no limit"))),
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use super::*;

    #[test]
    fn the_api_server_accepts_the_conditions_that_are_known() {
        let schema = schemars::schema_for!(RetriesSpec);
        let accepted = schema.get("properties").map(|fields| fields["conditions"]["items"]["enum"].clone());
        assert_eq!(accepted, Some(serde_json::json!(RETRY_CONDITIONS)));
        let every = RetriesSpec { conditions: RETRY_CONDITIONS.map(str::to_owned).to_vec(), ..RetriesSpec::default() };
        assert!(retries(&every, 1).is_ok());
    }
}
