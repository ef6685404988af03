//! The selection of an endpoint for a request.

use std::sync::Arc;
use std::time::Duration;

use super::{CookieName, HeaderName};

/// The selection of an endpoint for a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadBalancing {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The slow start of new endpoints. Only with round robin and least request.
    pub slow_start: Option<SlowStart>,
    /// The parts of a request that select the endpoint. Only with ring hash and Maglev.
    pub hash_on: Vec<HashPart>,
}

/// An algorithm of load balancing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// Each endpoint in turn.
    #[default]
    RoundRobin,
    /// The endpoint with fewer active requests, of two random endpoints.
    LeastRequest,
    /// A random endpoint.
    Random,
    /// The endpoint of the hash on a ring.
    RingHash,
    /// The endpoint of the hash in a Maglev table.
    Maglev,
}

impl Algorithm {
    /// Returns whether a hash of the request selects the endpoint, by a table of all endpoints.
    pub fn hashes(self) -> bool {
        matches!(self, Self::RingHash | Self::Maglev)
    }
}

/// The time in which a new endpoint receives fewer requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowStart {
    /// The time.
    pub window: Duration,
    /// The share of the requests at the beginning, in percent.
    pub min_weight_percent: u32,
    /// How fast the share increases at first, in thousandths: 1000 is a linear increase.
    pub aggression_thousandths: u32,
}

impl SlowStart {
    /// A linear increase.
    pub const LINEAR: u32 = 1000;
}

/// A part of a request that is hashed, and the effect of the parts behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashPart {
    /// The part.
    pub on: HashOn,
    /// Whether the parts behind it have no effect on a request with this part. Otherwise, the hashes are combined.
    pub is_terminal: bool,
}

impl From<HashOn> for HashPart {
    fn from(on: HashOn) -> Self {
        Self { on, is_terminal: true }
    }
}

/// A part of a request that is hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HashOn {
    /// A header.
    Header(HeaderName),
    /// A cookie. With a lifetime, Envoy sets a cookie that is missing.
    Cookie {
        /// The name.
        name: CookieName,
        /// The path of a generated cookie.
        path: Arc<str>,
        /// The lifetime of a generated cookie.
        lifetime: Option<Duration>,
    },
    /// The address of the client.
    SourceAddress,
    /// A parameter of the query.
    QueryParameter(Arc<str>),
    /// The path without the query.
    Path,
}
