//! The clients that may send requests, by address.

use std::fmt;
use std::net::IpAddr;

/// The clients that may send requests, by address. Behind trusted proxies, this is the address of the original client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientAddresses {
    /// The allowed addresses. Empty: all.
    pub allow: Vec<ClientRange>,
    /// The denied addresses, even if they are allowed.
    pub deny: Vec<ClientRange>,
}

/// A range of addresses of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientRange {
    /// The range.
    pub range: AddressRange,
    /// Whether the address of the connection counts, even if it is that of a trusted proxy. The PROXY protocol replaces it.
    pub of_connection: bool,
}

impl From<AddressRange> for ClientRange {
    fn from(range: AddressRange) -> Self {
        Self { range, of_connection: false }
    }
}

/// A range of IP addresses with a common prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AddressRange {
    address: IpAddr,
    length: u8,
}

impl AddressRange {
    /// Parses `192.0.2.0/24`, `2001:db8::/32`, or a single address. Returns `None` if the syntax is wrong, or if bits beyond
    /// the prefix are set: the author may have meant another range.
    ///
    /// `::ffff:192.0.2.0/120` is `192.0.2.0/24`.
    pub fn parse(text: &str) -> Option<Self> {
        Self::parse_with_rest(text).filter(|(_, has_rest)| !has_rest).map(|(range, _)| range)
    }

    /// Parses a range like [`Self::parse`]. Bits beyond the prefix have no effect: `192.0.2.7/24` is `192.0.2.0/24`.
    pub fn parse_around(text: &str) -> Option<Self> {
        Self::parse_with_rest(text).map(|(range, _)| range)
    }

    /// Returns the range, and whether bits beyond the prefix are set.
    fn parse_with_rest(text: &str) -> Option<(Self, bool)> {
        /// The length of the prefix of all IPv4 addresses in IPv6. Source: RFC 4291 section 2.5.5.2.
        const MAPPED: u8 = 96;
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address.parse().ok()?, Some(length)),
            None => (text.parse().ok()?, None),
        };
        let (bits, most) = match address {
            IpAddr::V4(address) => (u128::from(u32::from(address)) << 96, 32),
            IpAddr::V6(address) => (u128::from(address), 128),
        };
        let length = match length {
            Some(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok()?,
            Some(_) => return None,
            None => most,
        };
        if length > most {
            return None;
        }
        let rest = bits.checked_shl(length.into()).unwrap_or(0);
        let address = first(address, length);
        // Envoy compares IPv4 clients with IPv4 ranges alone.
        let mapped = match address {
            IpAddr::V6(address) if length >= MAPPED => address.to_ipv4_mapped(),
            _ => None,
        };
        let range = mapped.map_or(Self { address, length }, |v4| Self { address: v4.into(), length: length - MAPPED });
        Some((range, rest != 0))
    }

    /// Returns the first address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Returns the length of the prefix in bits.
    pub fn length(&self) -> u8 {
        self.length
    }
}

/// Returns the first address with the same prefix of this length.
fn first(address: IpAddr, length: u8) -> IpAddr {
    let kept = |most: u8| u32::from(most.saturating_sub(length));
    match address {
        IpAddr::V4(v4) => IpAddr::V4((u32::from(v4) & u32::MAX.checked_shl(kept(32)).unwrap_or(0)).into()),
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) & u128::MAX.checked_shl(kept(128)).unwrap_or(0)).into()),
    }
}

/// `192.0.2.0/24`
impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_no_bits_beyond_its_prefix() {
        for (text, shown) in [
            ("192.0.2.0/24", "192.0.2.0/24"),
            ("192.0.2.7", "192.0.2.7/32"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("::/0", "::/0"),
            ("2001:db8::/32", "2001:db8::/32"),
            ("2001:db8::1", "2001:db8::1/128"),
            ("::ffff:127.0.0.0/104", "127.0.0.0/8"),
            ("::ffff:192.0.2.7", "192.0.2.7/32"),
            ("::/95", "::/95"),
        ] {
            assert_eq!(AddressRange::parse(text).map(|range| range.to_string()).as_deref(), Some(shown), "{text}");
        }
        for text in [
            "",
            "/",
            "192.0.2.1/24",
            "192.0.2.0/33",
            "192.0.2.0/",
            "192.0.2.0/+8",
            "192.0.2/24",
            "2001:db8::/129",
            "2001:db8::1/64",
            "example.com",
            "192.0.2.0/24 ",
            "300.0.0.0/8",
        ] {
            assert_eq!(AddressRange::parse(text), None, "{text}");
        }
        for (text, shown) in [
            ("192.0.2.7/24", "192.0.2.0/24"),
            ("192.0.2.7/0", "0.0.0.0/0"),
            ("2001:db8::7/32", "2001:db8::/32"),
            ("::7/0", "::/0"),
            ("::ffff:192.0.2.7/120", "192.0.2.0/24"),
            ("192.0.2.7", "192.0.2.7/32"),
        ] {
            assert_eq!(
                AddressRange::parse_around(text).map(|range| range.to_string()).as_deref(),
                Some(shown),
                "{text}"
            );
        }
        assert_eq!(AddressRange::parse_around("192.0.2.7/33"), None);
    }
}
