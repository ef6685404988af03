//! Session persistence: the requests of a session reach one endpoint and one backend while both exist.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use e2e::client::Answer;
use e2e::manifests::service;
use e2e::{Mode, Target, wait_everywhere};

use super::site::{Site, route};

const STICKY: &str = "sticky.test";
/// The path of the first request of a session, which is the path of the route, and the path of further requests.
const PATHS: [&str; 2] = ["/shop", "/shop/cart"];
/// Enough sessions for both of two endpoints: a random choice misses one of them in one of a billion runs.
const SESSIONS: usize = 32;
/// The number of further requests of a session.
const REQUESTS: usize = 6;

/// A session of a client that repeats all cookies and one header.
struct Session {
    target: Target,
    backend: String,
}

impl Session {
    /// Sends the first request. `header`: the name of the header of the session, instead of cookies.
    async fn open(target: &Target, header: Option<&str>) -> Self {
        let answer = target.get(PATHS[0]).await.expect("an answer");
        assert_eq!(answer.status, 200, "the first request of a session");
        let target = match header {
            Some(name) => {
                let value = answer.header(name).to_owned();
                assert_ne!(value, "", "the header of the session");
                target.clone().field(name, &value)
            }
            None => target.clone().field("cookie", &cookies(&answer).join("; ")),
        };
        Self { target, backend: answer.header("x-backend").to_owned() }
    }

    /// Sends requests, each over a connection of its own. Returns the backends that answered.
    async fn backends(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for _ in 0..REQUESTS {
            found.insert(self.target.backend(PATHS[1]).await.expect("an answer with status 200"));
        }
        found
    }

    async fn assert_stays(&self) {
        assert_eq!(self.backends().await, BTreeSet::from([self.backend.clone()]));
    }
}

/// Returns the cookies that an answer sets, without their attributes.
fn cookies(answer: &Answer) -> Vec<String> {
    let values = answer.headers.get_all("set-cookie").iter();
    values.map(|value| value.to_str().expect("text").split(';').next().unwrap_or_default().to_owned()).collect()
}

/// Returns a further EndpointSlice of a Service.
fn slice(service: &str, address: SocketAddr) -> String {
    let (ip, port) = (address.ip(), address.port());
    format!(
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: {service}-2\n  namespace: default\n  labels: \
         {{ kubernetes.io/service-name: {service} }}\naddressType: IPv4\nports: [{{ name: http, port: {port} }}]\nendpoints: [{{ \
         addresses: [{ip}], conditions: {{ ready: true }} }}]\n"
    )
}

fn with_persistence(route: String, persistence: &str) -> String {
    format!("{route}      sessionPersistence: {persistence}\n      matches: [{{ path: {{ value: {} }} }}]\n", PATHS[0])
}

async fn sessions(target: &Target, header: Option<&str>) -> Vec<Session> {
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(Session::open(target, header).await);
    }
    let backends: BTreeSet<&str> = sessions.iter().map(|session| &*session.backend).collect();
    assert_eq!(backends, BTreeSet::from(["a", "b"]), "new sessions are distributed");
    sessions
}

async fn serves_with(target: &Target, header: &str, prefix: &str) {
    wait_everywhere("session persistence", async || {
        target.get(PATHS[0]).await.is_ok_and(|answer| {
            let mut values = answer.headers.get_all(header).iter();
            answer.status == 200 && values.any(|value| value.to_str().is_ok_and(|value| value.starts_with(prefix)))
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_stays_at_its_endpoint_until_the_endpoint_is_removed() {
    let site = Site::open(Mode::Delta).await;
    let [a, b] = &site.backends;
    // Each backend has a port and therefore an EndpointSlice of its own.
    site.manifests.write("both.yaml", &service("both", "", &[b.address]));
    site.manifests.write("slice-of-a.yaml", &slice("both", a.address));
    let sticky = |persistence: &str| {
        let route = route("sticky", &["one"], STICKY, &[("both", 1)]);
        site.manifests.write("sticky.yaml", &with_persistence(route, persistence));
    };
    let target = site.target(0, STICKY);

    sticky("{ type: Header, sessionName: x-shop-session }");
    serves_with(&target, "x-shop-session", "").await;
    for session in sessions(&target, Some("x-shop-session")).await {
        session.assert_stays().await;
    }

    sticky("{ sessionName: shop, absoluteTimeout: 1h, cookieConfig: { lifetimeType: Permanent } }");
    serves_with(&target, "set-cookie", "shop=").await;
    let answer = target.get(PATHS[0]).await.expect("an answer");
    let cookie = answer.header("set-cookie").to_owned();
    assert!(
        cookie.contains("Max-Age=3600") && cookie.contains("Path=/shop;") && cookie.contains("HttpOnly"),
        "{cookie}"
    );
    let sessions = sessions(&target, None).await;
    for session in &sessions {
        session.assert_stays().await;
    }

    site.manifests.remove("slice-of-a.yaml");
    wait_everywhere("the end of an endpoint", async || target.backend(PATHS[0]).await.as_deref() == Some("b")).await;
    for session in &sessions {
        assert_eq!(session.backends().await, BTreeSet::from(["b".to_owned()]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_stays_at_its_backend_when_weights_change() {
    let site = Site::open(Mode::Delta).await;
    let weigh = |weights: [u32; 2]| {
        let route = route("sticky", &["one"], STICKY, &[("a", weights[0]), ("b", weights[1])]);
        site.manifests.write("sticky.yaml", &with_persistence(route, "{ sessionName: shop }"));
    };
    let target = site.target(0, STICKY);
    weigh([1, 1]);
    serves_with(&target, "set-cookie", "shop-backend=").await;
    let sessions = sessions(&target, None).await;
    for session in &sessions {
        session.assert_stays().await;
    }
    // New sessions show that Envoy has the new weights.
    weigh([1, 999_999]);
    wait_everywhere("new weights", async || target.backend(PATHS[0]).await.as_deref() == Some("b")).await;
    for session in &sessions {
        session.assert_stays().await;
    }
    weigh([0, 1]);
    wait_everywhere("the end of a backend", async || sessions_are_at(&sessions, "b").await).await;
}

async fn sessions_are_at(sessions: &[Session], backend: &str) -> bool {
    for session in sessions {
        if session.target.backend(PATHS[1]).await.as_deref() != Some(backend) {
            return false;
        }
    }
    true
}
