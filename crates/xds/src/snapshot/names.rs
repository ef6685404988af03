//! The canonical form of resource names that are URIs, `xdstp://authority/type/id?context`.
//!
//! Equivalent names become equal here, so that all other code can compare texts. All other names are opaque. Source:
//! xRFC TP1; Envoy escapes the same characters.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use base64::prelude::{BASE64_STANDARD, Engine};

const SCHEME: &str = "xdstp://";

/// Returns the canonical form of `name`: context parameters sorted by key, each key once (the first one counts), and no
/// unnecessary escapes. A name that is no such URI, or has no type, stays unchanged.
pub fn canonical(name: &str) -> Cow<'_, str> {
    match name.strip_prefix(SCHEME).and_then(normalize) {
        Some(normal) if normal != name => Cow::Owned(normal),
        _ => Cow::Borrowed(name),
    }
}

fn normalize(uri: &str) -> Option<String> {
    if uri.contains(VARIANT) {
        return None; // It was made canonical before it became the name of a variant.
    }
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    let (authority, path) = path.split_once('/')?;
    let (kind, id) = path.split_once('/').unwrap_or((path, ""));
    if kind.is_empty() {
        return None;
    }
    let mut parameters = BTreeMap::new();
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let escaped = |text| escape(&unescape(text), b"%#[]&=");
        parameters.entry(escaped(key)).or_insert_with(|| escaped(value));
    }
    let id = escape(&unescape(id), b"%:?#[]");
    let slash = if id.is_empty() { "" } else { "/" };
    let mut normal = format!("{SCHEME}{}/{kind}{slash}{id}", escape(&unescape(authority), b"%/?#"));
    for ((key, value), mark) in parameters.iter().zip(std::iter::once('?').chain(std::iter::repeat('&'))) {
        normal.push(mark);
        normal.extend([&**key, "=", &**value]);
    }
    Some(normal)
}

/// Unescapes `text`. A `%` without an escape sequence stays unchanged.
fn unescape(text: &str) -> Vec<u8> {
    let mut rest = text.as_bytes();
    let mut bytes = Vec::with_capacity(rest.len());
    while let Some((&first, after)) = rest.split_first() {
        let digit = |at: usize| (*after.get(at)? as char).to_digit(16);
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = &after[2..];
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    bytes
}

/// Escapes the `reserved` and the unprintable characters of `bytes`.
fn escape(bytes: &[u8], reserved: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte.is_ascii_graphic() && !reserved.contains(&byte) {
            true => text.push(byte as char),
            false => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// The separator between the name of a resource and the constraints of a variant.
const VARIANT: char = '\0';

/// Returns the name in the store for the variant of `name` with the encoded `constraints`.
pub fn variant_name(name: &str, constraints: &[u8]) -> String {
    format!("{name}{VARIANT}{}", BASE64_STANDARD.encode(constraints))
}

/// Returns the resource name and the encoded constraints of the variant `name`, or `None` for a resource without constraints.
pub fn split_variant(name: &str) -> Option<(&str, Vec<u8>)> {
    let (name, constraints) = name.split_once(VARIANT)?;
    Some((name, BASE64_STANDARD.decode(constraints).ok()?))
}

/// A glob collection: `xdstp://authority/type/some/*`, optionally with context parameters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Glob {
    name: Arc<str>,
    /// The length of the name up to and including the last `/`.
    prefix: usize,
}

impl Glob {
    /// Parses a glob from the canonical name `name`. A `*` must follow a `/`, and end the path.
    pub fn parse(name: &str) -> Option<Self> {
        let path = name.split('?').next().filter(|path| path.starts_with(SCHEME))?;
        let prefix = path.strip_suffix('*').filter(|prefix| prefix.ends_with('/'))?.len();
        Some(Self { name: name.into(), prefix })
    }

    /// Returns the name of the glob.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Returns the common prefix of all names in the collection.
    pub fn prefix(&self) -> &str {
        &self.name[..self.prefix]
    }

    /// Returns whether the collection contains the canonical name `name`: below the same path, with the same context.
    pub fn covers(&self, name: &str) -> bool {
        let context = |name: &'_ str| name.find('?').map_or(name.len(), |at| at);
        name.starts_with(self.prefix()) && name[context(name)..] == self.name[context(&self.name)..]
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn v6_names_that_mean_the_same_are_equal() {
        let same = |names: &[&str]| {
            for name in names {
                assert_eq!(canonical(name), names[0], "{name}");
            }
        };
        same(&["xdstp://a/b.C/d?x=1&y=2", "xdstp://a/b.C/d?y=2&x=1", "xdstp://a/b.C/d?&y=2&&x=1&"]);
        same(&["xdstp://a/b.C/d?x=1", "xdstp://a/b.C/d?x=1&x=2"]);
        same(&["xdstp://a/b.C/d", "xdstp://a/b.C/d?", "xdstp://a/b.C/%64"]);
        same(&["xdstp://a/b.C/d/e~f%3A%20g", "xdstp://a/b.C/d%2Fe%7Ef:%20g", "xdstp://a/b.C/d/e~f: g"]);
        same(&["xdstp://a/b.C/d?x=%26%3D/?:", "xdstp://a/b.C/d?x=%26=%2F%3F%3a"]);
        same(&["xdstp://a/b.C/%25zz", "xdstp://a/b.C/%zz"]);
        same(&["xdstp://a%2Fb/c.D/e", "xdstp://%61%2fb/c.D/e"]);
        same(&["xdstp:///b.C/d", "xdstp:///b.C/d?"]);
        same(&["xdstp://a/b.C/%C3%BC", "xdstp://a/b.C/ü"]);
        same(&["xdstp://a/b.C/d?x=", "xdstp://a/b.C/d?x"]);
        same(&["xdstp://a/b.C", "xdstp://a/b.C/"]);
        let all =
            ["xdstp://a/b.C/d", "xdstp://A/b.C/d", "xdstp://a/b.C/d?x=1", "xdstp://a/b.C/d?x=2", "xdstp://a/b.C/D"];
        for (at, name) in all.iter().enumerate() {
            assert!(all.iter().skip(at + 1).all(|other| canonical(name) != canonical(other)), "{name}");
        }
    }

    #[test]
    fn v6_other_names_are_opaque() {
        for name in ["", "*", "b?y=2&x=1", "xdstp://", "xdstp://a", "xdstp://a/", "xdstp:///", "xdstp:a/b?y&x", "%41"] {
            assert!(matches!(canonical(name), Cow::Borrowed(same) if same == name), "{name}");
        }
    }

    #[test]
    fn d29_a_glob_is_an_asterisk_after_the_last_slash() {
        for name in ["*", "a/*", "xdstp://a/b.C/d*", "xdstp://a/b.C/*/d", "xdstp://a/b.C/d?x=/*", "xdstp://"] {
            assert_eq!(Glob::parse(name), None, "{name}");
        }
        let glob = Glob::parse("xdstp://a/b.C/d/*").unwrap();
        assert!(glob.covers("xdstp://a/b.C/d/e") && glob.covers("xdstp://a/b.C/d/e/f"));
        for other in ["xdstp://a/b.C/d", "xdstp://a/b.C/de", "xdstp://z/b.C/d/e", "xdstp://a/b.C/d/e?x=1"] {
            assert!(!glob.covers(other), "{other}");
        }
        let glob = Glob::parse("xdstp://a/b.C/d/*?x=1").unwrap();
        assert!(glob.covers("xdstp://a/b.C/d/e?x=1"));
        for other in ["xdstp://a/b.C/d/e", "xdstp://a/b.C/d/e?x=2", "xdstp://a/b.C/d/e?x=1&y=2"] {
            assert!(!glob.covers(other), "{other}");
        }
        assert!(Glob::parse("xdstp://a/b.C/*").unwrap().covers("xdstp://a/b.C/d"), "all of a type");
    }

    proptest! {
        #[test]
        fn v6_a_canonical_name_is_its_own(name in "xdstp://[a%:/]{0,3}/[a-c./]{0,3}[/%?&=#~ü25a]{0,12}") {
            let once = canonical(&name).into_owned();
            prop_assert_eq!(canonical(&once), &*once, "of {:?}", name);
        }
    }
}
