//! Timeouts, and limits of the resources of clients.

use std::time::{Duration, Instant};

use e2e::client::raw;
use e2e::{Target, wait_until};

use super::{HOST, Site};

#[tokio::test(flavor = "multi_thread")]
async fn each_time_limit_ends_what_it_is_about() {
    let site = Site::with(
        "timeouts:\n  request: 300ms\n  requestHeaders: 200ms\n  response: 400ms\n  connectionIdle: 500ms\n",
    )
    .await;
    let late = site.plain().get("/?wait=10000").await.expect("an answer");
    assert_eq!((late.status, late.text()), (504, "upstream request timeout".to_owned()));
    // Headers that never end, and a missing body.
    let headers = format!("GET / HTTP/1.1\r\nHost: {HOST}\r\n");
    let answer = raw(site.lockgate.http, headers.as_bytes(), |_| false).await;
    assert!(answer.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&answer));
    let body = format!("POST / HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 9\r\n\r\nhalf");
    let answer = raw(site.lockgate.http, body.as_bytes(), |_| false).await;
    assert!(answer.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&answer));
    // A connection without requests.
    let start = Instant::now();
    assert_eq!(raw(site.lockgate.http, b"", |_| false).await, b"");
    assert!(start.elapsed() >= Duration::from_millis(450), "{:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_may_not_be_idle_for_longer() {
    let site = Site::with("timeouts: { streamIdle: 300ms, response: off }\n").await;
    let answer = site.plain().get("/?wait=10000").await.expect("an answer");
    assert_eq!((answer.status, answer.text()), (504, "stream timeout".to_owned()));
}

/// Downloads, server-sent events, and gRPC streams: active transfers continue, and idle ones are closed.
#[tokio::test(flavor = "multi_thread")]
async fn a_response_may_take_longer_than_the_idle_limit_as_long_as_it_goes_on() {
    let site = Site::with("timeouts: { streamIdle: 1s }\n").await;
    let start = Instant::now();
    let answer = site.plain().get("/?bytes=1000&pieces=15&every=150").await.expect("an answer");
    assert_eq!((answer.status, answer.body.len()), (200, 1015));
    assert!(start.elapsed() > Duration::from_secs(2), "{:?}", start.elapsed());
    assert!(site.plain().get("/?pieces=1&every=60000").await.is_err(), "a response stood still");
    // A timeout of the whole response exists only with a setting or an annotation.
    let cut = Site::with("timeouts: { response: 500ms }\n").await;
    assert!(cut.plain().get("/?pieces=100&every=100").await.is_err(), "a response passed its limit");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_has_no_limit_as_a_whole_by_default() {
    let site = Site::with("").await;
    let routes = site.envoy.get("/config_dump?include_eds").await.text();
    assert!(routes.contains("\"timeout\": \"0s\""), "a route with another limit");
    assert!(routes.contains("\"stream_idle_timeout\": \"300s\""), "no limit of idle streams");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_gets_no_older() {
    let site = Site::with("timeouts: { maxConnectionDuration: 300ms, drain: 100ms, connectionIdle: 1h }\n").await;
    let mut connection = site.plain().connect().await.expect("a connection");
    let mut answers = 0;
    wait_until("the end of an old connection", async || {
        let answer = connection.send(hyper::Method::GET, "/", bytes::Bytes::new()).await;
        answers += u32::from(answer.is_ok_and(|answer| answer.status == 200));
        !connection.usable().await
    })
    .await;
    assert!(answers > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_headers_are_refused() {
    let site = Site::with("http: { maxRequestHeaders: 8KiB }\n").await;
    let with = async |length: usize| {
        let value = "x".repeat(length);
        site.plain().field("x-large", &value).get("/").await.expect("an answer").status
    };
    assert_eq!(with(6 * 1024).await, 200);
    assert_eq!(with(9 * 1024).await, 431);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_limited_without_a_change_of_the_listener() {
    let site = Site::with("").await;
    let version = async || site.lockgate.resources().await;
    let before = version().await;
    site.config.write("lockgate.yaml", "listeners: { maxConnections: 2 }\nhttp: { maxRequestsPerIoCycle: 1 }\n");
    let runtime = async || site.envoy.get("/runtime").await.text();
    wait_until("the limits in Envoy's runtime", async || {
        let flags = runtime().await;
        flags.contains("envoy.resource_limits.listener.http.connection_limit")
            && flags.contains("http.max_requests_per_io_cycle")
    })
    .await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut connection = site.plain().connect().await.expect("a connection");
        let answer = connection.send(hyper::Method::GET, "/", bytes::Bytes::new()).await.expect("an answer");
        assert_eq!(answer.status, 200);
        held.push(connection);
    }
    assert!(site.plain().get("/").await.is_err(), "a third connection was served");
    // Probes still succeed.
    assert_eq!(Target::http(site.lockgate.stats, "localhost").get("/ready").await.expect("an answer").status, 200);
    let after = version().await;
    let changed: Vec<_> = after.iter().filter(|(name, version)| before.get(*name) != Some(*version)).collect();
    assert!(changed.iter().all(|(name, _)| name.starts_with("Runtime")) && changed.len() == 1, "{changed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overloaded_envoy_is_ready_for_probes_but_not_for_load_balancers() {
    let port = e2e::ports::free();
    let settings = format!("listeners: {{ overloadProbe: {{ port: {port} }} }}\n");
    let site = Site::with_flags(&settings, &["--max-connections", "3"]).await;
    let ready =
        async |port| Target::http(port, "localhost").get("/ready").await.is_ok_and(|answer| answer.status == 200);
    assert!(ready(port).await && ready(site.lockgate.stats).await);
    let mut held = Vec::new();
    // A connection of an earlier request can occupy a slot until Envoy has closed it.
    wait_until("three connections and no room for another", async || {
        let mut connection = site.plain().connect().await.expect("a connection");
        if connection.send(hyper::Method::GET, "/", bytes::Bytes::new()).await.is_ok() {
            held.push(connection);
        }
        assert!(held.len() <= 3, "a fourth connection was served");
        held.len() == 3 && !ready(port).await
    })
    .await;
    assert!(ready(site.lockgate.stats).await, "the kubelet would restart it");
    drop(held);
    wait_until("room again", async || ready(port).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_admin_interface_can_be_read_and_nothing_else() {
    let port = e2e::ports::free();
    let site = Site::with(&format!("listeners: {{ admin: {{ port: {port} }} }}\n")).await;
    let admin = Target::http(port, "localhost");
    wait_until("the listener", async || admin.get("/ready").await.is_ok_and(|answer| answer.status == 200)).await;
    for (path, part) in [
        ("/certs", "certificates"),
        ("/clusters?format=json", "cluster_statuses"),
        ("/config_dump", "dynamic_listeners"),
        ("/listeners", "http::"),
        ("/memory", "heap_size"),
        ("/runtime", "layers"),
        ("/server_info", "LIVE"),
        ("/stats", "server.uptime"),
        ("/stats/prometheus", "# TYPE"),
        ("/stats/recentlookups", "Lookup"),
    ] {
        let answer = admin.get(path).await.expect("an answer");
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.text().contains(part), "{path}: {}", answer.text());
        assert!(!answer.text().contains("PRIVATE KEY"), "{path} has a private key");
        let post = admin.send(hyper::Method::POST, path, "").await.expect("an answer");
        assert_eq!(post.status, 404, "POST {path}");
    }
    for path in
        ["/", "/quitquitquit", "/healthcheck/fail", "/logging", "/drain_listeners", "/reset_counters", "/config_dump/"]
    {
        assert_eq!(admin.get(path).await.expect("an answer").status, 404, "{path}");
    }
    // Only the own address of this machine.
    let other = admin.at("127.0.0.2".parse().expect("an address")).get("/ready").await;
    assert!(other.is_err(), "{:?}", other.map(|answer| answer.status));
    site.plain().get("/").await.expect("an answer");
}
