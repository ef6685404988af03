//! The cost of one request: the CPU time of Envoy, and the memory that Envoy holds for it. Each case is the worst object of a feature
//! that a tenant can create, and the worst request for it.

use std::fmt::Write;
use std::time::Duration;

use bytes::Bytes;
use e2e::attacks::regexes::{accepted, long_path};
use e2e::attacks::tokens::{jwt, list, slow_keys, token};
use e2e::authorizer::{Authorizer, HttpAuthorizer};
use e2e::books;
use e2e::client::raw;
use e2e::manifests::{documents, service};
use e2e::server::Server;
use e2e::{Echo, Mode, Target};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Method, Request, Response};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::site::{Site, answers, serves};

/// The limit of the CPU time of a request. The goal is 5 ms. CORS takes 6 ms alone, and 10 ms on a slow or busy machine.
const LIMIT: Duration = Duration::from_millis(18);
/// The cases with regular expressions for long paths. They take 10 ms, and 20 ms on a slow machine.
const REWRITES: [&str; 3] = ["rewrites", "hosts", "hosts-and-paths"];
/// The limit of these cases. The attacks that this test prevents took 100 to 700 ms.
const LIMIT_OF_REWRITES: Duration = Duration::from_millis(40);
/// The number of measured requests of a case.
const REQUESTS: u32 = 20;
/// The memory that an authorization server may need for a request by default, and Envoy's own.
const HELD: u64 = (1 << 20) + (512 << 10);
/// The length of a large header. Envoy accepts 60 KiB of headers.
const LARGE: usize = 50_000;

/// An object of a tenant, and a request for it.
struct Case {
    name: &'static str,
    /// The content of the only rule of its HTTPRoute, or of all rules.
    rules: String,
    /// The features of its HTTPPolicy.
    policy: String,
    path: String,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
    status: u16,
}

impl Case {
    fn new(name: &'static str) -> Self {
        let rules = "- { backendRefs: [{ name: reader, port: 80 }] }".to_owned();
        let (policy, path) = (String::new(), "/".to_owned());
        Self { name, rules, policy, path, fields: Vec::new(), body: Vec::new(), status: 200 }
    }

    fn policy(self, policy: &str) -> Self {
        Self { policy: policy.to_owned(), ..self }
    }

    fn rules(self, rules: String) -> Self {
        Self { rules, ..self }
    }

    fn field(mut self, name: &str, value: impl Into<String>) -> Self {
        self.fields.push((name.to_owned(), value.into()));
        self
    }

    fn body(self, bytes: usize) -> Self {
        Self { body: vec![b'a'; bytes], ..self }
    }

    fn method(&self) -> Method {
        if self.body.is_empty() { Method::GET } else { Method::POST }
    }

    fn host(&self) -> String {
        format!("{}.test", self.name)
    }

    fn objects(&self) -> String {
        let Self { name, rules, policy, .. } = self;
        let mut text = format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{ name: {name}, namespace: default }}\nspec:\n  \
             parentRefs: [{{ name: one }}]\n  hostnames: ['{name}.test']\n  rules:\n  {rules}\n"
        );
        if !policy.is_empty() {
            write!(
                text,
                "---\napiVersion: lockgate.dev/v1alpha1\nkind: HTTPPolicy\nmetadata: {{ name: {name}, namespace: default }}\nspec:\n  \
                 targetRefs: [{{ group: gateway.networking.k8s.io, kind: HTTPRoute, name: {name} }}]\n  {policy}\n"
            )
            .expect("text");
        }
        text
    }

    /// Sends requests over one connection. Returns the CPU time of Envoy for each of them.
    async fn cost(&self, site: &mut Site) -> Duration {
        let target = Target::http(site.ports[0], &self.host());
        let target = self.fields.iter().fold(target, |target, (name, value)| target.field(name, value));
        let method = self.method();
        let mut connection = target.connect().await.expect("a connection");
        let mut before = Duration::ZERO;
        for request in 0..=REQUESTS {
            assert!(connection.usable().await, "{}: Envoy has closed the connection", self.name);
            let sent = connection.send(method.clone(), &self.path, Bytes::from(self.body.clone())).await;
            let answer = sent.unwrap_or_else(|error| panic!("{}: {error}", self.name));
            assert_eq!(answer.status, self.status, "{}: {}", self.name, answer.text());
            // The first request opens connections to backends.
            if request == 0 {
                before = site.envoy.process().cpu_time();
            }
        }
        (site.envoy.process().cpu_time() - before) / REQUESTS
    }
}

/// Returns a request with JSON whose answer is the same message.
fn grpc_json(name: &'static str, body: String) -> Case {
    let policy = format!("grpcJson: {{ descriptors: {}, services: [{}] }}", books::DESCRIPTORS, books::SERVICE);
    Case { path: "/v1/books".to_owned(), body: body.into(), ..Case::new(name).policy(&policy) }
        .rules("- { backendRefs: [{ name: books, port: 80 }] }".to_owned())
}

fn cases() -> Vec<Case> {
    let slow = slow_keys();
    // Each byte has the largest number of alternatives with a group.
    let groups = ["(.)"; 4].join("|");
    let rewrite =
        format!(r"urlRewrite: {{ path: {{ regex: {{ pattern: '/({groups})*', substitution: '/\0\1\2\3\4\5' }} }} }}");
    let names = ["([a-z])"; 3].join("|");
    let host =
        format!(r"urlRewrite: {{ hostnameFrom: {{ path: {{ pattern: '/({names})*', substitution: '\1.\2\3\4' }} }} }}");
    let both = r"urlRewrite: { hostnameFrom: { path: { pattern: '/(([a-z]))*', substitution: '\1.\2' } }, path: { regex: { pattern: '/((.))*', substitution: '/\0\1\2' } } }";
    let modulus = format!("{}_w", "_".repeat(1364));
    let rsa = list(11, |_| format!(r#"{{"kty": "RSA", "e": "AQAB", "n": "{modulus}"}}"#));
    let ranges = |prefix: &str| list(255, |i| format!("'2001:{prefix}:{i:x}::/48'"));
    // 64 pairs of a match and a backend in each rule.
    let sessions = (0..15).fold(String::new(), |rules, rule| {
        let matches = list(8, |i| format!("{{ path: {{ value: /{rule}/{i} }} }}"));
        let backends = list(8, |i| format!("{{ name: s{i}, port: 80 }}"));
        rules
            + &format!(
                "- {{ matches: [{matches}], backendRefs: [{backends}], sessionPersistence: {{ sessionName: s }} }}\n  "
            )
    }) + "- { backendRefs: [{ name: reader, port: 80 }] }";
    let session = "- { matches: [{ path: { value: /0 } }], backendRefs: [{ name: s0, port: 80 }], sessionPersistence: { sessionName: s } }";
    let last = "- { backendRefs: [{ name: reader, port: 80 }] }";
    let with_filters =
        |filters: String| format!("- {{ filters: [{filters}], backendRefs: [{{ name: reader, port: 80 }}] }}");
    let headers = |kind: &str, key: &str| {
        let value = "v".repeat(1000);
        let set = list(16, |i| format!("{{ name: x-set-{i}, value: {value} }}"));
        let add = list(16, |i| format!("{{ name: x-add-{i}, value: {value} }}"));
        let remove = list(16, |i| format!("x-remove-{i}"));
        format!(
            "{{ type: {kind}HeaderModifier, {key}HeaderModifier: {{ set: [{set}], add: [{add}], remove: [{remove}] }} }}"
        )
    };
    let matches = |count: usize, one: String| list(count, |i| format!("{{ path: {{ value: '/{i:03}' }}, {one} }}"));
    let conditions = {
        let headers = list(16, |i| format!("{{ name: x-{i}, value: none }}"));
        let query = list(16, |i| format!("{{ name: q{i}, value: none }}"));
        let rules = list(64, |i| {
            format!("{{ method: {}, headers: [{headers}], queryParams: [{query}] }}", ["GET", "PUT"][i % 2])
        });
        format!("- {{ matches: [{rules}], backendRefs: [{{ name: reader, port: 80 }}] }}\n  {last}")
    };
    let patterns = accepted();
    let patterns =
        list(patterns.len(), |i| format!("{{ path: {{ type: RegularExpression, value: '{}' }} }}", patterns[i]));
    let patterns = format!("- {{ matches: [{patterns}], backendRefs: [{{ name: s0, port: 80 }}] }}\n  {last}");
    let long = || "a".repeat(LARGE);
    let authorization = |name: &str, protocol: &str| {
        format!(
            "externalAuthorization: {{ backendRef: {{ name: {name}, port: 80 }}, protocol: {protocol}, timeout: 10s, requestBody: {{ maxBytes: 1MiB }} }}"
        )
    };
    vec![
        Case::new("nothing"),
        Case::new("large-headers").field("x-large", long()),
        Case { status: 401, ..Case::new("jwt-p521").policy(&jwt(&slow)).field("authorization", token("ES512", 132)) },
        Case { status: 401, ..Case::new("jwt-p256").policy(&jwt(&slow)).field("authorization", token("ES256", 64)) },
        Case { status: 401, ..Case::new("jwt-rsa").policy(&jwt(&rsa)).field("authorization", token("RS256", 1024)) },
        Case::new("sessions").rules(sessions.clone()).field("cookie", "s".repeat(LARGE)),
        Case::new("session-cookies").rules(sessions).field("cookie", "a=b;".repeat(LARGE / 4)),
        Case {
            path: "/0/0".to_owned(),
            ..Case::new("session").rules(session.to_owned()).field("cookie", format!("s={}", "QUFB".repeat(LARGE / 4)))
        },
        Case { path: long_path(b"a0b", 1), ..Case::new("regexes").rules(patterns) },
        Case { path: format!("/{}", "ab".repeat(LARGE / 2)), ..Case::new("rewrites").policy(&rewrite) },
        Case { path: format!("/{}", "ab".repeat(LARGE / 2)), ..Case::new("hosts").policy(&host) },
        Case { path: format!("/{}", "ab".repeat(LARGE / 2)), ..Case::new("hosts-and-paths").policy(both) },
        Case {
            path: format!("/{}-", "ab".repeat(LARGE / 2)),
            status: 403,
            ..Case::new("other-hosts").policy(&host.replace(")*", ")+"))
        },
        Case::new("hosts-in-headers")
            .policy("urlRewrite: { hostnameFrom: { header: x-host } }")
            .field("x-host", "a".repeat(LARGE / 2)),
        Case { path: format!("/?{}", "&".repeat(LARGE)), ..Case::new("query").rules(conditions.clone()) },
        Case::new("conditions").rules(conditions).field("x-15", long()),
        Case::new("paths").rules(format!(
            "- {{ matches: [{}], backendRefs: [{{ name: s0, port: 80 }}] }}\n  {last}",
            matches(64, "method: GET".into())
        )),
        Case::new("request-headers").rules(with_filters(headers("Request", "request"))),
        Case::new("response-headers").rules(with_filters(headers("Response", "response"))),
        Case::new("mirrors")
            .rules(with_filters(list(16, |_| {
                "{ type: RequestMirror, requestMirror: { backendRef: { name: reader, port: 80 } } }".to_owned()
            })))
            .body(30_000),
        Case::new("cors")
            .rules(with_filters(format!(
                "{{ type: CORS, cors: {{ allowOrigins: [{}] }} }}",
                list(64, |i| format!("'https://*.{i}.test'"))
            )))
            .field("origin", format!("https://{}", long())),
        Case {
            status: 503,
            ..Case::new("retries").rules(
                "- { backendRefs: [{ name: failing, port: 80 }], retry: { attempts: 10, codes: [503], backoff: 1ms } }"
                    .to_owned(),
            )
        },
        Case::new("addresses").policy(&format!(
            "clientAddresses: {{ allow: [{}, 127.0.0.0/8], deny: [{}] }}",
            ranges("db8"),
            ranges("db9")
        )),
        Case::new("rate-limit").policy("localRateLimit: { requests: 1000000, unit: second, perClientAddress: true }"),
        Case::new("body-limit").policy("maxRequestBody: 1GiB").body(1 << 20),
        Case::new("body").body(1 << 20),
        Case::new("request-buffering").policy("requestBuffering: { maxSize: 1MiB }").body(1 << 20),
        Case {
            status: 503,
            ..Case::new("error-responses").policy(&format!(
                "errorResponses: [{}]",
                list(16, |i| format!("{{ statuses: [{}, 503], body: '{}' }}", 400 + i, "x".repeat(1024)))
            ))
        }
        .rules("- { backendRefs: [{ name: failing, port: 80 }] }".to_owned()),
        Case::new("authorization-by-http").policy(&authorization("http-authorizer", "http")).body((1 << 20) - 1),
        Case::new("authorization-by-grpc").policy(&authorization("grpc-authorizer", "grpc")).body((1 << 20) - 1),
        grpc_json("grpc-json", format!("{{\"tags\": [{}\"\"]}}", "\"\",".repeat(5400))),
        Case {
            path: "/?bytes=100000".to_owned(),
            ..Case::new("response-limit").policy("maxResponseBody: { size: 1GiB }")
        }
        .rules("- { backendRefs: [{ name: echo, port: 80 }] }".to_owned()),
        Case {
            path: "/?bytes=100000".to_owned(),
            ..Case::new("compression").policy("compression: { algorithms: [brotli] }")
        }
        .rules("- { backendRefs: [{ name: echo, port: 80 }] }".to_owned())
        .field("accept-encoding", "br"),
    ]
}

/// All running programs.
struct Worst {
    site: Site,
    _servers: (Server, Server, Server, Echo, HttpAuthorizer, Authorizer),
}

impl Worst {
    async fn open(cases: &[Case]) -> Self {
        let site = Site::open(Mode::Delta).await;
        let reader = Server::http(async |request: Request<Incoming>| {
            let _ = request.into_body().collect().await;
            Response::new(Full::new(Bytes::from_static(b"read")))
        })
        .await;
        let failing = Server::http(async |_: Request<Incoming>| {
            let answer = Response::builder().status(503);
            answer.body(Full::new(Bytes::new())).expect("an answer")
        })
        .await;
        let books = books::start().await;
        let (echo, over_http, over_grpc) =
            (Echo::start().await, HttpAuthorizer::start().await, Authorizer::start().await);
        let services = [
            service("reader", "", &[reader.address]),
            service("failing", "", &[failing.address]),
            service("books", "projectcontour.io/upstream-protocol.h2c: '80'", &[books.address]),
            service("echo", "", &[echo.address]),
            service("http-authorizer", "", &[over_http.address]),
            service("grpc-authorizer", "", &[over_grpc.address]),
        ];
        let sticky = (0..8).map(|i| service(&format!("s{i}"), "", &[reader.address]));
        let all: Vec<String> = services.into_iter().chain(sticky).chain(cases.iter().map(Case::objects)).collect();
        site.manifests.write("cost.yaml", &documents(&all));
        for case in cases {
            let target = site.target(0, &case.host());
            match case.status {
                200 if case.path.len() > 1000 => serves(&target).await,
                200 => {
                    let sent = async || target.send(case.method(), &case.path, case.body.clone()).await;
                    let is_served = async || sent().await.is_ok_and(|answer| answer.status == 200);
                    e2e::wait_everywhere("the route", is_served).await;
                }
                status => answers(&target, status).await,
            }
        }
        Self { site, _servers: (reader, failing, books, echo, over_http, over_grpc) }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_keeps_a_worker_busy() {
    let _turn = e2e::turn().await;
    let cases = cases();
    let mut worst = Worst::open(&cases).await;
    let problems = worst.site.lockgate.get("/debug/problems").await.text();
    let mut costs = Vec::new();
    for case in &cases {
        costs.push((case.name, case.cost(&mut worst.site).await));
    }
    println!("    CPU time of Envoy for one request:");
    costs.iter().for_each(|(name, cost)| println!("    {name:<24} {:>6.2} ms", cost.as_secs_f64() * 1e3));
    let limit = |name: &str| if REWRITES.contains(&name) { LIMIT_OF_REWRITES } else { LIMIT };
    let slow: Vec<_> = costs.iter().filter(|(name, cost)| *cost > limit(name)).collect();
    assert!(slow.is_empty(), "{slow:?}");
    // Otherwise a case measures a route that is closed or incomplete.
    assert_eq!(problems.trim(), "[]");
}

/// Sends a request with as much of its body as Envoy accepts, and leaves it incomplete.
async fn incomplete(port: u16, host: &str, bytes: usize) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.expect("a connection");
    let head = format!("POST / HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("a request sent");
    let piece = [format!("{:x}\r\n", 1 << 14).as_bytes(), &[b'a'; 1 << 14], b"\r\n"].concat();
    for _ in 0..bytes >> 14 {
        let sent = tokio::time::timeout(Duration::from_millis(200), stream.write_all(&piece)).await;
        if !sent.is_ok_and(|sent| sent.is_ok()) {
            break;
        }
    }
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_client_holds_little_memory() {
    const CLIENTS: u64 = 8;
    let authorization = |size: &str| {
        format!(
            "externalAuthorization: {{ backendRef: {{ name: http-authorizer, port: 80 }}, protocol: http, requestBody: {{ maxBytes: {size} }} \
             }}"
        )
    };
    let mirrors =
        list(16, |_| "{ type: RequestMirror, requestMirror: { backendRef: { name: reader, port: 80 } } }".to_owned());
    let mirrored = format!("- {{ filters: [{mirrors}], backendRefs: [{{ name: reader, port: 80 }}] }}");
    let cases = [
        Case::new("body"),
        Case::new("body-limit").policy("maxRequestBody: 1GiB"),
        Case::new("authorization").policy(&authorization("1MiB")),
        Case::new("request-buffering").policy("requestBuffering: { maxSize: 1GiB }"),
        Case { status: 403, ..Case::new("large-authorization").policy(&authorization("1GiB")) },
        Case::new("mirrors").rules(mirrored),
        Case::new("retries")
            .rules("- { backendRefs: [{ name: reader, port: 80 }], retry: { attempts: 10, codes: [503] } }".to_owned()),
    ];
    let worst = Worst::open(&cases).await;
    println!("    memory that Envoy holds for one request:");
    // Beyond its limit, a body is answered 413, and Envoy holds nothing.
    let lengths = [4 << 20, (1 << 20) - (1 << 14)];
    let mut largest = 0;
    for (case, bytes) in cases.iter().flat_map(|case| lengths.map(|length| (case, length))) {
        let before = worst.site.envoy.memory().await;
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            clients.push(incomplete(worst.site.ports[0], &case.host(), bytes).await);
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        let held = worst.site.envoy.memory().await.saturating_sub(before) / CLIENTS;
        println!("    {:<24} {:>5} KiB sent, {:>6} KiB held", case.name, bytes >> 10, held >> 10);
        assert!(held <= HELD, "{}: {held} bytes", case.name);
        largest = largest.max(held);
    }
    assert!(largest > 1 << 19, "no case holds a body: {largest} bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_type_of_the_content_lifts_no_limit() {
    let worst = Worst::open(&[Case::new("small").policy("maxRequestBody: 1KiB")]).await;
    let port = worst.site.ports[0];
    let target = worst.site.target(0, "small.test");
    e2e::wait_everywhere("the limit", async || {
        target.send(Method::POST, "/", vec![b'a'; 1025]).await.is_ok_and(|answer| answer.status == 413)
    })
    .await;
    for (kind, length, expected) in [
        ("text/plain", 1024, "read"),
        ("text/plain", 1025, "HTTP/1.1 413"),
        ("application/grpc", 1024, "read"),
        // Envoy answers clients of gRPC in the form of gRPC.
        ("application/grpc", 1025, "grpc-status:"),
        ("application/grpc+proto", 100_000, "grpc-status:"),
    ] {
        let request = format!(
            "POST / HTTP/1.1\r\nHost: small.test\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n{length:x}\r\n{}\r\n0\r\n\r\n",
            "a".repeat(length)
        );
        let answer = raw(port, request.as_bytes(), |_| false).await;
        let text = String::from_utf8_lossy(&answer);
        assert!(text.contains(expected), "{kind}, {length} bytes: {text}");
    }
}
