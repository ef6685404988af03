//! Durations: numbers with units, as in Go (`1h2m3.5s`, `300ms`).

use std::time::Duration;

/// The units of Go and their nanoseconds, with both code points of the micro sign. Source: Go `time.ParseDuration`.
pub const GO_UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// A time limit in an annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeLimit {
    /// `0`, `0s`: the limit that applies without the annotation.
    Default,
    /// `infinity` or `infinite`: no limit.
    Infinite,
    /// A limit of at least a millisecond, which is Envoy's unit. A smaller limit would be rounded to 0, which means no
    /// limit.
    After(Duration),
}

/// Parses a time limit. Returns `None` if `text` is negative, or neither a duration nor `infinity`.
pub fn limit(text: &str) -> Option<TimeLimit> {
    if text == "infinity" || text == "infinite" {
        return Some(TimeLimit::Infinite);
    }
    let duration = parse(text)?;
    Some(match duration.is_zero() {
        true => TimeLimit::Default,
        false => TimeLimit::After(duration.max(Duration::from_millis(1))),
    })
}

/// Parses a duration in Go's syntax. Returns `None` if the syntax is wrong, or if the duration is negative or exceeds
/// Go's 292 years. Source: Go `time.ParseDuration`.
pub fn parse(text: &str) -> Option<Duration> {
    let text = text.strip_prefix('+').unwrap_or(text);
    if text == "0" || text == "-0" {
        return Some(Duration::ZERO);
    }
    let nanos = nanoseconds(text, GO_UNITS).and_then(|nanos| u64::try_from(nanos).ok())?;
    (nanos <= MOST_NANOSECONDS).then(|| Duration::from_nanos(nanos))
}

/// Go's longest duration in nanoseconds: 292 years.
pub const MOST_NANOSECONDS: u64 = i64::MAX as u64;

/// Parses a sequence of numbers with units and returns the sum in nanoseconds. Returns `None` if the syntax is wrong or
/// the sum overflows. `units` maps names to nanoseconds.
pub fn nanoseconds(text: &str, units: &[(&str, u64)]) -> Option<u128> {
    if text.is_empty() {
        return None;
    }
    let (mut rest, mut sum) = (text, 0u128);
    while !rest.is_empty() {
        let number_len = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(number_len);
        let unit_len = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_len);
        let (_, nanos) = units.iter().find(|(name, _)| *name == unit)?;
        sum = sum.checked_add(amount(number, u128::from(*nanos))?)?;
        rest = after;
    }
    Some(sum)
}

/// Returns the nanoseconds of `number` (digits with at most one point) times a unit.
fn amount(number: &str, unit_nanos: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // Digits below a nanosecond of the largest unit have no effect.
    let mut nanos = whole.checked_mul(unit_nanos)?;
    let mut scale = unit_nanos;
    for digit in fraction.bytes().take(18).map(|byte| u128::from(byte - b'0')) {
        nanos = nanos.checked_add(digit * scale / 10)?;
        scale /= 10;
    }
    Some(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_like_in_go() {
        for (text, millis) in [
            ("0", 0),
            ("0s", 0),
            ("1500ms", 1_500),
            ("2s", 2_000),
            ("1h2m3.5s", 3_723_500),
            (".5s", 500),
            ("1.s", 1_000),
            ("+1s", 1_000),
            ("1000µs", 1),
            ("1000μs", 1),
            ("1000us", 1),
            ("1m30s", 90_000),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for bad in
            ["", "s", ".s", "h", "5", "-1s", "1 s", "1d", "1s2", "1..5s", "infinity", "9999999999h", "1e3s", "٣s"]
        {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn limits() {
        assert_eq!(limit("infinity"), Some(TimeLimit::Infinite));
        assert_eq!(limit("infinite"), Some(TimeLimit::Infinite));
        assert_eq!(limit("0"), Some(TimeLimit::Default));
        assert_eq!(limit("1ns"), Some(TimeLimit::After(Duration::from_millis(1))));
        assert_eq!(limit("3s"), Some(TimeLimit::After(Duration::from_secs(3))));
        assert_eq!(limit("-3s"), None);
    }
}
