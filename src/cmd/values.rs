//! Parsers of values on the command line. Each error names the allowed values; clap adds the flag and the value.

use std::net::SocketAddr;
use std::time::Duration;

use lockgate_route::settings::is_label;

use super::bootstrap::Address;
use crate::export::Reload;
use crate::settings::{self, Override};
use crate::yaml::Node;

/// Parses a duration: `20s`, `500ms`, `1m30s`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    settings::duration(text)
}

/// Parses a [`duration`] above zero.
pub(super) fn timeout(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("expected more than zero".to_owned()),
        timeout => Ok(timeout),
    }
}

/// Parses `rename`, `directory`, or a [`timeout`].
pub(super) fn reload(text: &str) -> Result<Reload, String> {
    match text {
        "rename" => Ok(Reload::Rename),
        "directory" => Ok(Reload::Directory),
        _ => timeout(text)
            .map(Reload::Poll)
            .map_err(|error| format!("{error}; rename, directory and a time such as 5s are allowed")),
    }
}

/// Parses an amount of memory such as `512MiB`, like the key `overload.maxHeap` of the settings file. `0` means no
/// limit.
pub(super) fn heap(text: &str) -> Result<u64, String> {
    let given = Override { key: "overload.maxHeap", flag: "", value: Node::text(text) };
    settings::check_value(given.key, &given.value)?;
    let resolved = settings::resolve("", "", &[given]).map_err(|faults| faults.to_string())?;
    resolved.settings.overload.max_heap_bytes.ok_or_else(|| "expected bytes with a unit, such as 512MiB".to_owned())
}

/// Parses the name of a namespace.
pub(super) fn namespace(text: &str) -> Result<String, String> {
    match is_label(text) {
        true => Ok(text.to_owned()),
        false => Err("expected a name of lower-case letters, digits, and -, such as shop".to_owned()),
    }
}

/// Parses the permission bits of a file: `0660`.
pub(super) fn mode(text: &str) -> Result<u32, String> {
    let expected = || "expected permissions in octal, such as 0600 or 0660".to_owned();
    u32::from_str_radix(text, 8).ok().filter(|mode| (1..=0o777).contains(mode)).ok_or_else(expected)
}

/// Parses a socket address: `[::]:18000` or `127.0.0.1:18000`.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "expected an IP address and a port, such as 127.0.0.1:18000 or [::1]:18000".to_owned())
}

/// Parses the address of a server to connect to: `127.0.0.1:18001` or `lockgate.ingress:18001`.
pub(super) fn host_and_port(text: &str) -> Result<String, String> {
    match text.parse() {
        Ok(Address::Ip(..) | Address::Name(..)) => Ok(text.to_owned()),
        _ => Err("expected HOST:PORT without a scheme, such as 127.0.0.1:18001".to_owned()),
    }
}

/// Parses an identifier that can be sent unchanged over the wire.
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
    fn values_are_checked() {
        assert!(timeout("0s").is_err() && timeout("1s").is_ok());
        assert!(
            host_and_port("127.0.0.1:1").is_ok() && host_and_port("[::1]:1").is_ok() && host_and_port("a.b:1").is_ok()
        );
        for text in ["127.0.0.1", "http://127.0.0.1:1", "unix:/a", "a:0", "a:70000"] {
            assert!(host_and_port(text).is_err(), "{text}");
        }
        assert!(reload("0s").is_err_and(|error| error.ends_with("are allowed")));
    }
}
