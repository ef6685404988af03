//! The literal path elements at the start of a regular expression.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::literal::{Extractor, Literal};

/// Returns the complete path elements with which every match of `pattern` starts: `/b` for `/b/[0-9]+`, and nothing for `/.*`.
/// Every match is equal to the result, or continues it with a slash.
pub fn elements(pattern: &str) -> String {
    // As in `automaton`: Envoy's RE2 reads bytes.
    let parsed = ParserBuilder::new().unicode(false).utf8(false).build().parse(pattern);
    let Ok(parsed) = parsed else { return String::new() };
    let starts = Extractor::new().extract(&parsed);
    let Some(starts) = starts.literals() else { return String::new() };
    let common = starts.iter().map(of_literal).reduce(common).unwrap_or_default();
    String::from_utf8_lossy(common).into_owned()
}

/// Returns the complete elements of a literal with which matches start.
fn of_literal(literal: &Literal) -> &[u8] {
    let bytes = literal.as_bytes();
    // RE2 folds the case of some other bytes, in contrast to Rust's parser.
    match bytes.iter().position(|byte| !byte.is_ascii()) {
        Some(other) => complete(&bytes[..other]),
        None if literal.is_exact() => bytes.strip_suffix(b"/").unwrap_or(bytes),
        None => complete(bytes),
    }
}

/// Returns `bytes` up to the last slash.
fn complete(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().rposition(|byte| *byte == b'/').unwrap_or(0)]
}

/// Returns the common elements at the start.
fn common<'a>(one: &'a [u8], other: &'a [u8]) -> &'a [u8] {
    let equal = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let ends = |bytes: &[u8]| bytes.get(equal).is_none_or(|next| *next == b'/');
    match ends(one) && ends(other) {
        true => &one[..equal],
        false => complete(&one[..equal]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_match_starts_with_the_returned_elements() {
        for (pattern, expected) in [
            ("/b/[0-9]+", "/b"),
            ("/b/c/.*", "/b/c"),
            ("/b(/.*)?", "/b"),
            ("/b(/|$)(.*)", ""),
            ("/b/(x|y)/z", "/b"),
            ("/b/(x|y/z)", "/b"),
            ("/b/c", "/b/c"),
            ("/b/c/", "/b/c"),
            ("/b.*", ""),
            ("/bc|/b", ""),
            ("/b|/b/c", "/b"),
            ("/a/b|/a/c", "/a"),
            ("/a/b|.*", ""),
            ("/.*", ""),
            (".*", ""),
            ("", ""),
            ("/(?i:api)/.*", ""),
            ("(?i)/b/.*", ""),
            ("/b/é/.*", "/b"),
            ("^/b/.*$", "/b"),
            ("/b\\.c/.*", "/b.c"),
            ("/api/v[0-9]+/.*", "/api"),
            ("/b[", ""),
            ("/b/{2}x", "/b//x"),
            ("(/b/c)*", ""),
            ("(/b/c)+/d", "/b"),
        ] {
            assert_eq!(elements(pattern), expected, "{pattern}");
        }
    }
}
