//! Envoy resources as JSON for `lockgate serve --resources`, for each transport.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::certificates::Pair;

/// The xDS transport of an Envoy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fetch {
    /// All types over one stream, incremental.
    AdsDelta,
    /// All types over one stream, state of the world.
    AdsSotw,
    /// A stream for each type, and for each name of a type with named subscriptions; incremental.
    StreamsDelta,
    /// Like `Delta`, state of the world.
    StreamsSotw,
    /// Polling: JSON over HTTP/1.1.
    Rest,
}

/// The name of the cluster of the controller in Envoy.
const CONTROLLER: &str = "controller";

impl Fetch {
    /// Returns whether all types use one stream, so that the server can keep an order between them.
    pub fn aggregated(self) -> bool {
        matches!(self, Fetch::AdsDelta | Fetch::AdsSotw)
    }

    /// Returns whether only changes are sent.
    pub fn delta(self) -> bool {
        matches!(self, Fetch::AdsDelta | Fetch::StreamsDelta)
    }

    /// Returns a `ConfigSource` for resources and bootstraps.
    pub fn source(self) -> Value {
        match self {
            Fetch::AdsDelta | Fetch::AdsSotw => json!({ "ads": {}, "resource_api_version": "V3" }),
            Fetch::StreamsDelta | Fetch::StreamsSotw | Fetch::Rest => {
                json!({ "resource_api_version": "V3", "api_config_source": self.api() })
            }
        }
    }

    /// Returns the API type.
    fn api(self) -> Value {
        let grpc = |kind: &str| {
            let pause = json!({ "base_interval": "0.1s", "max_interval": "0.5s" });
            let service = json!({ "cluster_name": CONTROLLER, "retry_policy": { "retry_back_off": pause } });
            json!({ "api_type": kind, "transport_api_version": "V3", "set_node_on_first_message_only": true,
                "grpc_services": [{ "envoy_grpc": service }] })
        };
        match self {
            Fetch::AdsDelta | Fetch::StreamsDelta => grpc("DELTA_GRPC"),
            Fetch::AdsSotw | Fetch::StreamsSotw => grpc("GRPC"),
            Fetch::Rest => json!({ "api_type": "REST", "transport_api_version": "V3", "cluster_names": [CONTROLLER],
                "refresh_delay": "0.05s", "request_timeout": "1s" }),
        }
    }

    /// Returns the bootstrap of an Envoy that fetches clusters and listeners from the controller at this port.
    pub fn bootstrap(self, xds: u16, admin: u16) -> Value {
        let mut controller = json!({ "name": CONTROLLER, "type": "STATIC", "connect_timeout": "1s",
            "load_assignment": load_assignment(CONTROLLER, &[local(xds)]) });
        if self != Fetch::Rest {
            let options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
            controller["typed_extension_protocol_options"] = json!({ options: {
                "@type": format!("type.googleapis.com/{options}"),
                "explicit_http_config": { "http2_protocol_options": {} } } });
        }
        let mut dynamic = json!({ "cds_config": self.source(), "lds_config": self.source() });
        if self.aggregated() {
            dynamic["ads_config"] = self.api();
        }
        json!({
            "node": { "id": format!("envoy-{admin}"), "cluster": "test" },
            "admin": { "address": address(local(admin)) },
            "dynamic_resources": dynamic,
            "static_resources": { "clusters": [controller] },
        })
    }
}

fn local(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

fn address(at: SocketAddr) -> Value {
    json!({ "socket_address": { "address": at.ip().to_string(), "port_value": at.port() } })
}

/// Formats a message of this type.
pub fn typed(name: &str, mut message: Value) -> Value {
    message["@type"] = format!("type.googleapis.com/{name}").into();
    message
}

/// Formats a cluster whose endpoints come from `source`.
pub fn cluster(name: &str, source: &Value) -> Value {
    let cluster = json!({ "name": name, "type": "EDS", "connect_timeout": "1s",
        "eds_cluster_config": { "eds_config": source } });
    typed("envoy.config.cluster.v3.Cluster", cluster)
}

/// Formats the endpoints of a cluster.
pub fn endpoints(name: &str, at: &[SocketAddr]) -> Value {
    typed("envoy.config.endpoint.v3.ClusterLoadAssignment", load_assignment(name, at))
}

fn load_assignment(name: &str, at: &[SocketAddr]) -> Value {
    let endpoints: Vec<Value> = at.iter().map(|at| json!({ "endpoint": { "address": address(*at) } })).collect();
    json!({ "cluster_name": name, "endpoints": [{ "lb_endpoints": endpoints }] })
}

/// Formats a listener for plain HTTP on a local port. `routes` is the part of its connection manager with the source of
/// its routes, such as [`rds`].
pub fn listener(name: &str, port: u16, routes: Value) -> Value {
    let listener = json!({ "name": name, "address": address(local(port)),
        "filter_chains": [{ "filters": [{ "name": "http", "typed_config": manager(name, routes) }] }] });
    typed("envoy.config.listener.v3.Listener", listener)
}

/// Formats a listener like [`listener`] with TLS. Its key pair is the secret `pair` from `source`.
pub fn tls_listener(name: &str, port: u16, routes: Value, pair: &str, source: &Value) -> Value {
    let mut listener = listener(name, port, routes);
    let context = json!({ "common_tls_context": {
        "tls_certificate_sds_secret_configs": [{ "name": pair, "sds_config": source }] } });
    let context = typed("envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext", context);
    listener["filter_chains"][0]["transport_socket"] = json!({ "name": "tls", "typed_config": context });
    listener
}

/// Formats a connection manager.
fn manager(name: &str, routes: Value) -> Value {
    let mut manager = json!({ "stat_prefix": name, "http_filters": [router()] });
    for (field, value) in routes.as_object().into_iter().flatten() {
        manager[field] = value.clone();
    }
    typed("envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", manager)
}

/// Formats the last HTTP filter of every chain.
pub fn router() -> Value {
    json!({ "name": "router", "typed_config": typed("envoy.extensions.filters.http.router.v3.Router", json!({})) })
}

/// Formats routes that come from `source`, for [`listener`].
pub fn rds(name: &str, source: &Value) -> Value {
    json!({ "rds": { "route_config_name": name, "config_source": source } })
}

/// Formats a route configuration with these virtual hosts.
pub fn routes(name: &str, hosts: &[Value]) -> Value {
    let routes = json!({ "name": name, "virtual_hosts": hosts });
    typed("envoy.config.route.v3.RouteConfiguration", routes)
}

/// Formats a virtual host that forwards all requests for a domain to a cluster.
pub fn virtual_host(name: &str, domain: &str, cluster: &str) -> Value {
    json!({ "name": name, "domains": [domain], "routes": [{ "match": { "prefix": "/" }, "route": { "cluster": cluster } }] })
}

/// Formats a key pair.
pub fn secret(name: &str, pair: &Pair) -> Value {
    let pair = json!({ "certificate_chain": { "inline_string": pair.certificate },
        "private_key": { "inline_string": pair.key } });
    typed("envoy.extensions.transport_sockets.tls.v3.Secret", json!({ "name": name, "tls_certificate": pair }))
}
