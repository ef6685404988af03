//! The routes of all kinds.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use lockgate_route::objects::gateway::{
    GrpcRoute, GrpcRouteSpec, HttpRoute, HttpRouteSpec, RouteStatus, TcpRoute, TcpRouteSpec, TlsRoute, TlsRouteSpec,
    UdpRoute, UdpRouteSpec,
};
use lockgate_route::objects::{Kind, Object};
use serde_json::Value;

use super::{Custom, refused_route, shrink, shrink_status, version, without_nulls};
use crate::source::decode::{Decode, meta};

/// Implements [`Decode`] for the routes with this spec. `$shrink` releases the spare capacity of its lists.
macro_rules! route {
    ($spec:ty, $route:ident, $kind:expr, $shrink:expr) => {
        impl Decode for Custom<$spec, RouteStatus> {
            const KIND: Kind = $kind;

            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn normalized(value: Value) -> Value {
                without_nulls(value)
            }

            fn refused(value: &Value) -> Option<(String, String)> {
                refused_route(value)
            }

            fn decode(self) -> Option<Object> {
                let shrink_spec: fn(&mut $spec) = $shrink;
                let (mut spec, mut status) = (self.spec.unwrap_or_default(), self.status.unwrap_or_default());
                spec.parent_refs.shrink_to_fit();
                shrink_spec(&mut spec);
                shrink_status(&mut status);
                let version = version(&self.metadata);
                Some(Object::new($route { meta: meta(self.metadata, Self::KIND), spec, status, version }))
            }
        }
    };
}

/// Implements [`Decode`] like [`route`], for routes without filters.
macro_rules! stream_route {
    ($spec:ty, $route:ident, $kind:expr) => {
        route!($spec, $route, $kind, |spec| {
            spec.rules.iter_mut().for_each(|rule| rule.backend_refs.shrink_to_fit());
            spec.rules.shrink_to_fit();
        });
    };
}

route!(HttpRouteSpec, HttpRoute, Kind::HTTP_ROUTE, |spec| {
    spec.hostnames.shrink_to_fit();
    spec.rules.iter_mut().flatten().for_each(shrink);
    spec.rules.iter_mut().for_each(Vec::shrink_to_fit);
});
route!(GrpcRouteSpec, GrpcRoute, Kind::GRPC_ROUTE, |spec| {
    spec.hostnames.shrink_to_fit();
    spec.rules.shrink_to_fit();
});
stream_route!(TcpRouteSpec, TcpRoute, Kind::TCP_ROUTE);
stream_route!(UdpRouteSpec, UdpRoute, Kind::UDP_ROUTE);
stream_route!(TlsRouteSpec, TlsRoute, Kind::TLS_ROUTE);
