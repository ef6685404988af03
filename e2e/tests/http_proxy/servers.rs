//! The servers that HTTPProxies call, with a real Envoy: the verification of authorization servers and of servers of keys.

use e2e::authorizer::{Authorizer, DENIED};
use e2e::manifests::{documents, service};
use e2e::{Authority, Backend, Envoy, Issuer, Lockgate, Manifests, Mode, Source, Target, wait_everywhere};

use super::answers;
use crate::explain::backend::AnyProtocol;

/// Returns a root with authorization over HTTP by an ExtensionService of its name, which verifies its server.
fn asked(name: &str, secret: &str, subject: &str) -> String {
    format!(
        "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{ name: {name}, namespace: default }}\nspec:\n  virtualhost:\n    \
         fqdn: {name}.test\n    authorization: {{ extensionRef: {{ name: {name} }}, serviceType: http }}\n  routes: [{{ services: [{{ name: a, \
         port: 80 }}] }}]\n---\napiVersion: projectcontour.io/v1alpha1\nkind: ExtensionService\nmetadata: {{ name: {name}, namespace: \
         default }}\nspec: {{ services: [{{ name: auth, port: 80 }}], validation: {{ caSecret: {secret}, subjectName: {subject} }} }}\n"
    )
}

/// Returns a root whose routes need tokens. The server of the keys is verified.
fn verified(name: &str, secret: &str, subject: &str) -> String {
    format!(
        "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{ name: {name}, namespace: default }}\nspec:\n  virtualhost:\n    \
         fqdn: {name}.test\n    jwtProviders:\n    - name: strict\n      default: true\n      issuer: https://issuer.test\n      remoteJWKS: {{ \
         uri: 'https://keys.default.svc:80/keys', validation: {{ caSecret: {secret}, subjectName: {subject} }} }}\n  routes: [{{ services: [{{ \
         name: a, port: 80 }}] }}]\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_verified_or_receives_no_request() {
    let (authority, other) = (Authority::new(), Authority::new());
    let (backend, issuer) = (Backend::start("a").await, Issuer::new());
    let auth = AnyProtocol::start("auth", &authority.issue(&["auth.internal"])).await;
    // Its answers are the keys.
    let keys = AnyProtocol::start(&issuer.keys(), &authority.issue(&["keys.internal"])).await;
    let local = |port: u16| ([127, 0, 0, 1], port).into();
    let manifests = Manifests::new();
    let objects = [
        service("a", "", &[backend.address]),
        service("auth", "", &[local(auth.port)]),
        service("keys", "", &[local(keys.port)]),
        authority.secret("default", "ca"),
        other.secret("default", "other"),
        asked("good", "ca", "auth.internal"),
        asked("name", "ca", "web.internal"),
        asked("authority", "other", "auth.internal"),
        asked("missing", "later", "auth.internal"),
        verified("good-keys", "ca", "keys.internal"),
        verified("other-keys", "other", "keys.internal"),
        verified("missing-keys", "later", "keys.internal"),
    ];
    manifests.write("all.yaml", &documents(&objects));
    let source = Source::Manifests(manifests.path().into());
    let lockgate = Lockgate::start(&source, &["--watch-ingress-without-class"]).await;
    let _envoy = Envoy::start(&lockgate, Mode::Delta).await;
    let host = |name: &str| Target::http(lockgate.http, &format!("{name}.test"));
    let with_token = |name: &str| host(name).field("authorization", &issuer.bearer("shop", 60));
    answers(&host("good"), "/", 200).await;
    answers(&with_token("good-keys"), "/", 200).await;
    for (name, target, expected) in [
        ("name", host("name"), 403),
        ("authority", host("authority"), 403),
        ("missing", host("missing"), 503),
        ("no token", host("good-keys"), 401),
        ("other keys", with_token("other-keys"), 401),
        ("missing keys", with_token("missing-keys"), 503),
    ] {
        assert_eq!(target.get("/").await.expect("an answer").status, expected, "{name}");
    }
    manifests.write("later.yaml", &authority.secret("default", "later"));
    answers(&host("missing"), "/", 200).await;
    answers(&with_token("missing-keys"), "/", 200).await;
}

/// Two roots with one ExtensionService; the second one sends a context.
const DIVIDED: &str = "
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: plain, namespace: default }
spec:
  virtualhost: { fqdn: plain.test, authorization: { extensionRef: { name: both } } }
  routes: [{ services: [{ name: a, port: 80 }] }]
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: context, namespace: default }
spec:
  virtualhost: { fqdn: context.test, authorization: { extensionRef: { name: both }, authPolicy: { context: { a: b } } } }
  routes: [{ services: [{ name: a, port: 80 }] }]
---
apiVersion: projectcontour.io/v1alpha1
kind: ExtensionService
metadata: { name: both, namespace: default }
spec: { protocol: h2c, services: [{ name: small, port: 80, weight: 1 }, { name: large, port: 80, weight: 3 }] }
";

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_divided_among_services_by_weight() {
    const REQUESTS: usize = 80;
    for mode in [Mode::Delta, Mode::Sotw] {
        let (small, large) = (Authorizer::start().await, Authorizer::start().await);
        let backend = Backend::start("a").await;
        let manifests = Manifests::new();
        let base = |small: &[_], large: &[_]| {
            let services =
                [service("a", "", &[backend.address]), service("small", "", small), service("large", "", large)];
            manifests.write("base.yaml", &documents(&services));
        };
        base(&[small.address], &[large.address]);
        manifests.write("proxies.yaml", DIVIDED);
        let source = Source::Manifests(manifests.path().into());
        let lockgate = Lockgate::start(&source, &["--watch-ingress-without-class"]).await;
        let _envoy = Envoy::start(&lockgate, mode).await;
        let hosts = ["plain.test", "context.test"].map(|host| Target::http(lockgate.http, host));
        let counts = || [small.seen().len(), large.seen().len()];
        // Returns the calls of each server for the requests.
        let ask = async |host: &Target| {
            let before = counts();
            for _ in 0..REQUESTS {
                assert_eq!(host.get("/").await.expect("an answer").status, 200);
            }
            let now = counts();
            [now[0] - before[0], now[1] - before[1]]
        };
        for host in &hosts {
            answers(host, "/", 200).await;
            let [of_small, of_large] = ask(host).await;
            assert_eq!(of_small + of_large, REQUESTS);
            assert!((10..=30).contains(&of_small), "{of_small} of {REQUESTS}");
            for _ in 0..8 {
                assert_eq!(host.get("/?deny").await.expect("an answer").status, DENIED.0);
            }
        }
        // A Service without endpoints gets no calls, also the one with the largest weight.
        for (is_small, members) in [(true, [&[small.address][..], &[]]), (false, [&[], &[large.address]])] {
            base(members[0], members[1]);
            wait_everywhere("the other Service is called", async || {
                let before = counts();
                let answered = hosts[0].get("/").await.is_ok_and(|answer| answer.status == 200);
                let now = counts();
                answered && (now[0] > before[0]) == is_small && (now[1] > before[1]) != is_small
            })
            .await;
            for host in &hosts {
                let expected = if is_small { [REQUESTS, 0] } else { [0, REQUESTS] };
                assert_eq!(ask(host).await, expected);
            }
        }
        // Without any, the requests are denied.
        base(&[], &[]);
        for host in &hosts {
            answers(host, "/", 403).await;
        }
    }
}
