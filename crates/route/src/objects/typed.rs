//! The kind of each type of objects, and the fields that the translation does not read.

use super::backend_policy::BackendPolicy;
use super::builtin::{ConfigMap, Ingress, IngressClass, Namespace};
use super::content::Typed;
use super::gateway::{
    BackendTlsPolicy, Definition, EnvoyFleet, Gateway, GatewayClass, GrpcRoute, HttpPolicy, HttpRoute, ListenerSet,
    ReferenceGrant, TcpRoute, TlsRoute, UdpRoute, XBackendTrafficPolicy,
};
use super::host_grant::HostGrant;
use super::http_proxy::{ExtensionService, HttpProxy, TlsCertificateDelegation};
use super::kind::Kind;
use super::meta::Meta;
use super::secret::Secret;
use super::service::{EndpointSlice, GatewayService, Service};

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
