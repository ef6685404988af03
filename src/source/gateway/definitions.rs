//! The CustomResourceDefinitions of Gateway API.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use lockgate_route::objects::gateway::{BUNDLE, CHANNEL, Definition, GROUP};
use lockgate_route::objects::{Kind, Object};
use serde::Deserialize;

use crate::source::decode::{Decode, meta};
use crate::source::names::shared;

/// A CustomResourceDefinition, of which only the metadata is read.
#[derive(Deserialize)]
pub struct Metadata {
    metadata: ObjectMeta,
}

impl Decode for Metadata {
    const KIND: Kind = Kind::CUSTOM_RESOURCE_DEFINITION;
    const METADATA_ONLY: bool = true;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn decode(self) -> Option<Object> {
        let name = self.metadata.name.as_deref().unwrap_or_default();
        if name.split_once('.').is_none_or(|(_, group)| group != GROUP) {
            return None;
        }
        let none = BTreeMap::new();
        let annotations = self.metadata.annotations.as_ref().unwrap_or(&none);
        let [bundle, channel] = [BUNDLE, CHANNEL].map(|name| annotations.get(name).map(|text| shared(text)));
        Some(Object::new(Definition { bundle, channel, meta: meta(self.metadata, Self::KIND) }))
    }
}
