//! Effects on HTTP: compression, headers, PROXY protocol, paths, and versions.

use bytes::Bytes;
use e2e::Target;
use e2e::client::raw;
use hyper::Method;

use super::{HOST, Site, assert_asked};

/// Returns whether one response was read completely, with or without its body.
fn answered(read: &[u8]) -> bool {
    read.windows(4).any(|end| end == b"\r\n\r\n")
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_compressed_as_the_client_likes_it() {
    let site = Site::with("compression: { algorithms: [brotli, gzip, zstd], minimumSize: 512B }\n").await;
    let shop = site.plain();
    for (accepted, encoding) in
        [("gzip", "gzip"), ("br", "br"), ("zstd", "zstd"), ("gzip, br", "br"), ("gzip;q=1, br;q=0.5", "gzip"), ("", "")]
    {
        let answer = shop.clone().field("accept-encoding", accepted).get("/?bytes=5000").await.expect("an answer");
        assert_eq!(answer.header("content-encoding"), encoding, "accept-encoding: {accepted}");
        assert_eq!(answer.body.len() < 2000, !encoding.is_empty(), "{} bytes of {encoding}", answer.body.len());
    }
    let small = shop.field("accept-encoding", "gzip").get("/").await.expect("an answer");
    assert!(small.body.len() < 512, "{}", small.text());
    assert_eq!(small.header("content-encoding"), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_compressed_by_default() {
    let site = Site::with("").await;
    let answer = site.plain().field("accept-encoding", "gzip").get("/?bytes=5000").await.expect("an answer");
    assert_eq!((answer.header("content-encoding"), answer.body.len()), ("", 5000));
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_are_set_and_removed_in_both_directions() {
    let site = Site::with(
        "headers:\n  request:\n    set:\n      x-peer: \"%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%, 100%%\"\n      \
         x-client: ours\n    remove: [x-internal]\n  response:\n    set: { strict-transport-security: max-age=600 }\n    \
         remove: [x-powered-by]\n",
    )
    .await;
    for shop in [site.plain(), site.tls()] {
        let answer = shop.field("x-client", "theirs").field("x-internal", "secret").get("/").await.expect("an answer");
        assert_asked(&answer, "x-peer: 127.0.0.1, 100%");
        assert_asked(&answer, "x-client: ours");
        assert!(!answer.text().contains("x-internal") && !answer.text().contains("theirs"), "{}", answer.text());
        assert_eq!(answer.header("strict-transport-security"), "max-age=600");
        assert!(!answer.headers.contains_key("x-powered-by"));
    }
    // Envoy's own responses too.
    let nobody = Target::http(site.lockgate.http, "nobody.test").get("/").await.expect("an answer");
    assert_eq!((nobody.status, nobody.header("strict-transport-security")), (404, "max-age=600"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_header_says_who_the_client_is() {
    let site = Site::with("listeners: { proxyProtocol: required }\n").await;
    let request = format!("GET / HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n");
    let version_1 = format!("PROXY TCP4 203.0.113.7 127.0.0.1 1111 80\r\n{request}");
    // RFC-less: the PROXY protocol, section 2.2. Signature, version 2 and PROXY, TCP over IPv4, 12 bytes of addresses.
    let mut version_2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    version_2.extend([203, 0, 113, 8, 127, 0, 0, 1, 4, 87, 0, 80]);
    version_2.extend(request.as_bytes());
    let one = text(raw(site.lockgate.http, version_1.as_bytes(), |_| false).await);
    assert!(one.contains("x-forwarded-for: 203.0.113.7\n"), "{one}");
    let two = text(raw(site.lockgate.http, &version_2, |_| false).await);
    assert!(two.contains("x-forwarded-for: 203.0.113.8\n"), "{two}");
    assert_eq!(raw(site.lockgate.http, request.as_bytes(), |_| false).await, b"");
    // The listener for probes does not use it.
    let ready = Target::http(site.lockgate.stats, "localhost").get("/ready").await.expect("an answer");
    assert_eq!(ready.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_header_may_be_optional() {
    let site = Site::with("listeners: { proxyProtocol: optional }\n").await;
    for shop in [site.plain(), site.tls()] {
        assert_eq!(shop.get("/").await.expect("an answer").status, 200);
    }
    let request = format!("GET / HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n");
    let request = format!("PROXY TCP4 203.0.113.7 127.0.0.1 1111 80\r\n{request}");
    let answer = text(raw(site.lockgate.http, request.as_bytes(), |_| false).await);
    assert!(answer.contains("x-forwarded-for: 203.0.113.7\n"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_and_paths_are_brought_into_form() {
    let site = Site::with("http: { stripTrailingHostDot: false, mergeSlashes: false }\n").await;
    let dot = Target::http(site.lockgate.http, "shop.test.").get("/a").await.expect("an answer");
    assert_eq!(dot.status, 404);
    assert_asked(&site.plain().get("//a//b").await.expect("an answer"), "GET //a//b HTTP/1.1");

    let default = Site::with("").await;
    let dot = Target::http(default.lockgate.http, "shop.test.").get("/a").await.expect("an answer");
    assert_asked(&dot, "GET /a HTTP/1.1");
    assert_asked(&default.plain().get("//a//b").await.expect("an answer"), "GET /a/b HTTP/1.1");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_header_is_whose_it_shall_be() {
    for (setting, expected) in [("overwrite", "envoy"), ("append_if_absent", "echo"), ("pass_through", "echo")] {
        let site = Site::with(&format!("http: {{ serverHeader: {setting} }}\n")).await;
        let answer = site.plain().get("/").await.expect("an answer");
        assert_eq!(answer.header("server"), expected, "{setting}");
        let nobody = Target::http(site.lockgate.http, "nobody.test").get("/").await.expect("an answer");
        assert_eq!(nobody.header("server").is_empty(), setting == "pass_through", "{setting}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_of_trusted_proxies_are_believed() {
    let site = Site::with("http: { trustedHops: 1 }\n").await;
    let shop = site.plain().field("x-forwarded-for", "198.51.100.1, 198.51.100.2");
    let answer = shop.get("/").await.expect("an answer");
    assert!(answer.text().contains("x-forwarded-for: 198.51.100.1, 198.51.100.2,"), "{}", answer.text());
    assert_asked(&answer, "x-envoy-external-address: 198.51.100.2");
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_with_underscores_are_treated_as_asked() {
    for (setting, status, passed) in [("drop", 200, false), ("allow", 200, true), ("reject", 400, false)] {
        let site = Site::with(&format!("http: {{ headersWithUnderscores: {setting} }}\n")).await;
        let answer = site.plain().field("x_forwarded_for", "me").get("/").await.expect("an answer");
        assert_eq!((answer.status, answer.text().contains("x_forwarded_for: me")), (status, passed), "{setting}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_length_beside_chunks_is_refused_unless_allowed() {
    let request = format!(
        "POST / HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n\
         0\r\n\r\n"
    );
    for (allowed, status) in [(false, "400"), (true, "200")] {
        let site = Site::with(&format!("http: {{ allowChunkedLength: {allowed} }}\n")).await;
        let answer = text(raw(site.lockgate.http, request.as_bytes(), answered).await);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{allowed}: {answer}");
        assert!(!answer.contains("content-length: 3"), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_of_http_are_those_that_are_offered() {
    let agreed = async |site: &Site, alpn: &[&str]| {
        let target = Target::https_by(site.lockgate.https, HOST, site.authority.der(), rustls::ALL_VERSIONS, alpn);
        target.connect().await.expect("a connection").agreed.expect("TLS").alpn
    };
    let both = Site::with("").await;
    assert_eq!(agreed(&both, &["http/1.1", "h2"]).await, "h2");
    let one = Site::with("http: { versions: [HTTP/1.1] }\n").await;
    assert_eq!(agreed(&one, &["http/1.1", "h2"]).await, "http/1.1");
    assert_eq!(one.tls().get("/").await.expect("an answer").status, 200);
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let refused = text(raw(one.lockgate.http, preface, |_| false).await);
    assert!(refused.is_empty() || refused.starts_with("HTTP/1.1 4"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_at_a_time_are_told_to_clients_of_http2() {
    let site = Site::with("http: { maxConcurrentStreams: 7 }\n").await;
    // The preface and empty SETTINGS. Source: RFC 9113 sections 3.4 and 6.5.
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let read = raw(site.lockgate.http, preface, |read| read.len() >= 9 && read.len() >= 9 + frame_length(read)).await;
    let settings: Vec<(u16, u32)> = read[9..9 + frame_length(&read)]
        .chunks_exact(6)
        .map(|one| {
            let value = one[2..].try_into().expect("four bytes");
            (u16::from_be_bytes([one[0], one[1]]), u32::from_be_bytes(value))
        })
        .collect();
    const MAX_CONCURRENT_STREAMS: u16 = 3;
    assert!(settings.contains(&(MAX_CONCURRENT_STREAMS, 7)), "{settings:?}");
}

fn frame_length(read: &[u8]) -> usize {
    usize::from(read[0]) << 16 | usize::from(read[1]) << 8 | usize::from(read[2])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_ends_in_good_order_after_its_requests() {
    let site = Site::with("http: { maxRequestsPerConnection: 2 }\n").await;
    let mut connection = site.plain().connect().await.expect("a connection");
    let first = connection.send(Method::GET, "/", Bytes::new()).await.expect("an answer");
    assert_eq!((first.status, first.header("connection")), (200, ""));
    assert!(connection.usable().await);
    let second = connection.send(Method::GET, "/", Bytes::new()).await.expect("an answer");
    assert_eq!((second.status, second.header("connection")), (200, "close"));
    assert!(!connection.usable().await);
}
