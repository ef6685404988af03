//! Attacks with connections and requests: by clients of the victim's hosts, by a pod with access to the ports of the
//! installation, and by a client of the xDS port.

use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use e2e::attacks::roles;
use e2e::certificates::{Pair, issue};
use e2e::lab::echo::Echoed;
use e2e::{Authority, Target, process, xds};
use hyper::Method;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::victim::{NARROW, RELEASE, SHARED, Victim};

/// Headers that control an Envoy or describe its client.
const HEADERS: [&str; 8] = [
    "X-Envoy-Max-Retries",
    "X-Envoy-Retry-On",
    "X-Envoy-Upstream-Rq-Timeout-Ms",
    "X-Envoy-Original-Path",
    "X-Forwarded-Host",
    "X-Forwarded-Port",
    "X-Real-Ip",
    "Forwarded",
];
/// The number of stalled connections of each kind at each address.
const STALLED: usize = 150;
/// The number of unfinished requests at the port for statistics of each Envoy.
const UNFINISHED: usize = 1000;

/// Requests for the victim's host that try to control Envoy, to forge the original request, or to reach other paths.
pub async fn requests(victim: &Victim<'_>) {
    let plain = victim.lockgate.http(NARROW);
    let forged = HEADERS.iter().fold(plain.clone(), |target, name| target.field(name, "1"));
    let answer = forged.get("/only").await.expect("an answer");
    let echoed = Echoed::of(&answer).expect("an answer of the echo server");
    for name in HEADERS {
        assert!(echoed.headers[name].is_null(), "{name} reached the backend: {}", echoed.headers);
    }
    for path in ["/only/..%2Fother", "/only/..%5Cother", "/only/%2e%2e/other", "/only/../other", "//other"] {
        let answer = plain.get(path).await.expect("an answer");
        assert!([307, 404].contains(&answer.status), "{path}: {} {}", answer.status, answer.text());
    }
    println!("    {} headers removed", HEADERS.len());
}

/// Hosts with a user or another host, which backends may read in another way, and a body of gRPC beyond its limit.
pub async fn evasions(victim: &Victim<'_>) {
    let hosts = [format!("{NARROW}:x@evil.test"), format!("evil@{NARROW}"), format!("{NARROW}:evil.test")];
    for envoy in victim.envoys().await {
        for host in &hosts {
            let answer = Target::http(8080, host).at(envoy).get("/only").await.expect("an answer");
            assert_eq!(answer.status, 403, "{host}");
        }
        let small = victim.at(envoy, SHARED);
        for (kind, length, expected) in [("text/plain", 1024, 200), ("text/plain", 1025, 413)] {
            let answer =
                small.clone().field("content-type", kind).send(Method::POST, "/small", vec![b'a'; length]).await;
            assert_eq!(answer.expect("an answer").status, expected, "{length} bytes");
        }
        let grpc = small.field("content-type", "application/grpc");
        let answer = grpc.send(Method::POST, "/small", vec![b'a'; 100_000]).await.expect("an answer");
        assert!(Echoed::of(&answer).is_none(), "a body of gRPC reached the backend");
    }
    println!("    {} hosts answered 403", hosts.len());
}

/// Queries that keep the main thread of Envoy busy, and unfinished requests, at the port for statistics.
pub async fn statistics(victim: &Victim<'_>) {
    let envoys = victim.envoys().await;
    let mut held = Vec::new();
    for envoy in &envoys {
        let port = Target::http(8002, "localhost").at(*envoy);
        for path in ["/stats?filter=%5CpL%7B300%7D", "/stats?usedonly&filter=a", "/config_dump", "/quitquitquit"] {
            assert_eq!(port.get(path).await.expect("an answer").status, 404, "{path}");
        }
        for _ in 0..UNFINISHED {
            let Ok(mut stream) = TcpStream::connect(SocketAddr::new(*envoy, 8002)).await else { continue };
            let _ = stream.write_all(b"GET /stats HTTP/1.1\r\nhost: a\r\nx-unfinished: ").await;
            held.push(stream);
        }
    }
    for envoy in envoys {
        let start = Instant::now();
        let answer = Target::http(8002, "localhost").at(envoy).get("/ready").await.expect("an answer");
        assert_eq!(answer.status, 200);
        assert!(start.elapsed() < Duration::from_secs(1), "a probe took {:?}", start.elapsed());
    }
    println!("    {} unfinished requests delayed no probe", held.len());
}

/// Requests a page of a controller with curl in the network namespace of its pod. Returns the status.
async fn curl(victim: &Victim<'_>, pod: &str, args: &[&str]) -> String {
    let process = victim.lab.process_of(RELEASE, pod, "lockgate").to_string();
    let mut command = Command::new("nsenter");
    command.args(["--net", "--target", &process, "curl", "--silent", "--output", "/dev/null"]);
    command.args(["--write-out", "%{http_code}"]).args(args);
    process::output(command, "").await.unwrap_or_else(|error| panic!("{args:?}: {error}"))
}

/// Requests for the debug pages from other pods, from the address of a sidecar, and with the host name of a web page.
pub async fn debug_pages(victim: &Victim<'_>) {
    let page = "http://127.0.0.1:18001/debug/objects";
    let log = "http://127.0.0.1:18001/debug/log";
    for pod in victim.lockgate.controllers().await {
        let address = pod.ip.expect("an address");
        for host in ["localhost", "127.0.0.1", "lockgate"] {
            for path in ["/debug/", "/debug/objects", "/debug/resources", "/debug/log"] {
                let answer = Target::http(18001, host).at(address).get(path).await.expect("an answer");
                assert_eq!(answer.status, 403, "{path} of {address} for {host}: {}", answer.text());
            }
        }
        let asked = async |args: &[&str]| curl(victim, &pod.name, args).await;
        assert_eq!(asked(&[page]).await, "200", "from the pod itself");
        assert_eq!(asked(&["--interface", "127.0.0.6", page]).await, "403");
        assert_eq!(asked(&["--interface", "127.0.0.6", "--request", "PUT", "--data", "trace", log]).await, "403");
        assert_eq!(asked(&["--header", "Host: rebound.example", page]).await, "403");
        assert_eq!(
            asked(&["--header", "Origin: http://evil.example", "--request", "PUT", "--data", "trace", log]).await,
            "403"
        );
    }
    println!("    403 for every request, except from the pod itself");
}

/// The authority of xDS, and the server name.
struct Trust {
    root: CertificateDer<'static>,
    /// A certificate of the authority for a name without a role.
    stranger: Pair,
    /// The certificate of the Envoys.
    envoy: Pair,
    server: String,
}

impl Trust {
    async fn of(victim: &Victim<'_>) -> Self {
        let name = victim.lockgate.name();
        let secret = async |of: &str| {
            let object = victim.lab.get(&format!("/api/v1/namespaces/{RELEASE}/secrets/{name}-xds-{of}")).await;
            move |key: &str| {
                let bytes = BASE64_STANDARD.decode(object["data"][key].as_str().unwrap_or_default()).expect("base64");
                String::from_utf8(bytes).expect("PEM")
            }
        };
        let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate");
        let (ca, envoy) = (secret("ca").await, secret("envoy").await);
        let issuer = Authority::stolen(&ca("ca.crt"), &ca("ca.key"));
        let stranger = issue(&issuer, &["web.shop.svc", "spiffe://cluster.local/ns/shop/sa/web"]);
        let certificate = envoy("tls.crt");
        let envoy = Pair { der: der(&certificate), certificate, key: envoy("tls.key") };
        Self { root: der(&ca("ca.crt")), stranger, envoy, server: format!("{name}.{RELEASE}.svc") }
    }

    fn target(&self, controller: IpAddr, own: &Pair) -> Target {
        Target::https(18000, &self.server, self.root.clone()).at(controller).showing(own)
    }

    async fn connect(
        &self,
        controller: IpAddr,
        own: Option<&Pair>,
    ) -> Option<tokio_rustls::client::TlsStream<TcpStream>> {
        xds::tls_to(SocketAddr::new(controller, 18000), &self.server, &self.root, own, "h2").await.ok()
    }
}

/// A client whose certificate has no role.
pub async fn without_role(victim: &Victim<'_>) {
    let trust = Trust::of(victim).await;
    let secret = format!("{}/own", victim.space.name);
    for controller in victim.controllers().await {
        let answers = roles::request_all(&trust.target(controller, &trust.stranger), &secret).await;
        assert_eq!(answers, roles::no_answers(), "{controller}");
        // The same requests of an Envoy are answered.
        let answers = roles::request_all(&trust.target(controller, &trust.envoy), &secret).await;
        assert_eq!(answers.by_way["CDS unary"], "gRPC, answered", "{answers:?}");
        println!("    nothing at {controller}; to an Envoy: {answers:?}");
    }
}

/// Connections to controllers and Envoys that send nothing, or an incomplete message.
pub async fn stalled(victim: &Victim<'_>) -> Vec<Box<dyn std::any::Any + Send>> {
    let trust = Trust::of(victim).await;
    let mut held: Vec<Box<dyn std::any::Any + Send>> = Vec::new();
    let record = [&b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc"[..], &[0; 16_000]].concat();
    let request = [&b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: "[..], &[b'x'; 64 << 10]].concat();
    let (controllers, envoys) = (victim.controllers().await, victim.envoys().await);
    let ports = |addresses: &[IpAddr], ports: [u16; 2]| -> Vec<SocketAddr> {
        addresses.iter().flat_map(|address| ports.map(|port| SocketAddr::new(*address, port))).collect()
    };
    let all = [
        (ports(&controllers, [18000, 18000]), &record),
        (ports(&controllers, [18001, 18001]), &request),
        (ports(&envoys, [8443, 8443]), &record),
        (ports(&envoys, [8080, 8002]), &request),
    ];
    for (at, bytes) in &all {
        for address in at {
            for sent in [&b""[..], &bytes[..20], bytes].into_iter().cycle().take(STALLED) {
                let Ok(mut stream) = TcpStream::connect(address).await else { continue };
                let _ = tokio::time::timeout(Duration::from_millis(20), stream.write_all(sent)).await;
                held.push(Box::new(stream));
            }
        }
    }
    let plain = held.len();
    for controller in &controllers {
        for _ in 0..STALLED {
            held.extend(trust.connect(*controller, None).await.map(|stream| Box::new(stream) as _));
        }
        // A request for the status of clients that declares 1 MiB and lacks its last byte.
        let almost = Bytes::from([&[0, 0, 16, 0, 0][..], &vec![0; (1 << 20) - 1]].concat());
        for _ in 0..10 {
            let Some(stream) = trust.connect(*controller, Some(&trust.stranger)).await else { continue };
            let Ok(mut connection) = xds::Connection::over(stream).await else { continue };
            for _ in 0..10 {
                let path = "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus";
                let Ok((_, rest)) = connection.unfinished(path, almost.clone()).await else { break };
                held.push(Box::new(rest));
            }
        }
    }
    println!("    {plain} connections and {} TLS connections or streams held", held.len() - plain);
    // Probes still succeed.
    let mut slowest = Duration::ZERO;
    let probes = [(controllers, 18001, "/readyz"), (envoys, 8002, "/ready")];
    for (addresses, port, path) in probes {
        for (_, address) in (0..10).flat_map(|round| addresses.iter().map(move |address| (round, address))) {
            let start = Instant::now();
            let answer = Target::http(port, "localhost").at(*address).get(path).await.expect("an answer");
            assert_eq!(answer.status, 200, "{path} of {address}");
            slowest = slowest.max(start.elapsed());
        }
    }
    println!("    the slowest probe took {slowest:?}");
    held
}
