//! TCPRoutes, UDPRoutes, and TLSRoutes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::reference::{BackendRef, ParentRef};
use super::status::RouteStatus;
use crate::objects::meta::Meta;

/// A TCPRoute.
#[derive(Debug, Clone, PartialEq)]
pub struct TcpRoute {
    /// The metadata.
    pub meta: Meta,
    /// The spec.
    pub spec: TcpRouteSpec,
    /// The status. The translation does not read it.
    pub status: RouteStatus,
    /// `metadata.resourceVersion`.
    pub version: Arc<str>,
}

/// The spec of a TCPRoute.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TcpRouteSpec {
    /// The parents.
    pub parent_refs: Vec<ParentRef>,
    /// The rules; the API allows one.
    pub rules: Vec<StreamRule>,
}

/// A UDPRoute.
#[derive(Debug, Clone, PartialEq)]
pub struct UdpRoute {
    /// The metadata.
    pub meta: Meta,
    /// The spec.
    pub spec: UdpRouteSpec,
    /// The status. The translation does not read it.
    pub status: RouteStatus,
    /// `metadata.resourceVersion`.
    pub version: Arc<str>,
}

/// The spec of a UDPRoute.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UdpRouteSpec {
    /// The parents.
    pub parent_refs: Vec<ParentRef>,
    /// The rules; the API allows one.
    pub rules: Vec<StreamRule>,
}

/// A TLSRoute.
#[derive(Debug, Clone, PartialEq)]
pub struct TlsRoute {
    /// The metadata.
    pub meta: Meta,
    /// The spec.
    pub spec: TlsRouteSpec,
    /// The status. The translation does not read it.
    pub status: RouteStatus,
    /// `metadata.resourceVersion`.
    pub version: Arc<str>,
}

/// The spec of a TLSRoute.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TlsRouteSpec {
    /// The parents.
    pub parent_refs: Vec<ParentRef>,
    /// The server names (SNI), exact or with a leading `*.`. Empty: the server names of the listeners.
    pub hostnames: Vec<String>,
    /// The rules; the API allows one.
    pub rules: Vec<StreamRule>,
}

/// A rule of a TCPRoute, a UDPRoute, or a TLSRoute.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StreamRule {
    /// The name.
    pub name: Option<String>,
    /// The backends.
    pub backend_refs: Vec<BackendRef>,
}
