//! Changes of the cookies that backends set.

use std::sync::Arc;

use super::CookieName;

/// The changes of the attributes of a cookie. An attribute that is `None` stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CookieRewrite {
    /// The name of the cookie.
    pub name: CookieName,
    /// `Path`.
    pub path: Option<CookieAttribute>,
    /// `Domain`.
    pub domain: Option<CookieAttribute>,
    /// Whether the cookie has the attribute `Secure`.
    pub secure: Option<bool>,
    /// `SameSite`.
    pub same_site: Option<SameSite>,
}

/// The value of an attribute of a cookie. It cannot end the attribute or the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CookieAttribute(Arc<str>);

/// The requests from other sites that have a cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants have the names of the values")]
pub enum SameSite {
    Strict,
    Lax,
    None,
}

impl SameSite {
    /// Returns the value of the attribute.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "Strict",
            Self::Lax => "Lax",
            Self::None => "None",
        }
    }
}

impl CookieAttribute {
    /// Parses a value of at most 4096 bytes: printable ASCII characters without semicolons, and no space at its ends. Source: RFC 6265
    /// section 4.1.1, `path-value`.
    pub fn parse(text: &str) -> Option<Self> {
        const LONGEST: usize = 4096;
        let is_printable = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b';';
        let is_valid = (1..=LONGEST).contains(&text.len()) && text.bytes().all(is_printable) && text.trim() == text;
        is_valid.then(|| Self(text.into()))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The changes of the cookies of a route, by cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CookieRewrites {
    /// The different lists of changes, at least one. If there are several, the response header [`CookieRewrites::HEADER`] of each cluster
    /// has the number of its list, from 1.
    pub lists: Vec<Vec<CookieRewrite>>,
}

impl CookieRewrites {
    /// The response header with the number of the list of a cluster. Clients do not receive it.
    pub const HEADER: &'static str = "x-lockgate-cookies";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_cannot_end_itself() {
        for text in ["/", "/a=b", "shop.example.com", "/%2F'", "\" .. f() .. \"", "/a, b", "/\\a"] {
            assert_eq!(CookieAttribute::parse(text).map(|value| value.as_str().to_owned()).as_deref(), Some(text));
        }
        for text in ["", "/a; Secure", "/a ", "/a\r\nset-cookie: b", "/\u{e9}", "/\0", "/\x7f"] {
            assert_eq!(CookieAttribute::parse(text), None, "{text:?}");
        }
        assert_eq!(CookieAttribute::parse(&"a".repeat(4097)), None);
    }
}
