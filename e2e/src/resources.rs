//! Envoy resources as JSON, what `lockgate serve --resources` reads, for every way in which an Envoy can fetch them.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::certificates::Pair;

/// How an Envoy fetches all that it fetches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fetch {
    /// All types over one stream, incremental.
    AdsDelta,
    /// All types over one stream, state of the world.
    AdsSotw,
    /// A stream for each type, and for each name of a type that is asked for by name; incremental.
    StreamsDelta,
    /// The same, state of the world.
    StreamsSotw,
    /// Polling: JSON over HTTP/1.1.
    Rest,
}

/// The name of the controller among an Envoy's clusters.
const CONTROLLER: &str = "controller";

impl Fetch {
    /// Whether all types come over one stream, so that an order between them can be kept.
    pub fn aggregated(self) -> bool {
        matches!(self, Fetch::AdsDelta | Fetch::AdsSotw)
    }

    /// Whether only what has changed is sent.
    pub fn delta(self) -> bool {
        matches!(self, Fetch::AdsDelta | Fetch::StreamsDelta)
    }

    /// A `ConfigSource`: where a resource, or a bootstrap, says that others are to be had.
    pub fn source(self) -> Value {
        match self {
            Fetch::AdsDelta | Fetch::AdsSotw => json!({ "ads": {}, "resource_api_version": "V3" }),
            Fetch::StreamsDelta | Fetch::StreamsSotw | Fetch::Rest => {
                json!({ "resource_api_version": "V3", "api_config_source": self.api() })
            }
        }
    }

    /// How the server is called.
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

    /// The bootstrap of an Envoy that fetches clusters and listeners from the controller at this port.
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

/// A message of this type.
pub fn typed(name: &str, mut message: Value) -> Value {
    message["@type"] = format!("type.googleapis.com/{name}").into();
    message
}

/// A cluster whose endpoints come from `source`.
pub fn cluster(name: &str, source: &Value) -> Value {
    let cluster = json!({ "name": name, "type": "EDS", "connect_timeout": "1s",
        "eds_cluster_config": { "eds_config": source } });
    typed("envoy.config.cluster.v3.Cluster", cluster)
}

/// The endpoints of a cluster.
pub fn endpoints(name: &str, at: &[SocketAddr]) -> Value {
    typed("envoy.config.endpoint.v3.ClusterLoadAssignment", load_assignment(name, at))
}

fn load_assignment(name: &str, at: &[SocketAddr]) -> Value {
    let endpoints: Vec<Value> = at.iter().map(|at| json!({ "endpoint": { "address": address(*at) } })).collect();
    json!({ "cluster_name": name, "endpoints": [{ "lb_endpoints": endpoints }] })
}

/// A listener of plain HTTP on a port of this machine. `routes` is the part of its connection manager that says where
/// its routes are to be had: [`rds`] and its like.
pub fn listener(name: &str, port: u16, routes: Value) -> Value {
    let listener = json!({ "name": name, "address": address(local(port)),
        "filter_chains": [{ "filters": [{ "name": "http", "typed_config": manager(name, routes) }] }] });
    typed("envoy.config.listener.v3.Listener", listener)
}

/// A listener as [`listener`] makes it, with TLS: its key pair is the secret `pair` from `source`.
pub fn tls_listener(name: &str, port: u16, routes: Value, pair: &str, source: &Value) -> Value {
    let mut listener = listener(name, port, routes);
    let context = json!({ "common_tls_context": {
        "tls_certificate_sds_secret_configs": [{ "name": pair, "sds_config": source }] } });
    let context = typed("envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext", context);
    listener["filter_chains"][0]["transport_socket"] = json!({ "name": "tls", "typed_config": context });
    listener
}

/// A connection manager.
fn manager(name: &str, routes: Value) -> Value {
    let mut manager = json!({ "stat_prefix": name, "http_filters": [router()] });
    for (field, value) in routes.as_object().into_iter().flatten() {
        manager[field] = value.clone();
    }
    typed("envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", manager)
}

/// The HTTP filter that ends every chain.
pub fn router() -> Value {
    json!({ "name": "router", "typed_config": typed("envoy.extensions.filters.http.router.v3.Router", json!({})) })
}

/// Routes that come from `source`, for [`listener`].
pub fn rds(name: &str, source: &Value) -> Value {
    json!({ "rds": { "route_config_name": name, "config_source": source } })
}

/// A route configuration with these virtual hosts.
pub fn routes(name: &str, hosts: &[Value]) -> Value {
    let routes = json!({ "name": name, "virtual_hosts": hosts });
    typed("envoy.config.route.v3.RouteConfiguration", routes)
}

/// A virtual host: everything for a domain goes to a cluster.
pub fn virtual_host(name: &str, domain: &str, cluster: &str) -> Value {
    json!({ "name": name, "domains": [domain], "routes": [{ "match": { "prefix": "/" }, "route": { "cluster": cluster } }] })
}

/// A key pair.
pub fn secret(name: &str, pair: &Pair) -> Value {
    let pair = json!({ "certificate_chain": { "inline_string": pair.certificate },
        "private_key": { "inline_string": pair.key } });
    typed("envoy.extensions.transport_sockets.tls.v3.Secret", json!({ "name": name, "tls_certificate": pair }))
}
