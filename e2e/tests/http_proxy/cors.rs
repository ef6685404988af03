//! Scripts of other origins, by the `corsPolicy` of HTTPProxies and by HTTPPolicies of Ingresses and namespaces, in scopes and in one route
//! configuration, over plain HTTP and TLS, for exact and wildcard hosts.

use e2e::client::Answer;
use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::{Authority, Backend, Envoy, Lockgate, Manifests, Mode, Source, Target, wait_everywhere};
use hyper::Method;

/// The origin that the objects permit, and one that an override permits.
const APP: &str = "https://app.test";
const PARTNER: &str = "https://partner.test";

/// An object that the roots include.
const INCLUDED: &str = "
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: team, namespace: default }
spec:
  routes: [{ permitInsecure: true, services: [{ name: a, port: 80 }] }]
";

/// Permissions in addition to the origins, with the same names in HTTPProxies and HTTPPolicies.
const PERMISSIONS: &str = "allowMethods: [GET, PUT], exposeHeaders: [x-total], allowCredentials: true, maxAge: 10m";

/// Returns a root for this host.
fn root(name: &str, host: &str) -> String {
    format!(
        "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{ name: {name}, namespace: default }}\nspec:\n  virtualhost:\n    \
         fqdn: '{host}'\n    tls: {{ secretName: cert }}\n    corsPolicy: {{ allowOrigin: ['{APP}'], {PERMISSIONS} }}\n  \
         includes: [{{ name: team, conditions: [{{ prefix: /team }}] }}]\n  \
         routes: [{{ permitInsecure: true, services: [{{ name: a, port: 80 }}] }}]\n"
    )
}

/// Returns an HTTPPolicy for a target, with the origin.
fn policy(name: &str, target: &str, layer: &str, origin: &str) -> String {
    let cors = format!("cors: {{ allowOrigins: ['{origin}'], {PERMISSIONS} }}");
    let features = if layer.is_empty() { cors } else { format!("{layer}: {{ {cors} }}") };
    format!(
        "apiVersion: lockgate.dev/v1alpha1\nkind: HTTPPolicy\nmetadata: {{ name: {name}, namespace: default }}\nspec:\n  \
         targetRefs: [{target}]\n  {features}\n"
    )
}

/// Asks whether a script of the origin may send a PUT request.
async fn preflight(target: &Target, path: &str, origin: &str) -> Answer {
    let target = target.clone().field("origin", origin).field("access-control-request-method", "PUT");
    target.send(Method::OPTIONS, path, "").await.expect("an answer")
}

/// Checks that scripts of the origin may send requests, and those of others may not.
async fn is_permitted(target: &Target, path: &str, origin: &str) {
    let asked = preflight(target, path, origin).await;
    assert_eq!((asked.status, asked.header("access-control-allow-origin")), (200, origin), "{path}");
    assert_eq!(asked.header("access-control-allow-methods"), "GET,PUT");
    assert_eq!(
        (asked.header("access-control-max-age"), asked.header("access-control-allow-credentials")),
        ("600", "true")
    );
    let answer = target.clone().field("origin", origin).get(path).await.expect("an answer");
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, origin), "{path}");
    assert_eq!(answer.header("access-control-expose-headers"), "x-total");
    for other in ["https://evil.test", "https://app.test.evil.test", "http://app.test", "null"] {
        assert_eq!(preflight(target, path, other).await.header("access-control-allow-origin"), "", "{other}");
        let answer = target.clone().field("origin", other).get(path).await.expect("an answer");
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, ""), "{other}");
    }
    let own = target.get(path).await.expect("an answer");
    assert_eq!((own.status, own.header("access-control-allow-origin")), (200, ""));
}

async fn scripts_are_permitted(discovery: &str) {
    let (manifests, config, authority) = (Manifests::new(), Manifests::new(), Authority::new());
    let backend = Backend::start("a").await;
    let certificate =
        authority.issue(&["exact.test", "*.wild.test", "shop.test", "*.shops.test"]).secret("default", "cert");
    let ingresses = [("shop", "shop.test"), ("shops", "'*.shops.test'")]
        .map(|(name, host)| ingress(name, "HOST", "a", Some("cert")).replace("HOST", host));
    let target = |name: &str| format!("{{ group: networking.k8s.io, kind: Ingress, name: {name} }}");
    let policies = [policy("shop", &target("shop"), "", APP), policy("shops", &target("shops"), "", APP)];
    let roots = [root("exact", "exact.test"), root("wild", "*.wild.test")];
    let base = [ingress_class(), service("a", "", &[backend.address]), certificate, INCLUDED.into()];
    manifests.write("all.yaml", &documents(&base));
    manifests.write("roots.yaml", &documents(&roots));
    manifests.write("ingresses.yaml", &documents(&ingresses));
    manifests.write("policies.yaml", &documents(&policies));
    config.write(
        "lockgate.yaml",
        &format!("routes: {{ discovery: {discovery} }}\ningress: {{ httpsRedirect: false }}\n"),
    );
    let file = config.file("lockgate.yaml").display().to_string();
    let source = Source::Manifests(manifests.path().into());
    let lockgate = Lockgate::start(&source, &["--watch-ingress-without-class", "--config", &file]).await;
    let _envoy = Envoy::start(&lockgate, Mode::Delta).await;
    let hosts = ["exact.test", "a.wild.test", "shop.test", "a.shops.test"];
    let plain = hosts.map(|host| Target::http(lockgate.http, host));
    let secured = hosts.map(|host| Target::https(lockgate.https, host, authority.der()));
    let targets: Vec<Target> = plain.into_iter().chain(secured).collect();
    let permitted_everywhere = async |origin: &str| {
        for (target, host) in targets.iter().zip(hosts.iter().cycle()) {
            let permitted =
                async || preflight(target, "/", origin).await.header("access-control-allow-origin") == origin;
            wait_everywhere(&format!("{origin} at {host}"), permitted).await;
        }
    };
    permitted_everywhere(APP).await;
    for target in &targets {
        for path in ["/", "/team"] {
            is_permitted(target, path, APP).await;
        }
    }
    // A default of the namespace changes no host that has its own permissions, and its override replaces them.
    let namespace = "{ group: '', kind: Namespace, name: default }";
    let with = |layer: &str| {
        let [shop, shops] = policies.clone();
        documents(&[shop, shops, policy("all", namespace, layer, PARTNER)])
    };
    manifests.write("policies.yaml", &with("defaults"));
    permitted_everywhere(APP).await;
    manifests.write("policies.yaml", &with("overrides"));
    permitted_everywhere(PARTNER).await;
    for target in &targets {
        is_permitted(target, "/team", PARTNER).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_are_permitted_in_scopes() {
    scripts_are_permitted("auto").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_are_permitted_in_one_route_configuration() {
    scripts_are_permitted("rds").await;
}
