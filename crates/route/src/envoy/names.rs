//! Names that two resources, or a resource and the bootstrap, must agree on.
//!
//! The names of clusters, load assignments, and secrets are the `Display` forms of their identities in the model.

use lockgate_xds::provenance::ObjectRef;
use lockgate_xds::snapshot::Version;

use super::tls_listener::Presented;
use crate::model::{ClientValidation, ClusterId, Host, ListenerId, ObjectKey, ServicePortId, TlsVersion};

/// The set of scopes: the scopes of TLS hosts and of hosts in plain text. Envoys share one subscription for it.
pub const SCOPES: &str = "lockgate";
/// The header that contains the scope key of a request: the server name of the connection. It replaces any value that
/// clients send, and is not forwarded.
pub const SERVER_NAME: &str = "x-lockgate-server-name";
/// The same header for plain text: it contains the host of the request.
pub const HOST: &str = "x-lockgate-host";
/// The listener for `/ready` and `/stats`.
pub const STATS: &str = "stats";
/// The listener for `/stats` over TLS.
pub const STATS_TLS: &str = "stats-tls";
/// The listener for `/ready` alone.
pub const READINESS: &str = "readiness";
/// The listener for `/ready` that rejects requests under overload.
pub const OVERLOAD_PROBE: &str = "overload-probe";
/// The listener for the read-only pages of the admin interface.
pub const ADMIN: &str = "admin";
/// The static cluster of the bootstrap for Envoy's own admin interface.
pub const ADMIN_CLUSTER: &str = "envoy-admin";
/// The static cluster of the bootstrap for the xDS server.
pub const XDS_CLUSTER: &str = "lockgate-xds";
/// The cluster in the bootstrap that represents the Envoys in the zone of an Envoy. It receives no requests.
pub const LOCAL_ZONE_CLUSTER: &str = "local-zone";
/// The cluster of the trace collector.
pub const TRACING_CLUSTER: &str = "tracing";
/// The cluster of an external authorization server that uses gRPC.
pub const AUTHORIZATION_CLUSTER: &str = "external-authorization";
/// The cluster of an external authorization server that uses HTTP. It has a separate name because listeners change
/// later than clusters.
pub const HTTP_AUTHORIZATION_CLUSTER: &str = "external-authorization-http";
/// The cluster of the rate limit service.
pub const RATE_LIMIT_CLUSTER: &str = "rate-limit";
/// The layer of runtime flags that the bootstrap subscribes to by RTDS.
pub const RUNTIME: &str = "lockgate";
/// The runtime key with which `lockgate envoy-drain` makes `/ready` fail before anything else changes; 100 is draining.
pub const DRAINING: &str = "lockgate.draining";
/// The key of Lockgate's metadata on a route: `kind`, `namespace`, and `name` of its object.
pub const METADATA: &str = "dev.lockgate";
/// The key of the metadata on a route whose requests its filter chain counts.
pub const LIMIT: &str = "dev.lockgate.limit";

/// The name of routes that redirect to https.
pub const REDIRECT: &str = "https-redirect";
/// The name of the last route of a host, which answers 404 to requests without another.
pub const NOT_FOUND: &str = "not-found";

/// Returns the name of the routes of a TLS host. For exact hosts it is a scope, such as `"https/shop.example.com"`. For
/// wildcards and clients without a known server name, it is a route configuration and a filter chain:
/// `"https/*.example.com"`, `"https/*"`.
pub fn tls_routes(listener: &ListenerId, host: &Host) -> String {
    format!("{listener}/{host}")
}

/// Returns the prefix of a listener's HTTP statistics in Envoy: `"ingress_http"`.
pub fn stat_prefix(listener: &ListenerId) -> String {
    format!("ingress_{listener}")
}

/// Returns the prefix of the scope keys of a listener; the server name follows it.
///
/// All listeners of an Envoy share one set of scopes, so each listener needs keys of its own. The listener of Ingresses
/// uses the bare server name: running Envoys and draining connections look up that key, and would answer 404 for
/// another. A server name has no slash, so the keys of two listeners differ.
pub fn scope_key_prefix(listener: &ListenerId) -> String {
    match listener.as_str() {
        ListenerId::HTTPS => String::new(),
        listener => format!("{listener}/"),
    }
}

/// Returns the name of a virtual host of a listener for plain HTTP, by the first of its domains:
/// `"http/shop_example_com"`.
pub fn virtual_host(listener: &ListenerId, first: &Host) -> String {
    of_statistics(format!("{listener}/{first}"))
}

/// Returns a name that Envoy can use in the names of statistics as one label: with `_` instead of dots. Hosts and the names of
/// objects contain no `_`, so different names remain different.
///
/// Envoy splits the names of statistics at dots to find its own labels `envoy_virtual_host` and `envoy_route`. Labels by regular
/// expressions (`stats_tags`) made a change eight times as expensive: Envoy runs them on all statistics of routes for each change.
pub fn of_statistics(name: String) -> String {
    name.replace('.', "_")
}

/// Returns the name of the scope of a host of a listener for plain HTTP, which is its key too: `"http/shop.example.com"`.
pub fn scope(listener: &ListenerId, host: &Host) -> String {
    format!("{listener}/{host}")
}

/// Returns the name of the scope of all hosts that have none of their own: `"http/*"`.
pub fn scope_of_others(listener: &ListenerId) -> String {
    scope(listener, &Host::Any)
}

/// Returns the key of the scope of a request for plain HTTP, in Envoy's format. A port may follow the key.
pub fn scope_key(listener: &ListenerId) -> String {
    format!("{listener}/%REQ(:authority)%")
}

/// Returns the name of the filter chain that hosts with the same TLS properties share. It is `"https/shop/cert"`,
/// `"https/shop/cert,shop/rsa"` with several key pairs, `"https/shop/cert/1.3"` with a single TLS version, or
/// `"https/shop/cert/client-ca=shop/ca/configmap"` if clients present certificates. The name of a host has no slash.
pub fn shared_chain(listener: &ListenerId, presented: &Presented) -> String {
    let Presented { secrets, minimum, maximum, clients } = presented;
    let secrets = secrets.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let versions = match (minimum, maximum) {
        (TlsVersion::V1_3, _) => "/1.3",
        (TlsVersion::V1_2, TlsVersion::V1_2) => "/1.2",
        (TlsVersion::V1_2, TlsVersion::V1_3) => "",
    };
    let clients = clients.map(|ClientValidation { authorities, required, is_verified, forwarded }| {
        let mode = match (required, is_verified) {
            (true, true) => "",
            (false, false) => "optional-",
            (true, false) => "unverified-",
            (false, true) => "absent-or-valid-",
        };
        let authorities = authorities.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string);
        let parts = forwarded.names().collect::<Vec<_>>().join(",");
        let forwarded = if parts.is_empty() { parts } else { format!("/xfcc={parts}") };
        format!("/{mode}client-ca={authorities}{forwarded}")
    });
    format!("{listener}/{secrets}{versions}{}", clients.unwrap_or_default())
}

/// Returns the name of the connection manager that the shared filter chains of a listener have: `"https/4f1d0c5a9be2d873"`.
pub fn shared_filter(listener: &ListenerId, version: Version) -> String {
    format!("{listener}/{version}")
}

/// Returns the name of the filter chain that forwards the TLS connections for a server name:
/// `"gateway/shop/public/443/shop.example.com"`.
pub fn connection_chain(listener: &ListenerId, host: &Host) -> String {
    format!("{listener}/{host}")
}

/// Returns the name of the route configuration that a gRPC client uses for a host: `"api/https/shop.example.com"`, or
/// `"api/http/…"` for the routes of the plain-text listener.
pub fn api_routes_of_host(listener: &ListenerId, host: &str) -> String {
    format!("api/{listener}/{host}")
}

/// Returns the name of the route configuration that a gRPC client uses for a Service port:
/// `"api/service/shop/cart/http"`.
pub fn api_routes_of_port(port: &ServicePortId) -> String {
    format!("api/service/{port}")
}

/// Returns the targets with which gRPC clients call port 80 of the Service `shop/cart`: `"cart.shop:80"`,
/// `"cart.shop.svc:80"`, and `"cart.shop.svc.cluster.local:80"`. DNS in a Kubernetes cluster resolves these names to
/// the Service.
pub fn service_targets(service: &ObjectKey, port: u16) -> [String; 3] {
    let ObjectKey { namespace, name } = service;
    ["", ".svc", ".svc.cluster.local"].map(|suffix| format!("{name}.{namespace}{suffix}:{port}"))
}

/// The name of a filter chain and of a cluster that do not exist. A connection for which one of them is selected is closed.
pub const REFUSED: &str = "refused";

/// Returns the name of a cluster in Envoy's statistics: `"shop_cart_http"` for the cluster `"shop/cart/http"`.
pub fn alt_stat_name(cluster: &ClusterId) -> String {
    cluster.to_string().replace('/', "_")
}

/// Returns the name of a route, which `%ROUTE_NAME%` logs: `"Ingress/shop/cart"`.
pub fn route(origin: &ObjectRef) -> String {
    format!("{}/{}/{}", origin.kind, origin.namespace, origin.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{SecretId, SecretPart};
    use crate::testing::model::cluster_id;

    #[test]
    fn names_match_their_documentation() {
        let [http, https, other] = [ListenerId::HTTP, ListenerId::HTTPS, "other"].map(ListenerId::new);
        assert_eq!(tls_routes(&https, &Host::Exact("shop.example.com".into())), "https/shop.example.com");
        assert_eq!(tls_routes(&https, &Host::Wildcard("example.com".into())), "https/*.example.com");
        assert_eq!(tls_routes(&https, &Host::Any), "https/*");
        assert_eq!([&https, &other].map(scope_key_prefix), ["", "other/"]);
        assert_eq!(virtual_host(&http, &Host::Exact("shop.example.com".into())), "http/shop_example_com");
        assert_eq!(scope(&http, &Host::Exact("shop.example.com".into())), "http/shop.example.com");
        assert_eq!(scope_of_others(&http), "http/*");
        let secrets = ["cert", "rsa"].map(|name| SecretId::new(ObjectKey::new("shop", name), SecretPart::KeyPair));
        let presented =
            |secrets, minimum, maximum| shared_chain(&https, &Presented { secrets, minimum, maximum, clients: None });
        let chain = |minimum, maximum| presented(&secrets[..1], minimum, maximum);
        assert_eq!(chain(TlsVersion::V1_2, TlsVersion::V1_3), "https/shop/cert");
        assert_eq!(chain(TlsVersion::V1_2, TlsVersion::V1_2), "https/shop/cert/1.2");
        assert_eq!(chain(TlsVersion::V1_3, TlsVersion::V1_3), "https/shop/cert/1.3");
        assert_eq!(presented(&secrets, TlsVersion::V1_2, TlsVersion::V1_3), "https/shop/cert,shop/rsa");
        assert_eq!(connection_chain(&other, &Host::Exact("shop.example.com".into())), "other/shop.example.com");
        assert_eq!(api_routes_of_host(&https, "shop.example.com"), "api/https/shop.example.com");
        let cluster = cluster_id("shop/cart/http");
        assert_eq!(api_routes_of_port(&cluster.port), "api/service/shop/cart/http");
        let targets = ["cart.shop:80", "cart.shop.svc:80", "cart.shop.svc.cluster.local:80"];
        assert_eq!(service_targets(cluster.port.service(), 80), targets);
        assert_eq!(alt_stat_name(&cluster), "shop_cart_http");
        assert_eq!(route(&ObjectRef::new("Ingress", "shop", "cart")), "Ingress/shop/cart");
    }
}
