//! Names and addresses of everything that is written: from them alone it is seen in bytes what has arrived.

/// Namespace of all objects.
pub const NAMESPACE: &str = "default";
/// Namespace of included HTTPProxies.
pub const TEAM: &str = "team";
/// The class of all Ingresses and HTTPProxies.
pub const CLASS: &str = "bench";
/// A name is this and [`NAME_DIGITS`] digits.
pub const HOST_PREFIX: &str = "b-";
/// Digits of a name.
pub const NAME_DIGITS: usize = 6;
/// What all hosts end with.
pub const DOMAIN: &[u8] = b".bench.example";
/// Addresses that an endpoint change writes, and paths that an edit writes, have this; no other does.
pub const MARKER_NETWORK: &str = "10.200.";
/// The first number of objects that are written while something is measured; those before it make up the cluster.
pub const FIRST_SPARE: usize = 900_000;

/// The name of Ingress, Service and EndpointSlice number `index`.
pub fn name(index: usize) -> String {
    format!("{HOST_PREFIX}{index:0NAME_DIGITS$}")
}

/// The name of Gateway number `index`.
pub fn gateway(index: usize) -> String {
    format!("gateway-{index:03}")
}

/// The host of Ingress number `index`.
pub fn host(index: usize) -> String {
    format!("{}.bench.example", name(index))
}

/// An address of EndpointSlice number `index`.
pub fn address(index: usize, endpoint: usize) -> String {
    format!("10.{}.{}.{}", 64 + (index >> 14 & 63), index >> 7 & 127, (index & 127) << 1 | endpoint & 1)
}

/// The path that change number `change` writes.
pub fn marked_path(change: usize) -> String {
    format!("/{}/edited", marked_address(change))
}

/// The address that endpoint change number `change` writes; up to 65,536 can be told apart.
pub fn marked_address(change: usize) -> String {
    format!("{MARKER_NETWORK}{}.{}", change >> 8 & 255, change & 255)
}
