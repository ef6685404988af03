//! Host names of rules and TLS entries, and the certificate names that cover them.

use crate::model::{CertificateNames, Host};
use crate::settings::is_label;

/// Parses the host of an Ingress rule or TLS entry: an exact name, `*.name`, or every host if `text` is empty. Upper
/// case is converted to lower case, because DNS and Envoy ignore case. The error describes the fault, for a message
/// that quotes `text`. Source: Ingress v1 `IngressRule.host`; RFC 1123.
pub fn parse(text: &str) -> Result<Host, &'static str> {
    if text.is_empty() {
        return Ok(Host::Any);
    }
    let text = text.to_ascii_lowercase();
    match text.strip_prefix("*.") {
        Some(suffix) => check_name(suffix).map(|()| Host::Wildcard(suffix.into())),
        None => check_name(&text).map(|()| Host::Exact(text.as_str().into())),
    }
}

/// Checks that `name` is a DNS name of lower-case labels, not an IP address.
fn check_name(name: &str) -> Result<(), &'static str> {
    if name.parse::<std::net::IpAddr>().is_ok() {
        return Err("is an IP address");
    }
    if name.contains('*') {
        return Err("has \"*\" other than as its complete first label");
    }
    if name.contains("://") {
        return Err("is a URL, and only its host belongs here");
    }
    if name.contains('/') {
        return Err("has a path, and only the host belongs here");
    }
    if name.contains(':') {
        return Err("has a port");
    }
    if name.len() > 253 {
        return Err("is longer than 253 characters");
    }
    if !name.split('.').all(is_label) {
        return Err("is not a DNS name");
    }
    Ok(())
}

/// Returns the wildcard host directly above `host`: `*.example.com` for `shop.example.com`.
pub fn parent(host: &Host) -> Option<Host> {
    match host {
        Host::Exact(name) => name.split_once('.').map(|(_, suffix)| Host::Wildcard(suffix.into())),
        Host::Wildcard(_) | Host::Any => None,
    }
}

/// Returns whether a certificate for `names` (lower case, perhaps `*.suffix`) covers every name that `host` matches.
/// Source: RFC 6125 6.4.3: a wildcard matches exactly one label.
pub fn covered(host: &Host, names: &CertificateNames) -> bool {
    match host {
        Host::Exact(name) => {
            names.contains(name) || parent(host).is_some_and(|parent| names.contains(&parent.to_string()))
        }
        Host::Wildcard(_) => names.contains(&host.to_string()),
        Host::Any => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fault_names_what_does_not_belong_to_a_host() {
        for (text, fault) in [
            ("https://shop.example.com", "is a URL, and only its host belongs here"),
            ("http://shop.example.com:80/cart", "is a URL, and only its host belongs here"),
            ("shop.example.com/cart", "has a path, and only the host belongs here"),
            ("shop.example.com:80", "has a port"),
            ("::1", "is an IP address"),
        ] {
            assert_eq!(parse(text), Err(fault), "{text}");
        }
    }

    #[test]
    fn host_names_wildcards_and_empty_texts_are_parsed() {
        assert_eq!(parse(""), Ok(Host::Any));
        assert_eq!(parse("Shop.Example.COM"), Ok(Host::Exact("shop.example.com".into())));
        assert_eq!(parse("*.Example.com"), Ok(Host::Wildcard("example.com".into())));
        assert_eq!(parse("localhost"), Ok(Host::Exact("localhost".into())));
        for bad in [
            "*", "*.", "a.*.com", "*a.com", "a..com", "a.com.", "a.com:80", "10.0.0.1", "::1", "a_b.com", "-a.com",
            "a b",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(parse(&"a".repeat(64)).is_err());
        assert!(parse(&"a.".repeat(127)).is_err());
    }

    #[test]
    fn a_wildcard_certificate_covers_one_label() {
        let names = vec!["b.org".to_owned(), "*.example.com".to_owned()].into();
        for (host, expected) in [
            ("a.example.com", true),
            ("example.com", false),
            ("a.b.example.com", false),
            ("*.example.com", true),
            ("*.b.org", false),
            ("b.org", true),
            ("", false),
        ] {
            assert_eq!(parse(host).map(|host| covered(&host, &names)), Ok(expected), "{host}");
        }
    }
}
