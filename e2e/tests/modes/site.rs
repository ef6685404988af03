//! A site with one Envoy, and the load on it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use e2e::certificates::Pair;
use e2e::load::{Plan, Report};
use e2e::{Authority, Backend, Envoy, Fetch, Load, Lockgate, Manifests, Source, Target, ports, resources, wait_until};
use serde_json::{Value, json};

/// The host under load.
pub const HOST: &str = "shop.test";
const RATE: u32 = 300;

/// The served resources, all in one file, which is replaced atomically.
pub struct World {
    pub clusters: BTreeMap<String, Cluster>,
    /// The cluster of each host.
    pub hosts: BTreeMap<String, String>,
    /// Whether there is a route configuration that Envoy rejects: two virtual hosts with the same domain.
    pub broken_routes: bool,
    pub listening: bool,
    pub pair: Pair,
}

#[derive(Clone)]
pub struct Cluster {
    pub at: SocketAddr,
    pub connect_timeout: u32,
    /// Whether Envoy rejects the cluster, because its address is invalid.
    pub broken: bool,
}

impl Cluster {
    pub fn of(backend: &Backend) -> Self {
        Self { at: backend.address, connect_timeout: 1, broken: false }
    }
}

/// Whether failed requests fail the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    NoFailure,
    /// Only the final state is checked. Failures are counted.
    Counted,
}

impl Promise {
    pub fn no_failure_if(kept: bool) -> Self {
        if kept { Promise::NoFailure } else { Promise::Counted }
    }
}

pub struct Site {
    pub fetch: Fetch,
    pub world: World,
    pub lockgate: Lockgate,
    pub envoy: Envoy,
    pub authority: Authority,
    files: Manifests,
    http: u16,
    https: u16,
    results: Vec<String>,
}

impl Site {
    /// Starts a site. The first result is the time from the start of Envoy to the first answer.
    pub async fn open(fetch: Fetch, backend: &Backend) -> Self {
        let authority = Authority::new();
        let world = World {
            clusters: [("shop".to_owned(), Cluster::of(backend))].into(),
            hosts: [(HOST.to_owned(), "shop".to_owned())].into(),
            broken_routes: false,
            listening: true,
            pair: authority.issue(&[HOST]),
        };
        let (files, http, https) = (Manifests::new(), ports::free(), ports::free());
        files.write("world.json", &world.resources(fetch, http, https));
        let lockgate = Lockgate::start(&Source::Resources(files.path().into()), &[]).await;
        let (admin, start) = (ports::free(), Instant::now());
        let mut envoy = Envoy::launch_with(&fetch.bootstrap(lockgate.xds, admin).to_string(), admin);
        envoy.wait_ready().await;
        let mut site = Self { fetch, world, lockgate, envoy, authority, files, http, https, results: Vec::new() };
        site.wait_served(HOST).await;
        site.result(format!("start: answers after {} ms", start.elapsed().as_millis()));
        site
    }

    /// Publishes the current resources.
    pub fn publish(&self) {
        self.files.write("world.json", &self.world.resources(self.fetch, self.http, self.https));
    }

    pub fn target(&self, host: &str) -> Target {
        Target::http(self.http, host)
    }

    pub fn tls_target(&self) -> Target {
        Target::https(self.https, HOST, self.authority.der())
    }

    /// Waits until a host answers 200.
    pub async fn wait_served(&self, host: &str) {
        let target = self.target(host);
        wait_until(&format!("{host} to be served"), async || target.backend("/").await.is_some()).await;
    }

    /// Waits until Envoy's routes use a cluster.
    pub async fn wait_routed_to(&self, cluster: &str) {
        wait_until(&format!("a route to {cluster}"), async || {
            let dump = self.envoy.routes().await;
            dump.contains(&format!("\"cluster\": \"{cluster}\""))
        })
        .await;
    }

    /// Waits until Envoy has a cluster with its endpoints, and no cluster is warming.
    pub async fn wait_for_cluster(&self, cluster: &str) {
        let healthy = format!("cluster.{cluster}.membership_healthy");
        wait_until(&format!("the cluster {cluster}"), async || {
            self.envoy.stat(&healthy).await > 0 && self.envoy.stat("cluster_manager.warming_clusters").await == 0
        })
        .await;
    }

    /// Waits until Envoy does not have a cluster.
    pub async fn wait_without_cluster(&self, cluster: &str) {
        let filter = format!("^cluster\\.{cluster}\\.membership_total$");
        wait_until(&format!("the removal of {cluster}"), async || self.envoy.stats(&filter).await.is_empty()).await;
    }

    /// Waits until a counter of Envoy exceeds `before`.
    pub async fn wait_counted(&self, stat: &str, before: u64) {
        wait_until(&format!("{stat} above {before}"), async || self.envoy.stat(stat).await > before).await;
    }

    /// Returns the number of open streams of the controller.
    pub async fn streams(&self) -> usize {
        self.lockgate.metric("lockgate_xds_streams", &[]).await as usize
    }

    /// Starts load on the host.
    pub async fn load(&self) -> Load {
        Load::start(Plan { rate: RATE, connections: 10, ..Plan::new(self.target(HOST), "/") }).await
    }

    /// Starts load on the host over TLS, with a handshake for every 10 requests.
    pub async fn tls_load(&self) -> Load {
        let plan = Plan::new(self.tls_target(), "/");
        Load::start(Plan { rate: RATE, connections: 10, renew_after: Some(10), ..plan }).await
    }

    /// Moves the endpoint of the cluster `shop` to a new backend, and stops the old one when it receives no more
    /// requests.
    pub async fn swap(&mut self, load: &Load, backend: &mut Backend) -> Duration {
        let next = Backend::start("next").await;
        let start = Instant::now();
        self.world.clusters.get_mut("shop").expect("the cluster shop").at = next.address;
        self.publish();
        self.finish_swap(load, backend, next).await;
        start.elapsed()
    }

    /// Waits until `next` receives requests and `backend` does not. Then stops `backend` and replaces it with `next`.
    pub async fn finish_swap(&self, load: &Load, backend: &mut Backend, next: Backend) {
        wait_until("a request to the new backend", async || next.requests() > 0).await;
        loop {
            let before = backend.requests();
            load.answers(60).await;
            if backend.requests() == before {
                break;
            }
        }
        std::mem::replace(backend, next).stop().await;
    }

    /// Ends the load and records its result.
    ///
    /// # Panics
    /// If a request failed against the promise.
    pub async fn check(&mut self, step: &str, promise: Promise, load: Load) -> Report {
        let report = load.stop().await;
        self.result(format!("{step}: {report}"));
        if promise == Promise::NoFailure {
            assert_eq!(report.failed(), 0, "{:?}, {step}: {report}", self.fetch);
        }
        report
    }

    pub fn result(&mut self, line: String) {
        self.results.push(line);
    }

    /// Returns all results.
    pub fn results(&self) -> String {
        format!("{:?}\n    {}", self.fetch, self.results.join("\n    "))
    }
}

impl World {
    /// Returns the resources in YAML.
    fn resources(&self, fetch: Fetch, http: u16, https: u16) -> String {
        let source = fetch.source();
        let mut all = vec![resources::secret("pair", &self.pair)];
        for (name, Cluster { at, connect_timeout, broken }) in &self.clusters {
            let mut cluster = resources::cluster(name, &source);
            cluster["connect_timeout"] = format!("{connect_timeout}s").into();
            if *broken {
                let bind = json!({ "source_address": { "address": "nowhere.test", "port_value": 0 } });
                cluster["upstream_bind_config"] = bind;
            }
            all.extend([cluster, resources::endpoints(name, &[*at])]);
        }
        let mut hosts: Vec<Value> =
            self.hosts.iter().map(|(host, cluster)| resources::virtual_host(host, host, cluster)).collect();
        if self.broken_routes {
            hosts.push(resources::virtual_host("twin", HOST, "shop"));
        }
        all.push(resources::routes("web", &hosts));
        if self.listening {
            let rds = resources::rds("web", &source);
            all.push(resources::listener("http", http, rds.clone()));
            all.push(resources::tls_listener("https", https, rds, "pair", &source));
        }
        Value::Array(all).to_string()
    }
}
