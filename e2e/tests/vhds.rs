//! Virtual host discovery (VHDS) by a real Envoy, over the aggregated stream and over a separate stream.
//!
//! Envoy needs more than the general delta rules. Each requirement has a test.

use std::collections::BTreeMap;
use std::time::Duration;

use e2e::load::Plan;
use e2e::{
    Backend, Envoy, Fetch, Load, Lockgate, Manifests, Source, Target, ports, resources, wait_everywhere, wait_until,
};
use serde_json::{Value, json};

/// The time for which a listener warms without a valid response.
const WARMING: Duration = Duration::from_secs(15);
const FLIPS: usize = 20;

/// A route configuration, and the listener that uses it.
struct Routes {
    port: u16,
    /// Whether its virtual hosts are discovered.
    discovers: bool,
    inline: Vec<Value>,
    stat_prefix: String,
    filters: Vec<Value>,
}

/// An Envoy with two clusters, `a` and `b`.
struct Site {
    /// The transport of the virtual hosts, and of all other resources.
    fetch: Fetch,
    hosts_from: Fetch,
    routes: BTreeMap<String, Routes>,
    hosts: BTreeMap<String, Value>,
    backends: [Backend; 2],
    files: Manifests,
    lockgate: Lockgate,
    envoy: Envoy,
}

/// Returns the virtual host `r/shop` with these domains.
fn host(name: &str, domains: &[&str], cluster: &str) -> (String, Value) {
    let mut host = resources::virtual_host(name, "", cluster);
    host["domains"] = json!(domains);
    (name.to_owned(), host)
}

impl Site {
    /// Starts a site with the route configuration `r` and these hosts. It does not wait for Envoy.
    async fn launch(fetch: Fetch, hosts_from: Fetch, hosts: impl IntoIterator<Item = (String, Value)>) -> Self {
        let backends = [Backend::start("a").await, Backend::start("b").await];
        let files = Manifests::new();
        let lockgate = Lockgate::launch(&Source::Resources(files.path().into()), &[]);
        let admin = ports::free();
        let bootstrap = fetch.bootstrap(lockgate.xds, admin).to_string();
        // Short, because the routes of a removed listener stay until it is drained.
        let envoy = Envoy::launch_with_flags(&bootstrap, admin, &["--drain-time-s", "1"]);
        let hosts = hosts.into_iter().collect();
        let mut site = Self { fetch, hosts_from, routes: BTreeMap::new(), hosts, backends, files, lockgate, envoy };
        site.discovering("r");
        site.publish();
        site.lockgate.wait_ready().await;
        site
    }

    /// Like [`Site::launch`], and waits until Envoy is ready.
    async fn open(hosts_from: Fetch, hosts: impl IntoIterator<Item = (String, Value)>) -> Self {
        let mut site = Self::launch(Fetch::AdsDelta, hosts_from, hosts).await;
        site.envoy.wait_ready().await;
        site
    }

    /// Adds a route configuration with discovered virtual hosts.
    fn discovering(&mut self, name: &str) {
        let filters = vec![resources::router()];
        let stat_prefix = name.into();
        let routes = Routes { port: ports::free(), discovers: true, inline: Vec::new(), stat_prefix, filters };
        self.routes.insert(name.into(), routes);
    }

    fn r(&mut self) -> &mut Routes {
        self.routes.get_mut("r").expect("the route configuration r")
    }

    fn set(&mut self, name: &str, domains: &[&str], cluster: &str) {
        self.hosts.extend([host(name, domains, cluster)]);
    }

    fn publish(&self) {
        let source = self.fetch.source();
        let mut all = Vec::new();
        for (name, backend) in ["a", "b"].iter().zip(&self.backends) {
            all.extend([resources::cluster(name, &source), resources::endpoints(name, &[backend.address])]);
        }
        for (name, routes) in &self.routes {
            let mut manager = resources::rds(name, &source);
            manager["strip_any_host_port"] = true.into();
            manager["stat_prefix"] = routes.stat_prefix.clone().into();
            manager["http_filters"] = routes.filters.clone().into();
            all.push(resources::listener(name, routes.port, manager));
            let mut configuration = resources::routes(name, &routes.inline);
            if routes.discovers {
                configuration["vhds"] = json!({ "config_source": self.hosts_from.source() });
            }
            all.push(configuration);
        }
        for host in self.hosts.values() {
            all.push(resources::typed("envoy.config.route.v3.VirtualHost", host.clone()));
        }
        self.files.write("world.json", &Value::Array(all).to_string());
    }

    fn target(&self, routes: &str, host: &str) -> Target {
        Target::http(self.routes[routes].port, host)
    }

    /// Waits until a backend serves a host of `r`.
    async fn wait_served(&self, host: &str, by: &str) -> Duration {
        self.wait_served_at("r", host, by).await
    }

    async fn wait_served_at(&self, routes: &str, host: &str, by: &str) -> Duration {
        let target = self.target(routes, host);
        let what = format!("{host} of {routes} to be served by {by}");
        wait_everywhere(&what, async || target.backend("/").await.as_deref() == Some(by)).await
    }

    async fn status(&self, host: &str) -> u16 {
        self.target("r", host).get("/").await.map_or(0, |answer| answer.status)
    }

    /// Waits until a host of `r` answers with this status.
    async fn wait_status(&self, host: &str, status: u16) -> Duration {
        wait_everywhere(&format!("{status} for {host}"), async || self.status(host).await == status).await
    }

    async fn load(&self, host: &str) -> Load {
        Load::start(Plan { rate: 500, connections: 8, ..Plan::new(self.target("r", host), "/") }).await
    }

    /// Returns the number of virtual hosts in responses, sent or rejected.
    async fn sent(&self) -> u64 {
        self.lockgate.metric("lockgate_xds_pushed_resources_total", &["VirtualHost"]).await as u64
    }

    async fn rejected(&self) -> u64 {
        self.lockgate.metric("lockgate_xds_nacks_total", &["VirtualHost"]).await as u64
    }
}

async fn assert_no_failure(step: &str, site: &Site, load: Load) {
    let report = load.stop().await;
    println!("virtual hosts from {:?}, {step}: {report}", site.hosts_from);
    assert_eq!(report.failed(), 0, "{report}");
}

/// Trap 1 concerns removals: Envoy removes virtual hosts by `VirtualHost.name`, so it must equal the name of the
/// resource.
async fn d27_hosts_come_change_and_go_unasked(from: Fetch) {
    let mut site = Site::open(from, [host("r/shop", &["shop.test"], "a"), host("r/b", &["b.test"], "b")]).await;
    site.wait_served("shop.test", "a").await;
    site.wait_served("b.test", "b").await;
    assert_eq!(site.status("unknown.test").await, 404, "plain and at once");
    let load = site.load("shop.test").await;
    site.set("r/late", &["late.test"], "b");
    site.publish();
    site.wait_served("late.test", "b").await;
    for i in 0..FLIPS {
        let cluster = ["b", "a"][i % 2];
        site.set("r/shop", &["shop.test"], cluster);
        site.publish();
        site.wait_served("shop.test", cluster).await;
    }
    site.hosts.remove("r/late");
    site.publish();
    site.wait_status("late.test", 404).await;
    site.set("r/nowhere", &["nowhere.test"], "no-such-cluster");
    site.publish();
    site.wait_status("nowhere.test", 503).await;
    assert_no_failure(&format!("{FLIPS} changes of one, one added, one removed"), &site, load).await;
    assert_eq!(site.rejected().await, 0);
}

async fn d27_domains_match_as_those_of_routes_do(from: Fetch) {
    let several = host("r/several", &["one.test", "*.wild.test"], "a");
    let mut site = Site::open(from, [several, host("r/any", &["*"], "b")]).await;
    for (name, by) in
        [("one.test", "a"), ("x.wild.test", "a"), ("X.WILD.test", "a"), ("one.test:8080", "a"), ("z.test", "b")]
    {
        site.wait_served(name, by).await;
    }
    site.set("r/several", &["two.test"], "a");
    site.hosts.remove("r/any");
    site.publish();
    site.wait_served("two.test", "a").await;
    for gone in ["one.test", "x.wild.test", "z.test"] {
        assert_eq!(site.status(gone).await, 404, "{gone}");
    }
}

async fn d27_updates_of_routes_and_listener_keep_the_hosts(from: Fetch) {
    let mut site = Site::open(from, [host("r/shop", &["shop.test"], "a")]).await;
    site.wait_served("shop.test", "a").await;
    let (load, sent) = (site.load("shop.test").await, site.sent().await);
    site.r().inline = vec![resources::virtual_host("inline", "inline.test", "b")];
    site.publish();
    site.wait_served("inline.test", "b").await;
    let modified = site.envoy.stat("listener_manager.listener_modified").await;
    site.r().stat_prefix = "other".into();
    site.publish();
    wait_until("the new listener", async || {
        site.envoy.stat("listener_manager.listener_modified").await > modified
            && site.envoy.stat("listener_manager.total_listeners_warming").await == 0
    })
    .await;
    load.answers(200).await;
    assert_no_failure("an update of their routes and of the listener", &site, load).await;
    assert_eq!(site.sent().await, sent, "none is sent again");

    site.r().discovers = false;
    site.publish();
    site.wait_status("shop.test", 404).await;
    site.wait_served("inline.test", "b").await;
    site.r().discovers = true;
    site.publish();
    site.wait_served("shop.test", "a").await;
}

async fn d27_a_domain_that_is_taken_inline_is_rejected_and_nothing_lost(from: Fetch) {
    let mut site = Site::open(from, [host("r/shop", &["shop.test"], "a")]).await;
    site.r().inline = vec![resources::virtual_host("inline", "inline.test", "b")];
    site.publish();
    site.wait_served("inline.test", "b").await;
    site.set("r/twin", &["inline.test"], "a");
    site.publish();
    wait_until("a rejection", async || site.rejected().await > 0).await;
    site.wait_served("inline.test", "b").await;
    site.wait_served("shop.test", "a").await;
    site.set("r/twin", &["twin.test"], "a");
    site.publish();
    site.wait_served("twin.test", "a").await;
}

async fn d27_a_domain_moves_between_hosts_in_one_response(from: Fetch) {
    let mut site =
        Site::open(from, [host("r/a", &["a.test", "moving.test"], "a"), host("r/b", &["b.test"], "b")]).await;
    site.wait_served("moving.test", "a").await;
    let load = site.load("moving.test").await;
    for i in 0..FLIPS {
        let to_b = i % 2 == 0;
        site.set("r/a", if to_b { &["a.test"] } else { &["a.test", "moving.test"] }, "a");
        site.set("r/b", if to_b { &["b.test", "moving.test"] } else { &["b.test"] }, "b");
        site.publish();
        site.wait_served("moving.test", if to_b { "b" } else { "a" }).await;
    }
    site.hosts.remove("r/a");
    site.set("r/b", &["b.test", "moving.test"], "b");
    site.publish();
    site.wait_served("moving.test", "b").await;
    site.wait_status("a.test", 404).await;
    assert_no_failure("a domain that moves", &site, load).await;
    assert_eq!(site.rejected().await, 0);
}

/// Envoy rejects the whole response. Its valid resources are sent again with the next correction.
async fn d27_a_bad_host_costs_its_response_until_it_is_mended(from: Fetch) {
    let mut site = Site::open(from, [host("r/shop", &["shop.test"], "a")]).await;
    site.wait_served("shop.test", "a").await;
    let load = site.load("shop.test").await;
    site.set("r/bad", &["shop.test"], "b");
    site.set("r/good", &["good.test"], "b");
    site.publish();
    wait_until("a rejection", async || site.rejected().await > 0).await;
    site.set("r/other", &["other.test"], "b");
    site.publish();
    site.wait_served("other.test", "b").await;
    site.set("r/bad", &["bad.test"], "b");
    site.publish();
    site.wait_served("bad.test", "b").await;
    site.wait_served("good.test", "b").await;
    assert_no_failure("a rejected one", &site, load).await;
}

/// Trap 5: after a reconnection, removed resources must be reported.
async fn d27_an_outage_costs_nothing_and_what_is_gone_is_told(from: Fetch) {
    let all = [host("r/shop", &["shop.test"], "a"), host("r/b", &["b.test"], "b"), host("r/c", &["c.test"], "b")];
    let mut site = Site::open(from, all).await;
    site.wait_served("c.test", "b").await;
    let load = site.load("shop.test").await;
    let streams = site.lockgate.metric("lockgate_xds_streams", &[]).await;
    site.lockgate.restart();
    site.lockgate.wait_ready().await;
    wait_until("the streams", async || site.lockgate.metric("lockgate_xds_streams", &[]).await >= streams).await;
    site.set("r/late", &["late.test"], "b");
    site.publish();
    site.wait_served("late.test", "b").await;
    assert_eq!(site.sent().await, 1, "all else Envoy has");

    site.lockgate.kill();
    load.answers(100).await;
    site.set("r/b", &["b.test"], "a");
    site.hosts.remove("r/c");
    site.publish();
    site.lockgate.restart();
    site.lockgate.wait_ready().await;
    site.wait_served("b.test", "a").await;
    site.wait_status("c.test", 404).await;
    assert_no_failure("two outages of the controller", &site, load).await;
}

/// Trap 2: without an empty first response, the listener would warm for 15 s.
async fn d27_a_listener_without_hosts_opens_at_once(from: Fetch) {
    let mut site = Site::launch(Fetch::AdsDelta, from, []).await;
    // An Envoy that connects before the first publication is ready without a listener.
    let time = site.wait_status("shop.test", 404).await;
    println!("virtual hosts from {from:?}, none of them: open after {} ms", time.as_millis());
    assert!(time < WARMING / 2, "{time:?}");
    site.set("r/shop", &["shop.test"], "a");
    site.publish();
    site.wait_served("shop.test", "a").await;
}

/// Traps 3 and 4: Envoy sends no request for a second route configuration, or for one that is added again. It also
/// discards virtual hosts that arrive before their routes.
async fn d27_other_route_configurations_get_their_hosts_too(from: Fetch) {
    let mut site = Site::open(from, [host("r/shop", &["shop.test"], "a")]).await;
    site.wait_served("shop.test", "a").await;
    for (name, with_a_host) in [("second", true), ("empty", false)] {
        site.discovering(name);
        if with_a_host {
            site.set(&format!("{name}/shop"), &["shop.test"], "b");
        }
        site.publish();
        let time = match with_a_host {
            true => site.wait_served_at(name, "shop.test", "b").await,
            false => {
                let target = site.target(name, "shop.test");
                wait_until("an open listener", async || target.get("/").await.is_ok_and(|a| a.status == 404)).await
            }
        };
        println!("virtual hosts from {from:?}, of the route configuration {name}: after {} ms", time.as_millis());
        assert!(time < WARMING / 2, "{time:?}");
    }
    site.wait_served("shop.test", "a").await;

    let second = site.routes.remove("second").expect("the second");
    site.publish();
    wait_until("the end of the second", async || {
        let dump = site.envoy.get("/config_dump?resource=dynamic_route_configs").await.text();
        !dump.contains("\"name\": \"second\"")
    })
    .await;
    site.routes.insert("second".into(), second);
    site.publish();
    let time = site.wait_served_at("second", "shop.test", "b").await;
    assert!(time < WARMING / 2, "{time:?}");
}

/// Trap 6: the listener opens after the first response, so all virtual hosts must be in one response.
async fn d27_many_hosts_are_all_there_when_the_listener_opens(from: Fetch) {
    const HOSTS: usize = 2000;
    let names: Vec<String> = (0..HOSTS).map(|i| format!("{i}.test")).collect();
    let hosts = names.iter().map(|name| host(&format!("r/{name}"), &[name], "a"));
    let mut site = Site::launch(Fetch::AdsDelta, from, hosts).await;
    let first = site.target("r", &names[0]);
    wait_until("an open listener", async || first.get("/").await.is_ok()).await;
    assert_eq!(site.status(&names[HOSTS - 1]).await, 200, "the last is there as soon as any");
    site.envoy.wait_ready().await;
    let responses = site.lockgate.metric("lockgate_xds_responses_total", &["VirtualHost"]).await;
    assert_eq!(responses, 1.0);
}

/// Trap 8, the filter `on_demand`: Envoy requests an unknown host by name, and holds the request of the client
/// meanwhile.
async fn d27_on_demand_an_unknown_host_is_answered(from: Fetch) {
    let mut site = Site::launch(Fetch::AdsDelta, from, [host("r/shop", &["shop.test"], "a")]).await;
    let filter = resources::typed("envoy.extensions.filters.http.on_demand.v3.OnDemand", json!({}));
    site.r().filters.insert(0, json!({ "name": "on_demand", "typed_config": filter }));
    site.publish();
    site.envoy.wait_ready().await;
    site.wait_served("shop.test", "a").await;
    site.wait_status("unknown.test", 404).await;
    site.set("r/unknown.test", &["unknown.test"], "b");
    site.publish();
    site.wait_served("unknown.test", "b").await;
    site.wait_served("shop.test", "a").await;
}

/// Trap 7: a state-of-the-world stream cannot carry virtual hosts, but a separate delta stream can.
#[tokio::test(flavor = "multi_thread")]
async fn d27_beside_a_sotw_stream_they_come_over_their_own() {
    let mut site = Site::launch(Fetch::AdsSotw, Fetch::StreamsDelta, [host("r/shop", &["shop.test"], "a")]).await;
    site.envoy.wait_ready().await;
    site.wait_served("shop.test", "a").await;
    site.set("r/shop", &["shop.test"], "b");
    site.publish();
    site.wait_served("shop.test", "b").await;
    site.hosts_from = Fetch::AdsSotw;
    site.publish();
    let nack = site.lockgate.logged(&["NACK", "DELTA_GRPC"]).await;
    assert!(nack.contains("RouteConfiguration"), "{nack}");
    site.wait_served("shop.test", "b").await;
}

/// Runs each case over the aggregated stream, and over a separate one.
macro_rules! both_ways {
    ($($case:ident),* $(,)?) => {
        mod over_the_aggregated_stream {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(e2e::Fetch::AdsDelta).await;
            })*
        }
        mod over_a_stream_of_their_own {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(e2e::Fetch::StreamsDelta).await;
            })*
        }
    };
}

both_ways!(
    d27_hosts_come_change_and_go_unasked,
    d27_domains_match_as_those_of_routes_do,
    d27_updates_of_routes_and_listener_keep_the_hosts,
    d27_a_domain_that_is_taken_inline_is_rejected_and_nothing_lost,
    d27_a_domain_moves_between_hosts_in_one_response,
    d27_a_bad_host_costs_its_response_until_it_is_mended,
    d27_an_outage_costs_nothing_and_what_is_gone_is_told,
    d27_a_listener_without_hosts_opens_at_once,
    d27_other_route_configurations_get_their_hosts_too,
    d27_many_hosts_are_all_there_when_the_listener_opens,
    d27_on_demand_an_unknown_host_is_answered,
);
