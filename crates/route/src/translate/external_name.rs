//! Checks the targets of Services of type ExternalName: they must be outside of the Kubernetes cluster, and must not be
//! Envoy itself. Source: GHSA-5ph6-qq5x-7jwc.

use std::net::IpAddr;

use crate::objects::{Kind, Objects};
use crate::settings::Settings;

use super::address;

/// The target of an ExternalName.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExternalNameTarget {
    /// A DNS name in lower case, without a trailing dot.
    Name(String),
    /// An IP address. An IPv4-mapped IPv6 address is converted to IPv4.
    Address(IpAddr),
}

/// Names of the local host. The last one is reserved by Contour.
const LOOPBACK_NAMES: [&str; 9] = [
    "localhost",
    "localhost.localdomain",
    "localhost4",
    "localhost4.localdomain4",
    "localhost6",
    "localhost6.localdomain6",
    "ip6-localhost",
    "ip6-loopback",
    "local.projectcontour.io",
];

/// Names of cloud metadata services, which often serve credentials.
const METADATA_NAMES: [&str; 4] =
    ["metadata.google.internal", "metadata.goog", "instance-data.ec2.internal", "metadata.azure.internal"];

/// Returns the target of `name`, a Service's `spec.externalName`. The error is the reason why the target is forbidden,
/// for a message that quotes the name.
pub fn target(name: &str, objects: &Objects, settings: &Settings) -> Result<ExternalNameTarget, &'static str> {
    if !settings.external_names.allow {
        return Err("is not served: Services of type ExternalName are switched off");
    }
    let lower = name.to_ascii_lowercase();
    let name = lower.strip_suffix('.').unwrap_or(&lower);
    if let Ok(address) = name.parse::<IpAddr>() {
        let address = address::canonical(address);
        return address::check(address).map(|()| ExternalNameTarget::Address(address));
    }
    check_name(name)?;
    if !settings.external_names.cluster_local {
        check_outside(name, objects)?;
    }
    Ok(ExternalNameTarget::Name(name.to_owned()))
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
        // The end is the text of Contour.
        return Err("is a loopback name: the Service is an ExternalName service that points to localhost");
    }
    if METADATA_NAMES.contains(&name) {
        return Err("is a name of cloud metadata");
    }
    Ok(())
}

/// Rejects names that resolve inside the Kubernetes cluster, with or without a pod's search domains: `cart`,
/// `cart.shop`, `cart.shop.svc`, `cart.shop.svc.cluster.local`.
fn check_outside(name: &str, objects: &Objects) -> Result<(), &'static str> {
    let namespace = name.split_once('.').map(|(_, rest)| rest);
    let in_namespace = objects.of_kind(Kind::NAMESPACE).keys().any(|key| namespace == Some(&*key.name));
    if namespace.is_none() || in_namespace || name.ends_with(".svc") || name.ends_with(".cluster.local") {
        return Err("is a name inside the Kubernetes cluster");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::{Meta, Namespace, Object, ObjectKey};
    use crate::settings::ExternalNames;

    fn target_of(name: &str, cluster_local: bool) -> Result<ExternalNameTarget, &'static str> {
        let settings = Settings { external_names: ExternalNames { allow: true, cluster_local }, ..Settings::default() };
        let mut objects = Objects::default();
        let key = ObjectKey::new("", "shop");
        let meta = Meta {
            key,
            uid: "".into(),
            generation: 0,
            created: 0,
            terminating: false,
            annotations: Default::default(),
            labels: Default::default(),
        };
        objects.apply(Object::new(Namespace { meta, labels: Default::default() }));
        target(name, &objects, &settings)
    }

    #[test]
    fn disabled_by_default() {
        assert!(target("example.com", &Objects::default(), &Settings::default()).is_err());
    }

    #[test]
    fn names_and_addresses_outside_of_the_cluster_are_allowed() {
        let name = |text: &str| Ok(ExternalNameTarget::Name(text.to_owned()));
        assert_eq!(target_of("API.Example.com.", false), name("api.example.com"));
        assert_eq!(target_of("my_db.example.com", false), name("my_db.example.com"));
        assert_eq!(target_of("10.1.2.3", false), Ok(ExternalNameTarget::Address([10, 1, 2, 3].into())));
        assert_eq!(target_of("::ffff:10.1.2.3", false), Ok(ExternalNameTarget::Address([10, 1, 2, 3].into())));
        assert!(matches!(target_of("2001:DB8::1", false), Ok(ExternalNameTarget::Address(IpAddr::V6(_)))));
        assert_eq!(target_of("cart.shop.svc.cluster.local", true), name("cart.shop.svc.cluster.local"));
        assert_eq!(target_of("cart", true), name("cart"));
    }

    #[test]
    fn addresses_of_the_own_machine_are_refused() {
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
            "fd00:ec2::254",
            "0xa9fea9fe",
            "2852039166",
            "169.254.43518",
            "0251.0376.0251.0376",
            "ip6-localhost.",
            "a.b.localhost.",
            "metadata.google.internal.",
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
