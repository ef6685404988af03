//! An object in JSON, reduced to the fields that are read. Deserializing it never fails because of its content.

use std::borrow::Cow;
use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::DynamicResourceScope;
use lockgate_route::objects::Kind;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::source::cluster::form::{ReceivedObject, head, item, misencoded};
use crate::source::decode::Decode;

/// An object of the kind of `K`.
pub struct Reduced<K> {
    /// The object.
    pub item: ReceivedObject,
    /// The version, which the watcher reads.
    metadata: ObjectMeta,
    kind: PhantomData<fn() -> K>,
}

impl<'de, K: Decode + DeserializeOwned> Deserialize<'de> for Reduced<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Only the structure of the value is checked here.
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let item = reduce::<K>(text.get());
        let metadata = ObjectMeta { resource_version: Some(item.version.clone()), ..ObjectMeta::default() };
        Ok(Self { item, metadata, kind: PhantomData })
    }
}

/// Decodes an object. A fault is part of the item.
pub fn reduce<K: Decode + DeserializeOwned>(text: &str) -> ReceivedObject {
    if let Ok(object) = serde_json::from_str::<K>(text) {
        return item(&head(object.metadata()), object.decode());
    }
    // The path of the field is computed for faulty objects only.
    let error = match serde_path_to_error::deserialize::<_, K>(&mut serde_json::Deserializer::from_str(text)) {
        Ok(object) => return item(&head(object.metadata()), object.decode()),
        Err(error) => error,
    };
    let field = error.path().to_string();
    let field = if field == "." { String::new() } else { field };
    misencoded(identity(text), K::KIND, (field, error.into_inner().to_string().replace('`', "\"")), None)
}

/// Returns the readable part of the identity and the version of an object that cannot be decoded otherwise.
fn identity(text: &str) -> ObjectMeta {
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

impl<K> Clone for Reduced<K> {
    fn clone(&self) -> Self {
        Self { item: self.item.clone(), metadata: self.metadata.clone(), kind: PhantomData }
    }
}

impl<K> std::fmt::Debug for Reduced<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.item.fmt(f)
    }
}

impl<K: Decode> Resource for Reduced<K> {
    type DynamicType = Kind;
    type Scope = DynamicResourceScope;

    fn kind(kind: &Kind) -> Cow<'_, str> {
        kind.info().name.into()
    }

    fn group(kind: &Kind) -> Cow<'_, str> {
        kind.info().group.into()
    }

    fn version(kind: &Kind) -> Cow<'_, str> {
        kind.info().version.into()
    }

    fn plural(kind: &Kind) -> Cow<'_, str> {
        kind.info().plural.into()
    }

    fn metadata_api() -> bool {
        K::METADATA_ONLY
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
