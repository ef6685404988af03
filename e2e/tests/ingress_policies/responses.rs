//! The limit of the size of responses.

use e2e::client::raw;
use e2e::manifests::{documents, ingress, service};
use e2e::{Echo, Mode, Processor, Target, wait_everywhere};
use hyper::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{Site, answers, host, policy};

/// The features of the policies, by the name of the Ingress, and the Service.
const POLICIES: [(&str, &str, &str); 10] = [
    ("strict", "echo", "maxResponseBody: { size: 1KiB }"),
    ("loose", "echo", "maxResponseBody: { size: 1KiB, unknownLength: Allow }"),
    ("later", "h2", "maxResponseBody: { size: 1KiB }"),
    ("zipped", "echo", "maxResponseBody: { size: 1KiB }\n  compression: { algorithms: [gzip] }"),
    ("told", "echo", "maxResponseBody: { size: 1KiB }\n  errorResponses: [{ statuses: [502], body: sorry }]"),
    ("lying", "liar", "maxResponseBody: { size: 1KiB }"),
    (
        "processed",
        "echo",
        "maxResponseBody: { size: 1KiB }\n  externalProcessing: { backendRef: { name: processor, port: 80 } }",
    ),
    ("faulty", "echo", "maxResponseBody: { size: many }"),
    ("five", "liar", "maxResponseBody: { size: 5B }"),
    ("four", "liar", "maxResponseBody: { size: 4B }"),
];

/// A backend whose bodies are longer than it states, and which accepts websockets.
async fn liar() -> (std::net::SocketAddr, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let serve = async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                    if stream.read_buf(&mut head).await.is_ok_and(|read| read > 0) { continue } else { return }
                }
                let is_websocket = head.to_ascii_lowercase().windows(18).any(|text| text == b"upgrade: websocket");
                let answer = match is_websocket {
                    true => "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
                    false => "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n",
                };
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.write_all(&[b'x'; 100_000]).await;
            });
        }
    };
    (address, tokio::spawn(serve))
}

async fn limits(settings: &str, is_wildcard: bool) {
    let host = |name: &str| if is_wildcard { format!("a.{}", host(name)) } else { host(name) };
    let named = |name: &str| if is_wildcard { format!("*.{name}.test") } else { host(name) };
    let hosts: Vec<String> = POLICIES.iter().map(|(name, ..)| named(name)).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let of =
        |(name, service, _): &(&str, &str, &str)| ingress(name, &format!("'{}'", named(name)), service, Some("cert"));
    let ingresses: Vec<String> = POLICIES.iter().map(of).collect();
    let site = Site::open(Mode::Delta, settings, &hosts, &ingresses).await;
    let (echo, processor, (liar, _task)) = (Echo::start().await, Processor::start().await, liar().await);
    let services = [
        service("echo", "", &[echo.address]),
        service("h2", "projectcontour.io/upstream-protocol.h2c: '80'", &[echo.address]),
        service("liar", "", &[liar]),
        service("processor", "", &[processor.address]),
    ];
    site.manifests.write("services.yaml", &documents(&services));
    for (name, ..) in POLICIES {
        answers(&site.target(&host(name), false), 200).await;
    }
    let policies: Vec<String> = POLICIES.iter().map(|(name, _, spec)| policy(name, spec)).collect();
    site.manifests.write("policies.yaml", &documents(&policies));
    for is_tls in [false, true] {
        let target = |name: &str| site.target(&host(name), is_tls);
        let get = async |target: &Target, path: &str| target.get(path).await.expect("an answer");
        for (name, _, _) in &POLICIES[..5] {
            let refused = async || get(&target(name), "/?bytes=1025").await.status == 502;
            wait_everywhere(&format!("{name}: a larger response is refused"), refused).await;
        }
        for name in ["strict", "loose", "later"] {
            let target = target(name);
            let fits = get(&target, "/?bytes=1024").await;
            assert_eq!((fits.status, fits.body.len()), (200, 1024), "{name}");
            let large = get(&target, "/?bytes=1000000").await;
            assert_eq!((large.status, &*large.text()), (502, "the response of the backend is too large\n"), "{name}");
            let unknown = get(&target, "/?pieces=2&every=1").await;
            assert_eq!(unknown.status, if name == "loose" { 200 } else { 502 }, "{name}");
            // An error of the backend is a response, too.
            assert_eq!(get(&target, "/?status=500&bytes=1025").await.status, 502, "{name}");
            assert_eq!(get(&target, "/?status=500&bytes=10").await.status, 500, "{name}");
            // The backend ends these answers by a frame of their own in HTTP/2, which Envoy refuses.
            for status in [204, 304].into_iter().filter(|_| name != "later") {
                let answer = get(&target, &format!("/?status={status}&bytes=0")).await;
                assert_eq!(answer.status, status, "{name}: {}", answer.text());
            }
            // A response to HEAD has no body, whatever length it states.
            let head = target.send(Method::HEAD, "/?bytes=5000", "").await.expect("an answer");
            assert_eq!((head.status, head.body.len()), (200, 0), "{name}");
        }
        // The response of the backend is limited, before Envoy compresses it.
        let zipped = target("zipped").field("accept-encoding", "gzip");
        let answer = get(&zipped, "/?bytes=1000").await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        // The answer of the limit stays, and others with its status are replaced.
        let told = get(&target("told"), "/?bytes=1025").await;
        assert_eq!((told.status, &*told.text()), (502, "the response of the backend is too large\n"));
        let told = get(&target("told"), "/?status=502&bytes=10").await;
        assert_eq!((told.status, &*told.text()), (502, "sorry"));
        answers(&target("four"), 502).await;
        answers(&target("five"), 200).await;
        for name in ["processed", "faulty"] {
            answers(&target(name), 403).await;
        }
    }
    // A client that claims to open a websocket lifts no limit.
    let claim = site.target(&host("strict"), false).field("upgrade", "websocket").field("connection", "upgrade");
    assert_eq!(claim.get("/?bytes=5000").await.expect("an answer").status, 502);
    // No more than the stated length arrives.
    let lying = site.target(&host("lying"), false);
    let answer = lying.get("/").await.expect("an answer");
    assert_eq!((answer.status, &*answer.text()), (200, "xxxxx"));
    let request = format!(
        "GET / HTTP/1.1\r\nhost: {}\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
        host("lying")
    );
    let seen = raw(site.lockgate.http, request.as_bytes(), |seen| seen.len() > 100_000).await;
    assert!(seen.starts_with(b"HTTP/1.1 101"), "a websocket has no limit");
}

#[tokio::test(flavor = "multi_thread")]
async fn larger_responses_are_refused() {
    limits("", false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn larger_responses_are_refused_without_scopes() {
    limits("routes: { discovery: rds }\n", false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn larger_responses_of_wildcard_hosts_are_refused() {
    limits("", true).await;
}
