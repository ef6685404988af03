//! The objects of a manifest, one by one, with their places in the text.

use lockgate_route::objects::{Kind, Object, ObjectKey};
use serde_json::Value;

use super::decode::{flatten, in_namespace, join};
use super::kinds::{ROWS, from_value};
use crate::yaml::{Document, DocumentFault, Node, documents};

/// An object of a manifest, and its place.
#[derive(Debug)]
pub struct ManifestEntry {
    /// The index of the document in the text, from 1.
    pub document: usize,
    /// The path of the object in the document: `items[3]` for an item of a List, otherwise empty.
    pub outer: String,
    /// The first line of the object, from 1.
    pub line: usize,
    /// The object as it is written. Null if the document is not YAML.
    pub value: Value,
    /// The object, or why there is none.
    pub item: ManifestItem,
}

/// An object of a manifest, or why it is not read.
#[derive(Debug)]
pub enum ManifestItem {
    /// An object that the translation reads.
    Object(Object),
    /// An object that the translation never reads.
    Unread(Unread),
    /// A document that is not YAML.
    Unparsable(DocumentFault),
    /// An object that the API server would reject, and its identity if that is known.
    Rejected(DocumentFault, Option<(Kind, ObjectKey)>),
}

/// An object that the translation never reads, because of its kind, its version, or its content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unread {
    /// The field `apiVersion`.
    pub api_version: String,
    /// The field `kind`.
    pub kind: String,
    /// The namespace, empty if absent.
    pub namespace: String,
    /// The name, empty if absent.
    pub name: String,
    /// The content that the translation would need, if the object is a Secret: `has no data["tls.crt"]`.
    pub lack: Option<String>,
}

impl Unread {
    fn new(value: &Value) -> Self {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let of_metadata = |field: &str| text(value.get("metadata").and_then(|metadata| metadata.get(field)));
        Self {
            api_version: text(value.get("apiVersion")),
            kind: text(value.get("kind")),
            namespace: of_metadata("namespace"),
            name: of_metadata("name"),
            lack: lack(value),
        }
    }
}

/// Describes why a Secret has no key pair: its type, or the missing keys.
fn lack(value: &Value) -> Option<String> {
    let text = |field: &str| value.get(field).and_then(Value::as_str);
    if (text("apiVersion"), text("kind")) != (Some("v1"), Some("Secret")) {
        return None;
    }
    match text("type").unwrap_or("Opaque") {
        "kubernetes.io/tls" | "Opaque" => Some("has no data[\"tls.crt\"] and no data[\"tls.key\"]".to_owned()),
        other => Some(format!("has the type {other:?}, not \"kubernetes.io/tls\" or \"Opaque\"")),
    }
}

/// Returns the objects of `text` in order. Each document is parsed when the iterator reaches it, and a broken document does
/// not affect the others.
pub fn entries(text: &str) -> impl Iterator<Item = ManifestEntry> {
    entries_in(text, None)
}

/// Returns the objects like [`entries`]. `namespace` is the namespace of objects without one.
pub fn entries_in<'a>(text: &'a str, namespace: Option<&'a str>) -> impl Iterator<Item = ManifestEntry> + 'a {
    documents(text).flat_map(move |document| entries_of(document, namespace))
}

fn entries_of(document: Document, namespace: Option<&str>) -> Vec<ManifestEntry> {
    // Like kubectl, a key given twice is accepted in objects that are not read here.
    let lenient = document.lenient.as_ref().map(Node::to_json).filter(has_only_unread);
    let value = match (document.value(), lenient) {
        (Ok(value), _) | (Err(_), Some(value)) => value,
        (Err(fault), None) => {
            let (outer, line) = (String::new(), fault.place.line);
            let item = ManifestItem::Unparsable(fault.clone());
            return vec![ManifestEntry { document: document.index, outer, line, value: Value::Null, item }];
        }
    };
    let entry = |(outer, mut value): (String, Value)| {
        if let Some(namespace) = namespace {
            in_namespace(&mut value, namespace);
        }
        let unread = Unread::new(&value);
        let item = match from_value(value.clone(), &ROWS) {
            Ok(Some(object)) => ManifestItem::Object(object),
            Ok(None) => ManifestItem::Unread(unread),
            Err(fault) => {
                ManifestItem::Rejected(document.fault(&join(&outer, &fault.path), fault.message), fault.object)
            }
        };
        ManifestEntry { document: document.index, line: document.line_of(&outer), outer, value, item }
    };
    flatten(value).into_iter().map(entry).collect()
}

/// Returns whether the translation reads none of the objects of a document.
fn has_only_unread(value: &Value) -> bool {
    flatten(value.clone()).into_iter().all(|(_, value)| matches!(from_value(value, &ROWS), Ok(None)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_the_places_of_their_documents_and_lists() {
        const TEXT: &str = "\
apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: Service
    metadata: {name: a}
    spec: {ports: [{port: 80}]}
  - apiVersion: apps/v1
    kind: Deployment
    metadata: {name: b, namespace: shop}
---
apiVersion: v1
kind: Service
metadata: {name: c}
spec:
  ports:
    - port: 0
---
a: [
---
# An empty document.
";
        let found: Vec<ManifestEntry> = entries(TEXT).collect();
        let places: Vec<_> = found.iter().map(|entry| (entry.document, &*entry.outer, entry.line)).collect();
        assert_eq!(places[..3], [(1, "items[0]", 4), (1, "items[1]", 8), (2, "", 12)]);
        assert!(matches!(&found[0].item, ManifestItem::Object(object) if object.kind() == Kind::SERVICE));
        let deployment = Unread {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            namespace: "shop".into(),
            name: "b".into(),
            lack: None,
        };
        assert!(matches!(&found[1].item, ManifestItem::Unread(unread) if *unread == deployment));
        let rejected = (Kind::SERVICE, ObjectKey::new("default", "c"));
        assert!(
            matches!(&found[2].item, ManifestItem::Rejected(fault, Some(object)) if fault.place.line == 17 && *object == rejected),
            "{:?}",
            found[2]
        );
        assert!(matches!(&found[3].item, ManifestItem::Unparsable(fault) if fault.document == 3), "{:?}", found[3]);
        assert_eq!(found.len(), 4);
    }

    #[test]
    fn a_key_given_twice_is_refused_only_in_objects_that_are_read() {
        let twice = |kind: &str| format!("{kind}\nmetadata: {{name: a}}\nspec: {{}}\nspec: {{}}\n");
        let deployment = twice("apiVersion: apps/v1\nkind: Deployment");
        let service = twice("apiVersion: v1\nkind: Service");
        let items = |text: &str| entries(text).map(|entry| entry.item).collect::<Vec<_>>();
        let text = format!("{deployment}---\n{service}---\n{deployment}");
        let found = items(&text);
        assert!(
            matches!(&found[..], [ManifestItem::Unread(_), ManifestItem::Unparsable(fault), ManifestItem::Unread(_)] if fault.place.line == 11),
            "{found:?}"
        );
        let list =
            "apiVersion: v1\nkind: List\nkind: List\nitems: [{apiVersion: v1, kind: Service, metadata: {name: a}}]\n";
        assert!(matches!(&items(list)[..], [ManifestItem::Unparsable(_)]));
        assert!(matches!(&items("a: 1\na: 2\n")[..], [ManifestItem::Unparsable(_)]));
    }

    #[test]
    fn objects_without_a_namespace_are_in_the_named_one() {
        const TEXT: &str = "\
{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: b, namespace: shop}, spec: {ports: [{port: 80}]}}
---
{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: c}, spec: {controller: example.com/d}}
---
{apiVersion: extensions/v1beta1, kind: Ingress, metadata: {name: d, namespace: ''}}
";
        let namespaces = |namespace| {
            let items = entries_in(TEXT, namespace).map(|entry| match entry.item {
                ManifestItem::Object(object) => object.meta().key.namespace.to_string(),
                ManifestItem::Rejected(_, Some((_, key))) => key.namespace.to_string(),
                other => format!("{other:?}"),
            });
            items.collect::<Vec<_>>()
        };
        assert_eq!(namespaces(None), ["default", "shop", "", "default"]);
        assert_eq!(namespaces(Some("apps")), ["apps", "shop", "", "apps"]);
    }
}
