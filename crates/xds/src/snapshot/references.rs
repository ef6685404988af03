//! References between resources, which determine the make-before-break order.

use std::sync::{Arc, LazyLock};

use super::{ResourceType, canonical};
use crate::protobuf::{self, StringFields};

/// The names that a resource references, by type. Each list is sorted, without duplicates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct References {
    /// Clusters that routes, TCP proxies, access loggers, and similar parts use.
    pub clusters: Arc<[Arc<str>]>,
    /// Route configurations that a listener requests by RDS.
    pub routes: Arc<[Arc<str>]>,
    /// Load assignments that a cluster requests by EDS.
    pub endpoints: Arc<[Arc<str>]>,
    /// Secrets that a listener or cluster requests by SDS.
    pub secrets: Arc<[Arc<str>]>,
    /// Filters of a listener. If a filter is discovered (ECDS), its name is the name of its configuration.
    pub extensions: Arc<[Arc<str>]>,
}

/// The fields that reference another resource: message, field number, and type of the resource.
const NAMING_FIELDS: &[(&str, u32, ResourceType)] = &[
    ("envoy.config.route.v3.RouteAction", 1, ResourceType::CLUSTER),
    ("envoy.config.route.v3.RouteAction.RequestMirrorPolicy", 1, ResourceType::CLUSTER),
    ("envoy.config.route.v3.WeightedCluster.ClusterWeight", 1, ResourceType::CLUSTER),
    ("envoy.config.core.v3.GrpcService.EnvoyGrpc", 1, ResourceType::CLUSTER),
    ("envoy.config.core.v3.HttpUri", 2, ResourceType::CLUSTER),
    ("envoy.config.trace.v3.DatadogConfig", 1, ResourceType::CLUSTER),
    ("envoy.config.trace.v3.ZipkinConfig", 1, ResourceType::CLUSTER),
    ("envoy.extensions.access_loggers.fluentd.v3.FluentdAccessLogConfig", 1, ResourceType::CLUSTER),
    ("envoy.extensions.clusters.aggregate.v3.ClusterConfig", 1, ResourceType::CLUSTER),
    ("envoy.extensions.filters.udp.udp_proxy.v3.Route", 1, ResourceType::CLUSTER),
    ("envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig", 2, ResourceType::CLUSTER),
    ("envoy.extensions.router.cluster_specifiers.lua.v3.LuaConfig", 2, ResourceType::CLUSTER),
    ("envoy.extensions.router.cluster_specifiers.matcher.v3.ClusterAction", 1, ResourceType::CLUSTER),
    ("envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy", 2, ResourceType::CLUSTER),
    ("envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy.WeightedCluster.ClusterWeight", 1, ResourceType::CLUSTER),
    ("envoy.config.listener.v3.Filter", 1, ResourceType::EXTENSION),
    ("envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter", 1, ResourceType::EXTENSION),
    ("envoy.extensions.filters.network.http_connection_manager.v3.Rds", 2, ResourceType::ROUTES),
    ("envoy.config.route.v3.ScopedRouteConfiguration", 2, ResourceType::ROUTES),
    ("envoy.config.cluster.v3.Cluster.EdsClusterConfig", 2, ResourceType::ENDPOINTS),
    ("envoy.extensions.transport_sockets.tls.v3.SdsSecretConfig", 1, ResourceType::SECRET),
];

static NAMING: LazyLock<StringFields> =
    LazyLock::new(|| StringFields::new(NAMING_FIELDS.iter().map(|(message, field, _)| (*message, *field))));

impl References {
    /// Parses the references in the encoded `message` of the resource `name` of type `kind`.
    pub(super) fn parse(kind: ResourceType, name: &Arc<str>, message: &[u8]) -> Self {
        if [ResourceType::ENDPOINTS, ResourceType::SECRET].contains(&kind) {
            return Self::default();
        }
        let (mut clusters, mut routes, mut endpoints) = (vec![], vec![], vec![]);
        let (mut secrets, mut extensions) = (vec![], vec![]);
        NAMING.visit(kind.full_name(), message, &mut |field, value| {
            let (.., named) = NAMING_FIELDS[field];
            let value = &*canonical(value);
            let value = if *value == **name { name.clone() } else { Arc::from(value) };
            match named {
                ResourceType::CLUSTER => clusters.push(value),
                ResourceType::ROUTES => routes.push(value),
                ResourceType::ENDPOINTS => endpoints.push(value),
                ResourceType::EXTENSION => extensions.push(value),
                _ => secrets.push(value),
            }
        });
        if kind == ResourceType::CLUSTER && endpoints.is_empty() && protobuf::is_eds_cluster(message) {
            endpoints.push(name.clone());
        }
        Self {
            clusters: sorted(clusters),
            routes: sorted(routes),
            endpoints: sorted(endpoints),
            secrets: sorted(secrets),
            extensions: sorted(extensions),
        }
    }

    /// Returns whether the resource references `cluster`.
    pub fn names_cluster(&self, cluster: &str) -> bool {
        contains(&self.clusters, cluster)
    }

    /// Returns whether the resource references the route configuration `name`.
    pub fn names_routes(&self, name: &str) -> bool {
        contains(&self.routes, name)
    }

    /// Returns whether the resource has a filter `name`.
    pub fn names_extension(&self, name: &str) -> bool {
        contains(&self.extensions, name)
    }
}

fn contains(sorted: &[Arc<str>], name: &str) -> bool {
    sorted.binary_search_by(|one| (**one).cmp(name)).is_ok()
}

fn sorted(mut names: Vec<Arc<str>>) -> Arc<[Arc<str>]> {
    names.sort();
    names.dedup();
    names.into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use serde_json::{Value, json};

    use super::*;

    fn references(kind: ResourceType, mut fields: Value) -> References {
        fields["@type"] = kind.url().into();
        let read = protobuf::from_json(&fields).unwrap();
        References::parse(kind, &read.name.unwrap_or_default().into(), &read.message)
    }

    fn texts(names: &[Arc<str>]) -> Vec<&str> {
        names.iter().map(|name| &**name).collect()
    }

    #[test]
    fn every_naming_field_is_text_in_the_pool() {
        for (message, number, _) in NAMING_FIELDS {
            let message = protobuf::pool().get_message_by_name(message).unwrap_or_else(|| panic!("no {message}"));
            let field = message.get_field(*number).unwrap_or_else(|| panic!("no field {number} of {message:?}"));
            assert!(matches!(field.kind(), prost_reflect::Kind::String), "{}", field.full_name());
        }
    }

    #[test]
    fn routes_name_clusters() {
        let found = references(
            ResourceType::ROUTES,
            json!({"name": "http", "virtual_hosts": [{"name": "shop", "domains": ["*"], "routes": [
                {"match": {"prefix": "/a"}, "route": {"cluster": "plain"}},
                {"match": {"prefix": "/b"}, "route": {"weighted_clusters": {"clusters": [
                    {"name": "heavy", "weight": 9}, {"name": "light", "weight": 1}]}}},
                {"match": {"prefix": "/c"}, "route": {
                    "cluster": "plain", "request_mirror_policies": [{"cluster": "mirror"}]}},
                {"match": {"prefix": "/d"}, "redirect": {"path_redirect": "/"}},
            ]}]}),
        );
        assert_eq!(texts(&found.clusters), ["heavy", "light", "mirror", "plain"]);
        assert!(found.names_cluster("mirror") && !found.names_cluster("shop"));
        assert_eq!(References { clusters: found.clusters.clone(), ..References::default() }, found);
    }

    #[test]
    fn listeners_name_routes_secrets_and_clusters() {
        let sds = json!({"ads": {}, "resource_api_version": "V3"});
        let found = references(
            ResourceType::LISTENER,
            json!({"name": "https", "filter_chains": [
                {
                    "transport_socket": {"name": "tls", "typed_config": {
                        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
                        "common_tls_context": {
                            "tls_certificate_sds_secret_configs": [{"name": "pair", "sds_config": sds}],
                            "combined_validation_context": {
                                "default_validation_context": {},
                                "validation_context_sds_secret_config": {"name": "ca", "sds_config": sds},
                            },
                        },
                    }},
                    "filters": [{"name": "hcm", "typed_config": {
                        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
                        "stat_prefix": "https",
                        "rds": {"route_config_name": "https", "config_source": sds},
                        "http_filters": [{"name": "ext", "typed_config": {
                            "@type": "type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz",
                            "grpc_service": {"envoy_grpc": {"cluster_name": "auth"}},
                        }}],
                    }}],
                },
                {
                    "filters": [{"name": "tcp", "typed_config": {
                        "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
                        "stat_prefix": "tcp", "cluster": "database",
                    }}],
                },
            ]}),
        );
        assert_eq!(texts(&found.routes), ["https"]);
        assert_eq!(texts(&found.secrets), ["ca", "pair"]);
        assert_eq!(texts(&found.clusters), ["auth", "database"]);
        assert_eq!(texts(&found.extensions), ["ext", "hcm", "tcp"]);
    }

    #[test]
    fn clusters_name_endpoints_and_secrets() {
        let ads = json!({"ads": {}, "resource_api_version": "V3"});
        let tls = json!({"name": "tls", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
            "common_tls_context": {"validation_context_sds_secret_config": {"name": "ca", "sds_config": ads}},
        }});
        let eds = |config: Value| {
            let fields = json!({"name": "cart", "type": "EDS", "eds_cluster_config": config, "transport_socket": tls});
            references(ResourceType::CLUSTER, fields)
        };
        let own = eds(json!({"eds_config": ads}));
        assert_eq!(texts(&own.endpoints), ["cart"]);
        assert_eq!(texts(&own.secrets), ["ca"]);
        assert_eq!(texts(&eds(json!({"eds_config": ads, "service_name": "shop/cart"})).endpoints), ["shop/cart"]);
        let fixed = references(ResourceType::CLUSTER, json!({"name": "cart", "type": "STATIC"}));
        assert_eq!(fixed, References::default());
    }
}
