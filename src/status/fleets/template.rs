//! The template of the Deployments of fleets, and the objects of one fleet. No I/O.
//!
//! The chart writes the template. It contains everything that a tenant must not choose: images, commands, volumes, security
//! contexts, and labels. A fleet adds its identity and the fields of its EnvoyFleet.

use std::sync::Arc;

use lockgate_route::objects::gateway::{EnvoyFleetSpec, FleetResources, Quantity, REPLICAS};
use lockgate_route::objects::{Kind, Meta, ObjectKey};
use serde_json::{Map, Value, json};
use xxhash_rust::xxh3::xxh3_64;

use crate::fleet::NODE_CLUSTER;
use crate::source::gateway::FLEET;

/// The label of the objects of all fleets of an installation, with the name of the template.
pub const FLEETS: &str = "lockgate.dev/fleets";
/// The labels with the namespace and the name of the Gateway.
const GATEWAY: [&str; 2] = ["lockgate.dev/gateway-namespace", "lockgate.dev/gateway-name"];
/// The annotation with the hash of the written content. A removed field changes it.
const CONTENT: &str = "lockgate.dev/content";
/// The maximum length of the name of a Service.
const LABEL: usize = 63;
/// The maximum length of the prefix of names, from the template.
const PREFIX: usize = 40;
/// The parts of the pods that a fleet changes.
const PARTS: [(&str, &str); 3] = [("initContainers", "bootstrap"), ("containers", "envoy"), ("volumes", "certs")];

/// The template of the Deployments of fleets.
#[derive(Debug, PartialEq)]
pub struct Template {
    /// The namespace of the controller, in which the pods run. A tenant must not be able to read their key pairs.
    pub namespace: Arc<str>,
    /// The prefix of the names of all objects.
    prefix: String,
    deployment: Value,
}

impl Template {
    /// Creates a template from a Deployment.
    ///
    /// # Errors
    /// The reason why the Deployment is not a template.
    pub fn new(namespace: &str, deployment: Value) -> Result<Self, String> {
        if deployment["kind"] != "Deployment" {
            return Err("kind: expected Deployment".to_owned());
        }
        let name = deployment["metadata"]["name"].as_str().ok_or("metadata.name: missing")?;
        let prefix = name.get(..PREFIX).unwrap_or(name).trim_end_matches('-').to_owned();
        let pod = &deployment["spec"]["template"]["spec"];
        for (list, name) in PARTS {
            if !pod[list].as_array().is_some_and(|list| list.iter().any(|one| one["name"] == name)) {
                return Err(format!("spec.template.spec.{list}: there is no {name:?}"));
            }
        }
        Ok(Self { namespace: namespace.into(), prefix, deployment })
    }

    /// Returns the value of the label [`FLEETS`].
    pub fn label(&self) -> &str {
        &self.prefix
    }

    /// Returns the key of the Deployment and of the Service of a fleet: `lockgate-fleet-public-3f6c…`.
    ///
    /// The name contains a hash of the uid, which nobody can choose.
    pub fn key(&self, gateway: &Meta) -> ObjectKey {
        let hash = format!("{:016x}", xxh3_64(gateway.uid.as_bytes()));
        let room = LABEL - self.prefix.len() - hash.len() - 2;
        let readable: String = gateway.key.name.chars().take(room).map(|c| if c == '.' { '-' } else { c }).collect();
        let name = format!("{}-{}-{hash}", self.prefix, readable.trim_end_matches('-'));
        ObjectKey { namespace: self.namespace.clone(), name: name.into() }
    }

    /// Returns the Deployment of a fleet. `owner` is deleted with the installation.
    pub fn deployment(&self, gateway: &Meta, fleet: &EnvoyFleetSpec, owner: &Value) -> Value {
        let key = self.key(gateway);
        let mut object = self.deployment.clone();
        let spec = &mut object["spec"];
        // An autoscaler sets the number of replicas.
        if fleet.autoscaling.is_none() {
            spec["replicas"] = fleet.replicas.unwrap_or(REPLICAS).into();
        }
        insert(&mut spec["selector"]["matchLabels"], FLEET, &key.name);
        for (name, value) in labels(gateway, &key) {
            insert(&mut spec["template"]["metadata"]["labels"], name, value);
        }
        change_pod(&mut spec["template"]["spec"], gateway, fleet, &key);
        self.finish(object, gateway, &key, owner)
    }

    /// Returns the Service without an address whose EndpointSlices contain the Envoys of a fleet.
    pub fn service(&self, gateway: &Meta, owner: &Value) -> Value {
        let key = self.key(gateway);
        let selector = self.selector(&key);
        let spec = json!({ "clusterIP": "None", "ipFamilyPolicy": "PreferDualStack", "selector": selector });
        self.object(Kind::SERVICE, spec, gateway, owner)
    }

    /// Returns the labels of the pods of a fleet.
    pub(super) fn selector(&self, key: &ObjectKey) -> Value {
        let mut selector = self.deployment["spec"]["selector"]["matchLabels"].clone();
        insert(&mut selector, FLEET, &key.name);
        selector
    }

    /// Returns an object of a fleet with this spec.
    pub(super) fn object(&self, kind: Kind, spec: Value, gateway: &Meta, owner: &Value) -> Value {
        let object = json!({
            "apiVersion": kind.api_version(),
            "kind": kind.as_str(),
            "metadata": { "labels": self.deployment["metadata"]["labels"] },
            "spec": spec,
        });
        self.finish(object, gateway, &self.key(gateway), owner)
    }

    /// Adds the metadata of an object.
    fn finish(&self, mut object: Value, gateway: &Meta, key: &ObjectKey, owner: &Value) -> Value {
        let metadata = &mut object["metadata"];
        metadata["name"] = (&*key.name).into();
        metadata["namespace"] = (&*key.namespace).into();
        metadata["ownerReferences"] = json!([owner]);
        insert(&mut metadata["labels"], FLEETS, &self.prefix);
        for (name, value) in labels(gateway, key) {
            insert(&mut metadata["labels"], name, value);
        }
        let hash = format!("{:016x}", xxh3_64(object.to_string().as_bytes()));
        insert(&mut object["metadata"]["annotations"], CONTENT, &hash);
        object
    }
}

/// Returns the labels of the objects and pods of a fleet.
fn labels<'a>(gateway: &'a Meta, key: &'a ObjectKey) -> [(&'static str, &'a str); 3] {
    [(FLEET, &key.name), (GATEWAY[0], &gateway.key.namespace), (GATEWAY[1], &gateway.key.name)]
}

fn insert(map: &mut Value, name: &str, value: &str) {
    if !map.is_object() {
        *map = Value::Object(Map::new());
    }
    map[name] = value.into();
}

/// Changes the pod of the template for a fleet.
fn change_pod(pod: &mut Value, gateway: &Meta, fleet: &EnvoyFleetSpec, key: &ObjectKey) {
    let EnvoyFleetSpec {
        replicas: _,
        autoscaling: _,
        pod_disruption_budget: _,
        service: _,
        concurrency,
        resources,
        node_selector,
        tolerations,
    } = fleet;
    if !node_selector.is_empty() {
        pod["nodeSelector"] = json!(node_selector);
    }
    if !tolerations.is_empty() {
        pod["tolerations"] = json!(tolerations);
    }
    for constraint in pod["topologySpreadConstraints"].as_array_mut().into_iter().flatten() {
        insert(&mut constraint["labelSelector"]["matchLabels"], FLEET, &key.name);
    }
    let amounts = resources.clone().unwrap_or_default();
    let cpus = amounts.limits.cpu.as_ref().and_then(|cpu| cpu.millis()).map(|millis| millis.div_ceil(1000));
    let threads = concurrency.map(u64::from).or(cpus);
    for [list, name] in PARTS.map(|(list, name)| [list, name]) {
        let parts = pod[list].as_array_mut().into_iter().flatten();
        for part in parts.filter(|part| part["name"] == name) {
            match name {
                "bootstrap" => bootstrap(part, gateway, &amounts),
                "envoy" => {
                    if let Some(threads) = threads {
                        replace_concurrency(&mut part["args"], threads);
                    }
                    change_resources(&mut part["resources"], &amounts);
                }
                _ => part["secret"]["items"] = certificates(gateway),
            }
        }
    }
}

/// Returns the files of the key pair of a fleet. The Secret contains the key pairs of all fleets.
fn certificates(gateway: &Meta) -> Value {
    let key = |part: &str| crate::fleet::certificate_key(&gateway.key, part);
    json!([
        { "key": key("crt"), "path": "tls.crt" },
        { "key": key("key"), "path": "tls.key" },
        { "key": "ca.crt", "path": "ca.crt" },
    ])
}

/// Changes the container that writes the bootstrap configuration of Envoy.
fn bootstrap(container: &mut Value, gateway: &Meta, amounts: &FleetResources) {
    if !container["args"].is_array() {
        container["args"] = json!([]);
    }
    let Some(args) = container["args"].as_array_mut() else { return };
    args.push(format!("--node-cluster={NODE_CLUSTER}{}", gateway.key).into());
    let (request, limit) = (&amounts.requests.memory, &amounts.limits.memory);
    if request.is_some() || limit.is_some() {
        // 0 means no limit. Without the flag, Envoy would use the memory limit of this container.
        let heap = limit.as_ref().and_then(|limit| limit.bytes()).map_or(0, |bytes| bytes / 5 * 4);
        args.retain(|arg| !arg.as_str().is_some_and(|arg| arg.starts_with("--max-heap")));
        args.push(format!("--max-heap={heap}").into());
    }
}

/// Replaces the number of worker threads.
fn replace_concurrency(args: &mut Value, threads: u64) {
    const OPTION: &str = "--concurrency";
    if !args.is_array() {
        *args = json!([]);
    }
    let Some(args) = args.as_array_mut() else { return };
    if let Some(at) = args.iter().position(|arg| arg == OPTION) {
        args.drain(at..args.len().min(at + 2));
    }
    args.retain(|arg| !arg.as_str().is_some_and(|arg| arg.starts_with("--concurrency=")));
    args.extend([OPTION.into(), threads.to_string().into()]);
}

/// Replaces the amounts of each resource that an EnvoyFleet sets: its request and its limit.
fn change_resources(resources: &mut Value, amounts: &FleetResources) {
    let FleetResources { requests, limits } = amounts;
    for (name, request, limit) in [("cpu", &requests.cpu, &limits.cpu), ("memory", &requests.memory, &limits.memory)] {
        if request.is_none() && limit.is_none() {
            continue;
        }
        for (field, amount) in [("requests", request), ("limits", limit)] {
            match amount {
                Some(amount) => insert(&mut resources[field], name, &amount.to_string()),
                None => drop(resources[field].as_object_mut().and_then(|amounts| amounts.remove(name))),
            }
        }
    }
}

/// Returns whether an object has all desired fields. Other fields belong to the API server and to other writers.
pub fn has(is: &Value, wanted: &Value) -> bool {
    match (is, wanted) {
        (Value::Object(is), Value::Object(wanted)) => {
            wanted.iter().all(|(name, wanted)| match is.get(name) {
                Some(is) => has(is, wanted),
                // The API server omits empty fields.
                None => is_empty(wanted),
            })
        }
        // Server-side apply merges these by name, so items of other writers stay.
        (Value::Array(is), Value::Array(wanted)) if wanted.iter().all(|one| one["name"].is_string()) => {
            let named = |name: &Value| is.iter().find(|is| is["name"] == *name);
            wanted.iter().all(|wanted| named(&wanted["name"]).is_some_and(|is| has(is, wanted)))
        }
        (Value::Array(is), Value::Array(wanted)) => {
            is.len() == wanted.len() && is.iter().zip(wanted).all(|(is, wanted)| has(is, wanted))
        }
        (is, wanted) => is == wanted || is_empty(is) && is_empty(wanted) || is_same_quantity(is, wanted),
    }
}

/// Returns whether two amounts are equal. The API server writes `1000m` as `1`, and `1024Mi` as `1Gi`.
fn is_same_quantity(a: &Value, b: &Value) -> bool {
    let quantity = |value: &Value| serde_json::from_value::<Quantity>(value.clone()).ok();
    quantity(a).zip(quantity(b)).is_some_and(|(a, b)| a.is_same(&b))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
pub mod tests;
