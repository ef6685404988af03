//! The text format of addresses on the command line.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use envoy_types::pb::envoy::config::core::v3 as core_v3;

/// `lockgate.ingress:18000`, `10.0.0.1:18000`, `[::1]:18000` or `unix:/run/envoy.sock`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// An IP address and a port.
    Ip(IpAddr, u16),
    /// A name to resolve and a port.
    Name(String, u16),
    /// The path of a unix socket.
    Unix(String),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected =
            || "expected HOST:PORT, such as 127.0.0.1:18000, [::1]:18000 or lockgate.ingress:18000".to_owned();
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.starts_with('/') {
                true => Ok(Self::Unix(path.to_owned())),
                false => Err("expected an absolute path after unix:".to_owned()),
            };
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(expected)?;
        let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(expected)?;
        if let Some(address) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            return Ok(Self::Ip(IpAddr::V6(address.parse().map_err(|_| expected())?), port));
        }
        match host.parse() {
            Ok(address @ IpAddr::V4(_)) => Ok(Self::Ip(address, port)),
            _ if is_name(host) => Ok(Self::Name(host.to_owned(), port)),
            _ => Err(expected()),
        }
    }
}

fn is_name(text: &str) -> bool {
    let character = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'_';
    text.len() <= 253
        && text.trim_end_matches('.').split('.').all(|label| !label.is_empty() && label.bytes().all(character))
}

/// Formats the address as on the command line.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(IpAddr::V6(address), port) => write!(f, "[{address}]:{port}"),
            Self::Ip(address, port) => write!(f, "{address}:{port}"),
            Self::Name(name, port) => write!(f, "{name}:{port}"),
            Self::Unix(path) => write!(f, "unix:{path}"),
        }
    }
}

impl Address {
    /// Returns the address as an Envoy message.
    pub fn message(&self) -> core_v3::Address {
        use core_v3::socket_address::PortSpecifier;
        let (address, port) = match self {
            Self::Ip(address, port) => (address.to_string(), *port),
            Self::Name(name, port) => (name.clone(), *port),
            Self::Unix(path) => {
                let pipe = core_v3::Pipe { path: path.clone(), mode: 0 };
                return core_v3::Address { address: Some(core_v3::address::Address::Pipe(pipe)) };
            }
        };
        let socket = core_v3::SocketAddress {
            address,
            port_specifier: Some(PortSpecifier::PortValue(port.into())),
            ..Default::default()
        };
        core_v3::Address { address: Some(core_v3::address::Address::SocketAddress(socket)) }
    }

    /// Returns the address to connect to if a socket listens on this address. `0.0.0.0` and `::` become a loopback
    /// address.
    pub fn to_connect(&self) -> Self {
        match self {
            Self::Ip(IpAddr::V4(address), port) if address.is_unspecified() => {
                Self::Ip(std::net::Ipv4Addr::LOCALHOST.into(), *port)
            }
            Self::Ip(IpAddr::V6(address), port) if address.is_unspecified() => {
                Self::Ip(std::net::Ipv6Addr::LOCALHOST.into(), *port)
            }
            other => other.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for text in ["127.0.0.1:18000", "[::1]:18000", "lockgate.ingress:18000", "localhost.:1", "unix:/run/a.sock"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in
            ["", "18000", "a:", "a:0", "a:65536", "::1:80", "[::1]", "[1.2.3.4]:1", "a b:1", ":80", "unix:a", "a..b:1"]
        {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn nobody_connects_to_every_address() {
        assert_eq!("0.0.0.0:9901".parse::<Address>().unwrap().to_connect().to_string(), "127.0.0.1:9901");
        assert_eq!("[::]:9901".parse::<Address>().unwrap().to_connect().to_string(), "[::1]:9901");
        assert_eq!("10.0.0.1:1".parse::<Address>().unwrap().to_connect().to_string(), "10.0.0.1:1");
    }
}
