//! The push order as a table: make before break.
//!
//! Clusters are sent first, with their endpoints and secrets. Routes follow when the client has confirmed the clusters.
//! Unused clusters are removed last. [`super::stream`] follows this table; no other code defines the order. Source: xDS
//! protocol, "Eventual consistency considerations".

use std::collections::BTreeMap;
use std::time::Duration;

use crate::snapshot::ResourceType;

/// The side of the gate that a type is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    /// Types that routes reference: sent at once, ahead of the routes.
    Behind,
    /// Types that reference clusters: sent when the client has accepted the clusters of the same snapshot.
    Before,
    /// Neither: sent at once, in no particular order.
    Apart,
}

/// The order within one flush. Endpoints directly follow their cluster, because Envoy warms a changed cluster, and delays
/// its ACK, until they arrive. Discovered filters follow the listeners that name them. Virtual hosts and scopes follow their
/// route configurations. Scopes with inline routes precede the listeners (`Stream::push_scopes_ahead`), and so do the virtual
/// hosts of a listener that is created again (`Stream::push_hosts_ahead`).
const ORDER: &[(ResourceType, Side)] = &[
    (ResourceType::CLUSTER, Side::Behind),
    (ResourceType::ENDPOINTS, Side::Behind),
    (ResourceType::LB_ENDPOINT, Side::Behind),
    (ResourceType::SECRET, Side::Behind),
    (ResourceType::LISTENER, Side::Before),
    (ResourceType::EXTENSION, Side::Before),
    (ResourceType::ROUTES, Side::Before),
    (ResourceType::SCOPED_ROUTES, Side::Before),
    (ResourceType::VIRTUAL_HOST, Side::Before),
];

/// Returns the position of `kind` in a flush, and its side.
pub(super) fn place(kind: ResourceType) -> (usize, Side) {
    let at = ORDER.iter().position(|(ordered, _)| *ordered == kind);
    at.map_or((ORDER.len(), Side::Apart), |at| (at, ORDER[at].1))
}

/// Returns the types of `types` in the order of one flush.
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

/// Returns the types whose resources reference clusters.
pub(super) fn before() -> impl Iterator<Item = ResourceType> {
    ORDER.iter().filter(|(_, side)| *side == Side::Before).map(|(kind, _)| *kind)
}

/// The timeouts, grace periods, and pacing of the push plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// The time after which an unanswered response no longer delays others. More than Envoy's own fetch timeout of 15 s,
    /// after which Envoy gives up a warming cluster and sends the ACK.
    pub gate_timeout: Duration,
    /// The time from the ACK of new routes to the removal of unused clusters. Envoy's workers adopt routes after the ACK.
    pub removal_grace: Duration,
    /// The time from the ACK of a new listener to the removal of clusters that only the old listener itself used. Old
    /// connections use them until they are drained (Envoy's `--drain-time-s`, by default the same time).
    pub drain: Duration,
    /// The size in bytes above which listeners and route configurations, or their full state, are paced. The pause
    /// between two versions is five times the time that the client needed for the previous version.
    pub large: usize,
}

impl Timing {
    /// Returns the time in which a client opens all subscriptions that do not wait for a response.
    pub(super) fn first_requests(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// Returns the time in which a returning Envoy with warming clusters subscribes to clusters again.
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
