//! The fleet of a Gateway: Envoys that serve only this Gateway.
//!
//! `spec.infrastructure.parametersRef` of a Gateway references an EnvoyFleet in its namespace. `spec.parametersRef` of
//! its GatewayClass references an EnvoyFleet with defaults. A Gateway with an invalid reference is not served, because
//! its owner wants dedicated Envoys.

mod fault;

use std::sync::Arc;

use crate::objects::gateway::{EnvoyFleet, EnvoyFleetSpec, Gateway, GatewayClass, LOCKGATE, ParametersRef};
use crate::objects::{Kind, ObjectKey, Objects};
use crate::settings::{Fleets, Settings};
use crate::translate::dialect::Resolver;
use crate::translate::graph::Input;

/// The fleet of a Gateway in a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetReport {
    /// The EnvoyFleet of the Gateway, with the defaults of its class.
    pub spec: Arc<EnvoyFleetSpec>,
    /// The limit that the fleet exceeds, for people. `None`: the fleet exists.
    pub refused: Option<String>,
}

/// An EnvoyFleet that an object refers to.
pub struct Referent<'a> {
    /// The object that was read, if the reference names one.
    pub input: Option<Input>,
    /// The EnvoyFleet, or the message of the condition `Accepted` with the reason `InvalidParameters`. `None`: no
    /// reference.
    pub found: Result<Option<&'a EnvoyFleet>, String>,
}

/// Returns the fleet of a Gateway of `class`. `None`: neither object references an EnvoyFleet, so the shared Envoys
/// serve the Gateway.
///
/// # Errors
/// The message of the condition `Accepted` with the reason `InvalidParameters`.
pub fn of_gateway(
    gateway: &Gateway,
    class: &GatewayClass,
    resolver: &mut Resolver,
) -> Result<Option<Arc<EnvoyFleetSpec>>, String> {
    let (objects, settings) = (resolver.context.objects, resolver.context.settings);
    let defaults = of_class(class, objects, settings);
    let own = gateway.spec.infrastructure.as_ref().and_then(|infrastructure| infrastructure.parameters_ref.as_ref());
    let own = find(own, Some(&gateway.meta.key.namespace), objects, settings);
    for input in defaults.input.into_iter().chain(own.input) {
        resolver.record(input);
    }
    let defaults = defaults.found.map_err(|message| format!("GatewayClass {:?}: {message}", class.meta.key.name))?;
    let own = own.found?;
    // The name is the value of a label, and part of a data key in the Secret of all fleets, which has a maximum length.
    if (own.is_some() || defaults.is_some()) && !fault::is_label_value(&gateway.meta.key.name) {
        return Err("a dedicated fleet needs a Gateway with a name of at most 63 characters".to_owned());
    }
    let merged = match (own, defaults) {
        (None, None) => return Ok(None),
        (Some(fleet), None) | (None, Some(fleet)) => return Ok(Some(Arc::new(fleet.spec.clone()))),
        (Some(own), Some(defaults)) => own.spec.clone().or(&defaults.spec),
    };
    match fault::of(&merged, &settings.gateway.fleets) {
        None => Ok(Some(Arc::new(merged))),
        Some(fault) => Err(format!("with the defaults of GatewayClass {:?}: {fault}", class.meta.key.name)),
    }
}

/// Returns the EnvoyFleet with the defaults of a class.
pub fn of_class<'a>(class: &GatewayClass, objects: &'a Objects, settings: &Settings) -> Referent<'a> {
    let reference = class.spec.parameters_ref.as_ref();
    let namespace = reference.and_then(|reference| reference.namespace.as_deref());
    find(reference, namespace.filter(|namespace| !namespace.is_empty()), objects, settings)
}

fn find<'a>(
    reference: Option<&ParametersRef>,
    namespace: Option<&str>,
    objects: &'a Objects,
    settings: &Settings,
) -> Referent<'a> {
    let Some(reference) = reference else { return Referent { input: None, found: Ok(None) } };
    let key = match key(reference, namespace, &settings.gateway.fleets) {
        Ok(key) => key,
        Err(message) => return Referent { input: None, found: Err(message) },
    };
    let found = match objects.get::<EnvoyFleet>(&key) {
        None if !objects.is_readable(Kind::ENVOY_FLEET, &key.namespace) => {
            Err("EnvoyFleets cannot be read; install the CustomResourceDefinition".to_owned())
        }
        None => Err(format!("EnvoyFleet \"{key}\" does not exist, or cannot be decoded")),
        Some(fleet) => match fault::of(&fleet.spec, &settings.gateway.fleets) {
            Some(fault) => Err(format!("EnvoyFleet \"{key}\": {fault}")),
            None => Ok(Some(fleet)),
        },
    };
    Referent { input: Some(Input::new(Kind::ENVOY_FLEET, key)), found }
}

/// Returns the key of the EnvoyFleet of a reference.
fn key(reference: &ParametersRef, namespace: Option<&str>, limits: &Fleets) -> Result<ObjectKey, String> {
    let ParametersRef { group, kind, name, namespace: _ } = reference;
    if group != LOCKGATE || kind != Kind::ENVOY_FLEET.as_str() {
        return Err(format!(
            "parameters of kind {kind:?} of group {group:?} are not supported; use EnvoyFleet of {LOCKGATE}"
        ));
    }
    if limits.max == 0 {
        let message = "dedicated fleets are disabled; the operator enables them by the value \
             gatewayAPI.dedicatedFleets.enabled of the chart (setting gateway.dedicatedFleets.max)";
        return Err(message.to_owned());
    }
    let Some(namespace) = namespace else {
        return Err("parametersRef.namespace: missing; it is the namespace of the EnvoyFleet".to_owned());
    };
    Ok(ObjectKey::new(namespace, name))
}
