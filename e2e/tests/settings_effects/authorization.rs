//! An external authorization server: the requests that it receives, and the effect of its answers on clients.

use std::net::SocketAddr;

use e2e::authorizer::{DENIED, USER};
use e2e::client::Answer;
use e2e::{Authorizer, HttpAuthorizer, Target, http3, ports, wait_everywhere, wait_until};
use envoy_types::pb::envoy::config::core::v3::address::Address;
use envoy_types::pb::envoy::service::auth::v3::attribute_context::Peer;
use hyper::Method;

use super::{HOST, Site, assert_asked};

fn settings(address: SocketAddr, more: &str) -> String {
    format!("externalAuthorization:\n  endpoint: {address}\n{more}")
}

/// The response comes from the authorization server.
#[track_caller]
fn assert_denied(answer: &Answer) {
    let (status, (header, value), body) = DENIED;
    assert_eq!((answer.status, answer.header(header), &*answer.text()), (status, value, body));
}

/// The headers of the authorization server that the backend receives.
fn user() -> String {
    format!("{}: {}", USER.0, USER.1)
}

async fn get(target: &Target, path: &str) -> Answer {
    target.get(path).await.expect("an answer")
}

fn ip(peer: Option<Peer>) -> String {
    match peer.and_then(|peer| peer.address?.address) {
        Some(Address::SocketAddress(address)) => address.address,
        other => panic!("no address of a socket: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_asked_about_requests_over_every_version_of_http() {
    let server = Authorizer::start().await;
    let http3 = "http: { http3: { enabled: true } }\n";
    let site = Site::with(&(settings(server.address, "  context: { site: eu-1 }\n") + http3)).await;
    for (name, shop) in [("plain", site.plain()), ("tls", site.tls()), ("h2", site.plain().over_http2())] {
        let shop = shop.field("x-card", "platinum").field(USER.0, "mallory");
        let answer = get(&shop, &format!("/{name}?a=b")).await;
        assert_asked(&answer, &user());
        assert!(!answer.text().contains("mallory"), "{}", answer.text());
        assert_denied(&get(&shop, &format!("/{name}?deny")).await);
        let (context, http) = server.asked(&format!("/{name}?a=b"));
        assert_eq!((&*http.method, &*http.host), ("GET", HOST));
        assert_eq!(http.headers.get("x-card").map(String::as_str), Some("platinum"));
        assert_eq!(
            context.context_extensions.into_iter().collect::<Vec<_>>(),
            [("site".to_owned(), "eu-1".to_owned())]
        );
        assert_eq!(ip(context.source), "127.0.0.1");
        assert_eq!(http.body, "");
    }
    let over_quic = async |path: &str| {
        http3::get(site.lockgate.https, HOST, path, site.authority.der()).await.expect("an answer over HTTP/3")
    };
    assert_asked(&over_quic("/quic").await, &user());
    assert_denied(&over_quic("/quic?deny").await);
    let (context, http) = server.asked("/quic");
    assert_eq!((&*http.protocol, &*context.context_extensions["site"]), ("HTTP/3", "eu-1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_asked_about_what_leads_nowhere() {
    let server = Authorizer::start().await;
    for discovery in ["vhds", "rds", "scopes"] {
        let routes = format!("routes: {{ discovery: {discovery} }}\n");
        let site = Site::with(&(settings(server.address, "  context: { site: eu-1 }\n") + &routes)).await;
        let plain = site.add_redirected_host("secure.test").await;
        let before = server.seen().len();
        let redirect = get(&plain, "/cart?deny").await;
        assert_eq!((redirect.status, redirect.header("location")), (308, "https://secure.test/cart?deny"));
        let with_port = Target::http(site.lockgate.http, "secure.test:80");
        wait_everywhere("the redirect with a port", async || get(&with_port, "/?deny").await.status == 308).await;
        assert_eq!(get(&Target::http(site.lockgate.http, "nobody.test"), "/?deny").await.status, 404);
        let elsewhere = Target::https(site.lockgate.https, "nobody.test", site.authority.der()).opened_for(HOST);
        assert_eq!(get(&elsewhere, "/?deny").await.status, 421);
        assert_eq!(server.seen().len(), before, "{:?}", server.seen());
        // The other properties of the requests follow the settings.
        assert_denied(&get(&site.plain(), &format!("/{discovery}?deny")).await);
        let (context, _) = server.asked(&format!("/{discovery}?deny"));
        assert_eq!(context.context_extensions["site"], "eu-1", "{discovery}");
        let secure = Target::https(site.lockgate.https, "secure.test", site.authority.der());
        assert_denied(&get(&secure, "/?deny").await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_gets_as_much_of_a_body_as_it_shall() {
    let server = Authorizer::start().await;
    let site = Site::with(&settings(server.address, "  requestBody: { maxBytes: 100B }\n")).await;
    let post = async |path: &str, length: usize| {
        site.plain().send(Method::POST, path, "x".repeat(length)).await.expect("an answer").status
    };
    assert_eq!(post("/short", 99).await, 200);
    assert_eq!(server.asked("/short").1.body, "x".repeat(99));
    assert_eq!(post("/long", 1000).await, 413);
    let more = "  requestBody: { maxBytes: 100B, allowPartial: true, packAsBytes: true }\n";
    site.config.write("lockgate.yaml", &settings(server.address, more));
    wait_until("a long body that passes", async || post("/partial", 1000).await == 200).await;
    let (_, http) = server.asked("/partial");
    assert_eq!((&*http.body, &*http.raw_body), ("", "x".repeat(100).as_bytes()));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_server_nothing_passes_unless_it_shall() {
    let address = SocketAddr::from(([127, 0, 0, 1], ports::free()));
    let site = Site::with(&settings(address, "")).await;
    for shop in [site.plain(), site.tls()] {
        assert_eq!(get(&shop, "/").await.status, 403);
    }
    site.config.write("lockgate.yaml", &settings(address, "  failOpen: true\n"));
    for shop in [site.plain(), site.tls()] {
        wait_until("requests that pass", async || get(&shop, "/").await.status == 200).await;
    }
    site.config.write("lockgate.yaml", &settings(address, ""));
    wait_until("requests that do not pass", async || get(&site.plain(), "/").await.status == 403).await;
    // Once the server exists, it receives requests.
    let server = Authorizer::start_at(address).await;
    wait_until("a server that is asked", async || get(&site.plain(), "/late").await.status == 200).await;
    assert_eq!(server.asked("/late").1.method, "GET");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_may_be_asked_by_http() {
    let server = HttpAuthorizer::start().await;
    let http = "  protocol: http\n  requestBody: { maxBytes: 100B }\n  http:\n    pathPrefix: /check\n    \
                allowedRequestHeaders: [X-Card]\n    allowedUpstreamHeaders: [x-user, x-team]\n";
    let site = Site::with(&settings(server.address, http)).await;
    let shop = site.plain().field("x-card", "platinum").field("x-shoe", "42").field("authorization", "Bearer a");
    // The answer of the server has no team.
    let shop = shop.field("x-user", "root").field("x-team", "admins");
    let answer = shop.send(Method::POST, "/cart?a=b", "a body").await.expect("an answer");
    assert_asked(&answer, &user());
    assert!(!answer.text().contains("x-other") && !answer.text().contains("x-team"), "{}", answer.text());
    let asked = server.seen().pop().expect("a request to the server");
    assert_eq!(
        (asked.method, &*asked.uri.to_string(), &*asked.body),
        (Method::POST, "/check/cart?a=b", &b"a body"[..])
    );
    let header = |name: &str| asked.headers.get(name).map(|value| value.to_str().expect("text").to_owned());
    assert_eq!(header("host").as_deref(), Some(HOST));
    assert_eq!((header("x-card").as_deref(), header("x-shoe")), (Some("platinum"), None));
    assert_eq!(header("authorization").as_deref(), Some("Bearer a"));
    assert_denied(&get(&site.tls(), "/?deny").await);
    assert_eq!(get(&site.tls(), "/?fail").await.status, 403);
    site.config.write("lockgate.yaml", &settings(server.address, "  protocol: http\n  failOpen: true\n"));
    wait_until("a request that passes", async || get(&site.tls(), "/?fail").await.status == 200).await;
}
