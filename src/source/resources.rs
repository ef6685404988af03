//! Parses files of Envoy resources in proto3 JSON or YAML.
//!
//! A document is one resource with `@type`, a list of resources, or an object with a list of `resources`, like a
//! discovery response. A resource may be wrapped in `envoy.service.discovery.v3.Resource`, which gives it a name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::service::discovery::v3 as discovery_v3;
use envoy_types::pb::google::protobuf as google;
use lockgate_xds::protobuf::{self, EncodedMessage, JsonError};
use lockgate_xds::provenance::ObjectRef;
use lockgate_xds::snapshot::{Lease, Resource, ResourceType};
use prost::Message;
use serde_json::Value;

use crate::yaml::{Document, DocumentFault, documents};

/// The kind of the origin of resources from a file.
pub const FILE: &str = "File";

const WRAPPER: &str = "envoy.service.discovery.v3.Resource";

/// Parses `text`, the content of the file `path` (relative to the directory of resources). Returns the resources and
/// the faults. A fault affects only its own resource; the caller decides whether to use the others.
pub fn parse(path: &str, text: &str) -> (Vec<Resource>, Vec<DocumentFault>) {
    let origin = ObjectRef::new(FILE, "", path);
    let mut file = File { origin, resources: Vec::new(), faults: Vec::new(), places: BTreeMap::new() };
    for document in documents(text) {
        match document.value() {
            Ok(value) => file.document(&document, &value),
            Err(fault) => file.faults.push(fault.clone()),
        }
    }
    (file.resources, file.faults)
}

struct File {
    origin: ObjectRef,
    resources: Vec<Resource>,
    faults: Vec<DocumentFault>,
    /// Document and line of each resource, to report both places of a duplicate.
    places: BTreeMap<(ResourceType, Arc<str>), (usize, usize)>,
}

impl File {
    fn document(&mut self, document: &Document, value: &Value) {
        match (value, value.get("resources")) {
            (Value::Array(items), _) => self.items(document, "", items),
            (_, Some(Value::Array(items))) if is_response(value) => self.items(document, "resources", items),
            _ => self.item(document, "", value),
        }
    }

    fn items(&mut self, document: &Document, field: &str, items: &[Value]) {
        for (index, item) in items.iter().enumerate() {
            self.item(document, &format!("{field}[{index}]"), item);
        }
    }

    /// Parses the resource `value` at `field` of the document.
    fn item(&mut self, document: &Document, field: &str, value: &Value) {
        let resource = match self.resource(value) {
            Ok(resource) => resource,
            Err(error) => {
                let dot = if field.is_empty() || error.path.is_empty() { "" } else { "." };
                self.faults.push(document.fault(&format!("{field}{dot}{}", error.path), error.message));
                return;
            }
        };
        let key = (resource.kind(), resource.name().clone());
        if let Some((index, line)) = self.places.get(&key) {
            let (kind, name) = (resource.kind().short_name(), resource.name());
            let message = format!("{kind} {name:?} is already given in document {index}, line {line}");
            self.faults.push(document.fault(field, message));
            return;
        }
        self.places.insert(key, (document.index, document.line_of(field)));
        self.resources.push(resource);
    }

    fn resource(&self, value: &Value) -> Result<Resource, JsonError> {
        let wrapped = value.get("@type").is_none() && value.get("resource").is_some_and(Value::is_object);
        let read = match value {
            Value::Object(fields) if wrapped => {
                let mut fields = fields.clone();
                fields.insert("@type".to_owned(), format!("type.googleapis.com/{WRAPPER}").into());
                protobuf::from_json(&Value::Object(fields))?
            }
            _ if value.get("@type").is_none() && value.get("apiVersion").is_some() => {
                let message = "this is a Kubernetes object: a directory of resources holds Envoy's, with \"@type\"";
                return Err(JsonError { path: String::new(), message: message.to_owned() });
            }
            _ => protobuf::from_json(value)?,
        };
        let (read, lease) = if read.full_name() == WRAPPER { unwrap(&read)? } else { (read, Lease::default()) };
        let fault = |path: &str, message: String| JsonError { path: path.to_owned(), message };
        let kind = ResourceType::of_url(read.type_url)
            .ok_or_else(|| fault("@type", format!("unknown type {:?}", read.type_url)))?;
        let name = read.name.as_deref().ok_or_else(|| match named_by(kind) {
            Some(field) => fault(field, format!("{} needs a name", kind.short_name())),
            None => fault("", format!("{} has no name of its own: wrap it in {WRAPPER}", kind.full_name())),
        })?;
        if kind == ResourceType::VIRTUAL_HOST
            && let Some(own) = protobuf::name_of(read.type_url, &read.message).filter(|own| own != name)
        {
            // Envoy removes a virtual host by its own name. With another name, its removal would be accepted, but it
            // would stay.
            return Err(fault("name", format!("a virtual host has the name of its resource, here {own:?}")));
        }
        Ok(Resource::with_lease(kind, name, &read.message, lease, vec![self.origin.clone()]))
    }
}

/// Unwraps a resource. The name of the wrapper takes precedence over its own name. Also returns the other fields of the wrapper.
fn unwrap(wrapper: &EncodedMessage) -> Result<(EncodedMessage, Lease), JsonError> {
    let fault = |message: &str| JsonError { path: "resource".to_owned(), message: message.to_owned() };
    let wrapper = discovery_v3::Resource::decode(&*wrapper.message).map_err(|_| fault("cannot be read"))?;
    let any = wrapper.resource.ok_or_else(|| fault("a wrapper needs a resource"))?;
    let type_url = protobuf::known_type_url(&any.type_url).ok_or_else(|| fault("a wrapper needs a resource"))?;
    let variant = wrapper.resource_name.unwrap_or_default();
    let constraints = variant.dynamic_parameter_constraints.map(|constraints| constraints.encode_to_vec().into());
    let name = [wrapper.name, variant.name].into_iter().find(|name| !name.is_empty());
    let name = name.or_else(|| protobuf::name_of(type_url, &any.value));
    let duration =
        |ttl: google::Duration| Some(Duration::new(ttl.seconds.try_into().ok()?, ttl.nanos.try_into().ok()?));
    let ttl = match wrapper.ttl.map(duration) {
        Some(None) => return Err(JsonError { path: "ttl".to_owned(), message: "is negative".to_owned() }),
        ttl => ttl.flatten().filter(|ttl| !ttl.is_zero()),
    };
    let aliases = wrapper.aliases.into_iter().map(Arc::from).collect();
    Ok((EncodedMessage { type_url, message: any.value, name }, Lease { ttl, aliases, constraints }))
}

/// Returns the field that contains the name of resources of this type.
fn named_by(kind: ResourceType) -> Option<&'static str> {
    let descriptor = protobuf::pool().get_message_by_name(kind.full_name())?;
    ["name", "cluster_name"].into_iter().find(|field| descriptor.get_field_by_name(field).is_some())
}

/// Returns whether `value` is a discovery response of either variant, or an object without a type.
fn is_response(value: &Value) -> bool {
    match value.get("@type").and_then(Value::as_str) {
        None => value.get("@type").is_none(),
        Some(url) => matches!(
            url.rsplit('/').next().unwrap_or_default(),
            "envoy.service.discovery.v3.DiscoveryResponse" | "envoy.service.discovery.v3.DeltaDiscoveryResponse"
        ),
    }
}

#[cfg(test)]
mod tests;
