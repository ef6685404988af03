//! A real Envoy that subscribes to URIs: singletons, glob collections, and the endpoints of a locality.

use std::net::SocketAddr;

use e2e::{Backend, Envoy, Fetch, Lockgate, Manifests, Source, Target, ports, resources, wait_until};
use serde_json::{Value, json};

/// The prefix of names of endpoints, and of their collections.
const ENDPOINT: &str = "xdstp://lockgate/envoy.config.endpoint.v3.LbEndpoint";

/// Formats an endpoint as a separate resource, which has its name only in a wrapper.
fn endpoint(name: &str, at: SocketAddr) -> String {
    let mut endpoints = resources::endpoints("", &[at]);
    let mut endpoint = endpoints["endpoints"][0]["lb_endpoints"][0].take();
    endpoint["@type"] = "type.googleapis.com/envoy.config.endpoint.v3.LbEndpoint".into();
    json!({ "name": format!("{ENDPOINT}/{name}"), "resource": endpoint }).to_string()
}

/// Formats an assignment whose endpoints are in the collection `collection`.
fn assignment(fetch: Fetch, name: &str, collection: &str) -> Value {
    let mut assignment = resources::endpoints(name, &[]);
    assignment["endpoints"] = json!([{
        "locality": { "zone": "a" }, "load_balancing_weight": 1,
        "leds_cluster_locality_config": {
            "leds_config": fetch.source(), "leds_collection_name": format!("{ENDPOINT}/{collection}/*"),
        },
    }]);
    assignment
}

/// Creates a directory with a listener `web` whose routes use the cluster `shop`.
fn site(fetch: Fetch, port: u16) -> Manifests {
    let source = fetch.source();
    let files = Manifests::new();
    files.write("cluster.json", &resources::cluster("shop", &source).to_string());
    files.write("web.json", &resources::listener("web", port, resources::rds("web", &source)).to_string());
    let host = resources::virtual_host("all", "*", "shop");
    files.write("routes.json", &resources::routes("web", &[host]).to_string());
    files
}

async fn envoy_of(fetch: Fetch, lockgate: &Lockgate) -> Envoy {
    let admin = ports::free();
    Envoy::launch_with(&fetch.bootstrap(lockgate.xds, admin).to_string(), admin)
}

#[tokio::test(flavor = "multi_thread")]
async fn d29_the_endpoints_of_a_locality_come_and_go_one_by_one() {
    come_and_go(Fetch::AdsDelta).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d29_the_endpoints_of_a_locality_have_a_service_of_their_own() {
    come_and_go(Fetch::StreamsDelta).await;
}

async fn come_and_go(fetch: Fetch) {
    let (first, second) = (Backend::start("first").await, Backend::start("second").await);
    let port = ports::free();
    let files = site(fetch, port);
    files.write("assignment.json", &assignment(fetch, "shop", "shop").to_string());
    files.write("first.json", &endpoint("shop/1", first.address));
    files.write("other.json", &endpoint("shopping/1", second.address));
    let lockgate = Lockgate::start(&Source::Resources(files.path().into()), &[]).await;
    let mut envoy = envoy_of(fetch, &lockgate).await;
    envoy.wait_ready().await;
    let target = Target::http(port, "any.test");
    let healthy = async |count| {
        let what = format!("{count} endpoints");
        wait_until(&what, async || envoy.stat("cluster.shop.membership_healthy").await == count).await
    };
    wait_until("the first", async || target.backend("/").await.as_deref() == Some("first")).await;
    healthy(1).await;

    files.write("second.json", &endpoint("shop/2", second.address));
    healthy(2).await;
    files.remove("first.json");
    healthy(1).await;
    wait_until("the second", async || target.backend("/").await.as_deref() == Some("second")).await;
    files.remove("second.json");
    healthy(0).await;
    files.write("first.json", &endpoint("shop/1", first.address));
    let time = wait_until("the first again", async || target.backend("/").await.as_deref() == Some("first")).await;
    println!("an endpoint of a locality written, {fetch:?}: served after {} ms", time.as_millis());
    let failures = envoy.stats("update_failure|update_rejected").await;
    assert!(failures.values().all(|count| *count == 0), "{failures:?}\n{:?}", envoy.warnings());
}

#[tokio::test(flavor = "multi_thread")]
async fn d29_an_empty_collection_does_not_hold_up_the_start() {
    let (fetch, port) = (Fetch::AdsDelta, ports::free());
    let files = site(fetch, port);
    files.write("assignment.json", &assignment(fetch, "shop", "nobody").to_string());
    let lockgate = Lockgate::start(&Source::Resources(files.path().into()), &[]).await;
    let mut envoy = envoy_of(fetch, &lockgate).await;
    let time = envoy.wait_ready().await;
    assert!(time.as_secs() < 10, "{} ms, with an initial fetch time-out of 15 s", time.as_millis());
    let first = Backend::start("first").await;
    files.write("first.json", &endpoint("nobody/1", first.address));
    let target = Target::http(port, "any.test");
    wait_until("the first", async || target.backend("/").await.as_deref() == Some("first")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v6_clusters_and_listeners_are_collections_and_endpoints_have_a_context() {
    let (first, second) = (Backend::start("first").await, Backend::start("second").await);
    let port = ports::free();
    let source = Fetch::AdsDelta.source();
    let named = |kind: &str, id: &str| format!("xdstp://lockgate/envoy.config.{kind}/{id}");
    // Two spellings of the same name.
    let (wanted, given) = ("eds?zone=b&env=test", "eds?env=test&zone=%62");
    let assignment = |at: SocketAddr| {
        let asked = named("endpoint.v3.ClusterLoadAssignment", wanted);
        let name = named("endpoint.v3.ClusterLoadAssignment", given);
        json!({ "name": name, "resource": resources::endpoints(&asked, &[at]) }).to_string()
    };
    let cluster_name = named("cluster.v3.Cluster", "site/shop");
    let mut cluster = resources::cluster(&cluster_name, &source);
    cluster["eds_cluster_config"]["service_name"] = named("endpoint.v3.ClusterLoadAssignment", wanted).into();
    let files = Manifests::new();
    files.write("cluster.json", &cluster.to_string());
    files.write("assignment.json", &assignment(first.address));
    let host = resources::virtual_host("all", "*", &cluster_name);
    let routes_name = named("route.v3.RouteConfiguration", "web");
    files.write("routes.json", &resources::routes(&routes_name, &[host]).to_string());
    let listener = named("listener.v3.Listener", "site/web");
    let rds = resources::rds(&routes_name, &source);
    files.write("web.json", &resources::listener(&listener, port, rds).to_string());
    let lockgate = Lockgate::start(&Source::Resources(files.path().into()), &[]).await;
    let admin = ports::free();
    let mut bootstrap = Fetch::AdsDelta.bootstrap(lockgate.xds, admin);
    let dynamic = &mut bootstrap["dynamic_resources"];
    dynamic["cds_resources_locator"] = named("cluster.v3.Cluster", "site/*").into();
    dynamic["lds_resources_locator"] = named("listener.v3.Listener", "site/*").into();
    let mut envoy = Envoy::launch_with(&bootstrap.to_string(), admin);
    envoy.wait_ready().await;
    let target = Target::http(port, "any.test");
    wait_until("the first", async || target.backend("/").await.as_deref() == Some("first")).await;
    files.write("assignment.json", &assignment(second.address));
    wait_until("the second", async || target.backend("/").await.as_deref() == Some("second")).await;
    files.remove("web.json");
    wait_until("no listener", async || target.get("/").await.is_err()).await;
    let failures = envoy.stats("update_failure|update_rejected").await;
    assert!(failures.values().all(|count| *count == 0), "{failures:?}\n{:?}", envoy.warnings());
}
