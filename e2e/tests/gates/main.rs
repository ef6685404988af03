//! Gates on a real Envoy under load: a route never leads to a cluster that Envoy has not accepted.
//!
//! Clusters that warm slowly are behind a health check whose first answer takes seconds: Envoy holds its ACK until then.

use std::time::{Duration, Instant};

use e2e::load::{Plan, Report};
use e2e::wait::wait_at_most;
use e2e::{Backend, Envoy, Fetch, Load, Lockgate, Manifests, Source, Target, ports, resources, wait_until};
use serde_json::{Value, json};

/// A world of one listener, whose routes `r` lead to one cluster.
struct World {
    fetch: Fetch,
    port: u16,
    backend: Backend,
    files: Manifests,
}

impl World {
    async fn new(fetch: Fetch) -> Self {
        Self { fetch, port: ports::free(), backend: Backend::start("a").await, files: Manifests::new() }
    }

    fn cluster(&self, name: &str) -> [Value; 2] {
        [resources::cluster(name, &self.fetch.source()), resources::endpoints(name, &[self.backend.address])]
    }

    /// A cluster that is warm after this time.
    fn slow(&self, name: &str, warm_up: Duration) -> [Value; 2] {
        let [mut cluster, endpoints] = self.cluster(name);
        cluster["health_checks"] = json!([{ "timeout": "60s", "interval": "60s", "healthy_threshold": 1,
            "unhealthy_threshold": 1, "http_health_check": { "path": format!("/after/{}", warm_up.as_millis()) } }]);
        [cluster, endpoints]
    }

    /// A cluster that Envoy rejects.
    fn bad(&self, name: &str) -> [Value; 2] {
        let [mut cluster, endpoints] = self.cluster(name);
        cluster["type"] = "STATIC".into();
        cluster.as_object_mut().expect("an object").remove("eds_cluster_config");
        cluster["load_assignment"] = json!({ "cluster_name": name, "endpoints": [{ "lb_endpoints": [{ "endpoint":
            { "address": { "socket_address": { "address": "no address", "port_value": 1 } } } }] }] });
        [cluster, endpoints]
    }

    /// Publishes these clusters, and routes that lead to `to`, in one change.
    fn publish(&self, to: &str, clusters: &[[Value; 2]]) {
        let listener = resources::listener("l", self.port, resources::rds("r", &self.fetch.source()));
        let routes = resources::routes("r", &[resources::virtual_host("all", "*", to)]);
        let all: Vec<&Value> = clusters.iter().flatten().chain([&listener, &routes]).collect();
        let documents: Vec<String> = all.iter().map(ToString::to_string).collect();
        self.files.write("all.yaml", &documents.join("\n---\n"));
    }

    fn target(&self) -> Target {
        Target::http(self.port, "any.test")
    }

    async fn controller(&self) -> Lockgate {
        Lockgate::start(&Source::Resources(self.files.path().into()), &[]).await
    }

    /// An Envoy that serves `a`.
    async fn envoy(&self, lockgate: &Lockgate) -> Envoy {
        self.publish("a", &[self.cluster("a")]);
        let admin = ports::free();
        let bootstrap = self.fetch.bootstrap(lockgate.xds, admin).to_string();
        let mut envoy = Envoy::launch_with(&bootstrap, admin);
        envoy.wait_ready().await;
        wait_until("the route to a to be served", async || self.target().backend("/").await.is_some()).await;
        envoy
    }
}

fn all_answered(report: &Report, what: &str, fetch: Fetch) {
    println!("{what}, {fetch:?}: {report}");
    assert_eq!(report.failed(), 0, "{report}");
}

/// The route moves to a cluster that Envoy rejects, then on to a third, which warms slowly, while the rejected cluster is
/// removed: the old route serves until the third is warm.
async fn a_route_moves_on_from_a_rejected_cluster(fetch: Fetch) {
    let world = World::new(fetch).await;
    let lockgate = world.controller().await;
    let envoy = world.envoy(&lockgate).await;
    let load = Load::start(Plan::new(world.target(), "/")).await;
    world.publish("bad", &[world.bad("bad")]);
    lockgate.logged(&["NACK", "type_url=Cluster", "bad"]).await;
    load.answers(500).await;
    let start = Instant::now();
    world.publish("good", &[world.slow("good", Duration::from_secs(3))]);
    envoy.wait_routed_to("good").await;
    assert!(start.elapsed() >= Duration::from_secs(3), "the cluster warms for {:?} only", start.elapsed());
    load.answers(500).await;
    all_answered(&load.stop().await, "a route moves on from a rejected cluster", fetch);
}

#[tokio::test(flavor = "multi_thread")]
async fn o18_a_route_moves_on_from_a_rejected_cluster_delta() {
    a_route_moves_on_from_a_rejected_cluster(Fetch::AdsDelta).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o18_a_route_moves_on_from_a_rejected_cluster_sotw() {
    a_route_moves_on_from_a_rejected_cluster(Fetch::AdsSotw).await;
}

/// A cluster is renamed while the controller is down, and another one is warming when Envoy comes back.
async fn a_rename_before_a_reconnect_while_warming(fetch: Fetch, warm_up: Duration) -> Report {
    let world = World::new(fetch).await;
    let mut lockgate = world.controller().await;
    let envoy = world.envoy(&lockgate).await;
    let load = Load::start(Plan::new(world.target(), "/")).await;
    world.publish("a", &[world.cluster("a"), world.slow("w", warm_up)]);
    wait_until("a warming cluster", async || envoy.stat("cluster_manager.warming_clusters").await == 1).await;
    lockgate.kill();
    load.answers(100).await;
    world.publish("d", &[world.cluster("d"), world.slow("w", warm_up)]);
    lockgate.restart();
    lockgate.wait_ready().await;
    wait_at_most(
        Duration::from_secs(60),
        Duration::from_millis(100),
        "a route to d, and no warming cluster",
        async || {
            let routes = envoy.get("/config_dump?resource=dynamic_route_configs").await.text();
            (routes.contains("\"d\"") && envoy.stat("cluster_manager.warming_clusters").await == 0).then_some(())
        },
    )
    .await;
    load.answers(500).await;
    let report = load.stop().await;
    println!("a rename before a reconnect while a cluster warms for {warm_up:?}, {fetch:?}: {report}");
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn o29_a_rename_before_a_reconnect_in_a_short_warm_up_delta() {
    let report = a_rename_before_a_reconnect_while_warming(Fetch::AdsDelta, Duration::from_secs(3)).await;
    assert_eq!(report.failed(), 0, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn o29_a_rename_before_a_reconnect_in_a_long_warm_up_delta() {
    let report = a_rename_before_a_reconnect_while_warming(Fetch::AdsDelta, Duration::from_secs(27)).await;
    assert_eq!(report.failed(), 0, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn o29_a_rename_before_a_reconnect_in_a_short_warm_up_sotw() {
    let report = a_rename_before_a_reconnect_while_warming(Fetch::AdsSotw, Duration::from_secs(3)).await;
    assert_eq!(report.failed(), 0, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn o29_a_rename_before_a_reconnect_in_a_long_warm_up_sotw() {
    let report = a_rename_before_a_reconnect_while_warming(Fetch::AdsSotw, Duration::from_secs(27)).await;
    assert_eq!(report.failed(), 0, "{report}");
}
