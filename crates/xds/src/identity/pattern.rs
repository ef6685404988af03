//! Patterns of names, as settings write them.

use std::fmt;

use super::Names;

/// A name, or a pattern of names.
///
/// A text with `://` is a pattern of URIs, any other text is a pattern of DNS names. `*` matches any characters within
/// one label of a DNS name, or within one segment of a URI. A lone `*` matches every certificate, even one without a
/// name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    kind: Kind,
    text: String,
    /// Whether `*` matches only itself.
    exact: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Any,
    Dns,
    Uri,
}

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// If `text` is not a valid pattern.
    pub fn parse(text: &str) -> Result<Self, String> {
        let kind = match text {
            "*" => Kind::Any,
            _ if text.contains("://") => Kind::Uri,
            _ => Kind::Dns,
        };
        let printable = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',');
        let dns = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.*".contains(&byte);
        let good = match kind {
            Kind::Any => true,
            Kind::Uri => text.split_once("://").is_some_and(|(scheme, rest)| {
                !scheme.is_empty() && !scheme.contains('*') && !rest.is_empty() && !rest.starts_with('/')
            }),
            Kind::Dns => !text.is_empty() && text.bytes().all(dns) && text.split('.').all(|label| !label.is_empty()),
        };
        match good && printable {
            true => Ok(Self { kind, text: text.to_owned(), exact: false }),
            false => Err("expected a DNS name such as envoy or *.envoys.example.com, or a URI such as \
                          spiffe://example.com/ns/ingress/sa/envoy"
                .to_owned()),
        }
    }

    /// Creates a pattern that matches one DNS name.
    pub fn exact_dns(name: &str) -> Self {
        Self { kind: Kind::Dns, text: name.to_owned(), exact: true }
    }

    /// Creates a pattern that matches one URI.
    pub fn exact_uri(uri: &str) -> Self {
        Self { kind: Kind::Uri, text: uri.to_owned(), exact: true }
    }

    /// Returns whether one of `names` matches.
    pub fn matches(&self, names: &Names) -> bool {
        match self.kind {
            Kind::Any => true,
            // DNS names have no case. Source: RFC 4343.
            Kind::Dns => {
                names.dns.iter().any(|name| self.fits(&name.to_ascii_lowercase(), &self.text.to_ascii_lowercase(), '.'))
            }
            Kind::Uri => names.uris.iter().any(|uri| self.fits(uri, &self.text, '/')),
        }
    }

    fn fits(&self, name: &str, pattern: &str, separator: char) -> bool {
        if self.exact {
            return name == pattern;
        }
        let (mut parts, mut patterns) = (name.split(separator), pattern.split(separator));
        loop {
            match (parts.next(), patterns.next()) {
                (None, None) => return true,
                (Some(part), Some(pattern)) if part == pattern || (!part.is_empty() && glob(part, pattern)) => {}
                _ => return false,
            }
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Returns whether `text` matches `pattern`, in which `*` matches any number of characters. It takes linear time,
/// because each piece between two `*` is searched for once.
fn glob(text: &str, pattern: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return text == pattern };
    let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(text) = text.strip_prefix(head).and_then(|text| text.strip_suffix(tail)) else { return false };
    let mut left = text;
    middle.split('*').all(|piece| match left.find(piece) {
        Some(at) => {
            left = left.get(at + piece.len()..).unwrap_or_default();
            true
        }
        None => false,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        let mut names = Names::default();
        if name.contains("://") { &mut names.uris } else { &mut names.dns }.push(name.to_owned());
        Pattern::parse(pattern).unwrap().matches(&names)
    }

    #[test]
    fn a_star_matches_a_part_of_one_label_or_segment() {
        for (pattern, name, expected) in [
            ("envoy", "envoy", true),
            ("envoy", "ENVOY", true),
            ("envoy", "envoy.shop", false),
            ("envoy", "my-envoy", false),
            ("*.example.com", "a.example.com", true),
            ("*.example.com", "example.com", false),
            ("*.example.com", "a.b.example.com", false),
            ("envoy-*.example.com", "envoy-1.example.com", true),
            ("envoy-*.example.com", "other.example.com", false),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("*.*", "a.b", true),
            ("spiffe://example.org/ns/*/sa/envoy", "spiffe://example.org/ns/edge/sa/envoy", true),
            ("spiffe://example.org/ns/*/sa/envoy", "spiffe://example.org/ns/a/b/sa/envoy", false),
            ("spiffe://example.org/ns/*/sa/envoy", "spiffe://example.org/ns//sa/envoy", false),
            ("spiffe://example.org/ns/*/sa/envoy", "spiffe://example.com/ns/a/sa/envoy", false),
            ("spiffe://example.org/envoy", "spiffe://example.org/envoy/x", false),
            ("spiffe://example.org/*", "envoy", false),
            ("envoy", "spiffe://envoy", false),
            ("*", "anything.at.all", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
        assert!(Pattern::parse("*").unwrap().matches(&Names::default()), "a certificate without names");
    }

    #[test]
    fn a_star_in_a_certificate_matches_only_itself() {
        let names = Names { dns: vec!["*.example.com".to_owned()], uris: vec![] };
        let exact = Pattern::exact_dns("*.example.com");
        assert!(exact.matches(&names));
        assert!(!exact.matches(&Names { dns: vec!["a.example.com".to_owned()], uris: vec![] }));
        assert!(!Pattern::parse("a.example.com").unwrap().matches(&names));
    }

    #[test]
    fn invalid_patterns_are_rejected() {
        for text in ["", "a b", "a..b", ".a", "://x", "*://x", "spiffe://", "spiffe:///x", "a/b", "a,b", "ü"] {
            assert!(Pattern::parse(text).is_err(), "{text:?}");
        }
    }
}
