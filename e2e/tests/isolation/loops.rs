//! A backend leads back to Envoy through another proxy, whose address nobody knows: a load balancer, a node.

use std::time::{Duration, Instant};

use e2e::manifests::{gateway, ingress, service};
use e2e::{Relay, Target, ports, wait_until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::site::{By, HOST, Site, received};

/// The Namespace whose uid identifies the Kubernetes cluster.
const CLUSTER: &str =
    "apiVersion: v1\nkind: Namespace\nmetadata: { name: kube-system, uid: 1b4e28ba-2fa1-11d2-883f-0016d3cca427 }\n";

/// The longest time of a request to another host, in a test that keeps the machine busy.
const MOST: Duration = Duration::from_secs(5);

/// Starts an Envoy with a backend that leads back to it, and asserts that each request passes `passes` times.
async fn site_with_loop(settings: &str, passes: u64) -> Site {
    // The connections, requests, and retries of the tenant's Service have no limits.
    let limits = ["connections", "pending-requests", "requests", "retries"];
    let limits: Vec<String> = limits.iter().map(|name| format!("projectcontour.io/max-{name}: '4294967295'")).collect();
    let proxy = Relay::start(&[]).await;
    let around = service("around", &limits.join(", "), &[([127, 0, 0, 1], proxy.port).into()]);
    let site = Site::with_objects(
        settings,
        &[CLUSTER.to_owned(), around, ingress("around", HOST, "around", None).replace("path: /\n", "path: /around\n")],
    )
    .await;
    proxy.set_remote_targets(vec![([127, 0, 0, 1], site.lockgate.http).into()]);
    for by in [By::Http, By::Http2, By::Https] {
        let answer = site.get(by, "/around", &[]).await;
        assert_eq!(
            (answer.status, answer.text().trim()),
            (502, "The server has detected a loop between CDNs."),
            "{by:?}"
        );
    }
    let passed = site.envoy.stat("cluster.default_around_http.upstream_rq_total").await;
    assert_eq!(passed, 3 * passes, "each request passes {passes} times");
    site
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_returns_as_often_as_the_settings_allow() {
    site_with_loop("http: { returns: 2 }\n", 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_passes_an_installation_once() {
    let site = site_with_loop("", 1).await;
    // A request of another installation passes, and so do other proxies' marks. A tenant's header changes nothing.
    let other = "other; v=1, lockgate-0000000000000000, lockgate-0000000000000000";
    let answer = site.get(By::Http, "/", &[("cdn-loop", other)]).await;
    assert_eq!(answer.status, 200);
    let marks = received(&answer)["cdn-loop"].to_str().expect("text").to_owned();
    let own = marks.strip_prefix(other).expect("the other marks").trim_start_matches(',');
    assert!(own.starts_with("lockgate-") && !other.contains(own), "{marks}");
    for (value, status) in
        [("cloudflare; loops=1; subreqs=1", 200), ("Fastly, cloudflare", 200), ("a b", 400), ("", 200)]
    {
        assert_eq!(site.get(By::Http, "/", &[("cdn-loop", value)]).await.status, status, "{value:?}");
    }
    let forged = [("cdn-loop", own)];
    wait_until("the answer to a forged mark", async || site.get(By::Https, "/", &forged).await.status == 502).await;
}

/// The Service `around` is the authorization server or the external processor of its own host.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_for_a_request_passes_an_installation_once() {
    let limits = "projectcontour.io/max-requests: '100000', projectcontour.io/max-pending-requests: '100000'";
    let proxy = Relay::start(&[]).await;
    let around = service("around", limits, &[([127, 0, 0, 1], proxy.port).into()]);
    let policy = |feature: &str| {
        format!(
            "apiVersion: lockgate.dev/v1alpha1\nkind: HTTPPolicy\nmetadata: {{ name: around, namespace: default }}\nspec:\n  \
             targetRefs: [{{ group: networking.k8s.io, kind: Ingress, name: around }}]\n  {feature}\n"
        )
    };
    let own = ingress("around", "around.default", "shop", None);
    let site = Site::with_objects("", &[CLUSTER.to_owned(), around, own]).await;
    proxy.set_remote_targets(vec![([127, 0, 0, 1], site.lockgate.http).into()]);
    for (feature, status) in [
        ("externalAuthorization: { backendRef: { name: around, port: 80 } }", 403),
        ("externalProcessing: { backendRef: { name: around, port: 80 } }", 503),
    ] {
        site.manifests.write("policy.yaml", &policy(feature));
        let target = Target::http(site.lockgate.http, "around.default");
        wait_until(feature, async || target.get("/").await.expect("an answer").status == status).await;
        let calls = async || {
            let stats = site.envoy.stats("cluster.default_around").await;
            stats.iter().filter(|(name, _)| name.ends_with(".upstream_rq_total")).map(|(_, count)| count).sum::<u64>()
        };
        let before = calls().await;
        assert_eq!(target.get("/").await.expect("an answer").status, status);
        assert_eq!(calls().await - before, 1, "{feature}");
    }
}

/// Formats a Gateway whose listener forwards to the Service `around`, which leads back to the listener.
fn listener_with_loop(protocol: &str, port: u16) -> [String; 3] {
    let limits = ["connections", "pending-requests", "requests", "retries"];
    let limits: Vec<String> = limits.iter().map(|name| format!("projectcontour.io/max-{name}: '4294967295'")).collect();
    let around = service("around", &limits.join(", "), &[([127, 0, 0, 1], port).into()]);
    let route = format!(
        "apiVersion: gateway.networking.k8s.io/v1alpha2\nkind: {protocol}Route\nmetadata: {{ name: around, namespace: default }}\nspec:\n  \
         parentRefs: [{{ name: public }}]\n  rules: [{{ backendRefs: [{{ name: around, port: 80 }}] }}]\n"
    );
    [
        gateway(port, protocol),
        route,
        around.replace("name: http, port", &format!("name: http, protocol: {protocol}, port")),
    ]
}

/// Runs `attack`, and asserts that another host is served meanwhile.
async fn is_served_during(site: &Site, attack: impl AsyncFnOnce()) {
    let mut answers = 0;
    let requests = async {
        loop {
            let start = Instant::now();
            assert_eq!(site.get(By::Http, "/", &[]).await.status, 200);
            assert!(start.elapsed() < MOST, "{:?}", start.elapsed());
            answers += 1;
        }
    };
    tokio::select! { () = attack() => {}, () = requests => {} }
    assert!(answers > 10, "only {answers} requests ran during the attack");
}

/// Returns the largest value of the statistics of the loop whose name ends with `suffix`.
async fn most(site: &Site, suffix: &str) -> u64 {
    let stats = site.envoy.stats(suffix).await;
    let of_loop = |name: &str| name.ends_with(suffix) && !name.contains("xds") && !name.contains("shop");
    stats.into_iter().filter(|(name, _)| of_loop(name)).map(|(_, value)| value).max().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_returns_ends_at_the_limit_of_its_listener() {
    let port = ports::free();
    let settings = "tenants: { maxConnectionsPerListener: 500 }\n";
    let site = Site::with_objects(settings, &listener_with_loop("TCP", port)).await;
    is_served_during(&site, async || {
        for _ in 0..20 {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).await.expect("a connection");
            stream.write_all(b"hello").await.expect("bytes");
            let end = timeout(MOST, stream.read_to_end(&mut vec![])).await;
            assert!(end.is_ok(), "Envoy does not close the connection");
        }
    })
    .await;
    let connections = most(&site, "upstream_cx_total").await;
    assert!((500..=20 * 500).contains(&connections), "{connections}");
    wait_until("the end of all connections", async || most(&site, "upstream_cx_active").await == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_datagram_that_returns_ends_at_the_limit_of_its_service() {
    let port = ports::free();
    let settings = "tenants: { maxCircuitBreaker: 500 }\n";
    let site = Site::with_objects(settings, &listener_with_loop("UDP", port)).await;
    let datagrams = async || most(&site, "downstream_sess_rx_datagrams").await;
    is_served_during(&site, async || {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
        for _ in 0..20 {
            let before = datagrams().await;
            socket.send_to(b"hello", ("127.0.0.1", port)).await.expect("a datagram");
            wait_until("the datagram at Envoy", async || datagrams().await > before).await;
        }
    })
    .await;
    let mut sent = datagrams().await;
    wait_until("the end of all datagrams", async || std::mem::replace(&mut sent, datagrams().await) == sent).await;
    let sessions = most(&site, "downstream_sess_active").await;
    assert!((400..=500).contains(&sessions) && sent <= 20 * 501, "{sessions} sessions, {sent} datagrams");
}
