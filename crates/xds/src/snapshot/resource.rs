//! Envoy resources. Each is encoded and hashed once, and shared by all streams.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use prost::encoding::{encode_varint, encoded_len_varint};

use super::resource_type::{ApiVersion, Key, ResourceType, url_in};
use super::{References, canonical, split_variant, variant_name};
use crate::protobuf;
use crate::provenance::ObjectRef;

/// The version of a resource or of a set of resources: a hash of the content, which is equal in every process.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

impl Version {
    /// Parses the output of [`fmt::Display`]. Returns `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == 16).then(|| u64::from_str_radix(text, 16).ok()).flatten().map(Self)
    }

    /// Returns the version of the same content with `name` in another state.
    pub fn marked(self, name: &str) -> Self {
        Self(xxhash_rust::xxh3::xxh3_64_with_seed(name.as_bytes(), self.0))
    }
}

/// Formats the version as 16 hex digits, as on the wire.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One Envoy resource, which is immutable and shared.
///
/// One encoding serves both variants of the protocol:
/// `0x12 len { version=1, name=3, 0x12 len { Any } }` is field `resources` of a delta response, and its tail
/// `0x12 len { Any }` is field `resources` of a state-of-the-world response.
#[derive(Clone)]
pub struct Resource {
    kind: ResourceType,
    name: Arc<str>,
    version: Version,
    frame: Frame,
    /// The bytes in API version 2. They are built for the first client that requests them.
    v2: OnceLock<Box<Frame>>,
    references: References,
    /// The resources that an update of this one follows at a client.
    follows: Arc<[Key]>,
    /// `None` if it is empty, which is the usual case.
    lease: Option<Box<Lease>>,
    origins: Arc<[ObjectRef]>,
}

/// The bytes of a resource in one API version.
#[derive(Clone)]
struct Frame {
    bytes: Bytes,
    wrapper_start: u32,
    any_start: u32,
    value_start: u32,
}

/// The properties of the `Resource` wrapper other than the content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lease {
    /// The TTL, after which the client drops the resource unless it is renewed. `None` by default: Envoy 1.40 crashes when
    /// the TTL of a state-of-the-world EDS resource expires (envoy#24271).
    pub ttl: Option<Duration>,
    /// Other names with which a delta client can request the resource, sorted.
    pub aliases: Vec<Arc<str>>,
    /// The encoded `DynamicParameterConstraints` of a variant, which matches clients whose parameters meet them. The variant
    /// has the type [`ResourceType::variants`].
    pub constraints: Option<Bytes>,
}

impl Lease {
    /// Encodes the fields of the `Resource` wrapper.
    fn extras(&self) -> BytesMut {
        let mut extras = BytesMut::new();
        self.aliases.iter().for_each(|alias| put_field(&mut extras, 4, alias.as_bytes()));
        if let Some(ttl) = self.ttl {
            put_field(&mut extras, 6, &duration(ttl));
        }
        extras
    }
}

impl Frame {
    /// Encodes the resource `name` with the content `value` of the type `url`. `extras` are further fields of the wrapper.
    fn new(url: &str, name: &str, version: Version, extras: &[u8], value: &[u8]) -> Self {
        let any_len = field_len(url.len()) + field_len(value.len());
        let version_text = version.to_string();
        let (name_field, name) = name_field(name);
        let resource_len = field_len(version_text.len()) + field_len(name.len()) + extras.len() + field_len(any_len);
        let mut bytes = BytesMut::with_capacity(field_len(resource_len));
        put_len(&mut bytes, 2, resource_len);
        let wrapper_start = bytes.len() as u32;
        put_field(&mut bytes, 1, version_text.as_bytes());
        put_field(&mut bytes, name_field, &name);
        bytes.put_slice(extras);
        let any_start = bytes.len() as u32;
        put_len(&mut bytes, 2, any_len);
        put_field(&mut bytes, 1, url.as_bytes());
        put_len(&mut bytes, 2, value.len());
        let value_start = bytes.len() as u32;
        bytes.put_slice(value);
        Self { bytes: bytes.freeze(), wrapper_start, any_start, value_start }
    }
}

impl Resource {
    /// Returns the resource `name` with the content of `message`, built from the objects `origins` (which are sorted here).
    pub fn new<M: prost::Message + prost::Name>(name: &str, message: &M, origins: Vec<ObjectRef>) -> Self {
        let kind = ResourceType::of_url(&M::type_url());
        debug_assert!(kind.is_some(), "{} is not in the descriptor pool", M::type_url());
        let kind = kind.unwrap_or(ResourceType::NOTHING);
        Self::from_encoded(kind, name, &message.encode_to_vec(), origins)
    }

    /// Returns the resource `name`, made [canonical], of type `kind` with the encoded `message`, whose map entries can be in
    /// any order.
    pub fn from_encoded(kind: ResourceType, name: &str, message: &[u8], origins: Vec<ObjectRef>) -> Self {
        Self::with_lease(kind, name, message, Lease::default(), origins)
    }

    /// Returns a resource like [`Resource::from_encoded`], with a TTL, aliases, or constraints.
    pub fn with_lease(
        kind: ResourceType,
        name: &str,
        message: &[u8],
        mut lease: Lease,
        mut origins: Vec<ObjectRef>,
    ) -> Self {
        origins.sort();
        origins.dedup();
        let name = &*canonical(name);
        let variant = lease.constraints.as_ref().map(|constraints| variant_name(name, constraints));
        let (kind, name) = variant.as_ref().map_or((kind, name), |variant| (kind.variants(), &**variant));
        lease.aliases.iter_mut().for_each(|alias| {
            if let Cow::Owned(other) = canonical(alias) {
                *alias = other.into();
            }
        });
        lease.aliases.sort();
        lease.aliases.dedup();
        let value = protobuf::canonical(kind.full_name(), message);
        let extras = lease.extras();
        let mut version = Version(xxhash_rust::xxh3::xxh3_64(&value));
        if !extras.is_empty() {
            version = Version(xxhash_rust::xxh3::xxh3_64_with_seed(&extras, version.0));
        }
        let name: Arc<str> = name.into();
        let references = References::parse(kind, &name, &value);
        let frame = Frame::new(kind.url(), &name, version, &extras, &value);
        Self {
            kind,
            name,
            version,
            frame,
            v2: OnceLock::new(),
            references,
            follows: Arc::default(),
            lease: (lease != Lease::default()).then(|| Box::new(lease)),
            origins: origins.into(),
        }
    }

    /// Returns a resource whose update at a client follows these: listeners that the client has been sent, and other resources that it
    /// has accepted. Example: routes that send clients to another listener follow it and its certificate. The first version of a resource
    /// waits for nothing.
    pub fn following(self, follows: Vec<Key>) -> Self {
        Self { follows: follows.into(), ..self }
    }

    /// Returns the same resource and version with the alternative encoding `message`.
    pub fn with_encoding(&self, message: &[u8]) -> Self {
        let value = protobuf::canonical(self.kind.full_name(), message);
        let frame = Frame::new(self.kind.url(), &self.name, self.version, &self.lease().extras(), &value);
        Self { frame, v2: OnceLock::new(), ..self.clone() }
    }

    /// Returns the bytes in `api`. The bytes of version 2 are built for the first client that requests them, and then
    /// shared.
    fn frame(&self, api: ApiVersion) -> &Frame {
        if api == ApiVersion::V3 {
            return &self.frame;
        }
        self.v2.get_or_init(|| {
            let value = protobuf::in_v2(self.kind.full_name(), &self.message());
            let extras = self.lease().extras();
            Box::new(Frame::new(self.kind.url_in(api), &self.name, self.version, &extras, &value))
        })
    }

    /// Returns the resources that an update of this one follows at a client.
    pub fn follows(&self) -> &[Key] {
        &self.follows
    }

    /// Returns the type.
    pub fn kind(&self) -> ResourceType {
        self.kind
    }

    /// Returns the resource name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Returns the type and the name, which identify the resource in a snapshot.
    pub fn key(&self) -> Key {
        (self.kind, self.name.clone())
    }

    /// Returns the version of the content.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the message in its canonical encoding.
    pub fn message(&self) -> Bytes {
        self.frame.bytes.slice(self.frame.value_start as usize..)
    }

    /// Returns the maximum number of bytes of the resource in a response.
    pub fn size(&self) -> usize {
        self.frame.bytes.len()
    }

    /// Returns the field `resources` of a `DiscoveryResponse`, with its tag.
    pub fn sotw_field(&self, api: ApiVersion) -> Bytes {
        let frame = self.frame(api);
        frame.bytes.slice(frame.any_start as usize..)
    }

    /// Returns the field `resources` of a `DeltaDiscoveryResponse`, with its tag.
    pub fn delta_field(&self, api: ApiVersion) -> Bytes {
        self.frame(api).bytes.clone()
    }

    /// Returns the field `resources` of a `DiscoveryResponse` for clients that accept an `Any` of the wrapper.
    pub fn wrapped_sotw_field(&self, api: ApiVersion) -> Bytes {
        let frame = self.frame(api);
        any_of_wrapper(&frame.bytes[frame.wrapper_start as usize..], api)
    }

    /// Returns the wrapper without content, which renews the TTL, as the field `resources` of a delta or state-of-the-world
    /// response.
    pub fn heartbeat_field(&self, delta: bool, api: ApiVersion) -> Bytes {
        let mut wrapper = BytesMut::new();
        put_field(&mut wrapper, 1, self.version.to_string().as_bytes());
        let (name_field, name) = name_field(&self.name);
        put_field(&mut wrapper, name_field, &name);
        put_field(&mut wrapper, 6, &duration(self.lease().ttl.unwrap_or_default()));
        if !delta {
            return any_of_wrapper(&wrapper, api);
        }
        let mut field = BytesMut::new();
        put_field(&mut field, 2, &wrapper);
        field.freeze()
    }

    /// Returns the TTL, aliases, and constraints.
    pub fn lease(&self) -> &Lease {
        static NONE: Lease = Lease { ttl: None, aliases: Vec::new(), constraints: None };
        self.lease.as_deref().unwrap_or(&NONE)
    }

    /// Returns the names of the resources that this one references.
    pub fn references(&self) -> &References {
        &self.references
    }

    /// Returns the objects that the resource was built from, sorted.
    pub fn origins(&self) -> &[ObjectRef] {
        &self.origins
    }
}

/// Compares type, name, and content, but not origins.
impl PartialEq for Resource {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, &self.name, self.version) == (other.kind, &other.name, other.version)
    }
}

impl Eq for Resource {}

/// Never prints the content, which may be a secret.
impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {} @{}", self.kind, self.name, self.version)
    }
}

/// The type URL of the wrapper.
const WRAPPER: &str = "type.googleapis.com/envoy.service.discovery.v3.Resource";

/// Returns the field `resources` with an `Any` of an encoded `Resource` wrapper.
fn any_of_wrapper(wrapper: &[u8], api: ApiVersion) -> Bytes {
    let mut any = BytesMut::new();
    put_field(&mut any, 1, url_in(WRAPPER, api).as_bytes());
    put_field(&mut any, 2, wrapper);
    let mut field = BytesMut::new();
    put_field(&mut field, 2, &any);
    field.freeze()
}

/// Returns the tag and the content of the wrapper's name field: `name`, or `resource_name` for a variant.
fn name_field(name: &str) -> (u8, Cow<'_, [u8]>) {
    match resource_name(name) {
        None => (3, Cow::Borrowed(name.as_bytes())),
        Some(resource_name) => (8, Cow::Owned(resource_name.into())),
    }
}

/// Returns the encoded `ResourceName` of the variant `name`, or `None` for a resource without constraints.
pub fn resource_name(name: &str) -> Option<Bytes> {
    let (name, constraints) = split_variant(name)?;
    let mut message = BytesMut::new();
    put_field(&mut message, 1, name.as_bytes());
    put_field(&mut message, 2, &constraints);
    Some(message.freeze())
}

/// Encodes a `google.protobuf.Duration`.
fn duration(duration: Duration) -> Vec<u8> {
    let (seconds, nanos) = (duration.as_secs() as i64, duration.subsec_nanos() as i32);
    prost_types::Duration { seconds, nanos }.encode_to_vec()
}

/// Returns the encoded length of a length-delimited field with a one-byte tag.
fn field_len(len: usize) -> usize {
    1 + encoded_len_varint(len as u64) + len
}

fn put_len(buffer: &mut BytesMut, field: u8, len: usize) {
    buffer.put_u8(field << 3 | 2);
    encode_varint(len as u64, buffer);
}

fn put_field(buffer: &mut BytesMut, field: u8, content: &[u8]) {
    put_len(buffer, field, content.len());
    buffer.put_slice(content);
}
