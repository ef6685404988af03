#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod config_source;
mod disk;
mod exporter;
mod plan;

use std::sync::Arc;

use lockgate_xds::protobuf;
use lockgate_xds::snapshot::{Resource, ResourceType};
use serde_json::{Value, json};

use super::item::{Item, Items};

/// Builds the resource of type `kind` with these fields.
fn resource(kind: ResourceType, mut fields: Value) -> Resource {
    fields["@type"] = kind.url().into();
    let read = protobuf::from_json(&fields).unwrap();
    Resource::from_encoded(kind, read.name.as_deref().unwrap_or_default(), &read.message, Vec::new())
}

fn ads() -> Value {
    json!({"ads": {}, "resource_api_version": "V3"})
}

fn cluster(name: &str) -> Resource {
    resource(ResourceType::CLUSTER, json!({"name": name, "type": "EDS", "eds_cluster_config": {"eds_config": ads()}}))
}

/// Builds endpoints. Versions of them differ in `port`.
fn endpoints(name: &str, port: u16) -> Resource {
    let address = json!({"socket_address": {"address": "127.0.0.1", "port_value": port}});
    let endpoints = json!([{"lb_endpoints": [{"endpoint": {"address": address}}]}]);
    resource(ResourceType::ENDPOINTS, json!({"cluster_name": name, "endpoints": endpoints}))
}

fn routes(name: &str, cluster: &str) -> Resource {
    let routes = json!([{"match": {"prefix": "/"}, "route": {"cluster": cluster}}]);
    let hosts = json!([{"name": "all", "domains": ["*"], "routes": routes}]);
    resource(ResourceType::ROUTES, json!({"name": name, "virtual_hosts": hosts}))
}

fn listener(name: &str, routes: &str) -> Resource {
    let manager = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    let config = json!({"@type": format!("type.googleapis.com/{manager}"), "stat_prefix": "x",
        "rds": {"route_config_name": routes, "config_source": ads()}});
    let filters = json!([{"name": "http", "typed_config": config}]);
    resource(ResourceType::LISTENER, json!({"name": name, "filter_chains": [{"filters": filters}]}))
}

/// Converts resources to their file form.
fn items(resources: impl IntoIterator<Item = Resource>) -> Items {
    let item = |resource: Resource| {
        let key = (resource.kind(), resource.name().clone());
        (key, Arc::new(Item { version: resource.version(), resource }))
    };
    resources.into_iter().map(item).collect()
}
