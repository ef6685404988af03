//! ConfigMaps in protobuf.

use k8s_openapi::api::core::v1 as core;
use prost::Message;
use prost::bytes::Bytes;

use super::{ObjectMeta, Proto, TextReader, entries};
use crate::source::native::CONFIG_MAP_DATA;

#[derive(Clone, PartialEq, Message)]
pub struct ConfigMap {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    data: Vec<Bytes>,
}

impl Proto<core::ConfigMap> for ConfigMap {
    fn read(self, texts: &mut TextReader) -> core::ConfigMap {
        core::ConfigMap {
            metadata: self.metadata.unwrap_or_default().read(texts),
            data: Some(entries(self.data, texts, "data", |key| key == CONFIG_MAP_DATA)),
            ..Default::default()
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::Entry;
    use super::*;

    fn entry(key: &str, value: &'static [u8]) -> Bytes {
        let entry = Entry { key: Bytes::copy_from_slice(key.as_bytes()), value: Bytes::from_static(value) };
        entry.encode_to_vec().into()
    }

    #[test]
    fn only_certificate_authorities_are_read() {
        let data = vec![entry("config.yaml", b"a"), entry("ca.crt", b"pem"), entry("other", &[0xff])];
        let bytes = ConfigMap { metadata: None, data }.encode_to_vec();
        let mut texts = TextReader::default();
        let read = ConfigMap::decode(&*bytes).unwrap().read(&mut texts);
        assert_eq!(read.data.unwrap().into_iter().collect::<Vec<_>>(), [("ca.crt".to_owned(), "pem".to_owned())]);
        assert_eq!(texts.fault(), None, "others are not decoded");
    }
}
