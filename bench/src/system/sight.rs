//! Reads resources: their names, the subscriptions that they cause, and the hosts and endpoint changes in them.
//!
//! Only listeners are decoded. Other resources are scanned, so that the client costs little CPU.

use std::borrow::Cow;

use envoy_types::pb::envoy::config::listener::v3 as listener_v3;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm_v3;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3 as tls_v3;
use envoy_types::pb::google::protobuf::Any;
use hcm_v3::http_connection_manager::RouteSpecifier;
use memchr::memmem;
use prost::Message;
use tls_v3::common_tls_context::ValidationContextType;

use super::names::{DOMAIN, HOST_PREFIX, MARKER_NETWORK, NAME_DIGITS};
use crate::wire::Variant;

/// The types of resources to which an Envoy subscribes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Type {
    /// `Cluster`.
    Cluster,
    /// `ClusterLoadAssignment`.
    Endpoint,
    /// `Listener`.
    Listener,
    /// `RouteConfiguration`.
    Route,
    /// `ScopedRouteConfiguration`.
    Scope,
    /// `VirtualHost`.
    VirtualHost,
    /// `Secret`.
    Secret,
}

impl Type {
    /// All types.
    pub const ALL: [Self; 7] =
        [Self::Cluster, Self::Endpoint, Self::Listener, Self::Route, Self::Scope, Self::VirtualHost, Self::Secret];

    /// Returns the type URL.
    pub fn url(self) -> &'static str {
        match self {
            Type::Cluster => "type.googleapis.com/envoy.config.cluster.v3.Cluster",
            Type::Endpoint => "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
            Type::Listener => "type.googleapis.com/envoy.config.listener.v3.Listener",
            Type::Route => "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
            Type::Scope => "type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration",
            Type::VirtualHost => "type.googleapis.com/envoy.config.route.v3.VirtualHost",
            Type::Secret => "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
        }
    }

    /// Returns the type of a URL.
    pub fn of(url: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.url().as_bytes() == url)
    }

    /// Returns whether resources of the type contain hosts.
    pub fn has_hosts(self) -> bool {
        matches!(self, Type::Route | Type::Scope | Type::VirtualHost)
    }
}

/// Iterates over the length-delimited fields, with number and content. Stops at malformed bytes.
pub fn fields(bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        loop {
            let tag = prost::encoding::decode_varint(&mut rest).ok()?;
            let skipped = match tag & 7 {
                0 => {
                    prost::encoding::decode_varint(&mut rest).ok()?;
                    continue;
                }
                1 => 8,
                5 => 4,
                2 => {
                    let length = usize::try_from(prost::encoding::decode_varint(&mut rest).ok()?).ok()?;
                    let (content, after) = rest.split_at_checked(length)?;
                    rest = after;
                    return Some((tag >> 3, content));
                }
                _ => return None,
            };
            rest = rest.get(skipped..)?;
        }
    })
}

/// Returns the first field with this number.
fn field(bytes: &[u8], number: u64) -> Option<&[u8]> {
    fields(bytes).find(|(own, _)| *own == number).map(|(_, content)| content)
}

/// A resource of a response.
pub struct Sighting<'a> {
    /// The type.
    pub kind: Type,
    /// The name.
    pub name: Cow<'a, [u8]>,
    /// The encoded message.
    pub body: &'a [u8],
}

/// Parses the wrapper of a resource.
pub fn sight(resource: &[u8], variant: Variant) -> Option<Sighting<'_>> {
    let any = match variant {
        Variant::Sotw => resource,
        Variant::Delta => field(resource, 2)?,
    };
    let (mut url, mut body) = (&[][..], &[][..]);
    for (number, content) in fields(any) {
        match number {
            1 => url = content,
            2 => body = content,
            _ => {}
        }
    }
    // The name is the first field of all these messages.
    let name = match variant {
        Variant::Sotw => field(body, 1),
        Variant::Delta => field(resource, 3),
    };
    Some(Sighting { kind: Type::of(url)?, name: name.unwrap_or_default().into(), body })
}

/// Returns the EDS service name of a cluster, if it has one.
pub fn endpoints_of<'a>(name: &'a [u8], cluster: &'a [u8]) -> Option<&'a [u8]> {
    let config = field(cluster, 3)?;
    Some(field(config, 2).filter(|service| !service.is_empty()).unwrap_or(name))
}

/// Returns whether a route configuration gets its virtual hosts by VHDS.
pub fn wants_virtual_hosts(route_configuration: &[u8]) -> bool {
    // Beside its virtual hosts the field is a few bytes, and they come first.
    field(route_configuration, 9).is_some()
}

/// Returns the route configuration that a scope names, unless it is inline.
pub fn route_of_scope(scope: &[u8]) -> Option<String> {
    let name = field(scope, 2).filter(|name| !name.is_empty())?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// The subscriptions that a listener causes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Names of route configurations.
    pub routes: Vec<String>,
    /// Names of secrets.
    pub secrets: Vec<String>,
    /// Whether it uses SRDS.
    pub scopes: bool,
}

/// Parses a listener.
pub fn wanted_by(listener: &[u8]) -> Wanted {
    let mut wanted = Wanted::default();
    let Ok(listener) = listener_v3::Listener::decode(listener) else { return wanted };
    for chain in listener.filter_chains.iter().chain(&listener.default_filter_chain) {
        for filter in &chain.filters {
            use envoy_types::pb::envoy::config::listener::v3::filter::ConfigType;
            let Some(ConfigType::TypedConfig(any)) = &filter.config_type else { continue };
            let Some(manager) = unpack::<hcm_v3::HttpConnectionManager>(any, "HttpConnectionManager") else { continue };
            match manager.route_specifier {
                Some(RouteSpecifier::Rds(rds)) => wanted.routes.push(rds.route_config_name),
                Some(RouteSpecifier::ScopedRoutes(_)) => wanted.scopes = true,
                _ => {}
            }
        }
        use envoy_types::pb::envoy::config::core::v3::transport_socket::ConfigType;
        let Some(ConfigType::TypedConfig(any)) = chain.transport_socket.as_ref().and_then(|s| s.config_type.as_ref())
        else {
            continue;
        };
        let Some(tls) = unpack::<tls_v3::DownstreamTlsContext>(any, "DownstreamTlsContext") else { continue };
        let Some(common) = tls.common_tls_context else { continue };
        wanted.secrets.extend(common.tls_certificate_sds_secret_configs.into_iter().map(|secret| secret.name));
        if let Some(ValidationContextType::ValidationContextSdsSecretConfig(secret)) = common.validation_context_type {
            wanted.secrets.push(secret.name);
        }
    }
    wanted
}

fn unpack<M: Message + Default>(any: &Any, name: &str) -> Option<M> {
    any.type_url.ends_with(name).then(|| M::decode(&any.value[..]).ok())?
}

/// Returns the numbers of the hosts in these bytes.
pub fn hosts(bytes: &[u8]) -> impl Iterator<Item = usize> {
    memmem::find_iter(bytes, DOMAIN).filter_map(move |at| number(bytes.get(..at)?))
}

/// Returns the number after `HOST_PREFIX`.
fn number(bytes: &[u8]) -> Option<usize> {
    let (before, digits) = bytes.split_at_checked(bytes.len().checked_sub(NAME_DIGITS)?)?;
    before.ends_with(HOST_PREFIX.as_bytes()).then_some(())?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Returns the number of the endpoint change in these bytes.
pub fn marker(bytes: &[u8]) -> Option<usize> {
    markers(bytes).next()
}

/// Returns the numbers of all changes in these bytes.
pub fn markers(bytes: &[u8]) -> impl Iterator<Item = usize> {
    memmem::find_iter(bytes, MARKER_NETWORK).filter_map(move |at| change(bytes.get(at + MARKER_NETWORK.len()..)?))
}

/// Returns the number of a change from the first two bytes of the text.
fn change(rest: &[u8]) -> Option<usize> {
    let end = rest.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.').unwrap_or(rest.len());
    let (high, low) = std::str::from_utf8(&rest[..end]).ok()?.split_once('.')?;
    Some(high.parse::<usize>().ok()? << 8 | low.parse::<usize>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::super::names;
    use super::*;

    #[test]
    fn hosts_and_changes_are_found_in_bytes() {
        let text = format!("\n\x07{}:*\x12{} b-000009", names::host(7), names::host(123_456));
        assert_eq!(hosts(text.as_bytes()).collect::<Vec<_>>(), [7, 123_456]);
        let text = format!("\n\x0c{}\x10\x01", names::marked_address(0x1234));
        assert_eq!(marker(text.as_bytes()), Some(0x1234));
        assert_eq!(marker(names::address(77, 1).as_bytes()), None);
        let text = format!("{}2{}", names::marked_path(7), names::marked_path(0x201));
        assert_eq!(markers(text.as_bytes()).collect::<Vec<_>>(), [7, 0x201]);
    }

    #[test]
    fn fields_of_all_wire_types_are_passed() {
        // 1: varint 300; 2: text "ab"; 3: 64 bits; 20: text "c".
        let bytes = [8, 0xac, 2, 18, 2, b'a', b'b', 25, 0, 0, 0, 0, 0, 0, 0, 0, 0xa2, 1, 1, b'c'];
        assert_eq!(fields(&bytes).collect::<Vec<_>>(), [(2, &b"ab"[..]), (20, &b"c"[..])]);
    }
}
