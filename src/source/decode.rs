//! Reduces Kubernetes objects from the API or a manifest to the compact types.
//!
//! Defaults that a manifest omits are set as by the API server, so that both give the same bytes.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use lockgate_route::objects::foreign::controller_of;
use lockgate_route::objects::{Kind, Meta, Object, ObjectKey};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::names::shared;

/// Prefixes of the annotations that the translation reads.
const ANNOTATIONS: [&str; 8] = [
    "kubernetes.io/ingress.class",
    "kubernetes.io/ingress.allow-http",
    "ingressclass.kubernetes.io/",
    "projectcontour.io/",
    "ingress.kubernetes.io/",
    "lockgate.dev/",
    "nginx.ingress.kubernetes.io/force-ssl-redirect",
    "nginx.ingress.kubernetes.io/ssl-redirect",
];

/// A manifest that the API server would reject too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeFault {
    /// The path of the field from the top of the document: `spec.rules[0].http.paths[2].pathType`. Empty if unknown.
    pub path: String,
    /// The fault: lower case, no full stop.
    pub message: String,
    /// The object that contains the fault, if it can be identified.
    pub object: Option<(Kind, ObjectKey)>,
}

/// Displays `Ingress shop/cart: spec.rules[0].http: missing field "paths"`.
impl fmt::Display for DecodeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((kind, key)) = &self.object {
            match &*key.namespace {
                "" => write!(f, "{} {}: ", kind.as_str(), key.name)?,
                namespace => write!(f, "{} {namespace}/{}: ", kind.as_str(), key.name)?,
            }
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// A kind that can be read from the API and reduced to an [`Object`].
pub trait Decode {
    /// The kind.
    const KIND: Kind;

    /// Whether only the metadata is read.
    const METADATA_ONLY: bool = false;

    /// Returns the metadata.
    fn metadata(&self) -> &ObjectMeta;

    /// Converts a manifest to the form that the API server would store.
    fn normalized(value: Value) -> Value {
        value
    }

    /// Returns the field and the reason if the API server would reject an object that the type alone accepts. Serving
    /// it would differ from a cluster.
    fn refused(_: &Value) -> Option<(String, String)> {
        None
    }

    /// Returns the compact form. Returns `None` for an object that is never read: a Secret with neither a TLS key pair
    /// nor authorities, or a ConfigMap without authorities.
    fn decode(self) -> Option<Object>;
}

/// Collects a long-lived list in memory of exactly its length.
pub fn exact<T>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut list: Vec<T> = items.collect();
    list.shrink_to_fit();
    list
}

/// Returns the key of the object of `kind` with this namespace and name. The default namespace is `default`.
pub fn key(kind: Kind, namespace: Option<&str>, name: &str) -> ObjectKey {
    let namespace = match namespace {
        _ if !kind.info().namespaced => "",
        None | Some("") => "default",
        Some(namespace) => namespace,
    };
    let name = if kind.info().named_by_others { shared(name) } else { name.into() };
    ObjectKey { namespace: shared(namespace), name }
}

/// Returns whether the translation reads or reports an annotation of this name.
pub fn is_used(annotation: &str) -> bool {
    ANNOTATIONS.iter().any(|prefix| annotation.starts_with(prefix)) || controller_of(annotation).is_some()
}

/// Reduces the metadata to the fields that the translation reads.
pub fn meta(metadata: ObjectMeta, kind: Kind) -> Meta {
    let mut annotations = metadata.annotations.unwrap_or_default();
    let foreign = kind.info().foreign_annotations;
    annotations.retain(|name, _| is_used(name) && (foreign || controller_of(name).is_none()));
    let labels = metadata.labels.filter(|_| kind.info().selected_by_labels).unwrap_or_default();
    Meta {
        labels: labels.iter().map(|(name, value)| (shared(name), shared(value))).collect(),
        key: key(kind, metadata.namespace.as_deref(), metadata.name.as_deref().unwrap_or_default()),
        uid: metadata.uid.unwrap_or_default().into(),
        generation: metadata.generation.unwrap_or(0),
        created: metadata.creation_timestamp.map_or(i64::MAX, |time| time.0.as_second()),
        terminating: metadata.deletion_timestamp.is_some(),
        annotations,
    }
}

/// Returns the objects of a document, each with its path: `items[3]` for an item of a List, otherwise empty.
pub fn flatten(document: Value) -> Vec<(String, Value)> {
    match document {
        Value::Object(mut list) if is_list(&list) => match list.remove("items") {
            Some(Value::Array(items)) => items
                .into_iter()
                .enumerate()
                .flat_map(|(i, item)| {
                    flatten(item).into_iter().map(move |(path, value)| (join(&format!("items[{i}]"), &path), value))
                })
                .collect(),
            _ => Vec::new(),
        },
        document => vec![(String::new(), document)],
    }
}

fn is_list(document: &serde_json::Map<String, Value>) -> bool {
    let kind = document.get("kind").and_then(Value::as_str).unwrap_or_default();
    kind.ends_with("List") && document.get("items").is_some_and(|items| items.is_array() || items.is_null())
}

/// Returns the path of the field `path` within `outer`.
pub fn join(outer: &str, path: &str) -> String {
    match (outer, path) {
        ("", path) | (path, "") => path.to_string(),
        (outer, path) => format!("{outer}.{path}"),
    }
}

/// Sets the namespace of an object of a known kind without one.
pub fn in_namespace(value: &mut Value, namespace: &str) {
    let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
    let is_namespaced = Kind::ALL.into_iter().any(|known| known.info().namespaced && known.as_str() == kind);
    let metadata = value.get_mut("metadata").and_then(Value::as_object_mut).filter(|_| is_namespaced);
    let Some(metadata) = metadata else { return };
    let is_absent = metadata.get("namespace").is_none_or(|own| own.is_null() || own.as_str() == Some(""));
    if is_absent {
        metadata.insert("namespace".to_owned(), namespace.into());
    }
}

/// Decodes the object of a manifest, which is of the kind of `K`.
///
/// The error states that the API server would reject its form.
pub fn typed<K: Decode + DeserializeOwned>(value: Value) -> Result<Option<Object>, DecodeFault> {
    let metadata = value.get("metadata");
    let text = |field: &str| metadata.and_then(|metadata| metadata.get(field)).and_then(Value::as_str);
    let name = text("name").unwrap_or_default();
    if name.is_empty() {
        let message = match text("generateName") {
            Some(_) => "missing; \"generateName\" needs an API server",
            None => "missing",
        };
        return Err(DecodeFault { path: "metadata.name".into(), message: message.into(), object: None });
    }
    let object = (K::KIND, key(K::KIND, text("namespace"), name));
    let fault = |path: String, message: String| DecodeFault { path, message, object: Some(object.clone()) };
    let value = K::normalized(value);
    if let Some((path, message)) = K::refused(&value) {
        return Err(fault(path, message));
    }
    match serde_path_to_error::deserialize::<_, K>(value) {
        Ok(decoded) => Ok(decoded.decode()),
        Err(error) => {
            let path = error.path().to_string();
            let path = if path == "." { String::new() } else { path };
            Err(fault(path, error.into_inner().to_string().replace('`', "\"")))
        }
    }
}

/// Returns the list at `field`; empty if the field is absent or no list.
pub fn list<'a>(value: Option<&'a Value>, field: &str) -> &'a [Value] {
    value.and_then(|value| value.get(field)).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
