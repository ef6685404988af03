//! The advisories of Contour in 2026, with a real Envoy. `docs/security.md` lists them with their other tests.

use e2e::authorizer::{Authorizer, DENIED};
use e2e::manifests::{documents, service};
use e2e::{Authority, Backend, Envoy, Issuer, Lockgate, Manifests, Mode, Source, Target};

use super::answers;

/// Two roots with one host, each with key sets of its own. The second one is younger.
const ROOTS: &str = "
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: victim, namespace: default, creationTimestamp: '2026-01-01T00:00:00Z' }
spec:
  virtualhost:
    fqdn: shop.test
    jwtProviders: [{ name: keys, default: true, issuer: 'https://issuer.test', localJWKS: { secretName: keys, key: set } }]
  routes: [{ services: [{ name: a, port: 80 }] }]
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: attacker, namespace: evil, creationTimestamp: '2026-02-01T00:00:00Z' }
spec:
  virtualhost:
    fqdn: shop.test
    jwtProviders: [{ name: keys, default: true, issuer: 'https://issuer.test', localJWKS: { secretName: keys, key: set } }]
  routes: [{ services: [{ name: a, port: 80 }] }]
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: own, namespace: evil }
spec:
  virtualhost:
    fqdn: own.test
    jwtProviders: [{ name: keys, default: true, issuer: 'https://issuer.test', localJWKS: { secretName: keys, key: set } }]
  routes: [{ services: [{ name: a, port: 80 }] }]
";

/// GHSA-9x3c-68m7-f3x4: the key sets of an HTTPProxy replaced those of another one with the same host.
#[tokio::test(flavor = "multi_thread")]
async fn key_sets_are_not_those_of_another_object_with_the_same_host() {
    let (manifests, backend) = (Manifests::new(), Backend::start("a").await);
    let [victim, attacker] = [Issuer::new(), Issuer::new()];
    let keys = |namespace: &str, issuer: &Issuer| {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{ name: keys, namespace: {namespace} }}\nstringData:\n  set: '{}'\n",
            issuer.keys()
        )
    };
    let a = service("a", "", &[backend.address]);
    let of_evil = a.replace("namespace: default", "namespace: evil");
    manifests.write("base.yaml", &documents(&[a, of_evil, keys("default", &victim), keys("evil", &attacker)]));
    manifests.write("proxies.yaml", ROOTS);
    let source = Source::Manifests(manifests.path().into());
    let lockgate = Lockgate::start(&source, &["--watch-ingress-without-class"]).await;
    let _envoy = Envoy::start(&lockgate, Mode::Delta).await;
    let with = |host: &str, issuer: &Issuer| {
        Target::http(lockgate.http, host).field("authorization", &issuer.bearer("shop", 60))
    };
    answers(&with("own.test", &attacker), "/", 200).await;
    let shop = with("shop.test", &victim);
    answers(&shop, "/", 200).await;
    assert_eq!(with("shop.test", &attacker).get("/").await.expect("an answer").status, 401);
    // A change of the other object changes nothing.
    manifests.replace(
        "proxies.yaml",
        "name: attacker, namespace: evil",
        "name: attacker, namespace: evil, labels: { a: b }",
    );
    manifests.replace("proxies.yaml", "fqdn: own.test", "fqdn: other.test");
    answers(&with("other.test", &attacker), "/", 200).await;
    assert_eq!(with("shop.test", &attacker).get("/").await.expect("an answer").status, 401);
    assert_eq!(shop.get("/").await.expect("an answer").status, 200);
}

/// Hosts with an authorization server: one for the clients of a server name, and one that clients without a server name reach too.
const AUTHORIZED: &str = "
apiVersion: projectcontour.io/v1alpha1
kind: ExtensionService
metadata: { name: grpc, namespace: default }
spec: { protocol: h2c, services: [{ name: grpc, port: 80 }] }
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: shop, namespace: default }
spec:
  virtualhost:
    fqdn: shop.test
    tls: { secretName: cert, enableFallbackCertificate: true }
    authorization: { extensionRef: { name: grpc } }
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
spec: { routes: [{ services: [{ name: a, port: 80 }] }] }
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: { name: solver, namespace: default }
spec:
  rules:
  - host: shop.test
    http: { paths: [{ path: /.well-known/acme-challenge/a, pathType: Exact, backend: { service: { name: a, port: { number: 80 } } } }] }
";

/// GHSA-cf57-xf33-fg5h and GHSA-g3xr-5w5j-w4q4: requests reached backends without the authorization of their host.
#[tokio::test(flavor = "multi_thread")]
async fn every_way_to_a_host_is_authorized() {
    let (manifests, authority) = (Manifests::new(), Authority::new());
    let (backend, grpc) = (Backend::start("a").await, Authorizer::start().await);
    let services = [("a", backend.address), ("grpc", grpc.address)].map(|(name, at)| service(name, "", &[at]));
    let pairs = [("cert", "shop.test"), ("fallback", "127.0.0.1")];
    let pairs = pairs.map(|(name, host)| authority.issue(&[host]).secret("default", name));
    manifests.write("base.yaml", &documents(&services.into_iter().chain(pairs).collect::<Vec<_>>()));
    manifests.write("proxies.yaml", AUTHORIZED);
    let path = manifests.path().display().to_string();
    let settings = "xds: { address: '127.0.0.1:XDS' }\nadmin: { address: '127.0.0.1:ADMIN' }\n\
                    listeners: { http: { port: HTTP_PORT }, https: { port: HTTPS_PORT }, stats: { port: STATS } }\n\
                    ingress: { withoutClass: true }\ntls: { fallbackSecret: default/fallback }\n";
    let mut lockgate = Lockgate::launch_by_file(&["--manifests", &path], settings);
    lockgate.wait_ready().await;
    let _envoy = Envoy::start(&lockgate, Mode::Delta).await;
    let https = |host: &str, name: &str| Target::https(lockgate.https, host, authority.der()).opened_for(name);
    answers(&https("shop.test", "127.0.0.1"), "/", 200).await;
    for name in ["shop.test", "127.0.0.1"] {
        for host in ["shop.test", "SHOP.test", "shop.test:443"] {
            for path in ["/", "/team/x", "/plain", "//", "/./team", "/%74eam", "/?a=b"] {
                let path = format!("{path}{}deny", if path.contains('?') { "&" } else { "?" });
                let answer = https(host, name).get(&path).await.expect("an answer");
                assert_eq!(answer.status, DENIED.0, "{host}{path} over a connection for {name}");
            }
        }
    }
    let plain = |host: &str| Target::http(lockgate.http, host);
    for host in ["shop.test", "SHOP.test", "shop.test:80"] {
        assert_eq!(plain(host).get("/plain?deny").await.expect("an answer").status, DENIED.0, "{host}");
    }
    assert_eq!(plain("shop.test").get("/team?deny").await.expect("an answer").status, 301);
}
