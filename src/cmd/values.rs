//! How values on the command line are written. Each error says what is allowed; clap puts the flag and the value
//! before it.

use std::net::SocketAddr;
use std::time::Duration;

use crate::export::Reload;
use crate::settings;

/// `20s`, `500ms`, `1m30s`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    settings::duration(text)
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

/// The name of a namespace. Source: Kubernetes "Object Names and IDs", RFC 1123 label names.
pub(super) fn namespace(text: &str) -> Result<String, String> {
    match settings::is_label(text) {
        true => Ok(text.to_owned()),
        false => Err("expected names of namespaces with commas between them, such as shop,payments".to_owned()),
    }
}

/// The name of an object. Source: as above, DNS subdomain names.
pub(super) fn object_name(text: &str) -> Result<String, String> {
    match settings::is_subdomain(text) {
        true => Ok(text.to_owned()),
        false => Err("expected the name of an object, such as lockgate".to_owned()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_may_be_off() {
        assert!(timeout("0s").is_err());
        assert_eq!(limit("off"), Ok(Limit(None)));
        assert!(limit("never").is_err_and(|error| error.ends_with("or off")));
    }

    #[test]
    fn namespaces_are_labels() {
        assert!(namespace("shop").is_ok());
        assert!(namespace("a.b").is_err());
    }
}
