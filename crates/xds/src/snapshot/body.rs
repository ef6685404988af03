//! The encoded resources of one type, which all clients with the same resources share.

use std::sync::{Arc, OnceLock};

use bytes::{BufMut, Bytes, BytesMut};

use super::named::Lists;
use super::{ApiVersion, Resource};

/// The maximum size of a body with more than one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// A small part, so that many slow readers do not use much memory.
    Part,
    /// A message that gRPC libraries accept. By default, they end a stream after a message of more than 4 MiB.
    Message,
}

impl Limit {
    /// Returns the limit in bytes. It leaves room for the rest of a response, such as absent names.
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
    /// Whether one of the resources has a TTL.
    leased: bool,
    sotw: OnceLock<Bytes>,
    delta: OnceLock<Bytes>,
}

impl Body {
    /// Returns a body of `resources`, which are sorted by name.
    pub fn new(resources: impl Into<Arc<[Arc<Resource>]>>) -> Self {
        let resources = resources.into();
        let leased = resources.iter().any(|resource| resource.lease().ttl.is_some());
        Self { resources, leased, sotw: OnceLock::new(), delta: OnceLock::new() }
    }

    /// Divides `resources` into bodies, in order. A body exceeds `limit` only if a single resource does.
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

    /// Returns the resources.
    pub fn resources(&self) -> &Arc<[Arc<Resource>]> {
        &self.resources
    }

    /// Returns whether one of the resources has a TTL.
    pub fn is_leased(&self) -> bool {
        self.leased
    }

    /// Returns the repeated field `resources` of a response, in API version 3.
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

/// The bodies of all resources of a type, which are built for the first client that requests them.
#[derive(Debug, Default)]
pub(super) struct Bodies {
    pub whole: OnceLock<Arc<Body>>,
    pub parts: OnceLock<Arc<[Arc<Body>]>>,
    pub messages: OnceLock<Arc<[Arc<Body>]>>,
    pub lists: Lists,
}
