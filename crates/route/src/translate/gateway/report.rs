//! The content of the status of a Gateway and of its Service, except for the verdicts.

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::OrdMap;

use super::fleet::FleetReport;
use crate::objects::gateway::RouteKind;
use crate::objects::{ObjectKey, Transport};

/// The reports on all served Gateways. A clone shares everything.
pub type Reports = OrdMap<ObjectKey, Arc<GatewayReport>>;

/// The report on a Gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GatewayReport {
    /// The listeners, in the order of the spec.
    pub listeners: Vec<ListenerReport>,
    /// The ListenerSets that name the Gateway, accepted or not.
    pub sets: BTreeMap<ObjectKey, SetReport>,
    /// The ports of the valid listeners without repetition: the ports that the Service of the Gateway must have. The
    /// ports of ListenerSets come last.
    pub ports: Vec<(Transport, u16)>,
    /// The Envoys that serve only this Gateway. `None`: the shared Envoys serve it.
    pub fleet: Option<FleetReport>,
}

impl GatewayReport {
    /// Returns the number of accepted ListenerSets.
    pub fn accepted_sets(&self) -> usize {
        self.sets.values().filter(|set| set.accepted).count()
    }

    /// Returns the ports of its own valid listeners.
    pub fn own_ports(&self) -> impl Iterator<Item = (Transport, u16)> {
        self.listeners.iter().filter_map(|listener| listener.port)
    }
}

/// The report on a ListenerSet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetReport {
    /// Whether it is accepted.
    pub accepted: bool,
    /// The listeners, in the order of the spec.
    pub listeners: Vec<ListenerReport>,
}

/// The report on a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerReport {
    /// The name.
    pub name: Arc<str>,
    /// The kinds of routes that may attach.
    pub supported_kinds: Vec<RouteKind>,
    /// The number of attached routes.
    pub attached_routes: u32,
    /// The port that the Service of the Gateway must have for it. `None`: the listener is not valid.
    pub port: Option<(Transport, u16)>,
    /// Whether the listener is valid, and an Envoy listener exists for it.
    pub serves: bool,
}
