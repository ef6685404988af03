//! How values on the command line are written. Each error says what is allowed; clap puts the flag and the value
//! before it.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::export::Reload;

/// `20s`, `500ms`, `1m30s`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let expected = || "expected a number and a unit (ms, s, m, h), such as 500ms, 20s or 1m30s".to_owned();
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() || text.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(expected)?;
        let unit_len = rest[digits..].find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len() - digits);
        let number: u64 = rest[..digits].parse().map_err(|_| expected())?;
        let unit_ms: u64 = match &rest[digits..digits + unit_len] {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return Err(expected()),
        };
        let part = number.checked_mul(unit_ms).map(Duration::from_millis).ok_or_else(expected)?;
        total = total.checked_add(part).ok_or_else(expected)?;
        rest = &rest[digits + unit_len..];
    }
    Ok(total)
}

/// A [`duration`] above zero.
pub(super) fn timeout(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("expected more than zero".to_owned()),
        timeout => Ok(timeout),
    }
}

/// A [`timeout`], or `off`.
pub(super) fn limit(text: &str) -> Result<Limit, String> {
    match text {
        "off" => Ok(Limit(None)),
        _ => timeout(text).map(|timeout| Limit(Some(timeout))).map_err(|error| format!("{error}, or off")),
    }
}

/// A time limit; `None` is none. A type of its own, for clap takes a bare `Option` to be an optional flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limit(pub(super) Option<Duration>);

/// `rename`, `directory`, or a [`timeout`].
pub(super) fn reload(text: &str) -> Result<Reload, String> {
    match text {
        "rename" => Ok(Reload::Rename),
        "directory" => Ok(Reload::Directory),
        _ => timeout(text)
            .map(Reload::Poll)
            .map_err(|error| format!("{error}; rename, directory and a time such as 5s are allowed")),
    }
}

/// The permission bits of a file, `0660`.
pub(super) fn mode(text: &str) -> Result<u32, String> {
    let expected = || "expected permissions in octal, such as 0600 or 0660".to_owned();
    u32::from_str_radix(text, 8).ok().filter(|mode| (1..=0o777).contains(mode)).ok_or_else(expected)
}

/// `0.0.0.0:18000` or `[::1]:18000`.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "expected an IP address and a port, such as 127.0.0.1:18000 or [::1]:18000".to_owned())
}

/// `lockgate-peers.ingress.svc:18000`
pub(super) fn host_port(text: &str) -> Result<String, String> {
    let parts = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    match parts.and_then(|(_, port)| port.parse::<u16>().ok()) {
        Some(port) if port != 0 => Ok(text.to_owned()),
        _ => Err("expected HOST:PORT, such as lockgate-peers.ingress.svc:18000".to_owned()),
    }
}

/// `namespace/name`.
pub(super) fn namespaced_name(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((namespace, name)) if is_label(namespace) && is_subdomain(name) => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err("expected NAMESPACE/NAME, such as ingress/wildcard-tls".to_owned()),
    }
}

/// The name of a namespace. Source: Kubernetes "Object Names and IDs", RFC 1123 label names.
pub(super) fn namespace(text: &str) -> Result<String, String> {
    match is_label(text) {
        true => Ok(text.to_owned()),
        false => Err("expected names of namespaces with commas between them, such as shop,payments".to_owned()),
    }
}

/// The name of an IngressClass. Source: as above, DNS subdomain names.
pub(super) fn class(text: &str) -> Result<String, String> {
    match is_subdomain(text) {
        true => Ok(text.to_owned()),
        false => Err("expected the name of an IngressClass, such as public".to_owned()),
    }
}

/// The name of an object. Source: as above.
pub(super) fn object_name(text: &str) -> Result<String, String> {
    match is_subdomain(text) {
        true => Ok(text.to_owned()),
        false => Err("expected the name of an object, such as lockgate".to_owned()),
    }
}

/// An IP address or a DNS name.
pub(super) fn reachable(text: &str) -> Result<String, String> {
    match text.parse::<IpAddr>().is_ok() || is_subdomain(text) {
        true => Ok(text.to_owned()),
        false => Err("expected IP addresses and DNS names, such as 192.0.2.1,lb.example.com".to_owned()),
    }
}

/// A filter of the log.
pub(super) fn log_level(text: &str) -> Result<String, String> {
    crate::telemetry::check_filter(text).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

/// A text that goes over the wire as it is.
pub(super) fn identifier(text: &str) -> Result<String, String> {
    match !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic()) {
        true => Ok(text.to_owned()),
        false => Err("expected printable ASCII without spaces, such as lockgate-0".to_owned()),
    }
}

fn is_label(text: &str) -> bool {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    !text.is_empty() && text.len() <= 63 && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("20s"), Ok(Duration::from_secs(20)));
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        for text in ["", "20", "s", "1.5s", "-1s", "20 s", "1d", "99999999999999999999s", "5124095576030431h1ms", "1é"]
        {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(timeout("0s").is_err());
        assert_eq!(limit("off"), Ok(Limit(None)));
        assert!(limit("never").is_err_and(|error| error.ends_with("or off")));
    }

    #[test]
    fn names_are_those_that_kubernetes_takes() {
        assert_eq!(namespaced_name("shop/cart.tls"), Ok(("shop".to_owned(), "cart.tls".to_owned())));
        for text in ["cart", "/cart", "shop/", "shop/cart/tls", "Shop/cart", "-a/b", "a b/c"] {
            assert!(namespaced_name(text).is_err(), "{text}");
        }
        assert!(namespace("a.b").is_err());
        assert!(class("a.b").is_ok());
    }
}
