//! Durations as annotations write them: Go's syntax (`1h2m3.5s`, `300ms`), and `infinity`.

use std::time::Duration;

/// A time limit as an annotation gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// `0`, `0s`: what holds without the annotation.
    Default,
    /// `infinity` or `infinite`: no limit.
    Infinite,
    /// A limit of at least a millisecond, Envoy's unit: less would be rounded to 0, which means no limit.
    After(Duration),
}

/// Reads a time limit; `None` if `text` is neither a duration nor `infinity`, or is negative.
pub fn limit(text: &str) -> Option<Limit> {
    if text == "infinity" || text == "infinite" {
        return Some(Limit::Infinite);
    }
    let duration = parse(text)?;
    Some(match duration.is_zero() {
        true => Limit::Default,
        false => Limit::After(duration.max(Duration::from_millis(1))),
    })
}

/// Reads a duration in Go's syntax; `None` if it is not one, is negative, or exceeds Go's 292 years.
/// Source: Go `time.ParseDuration`.
pub fn parse(text: &str) -> Option<Duration> {
    let text = text.strip_prefix('+').unwrap_or(text);
    if text == "0" || text == "-0" {
        return Some(Duration::ZERO);
    }
    if text.is_empty() {
        return None;
    }
    let mut rest = text;
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let number_len = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(number_len);
        let unit_len = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_len);
        nanos = nanos.checked_add(amount(number, unit_nanos(unit)?)?)?;
        rest = after;
    }
    let nanos = u64::try_from(nanos).ok().filter(|&nanos| nanos <= i64::MAX as u64)?;
    Some(Duration::from_nanos(nanos))
}

/// Nanoseconds of `number` (digits with at most one point) times a unit.
fn amount(number: &str, unit_nanos: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // Digits beyond a nanosecond of the largest unit cannot be seen.
    let mut nanos = whole.checked_mul(unit_nanos)?;
    let mut scale = unit_nanos;
    for digit in fraction.bytes().take(18).map(|byte| u128::from(byte - b'0')) {
        nanos = nanos.checked_add(digit * scale / 10)?;
        scale /= 10;
    }
    Some(nanos)
}

fn unit_nanos(unit: &str) -> Option<u128> {
    Some(match unit {
        "ns" => 1,
        // Both code points of the micro sign, as Go.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60 * 1_000_000_000,
        "h" => 3_600 * 1_000_000_000,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_go_reads_them() {
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
        assert_eq!(limit("infinity"), Some(Limit::Infinite));
        assert_eq!(limit("infinite"), Some(Limit::Infinite));
        assert_eq!(limit("0"), Some(Limit::Default));
        assert_eq!(limit("1ns"), Some(Limit::After(Duration::from_millis(1))));
        assert_eq!(limit("3s"), Some(Limit::After(Duration::from_secs(3))));
        assert_eq!(limit("-3s"), None);
    }
}
