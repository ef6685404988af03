//! Protobuf without generated types: the descriptors of all Envoy messages, proto3 JSON, and the canonical encoding.
//! It depends on no other module.

mod canonical;
mod json;
mod strings;
mod text;
mod types;
mod versions;
mod wire;

use std::sync::LazyLock;

use prost_reflect::DescriptorPool;

pub use canonical::canonical;
pub use json::{EncodedMessage, JsonError, from_json, name_of, to_json, to_json_redacted};
pub use strings::StringFields;
pub use text::{from_text, to_text};
pub use versions::{in_v2, is_v2_url, v2_url};

/// The prefix of type URLs in the pool's spelling.
const TYPE_URL_PREFIX: &str = "type.googleapis.com/";

/// The descriptors of all messages that the protos of this build define, with their extension options.
///
/// Decoding takes 110 million instructions, and the pool 11 MB. Processes that only serve use the table of types instead.
pub fn pool() -> &'static DescriptorPool {
    static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
        let descriptors: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
        let pool = DescriptorPool::decode(descriptors);
        debug_assert!(pool.is_ok(), "the build script wrote an unreadable descriptor pool: {pool:?}");
        pool.unwrap_or_default()
    });
    &POOL
}

/// Returns the URL in the pool's spelling if it names a message of the pool, also by its name in version 2 of the API.
/// The part before the last `/` is ignored.
pub fn known_type_url(url: &str) -> Option<&'static str> {
    url_at(index_of_url(url)?)
}

/// Returns the index of the message that a type URL names. It is the same in every process of one build.
pub fn index_of_url(url: &str) -> Option<usize> {
    types::types().index_of_url(url.as_bytes()).map(|index| index as usize)
}

/// Returns the URL of the message at an index.
pub fn url_at(index: usize) -> Option<&'static str> {
    types::types().url_at(index)
}

/// Returns whether `message`, an encoded `envoy.config.cluster.v3.Cluster`, gets its endpoints by EDS.
pub fn is_eds_cluster(message: &[u8]) -> bool {
    /// Field `type` of `Cluster`, and its value `EDS`.
    const TYPE: u32 = 2;
    const EDS: u64 = 3;
    /// Field `cluster_type`, the other one of the same oneof.
    const CUSTOM: u32 = 38;
    let mut eds = false;
    for field in wire::Fields::new(message) {
        match field {
            Ok(wire::Field { number: TYPE, value: wire::Value::Varint(value), .. }) => eds = value == EDS,
            Ok(wire::Field { number: CUSTOM, .. }) => eds = false,
            Ok(_) => {}
            Err(wire::Malformed) => return false,
        }
    }
    eds
}

#[cfg(test)]
mod tests;
