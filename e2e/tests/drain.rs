//! The drain of an Envoy with `lockgate envoy-drain`: real Envoys behind a load balancer that reacts late.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use e2e::load::Plan;
use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::process::Process;
use e2e::{Backend, Envoy, Load, Lockgate, Manifests, Mode, Relay, Source, Target, lockgate, ports, wait_until};

const HOST: &str = "shop.test";

/// A controller with an Envoy whose admin interface is a socket, as in a pod.
struct Node {
    lockgate: Lockgate,
    envoy: Process,
    directory: tempfile::TempDir,
}

impl Node {
    async fn start(manifests: &Manifests) -> Self {
        let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &[]).await;
        let directory = tempfile::tempdir().expect("a temporary directory");
        let xds = format!("127.0.0.1:{}", lockgate.xds);
        let admin = format!("unix:{}", directory.path().join("admin.sock").display());
        let bootstrap = lockgate::run(&["bootstrap", "--xds-address", &xds, "--admin-address", &admin]);
        std::fs::write(directory.path().join("bootstrap.yaml"), bootstrap).expect("a file written");
        let envoy = envoy(directory.path());
        let mut node = Self { lockgate, envoy, directory };
        node.wait_ready().await;
        node
    }

    async fn wait_ready(&mut self) {
        let ready = Target::http(self.lockgate.stats, "localhost");
        wait_until("Envoy's /ready", async || {
            self.envoy.assert_running();
            ready.get("/ready").await.is_ok_and(|answer| answer.status == 200)
        })
        .await;
    }

    async fn ready(&self) -> bool {
        let ready = Target::http(self.lockgate.stats, "localhost").get("/ready").await;
        ready.is_ok_and(|answer| answer.status == 200)
    }

    fn args(&self, flags: &[&str]) -> Vec<String> {
        let admin = format!("unix:{}", self.directory.path().join("admin.sock").display());
        ["envoy-drain", "--admin-address", &admin].iter().chain(flags).map(ToString::to_string).collect()
    }

    /// Runs `lockgate envoy-drain now` with these flags.
    fn drain_now(&self, flags: &[&str]) -> Output {
        let output = Command::new(lockgate::binary()).args(self.args(flags)).arg("now").output().expect("lockgate");
        println!("{}", String::from_utf8_lossy(&output.stderr));
        output
    }

    /// Starts the sidecar of Envoy.
    fn sidecar(&self, flags: &[&str]) -> Process {
        let log = self.directory.path().join("drain.log");
        Process::start("drain", &lockgate::binary(), &self.args(flags), &log)
    }
}

fn envoy(directory: &Path) -> Process {
    let bootstrap = directory.join("bootstrap.yaml");
    let flags = ["--use-dynamic-base-id", "--concurrency", "2", "--log-level", "info", "--config-path"];
    let args: Vec<_> = flags.iter().map(std::ffi::OsString::from).chain([bootstrap.into()]).collect();
    Process::start("envoy", &e2e::envoy::binary(), &args, &directory.join("envoy.log"))
}

fn shop(backend: &Backend) -> Manifests {
    let manifests = Manifests::new();
    manifests.write("class.yaml", &ingress_class());
    let shop = [service("shop", "", &[backend.address]), ingress("shop", HOST, "shop", None)];
    manifests.write("shop.yaml", &documents(&shop));
    manifests
}

/// Stops one of two Envoys under load, like the kubelet stops a pod. The load balancer reads `/ready`, and reacts late.
async fn clients_move(http2: bool) {
    let _turn = e2e::turn().await;
    let backend = Backend::start("a").await;
    let manifests = shop(&backend);
    let (mut one, other) = (Node::start(&manifests).await, Node::start(&manifests).await);
    let relay = Relay::start(&[one.lockgate.http, other.lockgate.http]).await;
    let listen = ports::free();
    let mut drain = one.sidecar(&["--listen", &format!("127.0.0.1:{listen}"), "--min-drain-time", "4s"]);
    let hook = Target::http(listen, "localhost");
    wait_until("the sidecar", async || hook.get("/healthz").await.is_ok_and(|answer| answer.status == 200)).await;

    let target = Target::http(relay.port, HOST);
    let target = if http2 { target.over_http2() } else { target };
    let load = Load::start(Plan::new(target.clone(), "/")).await;
    let renewed =
        Load::start(Plan { rate: 100, connections: 4, renew_after: Some(3), ..Plan::new(target.clone(), "/") });
    let renewed = renewed.await;
    let slow = Load::start(Plan { rate: 8, connections: 20, ..Plan::new(target, "/after/2000") }).await;
    load.answers(1000).await;

    // Both happen at once, as with the kubelet: SIGTERM for the sidecar, and the preStop hook of Envoy.
    let start = Instant::now();
    drain.signal("TERM");
    let asked = tokio::spawn(async move { hook.get("/drained").await });
    let unready = wait_until("/ready to fail", async || !one.ready().await).await;
    // The load balancer still sends requests for 1.5 s.
    load.answers(1500).await;
    relay.set_targets(&[other.lockgate.http]);
    let answer = asked.await.expect("a task").expect("the hook's answer");
    assert_eq!((answer.status, answer.text().as_str()), (200, "Envoy has exited\n"));
    assert!(one.envoy.ended().await.success() && drain.ended().await.success());
    let drained = start.elapsed();
    load.answers(1000).await;
    println!("an Envoy drained under load, HTTP/2 {http2}: not ready after {unready:?}, ended after {drained:?}");
    for (what, load) in [("kept connections", load), ("connections of 3 requests", renewed), ("of 2 s each", slow)] {
        let report = load.stop().await;
        println!("    {what}: {report}");
        assert_eq!(report.failed(), 0, "{report}\n{}", drain.log());
    }
    println!("{}", drain.log());
    assert!(drained > Duration::from_secs(4) && drained < Duration::from_secs(20), "{drained:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_move_to_the_other_envoy_http1() {
    clients_move(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_move_to_the_other_envoy_http2() {
    clients_move(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_never_ends_meets_the_deadline_and_envoy_starts_anew() {
    let _turn = e2e::turn().await;
    let backend = Backend::start("a").await;
    let manifests = shop(&backend);
    let mut node = Node::start(&manifests).await;
    let target = Target::http(node.lockgate.http, HOST);
    let mut idle = target.connect().await.expect("a connection");
    let get = hyper::Method::GET;
    assert_eq!(idle.send(get, "/", "".into()).await.expect("an answer").status, 200);

    let start = Instant::now();
    let output = node.drain_now(&["--min-drain-time", "100ms", "--deadline", "2s"]);
    let (took, said) = (start.elapsed(), String::from_utf8_lossy(&output.stderr).into_owned());
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("error: 1 connection was left"), "{said}");
    assert!(took >= Duration::from_secs(2) && took < Duration::from_secs(4), "{took:?}");
    assert!(idle.usable().await, "without --quit nothing is cut");
    assert!(!node.ready().await && target.connect().await.is_err(), "the listeners are closed");

    // With one permitted connection, the drain is complete immediately, and Envoy exits.
    let output = node.drain_now(&["--min-drain-time", "0s", "--min-connections", "1", "--quit"]);
    assert!(output.status.success());
    assert!(node.envoy.ended().await.success());
    // The files of the previous run do not prevent a restart.
    assert!(node.directory.path().join("admin.sock").exists());
    node.envoy = envoy(node.directory.path());
    node.wait_ready().await;
    assert_eq!(target.backend("/").await.as_deref(), Some("a"));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_envoy_it_says_so() {
    let missing = tempfile::tempdir().expect("a temporary directory").path().join("admin.sock");
    let (socket, port) = (format!("unix:{}", missing.display()), format!("127.0.0.1:{}", ports::free()));
    for (address, reason) in [(&socket, "No such file"), (&port, "refused")] {
        let args = ["envoy-drain", "now", "--admin-address", address];
        let output = Command::new(lockgate::binary()).args(args).output().expect("lockgate");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            said.contains(address.as_str()) && said.contains(reason) && said.contains("is Envoy running"),
            "{said}"
        );
    }
}

/// Slightly longer than Envoy's default timeout of the first response for a resource.
const ENVOYS_OWN_PATIENCE: Duration = Duration::from_secs(17);

/// An Envoy that lacks one type is not ready, for any duration. It becomes ready with the last type.
async fn not_ready_without(marker: &'static [u8]) {
    let backend = Backend::start("a").await;
    let manifests = shop(&backend);
    let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &[]).await;
    let relay = Relay::start_until(&[lockgate.xds], marker).await;
    let admin = ports::free();
    let (xds, by_relay) = (format!(": {}", lockgate.xds), format!(": {}", relay.port));
    let bootstrap = lockgate.bootstrap(Mode::Delta, admin, "held").replace(&xds, &by_relay);
    assert!(bootstrap.contains(&by_relay), "{bootstrap}");
    let mut envoy = Envoy::launch_with(&bootstrap, admin);
    envoy.wait_answering().await;
    wait_until("the clusters", async || envoy.stat("cluster_manager.cds.update_success").await > 0).await;
    let (start, stats) = (Instant::now(), Target::http(lockgate.stats, "localhost"));
    while start.elapsed() < ENVOYS_OWN_PATIENCE {
        assert_ne!(envoy.get("/ready").await.status, 200, "ready without {}", String::from_utf8_lossy(marker));
        assert!(stats.get("/ready").await.is_err(), "it listens");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    relay.release();
    envoy.wait_ready().await;
    assert_eq!(Target::http(lockgate.http, HOST).backend("/").await.as_deref(), Some("a"), "the first request");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envoy_with_a_part_of_the_world_is_not_ready() {
    tokio::join!(
        not_ready_without(b"envoy.config.route.v3.ScopedRouteConfiguration"),
        not_ready_without(b"envoy.config.endpoint.v3.ClusterLoadAssignment"),
        not_ready_without(b"envoy.config.listener.v3.Listener"),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envoy_without_a_controller_or_before_its_first_lists_is_not_ready() {
    let backend = Backend::start("a").await;
    let manifests = shop(&backend);
    let kubeconfig = manifests.file("kubeconfig");
    let nowhere = format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{ name: c, cluster: {{ server: 'http://127.0.0.1:{}' }} }}]\n\
         users: [{{ name: u, user: {{}} }}]\ncontexts: [{{ name: x, context: {{ cluster: c, user: u }} }}]\ncurrent-context: x\n",
        ports::free()
    );
    std::fs::write(&kubeconfig, nowhere).expect("a file written");
    let listless = Lockgate::launch(&Source::Kubeconfig(kubeconfig), &[]);
    let mut full = Lockgate::start(&Source::Manifests(manifests.path().into()), &[]).await;
    full.kill();
    let mut envoys = vec![Envoy::launch(&full, Mode::Delta), Envoy::launch(&listless, Mode::Delta)];
    for envoy in &mut envoys {
        envoy.wait_answering().await;
    }
    wait_until("a stream", async || listless.metric("lockgate_xds_streams", &[]).await == 1.0).await;
    let start = Instant::now();
    while start.elapsed() < ENVOYS_OWN_PATIENCE {
        for envoy in &envoys {
            assert_ne!(envoy.get("/ready").await.status, 200);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    full.restart();
    full.wait_ready().await;
    envoys[0].wait_ready().await;
    assert_eq!(Target::http(full.http, HOST).backend("/").await.as_deref(), Some("a"), "the first request");
}
