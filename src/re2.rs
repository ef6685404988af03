//! Which regular expressions Envoy takes: RE2's grammar and limits, checked before one can cost its neighbours.
//!
//! Rust's parser stands in for RE2's. What only Rust knows is refused here; what only RE2 knows (`\C`, `\Q…\E`, octal
//! escapes, a literal `{`) is refused by Rust's parser, which costs a rare path and never a listener.
//! Source: RE2 syntax document, `re2/parse.cc`.

use regex_syntax::ast::parse::Parser;
use regex_syntax::ast::{
    AssertionKind, Ast, ClassSet, ClassSetItem, ClassUnicode, ClassUnicodeKind, Flag, Flags, FlagsItemKind, GroupKind,
    HexLiteralKind, Literal, LiteralKind, RepetitionKind, RepetitionRange,
};

/// RE2's limit of a repetition count, and of the product of nested ones.
const MAX_REPEAT: u32 = 1000;

/// Instructions, generously estimated, of the largest program let through. RE2 stops at about 87,000 (an eighth of
/// its `max_mem` of 8 MiB, by 16 bytes).
const MAX_SIZE: u64 = 80_000;

/// General categories and the scripts in common use: the Unicode classes that both grammars spell alike.
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

/// Whether Envoy's RE2 takes `pattern`. Errors: why not; quotes the part at fault.
pub fn check(pattern: &str) -> Result<(), String> {
    let ast = Parser::new().parse(pattern).map_err(|error| error.kind().to_string())?;
    match size(&ast, MAX_REPEAT, pattern)? {
        size if size > MAX_SIZE => Err("it is too large".to_owned()),
        _ => Ok(()),
    }
}

/// The estimated size of the program of `ast`, whose repetitions may multiply to `repeat`.
fn size(ast: &Ast, repeat: u32, pattern: &str) -> Result<u64, String> {
    let text = || pattern.get(ast.span().start.offset..ast.span().end.offset).unwrap_or_default();
    let unknown = |what: &str| Err(format!("RE2 does not know {what} {:?}", text()));
    Ok(match ast {
        Ast::Empty(_) => 1,
        Ast::Dot(_) => 12,
        Ast::ClassPerl(_) => 24,
        Ast::Flags(flags) if !re2_flags(&flags.flags) => return unknown("the flags"),
        Ast::Flags(_) => 1,
        Ast::Literal(literal) if !re2_literal(literal) => return unknown("the escape"),
        Ast::Literal(_) => 8,
        Ast::ClassUnicode(class) if !re2_unicode(class) => return unknown("the class"),
        Ast::ClassUnicode(_) => 3000,
        Ast::Assertion(assertion) => match assertion.kind {
            AssertionKind::StartLine
            | AssertionKind::EndLine
            | AssertionKind::StartText
            | AssertionKind::EndText
            | AssertionKind::WordBoundary
            | AssertionKind::NotWordBoundary => 1,
            _ => return unknown("the assertion"),
        },
        // Where Rust reads hyphens, RE2 reads a range that starts with one.
        Ast::ClassBracketed(_) if text().contains("--") => return unknown("the double hyphen in"),
        Ast::ClassBracketed(class) => match &class.kind {
            ClassSet::Item(item) => match set_size(item) {
                Some(size) => size + 12,
                None => return unknown("the class"),
            },
            ClassSet::BinaryOp(_) => return unknown("the set operation in"),
        },
        Ast::Repetition(repetition) => {
            if matches!(*repetition.ast, Ast::Repetition(_)) {
                return unknown("the double repetition");
            }
            let count = match &repetition.op.kind {
                RepetitionKind::Range(RepetitionRange::Exactly(n) | RepetitionRange::AtLeast(n)) => *n,
                RepetitionKind::Range(RepetitionRange::Bounded(_, n)) => *n,
                _ => 1,
            };
            if count > repeat {
                return Err(format!("{:?} repeats more than {MAX_REPEAT} times", text()));
            }
            let count = count.max(1);
            (size(&repetition.ast, repeat / count, pattern)? + 2).saturating_mul(u64::from(count) + 1)
        }
        Ast::Group(group) => {
            match &group.kind {
                GroupKind::CaptureIndex(_) => {}
                GroupKind::CaptureName { starts_with_p: true, name } if is_word(&name.name) => {}
                GroupKind::CaptureName { .. } => return unknown("the named group"),
                GroupKind::NonCapturing(flags) if re2_flags(flags) => {}
                GroupKind::NonCapturing(_) => return unknown("the flags of"),
            }
            size(&group.ast, repeat, pattern)? + 2
        }
        Ast::Alternation(alternation) => sum(&alternation.asts, repeat, pattern)?,
        Ast::Concat(concat) => sum(&concat.asts, repeat, pattern)?,
    })
}

fn sum(asts: &[Ast], repeat: u32, pattern: &str) -> Result<u64, String> {
    asts.iter().try_fold(1u64, |total, ast| Ok(total.saturating_add(size(ast, repeat, pattern)?)))
}

/// The estimated size of what stands in brackets; `None` if RE2 does not know it. RE2 has no classes in classes: it
/// takes the inner `[` for itself.
fn set_size(item: &ClassSetItem) -> Option<u64> {
    match item {
        ClassSetItem::Empty(_) => Some(0),
        ClassSetItem::Literal(literal) => re2_member(literal).then_some(8),
        ClassSetItem::Range(range) => (re2_member(&range.start) && re2_member(&range.end)).then_some(16),
        ClassSetItem::Ascii(_) | ClassSetItem::Perl(_) => Some(24),
        ClassSetItem::Unicode(class) => re2_unicode(class).then_some(3000),
        ClassSetItem::Bracketed(_) => None,
        ClassSetItem::Union(union) => union.items.iter().try_fold(0, |total, item| Some(total + set_size(item)?)),
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
        // RE2 lets a backslash stand before punctuation, of which `_` is none.
        LiteralKind::Superfluous => literal.c != '_',
        // Envoy's RE2 reads bytes, not UTF-8.
        LiteralKind::HexFixed(kind) | LiteralKind::HexBrace(kind) => {
            *kind == HexLiteralKind::X && literal.c <= '\u{ff}'
        }
        LiteralKind::Octal => false,
        LiteralKind::Verbatim | LiteralKind::Meta | LiteralKind::Special(_) => true,
    }
}

/// As [`re2_literal`], for a member of a class: one byte, where a character of UTF-8 would be taken apart.
fn re2_member(literal: &Literal) -> bool {
    re2_literal(literal) && (literal.kind != LiteralKind::Verbatim || literal.c.is_ascii())
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
    fn what_both_know_is_taken() {
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
    fn what_re2_refuses_or_reads_otherwise_is_refused() {
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
    fn what_compiles_to_too_much_is_refused() {
        assert!(check("/[\\pL]{900}").is_err());
        assert!(check(&format!("/{}*", "(.{30})|".repeat(200))).is_err());
    }

    #[test]
    fn the_fault_quotes_its_part() {
        assert_eq!(check("/x(?<n>a)*"), Err("RE2 does not know the named group \"(?<n>a)\"".to_owned()));
    }
}
