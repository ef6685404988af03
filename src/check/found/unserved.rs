//! The objects that Lockgate does not serve because of their class or their parents.

use lockgate_route::objects::gateway::{GROUP, Gateway, GatewayClass, ListenerSet, ParentRef};
use lockgate_route::objects::{IngressClass, Kind, Object, ObjectKey};
use lockgate_route::translate::{
    CLASS_FIELD, DIALECTS, Reason, Selection, default_class, dialect_of, is_classless, kinds_with_class,
};

use super::super::Scope;
use super::{Finding, FindingCollector, Level, Rule, finding};

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

impl FindingCollector<'_> {
    /// Adds the objects without a class, which are checked as if they were served.
    pub fn classless(&mut self) {
        for object in self.of_manifests(&kinds_with_class().collect::<Vec<_>>()) {
            if !is_classless(object) {
                continue;
            }
            let id = object.id();
            let kind = id.kind.as_str();
            let message = format!("the {kind} names no class, and no IngressClass in the manifests is the default");
            let consequence = "answered 404 unless the cluster has a default IngressClass of Lockgate";
            let finding = finding(&id, CLASS_FIELD.to_owned(), Rule::NotServed, &message, consequence);
            let remedy = format!(
                "Set {CLASS_FIELD} to a class of Lockgate. If the controller serves Ingresses without a class, check with \
                 --watch-ingress-without-class."
            );
            self.add(&id, Finding { level: Level::Warning, remedy, ..finding });
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
            let selection = dialect_of(id.kind).map(|dialect| dialect.selection);
            let remedy = match (self.scope, selection) {
                (Scope::Part, Some(Selection::Class { .. })) => {
                    "No action is needed if another controller serves it; --ingress-class NAME checks it as if Lockgate did."
                }
                (Scope::Part, None) => {
                    "No action is needed if another controller serves it; --gateway-class NAME checks it as if Lockgate did."
                }
                (_, Some(Selection::Class { .. })) if level == Level::Warning => {
                    "Set spec.ingressClassName to a class of Lockgate, or mark one as the default."
                }
                (_, Some(Selection::Parents { .. })) if level == Level::Warning => {
                    "Name a Gateway or a ListenerSet of Lockgate in spec.parentRefs."
                }
                _ => rule.remedy(),
            };
            self.add(&id, Finding { level, remedy: remedy.to_owned(), ..finding });
        }
    }

    fn why_unserved(&self, object: &Object) -> Why {
        match dialect_of(object.kind()).map(|dialect| dialect.selection) {
            Some(Selection::Class { named, .. }) => self.why_class(object.kind(), named(object)),
            Some(Selection::Parents { of, .. }) => self.why_parents(object, of(object)),
            Some(Selection::Referenced) => {
                Why::of_another("", "no object that Lockgate serves refers to it".to_owned())
            }
            None => object.get().map_or_else(
                || Why::of_another("", "the kind declares no routes".to_owned()),
                |gateway| self.why_gateway(gateway),
            ),
        }
    }

    fn why_class(&self, kind: Kind, class: Option<&str>) -> Why {
        let field = CLASS_FIELD;
        let Some(class) = class else {
            return match default_class(self.objects) {
                Some(class) => {
                    let (name, controller) = (&class.meta.key.name, &class.controller);
                    let message = format!("the default IngressClass {name:?} belongs to the controller {controller:?}");
                    Why::of_another(field, message)
                }
                None => {
                    let kind = kind.as_str();
                    Why::of_nobody(field, format!("the {kind} names no class, and no IngressClass is the default"))
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

    fn why_parents(&self, object: &Object, parents: &[ParentRef]) -> Why {
        let field = "spec.parentRefs";
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
