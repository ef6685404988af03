//! Anonymous clients on ports that any pod can reach. They occupy memory and connections, and other clients must not
//! wait.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use bytes::Bytes;
use e2e::certificates::Pair;
use e2e::manifests::ingress_class;
use e2e::xds::{CLUSTER, Connection};
use e2e::{Authority, Lockgate, Manifests, Mount, Source, Target, ports, wait_until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

const MIB: f64 = 1024.0 * 1024.0;
const FETCH_STATUS: &str = "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus";

/// A controller that identifies its Envoys by certificates.
struct Served {
    lockgate: Lockgate,
    authority: Authority,
    envoy: Pair,
    _manifests: Manifests,
    _mount: Mount,
}

impl Served {
    async fn start(flags: &[&str]) -> Self {
        let (manifests, authority) = (Manifests::new(), Authority::new());
        manifests.write("class.yaml", &ingress_class());
        let (pair, envoy, trusted) = (authority.issue(&["localhost"]), authority.issue(&["envoy"]), authority.pem());
        let mount = Mount::new(&[("tls.crt", &pair.certificate), ("tls.key", &pair.key), ("ca.crt", &trusted)]);
        let flags = [&["--xds-tls", mount.text()], flags].concat();
        let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &flags).await;
        Self { lockgate, authority, envoy, _manifests: manifests, _mount: mount }
    }

    /// Asserts that a new Envoy is served. Returns the elapsed time.
    async fn assert_envoy_is_served(&self) -> Duration {
        let start = Instant::now();
        let root = self.authority.der();
        let connection = Connection::secured(self.lockgate.xds, &root, Some(&self.envoy)).await;
        let stream = connection.expect("a connection of an Envoy").stream().await;
        let mut stream = stream.unwrap_or_else(|error| panic!("{error}\n{}", self.lockgate.log()));
        stream.ask(CLUSTER, ["*".to_owned()].into_iter(), std::iter::empty());
        stream.next().await;
        start.elapsed()
    }
}

/// Returns the resident memory of a process in MiB. The metrics would need a request.
fn memory(lockgate: &mut Lockgate) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", lockgate.process().id())).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib * 1024.0 / MIB
}

/// Waits until the other side has closed a connection.
async fn closed(mut socket: TcpStream) {
    let mut rest = Vec::new();
    let end = tokio::time::timeout(e2e::PATIENCE, socket.read_to_end(&mut rest)).await;
    assert!(end.is_ok(), "the connection is still open");
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_clients_lock_out_nobody() {
    let mut served = Served::start(&["--xds-max-connections", "4"]).await;
    served.assert_envoy_is_served().await;
    let before = memory(&mut served.lockgate);
    // Nothing, one byte, half a record, and half of the largest record.
    let half = [&b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc"[..], &[0; 16_000]].concat();
    let mut silent = Vec::new();
    for said in [&b""[..], b"\x16", b"\x16\x03\x01\x02\x00\x01", &half].into_iter().cycle().take(2000) {
        let mut socket = TcpStream::connect(("127.0.0.1", served.lockgate.xds)).await.expect("a connection");
        let _ = socket.write_all(said).await;
        silent.push(socket);
    }
    let grown = memory(&mut served.lockgate) - before;
    let start = Instant::now();
    let took = served.assert_envoy_is_served().await;
    for socket in silent {
        closed(socket).await;
    }
    let end = start.elapsed();
    println!("2,000 silent clients: {grown:.1} MiB more; an Envoy served after {took:?}; all closed after {end:?}");
    assert!(grown < 32.0, "{grown} MiB");
    assert!(end < Duration::from_secs(15), "{end:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_without_a_certificate_lock_out_nobody() {
    let mut served = Served::start(&["--xds-max-connections", "4"]).await;
    served.assert_envoy_is_served().await;
    let before = memory(&mut served.lockgate);
    let root = served.authority.der();
    let mut held = Vec::new();
    for _ in 0..300 {
        // The handshake of the client is complete before the server has checked its certificate.
        if let Ok(stream) = e2e::xds::tls(served.lockgate.xds, &root, None, "h2").await {
            held.push(stream);
        }
    }
    let took = served.assert_envoy_is_served().await;
    let grown = memory(&mut served.lockgate) - before;
    println!("300 clients without a certificate: {grown:.1} MiB more; an Envoy served after {took:?}");
    for mut stream in held {
        let end = tokio::time::timeout(e2e::PATIENCE, stream.read_to_end(&mut Vec::new())).await;
        assert!(end.expect("the end of the connection").is_err(), "told by an alert");
    }
    let refused = served.lockgate.metric("lockgate_xds_connections_refused_total", &["no_certificate"]).await;
    assert_eq!(refused, 300.0, "{}", served.lockgate.log());
    served.lockgate.logged(&["xDS connection refused", "the client presented no certificate"]).await;
    let lines = served.lockgate.log().matches("presented no certificate").count();
    assert!(lines < 30, "{lines} lines");
    assert!(grown < 32.0, "{grown} MiB");
}

/// A request for the status of clients that declares 1 MiB and lacks its last byte.
fn incomplete_request(size: usize) -> Bytes {
    let length = u32::try_from(size).expect("less than 4 GiB").to_be_bytes();
    [&[0][..], &length, &vec![0; size - 1]].concat().into()
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_requests_for_the_status_of_clients_are_small() {
    let mut served = Served::start(&[]).await;
    served.assert_envoy_is_served().await;
    let (root, port) = (served.authority.der(), served.lockgate.xds);
    let stranger = served.authority.issue(&["web.shop.svc"]);
    let envoy = served.envoy.clone();
    for (who, own, size) in [
        ("no certificate", None, 1 << 20),
        ("a name of no Envoy", Some(&stranger), 1 << 20),
        ("an Envoy", Some(&envoy), 1 << 20),
        ("an Envoy", Some(&envoy), 60 << 10),
    ] {
        let before = memory(&mut served.lockgate);
        let (mut held, mut connections, mut answers) = (Vec::new(), Vec::new(), std::collections::BTreeMap::new());
        for i in 0..150 {
            if i % 10 == 0 {
                connections.extend(Connection::secured(port, &root, own).await.ok());
            }
            let Some(connection) = connections.last_mut() else { continue };
            let answer = match connection.unfinished(FETCH_STATUS, incomplete_request(size)).await {
                Ok((status, rest)) => {
                    held.push(rest);
                    status.unwrap_or_else(|| "none yet".to_owned())
                }
                Err(_) => "no connection".to_owned(),
            };
            *answers.entry(answer).or_insert(0) += 1;
        }
        let grown = memory(&mut served.lockgate) - before;
        println!("150 stalled requests of {} KiB, {who}: {grown:.1} MiB more, answers {answers:?}", size >> 10);
        assert!(grown < 32.0, "{who}: {grown} MiB");
    }
    served.assert_envoy_is_served().await;
}

/// Returns the slowest answer of each probe while `attack` runs.
async fn slowest(target: &Target, paths: &[&str], times: usize) -> Duration {
    let mut slowest = Duration::ZERO;
    for _ in 0..times {
        for path in paths {
            let start = Instant::now();
            let answer = tokio::time::timeout(Duration::from_secs(5), target.get(path)).await;
            let answer = answer.unwrap_or_else(|_| panic!("{path}: no answer in 5 s"));
            assert_eq!(answer.unwrap_or_else(|error| panic!("{path}: {error}")).status, 200, "{path}");
            slowest = slowest.max(start.elapsed());
        }
    }
    slowest
}

/// Opens a connection, and sends as much of `request` as is accepted within a moment.
async fn send_some(port: u16, from: IpAddr, request: &[u8]) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::new(from, 0)).expect("an address of this machine");
    let mut socket = socket.connect(SocketAddr::from(([127, 0, 0, 1], port))).await.expect("a connection");
    let _ = tokio::time::timeout(Duration::from_millis(50), socket.write_all(request)).await;
    socket
}

#[tokio::test(flavor = "multi_thread")]
async fn half_sent_requests_leave_the_admin_port_to_probes() {
    let manifests = Manifests::new();
    manifests.write("class.yaml", &ingress_class());
    let mut lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &[]).await;
    let paths = ["/healthz", "/readyz", "/metrics", "/debug/"];
    slowest(&lockgate.target(), &paths, 5).await;
    let before = memory(&mut lockgate);
    // One header field that never ends.
    let half = [&b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: "[..], &[b'x'; 390 << 10]].concat();
    let mut held = Vec::new();
    for i in 0..1000_usize {
        // From the address of the probes, and from other addresses.
        let from = IpAddr::V4(Ipv4Addr::new(127, 0, 0, [1, 2, 3][i % 3]));
        held.push(send_some(lockgate.admin, from, &half).await);
    }
    let slow = slowest(&lockgate.target(), &paths, 20).await;
    let grown = memory(&mut lockgate) - before;
    println!("1,000 half-sent requests: {grown:.1} MiB more; the slowest of 80 probes took {slow:?}");
    assert!(grown < 32.0, "{grown} MiB");
    // A few bytes each, which no size limit stops.
    let mut silent = Vec::new();
    for _ in 0..1000 {
        silent.push(send_some(lockgate.admin, IpAddr::V4(Ipv4Addr::LOCALHOST), b"GET /healthz HTTP/1.1\r\n").await);
    }
    let start = Instant::now();
    let slow = slowest(&lockgate.target(), &paths, 20).await;
    for socket in silent {
        closed(socket).await;
    }
    let (grown, end) = (memory(&mut lockgate) - before, start.elapsed());
    println!(
        "1,000 silent requests: {grown:.1} MiB more; the slowest of 80 probes took {slow:?}; closed after {end:?}"
    );
    assert!(grown < 32.0 && end < Duration::from_secs(15), "{grown} MiB, {end:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_read_no_answer_leave_the_admin_port_to_others() {
    let manifests = Manifests::new();
    manifests.write("class.yaml", &ingress_class());
    let mut lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &[]).await;
    let paths = ["/healthz", "/readyz", "/metrics", "/debug/"];
    slowest(&lockgate.target(), &paths, 5).await;
    let before = memory(&mut lockgate);
    let many = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(100);
    let mut held = Vec::new();
    for _ in 0..500 {
        held.push(send_some(lockgate.admin, IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)), &many).await);
    }
    let slow = slowest(&lockgate.target(), &paths, 20).await;
    let grown = memory(&mut lockgate) - before;
    println!("500 clients that ask 100 times and read nothing: {grown:.1} MiB more; the slowest of 80 took {slow:?}");
    assert!(grown < 48.0, "{grown} MiB");
}

#[tokio::test(flavor = "multi_thread")]
async fn half_sent_requests_leave_the_port_of_metrics_to_scrapers() {
    let (manifests, servers, scrapers) = (Manifests::new(), Authority::new(), Authority::new());
    let (pair, trusted) = (servers.issue(&["metrics.test"]), scrapers.pem());
    let mount = Mount::new(&[("tls.crt", &pair.certificate), ("tls.key", &pair.key), ("ca.crt", &trusted)]);
    let port = ports::free();
    let address = format!("127.0.0.1:{port}");
    let flags = ["--metrics-address", &address, "--metrics-tls", mount.text()];
    let mut lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &flags).await;
    let scraper = Target::https(port, "metrics.test", servers.der()).showing(&scrapers.issue(&["prometheus"]));
    slowest(&scraper, &["/metrics"], 5).await;
    let before = memory(&mut lockgate);
    let half = [&b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc"[..], &[0; 16_000]].concat();
    let mut held = Vec::new();
    for i in 0..1000 {
        let said = if i % 2 == 0 { &b""[..] } else { &half };
        held.push(send_some(port, IpAddr::V4(Ipv4Addr::LOCALHOST), said).await);
    }
    let slow = slowest(&scraper, &["/metrics"], 20).await;
    let grown = memory(&mut lockgate) - before;
    println!("1,000 handshakes that stall: {grown:.1} MiB more; the slowest of 20 scrapes took {slow:?}");
    assert!(grown < 32.0, "{grown} MiB");
    wait_until("the port to be free again", async || scraper.get("/metrics").await.is_ok()).await;
}
