//! Durations of Go, in which Contour's configuration states time limits.

use crate::settings;

/// Returns a duration of Go in the form of settings. `None`: 0, which stands for the default.
pub fn time(text: &str) -> Result<Option<String>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let nanos = nanoseconds(text).ok_or_else(|| format!("{text:?} is not a duration of Go, such as 1m30s"))?;
    if nanos == 0 {
        return Ok(None);
    }
    if settings::duration(text).is_ok() {
        return Ok(Some(text.to_owned()));
    }
    let fraction = format!("{:06}", nanos % 1_000_000);
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    Ok(Some(format!("{}{point}{fraction}ms", nanos / 1_000_000)))
}

/// Parses a duration of Go: decimal numbers with units, without a sign.
fn nanoseconds(text: &str) -> Option<u128> {
    const UNITS: [(&str, u128); 8] = [
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("μs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    let (mut rest, mut sum) = (text, 0u128);
    if rest == "0" {
        return Some(0);
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if number.len() > 20 || (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let digits: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
        let scale = 10u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        sum = sum.checked_add(whole.checked_mul(*factor)?)?.checked_add(digits.checked_mul(*factor)? / scale)?;
        rest = after;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_go_become_durations_of_settings() {
        let of = |text: &str| time(text).map_err(|_| ());
        assert_eq!(of("1m30s"), Ok(Some("1m30s".to_owned())));
        assert_eq!(of("250us"), Ok(Some("0.25ms".to_owned())));
        assert_eq!(of("1.5h"), Ok(Some("1.5h".to_owned())));
        assert_eq!([of("0s"), of("0"), of("")], [Ok(None), Ok(None), Ok(None)]);
        assert_eq!([of("5"), of("1d"), of("s"), of("-1s"), of("1..5s")], [Err(()), Err(()), Err(()), Err(()), Err(())]);
    }
}
