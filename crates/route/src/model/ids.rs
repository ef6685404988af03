//! The identities of clusters, load assignments, and secrets.
//!
//! Their `Display` form is the name in Envoy, and no code parses it. Names of objects and ports contain no slash, so
//! different identities have different names.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// The namespace and name of an object; the namespace is empty for kinds that have none.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ObjectKey {
    /// The namespace, or empty.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// The key `namespace`/`name`.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

/// By namespace, then by name. The text of a shared namespace is not read. Large maps do not fit into the caches of a
/// CPU, so each text costs an access to memory.
impl Ord for ObjectKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let is_shared = Arc::ptr_eq(&self.namespace, &other.namespace);
        let by_namespace = if is_shared { Ordering::Equal } else { self.namespace.cmp(&other.namespace) };
        by_namespace.then_with(|| self.name.cmp(&other.name))
    }
}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// `shop/cart`, or `ours` without a namespace.
impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.namespace.is_empty() { "" } else { "/" };
        write!(f, "{}{separator}{}", self.namespace, self.name)
    }
}

/// A port within its Service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PortRef {
    /// The name of the port. It never consists only of digits.
    Name(Arc<str>),
    /// The number of a port without a name.
    Number(u16),
}

/// `http` or `8080`.
impl fmt::Display for PortRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Number(number) => write!(f, "{number}"),
        }
    }
}

/// The identity of a Service port, which has one load assignment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServicePortId(Arc<ServicePort>);

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct ServicePort {
    service: ObjectKey,
    port: PortRef,
    health: Option<PortRef>,
}

impl ServicePortId {
    /// The identity of `port` of `service`.
    pub fn new(service: ObjectKey, port: PortRef) -> Self {
        Self(Arc::new(ServicePort { service, port, health: None }))
    }

    /// Returns the identity of the same port whose endpoints are checked at another port of the Service. It has a load assignment of
    /// its own.
    #[must_use]
    pub fn checked_at(&self, health: PortRef) -> Self {
        let (service, port) = (self.service().clone(), self.port().clone());
        Self(Arc::new(ServicePort { service, port, health: Some(health) }))
    }

    /// Returns the port of the Service at which the endpoints are checked, if it is a part of the identity.
    pub fn health(&self) -> Option<&PortRef> {
        self.0.health.as_ref()
    }

    /// Returns the Service.
    pub fn service(&self) -> &ObjectKey {
        &self.0.service
    }

    /// Returns the port.
    pub fn port(&self) -> &PortRef {
        &self.0.port
    }
}

/// `shop/cart/http`: the name of the load assignment. `shop/cart/http@admin` with checks at another port.
impl fmt::Display for ServicePortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.service(), self.port())?;
        self.health().map_or(Ok(()), |port| write!(f, "@{port}"))
    }
}

/// The identity of a cluster.
///
/// The order keeps the clusters of a port, of a Service, and of a namespace together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId {
    /// The Service port.
    pub port: ServicePortId,
    /// The policy by which a route reaches the port. `None`: the policy of the Service itself, which can change while
    /// the cluster keeps its name.
    pub policy: Option<PolicyId>,
}

impl ClusterId {
    /// Returns the lower bound of the clusters of `service` in the order of clusters.
    pub fn first_of(service: ObjectKey) -> Self {
        ServicePortId::new(service, PortRef::Name("".into())).into()
    }
}

/// The cluster of a port with the policy of its Service, which precedes all other clusters of the port.
impl From<ServicePortId> for ClusterId {
    fn from(port: ServicePortId) -> Self {
        Self { port, policy: None }
    }
}

/// `shop/cart/http`, or `shop/cart/http/3f6c…` with a policy.
impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.policy {
            None => self.port.fmt(f),
            Some(policy) => write!(f, "{}/{policy}", self.port),
        }
    }
}

/// The identity of a policy: a hash of its content (see [`TrafficPolicy::id`](super::TrafficPolicy::id)).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyId(pub(super) Arc<[u8; 16]>);

/// 32 hexadecimal digits.
impl fmt::Display for PolicyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(*self.0))
    }
}

/// The identity of a secret: the TLS content of one or several objects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretId(Arc<SecretSource>);

/// The objects with the content of a secret.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SecretSource {
    /// A part of a Secret.
    Secret(ObjectKey, SecretPart),
    /// The certificate authorities of one or several ConfigMaps.
    ConfigMaps(ObjectKey, Box<[ObjectKey]>),
    /// The certificate authorities of a Secret, and the revocation lists of a Secret.
    Revoking {
        /// The Secret with the authorities.
        authorities: ObjectKey,
        /// The Secret with the revocation lists.
        revocations: ObjectKey,
        /// Whether only the certificate of the client is looked up in the lists.
        is_leaf_only: bool,
    },
}

/// A part of a Secret object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SecretPart {
    /// The key pair.
    KeyPair,
    /// The certificate authorities.
    Authorities,
    /// The secret of an application at an OpenID provider.
    ClientSecret,
    /// The key of the cookies of sessions, derived from the secret of the application.
    CookieKey,
}

impl SecretPart {
    /// All parts.
    pub const ALL: [Self; 4] = [Self::KeyPair, Self::Authorities, Self::ClientSecret, Self::CookieKey];
}

impl SecretId {
    /// The identity of `part` of `object`.
    pub fn new(object: ObjectKey, part: SecretPart) -> Self {
        Self(Arc::new(SecretSource::Secret(object, part)))
    }

    /// The identity of the certificate authorities of these ConfigMaps, in any order. Returns `None` without any.
    pub fn of_config_maps(config_maps: BTreeSet<ObjectKey>) -> Option<Self> {
        let mut config_maps = config_maps.into_iter();
        let first = config_maps.next()?;
        Some(Self(Arc::new(SecretSource::ConfigMaps(first, config_maps.collect()))))
    }

    /// The identity of the certificate authorities of a Secret, with the revocation lists of another one.
    pub fn of_authorities(authorities: ObjectKey, revocations: Option<ObjectKey>, is_leaf_only: bool) -> Self {
        match revocations {
            None => Self::new(authorities, SecretPart::Authorities),
            Some(revocations) => Self(Arc::new(SecretSource::Revoking { authorities, revocations, is_leaf_only })),
        }
    }

    /// Returns the objects with the content.
    pub fn source(&self) -> &SecretSource {
        &self.0
    }

    /// Returns the Secret, or the first ConfigMap.
    pub fn object(&self) -> &ObjectKey {
        match self.source() {
            SecretSource::Secret(object, _)
            | SecretSource::ConfigMaps(object, _)
            | SecretSource::Revoking { authorities: object, .. } => object,
        }
    }
}

/// `shop/cert`, or `shop/cert/ca.crt` for certificate authorities, and so on for other parts. Certificate authorities of ConfigMaps are
/// `shop/ca/configmap`, or `shop/ca,shop/old/configmap`.
impl fmt::Display for SecretId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.source() {
            SecretSource::Secret(object, SecretPart::KeyPair) => object.fmt(f),
            SecretSource::Secret(object, SecretPart::Authorities) => write!(f, "{object}/ca.crt"),
            SecretSource::Secret(object, SecretPart::ClientSecret) => write!(f, "{object}/client-secret"),
            SecretSource::Secret(object, SecretPart::CookieKey) => write!(f, "{object}/cookie-key"),
            SecretSource::ConfigMaps(first, others) => {
                first.fmt(f)?;
                others.iter().try_for_each(|other| write!(f, ",{other}"))?;
                f.write_str("/configmap")
            }
            SecretSource::Revoking { authorities, revocations, is_leaf_only } => {
                let which = if *is_leaf_only { "leaf-crl" } else { "crl" };
                write!(f, "{authorities}/ca.crt/{which}={revocations}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(service: &str, port: PortRef) -> ServicePortId {
        ServicePortId::new(ObjectKey::new("shop", service), port)
    }

    #[test]
    fn identities_are_displayed_as_names_in_envoy() {
        let named = port("cart", PortRef::Name("http".into()));
        let with_policy = ClusterId { port: named.clone(), policy: Some(PolicyId(Arc::new([7; 16]))) };
        assert_eq!(named.to_string(), "shop/cart/http");
        assert_eq!(port("cart", PortRef::Number(80)).to_string(), "shop/cart/80");
        assert_eq!(ClusterId::from(named).to_string(), "shop/cart/http");
        assert_eq!(with_policy.to_string(), "shop/cart/http/07070707070707070707070707070707");
        let secret = |part| SecretId::new(ObjectKey::new("shop", "cert"), part).to_string();
        assert_eq!(
            SecretPart::ALL.map(secret),
            ["shop/cert", "shop/cert/ca.crt", "shop/cert/client-secret", "shop/cert/cookie-key"]
        );
        let config_maps = |names: &[&str]| {
            let keys = names.iter().map(|name| ObjectKey::new("shop", name)).collect();
            SecretId::of_config_maps(keys).map(|id| id.to_string())
        };
        assert_eq!(config_maps(&["ca"]).as_deref(), Some("shop/ca/configmap"));
        assert_eq!(config_maps(&["old", "ca"]).as_deref(), Some("shop/ca,shop/old/configmap"));
        assert_eq!(config_maps(&[]), None);
    }

    #[test]
    fn clusters_of_a_service_are_together_in_their_order() {
        let policies = [None, Some(PolicyId(Arc::new([0; 16]))), Some(PolicyId(Arc::new([1; 16])))];
        let ports = [PortRef::Name("a".into()), PortRef::Name("b".into()), PortRef::Number(1)];
        let ids = ["car", "cart", "cart-2"].into_iter().flat_map(|service| {
            let ports = ports.clone().map(|name| port(service, name));
            let policies = policies.clone();
            ports
                .into_iter()
                .flat_map(move |port| policies.clone().map(|policy| ClusterId { port: port.clone(), policy }))
        });
        let ids: Vec<ClusterId> = ids.collect();
        assert!(ids.is_sorted());
        let first = ClusterId::first_of(ObjectKey::new("shop", "cart"));
        assert_eq!(ids.partition_point(|id| *id < first), policies.len() * ports.len());
        assert!(ClusterId::first_of(ObjectKey::new("shop", "")) < ids[0]);
    }

    #[test]
    fn identities_are_not_larger_than_a_string() {
        assert_eq!(size_of::<ClusterId>(), size_of::<Arc<str>>());
        assert!(size_of::<ServicePortId>() <= size_of::<Arc<str>>());
        assert!(size_of::<SecretId>() <= size_of::<Arc<str>>());
    }
}
