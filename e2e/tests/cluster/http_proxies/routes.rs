//! Weights, mirrors, rewrites, and redirects.

use std::collections::BTreeMap;

use e2e::Lab;
use e2e::lab::Namespace;

use super::{LIMIT, answers, echoed, has_status, lockgate, proxy, served_by, start};

const ROUTES: &str = "\
virtualhost: { fqdn: routes.test }
routes:
- services: [{ name: web, port: 80, weight: 3 }, { name: canary, port: 80, weight: 1 }]
- conditions: [{ prefix: /copied }]
  services: [{ name: web, port: 80 }, { name: shadow, port: 80, mirror: true }]
- conditions: [{ prefix: /v1 }]
  services: [{ name: web, port: 80 }]
  pathRewritePolicy: { replacePrefix: [{ replacement: /api/v1 }] }
  requestHeadersPolicy: { set: [{ name: x-team, value: shop }], remove: [x-secret] }
- conditions: [{ prefix: /old }]
  requestRedirectPolicy: { hostname: new.test, statusCode: 301 }
- conditions: [{ prefix: /closed }]
  directResponsePolicy: { statusCode: 410, body: gone }
";

/// The number of requests to the Services with weights.
const REQUESTS: usize = 200;

/// Returns the log of the only pod of a Service.
async fn log(space: &Namespace<'_>, service: &str) -> String {
    let pods = space.pods(&format!("app={service}")).await;
    space.lab().logs(&space.name, &pods[0].name, "echo").await
}

#[tokio::test(flavor = "multi_thread")]
async fn weights_mirrors_and_rewrites_apply_to_requests() {
    let lab = Lab::shared().await;
    let lockgate = lockgate(&lab).await;
    let space = lab.namespace("routes").await;
    start(&space, &["web", "canary", "shadow"]).await;
    space.apply(&proxy("routes", ROUTES)).await;
    has_status(&space, "routes", "valid, Programmed").await;
    let target = lockgate.http("routes.test");
    answers(&target, "/", 200).await;

    let mut counts = BTreeMap::<String, usize>::new();
    for _ in 0..REQUESTS {
        *counts.entry(echoed(&target, "/").await.service).or_default() += 1;
    }
    println!("{counts:?}");
    // A quarter, ± 5 standard deviations.
    let canary = counts.get("canary").copied().unwrap_or_default();
    assert!((20..=80).contains(&canary) && canary + counts["web"] == REQUESTS, "{counts:?}");

    assert_eq!(echoed(&target, "/copied/1").await.service, "web");
    let copied = async || log(&space, "shadow").await.contains("/copied/1").then_some(());
    tokio::time::timeout(LIMIT, lab.until("the copy of the request", copied)).await.expect("the copy of the request");

    let rewritten = echoed(&target.clone().field("x-secret", "s"), "/v1/users?id=1").await;
    assert_eq!((&*rewritten.path, &rewritten.headers["X-Team"][0]), ("/api/v1/users?id=1", &"shop".into()));
    assert!(rewritten.headers["X-Secret"].is_null(), "{}", rewritten.headers);
    let moved = target.get("/old/page?x=1").await.expect("an answer");
    assert_eq!((moved.status, moved.header("location")), (301, "http://new.test/old/page?x=1"));
    let closed = target.get("/closed").await.expect("an answer");
    assert_eq!((closed.status, &*closed.text()), (410, "gone"));

    // The other Service receives all requests at once.
    space.apply(&proxy("routes", &ROUTES.replace("weight: 3", "weight: 0"))).await;
    has_status(&space, "routes", "valid, Programmed").await;
    served_by(&target, "/", "canary").await;
    for _ in 0..20 {
        assert_eq!(echoed(&target, "/").await.service, "canary");
    }
}
