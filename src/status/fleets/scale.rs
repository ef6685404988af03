//! The autoscaler and the disruption budget of the Envoys of a fleet. No I/O.

use lockgate_route::objects::Meta;
use lockgate_route::objects::gateway::{EnvoyFleetSpec, FleetDisruptionBudget, PodCount};
use serde_json::{Value, json};

use super::template::Template;
use crate::status::kinds::{DEPLOYMENT, HORIZONTAL_POD_AUTOSCALER, POD_DISRUPTION_BUDGET};

/// The seconds between two removals of an Envoy, in which it drains. The chart has the same number.
const PERIOD: u32 = 60;
/// The seconds for which fewer Envoys must suffice before a removal. The chart has the same number.
const STABLE: u32 = 300;

impl Template {
    /// Returns the PodDisruptionBudget of a fleet.
    pub fn disruption_budget(&self, gateway: &Meta, fleet: &EnvoyFleetSpec, owner: &Value) -> Value {
        let one = FleetDisruptionBudget { max_unavailable: Some(PodCount::Number(1)), min_available: None };
        let mut spec = json!(fleet.pod_disruption_budget.as_ref().unwrap_or(&one));
        spec["selector"] = json!({ "matchLabels": self.selector(&self.key(gateway)) });
        self.object(POD_DISRUPTION_BUDGET, spec, gateway, owner)
    }

    /// Returns the HorizontalPodAutoscaler of a fleet, if it has one.
    pub fn autoscaler(&self, gateway: &Meta, fleet: &EnvoyFleetSpec, owner: &Value) -> Option<Value> {
        let scale = fleet.autoscaling.as_ref()?;
        let name = self.key(gateway).name;
        let target = json!({ "type": "Utilization", "averageUtilization": scale.target() });
        let spec = json!({
            "scaleTargetRef": {
                "apiVersion": DEPLOYMENT.api_version(),
                "kind": DEPLOYMENT.as_str(),
                "name": &*name,
            },
            "minReplicas": scale.min(),
            "maxReplicas": scale.max_replicas,
            "metrics": [{ "type": "Resource", "resource": { "name": "cpu", "target": target } }],
            "behavior": {
                "scaleDown": {
                    "stabilizationWindowSeconds": STABLE,
                    "policies": [{ "type": "Pods", "value": 1, "periodSeconds": PERIOD }],
                },
            },
        });
        Some(self.object(HORIZONTAL_POD_AUTOSCALER, spec, gateway, owner))
    }
}

/// Returns the number of replicas that `manager` has written to a Deployment, if `wanted` leaves the number to an autoscaler.
/// Without another owner of the field, the API server would set the default, 1, when `manager` gives up the field.
pub fn abandoned(is: &Value, wanted: &Value, manager: &str) -> Option<i64> {
    if wanted["kind"] != DEPLOYMENT.as_str() || !wanted["spec"]["replicas"].is_null() {
        return None;
    }
    let entries = is["metadata"]["managedFields"].as_array().into_iter().flatten();
    let mut ours = entries.filter(|entry| entry["manager"] == manager);
    let has_field = ours.any(|entry| !entry["fieldsV1"]["f:spec"]["f:replicas"].is_null());
    is["spec"]["replicas"].as_i64().filter(|_| has_field)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::template::tests::{gateway, template};
    use super::*;

    fn spec(spec: Value) -> EnvoyFleetSpec {
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn an_autoscaler_sets_the_number_of_envoys() {
        let (template, gateway, owner) = (template(), gateway("public"), json!({}));
        assert_eq!(template.autoscaler(&gateway, &EnvoyFleetSpec::default(), &owner), None);
        let scaled = spec(json!({ "autoscaling": { "maxReplicas": 4, "targetCPUUtilizationPercentage": 50 } }));
        let autoscaler = template.autoscaler(&gateway, &scaled, &owner).unwrap();
        let deployment = template.deployment(&gateway, &scaled, &owner);
        assert_eq!(deployment["spec"]["replicas"], Value::Null);
        assert_eq!(autoscaler["spec"]["scaleTargetRef"]["name"], deployment["metadata"]["name"]);
        let limits = (&autoscaler["spec"]["minReplicas"], &autoscaler["spec"]["maxReplicas"]);
        assert_eq!(limits, (&json!(2), &json!(4)));
        assert_eq!(autoscaler["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 50);
    }

    #[test]
    fn a_budget_limits_the_disruption_of_the_pods() {
        let (template, gateway, owner) = (template(), gateway("public"), json!({}));
        let budget = |fleet: &EnvoyFleetSpec| template.disruption_budget(&gateway, fleet, &owner);
        let default = budget(&EnvoyFleetSpec::default());
        let selector = json!({ "matchLabels": template.service(&gateway, &owner)["spec"]["selector"] });
        assert_eq!(default["spec"], json!({ "maxUnavailable": 1, "selector": selector }));
        assert_eq!(default["apiVersion"], "policy/v1");
        let half = budget(&spec(json!({ "podDisruptionBudget": { "minAvailable": "50%" } })));
        assert_eq!(half["spec"], json!({ "minAvailable": "50%", "selector": selector }));
        let content = |object: &Value| object["metadata"]["annotations"].clone();
        assert_ne!(content(&default), content(&half), "a removed field is a change");
    }

    #[test]
    fn the_number_of_envoys_outlives_the_change_to_an_autoscaler() {
        let fields = json!({ "f:spec": { "f:replicas": {} } });
        let is = json!({
            "spec": { "replicas": 3 },
            "metadata": { "managedFields": [{ "manager": "us", "fieldsV1": fields }] },
        });
        let wanted = |replicas: Value| json!({ "kind": "Deployment", "spec": { "replicas": replicas } });
        assert_eq!(abandoned(&is, &wanted(Value::Null), "us"), Some(3));
        assert_eq!(abandoned(&is, &wanted(Value::Null), "autoscaler"), None, "another manager has the field");
        assert_eq!(abandoned(&is, &wanted(3.into()), "us"), None);
        assert_eq!(abandoned(&json!({}), &wanted(Value::Null), "us"), None);
    }
}
