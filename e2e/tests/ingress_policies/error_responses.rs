//! Answers of policies in the place of error responses, of the backends and of Envoy itself.

use bytes::Bytes;
use e2e::faulty::{Behavior, Faulty};
use e2e::manifests::{documents, ingress, service};
use e2e::server::Server;
use e2e::{Echo, Mode, Target, ports, wait_everywhere};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Method, Request, Response};

use super::{Site, answers, host, policy};

/// The body of all answers. It has the marks of Envoy's formats.
const BODY: &str = "100% %RESPONSE_CODE% {}";
/// The answers of a policy: each error but 418 is replaced, and 500 with another status.
const ANSWERS: &str = "errorResponses: [{ statuses: [404, 400-417], contentType: text/html, body: '100% %RESPONSE_CODE% {}' }, \
                       { statuses: ['500'], status: 502, contentType: text/html, body: '100% %RESPONSE_CODE% {}' }, \
                       { statuses: [419-599], contentType: text/html, body: '100% %RESPONSE_CODE% {}' }]";

/// Answers the status that is the path, with headers that describe the body, and with others.
async fn answer(request: Request<Incoming>) -> Response<Full<Bytes>> {
    let status = request.uri().path().trim_start_matches('/').parse().unwrap_or(200);
    let mut response = Response::builder().status(status);
    for (name, value) in [
        ("content-type", "application/json"),
        ("content-encoding", "br"),
        ("etag", "\"1\""),
        ("set-cookie", "a=1"),
        ("set-cookie", "b=2"),
        ("www-authenticate", "Basic realm=\"one\""),
        ("www-authenticate", "Bearer realm=\"two\""),
        ("retry-after", "7"),
    ] {
        response = response.header(name, value);
    }
    response.body(Full::from("of the backend")).unwrap_or_else(|_: hyper::http::Error| Response::default())
}

/// Returns whether the response is replaced. A response that is replaced in parts is none of both.
async fn is_replaced(target: &Target, method: Method, path: &str, status: u16) -> bool {
    let Ok(answer) = target.send(method.clone(), path, "").await else { return false };
    let length = answer.header("content-length").to_owned();
    if answer.status != status || answer.header("content-type") != "text/html" {
        return false;
    }
    assert_eq!(answer.text(), if method == Method::HEAD { "" } else { BODY }, "{path}");
    assert_eq!((length, answer.header("content-encoding")), (BODY.len().to_string(), ""), "{path}");
    true
}

async fn is_kept(target: &Target, path: &str, status: u16) -> bool {
    let answer = target.get(path).await.expect("an answer");
    answer.status == status && answer.header("content-type") != "text/html" && !answer.text().contains(BODY)
}

/// The features that Envoy answers itself, with the name of the Ingress, its Service, the feature, and the status.
const REFUSALS: [(&str, &str, &str, u16); 8] = [
    ("denied", "errors", "clientAddresses: { deny: [127.0.0.0/8] }", 403),
    ("limited", "errors", "localRateLimit: { requests: 1, unit: hour, burst: 1 }", 429),
    ("counted", "errors", "localRateLimit: { requests: 1, unit: hour }", 429),
    ("users", "errors", "basicAuthentication: { secretRef: { name: users } }", 401),
    ("called", "errors", "externalAuthorization: { backendRef: { name: refused, port: 80 }, protocol: http }", 403),
    ("slow", "echo", "timeouts: { request: 50ms }", 504),
    ("refused", "refused", "csrf: {}", 503),
    ("gone", "gone", "csrf: {}", 503),
];

/// `named` returns the host of an Ingress, and `asked` the host of requests to it.
async fn replaces(mode: Mode, settings: &str, named: fn(&str) -> String, asked: fn(&str) -> String) {
    let names = REFUSALS.iter().map(|(name, backend, _, _)| (*name, *backend));
    let names: Vec<_> = names.chain([("shop", "errors"), ("small", "errors"), ("none", "errors")]).collect();
    let hosts: Vec<String> = names.iter().flat_map(|(name, _)| [host(name), format!("*.{}", host(name))]).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let ingresses = names.iter().map(|(name, backend)| {
        let text = ingress(name, &named(name), backend, Some("cert"));
        text.replace(&named(name), &format!("'{}'", named(name)))
    });
    let ingresses: Vec<String> = ingresses.collect();
    let site = Site::open(mode, settings, &hosts, &ingresses).await;
    let (errors, echo) = (Server::http(answer).await, Echo::start().await);
    let services = [
        service("errors", "", &[errors.address]),
        service("echo", "", &[echo.address]),
        service("refused", "", &[([127, 0, 0, 1], ports::free()).into()]),
        "apiVersion: v1\nkind: Secret\nmetadata: { name: users, namespace: default }\n\
         stringData: { auth: 'ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=' }\n"
            .to_owned(),
    ];
    site.manifests.write("services.yaml", &documents(&services));
    let more =
        "cors: { allowOrigins: [http://page.test] }\n  responseHeaders: { set: [{ name: x-policy, value: all }] }";
    let policies = REFUSALS.map(|(name, _, feature, _)| policy(name, &format!("{feature}\n  {ANSWERS}")));
    let others = [
        policy("shop", &format!("{more}\n  compression: {{ algorithms: [gzip] }}\n  {ANSWERS}")),
        policy("small", &format!("maxRequestBody: 1KiB\n  {ANSWERS}")),
    ];
    site.manifests.write("policies.yaml", &documents(&[&policies[..], &others[..]].concat()));
    for is_tls in [false, true] {
        let target = |name: &str| site.target(&asked(name), is_tls);
        let shop = target("shop").field("origin", "http://page.test").field("accept-encoding", "gzip");
        let versions = if is_tls { vec![shop.clone()] } else { vec![shop.clone(), shop.over_http2()] };
        for shop in versions {
            for (path, status) in [("/404", 404), ("/503", 503), ("/500", 502), ("/401", 401), ("/599", 599)] {
                for method in [Method::GET, Method::HEAD, Method::POST] {
                    let what = format!("{method} {path} to be replaced, tls: {is_tls}");
                    wait_everywhere(&what, async || is_replaced(&shop, method.clone(), path, status).await).await;
                }
            }
            for (path, status) in [("/418", 418), ("/200", 200), ("/302", 302)] {
                assert!(is_kept(&shop, path, status).await, "{path}");
            }
            let answer = shop.get("/401").await.expect("an answer");
            for (name, number) in [("set-cookie", 2), ("www-authenticate", 2), ("retry-after", 1), ("etag", 0)] {
                assert_eq!(answer.headers.get_all(name).iter().count(), number, "{name}");
            }
            assert_eq!(
                (answer.header("x-policy"), answer.header("access-control-allow-origin")),
                ("all", "http://page.test")
            );
            for kind in ["application/grpc", "application/grpc+proto", "application/grpc-web"] {
                assert!(is_kept(&shop.clone().field("content-type", kind), "/503", 503).await, "{kind}");
            }
        }
        for (name, _, _, status) in REFUSALS {
            let (what, target) = (format!("{name} to be replaced, tls: {is_tls}"), target(name));
            wait_everywhere(&what, async || is_replaced(&target, Method::GET, "/?wait=2000", status).await).await;
            assert!(is_replaced(&target, Method::HEAD, "/?wait=2000", status).await, "{name}");
            let challenge = target.get("/?wait=2000").await.expect("an answer").header("www-authenticate").to_owned();
            assert_eq!(challenge.starts_with("Basic realm="), status == 401, "{name}: {challenge}");
        }
        // A refused call of gRPC has its own status.
        let call = target("denied").field("content-type", "application/grpc");
        let answer = call.send(Method::POST, "/", "").await.expect("an answer");
        assert_eq!((answer.status, answer.header("grpc-status")), (200, "7"));
        let body = target("small").send(Method::POST, "/", vec![b'a'; 1025]).await.expect("an answer");
        assert_eq!((body.status, &*body.text()), (413, BODY));
        // Answers without a policy.
        assert!(is_kept(&target("none"), "/404", 404).await);
        if !is_tls {
            assert!(is_kept(&site.target("unknown.test", false), "/", 404).await);
        }
    }
    // The connections to the backend stay open.
    let broken = site.envoy.stats("^cluster\\.default_errors_http\\.upstream_cx_destroy_with_active_rq$").await;
    assert_eq!(broken.values().copied().collect::<Vec<_>>(), [0]);
    let scripts = site.envoy.stats("\\.lua\\.errors\\.(errors|executions)$").await;
    assert!(scripts.iter().all(|(name, count)| name.ends_with("errors.errors") == (*count == 0)), "{scripts:?}");
    site.manifests.remove("policies.yaml");
    answers(&site.target(&asked("denied"), false), 200).await;
    assert!(is_kept(&site.target(&asked("shop"), false), "/503", 503).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn error_responses_are_replaced() {
    replaces(Mode::Delta, "", host, host).await;
}

/// The fallback selects the routes of these requests.
#[tokio::test(flavor = "multi_thread")]
async fn error_responses_of_wildcard_hosts_are_replaced() {
    replaces(Mode::Sotw, "", |name| format!("*.{}", host(name)), |name| format!("a.{}", host(name))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn error_responses_are_replaced_without_scopes() {
    replaces(Mode::Delta, "routes: { discovery: rds }\n", host, host).await;
}

/// Retries see the status of the backend, and a body that the backend sends in pieces is replaced as a whole.
#[tokio::test(flavor = "multi_thread")]
async fn error_responses_are_replaced_after_retries_and_in_streams() {
    let hosts = ["shop.test", "echo.test"];
    let ingresses =
        [ingress("shop", hosts[0], "faulty", Some("cert")), ingress("echo", hosts[1], "echo", Some("cert"))];
    let compressed = "compression: { algorithms: [gzip], minimumSize: 30, contentTypes: [text/html] }\n";
    let site = Site::open(Mode::Delta, compressed, &hosts, &ingresses).await;
    let (faulty, echo) = (Faulty::start("faulty").await, Echo::start().await);
    let services = [service("faulty", "", &[faulty.address]), service("echo", "", &[echo.address])];
    site.manifests.write("services.yaml", &documents(&services));
    faulty.set(Behavior::Failing);
    let long = "long ".repeat(800);
    let policies = [
        policy("shop", &format!("retries: {{ attempts: 2, codes: [503], backoff: 1ms }}\n  {ANSWERS}")),
        policy("echo", &format!("errorResponses: [{{ statuses: [500-599], contentType: text/html, body: '{long}' }}]")),
    ];
    site.manifests.write("policies.yaml", &documents(&policies));
    for is_tls in [false, true] {
        let [shop, echo] = hosts.map(|host| site.target(host, is_tls));
        wait_everywhere("a replaced response", async || is_replaced(&shop, Method::GET, "/", 503).await).await;
        let before = faulty.requests();
        assert!(is_replaced(&shop, Method::GET, "/", 503).await);
        assert_eq!(faulty.requests() - before, 3, "two retries");
        let text = async |path: &str| echo.get(path).await.map_or_else(|_| String::new(), |answer| answer.text());
        wait_everywhere("a long answer", async || text("/?status=500").await == long).await;
        // The answer is compressed like any other.
        let zipped = echo.clone().field("accept-encoding", "gzip").get("/?status=500").await.expect("an answer");
        assert_eq!(zipped.header("content-encoding"), "gzip");
        assert!(zipped.body.len() < 100, "{}", zipped.body.len());
        for path in ["/?status=503&pieces=9&every=20", "/?status=503&bytes=3000000"] {
            assert_eq!(text(path).await, long, "{path}");
        }
        assert!(text("/?status=200&pieces=9&every=20").await.ends_with("........."));
    }
}
