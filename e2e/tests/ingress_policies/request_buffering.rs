//! Requests that backends receive when their body is complete.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use e2e::client::raw;
use e2e::manifests::{documents, ingress, service};
use e2e::server::Server;
use e2e::{Echo, HttpAuthorizer, Mode, Target, wait_everywhere, wait_until};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Method, Request, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Site, answers, host, policy};

/// The policies by the name of their Ingress. The authorization server and the other limits come before the filter that holds the body.
const POLICIES: [(&str, &str); 5] = [
    ("held", "requestBuffering: { maxSize: 256KiB }"),
    ("small", "requestBuffering: { maxSize: 1KiB }"),
    (
        "asked",
        "externalAuthorization: { backendRef: { name: authorizer, port: 80 }, protocol: http }\n  \
         requestBuffering: { maxSize: 1KiB }",
    ),
    ("limited", "requestBuffering: { maxSize: 256KiB }\n  maxRequestBody: 512B"),
    ("rated", "requestBuffering: { maxSize: 256KiB }\n  localRateLimit: { requests: 1, unit: hour }"),
];

/// Sends a request with a body of 10 bytes, except for the last byte.
async fn begin(port: u16, host: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.expect("a connection");
    let request =
        format!("POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 10\r\nConnection: close\r\n\r\n012345678");
    stream.write_all(request.as_bytes()).await.expect("a request sent");
    stream
}

/// Returns the status of a request with a chunked body of this size.
async fn chunked(port: u16, host: &str, size: usize) -> String {
    let head = format!("POST / HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
    let request = format!("{head}{size:x}\r\n{}\r\n0\r\n\r\n", "a".repeat(size));
    let answer = raw(port, request.as_bytes(), |seen| seen.len() > 12).await;
    String::from_utf8_lossy(&answer).chars().skip("HTTP/1.1 ".len()).take(3).collect()
}

async fn holds(settings: &str, named: fn(&str) -> String, asked: fn(&str) -> String) {
    let names: Vec<&str> = POLICIES.iter().map(|(name, _)| *name).chain(["open"]).collect();
    let ingresses: Vec<String> = names
        .iter()
        .map(|name| {
            ingress(name, &named(name), "counting", Some("cert")).replace(&named(name), &format!("'{}'", named(name)))
        })
        .collect();
    let hosts: Vec<String> = names.iter().flat_map(|name| [host(name), format!("*.{}", host(name))]).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let site = Site::open(Mode::Delta, settings, &hosts, &ingresses).await;
    let begun = Arc::new(AtomicU64::new(0));
    let counted = begun.clone();
    // It counts a request before it reads the body.
    let counting = Server::http(move |request: Request<Incoming>| {
        counted.fetch_add(1, Ordering::Relaxed);
        async {
            Response::new(Full::<Bytes>::from(
                request.into_body().collect().await.map_or(Bytes::new(), |body| body.to_bytes()),
            ))
        }
    })
    .await;
    let requests = || begun.load(Ordering::Relaxed);
    let authorizer = HttpAuthorizer::start().await;
    let services = [service("counting", "", &[counting.address]), service("authorizer", "", &[authorizer.address])];
    site.manifests.write("services.yaml", &documents(&services));
    let target = |name: &str, is_tls: bool| site.target(&asked(name), is_tls);
    for name in &names {
        answers(&target(name, false), 200).await;
    }
    site.manifests.write("policies.yaml", &documents(&POLICIES.map(|(name, spec)| policy(name, spec))));
    for is_tls in [false, true] {
        let post = async |name: &str, size: usize| {
            let sent = target(name, is_tls).send(Method::POST, "/", vec![b'a'; size]).await;
            sent.map_or(0, |answer| {
                assert!(answer.status != 200 || answer.body.len() == size, "{} of {size} bytes", answer.body.len());
                answer.status
            })
        };
        wait_everywhere("the limit of a held body", async || post("small", 1025).await == 413).await;
        for (name, size, status) in [
            ("small", 1024, 200),
            ("asked", 1024, 200),
            ("asked", 1025, 413),
            ("limited", 512, 200),
            ("limited", 513, 413),
            // More than a connection holds by itself.
            ("held", 256 << 10, 200),
            ("held", (256 << 10) + 1, 413),
        ] {
            let what = format!("{status} for {size} bytes to {name}, tls: {is_tls}");
            wait_everywhere(&what, async || post(name, size).await == status).await;
        }
    }
    let port = site.lockgate.http;
    for (name, size, status) in
        [("small", 1024, "200"), ("small", 1025, "413"), ("asked", 1025, "413"), ("held", 200 << 10, "200")]
    {
        assert_eq!(chunked(port, &asked(name), size).await, status, "{name} {size}");
    }

    // The backend receives no request whose body is not complete.
    let is_received = async |stream: &mut TcpStream, before: u64| {
        let active = || async {
            let stats = site.envoy.stats("^http\\..*\\.downstream_rq_active$").await;
            stats.values().sum::<u64>()
        };
        wait_until("Envoy to read the request", async || active().await > 0).await;
        let received = requests() > before;
        stream.write_all(b"9").await.expect("the rest of the body");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert_eq!(requests(), before + 1);
        received
    };
    let before = requests();
    let mut stream = begin(port, &asked("open")).await;
    wait_until("a request without its body", async || requests() > before).await;
    assert!(is_received(&mut stream, before).await, "a body is streamed by default");
    for name in ["held", "asked"] {
        let before = requests();
        let mut stream = begin(port, &asked(name)).await;
        // A request that begins later is answered meanwhile.
        assert_eq!(target("open", false).get("/").await.expect("an answer").status, 200);
        let before = before + 1;
        assert!(!is_received(&mut stream, before).await, "{name}");
    }
    // A limit of the rate precedes the body.
    answers(&target("rated", false), 429).await;
    let mut stream = begin(port, &asked("rated")).await;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 429");
    // A websocket has no end.
    let upgrade = format!(
        "GET / HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n",
        asked("held")
    );
    let answer = raw(port, upgrade.as_bytes(), |seen| seen.len() > 12).await;
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_held_until_they_are_complete() {
    holds("", host, host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_to_wildcard_hosts_are_held_until_they_are_complete() {
    holds("", |name| format!("*.{}", host(name)), |name| format!("a.{}", host(name))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_held_without_scopes() {
    holds("routes: { discovery: rds }\n", host, host).await;
}

/// A size beyond the setting is reduced to it.
#[tokio::test(flavor = "multi_thread")]
async fn the_setting_limits_the_size_of_held_bodies() {
    let ingresses = [ingress("shop", "shop.test", "echo", Some("cert"))];
    let site = Site::open(Mode::Sotw, "tenants: { maxBufferedBytes: 2KiB }\n", &["shop.test"], &ingresses).await;
    let echo = Echo::start().await;
    site.manifests.write("services.yaml", &service("echo", "", &[echo.address]));
    site.manifests.write("policies.yaml", &policy("shop", "requestBuffering: { maxSize: 1MiB }"));
    for is_tls in [false, true] {
        let shop: Target = site.target("shop.test", is_tls);
        let post = async |size: usize| {
            let answer = shop.send(Method::POST, "/", vec![b'a'; size]).await;
            answer.map_or(0, |answer| answer.status)
        };
        wait_everywhere("the limit of the setting", async || post(2049).await == 413).await;
        assert_eq!(post(2048).await, 200);
    }
}
