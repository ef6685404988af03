//! The push order as a table: make before break.
//!
//! Clusters are sent first, with their endpoints and secrets. Routes follow when the client has confirmed the clusters.
//! Unused clusters are removed last. [`super::stream`] follows this table; no other code defines the order. Source: xDS
//! protocol, "Eventual consistency considerations".

use std::collections::BTreeMap;
use std::time::Duration;

use crate::snapshot::ResourceType;

/// The side of the gate that a type is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// Types that routes reference: sent at once, ahead of the routes.
    Behind,
    /// Types that reference clusters: sent when the client has accepted the clusters of the same snapshot.
    Before,
    /// Neither: sent at once, in no particular order.
    Apart,
}

/// A step of a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Sends the changes of a type.
    Send(ResourceType, Side),
    /// Sends new scopes with inline routes, so that a listener does not answer the first requests for a new name with 404.
    ScopesAhead,
    /// Sends the virtual hosts of a listener that is created again.
    HostsAhead,
}

/// The steps of a flush, in order. Endpoints directly follow their cluster, because Envoy warms a changed cluster, and delays
/// its ACK, until they arrive. Discovered filters follow the listeners that name them. Virtual hosts and scopes follow their
/// route configurations.
const PLAN: &[Step] = &[
    Step::Send(ResourceType::CLUSTER, Side::Behind),
    Step::Send(ResourceType::ENDPOINTS, Side::Behind),
    Step::Send(ResourceType::LB_ENDPOINT, Side::Behind),
    Step::Send(ResourceType::SECRET, Side::Behind),
    Step::ScopesAhead,
    Step::HostsAhead,
    Step::Send(ResourceType::LISTENER, Side::Before),
    Step::Send(ResourceType::EXTENSION, Side::Before),
    Step::Send(ResourceType::ROUTES, Side::Before),
    Step::Send(ResourceType::SCOPED_ROUTES, Side::Before),
    Step::Send(ResourceType::VIRTUAL_HOST, Side::Before),
];

/// Returns the steps of one flush for a client that subscribes to `types`. Types outside of the plan follow it. The result does
/// not allocate for the types of the plan, because a change flushes every stream.
pub(super) fn flush<T>(types: &BTreeMap<ResourceType, T>) -> impl Iterator<Item = Step> + use<T> {
    let is_due = |step: &Step| match step {
        Step::Send(kind, _) => types.contains_key(kind),
        Step::ScopesAhead | Step::HostsAhead => types.contains_key(&ResourceType::LISTENER),
    };
    let due: [bool; PLAN.len()] = std::array::from_fn(|at| is_due(&PLAN[at]));
    let others = types.keys().map(|kind| (*kind, side(*kind))).filter(|(_, side)| *side == Side::Apart);
    let others: Vec<Step> = others.map(|(kind, side)| Step::Send(kind, side)).collect();
    PLAN.iter().copied().zip(due).filter(|(_, due)| *due).map(|(step, _)| step).chain(others)
}

/// Returns the side of `kind`.
pub(super) fn side(kind: ResourceType) -> Side {
    types().find(|(planned, _)| *planned == kind).map_or(Side::Apart, |(_, side)| side)
}

/// Returns the types whose resources reference clusters.
pub(super) fn before() -> impl Iterator<Item = ResourceType> {
    types().filter(|(_, side)| *side == Side::Before).map(|(kind, _)| kind)
}

/// Returns the types of the plan with their sides.
fn types() -> impl Iterator<Item = (ResourceType, Side)> {
    PLAN.iter().filter_map(|step| match step {
        Step::Send(kind, side) => Some((*kind, *side)),
        Step::ScopesAhead | Step::HostsAhead => None,
    })
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
