//! Finds the paths from the crate root in Rust source. It parses only the subset of the language that this repository
//! uses.

/// Returns `text` without comments and the contents of string literals.
pub(super) fn code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if rest.starts_with("//") {
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
        } else if let Some(end) = raw_string_end(rest) {
            rest = &rest[end..];
        } else if c == '"' {
            let mut escaped = false;
            let end = rest[1..].find(|c| {
                let end = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                end
            });
            code.push_str("\"\"");
            rest = &rest[end.map_or(rest.len(), |end| end + 2)..];
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\\"'") {
            rest = &rest[rest[1..].find("'").map_or(rest.len(), |end| end + 2)..];
        } else {
            code.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    code
}

/// Returns the end of the raw string literal at the start of `text`.
fn raw_string_end(text: &str) -> Option<usize> {
    let hashes = text.strip_prefix('r')?.chars().take_while(|c| *c == '#').count();
    let start = 1 + hashes + 1;
    if hashes == 0 || text.as_bytes().get(start - 1) != Some(&b'"') {
        return None;
    }
    let close = format!("\"{}", "#".repeat(hashes));
    text[start..].find(&close).map(|end| start + end + close.len())
}

/// Returns every path after `crate::` in `text`, with expanded groups: `a::B` and `a::c::D` for `crate::a::{B, c::D}`.
/// Comments are ignored.
pub(super) fn paths_of_crate(text: &str) -> Vec<String> {
    paths_after("crate::", text)
}

/// Returns every path after `start`, which is `crate::` or `super::`, like [`paths_of_crate`].
pub(super) fn paths_after(start: &str, text: &str) -> Vec<String> {
    let code = code(text);
    let mut found = vec![];
    for (at, _) in code.match_indices(start) {
        let before = code[..at].chars().next_back();
        if !before.is_some_and(|c| c.is_alphanumeric() || ['_', '$', ':'].contains(&c)) {
            read_path(&code[at + start.len()..], "", &mut found);
        }
    }
    found
}

/// Returns the names that `use tree;` brings into scope, each with its path: `B` with `a::B`, and `D` with `a::C`, for
/// `a::{B, C as D}`.
pub(super) fn expanded(tree: &str) -> Vec<(String, String)> {
    let mut found = vec![];
    read_path(&tree.replace(" as ", "::as::"), "", &mut found);
    let named = found.into_iter().map(|path| match path.split_once("::as::") {
        Some((path, name)) => (name.to_owned(), path.to_owned()),
        None => (path.rsplit("::").next().unwrap_or(&path).to_owned(), path.clone()),
    });
    named.collect()
}

/// Returns whether `code` uses the crate `name`.
pub(super) fn names_crate(code: &str, name: &str) -> bool {
    code.match_indices(&format!("{name}::")).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_') && !code[..at].ends_with("self::")
    })
}

/// Parses one path after the segments in `prefix`. Returns the rest.
fn read_path<'a>(text: &'a str, prefix: &str, found: &mut Vec<String>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = read_path(rest, prefix, found).trim_start();
            let Some(next) = rest.strip_prefix(',') else { break };
            rest = next.trim_start();
            if rest.starts_with('}') {
                break;
            }
        }
        return rest.strip_prefix('}').unwrap_or(rest);
    }
    let len = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let (segment, rest) = text.split_at(len);
    let path = match (prefix, segment) {
        (_, "self") => prefix.to_owned(),
        ("", _) => segment.to_owned(),
        _ => format!("{prefix}::{segment}"),
    };
    match rest.strip_prefix("::") {
        Some(rest) if rest.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '{') => {
            read_path(rest, &path, found)
        }
        _ => {
            found.push(path);
            let rest = rest.strip_prefix("::*").unwrap_or(rest);
            match rest.trim_start().strip_prefix("as ") {
                Some(alias) => alias.trim_start().trim_start_matches(|c: char| c.is_alphanumeric() || c == '_'),
                None => rest,
            }
        }
    }
}

#[test]
fn paths_are_found_wherever_they_stand() {
    let paths = |text| paths_of_crate(text).join(" ");
    assert_eq!(paths("use crate::model;"), "model");
    assert_eq!(paths("use crate::{\n    a::{self, B as C, d::*},\n    e,\n};"), "a a::B a::d e");
    assert_eq!(paths("fn f() -> crate::model::Host { crate::xds::serve::<u8>() }"), "model::Host xds::serve");
    assert_eq!(paths("pub(in crate::xds) struct S(Vec<crate::a::B>);"), "xds a::B");
    assert_eq!(paths("// crate::a\n//! [`crate::b`]\nlet s = \"crate::c \\\" crate::d\"; // crate::e"), "");
    assert_eq!(paths("let s = r#\"\" crate::a\"#; let c = '\"'; crate::b"), "b");
    assert_eq!(paths("other_crate::a"), "");
}

#[test]
fn imports_have_names() {
    let names = |tree| expanded(tree).into_iter().map(|(name, path)| format!("{name}={path}")).collect::<Vec<_>>();
    assert_eq!(names("a::B"), ["B=a::B"]);
    assert_eq!(names("super::{\n    a::{self, B as C},\n    D,\n}"), ["a=super::a", "C=super::a::B", "D=super::D"]);
}

#[test]
fn crates_are_told_from_what_is_called_alike() {
    assert!(names_crate("use kube::Api;", "kube"));
    assert!(names_crate("fn f() -> ::kube::Result", "kube"));
    assert!(!names_crate("use minikube::Api;", "kube"));
}
