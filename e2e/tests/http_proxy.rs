//! HTTPProxies from manifests with a real Envoy: includes, conditions, header changes, TLS, access policies, and fields that close a
//! route.

mod access;
mod advisories;
mod backends;
mod cors;
mod headers;
mod internal_redirects;
mod servers;

use e2e::manifests::{documents, service};
use e2e::{Authority, Backend, Envoy, Lockgate, Manifests, Mode, Source, Target, wait_until};

/// A root with TLS that includes an object, and a root in plain HTTP.
const PROXIES: &str = "
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: secured, namespace: default }
spec:
  virtualhost: { fqdn: secured.test, tls: { secretName: cert } }
  includes: [{ name: team, conditions: [{ prefix: /team }] }]
  routes:
  - services: [{ name: a, port: 80 }]
  - conditions: [{ prefix: /plain }]
    permitInsecure: true
    services: [{ name: a, port: 80 }]
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: team, namespace: default }
spec:
  routes:
  - conditions: [{ regex: '/x|/y' }]
    services: [{ name: b, port: 80 }]
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: plain, namespace: default }
spec:
  virtualhost: { fqdn: plain.test }
  includes: [{ name: gone, conditions: [{ prefix: /gone }] }]
  routes:
  - services: [{ name: a, port: 80 }]
    responseHeadersPolicy: { set: [{ name: X-Team, value: '100%' }] }
  - conditions: [{ prefix: / }, { header: { name: X-Beta, contains: es } }, { queryParameter: { name: v, exact: '2' } }]
    services: [{ name: b, port: 80 }]
  - conditions: [{ prefix: /old }]
    requestRedirectPolicy: { prefix: /new, statusCode: 301 }
  - conditions: [{ prefix: /teapot }]
    directResponsePolicy: { statusCode: 418, body: short }
  - conditions: [{ prefix: /guarded }]
    fieldOfALaterVersion: { a: 1 }
    services: [{ name: a, port: 80 }]
";

struct Site {
    lockgate: Lockgate,
    authority: Authority,
    _envoy: Envoy,
    _backends: [Backend; 2],
    _manifests: Manifests,
}

impl Site {
    async fn open(mode: Mode) -> Self {
        let (manifests, authority) = (Manifests::new(), Authority::new());
        let backends = [Backend::start("a").await, Backend::start("b").await];
        let services = ["a", "b"].into_iter().zip(&backends).map(|(name, at)| service(name, "", &[at.address]));
        let base: Vec<String> =
            services.chain([authority.issue(&["secured.test"]).secret("default", "cert")]).collect();
        manifests.write("base.yaml", &documents(&base));
        manifests.write("proxies.yaml", PROXIES);
        let source = Source::Manifests(manifests.path().into());
        let lockgate = Lockgate::start(&source, &["--watch-ingress-without-class"]).await;
        let envoy = Envoy::start(&lockgate, mode).await;
        Self { lockgate, authority, _envoy: envoy, _backends: backends, _manifests: manifests }
    }

    fn plain(&self, host: &str) -> Target {
        Target::http(self.lockgate.http, host)
    }
}

/// Waits until a request has this status.
async fn answers(target: &Target, path: &str, status: u16) {
    wait_until(&format!("{path}: {status}"), async || {
        target.get(path).await.is_ok_and(|answer| answer.status == status)
    })
    .await;
}

/// Returns the name of the backend that answers.
async fn backend(target: &Target, path: &str) -> String {
    let answer = target.get(path).await.expect("an answer");
    assert_eq!(answer.status, 200, "{path}");
    answer.header("x-backend").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn envoy_serves_the_routes_of_a_tree() {
    let site = Site::open(Mode::Delta).await;
    let plain = site.plain("plain.test");
    answers(&plain, "/", 200).await;
    assert_eq!(backend(&plain, "/").await, "a");
    assert_eq!(plain.get("/").await.expect("an answer").header("x-team"), "100%");
    let beta = plain.clone().field("x-beta", "yes");
    assert_eq!([backend(&beta, "/?v=2").await, backend(&beta, "/?v=1").await], ["b", "a"]);
    let moved = plain.get("/old/1").await.expect("an answer");
    assert_eq!((moved.status, moved.header("location")), (301, "http://plain.test/new/1"));
    let teapot = plain.get("/teapot").await.expect("an answer");
    assert_eq!((teapot.status, teapot.text()), (418, "short".to_owned()));
    for (path, status) in [("/gone", 502), ("/guarded", 503)] {
        assert_eq!(plain.get(path).await.expect("an answer").status, status, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_http_of_a_host_with_tls_is_redirected_unless_a_route_permits_it() {
    let site = Site::open(Mode::Sotw).await;
    let plain = site.plain("secured.test");
    answers(&plain, "/plain", 200).await;
    let moved = plain.get("/team/x").await.expect("an answer");
    assert_eq!((moved.status, moved.header("location")), (301, "https://secured.test/team/x"));
    let secured = Target::https(site.lockgate.https, "secured.test", site.authority.der());
    answers(&secured, "/", 200).await;
    assert_eq!([backend(&secured, "/team/x").await, backend(&secured, "/team/y").await], ["b", "b"]);
    // An alternative of an included expression does not leave the prefix of the include.
    assert_eq!([backend(&secured, "/y").await, backend(&secured, "/team/z").await], ["a", "a"]);
}
