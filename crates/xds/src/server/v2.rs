//! Version 2 of the API beside version 3: what old Envoys and old gRPC clients speak.
//!
//! Requests and responses have the same fields in both (`node.build_version`, which version 3 has no more, is passed
//! over), so one decoder and one core serve both. What differs: the paths of the services, and the names of the types.
//! A client is answered in the version that its type URL is of, whatever the path was; resources are kept by their type
//! of version 3, and their bytes with the names of version 2 are made when the first client asks for them
//! ([`crate::snapshot::Resource`]).
//!
//! Where a resource says by `resource_api_version` in which version others are to be asked for, it is left as it is:
//! who heeds the field asks as it says and is answered, who does not know it asks in version 2 and is answered too.

use super::message::Request;
use crate::snapshot::{ApiVersion, ResourceType};

/// A service of one type: its name, what the names of its methods (`Stream…`, `Delta…`, `Fetch…`) end with, the name in
/// REST (`/v3/discovery:…`), the type. Where there is no such name, `Delta…` is the only method.
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

/// The version in the paths of REST.
pub(super) fn word(api: ApiVersion) -> &'static str {
    match api {
        ApiVersion::V2 => "v2",
        ApiVersion::V3 => "v3",
    }
}

/// `request` with the type URL that it leaves to the service: of the type `implied`, in the service's version.
pub(super) fn complete(mut request: Request, implied: Option<ResourceType>, api: ApiVersion) -> Request {
    if let Some(kind) = implied.filter(|_| request.type_url.is_empty()) {
        kind.url_in(api).clone_into(&mut request.type_url);
    }
    request
}
