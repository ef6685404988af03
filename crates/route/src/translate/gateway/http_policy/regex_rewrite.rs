//! The checks of regular expressions and their substitutions, for the path and for the host of requests.

use crate::re2::{self, Cost, Rejection};
use crate::translate::patterns::Patterns;

/// The maximum number of places that RE2 visits for each byte of a path to find the groups of a pattern. A path of 50 KB then takes up to
/// 10 ms (`gateway_load::cost`).
pub const WIDEST: u32 = 24;

/// Returns the cost of both patterns.
pub fn sum(a: Cost, b: Cost) -> Cost {
    Cost { size: a.size.saturating_add(b.size), steps: a.steps.saturating_add(b.steps) }
}

/// Checks the length of a text, in bytes.
pub fn check_length(text: &str, longest: usize) -> Result<(), String> {
    let is_valid = (1..=longest).contains(&text.len());
    if is_valid { Ok(()) } else { Err(format!("the length is not between 1 and {longest}")) }
}

/// Returns the cost of finding the groups of `whole`, which contains `pattern`.
pub fn cost_of_groups(pattern: &str, whole: &str, patterns: &mut Patterns) -> Result<Cost, String> {
    // Also checked alone: `a)(b` is not a pattern, although it is one within a group.
    let cost = patterns.cost(pattern).and_then(|_| patterns.cost(whole));
    let cost = cost.map_err(|rejection| match rejection {
        Rejection::Invalid(reason) => {
            format!("{pattern:?} is not a regular expression that Envoy accepts: {reason}")
        }
        Rejection::TooExpensive(reason) => format!("{pattern:?} is too expensive: {reason}"),
    })?;
    if re2::width(whole).is_none_or(|width| width > WIDEST) {
        return Err(format!("{pattern:?} is too expensive: it has more than {WIDEST} alternatives at one place"));
    }
    Ok(cost)
}

/// Returns the groups that a substitution for a pattern with this number of groups refers to, each once.
pub fn references(text: &str, groups: usize) -> Result<Vec<usize>, String> {
    let mut seen = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            continue;
        }
        let group = bytes.next().filter(u8::is_ascii_digit).map(|digit| usize::from(digit - b'0'));
        let Some(group) = group else { return Err(format!("{text:?} has a backslash without the number of a group")) };
        if group > groups {
            return Err(format!("{text:?} refers to group {group}, but the last group of the pattern is {groups}"));
        }
        if seen.contains(&group) {
            return Err(format!("{text:?} refers to group {group} twice"));
        }
        seen.push(group);
    }
    Ok(seen)
}
