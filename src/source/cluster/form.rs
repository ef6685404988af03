//! The decoding of the kinds that the API server provides in protobuf.

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use k8s_openapi::api::networking::v1 as networking;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use lockgate_route::objects::{Kind, Misencoded, Object, ObjectKey};
use prost::bytes::Bytes;
use serde::de::DeserializeOwned;

use super::proto::{self, Proto};
use super::read::MAX_OBJECT;
use crate::source::decode::{Decode, meta};
use crate::source::native;

/// An object, reduced to the fields that are read.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceivedObject {
    /// The key. The name is empty if even that cannot be decoded.
    pub key: ObjectKey,
    /// `metadata.resourceVersion`.
    pub version: String,
    /// The fields that the translation reads, if any. [`Misencoded`] if a field cannot be decoded.
    pub object: Option<Object>,
}

/// The requested format of a kind. Decoding an object never fails: a fault is part of the item.
pub struct WireFormat {
    /// The `Accept` headers of a list and of a watch.
    pub accept: [&'static str; 2],
    /// Decodes an object.
    pub decode: fn(Bytes) -> ReceivedObject,
    /// Decodes the beginning of an object that is too large.
    pub too_large: fn(Bytes) -> ReceivedObject,
}

/// Complete objects.
const WHOLE: &str = "application/vnd.kubernetes.protobuf";
/// The metadata only.
const METADATA: [&str; 2] = [
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
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

impl WireFormat {
    /// Requests complete objects.
    pub fn whole<K: Wire>() -> Self {
        Self {
            accept: [WHOLE; 2],
            decode: |bytes| from_proto::<K::Proto, K>(bytes, <K as Decode>::KIND, whole),
            too_large: |bytes| too_large(&bytes, <K as Decode>::KIND),
        }
    }

    /// Requests the metadata of Namespaces.
    pub fn namespaces() -> Self {
        const KIND: Kind = Kind::NAMESPACE;
        Self {
            accept: METADATA,
            decode: |bytes| from_proto::<proto::Partial, _>(bytes, KIND, namespace),
            too_large: |bytes| too_large(&bytes, KIND),
        }
    }
}

/// The identity and the reduced form of an object.
type Read = (ObjectMeta, Option<Object>);

fn whole<K: Decode>(object: K) -> Read {
    (head(object.metadata()), object.decode())
}

fn namespace(metadata: ObjectMeta) -> Read {
    (head(&metadata), Some(native::namespace(metadata)))
}

/// Returns the identity and the version of an object.
pub fn head(metadata: &ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        uid: metadata.uid.clone(),
        resource_version: metadata.resource_version.clone(),
        generation: metadata.generation,
        ..ObjectMeta::default()
    }
}

fn from_proto<P: Proto<K>, K>(bytes: Bytes, kind: Kind, read: impl Fn(K) -> Read) -> ReceivedObject {
    match P::decode(bytes.clone()) {
        Ok(message) => {
            let mut texts = proto::TextReader::default();
            let (head, object) = read(message.read(&mut texts));
            match texts.fault() {
                None => item(&head, object),
                Some(fault) => misencoded(head, kind, fault, object),
            }
        }
        Err(error) => misencoded(proto::identity(&bytes), kind, (String::new(), error.to_string()), None),
    }
}

fn too_large(bytes: &[u8], kind: Kind) -> ReceivedObject {
    let message = format!("larger than {} MiB", MAX_OBJECT >> 20);
    misencoded(proto::identity(bytes), kind, (String::new(), message), None)
}

/// Creates the item of a faulty object with the field and the message.
pub fn misencoded(
    head: ObjectMeta,
    kind: Kind,
    (field, message): (String, String),
    readable: Option<Object>,
) -> ReceivedObject {
    let meta = meta(head.clone(), kind);
    let object = Misencoded { kind, meta, field, message, readable };
    item(&head, Some(Object::new(object)))
}

pub fn item(head: &ObjectMeta, object: Option<Object>) -> ReceivedObject {
    let (namespace, name) = (head.namespace.as_deref().unwrap_or_default(), head.name.as_deref().unwrap_or_default());
    // The object's own key is used, because its texts are shared.
    let key = object.as_ref().map_or_else(|| ObjectKey::new(namespace, name), |object| object.meta().key.clone());
    ReceivedObject { key, version: head.resource_version.clone().unwrap_or_default(), object }
}

#[cfg(test)]
mod tests;
