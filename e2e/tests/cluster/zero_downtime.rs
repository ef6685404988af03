//! Restarts, replacements, and outages under 1,000 requests per second through the address of the load balancer. No
//! request fails. One fifth of the requests uses new connections, like clients without keep-alive.
//!
//! `certificates.rs` tests the rotation of the certificates of xDS.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::time::{Duration, Instant};

use e2e::lab::{Installation, Namespace, Pod, echo};
use e2e::load::Plan;
use e2e::lockgate::series;
use e2e::{Lab, Load, Relay, Target};

/// The installation, a shop with two backends, and the load on it.
struct Shop<'a> {
    lab: &'a Lab,
    lockgate: Installation<'a>,
    space: Namespace<'a>,
    host: String,
    /// The loads on kept connections and on new ones.
    load: Vec<Load>,
    what: &'static str,
    start: Instant,
}

impl<'a> Shop<'a> {
    async fn open(lab: &'a Lab, what: &'static str) -> Self {
        let lockgate = lab.lockgate().await;
        let space = lab.namespace("zero").await;
        // Applications that shut down gracefully serve until they receive no more requests.
        let shop = echo("echo").replicas(2).container("lifecycle: {preStop: {sleep: {seconds: 5}}}");
        space.apply(&shop.yaml()).await;
        space.endpoints("echo", 2).await;
        // The namespace of the previous spec may still be terminating.
        let host = format!("{}.test", space.name);
        space.apply(&super::first::ingress("echo", &host, "echo")).await;
        let target = lockgate.http(&host);
        let ready = async |target: &Target| target.get("/").await.is_ok_and(|answer| answer.status == 200);
        // Waits for every Envoy, because the load uses all of them.
        for envoy in lockgate.envoys().await.iter().filter_map(|pod| pod.ip) {
            let one = Target::http(8080, &host).at(envoy);
            lab.until("an Envoy to serve the shop", async || ready(&one).await.then_some(())).await;
        }
        let kept = Load::start(Plan { rate: 800, ..Plan::new(target.clone(), "/") }).await;
        let renewed = Load::start(Plan { rate: 200, renew_after: Some(1), ..Plan::new(target, "/") }).await;
        kept.answers(500).await;
        let load = vec![kept, renewed];
        Self { lab, lockgate, space, host, load, what, start: Instant::now() }
    }

    async fn kubectl(&self, args: &[&str]) -> String {
        self.lab.kubectl(&[&["--namespace", &self.lockgate.namespace], args].concat(), "").await
    }

    /// Waits until exactly two pods exist, and both are new.
    async fn replaced(&self, old: &[Pod], mut pods: impl AsyncFnMut() -> Vec<Pod>) {
        let replaced = async || {
            let new = pods().await;
            let fresh = new.iter().all(|pod| pod.ready && old.iter().all(|old| old.name != pod.name));
            (fresh && new.len() == old.len()).then_some(())
        };
        self.lab.until("new pods in the place of the old", replaced).await;
    }

    /// Creates an Ingress, and waits until every Envoy serves it.
    async fn change(&self) {
        let start = Instant::now();
        let host = format!("after-{}", self.host);
        self.space.apply(&super::first::ingress("after", &host, "echo")).await;
        for envoy in self.lockgate.envoys().await.iter().filter_map(|pod| pod.ip) {
            let target = Target::http(8080, &host).at(envoy);
            let served = async || target.get("/").await.is_ok_and(|answer| answer.status == 200).then_some(());
            self.lab.until("an Ingress made afterwards", served).await;
        }
        println!(
            "    an Ingress made afterwards is served by every Envoy after {:.1} s",
            start.elapsed().as_secs_f64()
        );
    }

    /// Returns the number of resources that the controllers have sent since they started, by type. Responses that only
    /// report missing resources do not count.
    async fn sent(&self) -> BTreeMap<String, f64> {
        let mut sent = BTreeMap::new();
        for controller in self.lockgate.controllers().await {
            let target = Target::http(18001, "localhost").at(controller.ip.expect("the address of a controller"));
            let page = target.get("/metrics").await;
            let page = page.unwrap_or_else(|error| panic!("/metrics of {}: {error}", controller.name)).text();
            for (series, count) in series(&page).into_iter().filter(|(_, count)| *count > 0.0) {
                if let Some(labels) = series.strip_prefix("lockgate_xds_pushed_resources_total") {
                    *sent.entry(labels.to_owned()).or_default() += count;
                }
            }
        }
        sent
    }

    /// Waits until an Envoy has no cluster of a terminated namespace. Clusters of previous specs are removed last,
    /// after their hosts.
    async fn settled(&self, envoy: &Pod) {
        let target = Target::http(8002, "localhost").at(envoy.ip.expect("the address of an Envoy"));
        self.lab
            .until("an Envoy without clusters of earlier specs", async || {
                let namespaces = self.lab.namespaces("Active").await;
                let active = |name: &str| namespaces.iter().any(|namespace| name.starts_with(&format!("{namespace}_")));
                let stats = target.get("/stats").await.ok()?.text();
                let totals = stats.lines().filter(|line| line.contains(".membership_total:"));
                let names = totals.filter_map(|line| line.strip_prefix("cluster.")?.split('.').next());
                // Clusters of the bootstrap have no namespace.
                names.filter(|name| name.contains('_')).all(active).then_some(())
            })
            .await;
    }

    fn target(&self) -> Target {
        self.lockgate.http(&self.host)
    }

    /// Ends the load. No request may have failed.
    async fn close(mut self) {
        assert_eq!(self.pause().await, 0, "{}", self.what);
    }

    /// Ends the load. Returns the number of failed requests.
    async fn pause(&mut self) -> u64 {
        let seconds = self.start.elapsed().as_secs_f64();
        for load in &self.load {
            load.answers(200).await;
        }
        println!("{} ({seconds:.1} s):", self.what);
        let mut failed = 0;
        for (kind, load) in ["kept connections", "new connections"].iter().zip(self.load.drain(..)) {
            let report = load.stop().await;
            println!("    {kind}: {report}");
            failed += report.failed();
        }
        failed
    }

    /// Runs `work`. Returns the longest time during which one of these lists was empty.
    async fn longest_absence_during(&self, lists: &[&str], work: impl Future<Output = ()>) -> Duration {
        let paths: Vec<String> = lists.iter().map(|list| list.replace("{}", &self.space.name)).collect();
        let mut longest = Duration::ZERO;
        let observe = async {
            let mut seen = vec![Instant::now(); paths.len()];
            let mut ticks = tokio::time::interval(Duration::from_millis(20));
            loop {
                ticks.tick().await;
                for (path, seen) in paths.iter().zip(&mut seen) {
                    if !self.lab.list(path).await.is_empty() {
                        *seen = Instant::now();
                    }
                    longest = longest.max(seen.elapsed());
                }
            }
        };
        tokio::select! {
            () = work => {}
            () = observe => {}
        }
        longest
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_of_the_controllers() {
    let lab = Lab::alone().await;
    let shop = Shop::open(&lab, "rolling restart of the controllers").await;
    let (old, envoys) = (shop.lockgate.controllers().await, shop.lockgate.envoys().await);
    for envoy in &envoys {
        shop.settled(envoy).await;
    }
    shop.kubectl(&["rollout", "restart", &format!("deployment/{}", shop.lockgate.name())]).await;
    shop.replaced(&old, async || shop.lockgate.controllers().await).await;
    shop.change().await;
    // Every Envoy has moved to a controller with the same resources. It has received only the change.
    let one_host_each = BTreeMap::from([("{type=\"ScopedRouteConfiguration\"}".to_owned(), envoys.len() as f64)]);
    assert_eq!(shop.sent().await, one_host_each);
    shop.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_of_the_envoys() {
    let lab = Lab::alone().await;
    let shop = Shop::open(&lab, "rolling restart of the Envoys").await;
    let old = shop.lockgate.envoys().await;
    shop.kubectl(&["rollout", "restart", &format!("deployment/{}-envoy", shop.lockgate.name())]).await;
    shop.replaced(&old, async || shop.lockgate.envoys().await).await;
    shop.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_of_the_backends() {
    let lab = Lab::alone().await;
    let shop = Shop::open(&lab, "rolling restart of the backends").await;
    let old = shop.space.pods("app=echo").await;
    shop.space.kubectl(&["rollout", "restart", "deployment/echo"], "").await;
    shop.replaced(&old, async || shop.space.pods("app=echo").await).await;
    shop.close().await;
}

/// Replaces an object by force, while requests arrive. Lockgate delays a deletion by one second. On a busy machine, `kubectl` and the
/// control plane can take longer to create the object and its EndpointSlices again, and requests fail. Such a run shows nothing and
/// is repeated.
///
/// `lists`: the lists of the namespace that must not be empty for long.
async fn replace_by_force(what: &'static str, object: impl Fn(&Shop) -> String, lists: &[&str]) {
    const TIMES: usize = 10;
    const RUNS: usize = 3;
    let lab = Lab::alone().await;
    for _ in 0..RUNS {
        let mut shop = Shop::open(&lab, what).await;
        let object = object(&shop);
        let replace = async {
            for _ in 0..TIMES {
                shop.space.kubectl(&["replace", "--force", "--filename", "-"], &object).await;
                shop.load[0].answers(200).await;
            }
        };
        let longest = shop.longest_absence_during(lists, replace).await;
        println!("longest absence: {:.2} s", longest.as_secs_f64());
        let failed = shop.pause().await;
        if longest < Duration::from_millis(900) {
            assert_eq!(failed, 0);
        }
        if failed == 0 {
            return;
        }
    }
    panic!("in {RUNS} runs, the control plane was too slow for a result");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ingress_replaced_by_force() {
    let ingress = |shop: &Shop| super::first::ingress("echo", &shop.host, "echo");
    let lists = ["/apis/networking.k8s.io/v1/namespaces/{}/ingresses?fieldSelector=metadata.name%3Decho"];
    replace_by_force("10 times kubectl replace --force of the Ingress", ingress, &lists).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_replaced_by_force() {
    let service = |_: &Shop| {
        let objects = echo("echo").yaml();
        objects.split("---\n").find(|text| text.contains("kind: Service")).expect("a Service").to_owned()
    };
    let lists = [
        "/api/v1/namespaces/{}/services?fieldSelector=metadata.name%3Decho",
        "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices",
    ];
    replace_by_force("10 times kubectl replace --force of the Service", service, &lists).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_9_of_the_leader() {
    let lab = Lab::alone().await;
    let shop = Shop::open(&lab, "kill -9 of the leader").await;
    let namespace = shop.lockgate.namespace.clone();
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{}", shop.lockgate.name());
    let holder = async || {
        let holder = lab.get(&lease).await["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
        (!holder.is_empty()).then_some(holder)
    };
    let (leader, _) = lab.until("a leader", holder).await;
    lab.kill(&namespace, &leader, "lockgate");
    shop.change().await;
    let ready = async || {
        let pods = shop.lockgate.controllers().await;
        pods.iter().all(|pod| pod.ready).then_some(())
    };
    lab.until("the killed one to be back", ready).await;
    // A leader exists, because a status is written.
    println!("the address in the status of an Ingress made afterwards: {}", shop.space.ingress_address("after").await);
    shop.close().await;
}

/// Simulates a load balancer with its own health checks: it forwards only to Envoys whose /ready answers 200.
async fn check_health(balancer: &Relay, envoys: &[Pod]) {
    let addresses: Vec<IpAddr> = envoys.iter().filter_map(|envoy| envoy.ip).collect();
    let mut ticks = tokio::time::interval(Duration::from_millis(200));
    loop {
        let mut ready = vec![];
        for address in &addresses {
            let answer = Target::http(8002, "localhost").at(*address).get("/ready").await;
            if answer.is_ok_and(|answer| answer.status == 200) {
                ready.push(SocketAddr::from((*address, 8080)));
            }
        }
        balancer.set_remote_targets(ready);
        ticks.tick().await;
    }
}

/// Drains and stops an Envoy, like `kubectl exec` with the same command. The node restarts its container.
async fn restart_in_place(lab: &Lab, namespace: &str, envoy: &Pod) {
    let (drain, old) =
        (lab.process_of(namespace, &envoy.name, "drain"), lab.process_of(namespace, &envoy.name, "envoy"));
    let mut command = Command::new("nsenter");
    command.args(["--mount", "--net", "--target", &drain.to_string()]).arg(e2e::lockgate::binary());
    command.args(["envoy-drain", "now", "--quit", "--min-drain-time", "2s", "--deadline", "12s"]);
    let said = e2e::process::output(command, "").await;
    println!("    envoy-drain now --quit: {}", said.map_or_else(|error| error, |_| "all clients had moved".into()));
    let target = Target::http(8002, "localhost").at(envoy.ip.expect("the address of an Envoy"));
    let ready = async || {
        let answer = target.get("/ready").await.ok()?;
        (answer.status == 200 && lab.process_of(namespace, &envoy.name, "envoy") != old).then_some(())
    };
    let (_, took) = lab.until("the Envoy to be back", ready).await;
    println!("    the new Envoy is ready {:.1} s after the end of the old one", took.as_secs_f64());
}

/// During an outage of the API server, kube-proxy cannot learn that an Envoy is not ready. Until the restarted Envoy
/// listens, kube-proxy forwards connections to it, and they are refused. The load therefore uses a load balancer with
/// its own health checks. The failures through kube-proxy are measured in addition.
///
/// The spec shows that the restarted Envoy receives its whole configuration from the memory of the controllers.
#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_the_api_server_with_a_restart_of_an_envoy() {
    let seconds = std::env::var("OUTAGE_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    let outage = Duration::from_secs(seconds.unwrap_or(120));
    let lab = Lab::alone().await;
    let mut shop = Shop::open(&lab, "outage of the API server").await;
    let (namespace, envoys) = (shop.lockgate.namespace.clone(), shop.lockgate.envoys().await);
    let balancer = Relay::start(&[]).await;
    let serve = async {
        let target = Target::http(balancer.port, &shop.host);
        let ok = async || target.get("/").await.is_ok_and(|answer| answer.status == 200).then_some(());
        lab.until("the load balancer", ok).await;
        let kept = Load::start(Plan { rate: 800, ..Plan::new(target.clone(), "/") }).await;
        let renewed = Load::start(Plan { rate: 200, renew_after: Some(1), ..Plan::new(target, "/") }).await;
        let start = Instant::now();
        lab.stop("kube-apiserver", "KILL").await;
        kept.answers(3000).await;
        assert_eq!(shop.pause().await, 0);
        let by_proxy = Plan { rate: 50, connections: 10, renew_after: Some(1), ..Plan::new(shop.target(), "/") };
        let by_proxy = Load::start(by_proxy).await;
        println!("an Envoy restarted in place, without an API server:");
        restart_in_place(&lab, &namespace, &envoys[0]).await;
        tokio::time::sleep(outage.saturating_sub(start.elapsed())).await;
        lab.start("kube-apiserver").await;
        println!("    the API server was away for {:.1} s", start.elapsed().as_secs_f64());
        shop.change().await;
        for (kind, load) in [("kept connections", kept), ("new connections", renewed)] {
            let report = load.stop().await;
            println!("    behind a load balancer with health checks, {kind}: {report}");
            assert_eq!(report.failed(), 0, "{report}");
        }
        println!("    by kube-proxy, which cannot be told, new connections: {}", by_proxy.stop().await);
        // With their current backoff, the watches would reconnect only after minutes. The next specs need them.
        lab.stop("kube-controller-manager", "TERM").await;
        lab.start("kube-controller-manager").await;
    };
    tokio::select! {
        () = check_health(&balancer, &envoys) => {}
        () = serve => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_etcd() {
    let lab = Lab::alone().await;
    let shop = Shop::open(&lab, "restart of etcd").await;
    lab.stop("etcd", "KILL").await;
    shop.load[0].answers(3000).await;
    lab.start("etcd").await;
    shop.change().await;
    shop.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_node() {
    let lab = Lab::alone().await;
    let shop = Shop::open(&lab, "drain of a node").await;
    let node = "node-2";
    lab.drain(node).await;
    let moved = async || {
        let (envoys, controllers) = (shop.lockgate.envoys().await, shop.lockgate.controllers().await);
        let settled = |pods: &[Pod]| pods.len() == 2 && pods.iter().all(|pod| pod.ready && pod.node != node);
        (settled(&envoys) && settled(&controllers)).then_some(())
    };
    lab.until("everything on the other node", moved).await;
    lab.kubectl(&["uncordon", node], "").await;
    shop.close().await;
}
