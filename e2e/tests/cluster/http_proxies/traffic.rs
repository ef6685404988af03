//! Conditions, sessions, changes of cookies, CORS, and lists of addresses.

use bytes::Bytes;
use e2e::Lab;
use e2e::lab::echo;
use hyper::Method;

use super::{answers, echoed, has_status, lockgate, proxy, start};

const TRAFFIC: &str = "\
virtualhost:
  fqdn: traffic.test
  corsPolicy: { allowOrigin: [\"https://shop.test\"], allowMethods: [GET, POST], maxAge: 10m }
routes:
- services: [{ name: web, port: 80 }]
- conditions: [{ prefix: /plan }]
  services: [{ name: web, port: 80 }]
- conditions: [{ prefix: /plan }, { header: { name: x-plan, exact: gold } }, { queryParameter: { name: v, exact: \"2\" } }]
  services: [{ name: gold, port: 80 }]
- conditions: [{ prefix: /session }]
  services:
  - name: many
    port: 80
    cookieRewritePolicies: [{ name: X-Contour-Session-Affinity, sameSite: Strict }]
  loadBalancerPolicy: { strategy: Cookie }
- conditions: [{ prefix: /peers }]
  services: [{ name: web, port: 80 }]
  ipDenyPolicy: [{ source: Peer, cidr: 0.0.0.0/0 }]
- conditions: [{ prefix: /named }]
  services:
  - name: web
    port: 80
    requestHeadersPolicy: { set: [{ name: x-service, value: \"%CONTOUR_SERVICE_NAME%:%CONTOUR_SERVICE_PORT%\" }] }
    responseHeadersPolicy: { set: [{ name: x-plan, value: \"%REQ(x-plan)%\" }] }
";

/// The number of requests of a session.
const REQUESTS: usize = 20;

#[tokio::test(flavor = "multi_thread")]
async fn conditions_sessions_and_address_lists_apply_to_requests() {
    let lab = Lab::shared().await;
    let lockgate = lockgate(&lab).await;
    let space = lab.namespace("traffic").await;
    space.apply(&echo("many").replicas(3).port(80).yaml()).await;
    start(&space, &["web", "gold"]).await;
    space.endpoints("many", 3).await;
    space.apply(&proxy("traffic", TRAFFIC)).await;
    has_status(&space, "traffic", "valid, Programmed").await;
    let target = lockgate.http("traffic.test");
    answers(&target, "/", 200).await;

    // All conditions of a route must match.
    let gold = target.clone().field("x-plan", "gold");
    assert_eq!(echoed(&gold, "/plan?v=2").await.service, "gold");
    for (target, path) in [(&gold, "/plan?v=1"), (&gold, "/plan"), (&target, "/plan?v=2")] {
        assert_eq!(echoed(target, path).await.service, "web", "{path}");
    }

    let first = target.get("/session").await.expect("an answer");
    let cookie = first.header("set-cookie").to_owned();
    assert!(cookie.starts_with("X-Contour-Session-Affinity=") && cookie.contains("SameSite=Strict"), "{cookie}");
    let session = target.clone().field("cookie", cookie.split(';').next().unwrap_or_default());
    let pod = echoed(&session, "/session").await.pod;
    for _ in 0..REQUESTS {
        assert_eq!(echoed(&session, "/session").await.pod, pod);
    }

    assert_eq!(target.get("/peers").await.expect("an answer").status, 403);
    let named = gold.get("/named").await.expect("an answer");
    assert_eq!((named.status, named.header("x-plan")), (200, "gold"));
    assert_eq!(echoed(&gold, "/named").await.headers["X-Service"][0], "web:80");

    let preflight = async |origin: &str| {
        let asked = target.clone().field("origin", origin).field("access-control-request-method", "POST");
        let mut connection = asked.connect().await.expect("a connection");
        connection.send(Method::OPTIONS, "/", Bytes::new()).await.expect("an answer")
    };
    let permitted = preflight("https://shop.test").await;
    assert_eq!(permitted.header("access-control-allow-origin"), "https://shop.test");
    assert_eq!(permitted.header("access-control-allow-methods"), "GET,POST");
    assert_eq!(preflight("https://evil.test").await.header("access-control-allow-origin"), "");
}
