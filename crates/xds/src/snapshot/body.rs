//! The encoded resources of one type, which all clients with the same resources share.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use bytes::{BufMut, Bytes};

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
///
/// The encoded fields are a copy of the resources. Clients that receive them at the same time share it, and the last of them frees it:
/// otherwise the resources would be in memory twice until one of them changes.
#[derive(Debug)]
pub struct Body {
    resources: Arc<[Arc<Resource>]>,
    /// Whether one of the resources has a TTL.
    leased: bool,
    sotw: Mutex<Weak<Fields>>,
    delta: Mutex<Weak<Fields>>,
}

/// The repeated field `resources` of a response.
#[derive(Debug)]
struct Fields(Vec<u8>);

/// A client that receives the fields.
struct Reader(Arc<Fields>);

impl AsRef<[u8]> for Reader {
    fn as_ref(&self) -> &[u8] {
        &self.0.0
    }
}

impl Body {
    /// Returns a body of `resources`, which are sorted by name.
    pub fn new(resources: impl Into<Arc<[Arc<Resource>]>>) -> Self {
        let resources = resources.into();
        let leased = resources.iter().any(|resource| resource.lease().ttl.is_some());
        Self { resources, leased, sotw: Mutex::default(), delta: Mutex::default() }
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
        let field = |resource: &Resource| match delta {
            true => resource.delta_field(ApiVersion::V3),
            false => resource.sotw_field(ApiVersion::V3),
        };
        if let [only] = &*self.resources {
            return field(only);
        }
        let shared = if delta { &self.delta } else { &self.sotw };
        let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let fields = shared.upgrade().unwrap_or_else(|| {
            let mut fields = Vec::with_capacity(self.resources.iter().map(|resource| resource.size()).sum());
            self.resources.iter().for_each(|resource| fields.put(field(resource)));
            Arc::new(Fields(fields))
        });
        *shared = Arc::downgrade(&fields);
        Bytes::from_owner(Reader(fields))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::ResourceType;

    #[test]
    fn clients_share_the_fields_and_the_last_one_frees_them() {
        let names = ["a", "b"];
        let resource = |name| Arc::new(Resource::from_encoded(ResourceType::ENDPOINTS, name, &[], Vec::new()));
        let body = Body::new(names.map(resource));
        let (first, second) = (body.fields(true), body.fields(true));
        assert_eq!(first.as_ptr(), second.as_ptr(), "one copy");
        assert_ne!(first, body.fields(false));
        drop(first);
        assert_eq!(body.fields(true).as_ptr(), second.as_ptr(), "one copy while a client receives it");
        drop(second);
        assert!(body.delta.lock().is_ok_and(|shared| shared.upgrade().is_none()), "nothing is kept");
        let fields = body.resources().iter().map(|one| one.delta_field(ApiVersion::V3)).collect::<Vec<_>>().concat();
        assert_eq!(body.fields(true), fields, "again");
    }
}
