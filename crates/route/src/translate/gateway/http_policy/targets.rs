//! The targets of an HTTPPolicy.

use std::sync::Arc;

use crate::objects::gateway::{Gateway, GrpcRoute, HttpPolicyTarget, HttpRoute};
use crate::objects::http_proxy::HttpProxy;
use crate::objects::{Ingress, Kind, ObjectId, ObjectKey, Objects};
use crate::translate::dialect::Resolver;
use crate::translate::graph::Input;
use crate::translate::host;
use crate::translate::problem::Message;
use crate::translate::source::section_of;
use crate::translate::verdict::ConditionFault;

/// A target of a policy: a Gateway, a route, an Ingress, a part of one of these, an HTTPProxy, or a namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SectionTarget {
    /// The object.
    pub object: ObjectId,
    /// The name of the listener or the rule, or the host of an Ingress. `None`: the complete object.
    pub section: Option<Arc<str>>,
}

/// The kinds of targets with a name for their sections.
const TARGETS: [(Kind, &str); 5] = [
    (Kind::GATEWAY, "listener"),
    (Kind::HTTP_ROUTE, "rule"),
    (Kind::GRPC_ROUTE, "rule"),
    (Kind::INGRESS, "host"),
    (Kind::HTTP_PROXY, "section"),
];

/// Returns the target of a reference if it exists.
pub fn parse(
    target: &HttpPolicyTarget,
    namespace: &Arc<str>,
    resolver: &mut Resolver,
) -> Result<SectionTarget, ConditionFault> {
    let HttpPolicyTarget { group, kind, name, section_name } = target;
    let section = section_name.clone().filter(|name| !name.is_empty());
    let is = |one: Kind| group == one.info().group && kind == one.as_str();
    if is(Kind::NAMESPACE) {
        return self::namespace(name, section.as_deref(), namespace);
    }
    let Some((of, part)) = TARGETS.into_iter().find(|(one, _)| is(*one)) else {
        let message = format!("targets of kind {kind:?} of group {group:?} are not supported");
        return Err(ConditionFault::new("Invalid", message));
    };
    let key = ObjectKey { namespace: namespace.clone(), name: name.as_str().into() };
    resolver.record(Input::new(of, key.clone()));
    let object = of.id(key);
    let section = match (&section, of == Kind::INGRESS) {
        // The form of the host in the source of the Ingress.
        (Some(text), true) => host::parse(text).ok().as_ref().and_then(section_of).or(section),
        _ => section,
    };
    match (has_section(&object, section.as_deref(), resolver.context.objects), &section) {
        (Some(true), _) => Ok(SectionTarget { object, section }),
        (Some(false), name) => {
            let name = name.as_deref().unwrap_or_default();
            let message = format!("{kind} \"{}\" has no {part} {name:?}", object.key);
            Err(ConditionFault::new("TargetNotFound", message))
        }
        (None, _) => Err(ConditionFault::new("TargetNotFound", Message::missing(of, &object.key, "does not exist"))),
    }
}

/// Returns the target of a reference to a namespace, which must be that of the policy.
fn namespace(name: &str, section: Option<&str>, own: &Arc<str>) -> Result<SectionTarget, ConditionFault> {
    match section {
        _ if *name != **own => {
            let message = format!("namespace {name:?} is not the namespace of the policy, {own:?}");
            Err(ConditionFault::new("Invalid", message))
        }
        Some(section) => {
            let message = format!("Namespace \"{own}\" has no section {section:?}");
            Err(ConditionFault::new("TargetNotFound", message))
        }
        None => Ok(SectionTarget { object: of_namespace(own), section: None }),
    }
}

/// Returns the object that stands for a namespace.
pub fn of_namespace(name: &Arc<str>) -> ObjectId {
    Kind::NAMESPACE.id(ObjectKey { namespace: "".into(), name: name.clone() })
}

/// Returns whether an object has a listener, a rule, or a host of this name. Returns `None` if the object does not exist.
fn has_section(object: &ObjectId, name: Option<&str>, objects: &Objects) -> Option<bool> {
    let is = |other: &Option<String>| other.as_deref() == name;
    let key = &object.key;
    let has = if object.kind == Kind::GATEWAY {
        objects.get::<Gateway>(key)?.spec.listeners.iter().any(|one| Some(&*one.name) == name)
    } else if object.kind == Kind::HTTP_ROUTE {
        objects.get::<HttpRoute>(key)?.spec.rules.iter().flatten().any(|rule| is(&rule.name))
    } else if object.kind == Kind::GRPC_ROUTE {
        objects.get::<GrpcRoute>(key)?.spec.rules.iter().any(|rule| is(&rule.name))
    } else if object.kind == Kind::HTTP_PROXY {
        objects.get::<HttpProxy>(key)?;
        false
    } else {
        let hosts = objects.get::<Ingress>(key)?.spec.rules.iter().flatten().flat_map(|rule| &rule.host);
        let mut sections = hosts.filter_map(|text| section_of(&host::parse(text).ok()?));
        name.is_some() && sections.any(|section| Some(&*section) == name)
    };
    Some(name.is_none() || has)
}
