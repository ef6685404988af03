//! URIs of servers that Envoy calls. Envoy rejects a complete host for a URI that it cannot read.

use std::net::Ipv6Addr;

use crate::objects::ObjectKey;

/// The longest URI.
const LONGEST: usize = 1024;

/// A URI with the scheme `http` or `https`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uri<'u> {
    /// Whether the scheme is `https`.
    pub is_https: bool,
    /// The host. An IPv6 address is in brackets.
    pub host: &'u str,
    /// The port.
    pub port: u16,
}

impl<'u> Uri<'u> {
    /// Parses a URI with the scheme `http` or `https`, a host, and a path. Returns `None` if the text is none.
    pub fn parse(text: &'u str) -> Option<Self> {
        let (is_https, rest) = match text.split_once("://")? {
            ("https", rest) => (true, rest),
            ("http", rest) => (false, rest),
            _ => return None,
        };
        let authority = rest.split_once('/').map_or(rest, |(authority, _)| authority);
        let is_visible = text.len() <= LONGEST && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        if !is_visible {
            return None;
        }
        let (host, rest) = match authority.strip_prefix('[').and_then(|text| text.split_once(']')) {
            Some((address, rest)) => {
                address.parse::<Ipv6Addr>().ok()?;
                (&authority[..address.len() + 2], rest)
            }
            None => {
                let (name, rest) = authority.split_at(authority.find(':').unwrap_or(authority.len()));
                let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
                (!name.is_empty() && name.bytes().all(is_allowed)).then_some((name, rest))?
            }
        };
        let port = match rest.strip_prefix(':') {
            Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => port.parse().ok()?,
            None if rest.is_empty() => {
                if is_https {
                    443
                } else {
                    80
                }
            }
            _ => return None,
        };
        Some(Self { is_https, host, port })
    }

    /// Returns the Service that the host names: `NAME.NAMESPACE.svc` or `NAME.NAMESPACE.svc.cluster.local`.
    pub fn service(&self) -> Option<ObjectKey> {
        let lower = self.host.to_ascii_lowercase();
        let name = lower.strip_suffix(".svc").or_else(|| lower.strip_suffix(".svc.cluster.local"))?;
        let (name, namespace) = name.split_once('.')?;
        (!name.is_empty() && !namespace.is_empty() && !namespace.contains('.')).then(|| ObjectKey::new(namespace, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_has_a_scheme_and_a_host() {
        let parse = |text| Uri::parse(text).map(|uri| (uri.is_https, uri.host, uri.port));
        assert_eq!(parse("https://login.example.com/keys?x=1"), Some((true, "login.example.com", 443)));
        assert_eq!(parse("http://keys.shop:8080"), Some((false, "keys.shop", 8080)));
        assert_eq!(parse("http://[2001:db8::1]/keys"), Some((false, "[2001:db8::1]", 80)));
        for text in [
            "",
            "login.example.com/keys",
            "ftp://a/keys",
            "https:///keys",
            "https://a b/",
            "https://u@a/",
            "https://a/#b",
            "HTTPS://a/",
            "https://a/\r\nx",
            "http://[::1]:65536/",
            "http://[::1/",
            "http://a]/",
            "http://[a]/",
            "http://a:/",
            "http://a:b:c/",
            "http://a:+80/",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse(&format!("https://a/{}", "x".repeat(LONGEST))), None);
    }

    #[test]
    fn a_host_can_name_a_service() {
        let service = |text| Uri::parse(text).and_then(|uri| uri.service()).map(|key| key.to_string());
        assert_eq!(service("http://keys.shop.svc/jwks").as_deref(), Some("shop/keys"));
        assert_eq!(service("https://Keys.shop.svc.cluster.local:8443/").as_deref(), Some("shop/keys"));
        for text in ["http://keys.shop/", "http://a.keys.shop.svc/", "http://.shop.svc/", "http://example.com/"] {
            assert_eq!(service(text), None, "{text}");
        }
    }
}
