//! Which other resources a resource names: the edges along which make-before-break is decided.

use std::sync::{Arc, LazyLock};

use super::ResourceType;
use crate::protobuf::{self, StringFields};

/// The names that a resource refers to, by type; each list sorted and without repetition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct References {
    /// Clusters that routes, TCP proxies, access loggers and the like send to.
    pub clusters: Arc<[Arc<str>]>,
    /// Route configurations that a listener asks for by RDS.
    pub routes: Arc<[Arc<str>]>,
    /// Load assignments that a cluster asks for by EDS.
    pub endpoints: Arc<[Arc<str>]>,
    /// Secrets asked for by SDS.
    pub secrets: Arc<[Arc<str>]>,
}

/// The fields that name another resource: message, field number, type of what is named.
const NAMING_FIELDS: &[(&str, u32, ResourceType)] = &[
    ("envoy.config.route.v3.RouteAction", 1, ResourceType::CLUSTER),
    ("envoy.config.route.v3.RouteAction.RequestMirrorPolicy", 1, ResourceType::CLUSTER),
    ("envoy.config.route.v3.WeightedCluster.ClusterWeight", 1, ResourceType::CLUSTER),
    ("envoy.config.core.v3.GrpcService.EnvoyGrpc", 1, ResourceType::CLUSTER),
    ("envoy.config.core.v3.HttpUri", 2, ResourceType::CLUSTER),
    ("envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy", 2, ResourceType::CLUSTER),
    ("envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy.WeightedCluster.ClusterWeight", 1, ResourceType::CLUSTER),
    ("envoy.extensions.filters.network.http_connection_manager.v3.Rds", 2, ResourceType::ROUTES),
    ("envoy.config.cluster.v3.Cluster.EdsClusterConfig", 2, ResourceType::ENDPOINTS),
    ("envoy.extensions.transport_sockets.tls.v3.SdsSecretConfig", 1, ResourceType::SECRET),
];

static NAMING: LazyLock<StringFields> =
    LazyLock::new(|| StringFields::new(NAMING_FIELDS.iter().map(|(message, field, _)| (*message, *field))));

impl References {
    /// What the resource `name` of type `kind` with the encoded `message` refers to.
    pub(super) fn of(kind: ResourceType, name: &str, message: &[u8]) -> Self {
        if [ResourceType::ENDPOINTS, ResourceType::SECRET].contains(&kind) {
            return Self::default();
        }
        let (mut clusters, mut routes, mut endpoints, mut secrets) = (vec![], vec![], vec![], vec![]);
        NAMING.visit(kind.full_name(), message, &mut |field, value| {
            let (.., named) = NAMING_FIELDS[field];
            match named {
                ResourceType::CLUSTER => clusters.push(Arc::from(value)),
                ResourceType::ROUTES => routes.push(Arc::from(value)),
                ResourceType::ENDPOINTS => endpoints.push(Arc::from(value)),
                _ => secrets.push(Arc::from(value)),
            }
        });
        if kind == ResourceType::CLUSTER && endpoints.is_empty() && protobuf::is_eds_cluster(message) {
            endpoints.push(Arc::from(name));
        }
        Self {
            clusters: sorted(clusters),
            routes: sorted(routes),
            endpoints: sorted(endpoints),
            secrets: sorted(secrets),
        }
    }

    /// Whether `cluster` is among the clusters named.
    pub fn names_cluster(&self, cluster: &str) -> bool {
        self.clusters.binary_search_by(|name| (**name).cmp(cluster)).is_ok()
    }
}

fn sorted(mut names: Vec<Arc<str>>) -> Arc<[Arc<str>]> {
    names.sort();
    names.dedup();
    names.into()
}
