//! API version 2, for old Envoys and old gRPC clients.
//!
//! Requests and responses have the same fields in both versions, so one decoder and one core serve both. (Version 3 has no
//! `node.build_version`, which is ignored.) The versions differ in the paths of the services, and in the names of the types.
//! The type URL of a request selects the version of its response, regardless of the path. Resources are stored by their type
//! of version 3. Their bytes with type names of version 2 are built when the first client requests them
//! ([`crate::snapshot::Resource`]).
//!
//! A `resource_api_version` in a resource stays unchanged. Clients that support the field request the version that it
//! states, and other clients request version 2. Both get a response.

use crate::protocol::Request;
use crate::snapshot::{ApiVersion, ResourceType};

/// A service for a single type: its name, the suffix of its methods (`Stream…`, `Delta…`, `Fetch…`), the name in REST
/// (`/v3/discovery:…`), and the type. Without a name in REST, `Delta…` is the only method.
pub(super) type Row = (&'static str, &'static str, Option<&'static str>, ResourceType);

/// The aggregated service of version 2.
pub(super) const AGGREGATED: &str = "envoy.service.discovery.v2.AggregatedDiscoveryService";

/// The services of version 2.
pub(super) const SERVICES: &[Row] = &[
    ("envoy.api.v2.ListenerDiscoveryService", "Listeners", Some("listeners"), ResourceType::LISTENER),
    ("envoy.api.v2.RouteDiscoveryService", "Routes", Some("routes"), ResourceType::ROUTES),
    ("envoy.api.v2.ScopedRoutesDiscoveryService", "ScopedRoutes", Some("scoped-routes"), ResourceType::SCOPED_ROUTES),
    ("envoy.api.v2.VirtualHostDiscoveryService", "VirtualHosts", None, ResourceType::VIRTUAL_HOST),
    ("envoy.api.v2.ClusterDiscoveryService", "Clusters", Some("clusters"), ResourceType::CLUSTER),
    ("envoy.api.v2.EndpointDiscoveryService", "Endpoints", Some("endpoints"), ResourceType::ENDPOINTS),
    ("envoy.service.discovery.v2.SecretDiscoveryService", "Secrets", Some("secrets"), ResourceType::SECRET),
    ("envoy.service.discovery.v2.RuntimeDiscoveryService", "Runtime", Some("runtime"), ResourceType::RUNTIME),
];

/// Returns the API version in the paths of REST.
pub(super) fn word(api: ApiVersion) -> &'static str {
    match api {
        ApiVersion::V2 => "v2",
        ApiVersion::V3 => "v3",
    }
}

/// Adds the missing type URL of `request`: the type `implied`, in the API version of the service.
pub(super) fn complete(mut request: Request, implied: Option<ResourceType>, api: ApiVersion) -> Request {
    if let Some(kind) = implied.filter(|_| request.type_url.is_empty()) {
        kind.url_in(api).clone_into(&mut request.type_url);
    }
    request
}
