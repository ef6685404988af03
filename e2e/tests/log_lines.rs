//! The log lines of one change, by the number of Envoys: one line at INFO, for any number of Envoys.

use std::net::{IpAddr, Ipv4Addr};

use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::xds::{CLUSTER, Connection, ENDPOINTS, Stream};
use e2e::{Envoy, Lockgate, Manifests, Mode, Source, wait_until};

/// The types that a simulated Envoy subscribes to.
const TYPES: [&str; 4] = [
    CLUSTER,
    ENDPOINTS,
    "type.googleapis.com/envoy.config.listener.v3.Listener",
    "type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration",
];

/// The simulated Envoys.
const CLIENTS: usize = 100;

/// A controller with one site.
struct Site {
    manifests: Manifests,
    lockgate: Lockgate,
}

/// Lines of the log: all of them, and those at INFO or above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lines {
    all: usize,
    info: usize,
}

impl Site {
    async fn open() -> Self {
        let manifests = Manifests::new();
        let flags = ["--log-level", "info,lockgate=debug,lockgate_xds=debug"];
        let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &flags).await;
        manifests.write("class.yaml", &ingress_class());
        let site = Self { manifests, lockgate };
        site.write("shop", 1);
        site
    }

    /// Writes an Ingress, its Service, and one endpoint.
    fn write(&self, name: &str, backend: u8) {
        let address = ([127, 0, 0, backend], 80).into();
        let host = format!("{name}.test");
        let all = [service(name, "", &[address]), ingress(name, &host, name, None)];
        self.manifests.write(&format!("{name}.yaml"), &documents(&all));
    }

    /// Returns the lines so far.
    fn lines(&self) -> Lines {
        let log = self.lockgate.log();
        let info = log.lines().filter(|line| !line.contains(" DEBUG "));
        Lines { all: log.lines().count(), info: info.count() }
    }

    /// Waits until every response is acknowledged and no line is added any more.
    async fn settle(&self) {
        let mut last = (self.lines(), 0);
        wait_until("the last ACK", async || {
            let sent = self.lockgate.metric("lockgate_xds_responses_total", &[]).await;
            let acknowledged = self.lockgate.metric("lockgate_xds_acks_total", &[]).await;
            let now = self.lines();
            last = if now == last.0 && sent == acknowledged { (now, last.1 + 1) } else { (now, 0) };
            last.1 > 20
        })
        .await;
    }

    /// Makes a change, and returns its lines. `acks` is the minimum number of ACKs.
    async fn change(&self, acks: usize, change: impl FnOnce()) -> Lines {
        self.settle().await;
        let before = self.lines();
        let acknowledged = self.lockgate.metric("lockgate_xds_acks_total", &[]).await;
        change();
        wait_until("the ACKs of the change", async || {
            self.lockgate.metric("lockgate_xds_acks_total", &[]).await >= acknowledged + acks as f64
        })
        .await;
        self.settle().await;
        let after = self.lines();
        Lines { all: after.all - before.all, info: after.info - before.info }
    }

    /// Measures another endpoint, an edit of a route, and a new host, for the `round`th time. Prints and returns the lines of each.
    async fn measure(&self, round: u8, envoys: usize) -> [Lines; 3] {
        let address = |round: u8| format!("127.0.0.{}]", round + 1);
        let path = |round: u8| format!("path: /{}\n", "v".repeat(round.into()));
        let replace = |from: String, to: String| self.manifests.replace("shop.yaml", &from, &to);
        let endpoint = self.change(envoys, || replace(address(round), address(round + 1))).await;
        let edit = self.change(envoys, || replace(path(round), path(round + 1))).await;
        let host = self.change(2 * envoys, || self.write(&format!("blog-{round}"), 9)).await;
        println!("{envoys} Envoys: another endpoint {endpoint:?}, an edited route {edit:?}, a new host {host:?}");
        [endpoint, edit, host]
    }
}

/// Subscribes to all types, and accepts every response until the stream ends.
async fn accept_everything(mut stream: Stream) {
    for kind in TYPES {
        stream.ask(kind, std::iter::once("*".to_owned()), std::iter::empty());
    }
    loop {
        let response = stream.next_in(std::time::Duration::from_secs(600)).await;
        stream.answer(&response.type_url, &response, false);
    }
}

#[track_caller]
fn assert_one_line_each(measured: &[Lines], envoys: usize) {
    for lines in measured {
        assert_eq!(lines.info, 1, "{envoys} Envoys: {measured:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_has_one_line_for_one_envoy_and_for_five() {
    let site = Site::open().await;
    let mut envoys = Vec::new();
    for (round, count) in [(0, 1), (1, 5)] {
        while envoys.len() < count {
            let mut envoy = Envoy::launch(&site.lockgate, Mode::Delta);
            envoy.wait_ready().await;
            envoys.push(envoy);
        }
        let measured = site.measure(round, count).await;
        assert_one_line_each(&measured, count);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_has_one_line_for_a_hundred_envoys() {
    let site = Site::open().await;
    let mut clients = tokio::task::JoinSet::new();
    let mut connections = Vec::new();
    for _ in 0..CLIENTS {
        let mut connection =
            Connection::open(site.lockgate.xds, IpAddr::V4(Ipv4Addr::LOCALHOST)).await.expect("a connection");
        clients.spawn(accept_everything(connection.stream().await.expect("a stream")));
        connections.push(connection);
    }
    let streams = async || site.lockgate.metric("lockgate_xds_streams", &[]).await;
    wait_until("all streams", async || streams().await == CLIENTS as f64).await;
    let measured = site.measure(0, CLIENTS).await;
    assert_one_line_each(&measured, CLIENTS);
    assert_eq!(streams().await, CLIENTS as f64);
}
