//! A real Envoy that polls: `api_type: REST` for every type.

use e2e::{Backend, Envoy, Lockgate, Manifests, Source, Target, ports, wait_until};
use serde_json::{Value, json};

/// Where a resource says that others are to be had: by polling.
fn rest() -> Value {
    json!({ "resource_api_version": "V3", "api_config_source": {
        "api_type": "REST", "transport_api_version": "V3", "cluster_names": ["lockgate-rest"],
        "refresh_delay": "0.05s", "request_timeout": "1s" } })
}

fn bootstrap(lockgate: &Lockgate, admin: u16) -> String {
    let address = |port: u16| json!({ "socket_address": { "address": "127.0.0.1", "port_value": port } });
    let endpoint = json!({ "endpoint": { "address": address(lockgate.xds) } });
    json!({
        "node": { "id": "polling", "cluster": "test" },
        "admin": { "address": address(admin) },
        "dynamic_resources": { "cds_config": rest(), "lds_config": rest() },
        "static_resources": { "clusters": [{
            "name": "lockgate-rest", "type": "STATIC", "connect_timeout": "1s",
            "load_assignment": { "cluster_name": "lockgate-rest", "endpoints": [{ "lb_endpoints": [endpoint] }] },
        }] },
    })
    .to_string()
}

fn cluster(name: &str) -> String {
    json!({ "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster", "name": name, "type": "EDS",
        "connect_timeout": "1s", "eds_cluster_config": { "eds_config": rest() } })
    .to_string()
}

fn endpoints(name: &str, backend: &Backend) -> String {
    let address = json!({ "socket_address": { "address": "127.0.0.1", "port_value": backend.port() } });
    json!({ "@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment", "cluster_name": name,
        "endpoints": [{ "lb_endpoints": [{ "endpoint": { "address": address } }] }] })
    .to_string()
}

fn listener(port: u16) -> String {
    let manager = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    let router = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
    json!({ "@type": "type.googleapis.com/envoy.config.listener.v3.Listener", "name": "web",
        "address": { "socket_address": { "address": "127.0.0.1", "port_value": port } },
        "filter_chains": [{ "filters": [{ "name": "http", "typed_config": {
            "@type": format!("type.googleapis.com/{manager}"), "stat_prefix": "web",
            "rds": { "route_config_name": "web", "config_source": rest() },
            "http_filters": [{ "name": "router", "typed_config": { "@type": router } }] } }] }] })
    .to_string()
}

fn routes(cluster: &str) -> String {
    json!({ "@type": "type.googleapis.com/envoy.config.route.v3.RouteConfiguration", "name": "web",
        "virtual_hosts": [{ "name": "all", "domains": ["*"],
            "routes": [{ "match": { "prefix": "/" }, "route": { "cluster": cluster } }] }] })
    .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envoy_that_polls_is_served() {
    let (first, second) = (Backend::start("first").await, Backend::start("second").await);
    let port = ports::free();
    let files = Manifests::new();
    files.write("cluster.json", &cluster("shop"));
    files.write("endpoints.json", &endpoints("shop", &first));
    files.write("routes.json", &routes("shop"));
    files.write("web.json", &listener(port));
    let lockgate = Lockgate::start(&Source::Resources(files.path().into()), &[]).await;
    let admin = ports::free();
    let mut envoy = Envoy::launch_with(&bootstrap(&lockgate, admin), admin);
    envoy.wait_ready().await;
    let target = Target::http(port, "any.test");
    let served_by = async |name: &str| {
        wait_until(&format!("an answer from {name}"), async || target.backend("/").await.as_deref() == Some(name)).await
    };
    served_by("first").await;

    files.write("endpoints.json", &endpoints("shop", &second));
    let time = served_by("second").await;
    println!("endpoints edited in a directory of resources, by REST: served after {} ms", time.as_millis());

    files.write("other.json", &format!("[{}, {}]", cluster("other"), endpoints("other", &first)));
    wait_until("the new cluster", async || envoy.stat("cluster.other.membership_healthy").await == 1).await;
    files.write("routes.json", &routes("other"));
    served_by("first").await;

    // Polls that find nothing new are held and end well: no failure is ever counted.
    wait_until("some polls", async || envoy.stat("cluster_manager.cds.update_attempt").await >= 5).await;
    let failures = envoy.stats("update_failure|update_rejected").await;
    assert!(failures.values().all(|count| *count == 0), "{failures:?}\n{:?}", envoy.warnings());
    files.remove("web.json");
    wait_until("no listener", async || target.get("/").await.is_err()).await;
}
