//! Global settings of other ingress controllers: redirects to HTTPS, HSTS, body size limits, and retries.

use std::time::Instant;

use bytes::Bytes;
use e2e::client::raw;
use e2e::manifests::{DEFAULT, documents, ingress};
use e2e::{Target, wait_everywhere, wait_until};
use hyper::Method;

use super::{HOST, Site};

/// The annotations of Ingresses whose plain HTTP is served.
const SERVING: [&str; 2] =
    ["ingress.kubernetes.io/force-ssl-redirect: 'false'", "nginx.ingress.kubernetes.io/ssl-redirect: 'false'"];

/// Waits until `target` answers with this status.
async fn answers(target: &Target, status: u16) {
    let what = format!("an answer with {status}");
    wait_everywhere(&what, async || target.get("/").await.is_ok_and(|answer| answer.status == status)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_http_is_redirected_for_hosts_behind_tls() {
    let site = Site::with("").await;
    let plain = |host: &str| Target::http(site.lockgate.http, host);
    let secret = |host: &str, name: &str| site.authority.issue(&[host]).secret("default", name);
    let kept = |at: usize| {
        let metadata = format!("annotations: {{ {} }}, namespace: default", SERVING[at]);
        ingress(&format!("kept-{at}"), &format!("kept-{at}.test"), "shop", Some(&format!("kept-{at}")))
            .replace(DEFAULT, &metadata)
    };
    let others = [
        ingress("secure", "secure.test", "shop", Some("secure")),
        ingress("solver", "secure.test", "shop", None).replace("path: /", "path: /.well-known/acme-challenge/token"),
        ingress("plain", "plain.test", "shop", None),
        secret("kept-0.test", "kept-0"),
        kept(0),
        secret("kept-1.test", "kept-1"),
        kept(1),
    ];
    site.manifests.write("others.yaml", &documents(&others));
    // Before the Secret exists, the host is served.
    for host in ["secure.test", "plain.test", "kept-0.test", "kept-1.test"] {
        answers(&plain(host), 200).await;
    }
    site.manifests.write("secret.yaml", &secret("secure.test", "secure"));
    answers(&plain("secure.test"), 308).await;
    for (host, location) in
        [("secure.test", "https://secure.test/a?b=1"), ("secure.test:8080", "https://secure.test:443/a?b=1")]
    {
        // Without trusted proxies, a client cannot claim that it has used HTTPS.
        let target = plain(host).field("x-forwarded-proto", "https");
        let redirect = target.get("/a?b=1").await.expect("an answer");
        assert_eq!((redirect.status, redirect.header("location")), (308, location));
    }
    let challenge = plain("secure.test").get("/.well-known/acme-challenge/token").await.expect("an answer");
    assert_eq!(challenge.status, 200);
    for host in ["plain.test", "kept-0.test", "kept-1.test"] {
        assert_eq!(plain(host).get("/").await.expect("an answer").status, 200, "{host}");
    }
    // A proxy that terminates TLS is not redirected forever. The settings apply without a restart.
    site.config.write("lockgate.yaml", "http: { trustedHops: 1 }\n");
    answers(&plain("secure.test").field("x-forwarded-proto", "https"), 200).await;
    assert_eq!(plain("secure.test").field("x-forwarded-proto", "http").get("/").await.expect("an answer").status, 308);
    assert_eq!(plain("secure.test").get("/").await.expect("an answer").status, 308);
    site.config.write("lockgate.yaml", "ingress: { httpsRedirect: false }\n");
    answers(&plain("secure.test"), 200).await;
}

/// A client that follows the first redirect must reach the host.
#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_follows_its_certificate() {
    let site = Site::with("").await;
    let mut late = Vec::new();
    for number in 0..30 {
        let (name, host) = (format!("secure-{number}"), format!("secure-{number}.test"));
        let plain = Target::http(site.lockgate.http, &host);
        let tls = Target::https(site.lockgate.https, &host, site.authority.der());
        site.manifests.write(&format!("{name}.yaml"), &ingress(&name, &host, "shop", Some(&name)));
        answers(&plain, 200).await;
        let secret = site.authority.issue(&[&host]).secret("default", &name);
        site.manifests.write(&format!("{name}-secret.yaml"), &secret);
        wait_until("the redirect", async || plain.get("/").await.is_ok_and(|answer| answer.status == 308)).await;
        let start = Instant::now();
        if tls.get("/").await.is_err() {
            wait_until("the certificate", async || tls.get("/").await.is_ok()).await;
            late.push(start.elapsed());
        }
    }
    assert!(late.is_empty(), "{} of 30 redirects came before their certificate: {late:?}", late.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn browsers_are_told_to_use_https_alone() {
    let site = Site::with("tls: { hsts: { maxAge: 365d, includeSubdomains: true, preload: true } }\n").await;
    let answer = site.tls().get("/").await.expect("an answer");
    assert_eq!(answer.header("strict-transport-security"), "max-age=31536000; includeSubDomains; preload");
    assert_eq!(site.plain().get("/").await.expect("an answer").header("strict-transport-security"), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_limited_whether_their_length_is_known_or_not() {
    let site = Site::with("http: { maxRequestBody: 100KiB }\n").await;
    let post = async |length: usize| {
        let body = Bytes::from(vec![b'x'; length]);
        site.tls().send(Method::POST, "/", body).await.expect("an answer").status
    };
    assert_eq!([post(0).await, post(100 * 1024).await, post(100 * 1024 + 1).await], [200, 200, 413]);
    let chunked = async |length: usize, header: &str| {
        let head = format!(
            "POST / HTTP/1.1\r\nHost: {HOST}\r\n{header}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        );
        let body = format!("{length:x}\r\n{}\r\n0\r\n\r\n", "x".repeat(length));
        let answer = raw(site.lockgate.http, format!("{head}{body}").as_bytes(), |_| false).await;
        String::from_utf8_lossy(&answer).into_owned()
    };
    let is = |answer: String, expected: &str| assert!(answer.contains(expected), "{answer}");
    is(chunked(100 * 1024, "").await, "HTTP/1.1 200");
    is(chunked(100 * 1024 + 1, "").await, "HTTP/1.1 413");
    // Any client can claim to send a stream of gRPC. Envoy answers it in the form of gRPC.
    is(chunked(100 * 1024 + 1, "Content-Type: application/grpc\r\n").await, "grpc-status:");
    // There is no default limit.
    site.config.write("lockgate.yaml", "");
    wait_everywhere("no limit", async || {
        let body = Bytes::from(vec![b'x'; 200 * 1024]);
        site.plain().send(Method::POST, "/", body).await.is_ok_and(|answer| answer.status == 200)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_tried_again_as_often_as_the_settings_say() {
    let site = Site::with("retries: { conditions: [5xx], count: 2 }\n").await;
    let never = ingress("never", "never.test", "shop", None)
        .replace("namespace: default", "annotations: { projectcontour.io/retry-on: '' }, namespace: default");
    site.manifests.write("never.yaml", &never);
    let never = Target::http(site.lockgate.http, "never.test");
    answers(&never, 200).await;
    let retries = async || site.envoy.stat("cluster.default_shop_http.upstream_rq_retry").await;
    let before = retries().await;
    assert_eq!(never.get("/?status=500").await.expect("an answer").status, 500);
    assert_eq!(retries().await, before);
    assert_eq!(site.plain().get("/?status=500").await.expect("an answer").status, 500);
    assert_eq!(retries().await, before + 2);
    assert_eq!(site.plain().get("/?status=404").await.expect("an answer").status, 404);
    assert_eq!(retries().await, before + 2);
}
