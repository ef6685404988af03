//! The names of fleets: groups of Envoys, and other clients, with the same listeners.
//!
//! The shared fleet serves all objects that no dedicated fleet serves. The dedicated fleet of a Gateway has the name of the
//! Gateway. A client proves its fleet by its certificate.

use std::fmt;
use std::sync::Arc;

use lockgate_route::objects::ObjectKey;
use lockgate_xds::identity::Names;
use lockgate_xds::protocol::Node;

/// The prefix of the node cluster of Envoys of a fleet. Without TLS, it is the only identity of a client.
pub const NODE_CLUSTER: &str = "fleet/";

/// The maximum number of dedicated fleets. One Secret contains the key pairs of all of them, and a Secret has at most 1 MiB.
pub const MAX_FLEETS: u32 = 400;

/// Returns the data key of a part of a fleet's key pair, in the Secret of all fleets: `shop.public.crt`. A namespace contains no
/// dot, so the key is unique.
pub fn certificate_key(gateway: &ObjectKey, part: &str) -> String {
    format!("{}.{}.{part}", gateway.namespace, gateway.name)
}

/// The name of a fleet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FleetId(Arc<str>);

impl FleetId {
    /// Returns the fleet of all clients without a fleet of their own.
    pub fn shared() -> Self {
        Self("shared".into())
    }

    /// Returns the fleet of the Envoys that serve a single Gateway: `shop/public`. No other name contains a slash.
    pub fn of_gateway(gateway: &ObjectKey) -> Self {
        Self(gateway.to_string().into())
    }

    /// Returns the fleet with a name from another replica.
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// Returns the fleet of a client. `uri` is the prefix of the URIs in the certificates of fleets, if this installation issues
    /// such certificates.
    ///
    /// With TLS, only the certificate counts, because a client can send the node of any other client.
    pub fn of_client(names: Option<&Names>, node: &Node, uri: Option<&str>) -> Self {
        let of = |gateway: &str| {
            let gateway = gateway.split_once('/').filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty());
            gateway.map(|(namespace, name)| Self::of_gateway(&ObjectKey::new(namespace, name)))
        };
        let fleet = match names {
            Some(names) => uri.and_then(|uri| names.uris.iter().find_map(|name| of(name.strip_prefix(uri)?))),
            None => node.cluster.strip_prefix(NODE_CLUSTER).and_then(of),
        };
        fleet.unwrap_or_else(Self::shared)
    }
}

impl fmt::Display for FleetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_certificate_decides_and_not_the_node() {
        let uri = "spiffe://lockgate.dev/ns/lockgate/lockgate-xds/fleet/";
        let node = Node { cluster: "fleet/shop/public".to_owned(), ..Node::default() };
        let names = |uris: &[&str]| Names { uris: uris.iter().map(ToString::to_string).collect(), ..Names::default() };
        let of = |names: &Names| FleetId::of_client(Some(names), &node, Some(uri));
        let other = FleetId::of_gateway(&ObjectKey::new("shop", "other"));
        assert_eq!(of(&names(&[&format!("{uri}shop/other")])), other);
        assert_eq!(of(&names(&["spiffe://lockgate.dev/ns/lockgate/lockgate-xds/envoy"])), FleetId::shared());
        assert_eq!(of(&names(&[])), FleetId::shared());
        for broken in ["", "shop", "/public", "shop/"] {
            assert_eq!(of(&names(&[&format!("{uri}{broken}")])), FleetId::shared(), "{broken:?}");
        }
        assert_eq!(FleetId::of_client(Some(&names(&[])), &node, None), FleetId::shared());
        assert_eq!(FleetId::of_client(None, &node, None).to_string(), "shop/public", "in plain text");
        assert_eq!(FleetId::of_client(None, &Node::default(), None), FleetId::shared());
    }
}
