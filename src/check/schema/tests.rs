//! The schemas, and the faults that they find.

#![allow(clippy::unwrap_used, clippy::panic)]

use lockgate_route::objects::{FOREIGN_POLICIES, Kind};
use serde_json::json;

use super::*;

fn faults(object: Value) -> Vec<(String, String)> {
    let faults = Schemas::default().faults(&object);
    faults
        .into_iter()
        .map(|fault| {
            (fault.field, fault.remedy.map_or(fault.message.clone(), |remedy| format!("{}: {remedy}", fault.message)))
        })
        .collect()
}

fn route(spec: Value) -> Value {
    json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "shop"}, "spec": spec})
}

fn assert_faults(object: Value, expected: &[(&str, &str)]) {
    let found = faults(object);
    let found: Vec<(&str, &str)> = found.iter().map(|(field, message)| (field.as_str(), message.as_str())).collect();
    assert_eq!(found, expected);
}

#[test]
fn every_kind_has_a_schema_and_every_keyword_is_known() {
    let schemas = Schemas::default();
    let unread = [Kind::HOST_CLAIMS, Kind::CUSTOM_RESOURCE_DEFINITION];
    // The schemas of other products belong to them, and change with their versions. The translation reports unknown fields of HTTPProxies.
    let of_contour = [Kind::HTTP_PROXY, Kind::TLS_CERTIFICATE_DELEGATION, Kind::EXTENSION_SERVICE];
    let is_checked =
        |kind: &Kind| !unread.contains(kind) && !of_contour.contains(kind) && !FOREIGN_POLICIES.contains(kind);
    for kind in Kind::ALL.into_iter().filter(is_checked) {
        let info = kind.info();
        let name = format!("{} {}", kind.api_version(), info.name);
        assert!(schemas.kinds.contains_key(&name), "{name}");
    }
    let metadata =
        FILES.iter().find_map(|text| serde_json::from_str::<Map<String, Value>>(text).unwrap().get(METADATA).cloned());
    for (name, schema) in &schemas.kinds {
        let value = with_identity(schema.value.clone(), metadata.as_ref().unwrap());
        serde_json::from_value::<FieldSchema>(value).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn the_rules_of_all_schemas_compile() {
    fn count(rules: &CompiledSchema) -> usize {
        assert!(!rules.has_errors(), "{:?}", rules.compilation_errors());
        let inner =
            rules.properties.values().chain(rules.items.as_deref()).chain(rules.additional_properties.as_deref());
        rules.validations.len() + inner.map(count).sum::<usize>()
    }
    let schemas = Schemas::default();
    let rules: usize = schemas.kinds.values().map(|schema| count(&compile_schema(&schema.value))).sum();
    assert!(rules > 200, "{rules}");
}

#[test]
fn unknown_fields_name_the_nearest_known_field() {
    let mut object = route(json!({"parentRef": [], "rules": [{"match": [], "backendrefs": []}], "frobnicate": 1}));
    object["metadata"]["lables"] = json!({});
    object["specs"] = json!({});
    assert_faults(
        object,
        &[
            ("metadata.lables", "the field \"lables\" does not exist: Write \"labels\"."),
            (
                "spec.frobnicate",
                "the field \"frobnicate\" does not exist: Remove the field, or use one of \"hostnames\", \"parentRefs\", \
                 \"rules\", \"useDefaultGateways\".",
            ),
            ("spec.parentRef", "the field \"parentRef\" does not exist: Write \"parentRefs\"."),
            ("spec.rules[0].backendrefs", "the field \"backendrefs\" does not exist: Write \"backendRefs\"."),
            (
                "spec.rules[0].match",
                "the field \"match\" does not exist: Remove the field, or use one of \"backendRefs\", \"filters\", \"matches\", \
                 \"name\", \"retry\", \"sessionPersistence\", \"timeouts\".",
            ),
            ("specs", "the field \"specs\" does not exist: Write \"spec\"."),
        ],
    );
}

#[test]
fn values_have_types_ranges_patterns_and_enumerations() {
    let rule = |rule: Value| route(json!({"rules": [rule]}));
    assert_faults(
        rule(json!({"backendRefs": [{"name": "a", "port": "80"}]})),
        &[("spec.rules[0].backendRefs[0].port", "expected an integer, found the string \"80\"")],
    );
    assert_faults(
        rule(json!({"backendRefs": [{"name": "a", "port": 80, "weight": -1}, {"port": 65536}]})),
        &[
            ("spec.rules[0].backendRefs[0].weight", "-1 is less than the minimum, 0"),
            ("spec.rules[0].backendRefs[1].name", "missing"),
            ("spec.rules[0].backendRefs[1].port", "65536 is greater than the maximum, 65535"),
        ],
    );
    assert_faults(
        rule(json!({"matches": [{"path": {"type": "Prefix"}}], "timeouts": {"request": "5 s"}})),
        &[
            (
                "spec.rules[0].matches[0].path.type",
                "\"Prefix\" is none of \"Exact\", \"PathPrefix\", \"RegularExpression\"",
            ),
            ("spec.rules[0].timeouts.request", "\"5 s\" does not match the pattern ^([0-9]{1,5}(h|m|s|ms)){1,4}$"),
        ],
    );
    let header = json!({"name": "a", "value": "b"});
    assert_faults(
        rule(json!({"matches": [{"headers": [header, header]}]})),
        &[("spec.rules[0].matches[0].headers[1]", "an earlier item has the same name")],
    );
    assert_faults(rule(json!({"matches": null, "backendRefs": []})), &[]);
}

#[test]
fn rules_about_several_fields_are_evaluated_with_the_defaults_of_the_api_server() {
    let backend = json!({"name": "a"});
    assert_faults(
        route(json!({"rules": [{"backendRefs": [backend]}]})),
        &[("spec.rules[0].backendRefs[0]", "Must have port for Service reference")],
    );
    let other = json!({"group": "example.com", "kind": "Bucket", "name": "a"});
    assert_faults(route(json!({"rules": [{"backendRefs": [other]}]})), &[]);
}

#[test]
fn the_api_server_has_rules_without_a_schema() {
    let service = |spec: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": spec});
    assert_faults(service(json!({})), &[("spec.ports", "missing")]);
    assert_faults(service(json!({"clusterIP": "None"})), &[]);
    assert_faults(
        service(json!({"ports": [{"port": 80, "protocol": "tcp"}, {"name": "A", "port": 81}]})),
        &[
            ("spec.ports[0].name", "missing; a Service with several ports names each"),
            ("spec.ports[0].protocol", "\"tcp\" is none of \"TCP\", \"UDP\", \"SCTP\""),
            ("spec.ports[1].name", "\"A\" is not a valid name of a port"),
        ],
    );
    let ingress = |spec: Value| {
        let metadata =
            json!({"name": "a_b", "annotations": {"kubernetes.io/ingress.class": "a"}, "labels": {"a": "b c"}});
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": metadata, "spec": spec})
    };
    assert_faults(
        ingress(json!({"ingressClassName": "a"})),
        &[
            ("metadata.name", "\"a_b\" is not a valid name for the kind Ingress"),
            ("metadata.labels[\"a\"]", "\"b c\" is not a valid value of a label"),
            ("spec", "has neither \"rules\" nor \"defaultBackend\""),
            ("metadata.annotations[\"kubernetes.io/ingress.class\"]", "the class is also in \"spec.ingressClassName\""),
        ],
    );
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "a"}, "addressType": "IPv4"});
    assert_faults(slice, &[]);
    let class = json!({"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "a"}});
    assert_faults(
        class,
        &[("spec.controller", "\"\" is not a domain and a path, such as \"lockgate.dev/ingress-controller\"")],
    );
}
