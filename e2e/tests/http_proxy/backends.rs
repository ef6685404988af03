//! The fields of HTTPProxies for backends: verified TLS, load balancing, cookies, and headers that depend on the request.

use bytes::Bytes;
use e2e::manifests::{documents, service};
use e2e::server::Server;
use e2e::{Authority, Backend, Echo, Envoy, Lockgate, Manifests, Mode, Source, Target};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Method, Request, Response};

use super::answers;
use crate::explain::backend::AnyProtocol;

/// A root for the host `x.test`.
fn proxy(routes: &str) -> String {
    format!(
        "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{ name: root, namespace: default }}\nspec:\n  \
         virtualhost: {{ fqdn: x.test }}\n  routes:\n{routes}"
    )
}

struct Site {
    target: Target,
    manifests: Manifests,
    _lockgate: Lockgate,
    _envoy: Envoy,
}

impl Site {
    async fn open(objects: &[String]) -> Self {
        let manifests = Manifests::new();
        manifests.write("all.yaml", &documents(objects));
        let source = Source::Manifests(manifests.path().into());
        let lockgate = Lockgate::start(&source, &["--watch-ingress-without-class"]).await;
        let envoy = Envoy::start(&lockgate, Mode::Delta).await;
        Self { target: Target::http(lockgate.http, "x.test"), manifests, _lockgate: lockgate, _envoy: envoy }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_is_verified_or_receives_no_request() {
    let (authority, other) = (Authority::new(), Authority::new());
    let backend = AnyProtocol::start("web", &authority.issue(&["web.shop"])).await;
    let address = ([127, 0, 0, 1], backend.port).into();
    let route = |path: &str, secret: &str, name: &str| {
        format!(
            "  - conditions: [{{ prefix: {path} }}]\n    services: [{{ name: web, port: 80, protocol: tls, validation: {{ caSecret: {secret}, \
             subjectName: {name} }} }}]\n"
        )
    };
    let routes = [
        route("/good", "ca", "web.shop"),
        route("/name", "ca", "api.shop"),
        route("/authority", "other", "web.shop"),
        route("/missing", "later", "web.shop"),
    ];
    let objects = [
        service("web", "", &[address]),
        authority.secret("default", "ca"),
        other.secret("default", "other"),
        proxy(&routes.concat()),
    ];
    let site = Site::open(&objects).await;
    answers(&site.target, "/good", 200).await;
    assert_eq!(site.target.get("/good").await.expect("an answer").header("x-tls"), "true");
    for path in ["/name", "/authority", "/missing"] {
        assert_eq!(site.target.get(path).await.expect("an answer").status, 503, "{path}");
    }
    site.manifests.write("later.yaml", &authority.secret("default", "later"));
    answers(&site.target, "/missing", 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hash_or_a_cookie_selects_the_endpoint() {
    let backends = [Backend::start("a").await, Backend::start("b").await, Backend::start("c").await];
    let slice = |(index, backend): (usize, &Backend)| {
        format!(
            "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: web-{}\n  namespace: default\n  labels: {{ \
             kubernetes.io/service-name: web }}\naddressType: IPv4\nports: [{{ name: http, port: {} }}]\nendpoints:\n- {{ addresses: \
             [127.0.0.1] }}\n",
            index + 2,
            backend.port()
        )
    };
    let slices = backends.iter().enumerate().skip(1).map(slice);
    let routes = "  - conditions: [{ prefix: /hash }]
    loadBalancerPolicy: { strategy: RequestHash, requestHashPolicies: [{ headerHashOptions: { headerName: X-User } }] }
    services: [{ name: web, port: 80 }]
  - conditions: [{ prefix: /cookie }]
    loadBalancerPolicy: { strategy: Cookie }
    services: [{ name: web, port: 80 }]
  - conditions: [{ prefix: /turn }]
    services: [{ name: web, port: 80, slowStartPolicy: { window: 1s, aggression: '1.5' } }]
";
    let objects = [service("web", "", &[backends[0].address]), proxy(routes)].into_iter().chain(slices);
    let site = Site::open(&objects.collect::<Vec<_>>()).await;
    answers(&site.target, "/turn", 200).await;
    let name = async |target: &Target, path: &str| target.backend(path).await.expect("an answer");
    let mut users = std::collections::BTreeSet::new();
    for user in 0..20 {
        let target = site.target.clone().field("x-user", &user.to_string());
        let first = name(&target, "/hash").await;
        assert_eq!([name(&target, "/hash").await, name(&target, "/hash").await], [first.clone(), first.clone()]);
        users.insert(first);
    }
    assert!(users.len() > 1, "{users:?}");
    let first = site.target.get("/cookie").await.expect("an answer");
    let cookie = first.header("set-cookie").split(';').next().unwrap_or_default().to_owned();
    assert!(cookie.to_lowercase().starts_with("x-contour-session-affinity="), "{cookie}");
    let session = site.target.clone().field("cookie", &cookie);
    for _ in 0..10 {
        assert_eq!(name(&session, "/cookie").await, first.header("x-backend"));
    }
    let mut turns = std::collections::BTreeSet::new();
    for _ in 0..30 {
        turns.insert(name(&site.target, "/turn").await);
    }
    assert_eq!(turns.len(), 3);
}

async fn cookies(_: Request<Incoming>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::new()));
    for cookie in ["session=1; Path=/old; HttpOnly; secure; Domain=old.test", "other=2; path=/keep", "c=\"x; y\""] {
        response.headers_mut().append("set-cookie", cookie.parse().expect("a value"));
    }
    // A backend must not choose the changes of another one.
    response.headers_mut().insert("x-lockgate-cookies", "1".parse().expect("a value"));
    response
}

#[tokio::test(flavor = "multi_thread")]
async fn the_attributes_of_cookies_are_changed() {
    let server = Server::http(cookies).await;
    let routes = "  - conditions: [{ prefix: /route }]
    cookieRewritePolicies:
    - { name: session, pathRewrite: { value: /new }, domainRewrite: { value: new.test }, secure: false, sameSite: Strict }
    - { name: other, secure: true }
    services: [{ name: web, port: 80 }]
  - conditions: [{ prefix: /services }]
    services:
    - { name: web, port: 80, weight: 0, cookieRewritePolicies: [{ name: session, sameSite: Lax }] }
    - { name: api, port: 80, weight: 1, cookieRewritePolicies: [{ name: other, pathRewrite: { value: /api } }] }
  - conditions: [{ prefix: /plain }]
    services: [{ name: web, port: 80 }]
  - conditions: [{ prefix: /injected }]
    cookieRewritePolicies: [{ name: session, pathRewrite: { value: '/\"))os.exit()--' } }]
    services: [{ name: web, port: 80 }]
";
    let [web, api] = ["web", "api"].map(|name| service(name, "", &[server.address]));
    let site = Site::open(&[web, api, proxy(routes)]).await;
    answers(&site.target, "/route", 200).await;
    let cookies = async |path: &str| {
        let answer = site.target.get(path).await.expect("an answer");
        let values = answer.headers.get_all("set-cookie").iter();
        values.map(|value| value.to_str().expect("a text").to_owned()).collect::<Vec<_>>()
    };
    let unchanged = ["session=1; Path=/old; HttpOnly; secure; Domain=old.test", "other=2; path=/keep", "c=\"x; y\""];
    assert_eq!(cookies("/plain").await, unchanged);
    // The value is data, not a part of a program (CVE-2026-41246).
    let injected = "session=1; HttpOnly; secure; Domain=old.test; Path=/\"))os.exit()--";
    assert_eq!(cookies("/injected").await, [injected, unchanged[1], unchanged[2]]);
    assert_eq!(
        cookies("/route").await,
        [
            "session=1; HttpOnly; Path=/new; Domain=new.test; SameSite=Strict",
            "other=2; path=/keep; Secure",
            unchanged[2]
        ]
    );
    assert_eq!(cookies("/services").await, [unchanged[0], "other=2; Path=/api", unchanged[2]]);
    let answer = site.target.get("/services").await.expect("an answer");
    assert_eq!(answer.header("x-lockgate-cookies"), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_depend_on_the_request() {
    let echo = Echo::start().await;
    let backend = Backend::start("a").await;
    let routes = "  - requestHeadersPolicy:
      set:
      - { name: X-Address, value: '%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%' }
      - { name: X-Peer, value: '%DOWNSTREAM_PEER_SUBJECT%' }
      - { name: X-Copy, value: '<%REQ(X-User)%> 50% %START_TIME%' }
    services: [{ name: echo, port: 80 }]
  - conditions: [{ prefix: /host }]
    requestHeadersPolicy: { set: [{ name: Host, value: '%REQ(X-Host)%' }] }
    services: [{ name: echo, port: 80 }]
  - conditions: [{ prefix: /changed }]
    requestHeadersPolicy: { set: [{ name: Host, value: '%REQ(X-Host)%' }] }
    services: [{ name: echo, port: 80, requestHeadersPolicy: { set: [{ name: X-Host, value: '%REQ(X-Other)%' }] } }]
  - conditions: [{ prefix: /service }]
    requestHeadersPolicy: { set: [{ name: Host, value: route.test }] }
    services: [{ name: echo, port: 80, requestHeadersPolicy: { set: [{ name: Host, value: service.test }] } }]
  - conditions: [{ prefix: / }, { header: { name: ':method', notexact: GET } }]
    services: [{ name: other, port: 80 }]
  - conditions: [{ prefix: /missing }, { header: { name: X-User, notexact: known, treatMissingAsEmpty: true } }]
    services: [{ name: other, port: 80 }]
";
    let objects = [service("echo", "", &[echo.address]), service("other", "", &[backend.address]), proxy(routes)];
    let site = Site::open(&objects).await;
    answers(&site.target, "/", 200).await;
    let lines = async |target: &Target, path: &str| target.get(path).await.expect("an answer").text();
    let spoofed = site.target.clone().field("x-user", "u%20").field("x-peer", "CN=admin");
    let text = lines(&spoofed, "/").await;
    for line in ["x-address: 127.0.0.1\n", "x-peer: \n", "x-copy: <u%20> 50% %START_TIME%\n"] {
        assert!(text.contains(line), "{line:?} is not in {text}");
    }
    let text = lines(&site.target.clone().field("x-host", "other.test"), "/host").await;
    assert!(text.contains("host: other.test\n"), "{text}");
    assert!(lines(&site.target, "/host").await.contains("host: x.test\n"));
    answers(&site.target.clone().field("x-host", "other.test/a b"), "/host", 403).await;
    let text = lines(&site.target.clone().field("x-host", "other.test").field("x-other", "a b"), "/changed").await;
    assert!(text.contains("host: x.test\n"), "{text}");
    assert!(lines(&site.target, "/service").await.contains("host: service.test\n"));
    let posted = site.target.send(Method::POST, "/", Bytes::new()).await.expect("an answer");
    assert_eq!(posted.header("x-backend"), "a");
    assert_eq!(site.target.backend("/missing").await.as_deref(), Some("a"));
    let known = site.target.clone().field("x-user", "known");
    assert!(lines(&known, "/missing").await.starts_with("GET /missing"));
}
