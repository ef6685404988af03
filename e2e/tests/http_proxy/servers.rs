//! The servers that HTTPProxies call, with a real Envoy: the verification of authorization servers and of servers of keys.

use e2e::manifests::{documents, service};
use e2e::{Authority, Backend, Envoy, Issuer, Lockgate, Manifests, Mode, Source, Target};

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
