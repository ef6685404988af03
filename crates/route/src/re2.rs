//! Validates regular expressions for Envoy, and computes the cost of matching them.
//!
//! [`check`] applies RE2's grammar and limits. It detects a bad pattern before Envoy would reject it together with
//! other routes. [`cost`] also limits the time and memory that a pattern takes in Envoy. Use it for patterns that
//! tenants write. [`elements`] returns the literal path elements at the start of a pattern.
//!
//! Rust's parser replaces the parser of RE2. Syntax that only Rust supports is rejected here. Syntax that only RE2
//! supports (`\C`, `\Q…\E`, octal escapes, a literal `{`) is rejected by Rust's parser. Such a path is left out, but it
//! never affects a listener. Source: RE2 syntax document, `re2/parse.cc`.

mod automaton;
mod class;
mod elements;
mod groups;

pub use elements::elements;
pub use groups::group_is_of;

use regex_syntax::ast::parse::Parser;
use regex_syntax::ast::{
    AssertionKind, Ast, ClassUnicode, ClassUnicodeKind, Flag, Flags, FlagsItemKind, GroupKind, HexLiteralKind, Literal,
    LiteralKind, RepetitionKind, RepetitionRange,
};

/// RE2's limit of a repetition count, and of the product of nested repetition counts.
const MAX_REPEAT: u32 = 1000;

/// The largest program that [`check`] accepts, in instructions. RE2's limit is about 87,000 (an eighth of its `max_mem`
/// of 8 MiB, divided by 16 bytes).
const MAX_SIZE: u64 = 80_000;

/// The instructions of an empty program: fail, match, and two instructions of the prefix for unanchored matches.
const EMPTY_PROGRAM: u64 = 4;

/// Instructions of a Unicode class, for an RE2 that reads UTF-8.
const UNICODE_CLASS: u64 = 3000;

/// The cost of matching a pattern.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Instructions of the compiled program, never fewer than Envoy's `re2.program_size`.
    pub size: u32,
    /// Steps of building the complete automaton (DFA), which RE2 builds lazily. A step takes Envoy some nanoseconds and
    /// some bytes.
    pub steps: u32,
}

/// The maximum cost of a pattern.
pub type Limits = Cost;

/// The reason for the rejection of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejection {
    /// Envoy's RE2 rejects the pattern. The reason quotes the faulty part.
    Invalid(String),
    /// The pattern exceeds a limit, which the text names.
    TooExpensive(String),
}

/// General categories and common scripts: the Unicode classes that both grammars spell alike.
const UNICODE_CLASSES: [&str; 55] = [
    "C",
    "Cc",
    "Cf",
    "Co",
    "L",
    "Ll",
    "Lm",
    "Lo",
    "Lt",
    "Lu",
    "M",
    "Mc",
    "Me",
    "Mn",
    "N",
    "Nd",
    "Nl",
    "No",
    "P",
    "Pc",
    "Pd",
    "Pe",
    "Pf",
    "Pi",
    "Po",
    "Ps",
    "S",
    "Sc",
    "Sk",
    "Sm",
    "So",
    "Z",
    "Zl",
    "Zp",
    "Zs",
    "Arabic",
    "Armenian",
    "Bengali",
    "Cherokee",
    "Cyrillic",
    "Devanagari",
    "Ethiopic",
    "Georgian",
    "Greek",
    "Han",
    "Hangul",
    "Hebrew",
    "Hiragana",
    "Katakana",
    "Khmer",
    "Lao",
    "Latin",
    "Mongolian",
    "Tamil",
    "Thai",
];

/// Checks whether Envoy's RE2 accepts `pattern`. The error is the reason and quotes the faulty part.
pub fn check(pattern: &str) -> Result<(), String> {
    match program_size(pattern)? {
        size if size > MAX_SIZE => Err("it is too large".to_owned()),
        _ => Ok(()),
    }
}

/// Returns the cost of `pattern`.
///
/// The limit of steps is necessary. The pattern `/(a|b)*a(a|b){20}` has only 27 instructions, but matching takes a
/// worker 25 ms. Its automaton has a million states, so RE2 gives up on it and simulates the program byte by byte.
pub fn cost(pattern: &str, limits: Limits) -> Result<Cost, Rejection> {
    let size = program_size(pattern).map_err(Rejection::Invalid)?;
    let Some(size) = u32::try_from(size).ok().filter(|size| *size <= limits.size) else {
        let what = format!("its compiled size of about {size} instructions is above the limit of {}", limits.size);
        return Err(Rejection::TooExpensive(what));
    };
    let steps = automaton::steps(pattern, limits.steps).map_err(Rejection::TooExpensive)?;
    Ok(Cost { size, steps })
}

/// Returns the number of groups of a pattern that [`cost`] accepts.
pub fn groups(pattern: &str) -> usize {
    let parser = regex_syntax::ParserBuilder::new().unicode(false).utf8(false).build().parse(pattern);
    parser.map_or(0, |parsed| parsed.properties().explicit_captures_len())
}

/// Returns the largest number of places of a pattern that [`cost`] accepts which RE2 visits for one byte of a text to find its groups. RE2
/// does not build an automaton for them. `None`: the pattern is not valid.
pub fn width(pattern: &str) -> Option<u32> {
    automaton::explored(pattern, u32::MAX).ok().map(|explored| explored.width)
}

/// Estimates the size of the compiled program. The error is the reason why Envoy or RE2 rejects `pattern`.
fn program_size(pattern: &str) -> Result<u64, String> {
    // RE2 accepts it, and Envoy does not. Source: Envoy, `envoy.type.matcher.v3.RegexMatcher`.
    if pattern.is_empty() {
        return Err("it is empty".to_owned());
    }
    let ast = Parser::new().parse(pattern).map_err(|error| error.kind().to_string())?;
    // A flag applies to the end of its group. The presence of any flag is a sufficient upper bound.
    let sizes = Sizes { pattern, folds: pattern.contains("(?") };
    Ok(EMPTY_PROGRAM.saturating_add(sizes.of(&ast, MAX_REPEAT)?))
}

/// Estimates the sizes of the parts of one pattern. The numbers are the sizes in RE2's compiler, rounded up.
struct Sizes<'a> {
    pattern: &'a str,
    /// Whether a part of the pattern may ignore case.
    folds: bool,
}

impl Sizes<'_> {
    /// Returns the size of `ast`, whose repetition counts may have a product of up to `repeat`.
    fn of(&self, ast: &Ast, repeat: u32) -> Result<u64, String> {
        let text = || self.pattern.get(ast.span().start.offset..ast.span().end.offset).unwrap_or_default();
        let unknown = |what: &str| Err(format!("RE2 does not support {what} {:?}", text()));
        Ok(match ast {
            Ast::Empty(_) => 1,
            Ast::Dot(_) => 2,
            Ast::ClassPerl(class) => class::perl(class).instructions(false),
            Ast::Flags(flags) if !re2_flags(&flags.flags) => return unknown("the flags"),
            Ast::Flags(_) => 1,
            Ast::Literal(literal) if !re2_literal(literal) => return unknown("the escape"),
            Ast::Literal(literal) if literal.c.is_ascii() => 1,
            // RE2 reads each byte as a Latin-1 character, which may have another case.
            Ast::Literal(literal) => 2 * literal.c.len_utf8() as u64,
            Ast::ClassUnicode(class) if !re2_unicode(class) => return unknown("the class"),
            Ast::ClassUnicode(_) => UNICODE_CLASS,
            Ast::Assertion(assertion) => match assertion.kind {
                AssertionKind::StartLine
                | AssertionKind::EndLine
                | AssertionKind::StartText
                | AssertionKind::EndText
                | AssertionKind::WordBoundary
                | AssertionKind::NotWordBoundary => 2,
                _ => return unknown("the assertion"),
            },
            // Rust parses two hyphens as an operator, but RE2 parses them as the start of a range.
            Ast::ClassBracketed(_) if text().contains("--") => return unknown("the double hyphen in"),
            Ast::ClassBracketed(class) => match class::bracketed(class) {
                Ok(Some(set)) => set.instructions(self.folds),
                Ok(None) => UNICODE_CLASS * text().len() as u64,
                Err(what) => return unknown(what),
            },
            Ast::Repetition(repetition) => {
                if matches!(*repetition.ast, Ast::Repetition(_)) {
                    return unknown("the double repetition");
                }
                // The number of required copies and of optional copies.
                let (certain, perhaps) = match &repetition.op.kind {
                    RepetitionKind::Range(RepetitionRange::Exactly(n)) => (*n, 0),
                    RepetitionKind::Range(RepetitionRange::Bounded(least, most)) => {
                        (*least, most.saturating_sub(*least))
                    }
                    RepetitionKind::Range(RepetitionRange::AtLeast(n)) => (*n, u32::from(*n == 0)),
                    RepetitionKind::ZeroOrOne | RepetitionKind::ZeroOrMore => (0, 1),
                    RepetitionKind::OneOrMore => (1, 0),
                };
                let count = certain.saturating_add(perhaps).max(1);
                if count > repeat {
                    return Err(format!("{:?} repeats more than {MAX_REPEAT} times", text()));
                }
                // Each optional copy needs a branch around it. A loop needs one or two.
                (self.of(&repetition.ast, repeat / count)?)
                    .saturating_mul(u64::from(count))
                    .saturating_add(u64::from(perhaps) + 2)
            }
            Ast::Group(group) => match &group.kind {
                GroupKind::CaptureName { starts_with_p, name } if !starts_with_p || !is_word(&name.name) => {
                    return unknown("the named group");
                }
                GroupKind::NonCapturing(flags) if !re2_flags(flags) => return unknown("the flags of"),
                GroupKind::NonCapturing(_) => self.of(&group.ast, repeat)?,
                GroupKind::CaptureIndex(_) | GroupKind::CaptureName { .. } => self.of(&group.ast, repeat)? + 2,
            },
            Ast::Alternation(alternation) => self.sum(&alternation.asts, repeat)? + alternation.asts.len() as u64,
            Ast::Concat(concat) => self.sum(&concat.asts, repeat)?,
        })
    }

    fn sum(&self, asts: &[Ast], repeat: u32) -> Result<u64, String> {
        asts.iter().try_fold(0u64, |total, ast| Ok(total.saturating_add(self.of(ast, repeat)?)))
    }
}

fn re2_flags(flags: &Flags) -> bool {
    flags.items.iter().all(|item| match &item.kind {
        FlagsItemKind::Negation => true,
        FlagsItemKind::Flag(flag) => {
            matches!(flag, Flag::CaseInsensitive | Flag::MultiLine | Flag::DotMatchesNewLine | Flag::SwapGreed)
        }
    })
}

fn re2_literal(literal: &Literal) -> bool {
    match &literal.kind {
        // RE2 accepts a backslash only before punctuation, which does not include `_`.
        LiteralKind::Superfluous => literal.c != '_',
        // Envoy's RE2 reads bytes, not UTF-8.
        LiteralKind::HexFixed(kind) | LiteralKind::HexBrace(kind) => {
            *kind == HexLiteralKind::X && literal.c <= '\u{ff}'
        }
        LiteralKind::Octal => false,
        LiteralKind::Verbatim | LiteralKind::Meta | LiteralKind::Special(_) => true,
    }
}

fn re2_unicode(class: &ClassUnicode) -> bool {
    match &class.kind {
        ClassUnicodeKind::OneLetter(letter) => UNICODE_CLASSES.contains(&letter.to_string().as_str()),
        ClassUnicodeKind::Named(name) => UNICODE_CLASSES.contains(&name.as_str()),
        ClassUnicodeKind::NamedValue { .. } => false,
    }
}

fn is_word(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_syntax_is_accepted() {
        for pattern in [
            "/v[0-9]+/.*",
            "/(a|b)*",
            "/[^/]+/x",
            "(?i)/a.*",
            "/(?P<id>[[:digit:]]{1,9})",
            "/\\d+\\.(js|css)[?]",
            "/a%20b",
            "/\\pL+\\p{Greek}",
            "/[a\\-z]*?",
            "^/x$",
            "/\\x41\\x{E9}*",
            "/[]a]+",
            "/a{1000}",
        ] {
            assert_eq!(check(pattern), Ok(()), "{pattern}");
        }
    }

    #[test]
    fn syntax_that_re2_rejects_or_parses_differently_is_rejected() {
        assert_eq!(check(""), Err("it is empty".to_owned()));
        for pattern in [
            "/[",
            "/*+",
            "/a**",
            "/a{2}*",
            "/(?=a)*",
            "/(?<!a)*",
            "/(a)\\1*",
            "/(?x)a *",
            "/(?u)a*",
            "/(?R)a*",
            "/(?x:a)*",
            "/(?<name>a)*",
            "/[a-z&&[^b]]",
            "/[a--b]",
            "/[--(]",
            "/[a~~b]",
            "/[a[b]]",
            "/\\p{Letter}*",
            "/\\p{Script=Greek}*",
            "/\\u0041*",
            "/\\x{1F600}*",
            "/[à-é]",
            "/\\b{start}a*",
            "/\\<a*",
            "/\\_*",
            "/a{1001}[b]",
            "/(a{100}){11}[b]",
            "/(?P<a.b>c)*",
        ] {
            assert!(check(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn patterns_with_too_large_programs_are_rejected() {
        assert!(check("/[\\pL]{900}").is_err());
        assert!(check(&format!("/{}*", "(.{30})|".repeat(200))).is_err());
    }

    #[test]
    fn the_size_is_never_below_the_size_in_envoy() {
        // Values that Envoy 1.40 reports (`re2.program_size`).
        for (pattern, size) in [
            ("/.", 7),
            ("/.*x", 8),
            ("/api/v[0-9]+/.*", 15),
            ("/foo(/|$)(.*)", 16),
            ("/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", 73),
            ("/(x?){40}a{40}", 205),
            ("/(?i:[^A-Z_]{4,})-", 23),
            ("/(?:\\b)*?\\.", 11),
        ] {
            let estimate = program_size(pattern).unwrap_or_default();
            assert!((size..=size * 2).contains(&estimate), "{pattern}: {estimate}, not {size}");
        }
    }

    #[test]
    fn explosive_patterns_exceed_the_steps() {
        let limits = Limits { size: 500, steps: 20_000 };
        assert!(cost("/(a|b)*a(a|b){5}", limits).is_ok());
        for pattern in ["/(a|b)*a(a|b){20}", "/.*a.{30}", "/(.*a.{9}|.*b.{8})x"] {
            assert!(matches!(cost(pattern, limits), Err(Rejection::TooExpensive(_))), "{pattern}");
        }
        assert!(matches!(cost("/a{501}", limits), Err(Rejection::TooExpensive(_))));
        assert!(matches!(cost("/a[", limits), Err(Rejection::Invalid(_))));
    }

    #[test]
    fn the_message_quotes_the_faulty_part() {
        assert_eq!(check("/x(?<n>a)*"), Err("RE2 does not support the named group \"(?<n>a)\"".to_owned()));
    }
}
