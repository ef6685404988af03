//! Servers that change requests and responses.

use std::fmt::Write as _;

use bytes::Bytes;
use e2e::client::raw;
use e2e::load::Plan;
use e2e::manifests::{documents, ingress, service};
use e2e::processor::{DENIED, HARMFUL, PROCESSED};
use e2e::server::Server;
use e2e::{Authorizer, Load, Mode, Processor, Target, wait_everywhere};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Method, Request, Response};

use super::{Site, answers, host, policy};

/// Answers with the request: its line, its headers, an empty line, and its body. The query `size=N` sets the length of the answer.
async fn mirrored(request: Request<Incoming>) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let mut text = format!("{} {}\n", head.method, head.uri);
    for (name, value) in &head.headers {
        let _ = writeln!(text, "{name}: {}", String::from_utf8_lossy(value.as_bytes()));
    }
    let _ = write!(text, "\n{}", String::from_utf8_lossy(&body));
    if let Some((_, size)) = head.uri.query().unwrap_or_default().split_once("size=") {
        text = "a".repeat(size.parse().expect("a size"));
    }
    Response::builder().header("x-secret", "1").body(Full::new(Bytes::from(text))).expect("an answer")
}

/// The parts that the server receives, by the name of the Ingress.
const POLICIES: [(&str, &str); 10] = [
    ("heads", "{ S, response: { headers: Send }, timeout: 300ms }"),
    ("open", "{ S, response: { headers: Send }, timeout: 300ms, failOpen: true }"),
    ("buffered", "{ S, request: { body: Buffered, maxBytes: 256KiB }, response: { headers: Send, body: Buffered } }"),
    ("streamed", "{ S, request: { body: Streamed }, response: { headers: Send, body: Streamed } }"),
    ("away", "{ backendRef: { name: away, port: 80 }, response: { headers: Send } }"),
    ("away-open", "{ backendRef: { name: away, port: 80 }, response: { headers: Send }, failOpen: true }"),
    ("missing", "{ backendRef: { name: missing, port: 80 } }"),
    ("bodies", "{ S, request: { headers: Skip, body: Streamed } }"),
    ("answers", "{ S, request: { headers: Skip }, response: { headers: Send, body: Buffered } }"),
    ("nothing", "{ S, request: { headers: Skip } }"),
];

fn policies() -> Vec<String> {
    let spec = |spec: &str| {
        format!("externalProcessing: {}", spec.replace(" S,", " backendRef: { name: processor, port: 80 },"))
    };
    POLICIES.iter().map(|(name, text)| policy(name, &spec(text))).collect()
}

/// Starts all programs with a policy for each name. The server is behind the Service `processor`.
async fn open(settings: &str, names: &[&str], is_wildcard: bool) -> (Site, [Server; 1], Processor) {
    let hosts: Vec<String> =
        names.iter().map(|name| if is_wildcard { format!("*.{}", host(name)) } else { host(name) }).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let of = |(name, host): (&&str, &&str)| ingress(name, &format!("'{host}'"), "mirrored", Some("cert"));
    let ingresses: Vec<String> = names.iter().zip(&hosts).map(of).collect();
    let site = Site::open(Mode::Delta, settings, &hosts, &ingresses).await;
    let (backend, processor) = (Server::http(mirrored).await, Processor::start().await);
    let away = Processor::start().await.address;
    let services = [
        service("mirrored", "", &[backend.address]),
        service("processor", "", &[processor.address]),
        service("away", "", &[away]),
    ];
    site.manifests.write("services.yaml", &documents(&services));
    for name in names {
        let host = if is_wildcard { format!("a.{}", host(name)) } else { host(name) };
        answers(&site.target(&host, false), 200).await;
    }
    (site, [backend], processor)
}

/// Waits until all workers have the policies.
async fn is_processed(target: &Target) {
    let is_changed = async || target.get("/").await.is_ok_and(|answer| !answer.header(PROCESSED).is_empty());
    wait_everywhere("changed responses", is_changed).await;
}

async fn changes(settings: &str, is_wildcard: bool) {
    let host = |name: &str| if is_wildcard { format!("a.{}", host(name)) } else { host(name) };
    let names: Vec<&str> = POLICIES.iter().map(|(name, _)| *name).collect();
    let (site, _backend, processor) = open(settings, &names, is_wildcard).await;
    site.manifests.write("policies.yaml", &documents(&policies()));
    is_processed(&site.target(&host("heads"), false)).await;
    for is_tls in [false, true] {
        answers(&site.target(&host("nothing"), is_tls), 403).await;
        answers(&site.target(&host("missing"), is_tls), 403).await;
        answers(&site.target(&host("away"), is_tls), 503).await;
        let send = async |name: &str, path: &str, size: usize| {
            let target = site.target(&host(name), is_tls).field("x-secret", "mine");
            target.send(Method::POST, path, vec![b'a'; size]).await.expect("an answer")
        };
        // The backend receives the changed request, and the client the changed response.
        let answer = send("heads", "/", 10).await;
        let text = answer.text();
        assert!(text.contains("x-processed: request\n") && text.ends_with("\naaaaaaaaaa"), "{text}");
        assert!(!text.contains("x-secret"), "{text}");
        assert_eq!((answer.header(PROCESSED), answer.header("x-secret")), ("response", ""));
        for name in ["buffered", "streamed"] {
            let answer = send(name, "/", 10).await;
            assert!(answer.text().starts_with("POST /\nHOST: "), "{}", answer.text());
            assert!(answer.text().ends_with("\n\nAAAAAAAAAA"), "{}", answer.text());
            assert_eq!(answer.header(PROCESSED), "response body");
        }
        let bodies = send("bodies", "/", 10).await.text();
        assert!(bodies.contains("x-secret: mine") && bodies.ends_with("\nAAAAAAAAAA"), "{bodies}");
        assert!(send("answers", "/", 10).await.text().starts_with("POST /\nHOST: "));
        assert!(send("away-open", "/", 10).await.text().ends_with("\naaaaaaaaaa"));
        // The server answers itself.
        for query in ["deny", "deny-response"] {
            let answer = send("heads", &format!("/?{query}"), 10).await;
            assert_eq!((answer.status, &*answer.text()), DENIED, "{query}");
        }
        // A server that is late, fails, or sends odd or long answers refuses requests, unless they may pass.
        for (query, status) in [("hang", 504), ("longer", 504), ("fail", 503), ("odd", 503), ("large", 503)] {
            let path = format!("/?{query}");
            assert_eq!(send("heads", &path, 10).await.status, status, "{query}");
            let passed = send("open", &path, 10).await;
            assert!(passed.status == 200 && passed.text().contains("x-secret: mine"), "{query}");
        }
        // The limits of bodies.
        for (size, status) in [(100 << 10, 200), (200 << 10, 200), ((256 << 10) + 1, 413), (1 << 20, 413)] {
            assert_eq!(send("buffered", "/", size).await.status, status, "{size}");
        }
        for (name, size, status) in [
            ("buffered", 20 << 10, 200),
            ("buffered", 4 << 20, 500),
            ("answers", 4 << 20, 500),
            ("streamed", 4 << 20, 200),
        ] {
            let answer = site.target(&host(name), is_tls).get(&format!("/?size={size}")).await.expect("an answer");
            assert_eq!((answer.status, answer.body.len() == size), (status, status == 200), "{name} {size}");
        }
        assert!(send("streamed", "/", 1 << 20).await.body.len() > 1 << 20);
    }
    assert!(processor.seen().iter().all(|part| !part.contains("trailers")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_changes_requests_and_responses() {
    changes("", false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_changes_requests_and_responses_without_scopes() {
    changes("routes: { discovery: rds }\n", false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_changes_requests_and_responses_of_wildcard_hosts() {
    changes("", true).await;
}

/// The server of a tenant cannot delimit messages, control Envoy, or select another host.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_changes_no_header_that_delimits_messages_or_controls_envoy() {
    let names = ["heads", "buffered", "streamed"];
    let (site, _backend, _processor) = open("", &names, false).await;
    site.manifests.write("policies.yaml", &documents(&policies()[..4]));
    for name in names {
        is_processed(&site.target(&host(name), false)).await;
        for is_tls in [false, true] {
            let target = site.target(&host(name), is_tls);
            for query in [
                "harm",
                "harm&reroute",
                "harm&mode",
                "harm&replace",
                "harm&deny",
                "harm&deny&empty",
                "harm&deny-response",
            ] {
                let answer = target.send(Method::POST, &format!("/?{query}"), "hello").await.expect("an answer");
                let text = answer.text().to_lowercase();
                let is_denied = query.contains("deny");
                assert_eq!(answer.status, if is_denied { DENIED.0 } else { 200 }, "{name} {query}");
                // Envoy permits a server to change the method together with the body.
                let method = if query.contains("replace") { "delete" } else { "post" };
                assert!(is_denied || text.starts_with(&format!("{method} /?{query}\nhost: {name}.test\n")), "{text}");
                for (header, value) in HARMFUL.into_iter().filter(|(header, _)| !header.starts_with(':')) {
                    // Envoy delimits changed bodies itself.
                    let is_own = header == "transfer-encoding" && !is_denied;
                    assert!(is_own || answer.header(header) != value, "{name} {query} {header}");
                    assert!(
                        is_own || !text.contains(&format!("\n{header}: {value}\n")),
                        "{name} {query} {header}: {text}"
                    );
                }
            }
        }
        // A response to HEAD has no body, whatever length it states. The next response of the connection is read correctly.
        let request = format!("POST /?replace&head HTTP/1.1\r\nhost: {name}.test\r\ncontent-length: 5\r\n\r\nhello");
        let next = format!("GET /?size=7 HTTP/1.1\r\nhost: {name}.test\r\nconnection: close\r\n\r\n");
        let seen = raw(site.lockgate.http, (request + &next).as_bytes(), |seen| {
            seen.windows(7).any(|one| one.eq_ignore_ascii_case(b"aaaaaaa"))
        })
        .await;
        let text = String::from_utf8_lossy(&seen).into_owned();
        let (first, _) = text.split_once("\r\n\r\n").expect("a head");
        assert!(first.starts_with("HTTP/1.1 200"), "{text}");
        assert!(first.contains("content-length: 0") || first.contains("transfer-encoding: chunked"), "{text}");
    }
}

/// The server of a tenant cannot add a request or a header line to a connection that other tenants share.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_adds_no_line_to_requests() {
    let names = ["heads", "other"];
    let (site, _backend, _processor) = open("", &names, false).await;
    site.manifests.write("policies.yaml", &documents(&policies()[..1]));
    let target = site.target(&host("heads"), false);
    is_processed(&target).await;
    for query in ["connect", "spaces", "lines", "value"] {
        for query in [query.to_owned(), format!("replace&{query}")] {
            let answer = target.send(Method::POST, &format!("/?{query}"), "hello").await;
            let answer = answer.expect("an answer");
            assert!(!answer.text().contains("evil"), "{query}: {}", answer.text());
            // Envoy refuses values with line breaks.
            if ["value", "replace&value", "replace&lines"].contains(&&*query) {
                assert_eq!(answer.status, 503, "{query}");
            }
            // The next requests of the shared connections are answered correctly.
            for _ in 0..4 {
                let next = site.target(&host("other"), false).get("/next").await.expect("an answer");
                assert!(next.status == 200 && next.text().starts_with("GET /next\n"), "{query}: {}", next.text());
            }
        }
    }
}

/// The server receives only what all checks and limits have permitted.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_behind_all_checks_and_limits() {
    const CHECKS: [(&str, &str, u16); 5] = [
        ("addresses", "clientAddresses: { deny: [127.0.0.0/8] }", 403),
        ("pages", "csrf: {}", 403),
        ("rated", "localRateLimit: { requests: 1, unit: hour }", 429),
        ("small", "maxRequestBody: 1B", 413),
        ("asked", "externalAuthorization: { backendRef: { name: authorizer, port: 80 } }", 401),
    ];
    let (site, _backend, processor) = open("", &CHECKS.map(|(name, ..)| name), false).await;
    let authorizer = Authorizer::start().await;
    site.manifests.write("authorizer.yaml", &service("authorizer", "", &[authorizer.address]));
    let policies = CHECKS.map(|(name, check, _)| {
        let server = "externalProcessing: { backendRef: { name: processor, port: 80 }, response: { headers: Send, body: Buffered } }";
        policy(name, &format!("{check}\n  {server}"))
    });
    site.manifests.write("policies.yaml", &documents(&policies));
    for (name, _, status) in CHECKS {
        for is_tls in [false, true] {
            let target = site.target(&host(name), is_tls);
            let refused = async || {
                let answer = target.send(Method::POST, "/before?deny", "hello").await;
                answer.is_ok_and(|answer| answer.status == status)
            };
            wait_everywhere(name, refused).await;
            let path = format!("/refused-{name}?deny");
            assert_eq!(target.send(Method::POST, &path, "hello").await.expect("an answer").status, status, "{name}");
        }
    }
    let seen = processor.seen();
    assert!(!seen.iter().any(|part| part.contains("refused")), "{seen:?}");
}

/// Policies that begin, change, and end under load fail no request, and change no listener.
#[tokio::test(flavor = "multi_thread")]
async fn policies_change_under_load() {
    let names = ["shop", "other"];
    let (site, _backend, _processor) = open("", &names, false).await;
    let targets = [false, true].map(|is_tls| site.target(&host("shop"), is_tls));
    let mut loads = Vec::new();
    for target in &targets {
        answers(target, 200).await;
        loads.push(Load::start(Plan { rate: 100, connections: 5, ..Plan::new(target.clone(), "/") }).await);
    }
    let before = site.listener_changes().await;
    let spec = |rest: &str| format!("externalProcessing: {{ backendRef: {{ name: processor, port: 80 }}, {rest} }}");
    for _ in 0..3 {
        site.manifests.write("policies.yaml", &policy("shop", &spec("response: { headers: Send }")));
        for target in &targets {
            is_processed(target).await;
        }
        site.manifests.write("policies.yaml", &policy("shop", &spec("response: { headers: Send, body: Buffered }")));
        for target in &targets {
            let is_changed = async || target.get("/").await.is_ok_and(|one| one.header(PROCESSED) == "response body");
            wait_everywhere("changed bodies", is_changed).await;
        }
        site.manifests.remove("policies.yaml");
        for target in &targets {
            let is_plain = async || target.get("/").await.is_ok_and(|one| one.header(PROCESSED).is_empty());
            wait_everywhere("no policy", is_plain).await;
        }
    }
    assert_eq!(site.listener_changes().await, before);
    for load in loads {
        let report = load.stop().await;
        assert_eq!(report.failed(), 0, "{report}");
    }
}
