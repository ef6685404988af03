//! The examples of docs/policies.md: each is served as the page shows it, and the answers are those that the page states.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use e2e::authorizer::USER;
use e2e::client::{Answer, raw};
use e2e::manifests::service;
use e2e::pages;
use e2e::processor::PROCESSED;
use e2e::server::Server;
use e2e::wasm::{self, MARK};
use e2e::{Backend, Echo, HttpAuthorizer, Issuer, Limiter, Mode, Processor, Target, wait_everywhere, wait_until};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Method, Request, Response};
use tokio::time::timeout;

use super::{Site, answers};

const PAGE: &str = "docs/policies.md";
/// The mark of the examples.
const EXAMPLE: &str = "tested by ingress_policies::examples::the_examples_of_the_page_do_what_it_says";
/// The Ingress of the examples. Its backend answers with the request.
const INGRESS: &str =
    "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: { name: shop, namespace: shop }\nspec:\n  rules:\n";
const HOSTS: [&str; 3] = ["shop.example.com", "staff.example.com", "partners.example.com"];

/// Returns a Service in `shop`.
fn of_shop(name: &str, port: u16, address: SocketAddr) -> String {
    let service = service(name, "", &[address]).replace("namespace: default", "namespace: shop");
    service.replace("port: 80,", &format!("port: {port},"))
}

/// All running programs.
struct Shop {
    site: Site,
    issuer: Issuer,
    limiter: Limiter,
    copies: Backend,
}

impl Shop {
    fn target(&self) -> Target {
        self.site.target(HOSTS[0], false)
    }

    /// Waits until the workers answer a request as `expected`.
    async fn get(&self, what: &str, path: &str, fields: &[(&str, &str)], expected: impl Fn(&Answer) -> bool) {
        self.get_at(HOSTS[0], what, path, fields, expected).await;
    }

    async fn get_at(
        &self,
        host: &str,
        what: &str,
        path: &str,
        fields: &[(&str, &str)],
        expected: impl Fn(&Answer) -> bool,
    ) {
        let target = self.site.target(host, false);
        let target = fields.iter().fold(target, |target, (name, value)| target.field(name, value));
        wait_everywhere(what, async || target.get(path).await.is_ok_and(|answer| expected(&answer))).await;
    }

    async fn send(&self, method: Method, fields: &[(&str, &str)], size: usize) -> Answer {
        let target = fields.iter().fold(self.target(), |target, (name, value)| target.field(name, value));
        target.send(method, "/", vec![b'a'; size]).await.expect("an answer")
    }

    /// Waits for the status of a request that announces a body of this length.
    async fn refuses_bodies_of(&self, length: usize) {
        let request =
            format!("POST / HTTP/1.1\r\nHost: {}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n", HOSTS[0]);
        let refused = async || {
            // Until the example applies, Envoy waits for the body.
            let answer = raw(self.site.lockgate.http, request.as_bytes(), |seen| seen.len() > 12);
            timeout(Duration::from_secs(1), answer).await.is_ok_and(|answer| answer.starts_with(b"HTTP/1.1 413"))
        };
        wait_everywhere("413", refused).await;
    }

    async fn stat(&self, name: &str) -> u64 {
        self.site.envoy.stats(&format!("^cluster\\.shop_web_.*{name}$")).await.values().sum()
    }

    /// Sends requests to the example with the HTTPPolicy `name`.
    async fn check(&self, name: &str) {
        let is = |status: u16| move |answer: &Answer| answer.status == status;
        let says = |status: u16, text: &'static str| {
            move |answer: &Answer| answer.status == status && answer.text().contains(text)
        };
        match name {
            "office" => self.get("no access", "/", &[], says(403, "RBAC: access denied")).await,
            "staff" => {
                self.get_at(HOSTS[1], "no user", "/", &[], is(401)).await;
                let ann = [("authorization", "Basic YW5uOnBhc3N3b3Jk")];
                self.get_at(HOSTS[1], "a user", "/", &ann, says(200, "x-user: ann\n")).await;
            }
            "partners" => {
                self.get_at(HOSTS[2], "no key", "/", &[], is(401)).await;
                let key = [("x-api-key", "4f0c2a9e7d1b")];
                self.get_at(HOSTS[2], "a key", "/", &key, says(200, "x-client: mobile-app\n")).await;
                let by_query = says(200, "x-client: nightly-batch\n");
                self.get_at(HOSTS[2], "a key", "/?key=b81d77aa03c5", &[], by_query).await;
            }
            "tokens" => {
                self.get("no token", "/", &[], is(401)).await;
                for (audience, status) in [("shop", 200), ("blog", 403)] {
                    let token = self.issuer.bearer_of("https://accounts.example.com", audience, 600);
                    self.get(audience, "/", &[("authorization", &token)], is(status)).await;
                }
            }
            "pages" => {
                let asks = [("origin", "https://www.example.org"), ("access-control-request-method", "PUT")];
                wait_everywhere("the answer to a preflight request", async || {
                    let answer = self.send(Method::OPTIONS, &asks, 0).await;
                    answer.header("access-control-allow-origin") == asks[0].1
                        && answer.header("access-control-max-age") == "600"
                })
                .await;
                let origins = [("https://app.example.com", 200), ("https://www.example.org", 200), ("null", 403)];
                for (origin, status) in origins {
                    assert_eq!(self.send(Method::POST, &[("origin", origin)], 0).await.status, status, "{origin}");
                }
                assert_eq!(self.send(Method::POST, &[], 0).await.status, 403);
            }
            "authorized" => {
                self.get("a denied request", "/?deny", &[], says(401, "who are you?")).await;
                let user = format!("{}: {}\n", USER.0, USER.1);
                self.get("a request", "/", &[], |answer| answer.status == 200 && answer.text().contains(&user)).await;
            }
            "rate" => answers(&self.target(), 429).await,
            "limits" => {
                self.get("a limit", "/", &[("x-user", "ann")], is(429)).await;
                let counts = self.limiter.counts();
                let counted = |descriptor: &str| counts.contains_key(&format!("edge namespace=shop {descriptor}"));
                assert!(counted("plan=small user=ann") && counted("remote_address=127.0.0.1"), "{counts:?}");
            }
            "faults" => {
                let mut seen = Vec::new();
                wait_until("requests with and without faults", async || {
                    seen.push(self.target().get("/").await.map_or(0, |answer| answer.status));
                    seen.contains(&200) && seen.contains(&503)
                })
                .await;
            }
            "uploads" => {
                self.refuses_bodies_of((10 << 20) + 1).await;
                assert_eq!(self.send(Method::POST, &[], 10 << 20).await.status, 200);
            }
            "held" => {
                self.refuses_bodies_of((512 << 10) + 1).await;
                assert_eq!(self.send(Method::POST, &[], 512 << 10).await.status, 200);
            }
            "processing" => {
                let both = |answer: &Answer| {
                    answer.text().contains(&format!("{PROCESSED}: request")) && !answer.header(PROCESSED).is_empty()
                };
                self.get("a changed request and response", "/", &[], both).await;
            }
            "books" => {
                // The backend repeats requests, and does not speak gRPC, so its answers stay as they are.
                let is_called = |answer: &Answer| answer.text().contains("/shop.v1.Books/Get");
                self.get("a converted request", "/v1/books/dune?pages=3", &[], is_called).await;
            }
            "firewall" => {
                let both = |answer: &Answer| {
                    answer.text().contains(&format!("{MARK}: rules")) && answer.header(MARK) == "rules"
                };
                self.get("a request and response of the module", "/", &[], both).await;
            }
            "answers" => {
                self.get("no larger response", &format!("/?bytes={}", (10 << 20) + 1), &[], is(502)).await;
                self.get("no response of unknown length", "/?pieces=1&every=1", &[], is(502)).await;
                self.get("a response", &format!("/?bytes={}", 10 << 20), &[], is(200)).await;
            }
            "retries" => {
                wait_until("three retries", async || {
                    let before = self.stat("upstream_rq_retry").await;
                    assert_eq!(self.target().get("/?status=503").await.expect("an answer").status, 503);
                    self.stat("upstream_rq_retry").await == before + 3
                })
                .await;
            }
            "times" => {
                let late = async || self.target().get("/?wait=6000").await.is_ok_and(|answer| answer.status == 504);
                wait_until("the end of a request", late).await;
            }
            "versions" => {
                let host = "host: shop.internal.example.com\n";
                let changed =
                    |answer: &Answer| answer.text().starts_with("GET /cart/7?page=2 ") && answer.text().contains(host);
                self.get("another URL", "/v2/cart/7?page=2", &[], changed).await;
            }
            "copies" | "audited" => {
                let before = self.copies.requests();
                wait_until("a copy", async || {
                    assert_eq!(self.target().get("/").await.expect("an answer").status, 200);
                    self.copies.requests() > before
                })
                .await;
            }
            "headers" => {
                let changed = |answer: &Answer| {
                    let text = answer.text();
                    text.contains("x-environment: production\n")
                        && !text.contains("x-debug")
                        && answer.header("strict-transport-security") == "max-age=31536000"
                        && answer.header("link") == "</style.css>; rel=preload"
                };
                self.get("changed headers", "/", &[("x-debug", "1")], changed).await;
            }
            "errors" => {
                self.get("another body", "/?status=404", &[], says(404, "This page does not exist.")).await;
                self.get("another status", "/?status=500", &[], says(503, r#"{"error": "unavailable"}"#)).await;
            }
            "compressed" => {
                let gzip = |answer: &Answer| answer.header("content-encoding") == "gzip";
                self.get("a compressed response", "/?bytes=5000", &[("accept-encoding", "gzip")], gzip).await;
            }
            other => panic!("{PAGE}: nothing checks the example {other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_of_the_page_do_what_it_says() {
    let (issuer, limiter, copies) = (Issuer::new(), Limiter::start(30).await, Backend::start("copies").await);
    let (echo, authorizer, processor) = (Echo::start().await, HttpAuthorizer::start().await, Processor::start().await);
    let set = Bytes::from(issuer.keys());
    let keys = Server::http(move |_: Request<Incoming>| {
        let set = set.clone();
        async move { Response::new(Full::new(set)) }
    })
    .await;
    let rule = |host: &&str| {
        format!(
            "    - host: {host}\n      http: {{ paths: [{{ path: /, pathType: Prefix, backend: {{ service: {{ name: web, port: {{ number: \
             80 }} }} }} }}] }}\n"
        )
    };
    let objects = [
        format!("{INGRESS}{}", HOSTS.iter().map(rule).collect::<String>()),
        of_shop("web", 80, echo.address),
        of_shop("shop-next", 80, copies.address),
        of_shop("audit", 80, copies.address).replace("namespace: shop", "namespace: audit"),
        of_shop("keys", 80, keys.address),
        of_shop("authorizer", 9000, authorizer.address),
        of_shop("processor", 9000, processor.address),
    ];
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), wasm::module()).expect("the module");
    let settings = format!(
        "rateLimit: {{ endpoint: '{}', domain: edge }}\ntenants: {{ globalRateLimits: true, maxGrpcJsonBytes: 64KiB }}\nwasm: {{ modules: {{ waf: {{ file: {}, configuration: rules }} }} }}\n",
        limiter.address,
        file.path().display()
    );
    let site = Site::open(Mode::Delta, &settings, &HOSTS, &objects).await;
    let shop = Shop { site, issuer, limiter, copies };
    let text = std::fs::read_to_string(pages::file(PAGE)).expect("the page");
    let mut checked = 0;
    for block in pages::blocks(PAGE, &text).iter().filter(|block| block.marks.iter().any(|mark| mark == EXAMPLE)) {
        answers(&shop.target(), 200).await;
        shop.site.manifests.write("example.yaml", &block.text);
        for policy in block.text.split("---\n").filter(|document| document.contains("\nkind: HTTPPolicy\n")) {
            let name = policy.lines().find_map(|line| line.strip_prefix("  name: ")).expect("a name");
            println!("{}: {name}", block.place);
            shop.check(name).await;
            checked += 1;
        }
        shop.site.manifests.remove("example.yaml");
    }
    println!("{checked} examples");
    assert!(checked > 15, "only {checked} examples");
}
