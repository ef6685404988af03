//! The parser of a single BackendPolicy or XBackendTrafficPolicy.

mod features;
mod traffic;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use crate::model::{BackendFeatures, Session};
use crate::objects::{
    BackendPolicy, BackendPolicyTarget, Kind, Meta, ObjectId, ObjectKey, Objects, Precedence, Revision, Service,
};
use crate::settings::Settings;

use super::graph::Input;
use super::problem::{Message, Problem, Reason, bounded};
use super::verdict::ConditionFault;

/// A policy, parsed.
#[derive(Debug, PartialEq)]
pub struct ParsedBackendPolicy {
    /// A reference to it.
    pub origin: ObjectRef,
    /// The hash of its content.
    pub revision: Revision,
    /// Its rank among policies with the same target.
    pub precedence: Precedence,
    /// The targets in the order of the spec.
    pub targets: Box<[Result<PortNumberTarget, ConditionFault>]>,
    /// The Services that it names, whether they exist or not.
    pub services: BTreeSet<ObjectKey>,
    /// The same Services as inputs.
    pub inputs: Box<[Input]>,
    /// The valid features.
    pub features: BackendFeatures,
    /// The session persistence of each Service.
    pub sessions: BTreeMap<ObjectKey, Session>,
    /// How Lockgate serves a feature that has no exact equivalent in Envoy, for the condition `Accepted`.
    pub note: Message,
    /// The faults of the features, which are left out.
    pub problems: Box<[Arc<Problem>]>,
}

/// A target of a policy: a Service, or one of its ports.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortNumberTarget {
    /// The Service.
    pub service: ObjectKey,
    /// The number of the TCP port; `None` is every port.
    pub port: Option<u16>,
}

/// Parses a policy of one of [`KINDS`](super::backend_policies::KINDS), if it exists.
pub fn parse(id: &ObjectId, objects: &Objects, settings: &Settings) -> Option<ParsedBackendPolicy> {
    match id.kind == Kind::BACKEND_POLICY {
        true => objects.get(&id.key).map(|policy| backend_policy(policy, objects, settings)),
        false => objects.get(&id.key).map(|policy| traffic::parse(policy, objects, settings)),
    }
}

fn backend_policy(policy: &BackendPolicy, objects: &Objects, settings: &Settings) -> ParsedBackendPolicy {
    let BackendPolicy { meta, spec, status: _, version: _ } = policy;
    let origin = meta.object_ref(Kind::BACKEND_POLICY);
    let services = services(meta, &spec.target_refs);
    let (features, mut problems) = features::parse(spec, &origin, settings);
    if features.health_check.is_some() {
        problems.extend(services.iter().filter(|service| is_external(service, objects)).map(|service| Problem {
            object: origin.clone(),
            field: "spec.healthCheck".to_owned(),
            reason: Reason::PolicyNotValid,
            message: format!("Service \"{service}\" has an external name, which Envoy does not check").into(),
            consequence: "left out for this Service".to_owned(),
        }));
    }
    ParsedBackendPolicy {
        revision: Revision::new(meta, spec),
        precedence: objects.precedence(Kind::BACKEND_POLICY, meta),
        targets: targets(meta, &spec.target_refs, objects),
        inputs: services.iter().map(|service| Input::new(Kind::SERVICE, service.clone())).collect(),
        services,
        features,
        sessions: BTreeMap::new(),
        note: Message::default(),
        problems: bounded(problems),
        origin,
    }
}

/// Returns the Services that a policy names, whether they exist or not.
fn services(meta: &Meta, references: &[BackendPolicyTarget]) -> BTreeSet<ObjectKey> {
    references.iter().filter(|reference| is_service(reference)).map(|reference| key(meta, reference)).collect()
}

fn targets(
    meta: &Meta,
    references: &[BackendPolicyTarget],
    objects: &Objects,
) -> Box<[Result<PortNumberTarget, ConditionFault>]> {
    references.iter().map(|reference| target(reference, key(meta, reference), objects)).collect()
}

fn key(meta: &Meta, reference: &BackendPolicyTarget) -> ObjectKey {
    ObjectKey { namespace: meta.key.namespace.clone(), name: reference.name.as_str().into() }
}

fn is_service(target: &BackendPolicyTarget) -> bool {
    target.group.is_empty() && target.kind == Kind::SERVICE.as_str()
}

fn is_external(service: &ObjectKey, objects: &Objects) -> bool {
    objects.get::<Service>(service).is_some_and(|service| service.external_name.is_some())
}

/// Returns the target of a reference if it exists. A port has one number, whether the reference contains the number or the name.
fn target(
    reference: &BackendPolicyTarget,
    service: ObjectKey,
    objects: &Objects,
) -> Result<PortNumberTarget, ConditionFault> {
    let BackendPolicyTarget { group, kind, name: _, section_name } = reference;
    if !is_service(reference) {
        let message = format!("targets of kind {kind:?} of group {group:?} are not supported");
        return Err(ConditionFault::new("Invalid", message));
    }
    let Some(object) = objects.get::<Service>(&service) else {
        let message = Message::missing(Kind::SERVICE, &service, "does not exist");
        return Err(ConditionFault::new("TargetNotFound", message));
    };
    let Some(section) = section_name.as_ref().filter(|name| !name.is_empty()) else {
        return Ok(PortNumberTarget { service, port: None });
    };
    let number = section.parse::<u16>().ok();
    let mut ports = object.ports.iter().filter(|port| &*port.protocol == "TCP");
    let listed = ports.find(|port| number.map_or(port.name == *section, |number| port.port == number));
    // An ExternalName Service may list no ports.
    let unlisted = number.filter(|_| object.external_name.is_some() && object.ports.is_empty());
    match listed.map(|port| port.port).or(unlisted) {
        Some(port) => Ok(PortNumberTarget { service, port: Some(port) }),
        None => {
            let message = format!("Service \"{service}\" has no TCP port {section:?}");
            Err(ConditionFault::new("TargetNotFound", message))
        }
    }
}
