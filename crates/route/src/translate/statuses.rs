//! The text format of HTTP statuses in policies.

use std::ops::RangeInclusive;

/// Parses a status such as `404`, or a range such as `500-599`, within `allowed`.
pub fn range(text: &str, allowed: RangeInclusive<u16>) -> Option<RangeInclusive<u16>> {
    let status = |text: &str| text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (u16, u16) = (status(first)?, status(last)?);
    (first <= last && allowed.contains(&first) && allowed.contains(&last)).then_some(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_two_statuses_in_order() {
        for (text, expected) in [("404", Some(404..=404)), ("500-599", Some(500..=599)), ("599-599", Some(599..=599))] {
            assert_eq!(range(text, 400..=599), expected, "{text}");
        }
        for text in ["", "-", "404-", "-404", "+404", "399", "600", "599-500", "404-405-406", "4xx", "99999"] {
            assert_eq!(range(text, 400..=599), None, "{text}");
        }
    }
}
