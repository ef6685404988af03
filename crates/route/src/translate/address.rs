//! Addresses that are forbidden for the objects of tenants: Envoy's own machine, and cloud metadata.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Metadata addresses of clouds outside of 169.254.0.0/16, which often serve credentials. Source: documentation of AWS,
/// Google Cloud, Alibaba Cloud, Oracle Cloud, Azure.
const METADATA: [IpAddr; 5] = [
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
];

/// Checks that `address` belongs to another host and not to cloud metadata. The error describes the forbidden address.
pub fn check(address: IpAddr) -> Result<(), &'static str> {
    let address = canonical(address);
    let link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    // All of 0.0.0.0/8 means "this host".
    let this_host = matches!(address, IpAddr::V4(v4) if v4.octets()[0] == 0 || v4.is_broadcast());
    match address {
        _ if address.is_unspecified() => Err("is the unspecified address"),
        _ if address.is_loopback() => Err("is a loopback address"),
        _ if link_local => Err("is a link-local address"),
        _ if this_host => Err("is not the address of another host"),
        _ if address.is_multicast() => Err("is a multicast address"),
        _ if METADATA.contains(&address) => Err("is an address of cloud metadata"),
        _ => Ok(()),
    }
}

/// Returns the IPv4 address that an IPv6 address contains: mapped, in the old compatible form, or for NAT64 (RFC 6052).
pub fn canonical(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    if v6.is_loopback() || v6.is_unspecified() {
        return address;
    }
    match (v6.segments(), v6.to_ipv4()) {
        (_, Some(v4)) => v4.into(),
        ([0x64, 0xff9b, 0, 0, 0, 0, high, low], _) => Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)).into(),
        _ => address,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn only_addresses_of_other_hosts_are_allowed() {
        for text in [
            "127.0.0.1",
            "127.8.8.8",
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "169.254.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "168.63.129.16",
            "100.100.100.200",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::169.254.169.254",
            "fe80::1",
            "febf::1",
            "ff02::1",
            "fd00:ec2::254",
            "fd20:ce::254",
        ] {
            assert!(check(text.parse().unwrap()).is_err(), "{text}");
        }
        for text in ["10.0.0.1", "192.168.1.1", "172.16.0.1", "100.64.0.1", "8.8.8.8", "fd00::1", "2001:db8::1"] {
            assert_eq!(check(text.parse().unwrap()), Ok(()), "{text}");
        }
    }
}
