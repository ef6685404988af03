//! The routes of all kinds.

use std::sync::Arc;

use lockgate_route::objects::gateway::{
    GrpcRoute, GrpcRouteSpec, HttpRoute, HttpRouteSpec, RouteStatus, TcpRoute, TcpRouteSpec, TlsRoute, TlsRouteSpec,
    UdpRoute, UdpRouteSpec,
};
use lockgate_route::objects::{Kind, Meta, Object};
use serde_json::Value;

use super::{Spec, refused_route, shrink, shrink_status};

/// Implements [`Spec`] for routes. `$shrink` releases the spare capacity of the lists of a spec.
macro_rules! route {
    ($spec:ty, $route:ident, $kind:expr, $shrink:expr) => {
        impl Spec for $spec {
            type Status = RouteStatus;

            const KIND: Kind = $kind;

            fn refused(value: &Value) -> Option<(String, String)> {
                refused_route(value)
            }

            fn object(mut self, meta: Meta, version: Arc<str>, mut status: RouteStatus) -> Object {
                let shrink_spec: fn(&mut $spec) = $shrink;
                self.parent_refs.shrink_to_fit();
                shrink_spec(&mut self);
                shrink_status(&mut status);
                Object::new($route { meta, spec: self, status, version })
            }
        }
    };
}

/// Implements [`Spec`] like [`route`], for routes without filters.
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
