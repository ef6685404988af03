//! One object of any kind.

use std::any::Any;
use std::fmt::{self, Debug};
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::gateway::{
    BackendTlsPolicy, Definition, EnvoyFleet, Gateway, GatewayClass, GrpcRoute, HttpPolicy, HttpRoute, ListenerSet,
    ReferenceGrant, TcpRoute, TlsRoute, UdpRoute, XBackendTrafficPolicy,
};
use super::http_proxy::{ExtensionService, HttpProxy, TlsCertificateDelegation};
use super::{
    BackendPolicy, ConfigMap, EndpointSlice, GatewayService, Grouping, HostGrant, Ingress, IngressClass, Kind, Meta,
    Misencoded, Namespace, ObjectId, ObjectKey, Secret, Service,
};

/// The content of an object of one kind, reduced to the fields that the translation or the status writers read.
pub trait Content: Any + Debug + Send + Sync {
    /// Returns the kind.
    fn kind(&self) -> Kind;

    /// Returns the metadata.
    fn meta(&self) -> &Meta;

    /// Returns an object with the same content and this metadata.
    fn with_meta(&self, meta: Meta) -> Object;

    /// Returns whether `other` is the same in every field.
    fn is_same(&self, other: &dyn Any) -> bool;

    /// Returns whether `other` is the same in every field that the translation reads.
    fn is_same_to_translation(&self, other: &dyn Any) -> bool {
        self.is_same(other)
    }
}

/// A type that represents all objects of one kind. It implements [`Content`].
pub trait Typed: Any + Clone + Debug + PartialEq + Send + Sync {
    /// The kind.
    const KIND: Kind;

    /// Returns the metadata.
    fn metadata(&self) -> &Meta;

    /// Returns the metadata for a change.
    fn metadata_mut(&mut self) -> &mut Meta;

    /// Returns whether `other` is the same in every field that the translation reads.
    fn equals_for_translation(&self, other: &Self) -> bool {
        self == other
    }
}

impl<T: Typed> Content for T {
    fn kind(&self) -> Kind {
        T::KIND
    }

    fn meta(&self) -> &Meta {
        self.metadata()
    }

    fn with_meta(&self, meta: Meta) -> Object {
        let mut content = self.clone();
        *content.metadata_mut() = meta;
        Object::new(content)
    }

    fn is_same(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }

    fn is_same_to_translation(&self, other: &dyn Any) -> bool {
        other.downcast_ref().is_some_and(|other| self.equals_for_translation(other))
    }
}

/// One object of any kind. A clone is cheap.
#[derive(Clone)]
pub struct Object(Arc<dyn Content>);

impl Object {
    /// Creates an object with this content.
    pub fn new(content: impl Content) -> Self {
        Self(Arc::new(content))
    }

    /// Returns the kind.
    pub fn kind(&self) -> Kind {
        self.0.kind()
    }

    /// Returns the metadata.
    pub fn meta(&self) -> &Meta {
        self.0.meta()
    }

    /// Returns the kind and the key.
    pub fn id(&self) -> ObjectId {
        ObjectId { kind: self.kind(), key: self.meta().key.clone() }
    }

    /// Returns the key of the group that the object belongs to, for kinds that are read by group ([`Grouping`]).
    pub fn group(&self) -> Option<ObjectKey> {
        match self.kind().info().grouping {
            Grouping::Alone => None,
            Grouping::ByService => self.get().map(EndpointSlice::service_key),
            Grouping::ByNamespace => Some(ObjectKey { namespace: "".into(), name: self.meta().key.namespace.clone() }),
        }
    }

    /// Returns a reference to the object.
    pub fn object_ref(&self) -> ObjectRef {
        self.meta().object_ref(self.kind())
    }

    /// Returns the content if it has this type.
    pub fn get<T: Content>(&self) -> Option<&T> {
        (&*self.0 as &dyn Any).downcast_ref()
    }

    /// Returns a copy with `change` applied to the content if it has this type; otherwise returns the object unchanged.
    pub fn with<T: Content + Clone>(self, change: impl FnOnce(&mut T)) -> Self {
        let Some(mut content) = self.get::<T>().cloned() else { return self };
        change(&mut content);
        Self::new(content)
    }

    /// Returns a copy with changed metadata.
    pub fn with_meta(&self, change: impl FnOnce(&mut Meta)) -> Self {
        let mut meta = self.meta().clone();
        change(&mut meta);
        self.0.with_meta(meta)
    }

    /// Returns whether `other` is the same in every field that the translation reads.
    pub fn is_same_to_translation(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.is_same_to_translation(&*other.0)
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.is_same(&*other.0)
    }
}

impl Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Implements [`Typed`] for a type with a field `meta`.
macro_rules! typed {
    ($type:ty, $kind:expr) => {
        impl Typed for $type {
            const KIND: Kind = $kind;

            fn metadata(&self) -> &Meta {
                &self.meta
            }

            fn metadata_mut(&mut self) -> &mut Meta {
                &mut self.meta
            }
        }
    };
}

typed!(IngressClass, Kind::INGRESS_CLASS);
typed!(Definition, Kind::CUSTOM_RESOURCE_DEFINITION);
typed!(ReferenceGrant, Kind::REFERENCE_GRANT);
typed!(EndpointSlice, Kind::ENDPOINT_SLICE);
typed!(Secret, Kind::SECRET);
typed!(Namespace, Kind::NAMESPACE);
typed!(ConfigMap, Kind::CONFIG_MAP);
typed!(EnvoyFleet, Kind::ENVOY_FLEET);
typed!(TlsCertificateDelegation, Kind::TLS_CERTIFICATE_DELEGATION);

/// Implements [`Typed`] for a type whose status the translation does not read.
macro_rules! with_status {
    ($type:ident, $kind:expr) => {
        impl Typed for $type {
            const KIND: Kind = $kind;

            fn metadata(&self) -> &Meta {
                &self.meta
            }

            fn metadata_mut(&mut self) -> &mut Meta {
                &mut self.meta
            }

            fn equals_for_translation(&self, other: &Self) -> bool {
                let $type { meta, spec, status: _, version: _ } = other;
                self.meta == *meta && self.spec == *spec
            }
        }
    };
}

with_status!(GatewayClass, Kind::GATEWAY_CLASS);
with_status!(Gateway, Kind::GATEWAY);
with_status!(ListenerSet, Kind::LISTENER_SET);
with_status!(HttpRoute, Kind::HTTP_ROUTE);
with_status!(GrpcRoute, Kind::GRPC_ROUTE);
with_status!(TcpRoute, Kind::TCP_ROUTE);
with_status!(UdpRoute, Kind::UDP_ROUTE);
with_status!(TlsRoute, Kind::TLS_ROUTE);
with_status!(BackendTlsPolicy, Kind::BACKEND_TLS_POLICY);
with_status!(XBackendTrafficPolicy, Kind::X_BACKEND_TRAFFIC_POLICY);
with_status!(HttpPolicy, Kind::HTTP_POLICY);
with_status!(HostGrant, Kind::HOST_GRANT);
with_status!(BackendPolicy, Kind::BACKEND_POLICY);
with_status!(HttpProxy, Kind::HTTP_PROXY);
with_status!(ExtensionService, Kind::EXTENSION_SERVICE);

impl Typed for Service {
    const KIND: Kind = Kind::SERVICE;

    fn metadata(&self) -> &Meta {
        &self.meta
    }

    fn metadata_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }

    fn equals_for_translation(&self, other: &Self) -> bool {
        let Self { meta, external_name, ports, ipv6_families, prefers_close, is_of_fleet, gateway } = other;
        let ports_of = |gateway: &Option<Box<GatewayService>>| {
            gateway.as_ref().map(|service| {
                let GatewayService { name, ports, addresses: _, version: _, is_dedicated, is_draining, exposure: _ } =
                    &**service;
                (name.clone(), ports.clone(), *is_dedicated, *is_draining)
            })
        };
        self.meta == *meta
            && self.external_name == *external_name
            && self.ports == *ports
            && self.ipv6_families == *ipv6_families
            && self.prefers_close == *prefers_close
            && self.is_of_fleet == *is_of_fleet
            && ports_of(&self.gateway) == ports_of(gateway)
    }
}

impl Typed for Ingress {
    const KIND: Kind = Kind::INGRESS;

    fn metadata(&self) -> &Meta {
        &self.meta
    }

    fn metadata_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }

    fn equals_for_translation(&self, other: &Self) -> bool {
        let Self { meta, spec, status: _ } = other;
        self.meta == *meta && self.spec == *spec
    }
}

impl Content for Misencoded {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn with_meta(&self, meta: Meta) -> Object {
        Object::new(Self { meta, ..self.clone() })
    }

    fn is_same(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }
}
