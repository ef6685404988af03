//! The definitions of Contour's kinds: HTTPProxy, ExtensionService, and TLSCertificateDelegation.
//!
//! Fields and descriptions come from the types. The limits come from `limits.yaml`, because the types also read objects that the API server
//! refuses. `contour_definitions` of the end-to-end tests compares the served definitions with Contour's.

use std::collections::{BTreeMap, BTreeSet};

use lockgate_route::objects::Kind;
use lockgate_route::objects::http_proxy::{ExtensionServiceSpec, HttpProxySpec, TlsCertificateDelegationSpec};
use serde_json::{Value, json};

/// The limits of the fields, and the status.
const LIMITS: &str = include_str!("contour/limits.yaml");

/// The directories with these definitions. Neither `kubectl apply -f crds/` nor helm installs them unasked, because they would replace the
/// definitions of Contour.
pub(super) const DIRECTORIES: [&str; 2] = ["crds/contour", "charts/lockgate/files/contour"];

/// The limits by the ends of paths, and the ends that a field has.
struct Limits {
    limits: BTreeMap<String, Value>,
    used: BTreeSet<String>,
}

impl Limits {
    /// Merges the limits into a block and all blocks in it.
    fn apply(&mut self, path: &str, schema: &mut Value) {
        let is_at = |end: &str| path.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        for (end, limits) in self.limits.iter().filter(|(end, _)| is_at(end)) {
            self.used.insert(end.clone());
            merge(schema, limits);
        }
        for (name, field) in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
            self.apply(&format!("{path}.{name}"), field);
        }
        if let Some(items) = schema.get_mut("items") {
            self.apply(&format!("{path}[]"), items);
        }
    }

    /// Fails if a limit has no field.
    fn assert_used(&self) {
        let unused: Vec<&String> = self.limits.keys().filter(|end| !self.used.contains(*end)).collect();
        assert!(unused.is_empty(), "src/crds/contour/limits.yaml: no field has the path {unused:?}");
    }
}

/// Applies a patch. Source: RFC 7396, "JSON Merge Patch".
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in fields {
        match value {
            Value::Null => drop(target.as_object_mut().unwrap().remove(name)),
            value => merge(&mut target[name], value),
        }
    }
}

/// Removes the sentences of the types about their own representation of absent fields.
fn describe(schema: &mut Value) {
    if let Some(Value::String(text)) = schema.get_mut("description") {
        for sentence in [" Empty if absent.", " Empty texts are absent."] {
            *text = text.replace(sentence, "");
        }
    }
    for (_, field) in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        describe(field);
    }
    if let Some(items) = schema.get_mut("items") {
        describe(items);
    }
}

/// Returns the schema of the conditions of a status, each with errors and warnings.
fn conditions(status: &Value) -> Value {
    let object = |fields: Value, required: &[&str], description: &str| json!({ "type": "object", "description": description, "required": required, "properties": fields });
    let part = object(status["condition"].clone(), &["message", "reason", "status", "type"], "An error or a warning.");
    let mut fields = status["condition"].clone();
    merge(&mut fields, &status["times"]);
    fields["errors"] =
        json!({ "type": "array", "items": part, "description": "The errors. With one, the object is not valid." });
    fields["warnings"] = json!({ "type": "array", "items": part, "description": "The warnings." });
    let required = ["lastTransitionTime", "message", "reason", "status", "type"];
    json!({
        "type": "array",
        "description": "The conditions.",
        "items": object(fields, &required, "A condition with its errors and warnings."),
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}

/// Returns the definition of a kind.
fn definition(kind: Kind, short_names: &[&str], (description, spec, status): (&str, Value, Value)) -> Value {
    let info = kind.info();
    let mut names = super::names(kind);
    names["shortNames"] = json!(short_names);
    let schema = json!({
        "type": "object",
        "description": description,
        "required": ["metadata", "spec"],
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
        "metadata": { "name": kind.resource() },
        "spec": {
            "group": info.group,
            "names": names,
            "scope": "Namespaced",
            "versions": [{
                "name": info.version,
                "served": true,
                "storage": true,
                "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": schema },
            }],
        },
    })
}

/// Returns the first lines of the file of a kind whose types are in this module.
pub(super) fn head(module: &str) -> String {
    format!(
        "---\n# Written by `make crds` from crates/route/src/objects/{module}.rs and src/crds/contour/limits.yaml: edit those files \
         instead.\n# An installation of Contour has a definition with the same name, which also works.\n"
    )
}

/// Returns the definitions, each with the module of its types.
pub(super) fn definitions() -> [(Kind, &'static str, Value); 3] {
    let file: Value = serde_saphyr::from_str(LIMITS).unwrap();
    let limits = serde_json::from_value(file["fields"].clone()).unwrap();
    let mut limits = Limits { limits, used: BTreeSet::new() };
    let mut limited = |kind: Kind, mut spec: Value| {
        describe(&mut spec);
        limits.apply(&format!("{}.spec", kind.as_str()), &mut spec);
        spec
    };

    let proxy = limited(Kind::HTTP_PROXY, super::schema::<HttpProxySpec>());
    let extension = limited(Kind::EXTENSION_SERVICE, super::schema::<ExtensionServiceSpec>());
    let delegation = limited(Kind::TLS_CERTIFICATE_DELEGATION, super::schema::<TlsCertificateDelegationSpec>());
    limits.assert_used();

    let conditions = conditions(&file["status"]);
    let status = json!({ "type": "object", "description": "The status.", "properties": { "conditions": conditions } });
    let mut of_proxy = status.clone();
    of_proxy["default"] = json!({ "currentStatus": "NotReconciled", "description": "Waiting for controller" });
    of_proxy["properties"]["currentStatus"] = json!({ "type": "string", "description": "`valid`, `invalid`, or `orphaned`; `NotReconciled` before the first answer." });
    of_proxy["properties"]["description"] =
        json!({ "type": "string", "description": "The message of the condition `Valid`." });
    of_proxy["properties"]["loadBalancer"] = file["status"]["addresses"].clone();

    let mut proxy = definition(
        Kind::HTTP_PROXY,
        &["proxy", "proxies"],
        (
            "HTTPProxy defines a host and its routes, or a part of the routes of a host for other HTTPProxies to include.",
            proxy,
            of_proxy,
        ),
    );
    let column = |name: &str, path: &str, description: &str| json!({ "name": name, "type": "string", "jsonPath": path, "description": description });
    proxy["spec"]["versions"][0]["additionalPrinterColumns"] = json!([
        column("FQDN", ".spec.virtualhost.fqdn", "The host."),
        column("TLS Secret", ".spec.virtualhost.tls.secretName", "The Secret with the certificate."),
        column("Status", ".status.currentStatus", "The current status."),
        column("Status Description", ".status.description", "The message of the status."),
    ]);
    let extension = definition(
        Kind::EXTENSION_SERVICE,
        &["extensionservice", "extensionservices"],
        (
            "ExtensionService names a server that Envoy calls for requests, such as for their authorization.",
            extension,
            status.clone(),
        ),
    );
    let delegation = definition(
        Kind::TLS_CERTIFICATE_DELEGATION,
        &["tlscerts"],
        ("TLSCertificateDelegation permits other namespaces to refer to Secrets of its namespace.", delegation, status),
    );
    [
        (Kind::HTTP_PROXY, "http_proxy", proxy),
        (Kind::EXTENSION_SERVICE, "http_proxy/extension_service", extension),
        (Kind::TLS_CERTIFICATE_DELEGATION, "http_proxy/delegation", delegation),
    ]
}
