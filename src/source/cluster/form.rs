//! How objects of a kind come over the wire, and how one is decoded: protobuf if the API server has it, else JSON.

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use k8s_openapi::api::networking::v1 as networking;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use prost::Message;
use prost::bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::proto;
use super::read::{ListMeta, Malformed};
use crate::source::decode::{Decode, meta};
use crate::source::objects::{Kind, Object, ObjectKey};

/// An object, cut down.
#[derive(Debug, PartialEq)]
pub struct Item {
    /// Its key.
    pub key: ObjectKey,
    /// `metadata.resourceVersion`.
    pub version: String,
    /// What of it is read, if anything.
    pub object: Option<Object>,
}

/// A list, all of it.
pub type Items = (ListMeta, Vec<Item>);

/// The form in which a kind is asked for.
pub struct Form {
    /// `Accept` of a list and of a watch.
    pub accept: [&'static str; 2],
    /// Decodes an object in protobuf.
    pub proto: fn(Bytes) -> Result<Item, Malformed>,
    /// Decodes an object in JSON.
    pub json: fn(&[u8]) -> serde_json::Result<Item>,
    /// Decodes a list in JSON.
    pub json_list: fn(&[u8]) -> serde_json::Result<Items>,
}

/// Whole objects.
const WHOLE: &str = "application/vnd.kubernetes.protobuf,application/json";
/// Their metadata only.
const METADATA: [&str; 2] = [
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
     application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
     application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
];

/// The kinds that are read as whole objects.
pub trait Wire: Decode + DeserializeOwned + k8s_openapi::Metadata<Ty = ObjectMeta> {
    /// The message that has of it what is read.
    type Proto: Message + Default + Into<Self>;
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

impl Wire for core::Secret {
    type Proto = proto::Secret;
}

impl Form {
    /// Whole objects.
    pub fn whole<K: Wire>() -> Self {
        Self {
            accept: [WHOLE; 2],
            proto: |bytes| Ok(whole::<K>(K::Proto::decode(bytes)?.into())),
            json: |bytes| serde_json::from_slice(bytes).map(whole::<K>),
            json_list: |bytes| list(bytes, whole::<K>),
        }
    }

    /// The metadata of ConfigMaps.
    pub fn config_maps() -> Self {
        Self {
            accept: METADATA,
            proto: |bytes| Ok(partial(proto::Partial::decode(bytes)?.into(), Kind::ConfigMap)),
            json: |bytes| serde_json::from_slice(bytes).map(|object| partial(object, Kind::ConfigMap)),
            json_list: |bytes| list(bytes, |object| partial(object, Kind::ConfigMap)),
        }
    }

    /// The metadata of Namespaces.
    pub fn namespaces() -> Self {
        Self {
            accept: METADATA,
            proto: |bytes| Ok(partial(proto::Partial::decode(bytes)?.into(), Kind::Namespace)),
            json: |bytes| serde_json::from_slice(bytes).map(|object| partial(object, Kind::Namespace)),
            json_list: |bytes| list(bytes, |object| partial(object, Kind::Namespace)),
        }
    }
}

/// An object of which only the metadata is read.
#[derive(Deserialize)]
struct Partial {
    metadata: ObjectMeta,
}

impl From<proto::Partial> for Partial {
    fn from(from: proto::Partial) -> Self {
        Self { metadata: from.metadata.unwrap_or_default().into() }
    }
}

fn whole<K: Wire>(object: K) -> Item {
    let (key, version) = identity(object.metadata());
    item(key, version, object.decode())
}

fn partial(object: Partial, kind: Kind) -> Item {
    let (key, version) = identity(&object.metadata);
    let meta = std::sync::Arc::new(meta(object.metadata, kind));
    let object = if kind == Kind::Namespace { Object::Namespace(meta) } else { Object::ConfigMap(meta) };
    item(key, version, Some(object))
}

fn identity(meta: &ObjectMeta) -> (ObjectKey, String) {
    let key = ObjectKey::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default());
    (key, meta.resource_version.clone().unwrap_or_default())
}

fn item(key: ObjectKey, version: String, object: Option<Object>) -> Item {
    // The object's own key: its texts are shared.
    let key = object.as_ref().map_or(key, |object| object.meta().key.clone());
    Item { key, version, object }
}

fn list<K: DeserializeOwned>(bytes: &[u8], item: impl Fn(K) -> Item) -> serde_json::Result<Items> {
    #[derive(Deserialize)]
    #[serde(bound = "K: DeserializeOwned")]
    struct List<K> {
        #[serde(default)]
        metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta,
        items: Option<Vec<K>>,
    }
    let List { metadata, items } = serde_json::from_slice::<List<K>>(bytes)?;
    let meta = ListMeta {
        version: metadata.resource_version.unwrap_or_default(),
        rest: metadata.continue_.unwrap_or_default(),
    };
    Ok((meta, items.unwrap_or_default().into_iter().map(item).collect()))
}

#[cfg(test)]
mod tests;
