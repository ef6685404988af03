//! The groups of a pattern.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Capture, Class, Hir, HirKind};

/// Returns whether the group with this number matches only texts of these bytes. The pattern is one that [`cost`](super::cost) accepts.
pub fn group_is_of(pattern: &str, group: u32, is_allowed: fn(u8) -> bool) -> bool {
    let parsed = ParserBuilder::new().unicode(false).utf8(false).build().parse(pattern);
    parsed.is_ok_and(|parsed| find(&parsed, group).is_some_and(|content| is_of(content, is_allowed)))
}

fn find(part: &Hir, group: u32) -> Option<&Hir> {
    match part.kind() {
        HirKind::Capture(Capture { index, sub, .. }) if *index == group => Some(sub),
        HirKind::Capture(Capture { sub, .. }) => find(sub, group),
        HirKind::Repetition(repetition) => find(&repetition.sub, group),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().find_map(|part| find(part, group)),
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => None,
    }
}

fn is_of(part: &Hir, is_allowed: fn(u8) -> bool) -> bool {
    match part.kind() {
        HirKind::Empty | HirKind::Look(_) => true,
        HirKind::Literal(text) => text.0.iter().all(|byte| is_allowed(*byte)),
        HirKind::Class(Class::Bytes(class)) => {
            class.ranges().iter().all(|range| (range.start()..=range.end()).all(is_allowed))
        }
        HirKind::Class(Class::Unicode(class)) => {
            let is_of = |one: char| u8::try_from(one).is_ok_and(|byte| byte.is_ascii() && is_allowed(byte));
            class.ranges().iter().all(|range| range.end().is_ascii() && (range.start()..=range.end()).all(is_of))
        }
        HirKind::Repetition(repetition) => is_of(&repetition.sub, is_allowed),
        HirKind::Capture(capture) => is_of(&capture.sub, is_allowed),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().all(|part| is_of(part, is_allowed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_of_bytes_if_all_its_parts_are() {
        let is_of = |pattern: &str, group: u32| group_is_of(pattern, group, |byte| byte.is_ascii_alphanumeric());
        for pattern in ["/([a-z]+)/.*", "/(?i:(a[b-c]|(d))*)x", "/(|[[:alnum:]]{2}\\d)", "/(\\x41\\b)", "/(?P<name>a)"]
        {
            assert!(is_of(pattern, 1), "{pattern}");
        }
        for pattern in
            ["/([^/]+)", "/(.)", "/(a|b/)", "/((c)_)", "/(\\w)", "/(\\pL)", "/([\\xE0-\\xFF])", "/(\\D)", "/a"]
        {
            assert!(!is_of(pattern, 1), "{pattern}");
        }
        assert!(is_of("/(.*)((a))", 3) && !is_of("/(a)(.(a))", 2));
    }
}
