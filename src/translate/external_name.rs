//! Where a Service of type ExternalName may lead: out of the Kubernetes cluster, and never to Envoy itself.
//! Source: GHSA-5ph6-qq5x-7jwc.

use std::net::IpAddr;

use crate::settings::Settings;
use crate::source::objects::Objects;

/// Where an ExternalName leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A DNS name, lower case, without the dot at its end.
    Name(String),
    /// A literal address, IPv4 also if it was written as IPv4-mapped IPv6.
    Address(IpAddr),
}

/// Names that lead to the host itself. The last is Contour's own.
const LOOPBACK_NAMES: [&str; 7] = [
    "localhost",
    "localhost.localdomain",
    "localhost4",
    "localhost6",
    "ip6-localhost",
    "ip6-loopback",
    "local.projectcontour.io",
];

/// Where `name`, a Service's `spec.externalName`, leads. Errors: why it must not be reached, for a message that
/// quotes it.
pub fn target(name: &str, objects: &Objects, settings: &Settings) -> Result<Target, &'static str> {
    if !settings.external_names.allow {
        return Err("is not served: Services of type ExternalName are switched off");
    }
    let lower = name.to_ascii_lowercase();
    let name = lower.strip_suffix('.').unwrap_or(&lower);
    if let Ok(address) = name.parse::<IpAddr>() {
        return check_address(canonical(address)).map(Target::Address);
    }
    check_name(name)?;
    if !settings.external_names.cluster_local {
        check_outside(name, objects)?;
    }
    Ok(Target::Name(name.to_owned()))
}

/// IPv4 where it is written inside IPv6: mapped, or in the old compatible form.
fn canonical(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) if !v6.is_loopback() && !v6.is_unspecified() => match v6.to_ipv4() {
            Some(v4) => v4.into(),
            None => address,
        },
        _ => address,
    }
}

fn check_address(address: IpAddr) -> Result<IpAddr, &'static str> {
    let link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    // The whole of 0.0.0.0/8 means "this host".
    let this_host = matches!(address, IpAddr::V4(v4) if v4.octets()[0] == 0 || v4.is_broadcast());
    match address {
        _ if address.is_loopback() => Err("is a loopback address"),
        _ if link_local => Err("is a link-local address"),
        _ if address.is_unspecified() || this_host => Err("is not the address of another host"),
        _ if address.is_multicast() => Err("is a multicast address"),
        _ => Ok(address),
    }
}

fn check_name(name: &str) -> Result<(), &'static str> {
    let label = |label: &str| {
        let known = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
        !label.is_empty() && label.len() <= 63 && label.bytes().all(known)
    };
    if name.len() > 253 || !name.split('.').all(label) {
        return Err("is not a DNS name");
    }
    // `127.1`, `0x7f.1`, `2130706433`: resolvers read them as addresses.
    let last = name.rsplit('.').next().unwrap_or(name);
    let number = last.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
        || last.bytes().all(|b| b.is_ascii_digit());
    if number {
        return Err("is not a DNS name, and no IP address either");
    }
    if LOOPBACK_NAMES.contains(&name) || name.ends_with(".localhost") {
        return Err("is a loopback name");
    }
    Ok(())
}

/// Refuses names that resolve inside the Kubernetes cluster, also by the search path of a pod: `cart`, `cart.shop`,
/// `cart.shop.svc`, `cart.shop.svc.cluster.local`.
fn check_outside(name: &str, objects: &Objects) -> Result<(), &'static str> {
    let namespace = name.split_once('.').map(|(_, rest)| rest);
    let in_namespace = objects.namespaces.keys().any(|key| namespace == Some(&*key.name));
    if namespace.is_none() || in_namespace || name.ends_with(".svc") || name.ends_with(".cluster.local") {
        return Err("is a name inside the Kubernetes cluster");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ExternalNames;
    use crate::source::objects::{Meta, ObjectKey};
    use std::sync::Arc;

    fn target_of(name: &str, cluster_local: bool) -> Result<Target, &'static str> {
        let settings = Settings { external_names: ExternalNames { allow: true, cluster_local }, ..Settings::default() };
        let mut objects = Objects::default();
        let key = ObjectKey::new("", "shop");
        let meta = Meta {
            key: key.clone(),
            uid: "".into(),
            generation: 0,
            created: 0,
            terminating: false,
            annotations: Default::default(),
        };
        objects.namespaces.insert(key, Arc::new(meta));
        target(name, &objects, &settings)
    }

    #[test]
    fn off_unless_switched_on() {
        assert!(target("example.com", &Objects::default(), &Settings::default()).is_err());
    }

    #[test]
    fn names_and_addresses_outside_are_reached() {
        let name = |text: &str| Ok(Target::Name(text.to_owned()));
        assert_eq!(target_of("API.Example.com.", false), name("api.example.com"));
        assert_eq!(target_of("my_db.example.com", false), name("my_db.example.com"));
        assert_eq!(target_of("10.1.2.3", false), Ok(Target::Address([10, 1, 2, 3].into())));
        assert_eq!(target_of("::ffff:10.1.2.3", false), Ok(Target::Address([10, 1, 2, 3].into())));
        assert!(matches!(target_of("2001:DB8::1", false), Ok(Target::Address(IpAddr::V6(_)))));
        assert_eq!(target_of("cart.shop.svc.cluster.local", true), name("cart.shop.svc.cluster.local"));
        assert_eq!(target_of("cart", true), name("cart"));
    }

    #[test]
    fn the_host_itself_is_never_reached() {
        for name in [
            "",
            ".",
            "localhost",
            "LOCALHOST",
            "localhost.",
            "localhost..",
            "a.localhost",
            "localhost.localdomain.",
            "local.projectcontour.io",
            "127.0.0.1",
            "127.0.0.1.",
            "127.9.9.9",
            "127.1",
            "0x7f.0.0.1",
            "0177.0.0.1",
            "2130706433",
            "0x7f000001",
            "0.0.0.0",
            "0.1.2.3",
            "255.255.255.255",
            "169.254.169.254",
            "224.0.0.1",
            "::1",
            "::",
            "fe80::1",
            "fe80::1%eth0",
            "[::1]",
            "::ffff:127.0.0.1",
            "::FFFF:7f00:1",
            "::127.0.0.1",
            "ff02::1",
            " localhost",
            "a b",
        ] {
            assert!(target_of(name, true).is_err(), "{name:?}");
        }
    }

    #[test]
    fn names_inside_the_kubernetes_cluster_only_by_setting() {
        for name in ["cart", "cart.shop", "cart.shop.svc", "cart.other.svc.cluster.local.", "CART.shop.SVC"] {
            assert!(target_of(name, false).is_err(), "{name:?}");
        }
    }
}
