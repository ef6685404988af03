//! Requests with JSON that call gRPC services.

use e2e::books::{self, CALLED, DESCRIPTORS, FAULTY, LARGE, SERVICE, SHELVES, STATUS};
use e2e::client::Answer;
use e2e::manifests::{documents, ingress, service};
use e2e::server::Server;
use e2e::{Echo, Mode, Target, wait_everywhere};
use hyper::Method;

use super::{Site, answers, host, policy};

/// The setting that allows the feature.
const ALLOWED: &str = "tenants: { maxGrpcJsonBytes: 16KiB }\n";
/// More features of the policy of an Ingress, by its name, and the status of requests.
const OTHERS: [(&str, &str, u16); 6] = [
    ("denied", "clientAddresses: { deny: [127.0.0.0/8] }", 403),
    ("processed", "externalProcessing: { backendRef: { name: books, port: 80 } }", 403),
    ("moved", "urlRewrite: { path: { regex: { pattern: /v1, substitution: /v2 } } }", 403),
    ("small", "maxRequestBody: 10B", 413),
    ("called", "urlRewrite: { hostname: books.internal }", 200),
    ("limited", "maxResponseBody: { size: 10KiB }", 403),
];

/// Returns the feature of a policy.
fn converts() -> String {
    format!("grpcJson: {{ descriptors: {DESCRIPTORS}, services: [{SERVICE}, {SHELVES}] }}")
}

/// Starts all programs with an Ingress and a policy for each name.
async fn open(settings: &str, policies: &[(&str, String)], is_wildcard: bool) -> (Site, Server) {
    let named = |name: &str| if is_wildcard { format!("*.{}", host(name)) } else { host(name) };
    let hosts: Vec<String> = policies.iter().map(|(name, _)| named(name)).chain([host("plain")]).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let of = |(name, _): &(&str, String)| ingress(name, &format!("'{}'", named(name)), "books", Some("cert"));
    let ingresses = policies.iter().map(of).chain([ingress("plain", &host("plain"), "echo", Some("cert"))]);
    let ingresses: Vec<String> = ingresses.collect();
    let site = Site::open(Mode::Delta, settings, &hosts, &ingresses).await;
    let books = books::start().await;
    site.manifests
        .write("books.yaml", &service("books", "projectcontour.io/upstream-protocol.h2c: '80'", &[books.address]));
    let policies: Vec<String> = policies.iter().map(|(name, spec)| policy(name, spec)).collect();
    site.manifests.write("policies.yaml", &documents(&policies));
    (site, books)
}

async fn send(target: &Target, method: Method, path: &str, body: &str) -> Answer {
    let target = target.clone().field("content-type", "application/json");
    target.send(method, path, body.to_owned()).await.expect("an answer")
}

/// Waits until all workers convert requests.
async fn converted(target: &Target) {
    let is_json = async || target.get("/v1/books/dune").await.is_ok_and(|answer| answer.text() == r#"{"name":"dune"}"#);
    wait_everywhere("converted answers", is_json).await;
}

async fn calls(more: &str, is_wildcard: bool) {
    let (site, _books) = open(&format!("{ALLOWED}{more}"), &[("shop", converts())], is_wildcard).await;
    let shop = if is_wildcard { format!("a.{}", host("shop")) } else { host("shop") };
    for is_tls in [false, true] {
        let target = site.target(&shop, is_tls);
        converted(&target).await;
        let book = r#"{"name":"dune","pages":412,"author":{"fullName":"FH"},"tags":["a","b"],"kind":"KIND_NOVEL","printedAt":"1965-08-01T00:00:00Z"}"#;
        for (method, path, body, called, expected) in [
            (Method::GET, "/v1/books/dune?pages=3", "", "Get", r#"{"name":"dune","pages":3}"#),
            (Method::POST, "/v1/books", book, "Create", book),
            (
                Method::PUT,
                "/v1/books/dune",
                r#"{"full_name":"FH"}"#,
                "Create",
                r#"{"name":"dune","author":{"fullName":"FH"}}"#,
            ),
            (Method::POST, "/shop.v1.Books/Check", r#"{"pages":1}"#, "Check", r#"{"pages":1}"#),
        ] {
            let answer = send(&target, method, path, body).await;
            assert_eq!((answer.status, &*answer.text()), (200, expected), "{path}");
            assert_eq!(answer.header(CALLED), format!("/{SERVICE}/{called}"));
            assert_eq!(answer.header("content-type"), "application/json");
        }
        // Methods that are streams or have maps are not converted, and neither are calls of gRPC, of any size.
        for path in ["/shop.v1.Shelves/List", "/v1/labels", "/shop.v1.Shelves/Label"] {
            assert_eq!(send(&target, Method::POST, path, "{}").await.status, 415, "{path}");
        }
        let grpc = target.clone().over_http2().field("content-type", "application/grpc");
        let long = "x".repeat(100 << 10);
        let answer = grpc.send(Method::POST, "/shop.v1.Books/Check", long.clone()).await.expect("an answer");
        assert!(answer.status == 200 && answer.text() == long);
        // Requests that cannot be converted.
        for (path, body, status) in [
            ("/v1/books", "{", 400),
            ("/v1/books", r#"{"pages":"many"}"#, 400),
            ("/v1/books", &*format!("\"{}\"", "x".repeat(17 << 10)), 413),
            (&*format!("/v1/books?{}", "tags=a&".repeat(24)), "{}", 414),
            (&*format!("/v1/books?{}tags=a", "tags=a&".repeat(23)), "{}", 200),
        ] {
            assert_eq!(send(&target, Method::POST, path, body).await.status, status, "{path} {body}");
        }
        let large = target.clone().field(LARGE, "1").get("/v1/books/dune").await.expect("an answer");
        assert!(large.status == 500 && large.text().contains("exceeds the configured limit"), "{}", large.text());
        let failing = target.clone().field(STATUS, "5");
        assert_eq!(failing.get("/v1/books/dune").await.expect("an answer").status, 404);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_with_json_call_grpc_services() {
    calls("", false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_with_json_call_grpc_services_without_scopes() {
    calls("routes: { discovery: rds }\n", false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_with_json_call_grpc_services_of_wildcard_hosts() {
    calls("", true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_conversion_is_behind_all_checks_and_limits() {
    let policies = OTHERS.map(|(name, other, _)| (name, format!("{other}\n  {}", converts())));
    let (site, _books) = open(ALLOWED, &policies, false).await;
    for (name, _, status) in OTHERS {
        let target = site.target(&host(name), false);
        let answered =
            async || send(&target, Method::POST, "/v1/books", r#"{"name":"a long name"}"#).await.status == status;
        wait_everywhere(name, answered).await;
    }
    let text = site.target(&host("moved"), false).get("/v1/books/dune").await.expect("an answer").text();
    assert_eq!(text, "the policies of this route cannot be combined\n");
    site.lockgate.logged(&["name=called", "do not call these methods", "\"Label\"", "is a map"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_setting_allows_the_conversion() {
    let (site, _books) = open("", &[("shop", converts())], false).await;
    answers(&site.target(&host("shop"), false), 403).await;
    site.lockgate.logged(&["name=shop", "the setting tenants.maxGrpcJsonBytes does not allow it"]).await;
}

/// Envoy 1.40 crashes on some responses that are not valid, to streams and with maps. It has no such responses to convert.
#[tokio::test(flavor = "multi_thread")]
async fn faulty_backends_end_no_envoy() {
    let (site, _books) = open(ALLOWED, &[("shop", converts())], false).await;
    let echo = Echo::start().await;
    site.manifests.write("echo.yaml", &service("echo", "", &[echo.address]));
    let (target, plain) = (site.target(&host("shop"), false), site.target(&host("plain"), false));
    converted(&target).await;
    answers(&plain, 200).await;
    let faulty = target.clone().field(FAULTY, "1");
    let mut statuses = std::collections::BTreeMap::<u16, usize>::new();
    for at in 0..2_000 {
        let path = ["/v1/books", "/v1/books", "/shop.v1.Books/Check", "/shop.v1.Shelves/List", "/v1/labels"][at % 5];
        // An answer can also be reset.
        if let Ok(answer) = faulty.send(Method::POST, path, "{}").await {
            *statuses.entry(answer.status).or_default() += 1;
        }
        if at % 100 == 0 {
            assert_eq!(plain.get("/").await.expect("Envoy is alive").status, 200, "after {at} answers");
        }
    }
    println!("{statuses:?}");
    assert!(statuses.get(&200).is_some_and(|number| *number > 100), "{statuses:?}");
    assert!(statuses.get(&502).is_some_and(|number| *number > 100), "{statuses:?}");
    converted(&target).await;
}
