//! The classes of clients: each fleet has a view for each form of the resources.

use std::fmt;
use std::sync::Arc;

use lockgate_xds::snapshot::StoreMap;

/// The stores that the loop fills, and that streams read.
pub type Stores = StoreMap<Class>;

/// The name of a fleet: a group of Envoys, and other clients, with the same listeners.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FleetId(Arc<str>);

impl FleetId {
    /// Returns the fleet with this name.
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// Returns the fleet of all clients without a fleet of their own.
    pub fn shared() -> Self {
        Self::new("shared")
    }
}

/// The form of the resources. All views of a fleet have the same clusters, endpoints, and secrets, except that gRPC clients
/// receive no secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum View {
    /// For Envoys with an aggregated delta stream: routes can be many small resources.
    Envoy,
    /// For all other Envoys, and for files: each route configuration is one complete resource.
    Whole,
    /// For gRPC clients and servers without a proxy.
    Grpc,
}

impl View {
    /// All views.
    pub const ALL: [Self; 3] = [Self::Envoy, Self::Whole, Self::Grpc];
}

/// A class of clients, which share a store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class {
    /// The fleet of the clients.
    pub fleet: FleetId,
    /// The form of their resources.
    pub view: View,
}

impl Class {
    /// Returns the class of a view of the shared fleet.
    pub fn shared(view: View) -> Self {
        Self { fleet: FleetId::shared(), view }
    }
}

/// The name on the debug pages: `grpc`, or `edge/grpc` for a fleet with its own listeners.
impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.fleet != FleetId::shared() {
            write!(f, "{}/", self.fleet.0)?;
        }
        f.write_str(match self.view {
            View::Envoy => "envoy",
            View::Whole => "whole",
            View::Grpc => "grpc",
        })
    }
}
