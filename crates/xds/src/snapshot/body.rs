//! Many resources of one type as they go over the wire: put together once for all clients that get the same.

use std::sync::{Arc, OnceLock};

use bytes::{BufMut, Bytes, BytesMut};

use super::named::Lists;
use super::{ApiVersion, Resource};

/// How many bytes a body holds at most, unless it has one resource alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// So that many slow readers do not hold much each.
    Part,
    /// So that a gRPC library takes the response: by default it ends a stream with a message of more than 4 MiB.
    Message,
}

impl Limit {
    /// In bytes. The rest of a response, such as the names that do not exist, has its place beside it.
    pub fn bytes(self) -> usize {
        match self {
            Self::Part => 64 << 10,
            Self::Message => 2 << 20,
        }
    }
}

/// Some resources of one type, sorted by name.
#[derive(Debug)]
pub struct Body {
    resources: Arc<[Arc<Resource>]>,
    /// Whether one of them has a time to live.
    leased: bool,
    sotw: OnceLock<Bytes>,
    delta: OnceLock<Bytes>,
}

impl Body {
    /// A body of `resources`, sorted by name.
    pub fn new(resources: impl Into<Arc<[Arc<Resource>]>>) -> Self {
        let resources = resources.into();
        let leased = resources.iter().any(|resource| resource.lease().ttl.is_some());
        Self { resources, leased, sotw: OnceLock::new(), delta: OnceLock::new() }
    }

    /// Bodies of `resources`, in their order, none larger than `limit` unless one resource is.
    pub fn split(resources: &[Arc<Resource>], limit: Limit) -> Vec<Arc<Self>> {
        let (mut bodies, mut start, mut size) = (Vec::new(), 0, 0);
        for (at, resource) in resources.iter().enumerate() {
            if at > start && size + resource.size() > limit.bytes() {
                bodies.push(Arc::new(Self::new(&resources[start..at])));
                (start, size) = (at, 0);
            }
            size += resource.size();
        }
        if start < resources.len() {
            bodies.push(Arc::new(Self::new(&resources[start..])));
        }
        bodies
    }

    /// The resources.
    pub fn resources(&self) -> &Arc<[Arc<Resource>]> {
        &self.resources
    }

    /// Whether one of them has a time to live.
    pub fn is_leased(&self) -> bool {
        self.leased
    }

    /// The repeated field `resources` of a response, in version 3 of the API.
    pub fn fields(&self, delta: bool) -> Bytes {
        let cell = if delta { &self.delta } else { &self.sotw };
        let concatenate = || {
            let field = |resource: &Arc<Resource>| match delta {
                true => resource.delta_field(ApiVersion::V3),
                false => resource.sotw_field(ApiVersion::V3),
            };
            let mut buffer = BytesMut::with_capacity(self.resources.iter().map(|resource| resource.size()).sum());
            self.resources.iter().for_each(|resource| buffer.put(field(resource)));
            buffer.freeze()
        };
        cell.get_or_init(concatenate).clone()
    }
}

/// What is made of all resources of a type when the first client asks for them.
#[derive(Debug, Default)]
pub(super) struct Bodies {
    pub whole: OnceLock<Arc<Body>>,
    pub parts: OnceLock<Arc<[Arc<Body>]>>,
    pub messages: OnceLock<Arc<[Arc<Body>]>>,
    pub lists: Lists,
}
