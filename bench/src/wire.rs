//! Requests to bytes, and of responses only what is measured: names, markers, versions, nonces. Field numbers are those
//! of `envoy.service.discovery.v3`.

use anyhow::{Context, ensure};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use memchr::memmem;

use crate::resources::{MARKER_DIGITS, MARKER_PREFIX, NAME_PREFIX};

/// Which variant of the protocol a stream speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// State of the world.
    Sotw,
    /// Incremental.
    Delta,
}

impl Variant {
    /// The method of the aggregated service.
    pub fn method(self) -> &'static str {
        match self {
            Variant::Sotw => "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources",
            Variant::Delta => "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources",
        }
    }

    /// For settings in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Variant::Sotw => "SotW",
            Variant::Delta => "Delta",
        }
    }
}

/// A request but for what differs from stream to stream.
#[derive(Debug, Clone, Default)]
pub struct Request<'a> {
    /// `node.id`, in the first request.
    pub node: Option<&'a str>,
    /// `node.cluster`, in the first request.
    pub cluster: &'a str,
    /// The type.
    pub type_url: &'a str,
    /// The response that it answers.
    pub nonce: &'a str,
    /// State of the world: the version that the client has.
    pub version: &'a str,
    /// Whether the response is rejected.
    pub nack: bool,
}

impl Request<'_> {
    /// The request's fields; names, from [`names`], and versions, from [`initial_versions`], are added as they are.
    pub fn encode(&self, variant: Variant) -> Bytes {
        let (node, type_url, nonce, error) = match variant {
            Variant::Sotw => (2, 4, 5, 6),
            Variant::Delta => (1, 2, 6, 7),
        };
        let mut buffer = BytesMut::with_capacity(160);
        if variant == Variant::Sotw {
            put(&mut buffer, 1, self.version.as_bytes());
        }
        if let Some(id) = self.node {
            let mut inner = BytesMut::new();
            put(&mut inner, 1, id.as_bytes());
            put(&mut inner, 2, self.cluster.as_bytes());
            put(&mut inner, 6, b"envoy"); // user_agent_name
            put(&mut buffer, node, &inner);
        }
        put(&mut buffer, type_url, self.type_url.as_bytes());
        put(&mut buffer, nonce, self.nonce.as_bytes());
        if self.nack {
            // google.rpc.Status { code: INVALID_ARGUMENT, message }.
            let mut inner = BytesMut::from(&[1 << 3, 3][..]);
            put(&mut inner, 2, b"rejected by the benchmark");
            put(&mut buffer, error, &inner);
        }
        buffer.freeze()
    }
}

/// `resource_names` or `resource_names_subscribe`: both are field 3.
pub fn names<'a>(names: impl Iterator<Item = &'a str>) -> Bytes {
    let mut buffer = BytesMut::new();
    names.for_each(|name| put(&mut buffer, 3, name.as_bytes()));
    buffer.freeze()
}

/// `resource_names_unsubscribe`.
pub fn gone<'a>(names: impl Iterator<Item = &'a str>) -> Bytes {
    let mut buffer = BytesMut::new();
    names.for_each(|name| put(&mut buffer, 4, name.as_bytes()));
    buffer.freeze()
}

/// `initial_resource_versions`.
pub fn initial_versions<'a>(versions: impl Iterator<Item = (&'a str, &'a str)>) -> Bytes {
    let mut buffer = BytesMut::new();
    for (name, version) in versions {
        let mut entry = BytesMut::with_capacity(name.len() + version.len() + 6);
        put(&mut entry, 1, name.as_bytes());
        put(&mut entry, 2, version.as_bytes());
        put(&mut buffer, 5, &entry);
    }
    buffer.freeze()
}

fn put(buffer: &mut BytesMut, field: u8, content: &[u8]) {
    if content.is_empty() {
        return;
    }
    buffer.reserve(content.len() + 12);
    buffer.put_u8(field << 3 | 2);
    prost::encoding::encode_varint(content.len() as u64, buffer);
    buffer.put_slice(content);
}

/// Reads responses as their bytes come, so that a message of many megabytes is never held.
pub struct Responses {
    variant: Variant,
    inbox: BytesMut,
    /// What is left of the message that is being read; `None` between messages.
    left: Option<usize>,
    nonce: String,
    version: String,
    type_url: String,
    size: usize,
    /// How many bytes the inbox must have before it is looked at again: a field of many megabytes is not copied for each
    /// piece of it that comes.
    needed: usize,
}

/// What a response has.
pub enum Part<'a> {
    /// A resource, as its field's content.
    Resource(&'a [u8]),
    /// A name that is gone.
    Removed(&'a [u8]),
    /// The end of a response: its nonce, version and size.
    End {
        /// The nonce.
        nonce: &'a str,
        /// `version_info` or `system_version_info`.
        version: &'a str,
        /// The type.
        type_url: &'a str,
        /// Its encoded size.
        size: usize,
    },
}

impl Responses {
    /// Of a new stream.
    pub fn new(variant: Variant) -> Self {
        Self {
            variant,
            inbox: BytesMut::new(),
            left: None,
            nonce: String::new(),
            version: String::new(),
            type_url: String::new(),
            size: 0,
            needed: 0,
        }
    }

    /// Takes a piece of the stream and shows what has become whole by it.
    ///
    /// # Errors
    /// It is no response.
    pub fn feed(&mut self, piece: Bytes, mut show: impl FnMut(Part<'_>)) -> anyhow::Result<()> {
        // A piece that comes between messages is read in place, and only what is left of it kept.
        let mut bytes = match self.inbox.is_empty() {
            true => piece,
            false => {
                self.inbox.put_slice(&piece);
                if self.inbox.len() < self.needed {
                    return Ok(());
                }
                self.inbox.split().freeze()
            }
        };
        self.needed = 0;
        loop {
            let Some(left) = self.left else {
                if bytes.len() < 5 {
                    break;
                }
                ensure!(bytes.get_u8() == 0, "a compressed message");
                self.size = bytes.get_u32() as usize;
                self.left = Some(self.size);
                continue;
            };
            if left == 0 {
                let Self { nonce, version, type_url, size, .. } = &*self;
                show(Part::End { nonce, version, type_url, size: *size });
                self.left = None;
                continue;
            }
            let (field, content, whole) = match next_field(&bytes)? {
                Field::Whole(field, content, whole) => (field, content, whole),
                Field::Needs(needed) => {
                    self.needed = needed;
                    break;
                }
            };
            match (field, self.variant) {
                (1, _) => self.version = String::from_utf8_lossy(content).into_owned(),
                (2, _) => show(Part::Resource(content)),
                (5, _) => self.nonce = String::from_utf8_lossy(content).into_owned(),
                (4, _) => self.type_url = String::from_utf8_lossy(content).into_owned(),
                (6, Variant::Delta) => show(Part::Removed(content)),
                _ => {}
            }
            bytes.advance(whole);
            self.left = Some(left.checked_sub(whole).context("a field past the end of its message")?);
        }
        if !bytes.is_empty() {
            self.inbox.put_slice(&bytes);
        }
        Ok(())
    }
}

/// The first field of a message.
pub(crate) enum Field<'a> {
    /// Number, content (empty but for texts and messages) and whole length.
    Whole(u8, &'a [u8], usize),
    /// It is not there in whole: so many bytes are needed at least.
    Needs(usize),
}

/// The first field. Numbers below 16 alone occur.
pub(crate) fn next_field(bytes: &[u8]) -> anyhow::Result<Field<'_>> {
    let Some((&tag, rest)) = bytes.split_first() else { return Ok(Field::Needs(2)) };
    let mut rest = rest;
    let Ok(value) = prost::encoding::decode_varint(&mut rest) else {
        ensure!(bytes.len() < 11, "a length that is none");
        return Ok(Field::Needs(bytes.len() + 1));
    };
    let start = bytes.len() - rest.len();
    match tag & 7 {
        0 => Ok(Field::Whole(tag >> 3, &[], start)),
        2 => {
            let end = start.saturating_add(usize::try_from(value)?);
            Ok(bytes.get(start..end).map_or(Field::Needs(end), |content| Field::Whole(tag >> 3, content, end)))
        }
        kind => anyhow::bail!("a field of wire type {kind}"),
    }
}

/// What is read of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sighting {
    /// Its number.
    pub index: usize,
    /// Its marker.
    pub marker: u64,
}

/// Finds name and marker of a resource, of either type and in either variant.
pub fn sight(resource: &[u8]) -> Option<Sighting> {
    let after = |prefix: &str, length: usize| {
        let start = memmem::find(resource, prefix.as_bytes())? + prefix.len();
        std::str::from_utf8(resource.get(start..start + length)?).ok()
    };
    let index = after(NAME_PREFIX, crate::resources::NAME_DIGITS)?.parse().ok()?;
    let marker = u64::from_str_radix(after(MARKER_PREFIX, MARKER_DIGITS)?, 16).ok()?;
    Some(Sighting { index, marker })
}

/// Name and version in the wrapper of a delta resource.
pub fn name_and_version(mut resource: &[u8]) -> Option<(String, String)> {
    let (mut name, mut version) = (None, None);
    while let Ok(Field::Whole(field, content, whole)) = next_field(resource) {
        match field {
            1 => version = Some(String::from_utf8_lossy(content).into_owned()),
            3 => name = Some(String::from_utf8_lossy(content).into_owned()),
            _ => {}
        }
        resource = &resource[whole..];
    }
    Some((name?, version?))
}
