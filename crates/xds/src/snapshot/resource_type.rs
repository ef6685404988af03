//! The types of Envoy resources, and their URLs in each version of Envoy's API.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::protobuf;

/// The type of an Envoy resource, e.g. `type.googleapis.com/envoy.config.cluster.v3.Cluster`.
///
/// The representation is a number, because a stream compares types many times for each message. The number is twice the index of the
/// type in `SERVED`, or twice the sum of the length of `SERVED` and the index among all known types. The type of the variants has the
/// next number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceType(u16);

/// The types that have a service, in the order of their URLs.
const SERVED: [&str; 10] = [
    "type.googleapis.com/envoy.config.cluster.v3.Cluster",
    "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig",
    "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
    "type.googleapis.com/envoy.config.endpoint.v3.LbEndpoint",
    "type.googleapis.com/envoy.config.listener.v3.Listener",
    "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
    "type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration",
    "type.googleapis.com/envoy.config.route.v3.VirtualHost",
    "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
    "type.googleapis.com/envoy.service.runtime.v3.Runtime",
];

impl ResourceType {
    /// CDS.
    pub const CLUSTER: Self = Self(0);
    /// ECDS.
    pub const EXTENSION: Self = Self(2);
    /// EDS.
    pub const ENDPOINTS: Self = Self(4);
    /// LEDS.
    pub const LB_ENDPOINT: Self = Self(6);
    /// LDS.
    pub const LISTENER: Self = Self(8);
    /// RDS.
    pub const ROUTES: Self = Self(10);
    /// SRDS.
    pub const SCOPED_ROUTES: Self = Self(12);
    /// VHDS.
    pub const VIRTUAL_HOST: Self = Self(14);
    /// SDS.
    pub const SECRET: Self = Self(16);
    /// RTDS.
    pub const RUNTIME: Self = Self(18);

    /// A type without a URL, which no client can request.
    pub(super) const NOTHING: Self = Self(u16::MAX - 1);

    /// Returns the type of this URL, of either API version, if the protos of this build define its message.
    pub fn of_url(url: &str) -> Option<Self> {
        let served = |url: &str| SERVED.iter().position(|served| *served == url);
        // Most requests have exactly one of these URLs.
        let place = served(url).or_else(|| {
            let at = protobuf::index_of_url(url)?;
            Some(served(protobuf::url_at(at)?).unwrap_or(SERVED.len() + at))
        });
        u16::try_from(2 * place?).ok().map(Self)
    }

    /// Returns the type URL.
    pub fn url(self) -> &'static str {
        let place = usize::from(self.0 / 2);
        match SERVED.get(place) {
            Some(url) => url,
            None => protobuf::url_at(place - SERVED.len()).unwrap_or_default(),
        }
    }

    /// Returns the type of the variants of these resources, which no client requests by name only.
    pub fn variants(self) -> Self {
        Self(self.0 | 1)
    }

    /// Returns the type URL in `api`. A type that is new in version 3 has only one.
    pub fn url_in(self, api: ApiVersion) -> &'static str {
        url_in(self.url(), api)
    }

    /// Returns the full name of the message, e.g. `envoy.config.cluster.v3.Cluster`.
    pub fn full_name(self) -> &'static str {
        self.url().rsplit('/').next().unwrap_or_default()
    }

    /// Returns the short name of the message, e.g. `Cluster`, or `Cluster#variants`, for logs and metrics.
    pub fn short_name(self) -> &'static str {
        static VARIANTS: Mutex<BTreeMap<ResourceType, &str>> = Mutex::new(BTreeMap::new());
        let name = self.url().rsplit('.').next().unwrap_or_default();
        if self != self.variants() {
            return name;
        }
        let mut variants = VARIANTS.lock().unwrap_or_else(PoisonError::into_inner);
        variants.entry(self).or_insert_with(|| Box::leak(format!("{name}#variants").into_boxed_str()))
    }

    /// Returns whether an empty list of names in a client's first request is a wildcard.
    /// Source: xDS protocol, "How the client specifies what resources to return".
    pub fn wildcard_by_default(self) -> bool {
        [Self::CLUSTER, Self::LISTENER, Self::SCOPED_ROUTES, Self::VIRTUAL_HOST].contains(&self)
    }

    /// Returns whether a state-of-the-world response contains all requested resources, so that absence means deletion. The
    /// protocol defines this for clusters and listeners, and Envoy also for scopes. Source: Envoy
    /// `ScopedRdsConfigSubscription`.
    pub fn full_state(self) -> bool {
        [Self::CLUSTER, Self::LISTENER, Self::SCOPED_ROUTES].contains(&self)
    }

    /// Returns whether a client can request all resources of this type. Secrets are available only by name.
    pub fn may_be_listed(self) -> bool {
        self != Self::SECRET
    }
}

/// Returns a type URL of version 3 in `api`.
pub(super) fn url_in(url: &'static str, api: ApiVersion) -> &'static str {
    match api {
        ApiVersion::V2 => protobuf::v2_url(url).unwrap_or(url),
        ApiVersion::V3 => url,
    }
}

impl fmt::Debug for ResourceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.short_name())
    }
}

/// A version of Envoy's API. Version 3 is canonical. A resource is identical in both versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ApiVersion {
    /// `envoy.api.v2` and related packages: Envoy before 1.18, gRPC clients whose bootstrap has no `xds_v3`.
    V2,
    /// `envoy.config.….v3`.
    V3,
}

impl ApiVersion {
    /// Returns the API version of a type URL.
    pub fn of_url(url: &str) -> Self {
        if protobuf::is_v2_url(url) { Self::V2 } else { Self::V3 }
    }
}

/// Type and name of a resource.
pub type Key = (ResourceType, Arc<str>);
