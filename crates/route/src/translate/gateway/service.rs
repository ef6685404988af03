//! The Service in front of a Gateway: its name, and the ports of the Envoys that it can have.

use std::ops::RangeInclusive;

use xxhash_rust::xxh3::xxh3_64;

use crate::objects::ObjectKey;
use crate::settings::is_label;

/// The ports on which Envoys listen for Gateways with a Service. All Gateways share the Envoys, so each port has one Gateway.
pub const TARGET_PORTS: RangeInclusive<u16> = 10_000..=29_999;

/// The number of ports that are the home of a Gateway.
pub const HOME: u16 = 128;

/// Returns the first port of the home of the Gateway with this uid: the ports that the leader prefers for the Gateway.
///
/// Any author of the Service of a Gateway can claim a port of another Gateway. For a port, its home takes precedence
/// over the age of a Gateway. Nobody can choose a uid, so an old Gateway cannot take the ports of a younger one.
pub fn home(uid: &str) -> u16 {
    let size = u64::from(TARGET_PORTS.end() - TARGET_PORTS.start()) + 1;
    let offset = u16::try_from(xxh3_64(uid.as_bytes()) % size).unwrap_or_default();
    TARGET_PORTS.start() + offset
}

/// Returns whether a port is in the home that starts at `home`. The last port is followed by the first one.
pub fn is_at_home(home: u16, port: u16) -> bool {
    let size = TARGET_PORTS.end() - TARGET_PORTS.start() + 1;
    let distance = if port >= home { port - home } else { (port + size).saturating_sub(home) };
    TARGET_PORTS.contains(&port) && distance < HOME
}

/// Returns the Service in front of a Gateway of this class: `public-lockgate` for `public`, or a name with a hash if
/// that name is not valid for a Service. Source: Gateway API, GEP-1762.
pub fn service_key(gateway: &ObjectKey, class: &str) -> ObjectKey {
    let plain = format!("{}-{class}", gateway.name);
    let is_valid = is_label(&plain) && plain.starts_with(|first: char| first.is_ascii_lowercase());
    let name = if is_valid { plain } else { format!("gateway-{:016x}", xxh3_64(plain.as_bytes())) };
    ObjectKey { namespace: gateway.namespace.clone(), name: name.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_is_a_range_of_ports_that_wraps_around() {
        let homes: Vec<u16> = ["a", "b", "c", "d"].map(home).into();
        assert!(homes.iter().all(|home| TARGET_PORTS.contains(home)) && homes.windows(2).all(|two| two[0] != two[1]));
        for (home, port, expected) in [
            (10_000, 10_000, true),
            (10_000, 10_127, true),
            (10_000, 10_128, false),
            (10_000, 9_999, false),
            (10_000, 29_999, false),
            (29_999, 29_999, true),
            (29_999, 30_000, false),
            (29_999, 10_000, true),
            (29_999, 10_126, true),
            (29_999, 10_127, false),
        ] {
            assert_eq!(is_at_home(home, port), expected, "{home} {port}");
        }
    }

    #[test]
    fn a_service_has_the_name_of_its_gateway_and_class_if_that_is_one() {
        let name = |gateway: &str| service_key(&ObjectKey::new("infra", gateway), "lockgate").to_string();
        assert_eq!(name("public"), "infra/public-lockgate");
        for other in ["9", "a.b", &"a".repeat(60)] {
            let name = name(other);
            assert!(name.starts_with("infra/gateway-") && name.len() == "infra/gateway-".len() + 16, "{name}");
        }
    }
}
