//! Secrets in protobuf.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1 as core;
use prost::Message;
use prost::bytes::Bytes;

use super::{ObjectMeta, Proto, TextReader, lossy};
use crate::source::native::is_secret_data;

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
    fn read(self, texts: &mut TextReader) -> core::Secret {
        let read = self.data.into_iter().filter(|entry| is_secret_data(&self.kind, &entry.key, &entry.value));
        core::Secret {
            metadata: self.metadata.unwrap_or_default().read(texts),
            data: Some(read.map(|entry| (lossy(&entry.key), ByteString(entry.value.to_vec()))).collect()),
            type_: texts.some(&self.kind, format_args!("type")),
            ..Default::default()
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeMap;

    use lockgate_route::objects::{API_KEYS_TYPE, CLIENT_SECRET};

    use super::*;
    use crate::source::decode::Decode;

    #[test]
    fn all_data_that_the_decoder_reads_is_kept() {
        let opaque = ["tls.crt", "tls.key", "ca.crt", "crl.pem", "auth", ".htpasswd", CLIENT_SECRET, "other"];
        let keys = "{\"keys\": []}";
        let cases = opaque.iter().map(|key| ("Opaque", *key, "text")).chain([
            ("Opaque", "any", keys),
            ("kubernetes.io/tls", CLIENT_SECRET, "text"),
            (API_KEYS_TYPE, "ann", "text"),
        ]);
        let mut read = 0;
        for (kind, key, value) in cases {
            let whole = core::Secret {
                data: Some(BTreeMap::from([(key.to_owned(), ByteString(value.into()))])),
                type_: Some(kind.to_owned()),
                ..Default::default()
            };
            let entry = Entry { key: key.into(), value: value.into() };
            let message = Secret { metadata: None, data: vec![entry], kind: kind.into() };
            let received = Secret::decode(&*message.encode_to_vec()).unwrap().read(&mut TextReader::default());
            let expected = Decode::decode(whole);
            assert_eq!(Decode::decode(received), expected, "{kind} {key}");
            read += usize::from(expected.is_some());
        }
        assert!(read >= 9, "{read}");
    }
}
