//! The CustomResourceDefinitions of Lockgate, made from the Rust types. `make crds` writes the files.
//!
//! They are test code, so that the program does not contain the generator of schemas.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod contour;
mod fields;
mod pages;

use std::fs;
use std::path::Path;

use lockgate_route::objects::gateway::{EnvoyFleetSpec, HttpFeaturesSpec, HttpPolicySpec};
use lockgate_route::objects::{BackendPolicySpec, HostGrantSpec, Kind};
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

/// Returns the names of a kind in its CustomResourceDefinition.
fn names(kind: Kind) -> Value {
    let info = kind.info();
    let mut names = json!({
        "kind": info.name,
        "listKind": format!("{}List", info.name),
        "plural": info.plural,
        "singular": info.name.to_lowercase(),
    });
    if info.of_gateway_api || kind == Kind::HTTP_POLICY {
        names["categories"] = json!(["gateway-api"]);
    }
    names
}

/// Returns the first lines of the file of a kind whose types are in this module. `helm show crds` of Helm 3 prints the files without
/// separators.
fn head(module: &str) -> String {
    format!("---\n# Written by `make crds` from crates/route/src/objects/{module}.rs: edit that file instead.\n")
}

/// The directories with the definitions. Helm installs the definitions of the chart.
const DIRECTORIES: [&str; 2] = ["crds", "charts/lockgate/crds"];

/// Returns the definition of HTTPPolicy.
fn http_policy() -> Value {
    let mut spec = schema::<HttpPolicySpec>();
    let features = schema::<HttpFeaturesSpec>();
    let features = features["properties"].as_object().into_iter().flat_map(|fields| fields.keys());
    let joined = |each: fn(&String) -> String| features.clone().map(each).collect::<Vec<_>>().join(" || ");
    let any = joined(|name| format!("has(self.{name})"));
    for group in ["defaults", "overrides"] {
        spec["properties"][group]["x-kubernetes-validations"] =
            json!([{ "rule": any, "message": "at least one feature must be set" }]);
    }
    let twice = joined(|name| format!("has(self.{name}) && has(self.defaults.{name})"));
    spec["x-kubernetes-validations"] = json!([
        { "rule": format!("{any} || has(self.defaults) || has(self.overrides)"), "message": "at least one feature must be set" },
        { "rule": format!("!has(self.defaults) || !({twice})"), "message": "a feature is set in spec and in spec.defaults" },
    ]);
    // The program itself reads targets with missing fields, and reports them.
    spec["required"] = json!(["targetRefs"]);
    let targets = &mut spec["properties"]["targetRefs"];
    targets["items"]["required"] = json!(["group", "kind", "name"]);
    targets["items"]["x-kubernetes-validations"] = json!([{
        "rule": "(self.kind == 'Ingress' ? 'networking.k8s.io' : self.kind == 'HTTPProxy' ? 'projectcontour.io' : \
            self.kind == 'Namespace' ? '' : 'gateway.networking.k8s.io') == self.group",
        "message": "the group must be that of the kind",
    }]);
    targets["x-kubernetes-list-type"] = json!("atomic");
    let description = "HTTPPolicy sets limits, access restrictions, and compression for Ingresses and their hosts, HTTPProxies, \
        Gateways, listeners, HTTPRoutes, GRPCRoutes, single rules, and namespaces. A feature that cannot be enforced closes the routes of the \
        policy: their requests are answered 403.";
    policy(Kind::HTTP_POLICY, "Inherited", description, spec)
}

/// Returns the definition of EnvoyFleet.
fn envoy_fleet() -> Value {
    let info = Kind::ENVOY_FLEET.info();
    let mut spec = schema::<EnvoyFleetSpec>();
    spec["properties"]["nodeSelector"]["additionalProperties"] = json!({ "type": "string" });
    spec["properties"]["tolerations"]["x-kubernetes-list-type"] = json!("atomic");
    spec["x-kubernetes-validations"] = json!([
        { "rule": "!(has(self.replicas) && has(self.autoscaling))",
          "message": "replicas and autoscaling exclude each other" },
    ]);
    let autoscaling = &mut spec["properties"]["autoscaling"];
    autoscaling["required"] = json!(["maxReplicas"]);
    autoscaling["x-kubernetes-validations"] = json!([
        { "rule": "!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",
          "message": "minReplicas is more than maxReplicas" },
    ]);
    let budget = &mut spec["properties"]["podDisruptionBudget"];
    budget["x-kubernetes-validations"] = json!([
        { "rule": "has(self.maxUnavailable) != has(self.minAvailable)",
          "message": "one of maxUnavailable and minAvailable is required" },
    ]);
    for field in ["maxUnavailable", "minAvailable"] {
        let description = budget["properties"][field]["description"].clone();
        // A pattern applies to text alone.
        budget["properties"][field] = json!({
            "description": description, "x-kubernetes-int-or-string": true, "pattern": "^(100|[0-9]{1,2})%$",
        });
    }
    let service = &mut spec["properties"]["service"];
    service["properties"]["annotations"]["additionalProperties"] = json!({ "type": "string" });
    service["properties"]["loadBalancerSourceRanges"]["x-kubernetes-list-type"] = json!("atomic");
    service["x-kubernetes-validations"] = json!([
        { "rule": "!has(self.externalTrafficPolicy) || !has(self.type) || self.type != 'ClusterIP'",
          "message": "externalTrafficPolicy needs the type LoadBalancer or NodePort" },
        { "rule": "!has(self.type) || self.type == 'LoadBalancer' || !has(self.loadBalancerClass) && \
                   !has(self.loadBalancerSourceRanges)",
          "message": "loadBalancerClass and loadBalancerSourceRanges need the type LoadBalancer" },
    ]);
    for field in ["requests", "limits"] {
        let quantities = &mut spec["properties"]["resources"]["properties"][field]["properties"];
        for (name, pattern) in [("cpu", r"^[0-9]+(m|\.[0-9]+)?$"), ("memory", "^[0-9]+(k|Ki|M|Mi|G|Gi)?$")] {
            let description = quantities[name]["description"].clone();
            quantities[name] =
                json!({ "description": description, "x-kubernetes-int-or-string": true, "pattern": pattern });
        }
    }
    let schema = json!({
        "type": "object",
        "description": "EnvoyFleet describes dedicated Envoys, which serve a single Gateway. A Gateway in the same namespace refers \
            to it in spec.infrastructure.parametersRef. A GatewayClass refers to it in spec.parametersRef, for the defaults of \
            each of its Gateways.",
        "properties": {
            "apiVersion": { "type": "string" },
            "kind": { "type": "string" },
            "metadata": { "type": "object" },
            "spec": spec,
        },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": Kind::ENVOY_FLEET.resource() },
        "spec": {
            "group": info.group,
            "names": names(Kind::ENVOY_FLEET),
            "scope": "Namespaced",
            "versions": [{
                "name": info.version,
                "served": true,
                "storage": true,
                "additionalPrinterColumns": [
                    { "name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas" },
                    { "name": "Maximum", "type": "integer", "jsonPath": ".spec.autoscaling.maxReplicas" },
                    { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" },
                ],
                "schema": { "openAPIV3Schema": schema },
            }],
        },
    })
}

/// Returns the definition of HostGrant.
fn host_grant() -> Value {
    let info = Kind::HOST_GRANT.info();
    let mut spec = schema::<HostGrantSpec>();
    spec["required"] = json!(["hosts", "namespaces"]);
    let hosts = &mut spec["properties"]["hosts"];
    hosts["items"]["maxLength"] = json!(256);
    hosts["items"]["pattern"] =
        json!(r"^(\*\*|(\*\.|\*\*\.)?[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*)$");
    hosts["x-kubernetes-list-type"] = json!("atomic");
    let namespaces = &mut spec["properties"]["namespaces"];
    namespaces["properties"]["names"]["items"]["maxLength"] = json!(63);
    namespaces["properties"]["names"]["x-kubernetes-list-type"] = json!("atomic");
    let selector = &mut namespaces["properties"]["selector"];
    selector["properties"]["matchLabels"]["additionalProperties"] = json!({ "type": "string" });
    let conditions = &mut selector["properties"]["matchExpressions"];
    conditions["items"]["required"] = json!(["key", "operator"]);
    conditions["items"]["properties"]["operator"]["enum"] = json!(["In", "NotIn", "Exists", "DoesNotExist"]);
    conditions["x-kubernetes-list-type"] = json!("atomic");
    let status = json!({
        "type": "object",
        "description": "The status of the HostGrant.",
        "properties": { "conditions": conditions_of_status() },
    });
    let schema = json!({
        "type": "object",
        "description": "HostGrant gives hosts to namespaces: where it covers a host, only objects of its namespaces may define the host, \
            in Ingresses and in routes of Gateway API. Objects of other namespaces are served without the host.",
        "required": ["spec"],
        "properties": {
            "apiVersion": { "type": "string" },
            "kind": { "type": "string" },
            "metadata": { "type": "object" },
            "spec": spec,
            "status": status,
        },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": Kind::HOST_GRANT.resource() },
        "spec": {
            "group": info.group,
            "names": names(Kind::HOST_GRANT),
            "scope": "Cluster",
            "versions": [{
                "name": info.version,
                "served": true,
                "storage": true,
                "subresources": { "status": {} },
                "additionalPrinterColumns": [
                    { "name": "Hosts", "type": "string", "jsonPath": ".spec.hosts" },
                    { "name": "Namespaces", "type": "string", "jsonPath": ".spec.namespaces.names" },
                    { "name": "Accepted", "type": "string",
                      "jsonPath": ".status.conditions[?(@.type==\"Accepted\")].status" },
                    { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" },
                ],
                "schema": { "openAPIV3Schema": schema },
            }],
        },
    })
}

/// Returns the definition of BackendPolicy.
fn backend_policy() -> Value {
    let mut spec = schema::<BackendPolicySpec>();
    let features = spec["properties"].as_object().into_iter().flat_map(|fields| fields.keys());
    let features = features.filter(|name| *name != "targetRefs").map(|name| format!("has(self.{name})"));
    let any = features.collect::<Vec<_>>().join(" || ");
    spec["x-kubernetes-validations"] = json!([{ "rule": any, "message": "at least one feature must be set" }]);
    // The program itself reads targets with missing fields, and reports them.
    spec["required"] = json!(["targetRefs"]);
    let properties = &mut spec["properties"];
    let targets = &mut properties["targetRefs"];
    targets["items"]["required"] = json!(["kind", "name"]);
    targets["x-kubernetes-list-type"] = json!("atomic");
    for field in ["idleTimeout", "maxConnectionAge"] {
        properties[field]["x-kubernetes-validations"] =
            json!([duration_rule("self", "1s", if field == "idleTimeout" { "24h" } else { "168h" })]);
    }
    properties["outlierDetection"]["x-kubernetes-validations"] = json!([
        optional_duration_rule("interval", "1s", "1h"),
        optional_duration_rule("baseEjectionTime", "1s", "1h"),
        optional_duration_rule("maxEjectionTime", "1s", "24h"),
        { "rule": "!has(self.maxEjectionTime) || !has(self.baseEjectionTime) || \
                   duration(self.baseEjectionTime) <= duration(self.maxEjectionTime)",
          "message": "maxEjectionTime is shorter than baseEjectionTime" },
    ]);
    properties["zones"]["x-kubernetes-validations"] = json!([
        { "rule": "self.prefer == 'Local' || !has(self.minLocalEndpoints)",
          "message": "minLocalEndpoints is only allowed for Local" },
    ]);
    let check = &mut properties["healthCheck"];
    check["x-kubernetes-validations"] = json!([
        { "rule": "[has(self.http), has(self.grpc), has(self.tcp)].filter(one, one).size() == 1",
          "message": "exactly one of http, grpc, and tcp must be set" },
        optional_duration_rule("interval", "1s", "1h"),
        optional_duration_rule("timeout", "100ms", "5s"),
    ]);
    check["properties"]["port"]["maximum"] = json!(65_535);
    check["properties"]["http"]["properties"]["expectedStatuses"]["items"]["maxLength"] = json!(7);
    check["properties"]["http"]["properties"]["expectedStatuses"]["x-kubernetes-list-type"] = json!("atomic");
    let balancing = &mut properties["loadBalancing"];
    balancing["x-kubernetes-validations"] = json!([
        { "rule": "(has(self.algorithm) && self.algorithm in ['RingHash', 'Maglev']) == \
                   (has(self.hashOn) && size(self.hashOn) > 0)",
          "message": "hashOn is required for RingHash and Maglev, and not allowed for other algorithms" },
        { "rule": "!has(self.slowStart) || !has(self.algorithm) || self.algorithm in ['RoundRobin', 'LeastRequest']",
          "message": "slowStart needs the algorithm RoundRobin or LeastRequest" },
    ]);
    balancing["properties"]["slowStart"]["x-kubernetes-validations"] =
        json!([duration_rule("self.window", "1s", "1h")]);
    let parts = &mut balancing["properties"]["hashOn"];
    parts["x-kubernetes-list-type"] = json!("atomic");
    parts["items"]["x-kubernetes-validations"] = json!([
        { "rule": "has(self.name) == (self.type in ['Header', 'Cookie', 'QueryParameter'])",
          "message": "name is required for Header, Cookie, and QueryParameter alone" },
        { "rule": "self.type == 'Cookie' || !has(self.path) && !has(self.lifetime)",
          "message": "path and lifetime need the type Cookie" },
        optional_duration_rule("lifetime", "0s", "8760h"),
    ]);
    properties["tcpKeepalive"]["x-kubernetes-validations"] =
        json!([optional_duration_rule("idleTime", "1s", "2h"), optional_duration_rule("interval", "1s", "10m")]);
    let description = "BackendPolicy sets the health checks, the load balancing, and the connections of a Service or of its ports, \
        whichever route leads there. A feature that is not valid is left out.";
    policy(Kind::BACKEND_POLICY, "Direct", description, spec)
}

/// Returns the definition of a kind of policy. `attachment` is its kind in GEP-713: `Direct` or `Inherited`.
fn policy(kind: Kind, attachment: &str, description: &str, spec: Value) -> Value {
    let info = kind.info();
    let schema = json!({
        "type": "object",
        "description": description,
        "required": ["spec"],
        "properties": {
            "apiVersion": { "type": "string" },
            "kind": { "type": "string" },
            "metadata": { "type": "object" },
            "spec": spec,
            "status": status(),
        },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": kind.resource(),
            "labels": { "gateway.networking.k8s.io/policy": attachment },
        },
        "spec": {
            "group": info.group,
            "names": names(kind),
            "scope": "Namespaced",
            "versions": [{
                "name": info.version,
                "served": true,
                "storage": true,
                "subresources": { "status": {} },
                "additionalPrinterColumns": [
                    { "name": "Target", "type": "string", "jsonPath": ".spec.targetRefs[*].name" },
                    { "name": "Accepted", "type": "string",
                      "jsonPath": ".status.ancestors[*].conditions[?(@.type==\"Accepted\")].status" },
                    { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" },
                ],
                "schema": { "openAPIV3Schema": schema },
            }],
        },
    })
}

/// Returns the rule that a text is a duration in this range. A text that is no duration fails the rule too.
fn duration_rule(text: &str, least: &str, most: &str) -> Value {
    json!({
        "rule": format!("duration({text}) >= duration('{least}') && duration({text}) <= duration('{most}')"),
        "message": format!("not a duration from {least} to {most}"),
    })
}

/// Returns the same rule for an optional field.
fn optional_duration_rule(field: &str, least: &str, most: &str) -> Value {
    let text = format!("self.{field}");
    json!({
        "rule": format!(
            "!has({text}) || duration({text}) >= duration('{least}') && duration({text}) <= duration('{most}')"
        ),
        "message": format!("{field} is not a duration from {least} to {most}"),
    })
}

/// Returns the structural schema of a type. Source: Kubernetes, "Specifying a structural schema".
fn schema<T: schemars::JsonSchema>() -> Value {
    let settings = SchemaSettings::openapi3().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    simplify(&mut schema);
    schema
}

/// Removes the keywords that a structural schema must not have or does not need: the API server prunes unknown fields itself,
/// and the program applies defaults.
fn simplify(schema: &mut Value) {
    let Value::Object(fields) = schema else { return };
    for name in ["title", "default", "nullable", "additionalProperties", "format"] {
        fields.remove(name);
    }
    // The comments in the code are wrapped.
    if let Some(Value::String(text)) = fields.get_mut("description") {
        *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(simplify);
    }
    if let Some(items) = fields.get_mut("items") {
        simplify(items);
    }
}

/// Returns a schema of text.
fn text(most: u32) -> Value {
    json!({ "type": "string", "maxLength": most })
}

/// Returns the schema of the conditions of a status. Source: `metav1.Condition`.
fn conditions_of_status() -> Value {
    let condition = json!({
        "type": "object",
        "required": ["type", "status", "reason", "message", "lastTransitionTime"],
        "properties": {
            "type": text(316),
            "status": { "type": "string", "enum": ["True", "False", "Unknown"] },
            "reason": text(1024),
            "message": text(32_768),
            "observedGeneration": { "type": "integer", "format": "int64", "minimum": 0 },
            "lastTransitionTime": { "type": "string", "format": "date-time" },
        },
    });
    json!({
        "type": "array",
        "maxItems": 8,
        "items": condition,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}

/// Returns the schema of the status of a policy. Source: Gateway API v1, `PolicyStatus`.
fn status() -> Value {
    let reference = json!({
        "type": "object",
        "required": ["name"],
        "properties": {
            "group": text(253),
            "kind": text(63),
            "namespace": text(63),
            "name": text(253),
            "sectionName": text(253),
            "port": { "type": "integer", "format": "int32", "minimum": 1, "maximum": 65_535 },
        },
    });
    let ancestor = json!({
        "type": "object",
        "required": ["ancestorRef", "controllerName"],
        "properties": {
            "ancestorRef": reference,
            "controllerName": text(253),
            "conditions": conditions_of_status(),
        },
    });
    json!({
        "type": "object",
        "description": "The status of the policy at each of its targets, by all controllers.",
        "properties": {
            "ancestors": { "type": "array", "maxItems": 16, "items": ancestor, "x-kubernetes-list-type": "atomic" },
        },
    })
}

/// Returns the definitions, each with the module of its types.
fn definitions() -> [(Kind, &'static str, Value); 4] {
    [
        (Kind::HTTP_POLICY, "gateway/http_policy", http_policy()),
        (Kind::ENVOY_FLEET, "gateway/envoy_fleet", envoy_fleet()),
        (Kind::HOST_GRANT, "host_grant", host_grant()),
        (Kind::BACKEND_POLICY, "backend_policy", backend_policy()),
    ]
}

/// Compares the files of definitions with the types, or writes them.
#[track_caller]
fn assert_files(directories: &[&str], head: fn(&str) -> String, definitions: &[(Kind, &str, Value)]) {
    for ((kind, module, definition), directory) in
        definitions.iter().flat_map(|one| directories.iter().map(move |directory| (one, directory)))
    {
        let yaml = format!("{}{}", head(module), serde_saphyr::to_string(definition).unwrap());
        let name = format!("{}_{}.yaml", kind.info().group, kind.info().plural);
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory).join(&name);
        if std::env::var_os("BLESS").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &yaml).unwrap();
        }
        let is = fs::read_to_string(&path).unwrap_or_default();
        assert!(is == yaml, "{} differs from the types: run `make crds`", path.display());
    }
}

#[test]
fn crds_are_those_of_the_types() {
    assert_files(&DIRECTORIES, head, &definitions());
}

#[test]
fn crds_of_contour_are_those_of_the_types() {
    assert_files(&contour::DIRECTORIES, contour::head, &contour::definitions());
}
