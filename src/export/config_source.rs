//! Replaces references to the stream (`ads`, `self`) by references to files, for an Envoy without a connection to the
//! controller.

use lockgate_xds::protobuf;
use lockgate_xds::snapshot::{Resource, ResourceType};
use prost::Message;
use prost_reflect::{DynamicMessage, ReflectMessage, Value};

use super::EnvoyDirectory;

/// The maximum nesting of messages, including `Any`.
const MAX_DEPTH: usize = 100;

const CONFIG_SOURCE: &str = "envoy.config.core.v3.ConfigSource";
/// The field with the source of all scoped routes, which cannot be a file. Scopes that name their routes are therefore
/// reported, and the listener is not.
const SOURCE_OF_SCOPES: &str =
    "envoy.extensions.filters.network.http_connection_manager.v3.ScopedRoutes.rds_config_source";
/// The message of a scope, and the field with the name of its routes.
const SCOPE: (&str, u32) = ("envoy.config.route.v3.ScopedRouteConfiguration", 2);
const ANY: &str = "google.protobuf.Any";

/// The messages that reference a resource: field of the source, location of the name, type.
const REFERENCES: &[(&str, u32, Name, ResourceType)] = &[
    ("envoy.config.cluster.v3.Cluster.EdsClusterConfig", 1, Name::FieldOrResource(2), ResourceType::ENDPOINTS),
    ("envoy.extensions.filters.network.http_connection_manager.v3.Rds", 1, Name::Field(2), ResourceType::ROUTES),
    (
        "envoy.extensions.filters.network.http_connection_manager.v3.ScopedRds",
        1,
        Name::None,
        ResourceType::SCOPED_ROUTES,
    ),
    ("envoy.extensions.transport_sockets.tls.v3.SdsSecretConfig", 2, Name::Field(1), ResourceType::SECRET),
    ("envoy.config.core.v3.ExtensionConfigSource", 1, Name::OfParent, ResourceType::EXTENSION),
];

/// The location of the referenced name.
#[derive(Debug, Clone, Copy)]
enum Name {
    /// In this field.
    Field(u32),
    /// In this field. If it is empty, the name of the referencing resource applies.
    FieldOrResource(u32),
    /// In the first field of the enclosing message.
    OfParent,
    /// Nowhere: all resources of the type are referenced.
    None,
}

/// Returns the encoded message of `resource` with files instead of streams, and the paths of the fields that still need
/// a stream. The message is `None` if it does not change.
pub(super) fn by_file(resource: &Resource, place: &EnvoyDirectory) -> (Option<Vec<u8>>, Vec<String>) {
    let mut walk = Walk { resource: resource.name(), place, unresolved: Vec::new() };
    if [ResourceType::ENDPOINTS, ResourceType::SECRET, ResourceType::RUNTIME].contains(&resource.kind()) {
        return (None, walk.unresolved);
    }
    let descriptor = protobuf::pool().get_message_by_name(resource.kind().full_name());
    let message = descriptor.and_then(|descriptor| DynamicMessage::decode(descriptor, resource.message()).ok());
    let Some(mut message) = message else { return (None, walk.unresolved) };
    let changed = walk.message(&mut message, "", "", 0);
    (changed.then(|| message.encode_to_vec()), walk.unresolved)
}

struct Walk<'a> {
    resource: &'a str,
    place: &'a EnvoyDirectory,
    unresolved: Vec<String>,
}

impl Walk<'_> {
    /// Replaces the sources in `message`, which is at `path`. `parent` is the name in the enclosing message. Returns
    /// whether the message has changed.
    fn message(&mut self, message: &mut DynamicMessage, path: &str, parent: &str, depth: usize) -> bool {
        if depth > MAX_DEPTH {
            return false;
        }
        let descriptor = message.descriptor();
        if descriptor.full_name() == ANY {
            return self.any(message, path, parent, depth);
        }
        if descriptor.full_name() == CONFIG_SOURCE {
            if uses_stream(message) {
                self.unresolved.push(path.to_owned());
            }
            return false;
        }
        if descriptor.full_name() == SCOPE.0 && text(message, SCOPE.1).is_some_and(|name| !name.is_empty()) {
            self.unresolved.push("route_configuration_name".to_owned());
        }
        let mut changed = false;
        if let Some((_, source, name, kind)) = REFERENCES.iter().find(|(user, ..)| *user == descriptor.full_name()) {
            let name = match name {
                Name::Field(field) => text(message, *field),
                Name::FieldOrResource(field) => {
                    Some(text(message, *field).filter(|name| !name.is_empty()).unwrap_or(self.resource.to_owned()))
                }
                Name::OfParent => Some(parent.to_owned()),
                Name::None => Some(String::new()),
            };
            let field = descriptor.get_field(*source);
            if let (Some(field), Some(name)) = (field, name)
                && message.has_field(&field)
                && let Value::Message(config) = message.get_field_mut(&field)
                && uses_stream(config)
            {
                changed = self.replace(config, *kind, &name);
            }
        }
        let own = text(message, 1).unwrap_or_default();
        for (field, value) in message.fields_mut().filter(|(field, _)| field.full_name() != SOURCE_OF_SCOPES) {
            let dot = if path.is_empty() { "" } else { "." };
            let path = format!("{path}{dot}{}", field.name());
            changed |= self.value(value, &path, &own, depth + 1);
        }
        changed
    }

    fn value(&mut self, value: &mut Value, path: &str, parent: &str, depth: usize) -> bool {
        let mut changed = false;
        match value {
            Value::Message(message) => changed = self.message(message, path, parent, depth),
            Value::List(items) => {
                for (i, item) in items.iter_mut().enumerate().take_while(|(_, item)| matches!(item, Value::Message(_)))
                {
                    changed |= self.value(item, &format!("{path}[{i}]"), parent, depth);
                }
            }
            Value::Map(entries) => {
                for (key, value) in entries.iter_mut().filter(|(_, value)| matches!(value, Value::Message(_))) {
                    changed |= self.value(value, &format!("{path}[{key:?}]"), parent, depth);
                }
            }
            _ => {}
        }
        changed
    }

    fn any(&mut self, any: &mut DynamicMessage, path: &str, parent: &str, depth: usize) -> bool {
        let url = text(any, 1).unwrap_or_default();
        let descriptor = protobuf::known_type_url(&url)
            .and_then(|url| protobuf::pool().get_message_by_name(url.rsplit('/').next().unwrap_or_default()));
        let content = match any.get_field_by_number(2).as_deref() {
            Some(Value::Bytes(bytes)) => bytes.clone(),
            _ => return false,
        };
        let message = descriptor.and_then(|descriptor| DynamicMessage::decode(descriptor, content).ok());
        let Some(mut message) = message else { return false };
        let changed = self.message(&mut message, path, parent, depth + 1);
        if changed {
            any.set_field_by_number(2, Value::Bytes(message.encode_to_vec().into()));
        }
        changed
    }

    /// Replaces `source` with the file of the resource `name` of type `kind`.
    fn replace(&self, source: &mut DynamicMessage, kind: ResourceType, name: &str) -> bool {
        let new = self.place.config_source(kind, name).encode_to_vec();
        match DynamicMessage::decode(source.descriptor(), new.as_slice()) {
            Ok(new) => {
                *source = new;
                true
            }
            Err(_) => false,
        }
    }
}

/// Returns whether a `ConfigSource` contains `ads` or `self`.
fn uses_stream(source: &DynamicMessage) -> bool {
    const ADS: u32 = 3;
    const SELF: u32 = 5;
    source.has_field_by_number(ADS) || source.has_field_by_number(SELF)
}

fn text(message: &DynamicMessage, field: u32) -> Option<String> {
    message.get_field_by_number(field)?.as_str().map(str::to_owned)
}
