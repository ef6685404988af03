//! The smallest server: one listener for every Envoy that connects. It answers `hello`.
//!
//! ```console
//! cargo run -p lockgate-xds --example hello
//! lockgate bootstrap --xds-address 127.0.0.1:18000 > envoy.yaml && envoy -c envoy.yaml
//! curl http://127.0.0.1:10000/
//! ```

use std::error::Error;
use std::sync::Arc;

use lockgate_xds::protobuf::{EncodedMessage, from_json};
use lockgate_xds::server::{self, Access, Service, Stores};
use lockgate_xds::snapshot::{Resource, ResourceType, Store};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = Arc::new(Store::default());
    store.replace(vec![listener()?]);

    let (_stop, stopping) = tokio::sync::watch::channel(false);
    let service = Arc::new(Service::new(Stores::one(store), stopping));
    let listener = server::listen("127.0.0.1:18000".parse()?).await?;
    println!("xDS listens on {}", listener.local_addr()?);
    Ok(server::serve(listener, Access::PlainFromLoopback, service).await?)
}

/// A listener on port 10000, in the JSON of Envoy's documentation.
fn listener() -> Result<Resource, Box<dyn Error>> {
    let manager = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "hello",
        "route_config": {
            "virtual_hosts": [{
                "name": "all",
                "domains": ["*"],
                "routes": [{
                    "match": { "prefix": "/" },
                    "direct_response": { "status": 200, "body": { "inline_string": "hello\n" } },
                }],
            }],
        },
        "http_filters": [{
            "name": "router",
            "typed_config": { "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router" },
        }],
    });
    let listener = json!({
        "@type": ResourceType::LISTENER.url(),
        "name": "hello",
        "address": { "socket_address": { "address": "127.0.0.1", "port_value": 10000 } },
        "filter_chains": [{ "filters": [{ "name": "http", "typed_config": manager }] }],
    });
    let EncodedMessage { message, .. } = from_json(&listener)?;
    Ok(Resource::from_encoded(ResourceType::LISTENER, "hello", &message, vec![]))
}
