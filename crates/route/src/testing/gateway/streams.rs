//! Builders of TCPRoutes, UDPRoutes, and TLSRoutes, and of Services for them.

use super::{backend_ref, named, parent_set};
use crate::objects::gateway::{
    ParentRef, StreamRule, TcpRoute, TcpRouteSpec, TlsRoute, TlsRouteSpec, UdpRoute, UdpRouteSpec,
};
use crate::objects::{Kind, Meta, Object, Service, ServicePort, Transport};
use crate::testing::objects::meta;

/// A TCPRoute, a UDPRoute, or a TLSRoute.
#[derive(Clone)]
pub struct StreamRouteBuilder {
    kind: Kind,
    meta: Meta,
    parents: Vec<ParentRef>,
    hostnames: Vec<String>,
    rule: StreamRule,
}

/// Starts the TCPRoute `shop/name`, or `name` if it has a namespace. It has one rule without backends.
pub fn tcp_route(name: &str) -> StreamRouteBuilder {
    stream_route(Kind::TCP_ROUTE, name)
}

/// Starts a UDPRoute like [`tcp_route`].
pub fn udp_route(name: &str) -> StreamRouteBuilder {
    stream_route(Kind::UDP_ROUTE, name)
}

/// Starts a TLSRoute like [`tcp_route`].
pub fn tls_route(name: &str) -> StreamRouteBuilder {
    stream_route(Kind::TLS_ROUTE, name)
}

/// Starts a route of this kind like [`tcp_route`].
pub fn stream_route(kind: Kind, name: &str) -> StreamRouteBuilder {
    let (parents, hostnames, rule) = (Vec::new(), Vec::new(), StreamRule::default());
    StreamRouteBuilder { kind, meta: meta(name), parents, hostnames, rule }
}

impl StreamRouteBuilder {
    /// Adds the parent `name` or `namespace/name`, a Gateway.
    pub fn parent(mut self, gateway: &str) -> Self {
        let (namespace, name) = named(gateway);
        self.parents.push(ParentRef { namespace, name, ..ParentRef::default() });
        self
    }

    /// Adds the parent `name` or `namespace/name`, a ListenerSet.
    pub fn parent_set(mut self, set: &str) -> Self {
        self.parents.push(parent_set(set));
        self
    }

    /// Restricts the last parent to the listener with this name.
    pub fn section(mut self, listener: &str) -> Self {
        self.parents.last_mut().expect("a parent").section_name = Some(listener.to_owned());
        self
    }

    /// Restricts the last parent to the listeners with this port.
    pub fn parent_port(mut self, port: u16) -> Self {
        self.parents.last_mut().expect("a parent").port = Some(port);
        self
    }

    /// Adds a host, which only TLSRoutes have.
    pub fn host(mut self, host: &str) -> Self {
        self.hostnames.push(host.to_owned());
        self
    }

    /// Adds the backend `service:port` or `namespace/service:port`.
    pub fn backend(mut self, to: &str) -> Self {
        self.rule.backend_refs.push(backend_ref(to));
        self
    }

    /// Sets the weight of the last backend.
    pub fn weight(mut self, weight: u32) -> Self {
        self.rule.backend_refs.last_mut().expect("a backend").weight = Some(weight);
        self
    }

    /// Sets the creation time in seconds.
    pub fn created(mut self, created: i64) -> Self {
        self.meta.created = created;
        self
    }
}

impl From<StreamRouteBuilder> for Object {
    fn from(builder: StreamRouteBuilder) -> Self {
        let StreamRouteBuilder { kind, meta, parents: parent_refs, hostnames, rule } = builder;
        let (rules, status, version) = (vec![rule], Default::default(), "".into());
        if kind == Kind::TCP_ROUTE {
            return Object::new(TcpRoute { meta, spec: TcpRouteSpec { parent_refs, rules }, status, version });
        }
        if kind == Kind::UDP_ROUTE {
            return Object::new(UdpRoute { meta, spec: UdpRouteSpec { parent_refs, rules }, status, version });
        }
        Object::new(TlsRoute { meta, spec: TlsRouteSpec { parent_refs, hostnames, rules }, status, version })
    }
}

/// Adds a port for UDP to a Service.
pub fn with_udp_port(service: impl Into<Object>, name: &str, port: u16) -> Object {
    let port = ServicePort { name: name.into(), port, protocol: "UDP".into(), app_protocol: None };
    service.into().with::<Service>(|service| service.ports.push(port))
}

/// Adds ports for UDP to the Service of a Gateway: the port of the Gateway and the port of Envoy.
pub fn with_udp_ports(service: Object, ports: &[(u16, u16)]) -> Object {
    service.with::<Service>(|service| {
        let of_gateway = service.gateway.as_mut().expect("the Service of a Gateway");
        of_gateway.ports.extend(ports.iter().map(|(port, target)| (Transport::Udp, *port, *target)));
        of_gateway.ports.sort_unstable();
        let names = ports.iter().map(|(port, _)| format!("udp-{port}").into());
        of_gateway.exposure.port_names = of_gateway.exposure.port_names.iter().cloned().chain(names).collect();
        of_gateway.exposure.port_names.sort_unstable();
    })
}
