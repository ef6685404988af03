//! Secrets in protobuf.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1 as core;
use prost::Message;
use prost::bytes::Bytes;

use super::{ObjectMeta, Proto, Texts, lossy};
use crate::source::decode::is_secret_data;

#[derive(Clone, PartialEq, Message)]
pub struct Secret {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(message, repeated, tag = "2")]
    data: Vec<Entry>,
    #[prost(bytes = "bytes", tag = "3")]
    kind: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct Entry {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

impl Proto<core::Secret> for Secret {
    fn read(self, texts: &mut Texts) -> core::Secret {
        let read = self.data.into_iter().filter(|entry| is_secret_data(&self.kind, &entry.key));
        core::Secret {
            metadata: self.metadata.unwrap_or_default().read(texts),
            data: Some(read.map(|entry| (lossy(&entry.key), ByteString(entry.value.to_vec()))).collect()),
            type_: texts.some(&self.kind, format_args!("type")),
            ..Default::default()
        }
    }
}
