//! JSON Web Tokens with the keys of a server behind a Service of the lab, which goes away.

use e2e::manifests::{DEFAULT, service};
use e2e::server::Server;
use e2e::{Issuer, Lab};
use http_body_util::Full;
use hyper::{Response, body::Bytes};

use super::{answers, echoed, has_status, lockgate, proxy, start};

/// The address of the node, where the server of the spec listens: pods cannot reach the loopback interface.
const NODE: [u8; 4] = [10, 244, 0, 1];

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_verified_with_the_keys_of_a_server_that_goes_away() {
    let lab = Lab::shared().await;
    let lockgate = lockgate(&lab).await;
    let shop = lab.namespace("tokens").await;
    start(&shop, &["web"]).await;
    let [issuer, stranger] = [Issuer::new(), Issuer::new()];
    let keys = issuer.keys();
    let server = Server::http_at((NODE, 0), move |_| {
        let keys = Full::new(Bytes::from(keys.clone()));
        async move { Response::new(keys) }
    })
    .await;
    shop.apply(&service("keys", "", &[server.address]).replace(DEFAULT, &format!("namespace: {}", shop.name))).await;
    let fields = format!(
        "virtualhost:\n  fqdn: tokens.test\n  jwtProviders:\n  - name: keys\n    default: true\n    issuer: https://issuer.test\n    \
         audiences: [shop]\n    forwardJWT: true\n    remoteJWKS: {{ uri: 'http://keys.{}.svc/jwks', cacheDuration: 10m }}\n\
         routes:\n- services: [{{ name: web, port: 80 }}]\n- conditions: [{{ prefix: /open }}]\n  \
         jwtVerificationPolicy: {{ disabled: true }}\n  services: [{{ name: web, port: 80 }}]\n",
        shop.name
    );
    shop.apply(&proxy("tokens", &fields)).await;
    has_status(&shop, "tokens", "valid, Programmed").await;

    let target = lockgate.http("tokens.test");
    let with = |token: String| target.clone().field("authorization", &token);
    let valid = with(issuer.bearer("shop", 600));
    answers(&valid, "/orders", 200).await;
    assert!(
        echoed(&valid, "/orders").await.headers["Authorization"][0]
            .as_str()
            .is_some_and(|one| one.starts_with("Bearer "))
    );
    answers(&target, "/orders", 401).await;
    answers(&target, "/open", 200).await;
    for wrong in [stranger.bearer("shop", 600), issuer.bearer("bank", 600), issuer.bearer("shop", -600)] {
        let status = with(wrong).get("/orders").await.expect("an answer").status;
        assert!([401, 403].contains(&status), "{status}");
    }

    // Envoy has the keys until it fetches them again.
    drop(server);
    for _ in 0..20 {
        assert_eq!(valid.get("/orders").await.expect("an answer").status, 200);
    }
    answers(&target, "/orders", 401).await;
    answers(&target, "/open", 200).await;
}

/// A policy that redirects to a login. Envoy needs only the client secret for the redirect.
const LOGIN: &str = "\
apiVersion: lockgate.dev/v1alpha1
kind: HTTPPolicy
metadata: { name: login }
spec:
  targetRefs: [{ group: projectcontour.io, kind: HTTPProxy, name: login }]
  oidc:
    provider:
      authorizationEndpoint: https://login.test/auth
      tokenEndpoint: http://login.test/token
      backendRef: { name: web, port: 80 }
    clientID: shop
    clientSecretRef: { name: client }
";

#[tokio::test(flavor = "multi_thread")]
async fn key_sets_and_client_secrets_are_read_from_secrets_of_the_cluster() {
    let lab = Lab::shared().await;
    let lockgate = lockgate(&lab).await;
    let shop = lab.namespace("secrets").await;
    start(&shop, &["web"]).await;
    let issuer = Issuer::new();
    shop.apply(&format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{ name: keys }}\nstringData: {{ jwks: '{}' }}\n---\n\
         apiVersion: v1\nkind: Secret\nmetadata: {{ name: client }}\nstringData: {{ client-secret: hidden }}\n",
        issuer.keys()
    ))
    .await;
    let host = |name: &str, rest: &str| {
        proxy(
            name,
            &format!("virtualhost:\n  fqdn: {name}.test\n{rest}routes:\n- services: [{{ name: web, port: 80 }}]\n"),
        )
    };
    let provider = "  jwtProviders:\n  - name: keys\n    default: true\n    issuer: https://issuer.test\n    \
                    localJWKS: { secretName: keys, key: jwks }\n";
    shop.apply(&format!("{}{}{LOGIN}", host("local", provider), host("login", ""))).await;
    has_status(&shop, "local", "valid, Programmed").await;
    let local = lockgate.http("local.test");
    answers(&local.clone().field("authorization", &issuer.bearer("shop", 600)), "/", 200).await;
    answers(&local, "/", 401).await;
    answers(&lockgate.http("login.test"), "/", 302).await;
}
