//! The objects that Lockgate does not serve because of their class or their parents.

use lockgate_route::objects::gateway::{
    GROUP, Gateway, GatewayClass, GrpcRoute, HttpRoute, ListenerSet, ParentRef, TcpRoute, TlsRoute, UdpRoute,
};
use lockgate_route::objects::{Ingress, IngressClass, Kind, Object, ObjectKey};
use lockgate_route::translate::DIALECTS;
use lockgate_route::translate::{Reason, class_of_ingress, default_class};

use super::super::Scope;
use super::{Finding, Found, Level, Rule, finding};

/// Why an object is not served.
struct Why {
    rule: Rule,
    level: Level,
    field: &'static str,
    message: String,
}

impl Why {
    /// Another controller serves the object.
    fn of_another(field: &'static str, message: String) -> Self {
        Self { rule: Rule::NotServed, level: Level::Note, field, message }
    }

    /// As far as the manifests tell, no controller serves the object.
    fn of_nobody(field: &'static str, message: String) -> Self {
        Self { rule: Rule::NotServed, level: Level::Warning, field, message }
    }
}

impl Found<'_> {
    /// Adds the Ingresses without a class, which are checked as if they were served.
    pub fn classless(&mut self) {
        for object in self.of_manifests(&[Kind::INGRESS]) {
            if object.get::<Ingress>().is_none_or(|ingress| class_of_ingress(ingress).is_some()) {
                continue;
            }
            let message = "the Ingress names no class, and no IngressClass in the manifests is the default";
            let consequence = "answered 404 unless the cluster has a default IngressClass of Lockgate";
            let id = object.id();
            let finding = finding(&id, "spec.ingressClassName".to_owned(), Rule::NotServed, message, consequence);
            let remedy = "Set spec.ingressClassName to a class of Lockgate. If the controller serves Ingresses without a class, check \
                          with --watch-ingress-without-class.";
            self.add(&id, Finding { level: Level::Warning, remedy: remedy.to_owned(), ..finding });
        }
    }

    /// Adds the objects that are not served because of their class.
    pub fn unserved(&mut self) {
        let kinds: Vec<Kind> = DIALECTS.iter().map(|dialect| dialect.kind).chain([Kind::GATEWAY]).collect();
        for object in self.of_manifests(&kinds) {
            let id = object.id();
            if self.translator.serves(&id) {
                continue;
            }
            let Why { rule, level, field, message } = self.why_unserved(object);
            let finding = finding(&id, field.to_owned(), rule, &message, "not served, and not checked further");
            let remedy = match self.scope {
                Scope::Part if id.kind == Kind::INGRESS => {
                    "No action is needed if another controller serves it; --ingress-class NAME checks it as if Lockgate did."
                }
                Scope::Part if id.kind == Kind::GATEWAY => {
                    "No action is needed if another controller serves it; --gateway-class NAME checks it as if Lockgate did."
                }
                _ if level == Level::Warning && id.kind == Kind::INGRESS => {
                    "Set spec.ingressClassName to a class of Lockgate, or mark one as the default."
                }
                _ if level == Level::Warning && id.kind != Kind::GATEWAY => {
                    "Name a Gateway or a ListenerSet of Lockgate in spec.parentRefs."
                }
                _ => rule.remedy(),
            };
            self.add(&id, Finding { level, remedy: remedy.to_owned(), ..finding });
        }
    }

    fn why_unserved(&self, object: &Object) -> Why {
        if let Some(ingress) = object.get::<Ingress>() {
            self.why_ingress(ingress)
        } else if let Some(gateway) = object.get::<Gateway>() {
            self.why_gateway(gateway)
        } else {
            self.why_route(object)
        }
    }

    fn why_ingress(&self, ingress: &Ingress) -> Why {
        let field = "spec.ingressClassName";
        let Some(class) = class_of_ingress(ingress) else {
            return match default_class(self.objects) {
                Some(class) => {
                    let (name, controller) = (&class.meta.key.name, &class.controller);
                    let message = format!("the default IngressClass {name:?} belongs to the controller {controller:?}");
                    Why::of_another(field, message)
                }
                None => {
                    Why::of_nobody(field, "the Ingress names no class, and no IngressClass is the default".to_owned())
                }
            };
        };
        match self.objects.get::<IngressClass>(&ObjectKey::new("", class)) {
            Some(found) => {
                let controller = &found.controller;
                Why::of_another(field, format!("IngressClass {class:?} belongs to the controller {controller:?}"))
            }
            None if self.scope.is_unknown(Kind::INGRESS_CLASS) => {
                Why::of_another(field, format!("the class {class:?} is not one of the configured classes"))
            }
            None => {
                let rule = Rule::Reason(Reason::IngressClassNotFound);
                Why { rule, level: Level::Error, field, message: format!("IngressClass {class:?} does not exist") }
            }
        }
    }

    fn why_gateway(&self, gateway: &Gateway) -> Why {
        let (field, class) = ("spec.gatewayClassName", &gateway.spec.gateway_class_name);
        match self.objects.get::<GatewayClass>(&ObjectKey::new("", class)) {
            Some(found) => {
                let controller = &found.spec.controller_name;
                Why::of_another(field, format!("GatewayClass {class:?} belongs to the controller {controller:?}"))
            }
            None if self.scope.is_unknown(Kind::GATEWAY_CLASS) => {
                Why::of_another(field, format!("the class {class:?} is none of --gateway-class"))
            }
            None => Why::of_nobody(field, format!("GatewayClass {class:?} does not exist")),
        }
    }

    fn why_route(&self, object: &Object) -> Why {
        let (field, parents) = ("spec.parentRefs", parents(object));
        if parents.is_empty() {
            return Why::of_nobody(field, "the route names no parent".to_owned());
        }
        let is_missing = |parent: &&ParentRef| {
            let namespace = parent.namespace.as_deref().unwrap_or(&object.meta().key.namespace);
            let key = ObjectKey::new(namespace, &parent.name);
            let of_gateway_api = parent.group.as_deref().unwrap_or(GROUP) == GROUP;
            match parent.kind.as_deref().unwrap_or("Gateway") {
                "Gateway" if of_gateway_api => self.objects.get::<Gateway>(&key).is_none(),
                "ListenerSet" if of_gateway_api => {
                    !self.scope.is_unknown(Kind::LISTENER_SET) && self.objects.get::<ListenerSet>(&key).is_none()
                }
                // A Service, for a service mesh, or a kind of another controller.
                _ => false,
            }
        };
        let message = "no parent is a Gateway of Lockgate".to_owned();
        match parents.iter().find(is_missing) {
            Some(parent) => Why::of_nobody(field, format!("{message}; {:?} does not exist", parent.name)),
            None => Why::of_another(field, message),
        }
    }
}

/// Returns the parents of a route.
fn parents(object: &Object) -> &[ParentRef] {
    if let Some(route) = object.get::<HttpRoute>() {
        &route.spec.parent_refs
    } else if let Some(route) = object.get::<GrpcRoute>() {
        &route.spec.parent_refs
    } else if let Some(route) = object.get::<TlsRoute>() {
        &route.spec.parent_refs
    } else if let Some(route) = object.get::<TcpRoute>() {
        &route.spec.parent_refs
    } else if let Some(route) = object.get::<UdpRoute>() {
        &route.spec.parent_refs
    } else {
        &[]
    }
}
