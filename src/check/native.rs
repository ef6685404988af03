//! The rules of the API server about metadata and native kinds, which no schema contains. The translation reports most faults of
//! Ingresses itself.

use serde_json::Value;

use super::schema::{FaultForm, ObjectFault};
use crate::source::decode::list;

/// The longest name of an object or of a label.
const NAME: usize = 253;

/// The longest part of a name between dots, and the longest value of a label.
const LABEL: usize = 63;

/// Returns the faults of an object whose fields have the right types.
pub fn faults(kind: &str, object: &Value) -> Vec<ObjectFault> {
    let mut faults = Vec::new();
    metadata(kind, object, &mut faults);
    match kind {
        "Ingress" => ingress(object, &mut faults),
        "Service" => service(object, &mut faults),
        "IngressClass" => ingress_class(object, &mut faults),
        _ => {}
    }
    faults
}

fn fault(field: impl Into<String>, message: impl Into<String>) -> ObjectFault {
    ObjectFault { field: field.into(), message: message.into(), remedy: None, form: FaultForm::Value }
}

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer)?.as_str()
}

/// Returns whether `text` is a label of DNS: lower-case letters, digits, and dashes within.
fn is_dns_label(text: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=LABEL).contains(&text.len()) && text.chars().all(is_inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// Returns whether `text` consists of labels of DNS without a limit of their length, as the API server requires of names.
fn is_dns_name(text: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_part =
        |part: &str| !part.is_empty() && part.chars().all(is_inner) && !part.starts_with('-') && !part.ends_with('-');
    text.len() <= NAME && text.split('.').all(is_part)
}

/// Returns whether `text` is the value of a label, or the name of one without its prefix.
fn is_label_value(text: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_outer = |c: char| c.is_ascii_alphanumeric();
    text.len() <= LABEL && text.chars().all(is_inner) && text.starts_with(is_outer) && text.ends_with(is_outer)
}

/// Returns whether `text` is the key of a label or of an annotation.
fn is_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_dns_name(prefix) && is_label_value(name),
        None => is_label_value(text),
    }
}

fn metadata(kind: &str, object: &Value, faults: &mut Vec<ObjectFault>) {
    if let Some(name) = text(object, "/metadata/name").filter(|name| !name.is_empty()) {
        let is_valid = match kind {
            "Namespace" => is_dns_label(name),
            "Service" => is_dns_label(name) && name.starts_with(|c: char| c.is_ascii_lowercase()),
            _ => is_dns_name(name),
        };
        if !is_valid {
            faults.push(fault("metadata.name", format!("{name:?} is not a valid name for the kind {kind}")));
        }
    }
    if let Some(namespace) = text(object, "/metadata/namespace").filter(|name| !name.is_empty() && !is_dns_label(name))
    {
        faults.push(fault("metadata.namespace", format!("{namespace:?} is not the name of a namespace")));
    }
    let fields = |field: &str| object.pointer(field).and_then(Value::as_object).into_iter().flatten();
    for (key, value) in fields("/metadata/labels") {
        let field = format!("metadata.labels[{key:?}]");
        if !is_key(key) {
            faults.push(fault(&field, format!("{key:?} is not a valid key of a label")));
        }
        if let Some(value) = value.as_str().filter(|value| !value.is_empty() && !is_label_value(value)) {
            faults.push(fault(&field, format!("{value:?} is not a valid value of a label")));
        }
    }
    // The prefix of an annotation may have capital letters.
    for (key, _) in fields("/metadata/annotations").filter(|(key, _)| !is_key(&key.to_lowercase())) {
        faults.push(fault(
            format!("metadata.annotations[{key:?}]"),
            format!("{key:?} is not a valid key of an annotation"),
        ));
    }
}

fn ingress(object: &Value, faults: &mut Vec<ObjectFault>) {
    let spec = object.get("spec");
    if list(spec, "rules").is_empty() && spec.is_none_or(|spec| spec.get("defaultBackend").is_none()) {
        faults.push(fault("spec", "has neither \"rules\" nor \"defaultBackend\""));
    }
    let annotation = "kubernetes.io/ingress.class";
    let has_annotation = object.pointer("/metadata/annotations").and_then(|all| all.get(annotation)).is_some();
    // The API server rejects this of a new object, not of one that it has stored.
    let is_new = text(object, "/metadata/resourceVersion").is_none();
    if is_new && has_annotation && text(object, "/spec/ingressClassName").is_some() {
        let message = "the class is also in \"spec.ingressClassName\"";
        faults.push(fault(format!("metadata.annotations[{annotation:?}]"), message));
    }
    if let Some(class) = text(object, "/spec/ingressClassName").filter(|class| !is_dns_name(class)) {
        faults.push(fault("spec.ingressClassName", format!("{class:?} is not a valid name of an IngressClass")));
    }
    for (i, rule) in list(spec, "rules").iter().enumerate() {
        let http = rule.get("http");
        if http.is_some() && list(http, "paths").is_empty() {
            faults.push(fault(format!("spec.rules[{i}].http.paths"), "is empty"));
        }
        for (j, path) in list(http, "paths").iter().enumerate() {
            backend(path.get("backend"), &format!("spec.rules[{i}].http.paths[{j}].backend"), faults);
        }
    }
    backend(spec.and_then(|spec| spec.get("defaultBackend")), "spec.defaultBackend", faults);
}

fn backend(backend: Option<&Value>, field: &str, faults: &mut Vec<ObjectFault>) {
    let Some(backend) = backend else { return };
    match (backend.get("service"), backend.get("resource")) {
        (Some(_), Some(_)) => faults.push(fault(field, "has both \"service\" and \"resource\"")),
        (None, None) => faults.push(fault(field, "has neither \"service\" nor \"resource\"")),
        _ => {}
    }
}

fn service(object: &Value, faults: &mut Vec<ObjectFault>) {
    let spec = object.get("spec");
    let form = text(object, "/spec/type").unwrap_or("ClusterIP");
    if !["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"].contains(&form) {
        let known = "\"ClusterIP\", \"NodePort\", \"LoadBalancer\", \"ExternalName\"";
        faults.push(fault("spec.type", format!("{form:?} is none of {known}")));
    }
    if form == "ExternalName" && text(object, "/spec/externalName").is_none_or(str::is_empty) {
        faults.push(fault("spec.externalName", "missing"));
    }
    let ports = list(spec, "ports");
    let is_headless = text(object, "/spec/clusterIP") == Some("None");
    if ports.is_empty() && form != "ExternalName" && !is_headless {
        faults.push(fault("spec.ports", "missing"));
    }
    for (index, port) in ports.iter().enumerate() {
        let field = |name: &str| format!("spec.ports[{index}].{name}");
        match text(port, "/name").unwrap_or_default() {
            "" if ports.len() > 1 => {
                faults.push(fault(field("name"), "missing; a Service with several ports names each"))
            }
            "" => {}
            name if !is_dns_label(name) => {
                faults.push(fault(field("name"), format!("{name:?} is not a valid name of a port")));
            }
            name if ports[..index].iter().any(|other| text(other, "/name") == Some(name)) => {
                faults.push(fault(field("name"), format!("an earlier port has the name {name:?}")));
            }
            _ => {}
        }
        let protocol = text(port, "/protocol").unwrap_or("TCP");
        if !["TCP", "UDP", "SCTP"].contains(&protocol) {
            faults.push(fault(field("protocol"), format!("{protocol:?} is none of \"TCP\", \"UDP\", \"SCTP\"")));
        }
    }
}

fn ingress_class(object: &Value, faults: &mut Vec<ObjectFault>) {
    let controller = text(object, "/spec/controller").unwrap_or_default();
    let is_valid = controller.split_once('/').is_some_and(|(domain, path)| is_dns_name(domain) && !path.is_empty());
    if !is_valid {
        let message = format!("{controller:?} is not a domain and a path, such as \"lockgate.dev/ingress-controller\"");
        faults.push(fault("spec.controller", message));
    }
}
