//! Names on which two resources, or a resource and the bootstrap, must agree.

use crate::model::{ClusterName, Host};
use crate::provenance::ObjectRef;

/// The plain-text listener, and the route configuration that it asks for.
pub const HTTP: &str = "http";
/// The TLS listener.
pub const HTTPS: &str = "https";
/// The listener for `/ready` and `/stats`.
pub const STATS: &str = "stats";
/// The bootstrap's static cluster that is Envoy's own admin interface.
pub const ADMIN_CLUSTER: &str = "envoy-admin";
/// The bootstrap's static cluster that is the xDS server.
pub const XDS_CLUSTER: &str = "lockgate-xds";
/// Key of our metadata on a route: `kind`, `namespace` and `name` of the object behind it.
pub const METADATA: &str = "dev.lockgate";

/// The route configuration, and the filter chain, of a TLS host: `"https/shop.example.com"`, `"https/*.example.com"`,
/// and `"https/*"` for clients without a known server name.
pub fn https_routes(host: &Host) -> String {
    format!("{HTTPS}/{host}")
}

/// The name of a cluster in Envoy's statistics: `"shop_cart_http"` for the cluster `"shop/cart/http"`.
pub fn alt_stat_name(cluster: &ClusterName) -> String {
    cluster.0.replace('/', "_")
}

/// The name of a route, which is what `%ROUTE_NAME%` logs: `"Ingress/shop/cart"`.
pub fn route(origin: &ObjectRef) -> String {
    format!("{}/{}/{}", origin.kind, origin.namespace, origin.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_their_docs_say() {
        assert_eq!(https_routes(&Host::Exact("shop.example.com".into())), "https/shop.example.com");
        assert_eq!(https_routes(&Host::Wildcard("example.com".into())), "https/*.example.com");
        assert_eq!(https_routes(&Host::Any), "https/*");
        assert_eq!(alt_stat_name(&ClusterName("shop/cart/http".into())), "shop_cart_http");
        assert_eq!(route(&ObjectRef::new("Ingress", "shop", "cart")), "Ingress/shop/cart");
    }
}
