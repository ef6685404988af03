//! What the status of a Gateway and its Service are made of, beside the verdicts.

use std::sync::Arc;

use imbl::OrdMap;

use crate::objects::gateway::RouteKind;
use crate::objects::{ObjectKey, Transport};

/// The reports on all Gateways of our classes. A clone shares everything.
pub type Reports = OrdMap<ObjectKey, Arc<Report>>;

/// The report on a Gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The listeners, in the order of the spec.
    pub listeners: Vec<ListenerReport>,
    /// The ports of the valid listeners, sorted and without repetition: the ports that the Service of the Gateway must have.
    pub ports: Vec<(Transport, u16)>,
}

/// The report on a listener of a Gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerReport {
    /// The name.
    pub name: Arc<str>,
    /// The kinds of routes that may attach.
    pub supported_kinds: Vec<RouteKind>,
    /// The number of attached routes.
    pub attached_routes: u32,
    /// Whether the listener is valid, and an Envoy listener exists for it.
    pub serves: bool,
}
