//! Clients that use excessive resources, against the real program: its memory stays bounded, and other clients are
//! served.

use std::iter::empty;
use std::net::IpAddr;

use e2e::xds::{CLUSTER, Connection, ENDPOINTS, Stream};
use e2e::{Lockgate, Manifests, Source, wait_until};

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const ELSEWHERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));
const MIB: f64 = 1024.0 * 1024.0;

/// A controller with a directory of resources, and a well-behaved client.
struct Bench {
    files: Manifests,
    lockgate: Lockgate,
    healthy: Stream,
    updates: u32,
}

impl Bench {
    async fn start(clusters: usize, flags: &[&str]) -> Self {
        let files = Manifests::new();
        files.write("e.yaml", &endpoints("e", 1));
        let many: Vec<String> = (0..clusters).map(|i| cluster(&format!("a-cluster-with-a-long-name-{i}"))).collect();
        files.write("clusters.yaml", &many.join("---\n"));
        let lockgate = Lockgate::start(&Source::Resources(files.path().into()), flags).await;
        let mut healthy = stream(&lockgate, ELSEWHERE).await;
        healthy.ask(ENDPOINTS, ["e".to_owned()].into_iter(), empty());
        let response = healthy.next().await;
        healthy.answer(ENDPOINTS, &response, false);
        Self { files, lockgate, healthy, updates: 1 }
    }

    /// Asserts that the well-behaved client receives exactly the next change.
    async fn healthy_gets_an_update(&mut self) {
        self.updates += 1;
        self.files.write("e.yaml", &endpoints("e", self.updates));
        let response = self.healthy.next().await;
        assert_eq!((response.resources, response.removed), (1, 0));
        self.healthy.answer(ENDPOINTS, &response, false);
    }

    /// Returns the resident memory.
    async fn memory(&self) -> f64 {
        self.lockgate.metric("process_resident_memory_bytes", &[]).await
    }

    async fn streams(&self) -> f64 {
        self.lockgate.metric("lockgate_xds_streams", &[]).await
    }

    /// Asserts and prints the growth of memory since `before`.
    async fn assert_grown_less_than(&self, before: f64, mib: f64, what: &str) {
        let grown = (self.memory().await - before) / MIB;
        println!("{what}: {grown:.0} MiB more than the {:.0} MiB before", before / MIB);
        assert!(grown < mib, "{what}: {grown:.0} MiB, more than {mib:.0}");
    }
}

async fn stream(lockgate: &Lockgate, from: IpAddr) -> Stream {
    Connection::open(lockgate.xds, from).await.expect("a connection").stream().await.expect("a stream")
}

fn endpoints(name: &str, port: u32) -> String {
    format!(
        r#""@type": {ENDPOINTS}
cluster_name: {name}
endpoints: [{{ lb_endpoints: [{{ endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }} }} }}] }}]
"#
    )
}

fn cluster(name: &str) -> String {
    format!(
        "\"@type\": {CLUSTER}\nname: {name}\ntype: STATIC\nconnect_timeout: 1s\nalt_stat_name: {}\n",
        "x".repeat(500)
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_streams() {
    let mut bench = Bench::start(10, &[]).await;
    let before = bench.memory().await;
    let mut held = Vec::new();
    for _ in 0..10 {
        let mut connection = Connection::open(bench.lockgate.xds, HERE).await.expect("a connection");
        for _ in 0..1000 {
            let stream = connection.stream().await.expect("a stream");
            stream.ask(ENDPOINTS, ["e".to_owned(), "nowhere".to_owned()].into_iter(), empty());
            held.push(stream);
        }
        // The next stream of this connection must wait.
        let more = tokio::time::timeout(std::time::Duration::from_millis(50), connection.stream()).await;
        assert!(more.is_err(), "there are 1,000 streams on a connection");
        held.push(stream(&bench.lockgate, HERE).await);
    }
    wait_until("10,000 streams", async || bench.streams().await >= 10_000.0).await;
    bench.assert_grown_less_than(before, 300.0, "10,000 streams, two names each").await;
    bench.healthy_gets_an_update().await;
    drop(held);
    wait_until("the end of all streams but one", async || bench.streams().await <= 1.0).await;
    bench.healthy_gets_an_update().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_connections_than_there_may_be() {
    let mut bench = Bench::start(10, &["--xds-max-connections", "400"]).await;
    let before = bench.memory().await;
    let (mut held, mut refused) = (Vec::new(), 0);
    for _ in 0..1000 {
        let mut connection = Connection::open(bench.lockgate.xds, HERE).await.expect("a connection");
        match connection.stream().await {
            Ok(stream) => held.push((connection, stream)),
            Err(_) => refused += 1,
        }
    }
    assert_eq!((held.len(), refused), (200, 800), "half of 400 for one address");
    bench.assert_grown_less_than(before, 100.0, "1,000 connections, 200 of them served").await;
    bench.healthy_gets_an_update().await;
    let mut other = stream(&bench.lockgate, ELSEWHERE).await;
    other.ask(ENDPOINTS, ["e".to_owned()].into_iter(), empty());
    assert_eq!(other.next().await.resources, 1, "another address has room");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_never_read() {
    let mut bench = Bench::start(2000, &[]).await;
    let before = bench.memory().await;
    let mut held = Vec::new();
    for _ in 0..50 {
        let deaf = stream(&bench.lockgate, HERE).await;
        for _ in 0..200 {
            deaf.ask(CLUSTER, ["*".to_owned()].into_iter(), empty());
        }
        deaf.ask(ENDPOINTS, ["e".to_owned()].into_iter(), empty());
        held.push(deaf);
    }
    for _ in 0..20 {
        bench.healthy_gets_an_update().await;
    }
    // 50 clients request 1.3 MiB 200 times: 13 GiB.
    bench.assert_grown_less_than(before, 400.0, "50 clients that ask 200 times for 1.3 MiB and read nothing").await;
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_names_that_do_not_exist() {
    let mut bench = Bench::start(10, &[]).await;
    let before = bench.memory().await;
    let mut greedy = stream(&bench.lockgate, HERE).await;
    greedy.ask(ENDPOINTS, (0..100_000).map(|i| format!("namespace/absent-{i}/http")), empty());
    let mut removed = 0;
    while removed < 100_000 {
        let response = greedy.next().await;
        removed += response.removed;
        greedy.answer(ENDPOINTS, &response, true);
        bench.healthy_gets_an_update().await;
    }
    bench.assert_grown_less_than(before, 100.0, "100,000 names that do not exist").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_requests_are_not_kept() {
    let mut bench = Bench::start(10, &[]).await;
    let before = bench.memory().await;
    let mut held = Vec::new();
    for _ in 0..20 {
        let mut stream = stream(&bench.lockgate, HERE).await;
        // 20 MiB that request one resource.
        let much = (0..20 * 1024).map(|i| format!("{i:01020}"));
        stream.ask(ENDPOINTS, ["e".to_owned()].into_iter(), much);
        assert_eq!(stream.next().await.resources, 1);
        held.push(stream);
        bench.healthy_gets_an_update().await;
    }
    bench.assert_grown_less_than(before, 150.0, "20 open streams that had a request of 20 MiB each").await;
    drop(held);
}
