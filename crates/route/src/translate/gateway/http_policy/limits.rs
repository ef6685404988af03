//! The limits of an HTTPPolicy: the request rate, retries, time, held bodies, and the size of responses.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::duration;
use crate::model::{LocalRateLimit, ResponseLimit, Retry, TimeLimits};
use crate::objects::gateway::{
    LocalRateLimitSpec, MaxResponseBodySpec, RateUnit, RequestBufferingSpec, RetriesSpec, TimeoutsSpec, UnknownLength,
};
use crate::settings::RETRY_CONDITIONS;
use crate::size;
use crate::translate::dialect::Resolver;
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
    let bytes = body(max_size).map_err(|fault| fault.within(".maxSize"))?;
    let excess = (bytes > most).then(|| {
        let message = format!("{max_size:?} is larger than {most} bytes, the setting tenants.maxBufferedBytes");
        FieldFault::new(".maxSize", message)
    });
    Ok((bytes.min(most), excess))
}

/// Parses the limit of responses.
pub fn response(spec: &MaxResponseBodySpec) -> Result<ResponseLimit, FieldFault> {
    let MaxResponseBodySpec { size, unknown_length } = spec;
    let bytes = body(size).map_err(|fault| fault.within(".size"))?;
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

/// Parses the limit of the request rate of each Envoy.
pub fn local_rate_limit(spec: &LocalRateLimitSpec) -> Result<Arc<LocalRateLimit>, FieldFault> {
    let LocalRateLimitSpec { requests, unit, burst, per_client_address } = *spec;
    if requests == 0 {
        return Err(FieldFault::new(".requests", "0 is not between 1 and 1000000000"));
    }
    let seconds = match unit {
        RateUnit::Second => 1,
        RateUnit::Minute => 60,
        RateUnit::Hour => 3600,
    };
    let period = Duration::from_secs(seconds);
    Ok(Arc::new(LocalRateLimit { requests, period, burst, per_client_address, shared: None, answer: None }))
}

/// Parses the maximum size of a body, in bytes.
pub fn body(text: &str) -> Result<u32, FieldFault> {
    let bytes = size::parse(text).and_then(|bytes| u32::try_from(bytes).ok());
    let bytes = bytes.filter(|bytes| (1..=1 << 30).contains(bytes));
    bytes.ok_or_else(|| FieldFault::new("", format!("{text:?} is not a size from 1B to 1GiB, such as 10MiB")))
}

/// Returns the size of a part of the body that Envoy holds in memory. A smaller size than the policy sets could hide a part of the
/// body from the server.
pub fn buffered_part(text: &str, resolver: &Resolver) -> Result<u32, String> {
    let bytes = body(text).map_err(|fault| fault.message)?;
    let most = resolver.context.settings.tenants.max_buffered_bytes;
    match bytes <= most {
        true => Ok(bytes),
        false => Err(format!("{text:?} is larger than {most} bytes, the setting tenants.maxBufferedBytes")),
    }
}

#[cfg(feature = "testing")]
#[cfg(test)]
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
