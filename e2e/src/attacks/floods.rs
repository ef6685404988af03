//! Objects with as many problems, or as much text, as the API server accepts.

use serde_json::{Value, json};

/// The number of paths of an Ingress of about 1 MB.
pub const PATHS: usize = 11_000;
/// The maximum length of the text in an annotation, in characters.
pub const TEXT: usize = 250_000;

/// Annotations with three problems.
pub fn annotations() -> Value {
    json!({
        "projectcontour.io/response-timeout": "x",
        "projectcontour.io/tls-minimum-protocol-version": "1.3",
        "projectcontour.io/tls-maximum-protocol-version": "1.2",
    })
}

/// Formats an annotation of [`TEXT`] characters, which is not a duration.
pub fn long_annotation() -> Value {
    json!({ "projectcontour.io/response-timeout": "x".repeat(TEXT) })
}

/// Formats an Ingress with these annotations and this number of paths without a Service. Its host is its name below
/// `test`.
pub fn wrong(namespace: &str, name: &str, class: &str, annotations: Value, paths: usize) -> Value {
    let path = |at: usize| {
        let backend = json!({ "service": { "name": "none", "port": { "number": 1 } } });
        json!({ "path": format!("/{at}"), "pathType": "Exact", "backend": backend })
    };
    let paths: Vec<Value> = (0..paths).map(path).collect();
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": { "name": name, "namespace": namespace, "annotations": annotations },
        "spec": {
            "ingressClassName": class,
            "rules": [{ "host": format!("{name}.test"), "http": { "paths": paths } }],
        },
    })
}
