//! The fleet of a Gateway: Envoys that serve only this Gateway.
//!
//! `spec.infrastructure.parametersRef` of a Gateway refers to an EnvoyFleet in its namespace. A Gateway whose reference is not
//! valid is not served at all: its owner wants Envoys that nobody else shares.

use std::sync::Arc;

use crate::objects::gateway::{
    EnvoyFleet, EnvoyFleetSpec, FleetQuantities, FleetToleration, Gateway, LOCKGATE, ParametersRef,
};
use crate::objects::{Kind, ObjectKey};
use crate::settings::Fleets;
use crate::translate::dialect::Reading;
use crate::translate::graph::Input;

/// The number of Envoys of an EnvoyFleet without `replicas`.
pub const REPLICAS: u16 = 2;
/// The maximum number of labels of a node selector, and of tolerations. Source: CustomResourceDefinition of EnvoyFleet.
const MOST: usize = 16;

/// The fleet of a Gateway in a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetReport {
    /// The EnvoyFleet.
    pub spec: Arc<EnvoyFleetSpec>,
    /// The limit that the fleet exceeds, for people. `None`: the fleet exists.
    pub refused: Option<String>,
}

/// Returns the EnvoyFleet of a Gateway. `None`: the Gateway refers to none, so the shared Envoys serve it.
///
/// # Errors
/// The message of the condition `Accepted` with the reason `InvalidParameters`.
pub fn of_gateway(gateway: &Gateway, reading: &mut Reading) -> Result<Option<Arc<EnvoyFleetSpec>>, String> {
    let infrastructure = gateway.spec.infrastructure.as_ref();
    let Some(reference) = infrastructure.and_then(|infrastructure| infrastructure.parameters_ref.as_ref()) else {
        return Ok(None);
    };
    let ParametersRef { group, kind, name, namespace: _ } = reference;
    if group != LOCKGATE || kind != Kind::ENVOY_FLEET.as_str() {
        return Err(format!(
            "parameters of kind {kind:?} of group {group:?} are not supported; use EnvoyFleet of {LOCKGATE}"
        ));
    }
    let limits = &reading.context.settings.gateway.fleets;
    if limits.max == 0 {
        let message = "Envoys for a single Gateway are disabled; the operator enables them by the value \
             gatewayAPI.dedicatedFleets.enabled of the chart (setting gateway.dedicatedFleets.max)";
        return Err(message.to_owned());
    }
    let key = ObjectKey { namespace: gateway.meta.key.namespace.clone(), name: name.as_str().into() };
    let objects = reading.context.objects;
    let fleet = objects.get::<EnvoyFleet>(&key);
    let is_readable = objects.is_readable(Kind::ENVOY_FLEET, &key.namespace);
    reading.record(Input::new(Kind::ENVOY_FLEET, key.clone()));
    match fleet {
        None if !is_readable => Err("EnvoyFleets cannot be read; install the CustomResourceDefinition".to_owned()),
        None => Err(format!("EnvoyFleet \"{key}\" does not exist, or cannot be decoded")),
        Some(fleet) => match fault(&fleet.spec, limits) {
            Some(fault) => Err(format!("EnvoyFleet \"{key}\": {fault}")),
            None => Ok(Some(Arc::new(fleet.spec.clone()))),
        },
    }
}

/// Returns the first fault of an EnvoyFleet. The API server has checked most rules, but manifests have not passed it.
fn fault(spec: &EnvoyFleetSpec, limits: &Fleets) -> Option<String> {
    let EnvoyFleetSpec { replicas, concurrency, resources, node_selector, tolerations } = spec;
    if let Some(replicas) = replicas.filter(|replicas| *replicas == 0 || u32::from(*replicas) > limits.max_replicas) {
        let most = limits.max_replicas;
        return Some(format!(
            "replicas: {replicas} is not in 1 to {most} (setting gateway.dedicatedFleets.maxReplicas)"
        ));
    }
    if concurrency.is_some_and(|threads| !(1..=256).contains(&threads)) {
        return Some("concurrency: not in 1 to 256".to_owned());
    }
    let resources = resources.clone().unwrap_or_default();
    let [requests, limited] = [("requests", &resources.requests), ("limits", &resources.limits)];
    if let Some(fault) =
        [requests, limited].into_iter().find_map(|(field, amounts)| quantity_fault(field, amounts, limits))
    {
        return Some(fault);
    }
    let exceeds =
        |request: Option<u64>, limit: Option<u64>| request.zip(limit).is_some_and(|(request, limit)| request > limit);
    let millis = |of: &FleetQuantities| of.cpu.as_ref().and_then(|cpu| cpu.millis());
    let bytes = |of: &FleetQuantities| of.memory.as_ref().and_then(|memory| memory.bytes());
    let [requests, limited] = [requests.1, limited.1];
    if exceeds(millis(requests), millis(limited)) || exceeds(bytes(requests), bytes(limited)) {
        return Some("resources.requests: more than resources.limits".to_owned());
    }
    if node_selector.len() > MOST || tolerations.len() > MOST {
        return Some(format!("nodeSelector and tolerations have at most {MOST} entries each"));
    }
    if let Some(name) = node_selector.keys().find(|name| !is_label_name(name)) {
        return Some(format!("nodeSelector: {name:?} is not the name of a label"));
    }
    if let Some((name, _)) = node_selector.iter().find(|(_, value)| !is_label_value(value)) {
        return Some(format!("nodeSelector: the value of {name:?} is not the value of a label"));
    }
    let index = tolerations.iter().position(|one| !is_toleration(one))?;
    Some(format!("tolerations[{index}]: not valid"))
}

fn quantity_fault(field: &str, amounts: &FleetQuantities, limits: &Fleets) -> Option<String> {
    let cpu = amounts.cpu.as_ref().map(|cpu| (cpu, cpu.millis(), u64::from(limits.max_cpus) * 1000));
    let memory = amounts.memory.as_ref().map(|memory| (memory, memory.bytes(), limits.max_memory));
    // The smallest amount with which Envoy starts.
    let least = [("cpu", "maxCpus", cpu, 10), ("memory", "maxMemory", memory, 32 << 20)];
    least.into_iter().find_map(|(name, setting, amount, least)| {
        let (text, value, most) = amount?;
        let path = format!("resources.{field}.{name}");
        match value {
            None => Some(format!("{path}: {:?} is not an amount", text.to_string())),
            Some(value) if value > most => {
                Some(format!("{path}: {text} is more than the setting gateway.dedicatedFleets.{setting}"))
            }
            Some(value) if value < least => Some(format!("{path}: {text} is too little for an Envoy")),
            Some(_) => None,
        }
    })
}

/// Returns whether a text is the name of a label. Source: Kubernetes, "Labels and Selectors".
fn is_label_name(text: &str) -> bool {
    let (prefix, name) = text.rsplit_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    prefix.is_none_or(crate::settings::is_subdomain) && !name.is_empty() && is_label_value(name)
}

fn is_label_value(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_end = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= 63 && bytes.iter().all(|byte| is_inner(*byte)) && is_end(bytes.first()) && is_end(bytes.last())
}

/// Returns whether the API server accepts a toleration. Source: Kubernetes, validation of `Toleration`.
fn is_toleration(one: &FleetToleration) -> bool {
    let FleetToleration { key, operator, value, effect, toleration_seconds } = one;
    let operator = operator.as_deref().unwrap_or("Equal");
    let has_key = key.as_deref().is_some_and(|key| !key.is_empty());
    let has_value = value.as_deref().is_some_and(|value| !value.is_empty());
    let effect = effect.as_deref();
    key.as_deref().is_none_or(|key| key.is_empty() || is_label_name(key))
        && value.as_deref().is_none_or(is_label_value)
        && (operator == "Exists" && !has_value || operator == "Equal" && has_key)
        && matches!(effect, None | Some("NoSchedule" | "PreferNoSchedule" | "NoExecute"))
        && (toleration_seconds.is_none() || effect == Some("NoExecute"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn fault_of(spec: Value) -> Option<String> {
        let spec: EnvoyFleetSpec = serde_json::from_value(spec).ok()?;
        fault(&spec, &Fleets { max: 1, ..Fleets::default() })
    }

    #[test]
    fn fleets_within_the_limits_are_valid() {
        for spec in [
            json!({}),
            json!({ "replicas": 5, "concurrency": 1 }),
            json!({ "resources": { "requests": { "cpu": "500m", "memory": "64Mi" }, "limits": { "cpu": 4, "memory": "4Gi" } } }),
            json!({ "nodeSelector": { "example.com/pool": "edge", "a": "" } }),
            json!({ "tolerations": [{ "key": "edge", "value": "a", "effect": "NoExecute", "tolerationSeconds": 9 }] }),
            json!({ "tolerations": [{ "operator": "Exists" }] }),
        ] {
            assert_eq!(fault_of(spec.clone()), None, "{spec}");
        }
    }

    #[test]
    fn fleets_beyond_the_limits_are_faults() {
        let resources = |field: &str, name: &str, amount: &str| json!({ "resources": { field: { name: amount } } });
        for (spec, expected) in [
            (json!({ "replicas": 6 }), "maxReplicas"),
            (json!({ "replicas": 0 }), "maxReplicas"),
            (json!({ "concurrency": 0 }), "concurrency"),
            (resources("requests", "cpu", "4001m"), "maxCpus"),
            (resources("limits", "memory", "5Gi"), "maxMemory"),
            (resources("limits", "memory", "1Mi"), "too little"),
            (resources("limits", "cpu", "lots"), "resources.limits.cpu: \"lots\" is not an amount"),
            (
                json!({ "resources": { "requests": { "cpu": 2 }, "limits": { "cpu": 1 } } }),
                "more than resources.limits",
            ),
            (json!({ "nodeSelector": { "a b": "c" } }), "nodeSelector"),
            (json!({ "nodeSelector": { "a": "-c" } }), "nodeSelector"),
            (json!({ "tolerations": [{}, { "key": "a" }] }), "tolerations[0]"),
            (json!({ "tolerations": [{ "operator": "Exists", "value": "a" }] }), "tolerations[0]"),
            (json!({ "tolerations": [{ "key": "a", "tolerationSeconds": 9 }] }), "tolerations[0]"),
        ] {
            let fault = fault_of(spec.clone()).unwrap_or_default();
            assert!(fault.contains(expected), "{spec}: {fault}");
        }
    }
}
