//! Less common types with a real Envoy: extension configurations (ECDS), runtime layers (RTDS), and scoped routes
//! (SRDS). Each is started, changed, and removed.

use std::collections::BTreeMap;

use e2e::load::Plan;
use e2e::resources::{cluster, endpoints, listener, rds, router, routes, typed, virtual_host};
use e2e::{Backend, Envoy, Fetch, Load, Lockgate, Manifests, Source, Target, ports, wait_everywhere, wait_until};
use serde_json::{Value, json};

const FLIPS: usize = 10;

/// An Envoy with the clusters `a` and `b`, and additional resources.
struct Site {
    fetch: Fetch,
    backends: [Backend; 2],
    port: u16,
    files: Manifests,
    lockgate: Lockgate,
    envoy: Envoy,
}

impl Site {
    /// Starts a site. `extend` changes the bootstrap, and `resources` returns the initial resources.
    async fn open(fetch: Fetch, extend: impl FnOnce(&mut Value), resources: impl FnOnce(u16) -> Vec<Value>) -> Self {
        let backends = [Backend::start("a").await, Backend::start("b").await];
        let (files, port, admin) = (Manifests::new(), ports::free(), ports::free());
        let lockgate = Lockgate::launch(&Source::Resources(files.path().into()), &[]);
        let mut bootstrap = fetch.bootstrap(lockgate.xds, admin);
        extend(&mut bootstrap);
        let envoy = Envoy::launch_with(&bootstrap.to_string(), admin);
        let mut site = Self { fetch, backends, port, files, lockgate, envoy };
        site.publish(resources(port));
        site.lockgate.wait_ready().await;
        site.envoy.wait_ready().await;
        site
    }

    /// Publishes `resources` and the clusters.
    fn publish(&self, mut resources: Vec<Value>) {
        let source = self.fetch.source();
        for (name, backend) in ["a", "b"].iter().zip(&self.backends) {
            resources.extend([cluster(name, &source), endpoints(name, &[backend.address])]);
        }
        self.files.write("world.json", &Value::Array(resources).to_string());
    }

    fn target(&self, host: &str) -> Target {
        Target::http(self.port, host)
    }

    async fn wait_served(&self, host: &str, by: &str) {
        let target = self.target(host);
        wait_everywhere(&format!("{host} by {by}"), async || target.backend("/").await.as_deref() == Some(by)).await;
    }

    async fn load(&self, host: &str) -> Load {
        Load::start(Plan { rate: 300, connections: 8, ..Plan::new(self.target(host), "/") }).await
    }

    async fn assert_no_failure(&self, step: &str, load: Load) {
        let report = load.stop().await;
        println!("{:?}, {step}: {report}", self.fetch);
        assert_eq!(report.failed(), 0, "{report}");
    }
}

/// Returns a filter that adds `x-mark` to each response.
fn mark(value: &str) -> Value {
    let header = json!({ "append": { "header": { "key": "x-mark", "value": value } } });
    let name = "envoy.extensions.filters.http.header_mutation.v3.HeaderMutation";
    typed(name, json!({ "mutations": { "response_mutations": [header] } }))
}

/// An HTTP filter with a discovered configuration, and a default configuration until it arrives.
async fn a_filter_configuration(fetch: Fetch) {
    let source = fetch.source();
    let world = |port: u16, marked: Option<&str>| {
        let mut manager = rds("web", &source);
        manager["http_filters"] = json!([{ "name": "marker", "config_discovery": { "config_source": source,
            "type_urls": [mark("")["@type"]], "default_config": mark("none") } }, router()]);
        let mut all = vec![listener("web", port, manager), routes("web", &[virtual_host("all", "*", "a")])];
        all.extend(marked.map(|value| {
            typed("envoy.config.core.v3.TypedExtensionConfig", json!({ "name": "marker", "typed_config": mark(value) }))
        }));
        all
    };
    let site = Site::open(fetch, |_| {}, |port| world(port, Some("first"))).await;
    let marked = async |value: &str| {
        let target = site.target("any.test");
        wait_until(&format!("the mark {value}"), async || {
            target.get("/").await.is_ok_and(|answer| answer.status == 200 && answer.header("x-mark") == value)
        })
        .await
    };
    marked("first").await;
    let load = site.load("any.test").await;
    for i in 0..FLIPS {
        let value = format!("number {i}");
        site.publish(world(site.port, Some(&value)));
        marked(&value).await;
    }
    if fetch.delta() {
        site.publish(world(site.port, None));
        marked("none").await;
        site.publish(world(site.port, Some("again")));
        marked("again").await;
    }
    site.assert_no_failure(&format!("{FLIPS} changes of a filter's configuration"), load).await;
    site.publish(vec![]);
    let target = site.target("any.test");
    wait_until("no listener", async || target.get("/").await.is_err()).await;
}

/// A runtime layer that redirects requests to another cluster.
async fn a_runtime_layer(fetch: Fetch) {
    let source = fetch.source();
    let world = |port: u16, percent: Option<u32>| {
        let mut host = virtual_host("all", "*", "a");
        let fraction = json!({ "default_value": { "numerator": 0 }, "runtime_key": "lead.to.b" });
        let lead = json!({ "match": { "prefix": "/", "runtime_fraction": fraction }, "route": { "cluster": "b" } });
        host["routes"].as_array_mut().expect("routes").insert(0, lead);
        let mut all = vec![listener("web", port, rds("web", &source)), routes("web", &[host])];
        all.extend(percent.map(|percent| {
            typed("envoy.service.runtime.v3.Runtime", json!({ "name": "layer", "layer": { "lead.to.b": percent } }))
        }));
        all
    };
    let layer = json!({ "name": "discovered", "rtds_layer": { "name": "layer", "rtds_config": source } });
    let extend = |bootstrap: &mut Value| bootstrap["layered_runtime"] = json!({ "layers": [layer] });
    let site = Site::open(fetch, extend, |port| world(port, Some(100))).await;
    site.wait_served("any.test", "b").await;
    let load = site.load("any.test").await;
    for i in 0..FLIPS {
        let (percent, by) = [(0, "a"), (100, "b")][i % 2];
        site.publish(world(site.port, Some(percent)));
        site.wait_served("any.test", by).await;
    }
    if fetch.delta() {
        site.publish(world(site.port, None));
        site.wait_served("any.test", "a").await;
        site.publish(world(site.port, Some(100)));
        site.wait_served("any.test", "b").await;
    }
    site.assert_no_failure(&format!("{FLIPS} changes of a runtime layer"), load).await;
}

/// Scopes by host, each with its own named route configuration.
async fn o15_scoped_routes(fetch: Fetch) {
    let source = fetch.source();
    // The name of the routes and the cluster of each host.
    let world = |port: u16, scopes: &[(&str, &str, &str)]| {
        let by_host = json!({ "fragments": [{ "header_value_extractor": { "name": ":authority", "index": 0 } }] });
        let scoped = json!({ "scoped_routes": { "name": "scopes", "scope_key_builder": by_host,
            "rds_config_source": source, "scoped_rds": { "scoped_rds_config_source": source } } });
        let mut all = vec![listener("web", port, scoped)];
        let tables: BTreeMap<_, _> = scopes.iter().map(|(_, name, cluster)| (name, cluster)).collect();
        all.extend(tables.iter().map(|(name, cluster)| routes(name, &[virtual_host("all", "*", cluster)])));
        for (host, name, _) in scopes {
            let key = json!({ "fragments": [{ "string_key": host }] });
            let scope = json!({ "name": host, "route_configuration_name": name, "key": key });
            all.push(typed("envoy.config.route.v3.ScopedRouteConfiguration", scope));
        }
        all
    };
    let site =
        Site::open(fetch, |_| {}, |port| world(port, &[("one.test", "one", "a"), ("two.test", "two", "b")])).await;
    site.wait_served("one.test", "a").await;
    site.wait_served("two.test", "b").await;
    assert_eq!(site.target("three.test").get("/").await.expect("an answer").status, 404);
    let load = site.load("one.test").await;
    for i in 0..FLIPS {
        let cluster = ["b", "a"][i % 2];
        site.publish(world(site.port, &[("one.test", "one", cluster), ("two.test", "two", "b")]));
        site.wait_served("one.test", cluster).await;
    }
    site.publish(world(site.port, &[("one.test", "one", "a"), ("two.test", "two", "b"), ("three.test", "three", "a")]));
    site.wait_served("three.test", "a").await;
    site.publish(world(site.port, &[("one.test", "one", "a"), ("three.test", "three", "a")]));
    let two = site.target("two.test");
    wait_until("the end of two.test", async || two.get("/").await.is_ok_and(|answer| answer.status == 404)).await;
    site.wait_served("one.test", "a").await;
    site.assert_no_failure(&format!("{FLIPS} changes of scoped routes, a scope added, one removed"), load).await;

    // A scope with other routes. Envoy uses them immediately, so another scope must already reference them. Otherwise,
    // Envoy answers 404 until they arrive, which is counted.
    let leads_to = |routes: &'static str, cluster: &'static str| {
        [("one.test", routes, cluster), ("three.test", "three", "a"), ("spare.test", "spare", "b")]
    };
    site.publish(world(site.port, &leads_to("one", "a")));
    site.wait_served("spare.test", "b").await;
    let load = site.load("one.test").await;
    for i in 0..FLIPS {
        let (name, cluster) = [("spare", "b"), ("three", "a")][i % 2];
        site.publish(world(site.port, &leads_to(name, cluster)));
        site.wait_served("one.test", cluster).await;
    }
    site.assert_no_failure(&format!("{FLIPS} times routes of another scope for a scope"), load).await;
    let load = site.load("one.test").await;
    for i in 0..FLIPS {
        let (name, cluster) = [("new", "b"), ("newer", "a")][i % 2];
        site.publish(world(site.port, &leads_to(name, cluster)));
        site.wait_served("one.test", cluster).await;
    }
    let report = load.stop().await;
    println!("{fetch:?}, {FLIPS} times new routes for a scope: {report}");
    assert_eq!(site.lockgate.metric("lockgate_xds_nacks_total", &[]).await, 0.0);
}

/// Runs each case with each transport.
macro_rules! in_every_way {
    ($($case:ident),* $(,)?) => {
        in_every_way!(@ over_an_aggregated_delta_stream AdsDelta $($case)*);
        in_every_way!(@ over_an_aggregated_sotw_stream AdsSotw $($case)*);
        in_every_way!(@ over_delta_streams_of_one_type StreamsDelta $($case)*);
        in_every_way!(@ over_sotw_streams_of_one_type StreamsSotw $($case)*);
        in_every_way!(@ by_polling Rest $($case)*);
    };
    (@ $module:ident $fetch:ident $($case:ident)*) => {
        mod $module {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(e2e::Fetch::$fetch).await;
            })*
        }
    };
}

in_every_way!(a_filter_configuration, a_runtime_layer, o15_scoped_routes);
