//! The wire format and the decoding of each kind: protobuf if the API server supports it, otherwise JSON.

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use k8s_openapi::api::networking::v1 as networking;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use lockgate_route::objects::{Kind, Misencoded, Object, ObjectKey};
use prost::bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::proto::{self, Proto};
use super::read::MAX_OBJECT;
use crate::source::decode::{self, Decode, meta};

/// An object, reduced to the fields that are read.
#[derive(Debug, PartialEq)]
pub struct Item {
    /// The key. The name is empty if even that cannot be decoded.
    pub key: ObjectKey,
    /// `metadata.resourceVersion`.
    pub version: String,
    /// The fields that the translation reads, if any. [`Misencoded`] if a field cannot be decoded.
    pub object: Option<Object>,
}

/// The requested format of a kind. Decoding an object never fails: a fault is part of the item.
pub struct Form {
    /// The `Accept` headers of a list and of a watch.
    pub accept: [&'static str; 2],
    /// Decodes an object in protobuf.
    pub proto: fn(Bytes) -> Item,
    /// Decodes the beginning of a protobuf object that is too large.
    pub too_large: fn(Bytes) -> Item,
    /// Decodes an object in JSON.
    pub json: fn(&str) -> Item,
}

/// Complete objects.
const WHOLE: &str = "application/vnd.kubernetes.protobuf,application/json";
/// Complete objects of a CustomResourceDefinition.
const JSON: &str = "application/json";
/// The metadata only.
const METADATA: [&str; 2] = [
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
     application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
     application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
];

/// The metadata only, in JSON.
const METADATA_IN_JSON: [&str; 2] = [
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
];

/// A kind whose objects are read completely.
pub trait Wire: Decode + DeserializeOwned {
    /// The message with the fields that are read.
    type Proto: Proto<Self>;
}

impl Wire for networking::Ingress {
    type Proto = proto::Ingress;
}

impl Wire for networking::IngressClass {
    type Proto = proto::IngressClass;
}

impl Wire for core::Service {
    type Proto = proto::Service;
}

impl Wire for discovery::EndpointSlice {
    type Proto = proto::EndpointSlice;
}

impl Wire for core::ConfigMap {
    type Proto = proto::ConfigMap;
}

impl Wire for core::Secret {
    type Proto = proto::Secret;
}

impl Form {
    /// Requests complete objects.
    pub fn whole<K: Wire>() -> Self {
        Self {
            accept: [WHOLE; 2],
            proto: |bytes| from_proto::<K::Proto, K>(bytes, <K as Decode>::KIND, whole),
            too_large: |bytes| too_large(&bytes, <K as Decode>::KIND),
            json: |text| from_json::<K>(text, <K as Decode>::KIND, whole),
        }
    }

    /// Requests objects of a CustomResourceDefinition, which the API server provides in JSON only.
    pub fn custom<K: Decode + DeserializeOwned>() -> Self {
        // The API server answers 406 or JSON to requests for protobuf, so these two are never called.
        let never =
            |bytes: Bytes| misencoded(proto::identity(&bytes), K::KIND, (String::new(), "in protobuf".into()), None);
        Self { accept: [JSON; 2], proto: never, too_large: never, json: |text| from_json::<K>(text, K::KIND, whole) }
    }

    /// Requests the metadata of objects, in JSON.
    pub fn metadata<K: Decode + DeserializeOwned>() -> Self {
        Self { accept: METADATA_IN_JSON, ..Self::custom::<K>() }
    }

    /// Requests the metadata of Namespaces.
    pub fn namespaces() -> Self {
        const KIND: Kind = Kind::NAMESPACE;
        Self {
            accept: METADATA,
            proto: |bytes| from_proto::<proto::Partial, _>(bytes, KIND, namespace),
            too_large: |bytes| too_large(&bytes, KIND),
            json: |text| from_json(text, KIND, |Partial { metadata }| namespace(metadata)),
        }
    }
}

/// An object of which only the metadata is read.
#[derive(Deserialize)]
struct Partial {
    metadata: ObjectMeta,
}

/// The identity and the reduced form of an object.
type Read = (ObjectMeta, Option<Object>);

fn whole<K: Decode>(object: K) -> Read {
    (head(object.metadata()), object.decode())
}

fn namespace(metadata: ObjectMeta) -> Read {
    (head(&metadata), Some(decode::namespace(metadata)))
}

/// Returns the identity and the version of an object.
fn head(metadata: &ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        uid: metadata.uid.clone(),
        resource_version: metadata.resource_version.clone(),
        generation: metadata.generation,
        ..ObjectMeta::default()
    }
}

fn from_proto<P: Proto<K>, K>(bytes: Bytes, kind: Kind, read: impl Fn(K) -> Read) -> Item {
    match P::decode(bytes.clone()) {
        Ok(message) => {
            let mut texts = proto::Texts::default();
            let (head, object) = read(message.read(&mut texts));
            match texts.fault() {
                None => item(&head, object),
                Some(fault) => misencoded(head, kind, fault, object),
            }
        }
        Err(error) => misencoded(proto::identity(&bytes), kind, (String::new(), error.to_string()), None),
    }
}

fn too_large(bytes: &[u8], kind: Kind) -> Item {
    let message = format!("larger than {} MiB", MAX_OBJECT >> 20);
    misencoded(proto::identity(bytes), kind, (String::new(), message), None)
}

fn from_json<K: DeserializeOwned>(text: &str, kind: Kind, read: impl Fn(K) -> Read) -> Item {
    let error = match serde_path_to_error::deserialize::<_, K>(&mut serde_json::Deserializer::from_str(text)) {
        Ok(object) => {
            let (head, object) = read(object);
            return item(&head, object);
        }
        Err(error) => error,
    };
    let field = error.path().to_string();
    let field = if field == "." { String::new() } else { field };
    misencoded(json_identity(text), kind, (field, error.into_inner().to_string().replace('`', "\"")), None)
}

/// Returns the same as [`proto::identity`] for JSON.
pub fn json_identity(text: &str) -> ObjectMeta {
    #[derive(Deserialize)]
    struct Named {
        metadata: Head,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Head {
        name: Option<Value>,
        namespace: Option<Value>,
        uid: Option<Value>,
        resource_version: Option<Value>,
        generation: Option<Value>,
    }
    let Ok(Named { metadata }) = serde_json::from_str(text) else { return ObjectMeta::default() };
    let text = |value: Option<Value>| value.and_then(|value| value.as_str().map(str::to_owned));
    ObjectMeta {
        name: text(metadata.name),
        namespace: text(metadata.namespace),
        uid: text(metadata.uid),
        resource_version: text(metadata.resource_version),
        generation: metadata.generation.and_then(|generation| generation.as_i64()),
        ..ObjectMeta::default()
    }
}

/// Creates the item of a faulty object with the field and the message.
fn misencoded(head: ObjectMeta, kind: Kind, (field, message): (String, String), readable: Option<Object>) -> Item {
    let meta = meta(head.clone(), kind);
    let object = Misencoded { kind, meta, field, message, readable };
    item(&head, Some(Object::new(object)))
}

fn item(head: &ObjectMeta, object: Option<Object>) -> Item {
    let (namespace, name) = (head.namespace.as_deref().unwrap_or_default(), head.name.as_deref().unwrap_or_default());
    // The object's own key is used, because its texts are shared.
    let key = object.as_ref().map_or_else(|| ObjectKey::new(namespace, name), |object| object.meta().key.clone());
    Item { key, version: head.resource_version.clone().unwrap_or_default(), object }
}

#[cfg(test)]
mod tests;
