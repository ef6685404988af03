//! The faults of an EnvoyFleet.

use crate::objects::gateway::{
    EnvoyFleetSpec, FleetAutoscaling, FleetDisruptionBudget, FleetQuantities, FleetService, FleetToleration, PodCount,
    REPLICAS,
};
use crate::settings::Fleets;

/// The maximum number of labels of a node selector, of tolerations, and of annotations. Source: CustomResourceDefinition of
/// EnvoyFleet.
const MOST: usize = 16;
/// The maximum number of address ranges. Source: CustomResourceDefinition of EnvoyFleet.
const MOST_RANGES: usize = 64;

/// Returns the first fault of an EnvoyFleet. The API server checks most rules, but manifests do not pass through the
/// API server.
pub fn of(spec: &EnvoyFleetSpec, limits: &Fleets) -> Option<String> {
    let EnvoyFleetSpec {
        replicas: _,
        autoscaling: _,
        pod_disruption_budget: _,
        service,
        concurrency,
        resources,
        node_selector,
        tolerations,
    } = spec;
    if let Some(fault) = scale_fault(spec, limits).or_else(|| service.as_ref().and_then(service_fault)) {
        return Some(fault);
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

/// Returns the fault of the number of Envoys, or of the disruption budget.
fn scale_fault(spec: &EnvoyFleetSpec, limits: &Fleets) -> Option<String> {
    let number = |field: &str, replicas: u16| {
        let most = limits.max_replicas;
        let is_valid = replicas > 0 && u32::from(replicas) <= most;
        (!is_valid)
            .then(|| format!("{field}: {replicas} is not in 1 to {most} (setting gateway.dedicatedFleets.maxReplicas)"))
    };
    let least = match (spec.replicas, &spec.autoscaling) {
        (Some(_), Some(_)) => return Some("replicas and autoscaling exclude each other".to_owned()),
        (replicas, None) => {
            let replicas = replicas.unwrap_or(REPLICAS);
            if let Some(fault) = number("replicas", replicas).filter(|_| spec.replicas.is_some()) {
                return Some(fault);
            }
            replicas
        }
        (None, Some(scale)) => {
            if let Some(fault) = number("autoscaling.maxReplicas", scale.max_replicas) {
                return Some(fault);
            }
            if !(1..=scale.max_replicas).contains(&scale.min()) {
                let FleetAutoscaling { max_replicas: most, .. } = scale;
                return Some(format!("autoscaling.minReplicas: {} is not in 1 to {most}, maxReplicas", scale.min()));
            }
            if !(1..=1000).contains(&scale.target()) {
                return Some("autoscaling.targetCPUUtilizationPercentage: not in 1 to 1000".to_owned());
            }
            scale.min()
        }
    };
    spec.pod_disruption_budget.as_ref().and_then(|budget| budget_fault(budget, least))
}

/// Returns the fault of the disruption budget for `replicas` Envoys. A budget that permits no disruption would block
/// the drain of nodes, and the owner of a Gateway is not the operator of the nodes.
fn budget_fault(budget: &FleetDisruptionBudget, replicas: u16) -> Option<String> {
    let (field, count, permitted) = match budget {
        FleetDisruptionBudget { max_unavailable: Some(count), min_available: None } => {
            ("maxUnavailable", count, count.among(replicas))
        }
        FleetDisruptionBudget { max_unavailable: None, min_available: Some(count) } => {
            ("minAvailable", count, count.among(replicas).map(|least| u32::from(replicas).saturating_sub(least)))
        }
        _ => return Some("podDisruptionBudget: one of maxUnavailable and minAvailable is required".to_owned()),
    };
    let text = match count {
        PodCount::Number(number) => number.to_string(),
        PodCount::Percentage(text) => format!("{text:?}"),
    };
    match permitted {
        None => Some(format!("podDisruptionBudget.{field}: {text} is neither a number nor a percentage")),
        Some(0) => {
            Some(format!("podDisruptionBudget.{field}: {text} of {replicas} Envoys would block the drain of nodes"))
        }
        Some(_) => None,
    }
}

/// Returns the fault of the properties of the Service.
fn service_fault(service: &FleetService) -> Option<String> {
    let FleetService {
        r#type: _,
        external_traffic_policy,
        annotations,
        load_balancer_class,
        load_balancer_source_ranges: ranges,
    } = service;
    let kind = service.kind();
    if !["LoadBalancer", "NodePort", "ClusterIP"].contains(&kind) {
        return Some(format!("service.type: {kind:?} is not LoadBalancer, NodePort, or ClusterIP"));
    }
    if let Some(policy) = external_traffic_policy {
        if !["Cluster", "Local"].contains(&policy.as_str()) {
            return Some(format!("service.externalTrafficPolicy: {policy:?} is neither Local nor Cluster"));
        }
        if kind == "ClusterIP" {
            return Some("service.externalTrafficPolicy: requires the type LoadBalancer or NodePort".to_owned());
        }
    }
    if kind != FleetService::LOAD_BALANCER && load_balancer_class.is_some() {
        return Some("service.loadBalancerClass: requires the type LoadBalancer".to_owned());
    }
    if load_balancer_class.as_deref().is_some_and(|class| !is_label_name(class)) {
        return Some("service.loadBalancerClass: not the name of a class".to_owned());
    }
    if kind != FleetService::LOAD_BALANCER && !ranges.is_empty() {
        return Some("service.loadBalancerSourceRanges: requires the type LoadBalancer".to_owned());
    }
    if annotations.len() > MOST || ranges.len() > MOST_RANGES {
        return Some(format!("service: at most {MOST} annotations and {MOST_RANGES} loadBalancerSourceRanges"));
    }
    annotations
        .keys()
        .find(|name| !is_label_name(&name.to_ascii_lowercase()))
        .map(|name| format!("service.annotations: {name:?} is not the name of an annotation"))
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

/// Returns whether a text is the value of a label. Source: Kubernetes, "Labels and Selectors".
pub fn is_label_value(text: &str) -> bool {
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
        of(&spec, &Fleets { max: 1, ..Fleets::default() })
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
            json!({ "autoscaling": { "maxReplicas": 5 }, "podDisruptionBudget": { "minAvailable": "50%" } }),
            json!({ "replicas": 1, "podDisruptionBudget": { "maxUnavailable": "1%" } }),
            json!({ "service": { "type": "NodePort", "externalTrafficPolicy": "Local" } }),
            json!({ "service": { "loadBalancerClass": "example.com/a", "annotations": { "example.com/Size": "1" } } }),
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
            (resources("limits", "cpu", "1E"), "resources.limits.cpu: 1E is more than the setting"),
            (resources("limits", "memory", "100E"), "maxMemory"),
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
            (json!({ "replicas": 1, "autoscaling": { "maxReplicas": 2 } }), "exclude each other"),
            (json!({ "autoscaling": {} }), "autoscaling.maxReplicas: 0"),
            (json!({ "autoscaling": { "maxReplicas": 6 } }), "maxReplicas)"),
            (json!({ "autoscaling": { "minReplicas": 3, "maxReplicas": 2 } }), "autoscaling.minReplicas: 3"),
            (
                json!({ "autoscaling": { "maxReplicas": 2, "targetCPUUtilizationPercentage": 0 } }),
                "targetCPUUtilizationPercentage",
            ),
            (json!({ "podDisruptionBudget": {} }), "one of maxUnavailable and minAvailable"),
            (json!({ "podDisruptionBudget": { "maxUnavailable": 1, "minAvailable": 1 } }), "one of maxUnavailable"),
            (json!({ "podDisruptionBudget": { "maxUnavailable": 0 } }), "block the drain"),
            (json!({ "podDisruptionBudget": { "minAvailable": 2 } }), "block the drain"),
            (json!({ "podDisruptionBudget": { "minAvailable": "51%" } }), "block the drain"),
            (json!({ "podDisruptionBudget": { "minAvailable": "half" } }), "\"half\" is neither"),
            (json!({ "service": { "type": "ExternalName" } }), "service.type"),
            (json!({ "service": { "type": "ClusterIP", "externalTrafficPolicy": "Local" } }), "externalTrafficPolicy"),
            (json!({ "service": { "externalTrafficPolicy": "Any" } }), "externalTrafficPolicy"),
            (json!({ "service": { "type": "NodePort", "loadBalancerClass": "a" } }), "loadBalancerClass"),
            (json!({ "service": { "loadBalancerClass": "a b" } }), "loadBalancerClass"),
            (json!({ "service": { "type": "NodePort", "loadBalancerSourceRanges": ["::/0"] } }), "SourceRanges"),
            (json!({ "service": { "annotations": { "a b": "c" } } }), "service.annotations"),
        ] {
            let fault = fault_of(spec.clone()).unwrap_or_default();
            assert!(fault.contains(expected), "{spec}: {fault}");
        }
    }
}
