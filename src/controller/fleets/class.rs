//! The classes of clients: each fleet has a view for each form of the resources.

use std::fmt;

use lockgate_xds::snapshot::StoreMap;

use crate::fleet::FleetId;

/// The stores that the loop fills, and that streams read.
pub type Stores = StoreMap<Class>;

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

/// The name on the debug pages: `grpc`, or `shop/public/grpc` for the dedicated fleet of the Gateway `shop/public`.
impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.fleet != FleetId::shared() {
            write!(f, "{}/", self.fleet)?;
        }
        f.write_str(match self.view {
            View::Envoy => "envoy",
            View::Whole => "whole",
            View::Grpc => "grpc",
        })
    }
}
