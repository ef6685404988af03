//! Builders of the objects of Gateway API.

mod http_policies;
mod listener_sets;
mod policies;
mod streams;

use std::sync::Arc;

use super::objects::{meta, service, with_meta};
use crate::objects::gateway::{
    AllowedNamespaces, AllowedRoutes, BackendRef, Definition, Gateway, GatewayAddress, GatewayClass, GatewayClassSpec,
    GatewayListener, GatewaySpec, GrantFrom, GrantTo, HttpBackendRef, HttpFilter, HttpMatch, HttpPathMatch, HttpRoute,
    HttpRouteRule, HttpRouteSpec, LabelSelector, NamedMatch, ParentRef, ReferenceGrant, ReferenceGrantSpec, RouteKind,
    SecretRef,
};
use crate::objects::{Exposure, GatewayService, Meta, Namespace, Object, ObjectKey, Service, Transport};

pub use http_policies::{HttpPolicyBuilder, http_policy};
pub use listener_sets::{ListenerSetBuilder, allowed_listeners, listener_set, parent_set};
pub use policies::{BackendTlsPolicyBuilder, backend_tls_policy, config_map};
pub use streams::{StreamRouteBuilder, stream_route, tcp_route, tls_route, udp_route, with_udp_port, with_udp_ports};

/// The group of Gateway API's routes and Gateways.
const GROUP: &str = crate::objects::gateway::GROUP;

/// The controller of the GatewayClasses that [`gateway_class`] creates.
pub const CONTROLLER: &str = "lockgate.dev/gateway-controller";

/// A GatewayClass.
#[derive(Clone)]
pub struct GatewayClassBuilder(GatewayClass);
with_meta!(GatewayClassBuilder);

/// Starts a GatewayClass of Lockgate's controller. The class of [`gateway`] is `lockgate`.
pub fn gateway_class(name: &str) -> GatewayClassBuilder {
    let meta = Meta { key: ObjectKey::new("", name), ..meta(name) };
    let spec = GatewayClassSpec { controller_name: CONTROLLER.to_owned(), parameters_ref: None };
    GatewayClassBuilder(GatewayClass { meta, spec, status: Default::default(), version: "".into() })
}

impl GatewayClassBuilder {
    pub fn controller(mut self, controller: &str) -> Self {
        self.0.spec.controller_name = controller.to_owned();
        self
    }

    /// Applies any other change to the spec.
    pub fn spec(mut self, change: impl FnOnce(&mut GatewayClassSpec)) -> Self {
        change(&mut self.0.spec);
        self
    }
}

/// Returns the CustomResourceDefinition of a kind of Gateway API, by its plural. An empty annotation is absent.
pub fn definition(plural: &str, bundle: &str, channel: &str) -> Object {
    let annotation = |text: &str| (!text.is_empty()).then(|| text.into());
    let meta = Meta { key: ObjectKey::new("", &format!("{plural}.{GROUP}")), ..meta(plural) };
    Object::new(Definition { meta, bundle: annotation(bundle), channel: annotation(channel) })
}

/// A Gateway.
#[derive(Clone)]
pub struct GatewayBuilder(Gateway);
with_meta!(GatewayBuilder);

/// Starts the Gateway `shop/name` of class `lockgate`, or `name` if it has a namespace.
pub fn gateway(name: &str) -> GatewayBuilder {
    let spec = GatewaySpec { gateway_class_name: "lockgate".to_owned(), ..GatewaySpec::default() };
    GatewayBuilder(Gateway { meta: meta(name), spec, status: Default::default(), version: "".into() })
}

impl GatewayBuilder {
    pub fn class(mut self, class: &str) -> Self {
        self.0.spec.gateway_class_name = class.to_owned();
        self
    }

    /// Adds a listener, to which the following calls apply.
    pub fn listener(mut self, name: &str, port: u16, protocol: &str) -> Self {
        let protocol = protocol.to_owned();
        let listener = GatewayListener { name: name.into(), port, protocol, ..GatewayListener::default() };
        self.0.spec.listeners.push(listener);
        self
    }

    pub fn hostname(self, hostname: &str) -> Self {
        self.change(|listener| listener.hostname = Some(hostname.to_owned()))
    }

    /// Adds the certificate of the Secret `name` or `namespace/name`.
    pub fn certificate(self, secret: &str) -> Self {
        let (namespace, name) = named(secret);
        let secret = SecretRef { namespace, name, ..SecretRef::default() };
        self.change(|listener| listener.tls.get_or_insert_default().certificate_refs.push(secret))
    }

    /// Sets the TLS mode.
    pub fn tls_mode(self, mode: &str) -> Self {
        self.change(|listener| listener.tls.get_or_insert_default().mode = Some(mode.to_owned()))
    }

    /// Allows routes of the namespaces `All`, `Same`, or `None`.
    pub fn routes_from(self, from: &str) -> Self {
        let from = AllowedNamespaces { from: Some(from.to_owned()), selector: None };
        self.allow(|allowed| allowed.namespaces = Some(from))
    }

    /// Allows routes of the namespaces with these labels.
    pub fn routes_from_labels(self, labels: &[(&str, &str)]) -> Self {
        let match_labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let selector = LabelSelector { match_labels, ..LabelSelector::default() };
        let from = AllowedNamespaces { from: Some("Selector".to_owned()), selector: Some(selector) };
        self.allow(|allowed| allowed.namespaces = Some(from))
    }

    /// Allows routes of this kind of Gateway API.
    pub fn route_kind(self, kind: &str) -> Self {
        self.allow(|allowed| allowed.kinds.push(RouteKind { group: None, kind: kind.to_owned() }))
    }

    /// Allows ListenerSets of the namespaces `All`, `Same`, or `None`, or with the label `team: front` (`Selector`).
    pub fn sets_from(mut self, from: &str) -> Self {
        self.0.spec.allowed_listeners = allowed_listeners(from);
        self
    }

    /// Requests an address of the Gateway.
    pub fn address(mut self, r#type: &str, value: &str) -> Self {
        let address = GatewayAddress { r#type: Some(r#type.to_owned()), value: value.to_owned() };
        self.0.spec.addresses.push(address);
        self
    }

    /// Applies any other change to the spec.
    pub fn spec(mut self, change: impl FnOnce(&mut GatewaySpec)) -> Self {
        change(&mut self.0.spec);
        self
    }

    /// Applies any other change to the last listener.
    pub fn change(mut self, change: impl FnOnce(&mut GatewayListener)) -> Self {
        change(self.0.spec.listeners.last_mut().expect("a listener"));
        self
    }

    fn allow(self, change: impl FnOnce(&mut AllowedRoutes)) -> Self {
        self.change(|listener| change(listener.allowed_routes.get_or_insert_default()))
    }
}

/// An HTTPRoute.
#[derive(Clone)]
pub struct HttpRouteBuilder(HttpRoute);
with_meta!(HttpRouteBuilder);

/// Starts the HTTPRoute `shop/name`, or `name` if it has a namespace. It has no parents, hosts, or rules.
pub fn http_route(name: &str) -> HttpRouteBuilder {
    let spec = HttpRouteSpec { rules: Some(Vec::new()), ..HttpRouteSpec::default() };
    HttpRouteBuilder(HttpRoute { meta: meta(name), spec, status: Default::default(), version: "".into() })
}

impl HttpRouteBuilder {
    /// Adds the parent `name` or `namespace/name`, a Gateway.
    pub fn parent(mut self, gateway: &str) -> Self {
        let (namespace, name) = named(gateway);
        self.0.spec.parent_refs.push(ParentRef { namespace, name, ..ParentRef::default() });
        self
    }

    /// Adds the parent `name` or `namespace/name`, a ListenerSet.
    pub fn parent_set(mut self, set: &str) -> Self {
        self.0.spec.parent_refs.push(parent_set(set));
        self
    }

    /// Restricts the last parent to the listener with this name.
    pub fn section(mut self, listener: &str) -> Self {
        self.0.spec.parent_refs.last_mut().expect("a parent").section_name = Some(listener.to_owned());
        self
    }

    /// Restricts the last parent to the listeners with this port.
    pub fn parent_port(mut self, port: u16) -> Self {
        self.0.spec.parent_refs.last_mut().expect("a parent").port = Some(port);
        self
    }

    pub fn host(mut self, host: &str) -> Self {
        self.0.spec.hostnames.push(host.to_owned());
        self
    }

    /// Adds a rule for a prefix of the path, with the backend `service:port` or `namespace/service:port`. An empty
    /// prefix is no match, and an empty backend is no backend. The following calls apply to the rule.
    pub fn rule(mut self, prefix: &str, backend: &str) -> Self {
        self.0.spec.rules.get_or_insert_default().push(HttpRouteRule::default());
        let with_match = if prefix.is_empty() { self } else { self.path("PathPrefix", prefix) };
        if backend.is_empty() { with_match } else { with_match.backend(backend) }
    }

    /// Sets the name of the rule.
    pub fn rule_name(mut self, name: &str) -> Self {
        let rule = self.0.spec.rules.as_mut().and_then(|rules| rules.last_mut());
        rule.expect("a rule").name = Some(name.to_owned());
        self
    }

    /// Adds a match of the path to the rule, to which the following conditions belong.
    pub fn path(self, r#type: &str, value: &str) -> Self {
        let path = HttpPathMatch { r#type: Some(r#type.to_owned()), value: Some(value.to_owned()) };
        self.matching(HttpMatch { path: Some(path), ..HttpMatch::default() })
    }

    /// Adds a match to the rule, to which the following conditions belong.
    pub fn matching(self, one: HttpMatch) -> Self {
        self.change(|rule| rule.matches.push(one))
    }

    /// Adds a condition on a header to the last match.
    pub fn header(self, name: &str, value: &str) -> Self {
        let header = condition(name, value);
        self.change(|rule| last_match(rule).headers.push(header))
    }

    /// Adds a condition on a query parameter to the last match.
    pub fn query(self, name: &str, value: &str) -> Self {
        let query = condition(name, value);
        self.change(|rule| last_match(rule).query_params.push(query))
    }

    /// Sets the method of the last match.
    pub fn method(self, method: &str) -> Self {
        self.change(|rule| last_match(rule).method = Some(method.to_owned()))
    }

    pub fn filter(self, filter: HttpFilter) -> Self {
        self.change(|rule| rule.filters.push(filter))
    }

    /// Adds the backend `service:port` or `namespace/service:port`.
    pub fn backend(self, to: &str) -> Self {
        let backend = HttpBackendRef { backend: backend_ref(to), filters: Vec::new() };
        self.change(|rule| rule.backend_refs.push(backend))
    }

    /// Sets the weight of the last backend.
    pub fn weight(self, weight: u32) -> Self {
        self.change(|rule| rule.backend_refs.last_mut().expect("a backend").backend.weight = Some(weight))
    }

    /// Applies any other change to the last rule.
    pub fn change(mut self, change: impl FnOnce(&mut HttpRouteRule)) -> Self {
        change(self.0.spec.rules.get_or_insert_default().last_mut().expect("a rule"));
        self
    }

    /// Applies any other change to the spec.
    pub fn spec(mut self, change: impl FnOnce(&mut HttpRouteSpec)) -> Self {
        change(&mut self.0.spec);
        self
    }
}

/// A ReferenceGrant.
#[derive(Clone)]
pub struct ReferenceGrantBuilder(ReferenceGrant);
with_meta!(ReferenceGrantBuilder);

/// Starts the ReferenceGrant `shop/name`, or `name` if it has a namespace. It grants nothing.
pub fn reference_grant(name: &str) -> ReferenceGrantBuilder {
    ReferenceGrantBuilder(ReferenceGrant { meta: meta(name), spec: ReferenceGrantSpec::default() })
}

impl ReferenceGrantBuilder {
    /// Adds the objects of Gateway API of `kind` in `namespace` as sources.
    pub fn from(mut self, kind: &str, namespace: &str) -> Self {
        let (group, kind, namespace) = (GROUP.to_owned(), kind.to_owned(), namespace.into());
        self.0.spec.from.push(GrantFrom { group, kind, namespace });
        self
    }

    /// Replaces the group of the last source.
    pub fn from_group(mut self, group: &str) -> Self {
        self.0.spec.from.last_mut().expect("a source").group = group.to_owned();
        self
    }

    /// Adds the core objects of `kind` as targets. An empty name is every object.
    pub fn to(mut self, kind: &str, name: &str) -> Self {
        let name = Some(name.to_owned()).filter(|name| !name.is_empty());
        self.0.spec.to.push(GrantTo { group: String::new(), kind: kind.to_owned(), name });
        self
    }
}

/// Returns the Service of the Gateway `name` or `namespace/name` of class `lockgate`, as the leader writes it, with TCP ports: the
/// port of the Gateway and the port of Envoy.
pub fn gateway_service(gateway: &str, ports: &[(u16, u16)]) -> Object {
    let mut service = service(&format!("{gateway}-lockgate"));
    for (port, _) in ports {
        service = service.port(&format!("tcp-{port}"), *port);
    }
    let mut ports: Vec<_> = ports.iter().map(|(port, target)| (Transport::Tcp, *port, *target)).collect();
    ports.sort_unstable();
    let (_, name) = named(gateway);
    let mut port_names: Box<[Arc<str>]> = ports.iter().map(|(_, port, _)| format!("tcp-{port}").into()).collect();
    port_names.sort_unstable();
    let exposure = Exposure { r#type: Some("LoadBalancer".into()), port_names, ..Exposure::default() };
    let gateway = GatewayService { name: name.into(), ports, exposure, ..GatewayService::default() };
    Object::from(service).with::<Service>(|service| service.gateway = Some(Box::new(gateway)))
}

/// Returns a Namespace with these labels.
pub fn labeled_namespace(name: &str, labels: &[(&str, &str)]) -> Object {
    let labels = labels.iter().map(|(key, value)| (Arc::from(*key), Arc::from(*value))).collect();
    Object::new(Namespace { meta: Meta { key: ObjectKey::new("", name), ..meta(name) }, labels })
}

/// Splits `namespace/name`; the namespace is optional.
fn named(text: &str) -> (Option<String>, String) {
    match text.split_once('/') {
        Some((namespace, name)) => (Some(namespace.to_owned()), name.to_owned()),
        None => (None, text.to_owned()),
    }
}

/// Parses a backend: `service:8080`, `namespace/service:8080`, or a Service without a port.
pub fn backend_ref(to: &str) -> BackendRef {
    let (to, port) = match to.split_once(':') {
        Some((to, port)) => (to, Some(port.parse().expect("a port"))),
        None => (to, None),
    };
    let (namespace, name) = named(to);
    BackendRef { namespace, name, port, ..BackendRef::default() }
}

fn condition(name: &str, value: &str) -> NamedMatch {
    NamedMatch { r#type: None, name: name.to_owned(), value: value.to_owned() }
}

fn last_match(rule: &mut HttpRouteRule) -> &mut HttpMatch {
    rule.matches.last_mut().expect("a match")
}
