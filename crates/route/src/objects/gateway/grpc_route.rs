//! GRPCRoutes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::reference::ParentRef;
use super::route::{HttpBackendRef, HttpFilter, NamedMatch, SessionPersistence};
use super::status::RouteStatus;
use crate::objects::meta::Meta;

/// A GRPCRoute.
#[derive(Debug, Clone, PartialEq)]
pub struct GrpcRoute {
    /// The metadata.
    pub meta: Meta,
    /// The spec.
    pub spec: GrpcRouteSpec,
    /// The status. The translation does not read it.
    pub status: RouteStatus,
    /// `metadata.resourceVersion`.
    pub version: Arc<str>,
}

/// The spec of a GRPCRoute.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GrpcRouteSpec {
    /// The parents.
    pub parent_refs: Vec<ParentRef>,
    /// The host names, exact or with a leading `*.`. Empty: the host names of the listeners.
    pub hostnames: Vec<String>,
    /// The rules.
    pub rules: Vec<GrpcRule>,
}

/// A rule of a GRPCRoute.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GrpcRule {
    /// The name.
    pub name: Option<String>,
    /// The matches. A request must meet one of them. Empty: every request.
    pub matches: Vec<GrpcMatch>,
    /// The filters. They have the same form as the filters of HTTPRoutes, with fewer types.
    pub filters: Vec<HttpFilter>,
    /// The backends.
    pub backend_refs: Vec<HttpBackendRef>,
    /// Session persistence.
    pub session_persistence: Option<SessionPersistence>,
}

/// A match of requests. All conditions must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GrpcMatch {
    /// The service and the method; `None` is every method.
    pub method: Option<GrpcMethod>,
    /// The conditions on headers.
    pub headers: Vec<NamedMatch>,
}

/// A condition on the service and the method of gRPC.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GrpcMethod {
    /// `Exact`, which is the default, or `RegularExpression`.
    pub r#type: Option<String>,
    /// The service; `None` is every service.
    pub service: Option<String>,
    /// The method; `None` is every method.
    pub method: Option<String>,
}
