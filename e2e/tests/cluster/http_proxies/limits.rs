//! Rate limits of HTTPProxies: of a rate limit service, and of Envoy itself.

use e2e::lab::Installation;
use e2e::{Lab, Limiter, Target};

use super::{answers, has_status, lockgate, proxy, start};

/// The address of the node, where the rate limit service of the spec listens: pods cannot reach the loopback interface.
const NODE: [u8; 4] = [10, 244, 0, 1];
/// The number of requests that the service permits for a descriptor.
const LIMIT: u32 = 3;

/// Descriptors of a host and of a route, a route without a limit, and a limit of Envoy.
const FIELDS: &str = "\
virtualhost:
  fqdn: limited.test
  rateLimitPolicy:
    global:
      descriptors:
      - entries: [{ genericKey: { value: shop } }, { requestHeader: { headerName: x-team, descriptorKey: team } }]
routes:
- services: [{ name: web, port: 80 }]
- conditions: [{ prefix: /own }]
  services: [{ name: web, port: 80 }]
  rateLimitPolicy:
    global:
      descriptors:
      - entries:
        - remoteAddress: {}
        - requestHeaderValueMatch: { value: paying, headers: [{ name: x-plan, exact: gold }], expectMatch: true }
- conditions: [{ prefix: /free }]
  services: [{ name: web, port: 80 }]
  rateLimitPolicy: { global: { disabled: true } }
- conditions: [{ prefix: /local }]
  services: [{ name: web, port: 80 }]
  rateLimitPolicy:
    global: { disabled: true }
    local: { requests: 2, unit: hour, responseStatusCode: 503, responseHeadersToAdd: [{ name: x-limited, value: \"yes\" }] }
";

/// Returns the statuses of some requests.
async fn statuses(target: &Target, path: &str, count: usize) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..count {
        statuses.push(target.get(path).await.expect("an answer").status);
    }
    statuses
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_limited_by_a_service_and_by_envoy() {
    let lab = Lab::shared().await;
    // Installs the CustomResourceDefinitions.
    lockgate(&lab).await;
    let limiter = Limiter::start_at((NODE, 0).into(), LIMIT).await;
    let endpoint = format!("--set=settings.rateLimit.endpoint={}", limiter.address);
    let flags = [
        &*endpoint,
        "--set=settings.tenants.globalRateLimits=true",
        "--set=settings.ingress.controllerName=limited.test/lockgate",
        "--set=ingressClass.name=limited",
        "--set=controller.replicas=1",
        "--set=envoy.replicas=1",
        "--set=gatewayAPI.manageServices=false",
    ];
    let limited = Installation::new(&lab, "limited", "limited", &flags).await;
    let shop = lab.namespace("limits").await;
    start(&shop, &["web"]).await;
    let object = proxy("limited", FIELDS).replace("ingressClassName: lockgate", "ingressClassName: limited");
    shop.apply(&object).await;
    has_status(&shop, "limited", "valid, Programmed").await;
    let target = limited.http("limited.test");
    let with = |name, value| target.clone().field(name, value);
    answers(&target, "/free", 200).await;
    assert!(limiter.counts().is_empty(), "{:?}", limiter.counts());

    // Each team has its own count, and requests without the header have none.
    assert_eq!(statuses(&with("x-team", "a"), "/", 5).await, [200, 200, 200, 429, 429]);
    assert_eq!(statuses(&with("x-team", "b"), "/", 1).await, [200]);
    assert_eq!(statuses(&target, "/", 5).await, [200; 5]);
    // The descriptors of a route are sent besides those of its host, and count only requests that all entries match.
    assert_eq!(statuses(&with("x-plan", "gold"), "/own", 4).await, [200, 200, 200, 429]);
    assert_eq!(statuses(&target, "/own", 5).await, [200; 5]);
    assert_eq!(statuses(&with("x-team", "a"), "/own", 1).await, [429]);
    assert_eq!(statuses(&with("x-team", "a"), "/free", 5).await, [200; 5]);
    let counts = limiter.counts();
    let of = |entries: &str| counts.iter().find(|(name, _)| name.ends_with(entries)).map(|(_, count)| *count);
    assert_eq!([of("team=a"), of("team=b"), of("header_match=paying")], [Some(6), Some(1), Some(4)], "{counts:?}");

    // Envoy counts by itself, and answers as the route says.
    assert_eq!(statuses(&target, "/local", 4).await, [200, 200, 503, 503]);
    assert_eq!(target.get("/local").await.expect("an answer").header("x-limited"), "yes");
    drop(shop);
    limited.uninstall().await;
}
