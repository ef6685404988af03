//! The file form of a resource.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use prost::encoding::encode_varint;

use lockgate_xds::snapshot::{Key, Resource, ResourceType, Version};

/// The file form of a resource, with its version in the snapshot. The resource in the snapshot references others by
/// stream.
#[derive(Debug, Clone)]
pub(super) struct Item {
    /// The resource with references to files.
    pub resource: Resource,
    /// The version in the snapshot.
    pub version: Version,
}

/// Compares content.
impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        self.resource == other.resource
    }
}

/// Items by type and name.
pub(super) type Items = BTreeMap<Key, Arc<Item>>;

/// Returns the items of one type.
pub(super) fn of_type(items: &Items, kind: ResourceType) -> impl Iterator<Item = &Arc<Item>> {
    let from = (kind, Arc::from(""));
    items.range(from..).take_while(move |((other, _), _)| *other == kind).map(|(_, item)| item)
}

/// Encodes a `DiscoveryResponse` with all `items`. Its version equals the version of the snapshot if the snapshot has
/// no other items.
pub(super) fn response<'a>(kind: ResourceType, items: impl IntoIterator<Item = &'a Arc<Item>>) -> (Version, Bytes) {
    let (mut version, mut resources) = (Version::default(), BytesMut::new());
    for item in items {
        version.0 ^= item.version.marked(item.resource.name()).0;
        put_resource(&mut resources, &item.resource);
    }
    (version, framed(kind, version, &resources))
}

/// Encodes a `DiscoveryResponse` with `item` alone and the version of its resource.
pub(super) fn response_alone(item: &Item) -> (Version, Bytes) {
    let mut resources = BytesMut::new();
    put_resource(&mut resources, &item.resource);
    (item.version, framed(item.resource.kind(), item.version, &resources))
}

/// Writes an element of the field `resources`: an `Any`.
fn put_resource(buffer: &mut BytesMut, resource: &Resource) {
    let message = resource.message();
    let mut any = BytesMut::with_capacity(message.len() + 128);
    put(&mut any, 1, resource.kind().url().as_bytes());
    put(&mut any, 2, &message);
    put(buffer, 2, &any);
}

fn framed(kind: ResourceType, version: Version, resources: &[u8]) -> Bytes {
    let mut buffer = BytesMut::with_capacity(resources.len() + 128);
    put(&mut buffer, 1, version.to_string().as_bytes());
    buffer.put_slice(resources);
    put(&mut buffer, 4, kind.url().as_bytes());
    buffer.freeze()
}

fn put(buffer: &mut BytesMut, field: u8, content: &[u8]) {
    buffer.put_u8(field << 3 | 2);
    encode_varint(content.len() as u64, buffer);
    buffer.put_slice(content);
}
