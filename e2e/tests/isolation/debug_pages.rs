//! `/debug/` shows the objects of all tenants, and can change the log level. Other pods and web pages can reach the
//! admin port too.

use std::net::SocketAddr;

use e2e::manifests::ingress_class;
use e2e::{Lockgate, Manifests, ports};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

/// Returns the status of the answer to `request`, sent from one address to another.
async fn status(port: u16, from: &str, to: &str, request: &str) -> u16 {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::new(from.parse().expect("an address"), 0)).expect("an address of this machine");
    let to = SocketAddr::new(to.parse().expect("an address"), port);
    let mut socket = socket.connect(to).await.expect("a connection");
    socket.write_all(request.as_bytes()).await.expect("a request sent");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.expect("an answer");
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{answer:?}"))
}

fn get(path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\n{fields}Connection: close\r\n\r\n")
}

fn put_log(fields: &str) -> String {
    format!("PUT /debug/log HTTP/1.1\r\n{fields}Connection: close\r\nContent-Length: 5\r\n\r\ndebug")
}

/// The admin address is open to the network, as in the chart.
async fn open() -> (Manifests, Lockgate) {
    let manifests = Manifests::new();
    manifests.write("class.yaml", &ingress_class());
    let path = manifests.path().display().to_string();
    let file = "xds: { address: '127.0.0.1:XDS' }\nadmin: { address: '0.0.0.0:ADMIN' }\nlisteners:\n  \
                http: { port: HTTP_PORT }\n  https: { port: HTTPS_PORT }\n  stats: { port: STATS }\n";
    let mut lockgate = Lockgate::launch_by_file(&["--manifests", &path], file);
    lockgate.wait_ready().await;
    (manifests, lockgate)
}

#[tokio::test(flavor = "multi_thread")]
async fn debug_pages_are_for_this_machine_alone() {
    let (_manifests, lockgate) = open().await;
    let mut ends = vec![
        ("127.0.0.1".to_owned(), "127.0.0.1".to_owned(), 200),
        // The sidecar of a service mesh forwards requests of other pods from 127.0.0.6.
        ("127.0.0.6".to_owned(), "127.0.0.1".to_owned(), 403),
        ("127.0.0.1".to_owned(), "127.0.0.6".to_owned(), 403),
        ("127.0.0.6".to_owned(), "127.0.0.6".to_owned(), 403),
    ];
    let own = ports::own_address().map(|address| address.to_string());
    match &own {
        Some(own) => ends.extend([
            (own.clone(), own.clone(), 403),
            ("127.0.0.1".to_owned(), own.clone(), 403),
            (own.clone(), "127.0.0.1".to_owned(), 403),
        ]),
        None => println!("this machine has no address but loopback: those cases are left out"),
    }
    for (from, to, expected) in &ends {
        for request in [get("/debug/objects", "Host: localhost:18001\r\n"), put_log("Host: localhost\r\n")] {
            assert_eq!(status(lockgate.admin, from, to, &request).await, *expected, "{from} to {to}: {request}");
        }
        // Public pages are still available.
        for path in ["/healthz", "/readyz", "/metrics"] {
            let request = get(path, "Host: 10.0.0.1:18001\r\n");
            assert_eq!(status(lockgate.admin, from, to, &request).await, 200, "{from} to {to}: {path}");
        }
    }
    println!("{} pairs of addresses, own address {own:?}", ends.len());
}

/// A web page in a browser on this machine, which resolves its own name to 127.0.0.1 (DNS rebinding), or posts to
/// localhost.
#[tokio::test(flavor = "multi_thread")]
async fn debug_pages_are_not_for_web_pages() {
    let (_manifests, lockgate) = open().await;
    let answer = async |request: String| status(lockgate.admin, "127.0.0.1", "127.0.0.1", &request).await;
    for host in ["localhost", "localhost:9", "127.0.0.1:18001", "[::1]:18001"] {
        assert_eq!(answer(get("/debug/", &format!("Host: {host}\r\n"))).await, 200, "{host}");
    }
    for fields in [
        "Host: rebound.example:18001\r\n",
        "Host: localhost.rebound.example\r\n",
        "Host: 127.0.0.1.rebound.example\r\n",
        "Host: localhost\r\nOrigin: http://evil.example\r\n",
        "Host: localhost\r\nOrigin: null\r\n",
        "Host: localhost:18001\r\nOrigin: http://localhost:3000\r\n",
        "Host: localhost\r\nHost: rebound.example\r\n",
        "",
    ] {
        assert_ne!(answer(get("/debug/", fields)).await, 200, "{fields:?}");
        assert_ne!(answer(put_log(fields)).await, 200, "{fields:?}");
    }
    assert_eq!(answer(get("http://rebound.example/debug/", "Host: localhost\r\n")).await, 403);
    assert_eq!(lockgate.get("/debug/log").await.text().trim(), "info", "nobody has changed it");
    assert_eq!(answer(put_log("Host: localhost:18001\r\nOrigin: http://localhost:18001\r\n")).await, 200);
}
