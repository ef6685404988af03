//! The push order, as a table: make before break.
//!
//! What lies behind a route goes first (clusters, then their endpoints and secrets), the routes follow when the client
//! has confirmed it, and what no route uses any more goes last. [`super::stream`] obeys this table; nothing else decides
//! order. Source: xDS protocol, "Eventual consistency considerations".

use std::collections::BTreeMap;
use std::time::Duration;

use crate::snapshot::ResourceType;

/// On which side of the gate a type lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    /// What routes lead to: sent at once, ahead of the routes.
    Behind,
    /// What leads there: sent when the client has accepted the clusters of the same snapshot.
    Before,
    /// Neither: sent at once, in no particular order.
    Apart,
}

/// The order within one flush. Endpoints right after their cluster: Envoy keeps a changed cluster warming, and its ACK
/// back, until it gets them. Virtual hosts and scopes after the route configurations that they belong to; scopes that have
/// their routes in them go ahead of the listeners (`Stream::push_scopes_ahead`).
const ORDER: &[(ResourceType, Side)] = &[
    (ResourceType::CLUSTER, Side::Behind),
    (ResourceType::ENDPOINTS, Side::Behind),
    (ResourceType::LB_ENDPOINT, Side::Behind),
    (ResourceType::SECRET, Side::Behind),
    (ResourceType::LISTENER, Side::Before),
    (ResourceType::ROUTES, Side::Before),
    (ResourceType::SCOPED_ROUTES, Side::Before),
    (ResourceType::VIRTUAL_HOST, Side::Before),
];

/// Side of `kind`, and its place in a flush.
pub(super) fn place(kind: ResourceType) -> (usize, Side) {
    let at = ORDER.iter().position(|(ordered, _)| *ordered == kind);
    at.map_or((ORDER.len(), Side::Apart), |at| (at, ORDER[at].1))
}

/// The types of `types`, in the order of one flush.
pub(super) fn flush<T>(types: &BTreeMap<ResourceType, T>) -> impl Iterator<Item = ResourceType> + use<T> {
    let mut kinds: [Option<ResourceType>; ORDER.len()] = [None; ORDER.len()];
    let mut others = Vec::new();
    for kind in types.keys() {
        match kinds.get_mut(place(*kind).0) {
            Some(slot) => *slot = Some(*kind),
            None => others.push(*kind),
        }
    }
    kinds.into_iter().flatten().chain(others)
}

/// The types whose resources lead to clusters.
pub(super) fn before() -> impl Iterator<Item = ResourceType> {
    ORDER.iter().filter(|(_, side)| *side == Side::Before).map(|(kind, _)| *kind)
}

/// How long a gate is waited for, how long what is no longer used is kept, and what waits for a client's sake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// A response that is not answered for this long no longer holds anything up. Above Envoy's own fetch time-out of
    /// 15 s, after which a warming cluster is given up and the ACK does come.
    pub gate_timeout: Duration,
    /// What no route uses is removed this long after the ACK: Envoy's workers take new routes after it.
    pub removal_grace: Duration,
    /// What a listener itself used, and not its routes, is removed this long after the ACK of one that does not: on the
    /// connections that it had, Envoy goes on with it until they are drained (its `--drain-time-s`, by default this long).
    pub drain: Duration,
    /// A route configuration or listener of more bytes than this, or a full state of them, is sent again not before five
    /// times as long as the client has worked on the last one.
    pub large: usize,
}

impl Timing {
    /// How long after the first request of a stream all types have been asked for that a client asks for at once.
    pub(super) fn first_requests(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// How long an Envoy that came back with warming clusters is given to ask for clusters again.
    pub(super) fn warm_up(&self) -> Duration {
        3 * self.gate_timeout
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            gate_timeout: Duration::from_secs(20),
            removal_grace: Duration::from_secs(1),
            drain: Duration::from_secs(600),
            large: 32 << 10,
        }
    }
}
