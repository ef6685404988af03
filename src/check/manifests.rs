//! The manifests to check: texts, their objects, and the places of the objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_route::objects::{Kind, Object, ObjectId, ObjectKey, Objects};
use serde_json::Value;

use super::finding::{Finding, Rule};
use super::invalid::Invalid;
use super::kinds;
use super::schema::Schemas;
use crate::source::decode::join;
use crate::source::manifest::{ManifestEntry, ManifestItem, Unread, entries_in};
use crate::yaml::{Document, documents};

/// The remedy for an Ingress of a removed version.
const NEW_VERSION: &str = "Write apiVersion: networking.k8s.io/v1. Each path needs a pathType, and a backend has service.name and \
     service.port instead of serviceName and servicePort.";

/// The manifests. The lines of fields are determined later, only for documents with findings, because the lines of all fields
/// take many times the memory of the text.
#[derive(Debug, Default)]
pub struct Manifests {
    texts: Vec<Text>,
    objects: Vec<Object>,
    places: BTreeMap<ObjectId, ManifestPlace>,
    /// The kind, the namespace, and the name of unreadable objects, and of objects that the translation never reads, such as
    /// Secrets of other types; with the reason.
    unread: BTreeMap<(String, String, String), Option<String>>,
    /// The namespaces of the objects.
    namespaces: BTreeSet<Arc<str>>,
    findings: Vec<Finding>,
    /// The positions in `findings` of objects that cannot be decoded for a reason in `invalid`.
    explained: BTreeSet<usize>,
    invalid: Vec<Invalid>,
    /// The GatewayClasses that Lockgate serves, if the user names them.
    gateway_classes: BTreeSet<String>,
    /// The namespace of objects without one, if the user names it.
    namespace: Option<String>,
    counts: ManifestCounts,
    schemas: Schemas,
}

#[derive(Debug)]
struct Text {
    name: Arc<str>,
    content: String,
}

/// The number of checked files and objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ManifestCounts {
    /// The files.
    pub files: usize,
    /// The objects that the translation reads.
    pub objects: usize,
    /// The objects of other kinds.
    pub others: usize,
}

/// The place of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ManifestPlace {
    text: usize,
    document: usize,
    outer: String,
    line: usize,
}

impl Manifests {
    /// Creates an empty collection. `namespace` is the namespace of objects without one [default: `default`].
    pub fn in_namespace(namespace: Option<String>) -> Self {
        Self { namespace, ..Self::default() }
    }

    /// Reads the objects of the text `content`. `name` is the name of the file, as findings show it.
    pub fn add(&mut self, name: &str, content: String) {
        let name: Arc<str> = name.into();
        self.counts.files += 1;
        let text = self.texts.len();
        let namespace = self.namespace.clone();
        for entry in entries_in(&content, namespace.as_deref()) {
            self.entry(&name, text, entry);
        }
        self.texts.push(Text { name, content });
    }

    /// Adds objects of a Kubernetes cluster, which have no places in texts.
    pub fn add_objects(&mut self, objects: &Objects) {
        let text = self.texts.len();
        self.texts.push(Text { name: "".into(), content: String::new() });
        for (kind, object) in Kind::ALL.iter().flat_map(|kind| objects.of_kind(*kind).values().map(|one| (*kind, one)))
        {
            self.counts.objects += 1;
            let key = object.meta().key.clone();
            self.namespaces.insert(key.namespace.clone());
            let place = ManifestPlace { text, document: 0, outer: String::new(), line: 0 };
            self.places.insert(ObjectId { kind, key }, place);
            self.objects.push(object.clone());
        }
    }

    /// Adds a text without objects that are read here, for [`Manifests::texts`].
    pub fn add_text(&mut self, name: &str, content: String) {
        self.texts.push(Text { name: name.into(), content });
    }

    /// Records that the file `name` cannot be read.
    pub fn add_unreadable(&mut self, name: &str, message: String) {
        self.counts.files += 1;
        self.findings.push(finding(&name.into(), Rule::UnreadableFile, message, "not checked"));
    }

    fn entry(&mut self, file: &Arc<str>, text: usize, entry: ManifestEntry) {
        let ManifestEntry { document, outer, line, value, item } = entry;
        let faults = self.schemas.faults(&value);
        let place = ManifestPlace { text, document, outer: outer.clone(), line };
        self.invalid.extend(faults.into_iter().map(|fault| Invalid::new(file, place.clone(), &value, fault)));
        match item {
            ManifestItem::Object(object) => {
                self.counts.objects += 1;
                let id = object.id();
                if let Some(first) = self.places.get(&id) {
                    let first_file = self.texts.get(first.text).map_or(file, |text| &text.name);
                    let message = format!("the object is already given in {first_file}:{}", first.line);
                    let finding = finding(file, Rule::DuplicateObject, message, "the first one is checked");
                    return self.findings.push(Finding { line, ..of_object(finding, id.kind.as_str(), &id.key) });
                }
                self.namespaces.insert(id.key.namespace.clone());
                self.places.insert(id, ManifestPlace { text, document, outer, line });
                self.objects.push(object);
            }
            ManifestItem::Unread(unread) => {
                self.counts.others += 1;
                if let Some((level, message, remedy)) = kinds::unread(&unread) {
                    let Unread { kind, namespace, name, .. } = unread.clone();
                    let finding = finding(file, Rule::UnsupportedKind, message, "not read");
                    self.findings.push(Finding { line, level, kind, namespace, name, remedy, ..finding });
                }
                let namespace = if unread.namespace.is_empty() { "default".to_owned() } else { unread.namespace };
                self.unread.insert((unread.kind, namespace, unread.name), unread.lack);
            }
            ManifestItem::Unparsable(fault) => {
                let finding = finding(file, Rule::InvalidYaml, fault.message, "the document is not read");
                self.findings.push(Finding { line: fault.place.line, field: fault.field, ..finding });
            }
            ManifestItem::Rejected(..) if kinds::is_of_another_program(file, &value) => self.counts.others += 1,
            ManifestItem::Rejected(fault, object) => {
                let consequence = "the API server rejects the object";
                let finding = finding(file, Rule::InvalidObject, fault.message, consequence);
                let finding = Finding { line: fault.place.line, field: fault.field, ..finding };
                let is_old_ingress =
                    finding.field.ends_with("apiVersion") && value.get("kind") == Some(&"Ingress".into());
                let remedy = if is_old_ingress { NEW_VERSION.to_owned() } else { finding.remedy };
                let finding = Finding { remedy, ..finding };
                let in_object = finding.field.strip_prefix(&outer).unwrap_or(&finding.field).trim_start_matches('.');
                let of_object_at = |invalid: &&Invalid| invalid.place == place;
                let mut faults = self.invalid.iter().rev().take_while(of_object_at);
                if faults.any(|invalid| invalid.explains(in_object)) {
                    self.explained.insert(self.findings.len());
                }
                self.findings.push(match &object {
                    Some((kind, key)) => {
                        let name = (kind.as_str().to_owned(), key.namespace.to_string(), key.name.to_string());
                        let reason = format!("is not valid ({}: {})", finding.field, finding.message);
                        self.unread.insert(name, Some(reason));
                        of_object(finding, kind.as_str(), key)
                    }
                    None => finding,
                });
            }
        }
    }

    /// Returns the names and the contents of the files.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|text| (&*text.name, text.content.as_str()))
    }

    /// Returns the objects, in the order of the texts.
    pub fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// Returns the number of files and objects.
    pub fn counts(&self) -> ManifestCounts {
        self.counts
    }

    /// Returns the findings about texts and objects that cannot be read.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Returns the findings about texts and objects that cannot be read, without those that a fault of [`Self::invalid`] explains.
    pub fn unexplained(&self) -> impl Iterator<Item = &Finding> {
        let findings = self.findings.iter().enumerate();
        findings.filter(|(index, _)| !self.explained.contains(index)).map(|(_, finding)| finding)
    }

    /// Sets the names of the GatewayClasses that Lockgate serves. Without names, it serves the classes that are not in the manifests.
    pub fn set_gateway_classes(&mut self, names: impl IntoIterator<Item = String>) {
        self.gateway_classes = names.into_iter().collect();
    }

    /// Returns the names of the GatewayClasses that Lockgate serves, if the user names them.
    pub fn gateway_classes(&self) -> &BTreeSet<String> {
        &self.gateway_classes
    }

    /// Returns the namespace of objects without one.
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or("default")
    }

    /// Returns the faults for which the API server would reject objects.
    pub fn invalid(&self) -> &[Invalid] {
        &self.invalid
    }

    /// Returns the place of an object.
    pub fn place(&self, kind: Kind, key: &ObjectKey) -> Option<&ManifestPlace> {
        self.places.get(&ObjectId { kind, key: key.clone() })
    }

    /// Returns whether the manifests have an object that the translation never reads, or that cannot be read.
    pub fn has_unread(&self, kind: Kind, key: &ObjectKey) -> bool {
        self.unread.contains_key(&(kind.as_str().to_owned(), key.namespace.to_string(), key.name.to_string()))
    }

    /// Returns why the translation does not read an object of the manifests, as the predicate of a sentence.
    pub fn why_unread(&self, kind: Kind, key: &ObjectKey) -> Option<&str> {
        self.unread.get(&(kind.as_str().to_owned(), key.namespace.to_string(), key.name.to_string()))?.as_deref()
    }

    /// Returns whether any object of the manifests is in `namespace`.
    pub fn has_namespace(&self, namespace: &str) -> bool {
        self.namespaces.contains(namespace)
    }

    /// Sets the file and the line of each finding. Each document with findings is parsed once more.
    pub fn locate(&self, findings: &mut [(ManifestPlace, Finding)]) {
        findings.sort_by(|(one, _), (other, _)| one.cmp(other));
        for of_text in findings.chunk_by_mut(|(one, _), (other, _)| one.text == other.text) {
            let Some(text) = of_text.first().and_then(|(place, _)| self.texts.get(place.text)) else { continue };
            let mut parsed = documents(&text.content);
            for of_document in of_text.chunk_by_mut(|(one, _), (other, _)| one.document == other.document) {
                let wanted = of_document.first().map(|(place, _)| place.document);
                let document = parsed.find(|document| Some(document.index) == wanted);
                for (place, finding) in of_document {
                    finding.file = text.name.clone();
                    finding.line =
                        document.as_ref().map_or(place.line, |document| line(document, place, &finding.field));
                }
            }
        }
    }
}

/// Creates a finding about a file.
fn finding(file: &Arc<str>, rule: Rule, message: String, consequence: &str) -> Finding {
    Finding {
        file: file.clone(),
        line: 0,
        level: rule.level(),
        rule,
        kind: String::new(),
        namespace: String::new(),
        name: String::new(),
        field: String::new(),
        message,
        consequence: consequence.to_owned(),
        remedy: rule.remedy().to_owned(),
    }
}

/// Returns `finding` about an object.
fn of_object(finding: Finding, kind: &str, key: &ObjectKey) -> Finding {
    Finding { kind: kind.to_owned(), namespace: key.namespace.to_string(), name: key.name.to_string(), ..finding }
}

/// Returns the line of a field of an object.
fn line(document: &Document, place: &ManifestPlace, field: &str) -> usize {
    let field = match document.value() {
        Ok(value) => by_index(&value, &place.outer, field),
        Err(_) => field.to_owned(),
    };
    // A whole object starts at its first field.
    document.line_of(&join(&place.outer, &field)).max(place.line)
}

/// Replaces the name of a listener in `field` by its index: `spec.listeners["http"]` becomes `spec.listeners[0]`.
fn by_index(document: &Value, outer: &str, field: &str) -> String {
    let listeners = || {
        let pointer = outer.replace('[', "/").replace(']', "").replace('.', "/");
        let root = if outer.is_empty() { Some(document) } else { document.pointer(&format!("/{pointer}")) };
        root?.pointer("/spec/listeners")?.as_array()
    };
    let name = field.strip_prefix("spec.listeners[\"").and_then(|rest| rest.strip_suffix("\"]"));
    let is_named = |listener: &Value| listener.get("name").and_then(Value::as_str) == name;
    match name.and_then(|_| listeners()).and_then(|listeners| listeners.iter().position(is_named)) {
        Some(index) => format!("spec.listeners[{index}]"),
        None => field.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn listeners_are_found_by_name() {
        let gateway = json!({"spec": {"listeners": [{"name": "a"}, {"name": "b"}]}});
        assert_eq!(by_index(&gateway, "", "spec.listeners[\"b\"]"), "spec.listeners[1]");
        assert_eq!(by_index(&gateway, "", "spec.listeners[\"c\"]"), "spec.listeners[\"c\"]");
        assert_eq!(
            by_index(&json!({"items": [null, gateway]}), "items[1]", "spec.listeners[\"b\"]"),
            "spec.listeners[1]"
        );
        assert_eq!(by_index(&gateway, "", "spec.rules[0]"), "spec.rules[0]");
    }
}
