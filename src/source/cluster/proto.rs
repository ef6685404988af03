//! The protobuf messages of the Kubernetes API, with the fields that the controller reads. Other fields are skipped.
//!
//! Field numbers come from `generated.proto` of `k8s.io/api` and `k8s.io/apimachinery`. Each message is converted to
//! the type that JSON is parsed into, so that both formats share the same decoding. Go writes non-pointer fields even
//! if they are empty, which JSON omits.
//!
//! Text is declared as bytes, because the API server accepts and stores text that is not UTF-8. A `string` field would
//! make the whole object undecodable. [`TextReader`] converts it like the API server's JSON encoder, and reports the field.

mod config_map;
mod discovery;
mod ingress;
mod secret;
mod service;

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use k8s_openapi::jiff::Timestamp;
use prost::Message;
use prost::bytes::Bytes;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use crate::source::decode::is_used;

pub use config_map::ConfigMap;
pub use discovery::EndpointSlice;
pub use ingress::{Ingress, IngressClass};
pub use secret::Secret;
pub use service::Service;

/// A message of the API that is converted to a `K`.
pub trait Proto<K>: Message + Default {
    /// Converts the message. Text that is not UTF-8 is reported to `texts`.
    fn read(self, texts: &mut TextReader) -> K;
}

/// Converts the text fields of one object, and records those that are not UTF-8.
#[derive(Debug, Default)]
pub struct TextReader {
    first: Option<String>,
    others: usize,
}

impl TextReader {
    /// Returns the text of `field`. Each invalid byte becomes U+FFFD, as in the JSON of the API server.
    fn text(&mut self, bytes: &[u8], field: fmt::Arguments<'_>) -> String {
        if let Ok(text) = std::str::from_utf8(bytes) {
            return text.to_owned();
        }
        self.report(field);
        lossy(bytes)
    }

    /// Returns the text of `field`, or `None` if it is empty, which JSON omits.
    fn some(&mut self, bytes: &[u8], field: fmt::Arguments<'_>) -> Option<String> {
        Some(self.text(bytes, field)).filter(|text| !text.is_empty())
    }

    fn report(&mut self, field: fmt::Arguments<'_>) {
        match self.first {
            None => self.first = Some(field.to_string()),
            Some(_) => self.others += 1,
        }
    }

    /// Returns the first field that is not UTF-8, with its message.
    pub fn fault(self) -> Option<(String, String)> {
        let more = match self.others {
            0 => String::new(),
            1 => ", nor is 1 other field".to_owned(),
            others => format!(", nor are {others} other fields"),
        };
        Some((self.first?, format!("not valid UTF-8{more}")))
    }
}

/// Converts `bytes` to text, with U+FFFD for each byte that is not UTF-8. [`String::from_utf8_lossy`] writes one U+FFFD
/// for several bytes, unlike Go's JSON encoder.
pub fn lossy(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

/// Converts a list. Returns `None` for an empty one, as in JSON.
fn list<A, B>(from: Vec<A>, mut f: impl FnMut(usize, A) -> B) -> Option<Vec<B>> {
    let list = from.into_iter().enumerate().map(|(i, item)| f(i, item));
    Some(list.collect()).filter(|list: &Vec<B>| !list.is_empty())
}

/// An entry of a map of texts.
#[derive(Clone, PartialEq, Message)]
struct Entry {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

/// Returns the entries of the map `field` whose key passes `filter`. An entry starts with its key, so the others are
/// not decoded.
fn entries(
    entries: Vec<Bytes>,
    texts: &mut TextReader,
    field: &str,
    filter: impl Fn(&str) -> bool,
) -> BTreeMap<String, String> {
    let mut read = BTreeMap::new();
    for bytes in entries {
        if key(&bytes).is_some_and(|key| !filter(key)) {
            continue;
        }
        match Entry::decode(bytes) {
            Ok(Entry { key, value }) => {
                let key = lossy(&key);
                if filter(&key) {
                    let value = texts.text(&value, format_args!("{field}[\"{key}\"]"));
                    read.insert(key, value);
                }
            }
            Err(_) => texts.report(format_args!("{field}")),
        }
    }
    read
}

/// Returns the key of an encoded entry if it is short UTF-8 and comes first.
fn key(entry: &[u8]) -> Option<&str> {
    match entry {
        [0x0a, length, rest @ ..] if *length < 0x80 => std::str::from_utf8(rest.get(..usize::from(*length))?).ok(),
        _ => None,
    }
}

#[derive(Clone, PartialEq, Message)]
struct Time {
    #[prost(int64, tag = "1")]
    seconds: i64,
}

/// `ObjectMeta`. Maps and managed fields stay encoded, because most of them are never decoded.
#[derive(Clone, PartialEq, Message)]
pub struct ObjectMeta {
    #[prost(bytes = "bytes", tag = "1")]
    name: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    namespace: Bytes,
    #[prost(bytes = "bytes", tag = "5")]
    uid: Bytes,
    #[prost(bytes = "bytes", tag = "6")]
    version: Bytes,
    #[prost(int64, tag = "7")]
    generation: i64,
    #[prost(message, optional, tag = "8")]
    created: Option<Time>,
    #[prost(message, optional, tag = "9")]
    deleted: Option<Time>,
    #[prost(bytes = "bytes", repeated, tag = "11")]
    labels: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "12")]
    annotations: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "17")]
    managed_fields: Vec<Bytes>,
}

impl Proto<meta::ObjectMeta> for ObjectMeta {
    fn read(self, texts: &mut TextReader) -> meta::ObjectMeta {
        let created = self.created.filter(|time| time.seconds != 0);
        meta::ObjectMeta {
            name: texts.some(&self.name, format_args!("metadata.name")),
            namespace: texts.some(&self.namespace, format_args!("metadata.namespace")),
            uid: texts.some(&self.uid, format_args!("metadata.uid")),
            resource_version: texts.some(&self.version, format_args!("metadata.resourceVersion")),
            generation: Some(self.generation).filter(|generation| *generation != 0),
            // Only its presence is read, so a value out of range counts too.
            deletion_timestamp: self
                .deleted
                .map(|time| meta::Time(Timestamp::from_second(time.seconds).unwrap_or(Timestamp::UNIX_EPOCH))),
            creation_timestamp: created.and_then(|time| Timestamp::from_second(time.seconds).ok()).map(meta::Time),
            annotations: Some(entries(self.annotations, texts, "metadata.annotations", is_used)),
            ..Default::default()
        }
    }
}

impl ObjectMeta {
    /// Converts the message with the labels whose name passes `filter`.
    fn read_with_labels(mut self, texts: &mut TextReader, filter: impl Fn(&str) -> bool) -> meta::ObjectMeta {
        let labels = entries(std::mem::take(&mut self.labels), texts, "metadata.labels", filter);
        meta::ObjectMeta { labels: Some(labels), ..self.read(texts) }
    }
}

/// An object of any kind, of which only the metadata is read.
#[derive(Clone, PartialEq, Message)]
pub struct Partial {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
}

impl Proto<meta::ObjectMeta> for Partial {
    fn read(self, texts: &mut TextReader) -> meta::ObjectMeta {
        self.metadata.unwrap_or_default().read_with_labels(texts, |_| true)
    }
}

/// Returns the name, namespace, uid, version, and generation of an object that cannot be decoded otherwise.
///
/// prost keeps the fields that it has read before a fault. Go writes the metadata first, and these fields at its start,
/// so nearly all of them are available.
pub fn identity(object: &[u8]) -> meta::ObjectMeta {
    let mut metadata = ObjectMeta::default();
    // The fields before the fault are sufficient.
    let _ = metadata.merge(metadata_of(object));
    let ObjectMeta { name, namespace, uid, version, generation, .. } = metadata;
    ObjectMeta { name, namespace, uid, version, generation, ..ObjectMeta::default() }.read(&mut TextReader::default())
}

/// Returns the encoded metadata of an object, or its available part.
fn metadata_of(mut object: &[u8]) -> &[u8] {
    while let Ok((tag, wire_type)) = decode_key(&mut object) {
        if tag == 1 && wire_type == WireType::LengthDelimited {
            let length = decode_varint(&mut object).ok().and_then(|length| usize::try_from(length).ok());
            return object.get(..length.unwrap_or(0)).unwrap_or(object);
        }
        if skip_field(wire_type, tag, &mut object, DecodeContext::default()).is_err() {
            break;
        }
    }
    &[]
}
