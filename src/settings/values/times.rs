//! Durations: `500ms`, `1m30s`, `1.5h`, `21d`, and `off` for optional limits.

use std::time::Duration;

use lockgate_route::duration::{MOST_NANOSECONDS, nanoseconds};
use serde_json::{Value as Json, json};

use super::Scalar;

/// Units, largest first.
const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
];

const EXPECTED: &str = "expected numbers with units (ms, s, m, h, d), such as 500ms, 20s or 1m30s";

/// The pattern of durations in the schema, a hint for editors.
const PATTERN: &str = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$";

/// A duration of at least one millisecond, the resolution of Envoy.
pub struct Time;

impl Scalar for Time {
    type Value = Duration;
    const NAME: &'static str = "duration";

    fn parse(text: &str) -> Result<Duration, String> {
        let duration = duration(text)?;
        match duration < Duration::from_millis(1) {
            true => Err("expected at least 1ms".to_owned()),
            false => Ok(duration),
        }
    }

    fn show(value: &Duration) -> Json {
        text(*value).into()
    }

    fn schema() -> Json {
        json!({"type": "string", "pattern": PATTERN})
    }
}

/// A duration, including `0s`.
pub struct Wait;

impl Scalar for Wait {
    type Value = Duration;
    const NAME: &'static str = "duration";

    fn parse(text: &str) -> Result<Duration, String> {
        duration(text)
    }

    fn show(value: &Duration) -> Json {
        text(*value).into()
    }

    fn schema() -> Json {
        Time::schema()
    }
}

/// A duration in whole seconds, at least one, as in a Lease.
pub struct Seconds;

impl Scalar for Seconds {
    type Value = Duration;
    const NAME: &'static str = "duration";

    fn parse(text: &str) -> Result<Duration, String> {
        let duration = duration(text)?;
        match duration.subsec_nanos() == 0 && duration.as_secs() >= 1 {
            true => Ok(duration),
            false => Err("expected whole seconds, at least 1s".to_owned()),
        }
    }

    fn show(value: &Duration) -> Json {
        text(*value).into()
    }

    fn schema() -> Json {
        Time::schema()
    }
}

/// A [`Time`], or `off` (also `infinity`, `infinite`, and the boolean `false`, because YAML 1.1 reads `off` as `false`).
pub struct Limit;

impl Scalar for Limit {
    type Value = Option<Duration>;
    const NAME: &'static str = "duration or `off`";

    fn parse(text: &str) -> Result<Option<Duration>, String> {
        match text {
            "off" | "infinity" | "infinite" | "false" => Ok(None),
            _ => Time::parse(text).map(Some).map_err(|why| format!("{why}, or off")),
        }
    }

    fn show(value: &Option<Duration>) -> Json {
        value.map_or("off".into(), |limit| Time::show(&limit))
    }

    fn schema() -> Json {
        json!({"anyOf": [Time::schema(), {"enum": ["off", "infinity", "infinite", false]}]})
    }
}

/// Parses a duration. Errors: the allowed values.
pub fn duration(text: &str) -> Result<Duration, String> {
    let nanos = nanoseconds(text, &UNITS).ok_or_else(|| EXPECTED.to_owned())?;
    // Envoy counts milliseconds in an i64. Tools in Go count nanoseconds in an i64, at most 292 years.
    match u64::try_from(nanos) {
        Ok(nanos) if nanos <= MOST_NANOSECONDS => Ok(Duration::from_nanos(nanos)),
        _ => Err("expected at most 292 years".to_owned()),
    }
}

/// Formats a duration: `1m30s`.
pub fn text(duration: Duration) -> String {
    let mut nanos = duration.as_nanos();
    let mut text = String::new();
    for (name, unit) in UNITS {
        let count = nanos / u128::from(unit);
        if count > 0 {
            text.push_str(&format!("{count}{name}"));
            nanos %= u128::from(unit);
        }
    }
    if nanos > 0 || text.is_empty() {
        // Fractions of a millisecond are kept for the round trip.
        text.push_str(format!("0.{nanos:06}").trim_end_matches('0').trim_end_matches('.'));
        text.push_str("ms");
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn durations_have_units() {
        for (written, millis) in [
            ("20s", 20_000),
            ("1m30s", 90_000),
            ("250ms", 250),
            ("2h", 7_200_000),
            ("1.5s", 1_500),
            ("21d", 21 * 86_400_000),
            ("1h2m3.5s", 3_723_500),
        ] {
            assert_eq!(duration(written).unwrap(), Duration::from_millis(millis), "{written}");
            assert_eq!(duration(&text(Duration::from_millis(millis))).unwrap(), Duration::from_millis(millis));
        }
        for wrong in ["", "20", "s", ".s", "-1s", "20 s", "1w", "99999999999999999999s", "5124095576030431h", "1é"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_that_envoy_would_round_to_zero_are_rejected() {
        assert!(Time::parse("0s").is_err() && Time::parse("0.5ms").is_err());
        assert_eq!(Limit::parse("off"), Ok(None));
        assert_eq!(Limit::parse("false"), Ok(None));
        assert!(Limit::parse("0s").unwrap_err().ends_with("or off"));
    }

    #[test]
    fn durations_are_printed_in_their_usual_form() {
        let shown = |nanos| text(Duration::from_nanos(nanos));
        assert_eq!(shown(90_000_000_000), "1m30s");
        assert_eq!(shown(0), "0ms");
        assert_eq!(shown(1_500_000), "1ms0.5ms");
        assert_eq!(duration("1ms0.5ms").unwrap(), Duration::from_micros(1500));
    }
}
