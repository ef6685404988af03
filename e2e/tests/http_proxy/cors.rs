//! Cross-origin requests (CORS) to a host with a policy.

use e2e::manifests::{documents, service};
use e2e::{Authority, Backend, Envoy, Lockgate, Manifests, Mode, Source, Target, wait_until};
use hyper::Method;

const ORIGIN: &str = "https://www.test";

/// Returns a root with a policy.
fn proxy(name: &str, tls: &str) -> String {
    format!(
        "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{ name: {name}, namespace: default }}\nspec:\n  virtualhost:\n    \
         fqdn: {name}.test\n{tls}    corsPolicy: {{ allowOrigin: ['{ORIGIN}'], allowMethods: [GET, POST], maxAge: 10m }}\n  routes:\n  \
         - services: [{{ name: a, port: 80 }}]\n"
    )
}

/// A backend would grant everything, or nothing, to a request that Envoy forwards.
#[tokio::test(flavor = "multi_thread")]
async fn envoy_answers_preflight_requests_in_plain_http_and_over_tls() {
    let (manifests, authority, backend) = (Manifests::new(), Authority::new(), Backend::start("a").await);
    let objects = [
        service("a", "", &[backend.address]),
        authority.issue(&["secured.test"]).secret("default", "cert"),
        proxy("plain", ""),
        proxy("secured", "    tls: { secretName: cert }\n"),
    ];
    manifests.write("all.yaml", &documents(&objects));
    let source = Source::Manifests(manifests.path().into());
    let lockgate = Lockgate::start(&source, &["--watch-ingress-without-class"]).await;
    let _envoy = Envoy::start(&lockgate, Mode::Delta).await;
    let plain = Target::http(lockgate.http, "plain.test");
    let secured = Target::https(lockgate.https, "secured.test", authority.der());
    for target in [plain, secured] {
        wait_until("a backend", async || target.backend("/").await.is_some()).await;
        let preflight = |origin| target.clone().field("origin", origin).field("access-control-request-method", "POST");
        let answer = preflight(ORIGIN).send(Method::OPTIONS, "/", "").await.expect("an answer");
        let granted = ["access-control-allow-origin", "access-control-allow-methods", "access-control-max-age"];
        assert_eq!(granted.map(|name| answer.header(name)), [ORIGIN, "GET,POST", "600"]);
        let answer = preflight("https://other.test").send(Method::OPTIONS, "/", "").await.expect("an answer");
        assert_eq!((answer.header(granted[0]), answer.header("x-backend")), ("", ""), "no grant, and no backend");
        let answer = target.clone().field("origin", ORIGIN).get("/").await.expect("an answer");
        assert_eq!((answer.header(granted[0]), answer.header("x-backend")), (ORIGIN, "a"));
    }
}
