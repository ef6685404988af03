//! The selection of endpoints by the hash of a request, and the PROXY protocol to endpoints.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::{Envoy, Lockgate, Manifests, Mode, Source, Target, wait_everywhere, wait_until};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;

use super::site::{Site, policy};

/// Returns the backends that answer several requests to a target.
async fn backends(target: &Target, path: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for _ in 0..8 {
        found.extend(target.backend(path).await);
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_parts_of_requests_lead_to_one_endpoint() {
    let site = Site::open(4, "").await;
    for algorithm in ["RingHash", "Maglev"] {
        let parts = "hashOn: [{ type: Header, name: x-user }, { type: QueryParameter, name: user }, { type: Path }]";
        site.policy(&format!("loadBalancing: {{ algorithm: {algorithm}, {parts} }}")).await;
        wait_everywhere("the same endpoint", async || backends(&site.target(), "/same").await.len() == 1).await;
        let (mut by_header, mut by_query, mut by_path) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for user in 0..12 {
            let user = user.to_string();
            let header = backends(&site.target().field("x-user", &user), &format!("/{user}?user={user}")).await;
            let query = backends(&site.target(), &format!("/?user={user}")).await;
            let path = backends(&site.target(), &format!("/{user}")).await;
            assert_eq!((header.len(), query.len(), path.len()), (1, 1, 1), "{algorithm}, {user}");
            assert_eq!(backends(&site.target(), &format!("/{user}?page=2")).await, path, "the query has no effect");
            by_header.extend(header);
            by_query.extend(query);
            by_path.extend(path);
        }
        for endpoints in [by_header, by_query, by_path] {
            assert!(endpoints.len() > 1, "{algorithm}: {endpoints:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generated_cookie_leads_to_one_endpoint() {
    let site = Site::open(4, "").await;
    site.policy(
        "loadBalancing: { algorithm: Maglev, hashOn: [{ type: Cookie, name: sid, path: /shop, lifetime: 1h }] }",
    )
    .await;
    wait_everywhere("a cookie", async || {
        let answer = site.target().get("/").await;
        answer.is_ok_and(|answer| answer.header("set-cookie").starts_with("sid="))
    })
    .await;
    let mut endpoints = BTreeSet::new();
    for _ in 0..12 {
        let first = site.target().get("/").await.expect("an answer");
        let cookie = first.header("set-cookie");
        assert!(cookie.contains("Max-Age=3600") && cookie.contains("Path=/shop"), "{cookie}");
        let with_cookie = site.target().field("cookie", cookie.split(';').next().expect("a value"));
        let found = backends(&with_cookie, "/").await;
        assert!(found.iter().eq([first.header("x-backend")]), "{found:?}");
        endpoints.extend(found);
    }
    assert!(endpoints.len() > 1, "{endpoints:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_receive_the_address_of_the_client_by_the_proxy_protocol() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let first_lines = Arc::new(Mutex::new(Vec::new()));
    let lines = first_lines.clone();
    let server = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let lines = lines.clone();
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                let mut line = String::new();
                let _ = stream.read_line(&mut line).await;
                lines.lock().expect("the lines").push(line);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
            });
        }
    });
    let manifests = Manifests::new();
    let all = [ingress_class(), service("shop", "", &[address]), ingress("shop", "shop.test", "shop", None)];
    manifests.write("base.yaml", &documents(&all));
    manifests.write("policy.yaml", &policy("proxyProtocol: V1"));
    let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &[]).await;
    let _envoy = Envoy::start(&lockgate, Mode::Delta).await;
    let target = Target::http(lockgate.http, "shop.test");
    wait_until("an answer", async || target.get("/").await.is_ok_and(|answer| answer.status == 200)).await;
    let lines = first_lines.lock().expect("the lines").clone();
    assert!(lines.iter().all(|line| line.starts_with("PROXY TCP4 127.0.0.1 127.0.0.1 ")), "{lines:?}");
    server.abort();
}
