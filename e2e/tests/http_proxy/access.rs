//! The access policies of HTTPProxies with a real Envoy: addresses, limits of the request rate, tokens, and authorization.

use e2e::authorizer::{Authorizer, DENIED, HttpAuthorizer};
use e2e::manifests::{documents, service};
use e2e::{Authority, Backend, Envoy, Issuer, Lockgate, Manifests, Mode, Source, Target};

use super::answers;

/// Routes below each of the policies of the host.
const HOSTS: &str = "
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: addresses, namespace: default }
spec:
  virtualhost: { fqdn: addresses.test, ipDenyPolicy: [{ source: Peer, cidr: 127.0.0.1/8 }] }
  includes: [{ name: team, conditions: [{ prefix: /team }] }]
  routes:
  - services: [{ name: a, port: 80 }]
  - conditions: [{ prefix: /open }]
    ipAllowPolicy: [{ source: Remote, cidr: 127.0.0.1 }, { source: Remote, cidr: '::1' }]
    services: [{ name: a, port: 80 }]
  - conditions: [{ prefix: /moved }]
    requestRedirectPolicy: { path: /open }
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: team, namespace: default }
spec:
  routes: [{ services: [{ name: a, port: 80 }] }]
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: limits, namespace: default }
spec:
  virtualhost: { fqdn: limits.test, rateLimitPolicy: { local: { requests: 3, unit: hour } } }
  routes:
  - services: [{ name: a, port: 80 }]
  - conditions: [{ prefix: /two }]
    services: [{ name: a, port: 80 }]
  - conditions: [{ prefix: /own }]
    rateLimitPolicy:
      local: { requests: 1, burst: 1, unit: hour, responseStatusCode: 503, responseHeadersToAdd: [{ name: x-limited, value: 100% }] }
    services: [{ name: a, port: 80 }]
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: burst, namespace: default }
spec:
  virtualhost:
    fqdn: burst.test
    rateLimitPolicy:
      local: { requests: 2, burst: 1, unit: hour, responseStatusCode: 503, responseHeadersToAdd: [{ name: x-limited, value: host }] }
  includes: [{ name: team, conditions: [{ prefix: /team }] }]
  routes:
  - conditions: [{ prefix: /two }]
    services: [{ name: a, port: 80 }]
  - conditions: [{ prefix: /own }]
    rateLimitPolicy: { local: { requests: 1, unit: hour } }
    services: [{ name: a, port: 80 }]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: { name: burst, namespace: default }
spec:
  rules:
  - host: burst.test
    http: { paths: [{ path: /ingress, pathType: Prefix, backend: { service: { name: a, port: { number: 80 } } } }] }
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: tokens, namespace: default }
spec:
  virtualhost:
    fqdn: tokens.test
    jwtProviders:
    - { name: strict, default: true, issuer: 'https://issuer.test', audiences: [shop], localJWKS: { secretName: keys, key: set } }
    - { name: other, issuer: 'https://other.test', localJWKS: { secretName: keys, key: set } }
  routes:
  - services: [{ name: a, port: 80 }]
  - conditions: [{ prefix: /open }]
    jwtVerificationPolicy: { disabled: true }
    services: [{ name: a, port: 80 }]
  - conditions: [{ prefix: /other }]
    jwtVerificationPolicy: { require: other }
    services: [{ name: a, port: 80 }]
  - conditions: [{ prefix: /unknown }]
    jwtVerificationPolicy: { require: unknown }
    services: [{ name: a, port: 80 }]
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: asked, namespace: default }
spec:
  virtualhost: { fqdn: asked.test, authorization: { extensionRef: { name: grpc } } }
  includes: [{ name: team, conditions: [{ prefix: /team }] }]
  routes:
  - services: [{ name: a, port: 80 }]
  - conditions: [{ prefix: /open }]
    authPolicy: { disabled: true }
    services: [{ name: a, port: 80 }]
  - conditions: [{ prefix: /moved }]
    requestRedirectPolicy: { path: /open }
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: http, namespace: default }
spec:
  virtualhost:
    fqdn: http.test
    authorization:
      extensionRef: { name: http }
      serviceType: http
      httpSettings: { allowedAuthorizationHeaders: [{ prefix: X-Team }], allowedUpstreamHeaders: [{ exact: x-user }, { exact: X-Team-Id }] }
  routes: [{ services: [{ name: a, port: 80 }] }]
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: none, namespace: default }
spec:
  virtualhost: { fqdn: none.test, authorization: { extensionRef: { name: none }, failOpen: true } }
  routes:
  - services: [{ name: a, port: 80 }]
  - conditions: [{ prefix: /open }]
    authPolicy: { disabled: true }
    services: [{ name: a, port: 80 }]
---
apiVersion: projectcontour.io/v1alpha1
kind: ExtensionService
metadata: { name: grpc, namespace: default }
spec: { protocol: h2c, services: [{ name: grpc, port: 80 }] }
---
apiVersion: projectcontour.io/v1alpha1
kind: ExtensionService
metadata: { name: http, namespace: default }
spec: { protocol: http/1.1, services: [{ name: http, port: 80 }] }
";

async fn status(target: &Target, path: &str) -> u16 {
    target.get(path).await.expect("an answer").status
}

#[tokio::test(flavor = "multi_thread")]
async fn access_to_hosts_and_routes_is_restricted() {
    for mode in [Mode::Delta, Mode::Sotw] {
        let manifests = Manifests::new();
        let (backend, grpc, http) =
            (Backend::start("a").await, Authorizer::start().await, HttpAuthorizer::start().await);
        let issuer = Issuer::new();
        let servers = [("a", backend.address), ("grpc", grpc.address), ("http", http.address)];
        let services = servers.map(|(name, address)| service(name, "", &[address]));
        let keys = format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{ name: keys, namespace: default }}\nstringData:\n  set: '{}'\n",
            issuer.keys()
        );
        manifests.write("base.yaml", &documents(&services));
        manifests.write("keys.yaml", &keys);
        manifests.write("proxies.yaml", HOSTS);
        let source = Source::Manifests(manifests.path().into());
        let lockgate = Lockgate::start(&source, &["--watch-ingress-without-class"]).await;
        let _envoy = Envoy::start(&lockgate, mode).await;
        let host = |name: &str| Target::http(lockgate.http, &format!("{name}.test"));

        let addresses = host("addresses");
        answers(&addresses, "/open", 200).await;
        for (path, expected) in [("/", 403), ("/team", 403), ("/moved", 403), ("/open", 200)] {
            assert_eq!(status(&addresses, path).await, expected, "addresses{path}");
        }

        let limits = host("limits");
        let mut shared = Vec::new();
        for path in ["/", "/two", "/", "/two", "/"] {
            shared.push(status(&limits, path).await);
        }
        assert_eq!(shared, [200, 200, 200, 429, 429], "the routes share a bucket");
        let own = [status(&limits, "/own").await, status(&limits, "/own").await];
        let over = limits.get("/own").await.expect("an answer");
        assert_eq!((own, over.status, over.header("x-limited")), ([200, 200], 503, "100%"));

        // Requests without a limit, and those that no route matches, take no tokens. In upper case, the fallback selects the routes.
        let burst = host("burst");
        let upper = Target::http(lockgate.http, "BURST.test");
        for path in ["/ingress", "/ingress", "/ingress", "/ingress"] {
            assert_eq!([status(&burst, path).await, status(&upper, path).await], [200, 200]);
        }
        for path in ["/none", "/none", "/none", "/none"] {
            assert_eq!(status(&burst, path).await, 404);
        }
        let mut shared = Vec::new();
        for (target, path) in
            [(&burst, "/two"), (&upper, "/team"), (&burst, "/team"), (&burst, "/two"), (&upper, "/team")]
        {
            shared.push(status(target, path).await);
        }
        assert_eq!(shared, [200, 200, 200, 503, 503], "the routes share a bucket with a burst");
        assert_eq!(burst.get("/team").await.expect("an answer").header("x-limited"), "host");
        assert_eq!([status(&burst, "/own").await, status(&burst, "/own").await], [200, 429], "a limit of its own");
        assert_eq!(status(&upper, "/ingress").await, 200);

        let tokens = host("tokens");
        let with = |token: String| host("tokens").field("authorization", &token);
        let good = with(issuer.bearer("shop", 60));
        for (target, path, expected) in [
            (&tokens, "/", 401),
            (&tokens, "/open", 200),
            (&tokens, "/unknown", 503),
            (&good, "/", 200),
            (&good, "/other", 401),
            (&with(issuer.bearer("other", 60)), "/", 403),
            (&with(issuer.bearer("shop", -600)), "/", 401),
            (&with(Issuer::new().bearer("shop", 60)), "/", 401),
        ] {
            assert_eq!(status(target, path).await, expected, "tokens{path}");
        }
        // Without its keys, the routes are closed.
        manifests.write("keys.yaml", "");
        answers(&good, "/", 503).await;
        assert_eq!(status(&tokens, "/open").await, 200);

        let asked = host("asked");
        for (path, expected) in
            [("/", 200), ("/?deny", DENIED.0), ("/team?deny", DENIED.0), ("/moved?deny", DENIED.0), ("/open?deny", 200)]
        {
            assert_eq!(status(&asked, path).await, expected, "asked{path}");
        }
        let over_http = host("http").field("x-team", "one").field("x-other", "two");
        for (path, expected) in [("/http", 200), ("/http?deny", DENIED.0)] {
            assert_eq!(status(&over_http, path).await, expected, "{path}");
        }
        // The server receives a header that its answer may set, because both lists contain it.
        assert_eq!(status(&over_http.clone().field("x-team-id", "7"), "/both").await, 200);
        let asked = http.seen().into_iter().find(|asked| asked.uri.path() == "/both").expect("a request to the server");
        assert_eq!(asked.headers.get("x-team-id").map(|value| value.as_bytes()), Some(&b"7"[..]));
        let none = host("none");
        assert_eq!([status(&none, "/").await, status(&none, "/open").await], [503, 200], "fails closed");
    }
}

/// Routes that send a context, on an exact host in plain HTTP and over TLS, and on a wildcard host over TLS.
const CONTEXTS: &str = "
apiVersion: projectcontour.io/v1alpha1
kind: ExtensionService
metadata: { name: grpc, namespace: default }
spec: { protocol: h2c, services: [{ name: grpc, port: 80 }] }
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: plain, namespace: default }
spec:
  virtualhost:
    fqdn: plain.test
    authorization: { extensionRef: { name: grpc }, authPolicy: { context: { host: plain, target: all } } }
  routes:
  - services: [{ name: a, port: 80 }]
  - conditions: [{ prefix: /one }]
    authPolicy: { context: { target: one } }
    services: [{ name: a, port: 80 }]
  - conditions: [{ prefix: /open }]
    authPolicy: { disabled: true }
    services: [{ name: a, port: 80 }]
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: tls, namespace: default }
spec:
  virtualhost:
    fqdn: tls.test
    tls: { secretName: cert }
    authorization: { extensionRef: { name: grpc }, failOpen: true, authPolicy: { context: { host: tls } } }
  routes:
  - services: [{ name: a, port: 80 }]
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: wild, namespace: default }
spec:
  virtualhost:
    fqdn: '*.wild.test'
    tls: { secretName: cert }
    authorization: { extensionRef: { name: grpc }, authPolicy: { context: { host: wild } } }
  routes:
  - services: [{ name: a, port: 80 }]
";

#[tokio::test(flavor = "multi_thread")]
async fn a_context_is_sent_and_no_request_avoids_the_server() {
    let (manifests, authority) = (Manifests::new(), Authority::new());
    let (backend, grpc) = (Backend::start("a").await, Authorizer::start().await);
    let services = [("a", backend.address), ("grpc", grpc.address)].map(|(name, at)| service(name, "", &[at]));
    let pair = authority.issue(&["tls.test", "*.wild.test"]).secret("default", "cert");
    manifests.write("base.yaml", &documents(&services.into_iter().chain([pair.clone()]).collect::<Vec<_>>()));
    manifests.write("proxies.yaml", CONTEXTS);
    let source = Source::Manifests(manifests.path().into());
    let lockgate = Lockgate::start(&source, &["--watch-ingress-without-class"]).await;
    let _envoy = Envoy::start(&lockgate, Mode::Delta).await;
    let plain = Target::http(lockgate.http, "plain.test");
    let https = |host: &str| Target::https(lockgate.https, host, authority.der());
    let (tls, wild) = (https("tls.test"), https("a.wild.test"));
    for target in [&plain, &tls, &wild] {
        answers(target, "/", 200).await;
    }
    let context = |path: &str| {
        let mut context: Vec<_> = grpc.asked(path).0.context_extensions.into_iter().collect();
        context.sort();
        context.into_iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    };
    for (target, path, expected) in [
        (&plain, "/two", "host=plain target=all"),
        (&plain, "/one", "host=plain target=one"),
        (&tls, "/tls", "host=tls"),
        (&wild, "/wild", "host=wild"),
    ] {
        assert_eq!((status(target, path).await, context(path)), (200, expected.to_owned()), "{path}");
        assert_eq!(status(target, &format!("{path}?deny")).await, DENIED.0, "{path}");
    }
    assert_eq!((status(&plain, "/open").await, grpc.was_asked("/open")), (200, false));
    // The fallback selects the route of a host in upper case.
    assert_eq!(status(&Target::http(lockgate.http, "PLAIN.test"), "/two?deny").await, 403);
    assert_eq!(status(&Target::http(lockgate.http, "Plain.Test:80"), "/one").await, 403);
    assert_eq!(status(&Target::http(lockgate.http, "plain.test:80"), "/one?deny").await, DENIED.0);
    // Without the server, only `failOpen` permits requests.
    let dead = std::net::SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, e2e::ports::free()));
    let services = [("a", backend.address), ("grpc", dead)].map(|(name, at)| service(name, "", &[at]));
    manifests.write("base.yaml", &documents(&services.into_iter().chain([pair]).collect::<Vec<_>>()));
    answers(&plain, "/", 403).await;
    assert_eq!((status(&tls, "/").await, status(&wild, "/").await), (200, 403));
}

#[tokio::test(flavor = "multi_thread")]
async fn wildcards_and_hosts_behind_tls_have_buckets_of_their_own() {
    let root = |name: &str, tls: &str| {
        format!(
            "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{ name: {name}, namespace: default }}\nspec:\n  virtualhost:\n    \
             fqdn: '*.{name}.test'\n    {tls}rateLimitPolicy: {{ local: {{ requests: 1, burst: 1, unit: hour }} }}\n  includes: [{{ name: \
             common }}]\n"
        )
    };
    let common = "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: { name: common, namespace: default }\nspec: { routes: [{ \
                  services: [{ name: a, port: 80 }] }] }\n";
    for discovery in ["scopes", "vhds", "rds"] {
        let (manifests, config, authority) = (Manifests::new(), Manifests::new(), Authority::new());
        let backend = Backend::start("a").await;
        let pair = authority.issue(&["*.tls.test"]).secret("default", "cert");
        let roots = [root("one", ""), root("two", ""), root("tls", "tls: { secretName: cert }\n    ")];
        let objects = [service("a", "", &[backend.address]), pair, common.to_owned()].into_iter().chain(roots);
        manifests.write("all.yaml", &documents(&objects.collect::<Vec<_>>()));
        config.write(
            "lockgate.yaml",
            &format!("ingress: {{ withoutClass: true }}\nroutes: {{ discovery: {discovery} }}\n"),
        );
        let file = config.file("lockgate.yaml").display().to_string();
        let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &["--config", &file]).await;
        let _envoy = Envoy::start(&lockgate, Mode::Delta).await;
        let plain = |host: &str| Target::http(lockgate.http, host);
        let tls = |host: &str| Target::https(lockgate.https, host, authority.der());
        for hosts in [
            ["x.one.test", "y.one.test"].map(plain),
            ["x.two.test", "Y.TWO.test"].map(plain),
            ["x.tls.test", "y.tls.test"].map(tls),
        ] {
            answers(&hosts[0], "/", 200).await;
            let mut statuses = Vec::new();
            for host in [&hosts[1], &hosts[0], &hosts[1]] {
                statuses.push(status(host, "/").await);
            }
            assert_eq!(statuses, [200, 429, 429], "{discovery}");
        }
    }
}
