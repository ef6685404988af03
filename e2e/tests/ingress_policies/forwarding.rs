//! The features of policies for requests that are forwarded: retries, time limits, changes of the URL, and copies.

use e2e::faulty::{Behavior, Faulty};
use e2e::manifests::{documents, ingress, service};
use e2e::{Echo, Mode, Target, wait_everywhere, wait_until};

use super::{Site, policy};

/// The requests of a test of copies. Each of Envoy's two workers receives some.
const REQUESTS: u64 = 20;

/// Returns an HTTPPolicy for the namespace of all Ingresses.
fn of_namespace(spec: &str) -> String {
    policy("all", spec)
        .replace("group: networking.k8s.io, kind: Ingress, name: all", "group: '', kind: Namespace, name: default")
}

/// Returns the number of requests that the backend receives for one.
async fn tries(target: &Target, backend: &Faulty) -> u64 {
    let before = backend.requests();
    let _ = target.get("/").await;
    backend.requests() - before
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_retried_as_a_policy_says() {
    let hosts = ["shop.test", "own.test"];
    let own = ingress("own", "own.test", "faulty", Some("cert"))
        .replace("name: own,", "annotations: { projectcontour.io/retry-on: 5xx }, name: own,");
    let ingresses = [ingress("shop", "shop.test", "faulty", Some("cert")), own];
    let site = Site::open(Mode::Delta, "tenants: { maxRetries: 4 }\n", &hosts, &ingresses).await;
    let faulty = Faulty::start("faulty").await;
    site.manifests.write("services.yaml", &service("faulty", "", &[faulty.address]));
    faulty.set(Behavior::Failing);
    for is_tls in [false, true] {
        let [shop, own] = hosts.map(|host| site.target(host, is_tls));
        let expected = async |what: &str, of_shop: u64, of_own: u64| {
            let reached = async || (tries(&shop, &faulty).await, tries(&own, &faulty).await) == (of_shop, of_own);
            wait_everywhere(&format!("{what}, tls: {is_tls}"), reached).await;
        };
        site.manifests.write("policies.yaml", &of_namespace("retries: { attempts: 2, codes: [500] }"));
        expected("no retry of another status, and one by the annotation", 1, 2).await;
        site.manifests.write("policies.yaml", &of_namespace("retries: { attempts: 2, codes: [503], backoff: 1ms }"));
        expected("two retries, and one by the annotation", 3, 2).await;
        let most = "overrides: { retries: { attempts: 9, conditions: [5xx], backoff: 1ms } }";
        site.manifests.write("policies.yaml", &of_namespace(most));
        expected("the largest number of retries", 5, 5).await;
        let none = "overrides: { retries: { attempts: 0, conditions: [5xx] } }";
        site.manifests.write("policies.yaml", &of_namespace(none));
        expected("no retries", 1, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_end_after_the_time_limits_of_a_policy() {
    let hosts = ["shop.test", "own.test"];
    let own = ingress("own", "own.test", "echo", Some("cert"))
        .replace("name: own,", "annotations: { projectcontour.io/response-timeout: 90s }, name: own,");
    let ingresses = [ingress("shop", "shop.test", "echo", Some("cert")), own];
    let site = Site::open(Mode::Delta, "", &hosts, &ingresses).await;
    let echo = Echo::start().await;
    site.manifests.write("services.yaml", &service("echo", "", &[echo.address]));
    for is_tls in [false, true] {
        let [shop, own] = hosts.map(|host| site.target(host, is_tls));
        let status = async |target: &Target, path: &str| target.get(path).await.map_or(0, |answer| answer.status);
        let answers = async |target: &Target, path: &str, expected: u16| {
            let what = format!("{expected} for {path}, tls: {is_tls}");
            wait_everywhere(&what, async || status(target, path).await == expected).await;
        };
        site.manifests.write("policies.yaml", &of_namespace("timeouts: { request: 100ms }"));
        answers(&shop, "/?wait=5000", 504).await;
        assert_eq!(status(&own, "/?wait=400").await, 200, "the annotation precedes the policy");
        site.manifests.write("policies.yaml", &of_namespace("overrides: { timeouts: { request: 100ms } }"));
        answers(&own, "/?wait=5000", 504).await;
        // The answer has begun, and its rest is late.
        site.manifests.write("policies.yaml", &of_namespace("timeouts: { request: 0s, idle: 100ms }"));
        answers(&shop, "/?wait=5000", 504).await;
        answers(&own, "/?wait=5000", 504).await;
        assert!(shop.get("/?pieces=2&every=5000").await.is_err(), "a stream without data ends");
        assert_eq!(status(&shop, "/?pieces=20&every=20").await, 200, "a stream with data does not");
        // A limit of each attempt leads to retries within the limit of the response.
        let tries = "retries: { attempts: 2, conditions: [5xx, reset], perTryTimeout: 50ms, backoff: 1ms }";
        site.manifests.write("policies.yaml", &of_namespace(&format!("{tries}\n  timeouts: {{ request: 20s }}")));
        answers(&shop, "/?wait=5000", 504).await;
        site.manifests.remove("policies.yaml");
        answers(&shop, "/?wait=400", 200).await;
    }
}

/// Returns the first line of the request that the backend receives, and its host.
async fn received(target: &Target, path: &str) -> (String, String) {
    let text = target.get(path).await.map_or_else(|_| String::new(), |answer| answer.text());
    let line = |begin: &str| text.lines().find_map(|line| line.strip_prefix(begin)).unwrap_or_default().to_owned();
    (line("GET ").trim_end_matches(" HTTP/1.1").to_owned(), line("host: "))
}

#[tokio::test(flavor = "multi_thread")]
async fn backends_receive_the_url_of_a_policy() {
    let site = Site::open(Mode::Delta, "", &["shop.test"], &[ingress("shop", "shop.test", "echo", Some("cert"))]).await;
    let echo = Echo::start().await;
    site.manifests.write("services.yaml", &service("echo", "", &[echo.address]));
    for is_tls in [false, true] {
        let shop = site.target("shop.test", is_tls);
        let becomes = async |path: &str, expected: &str, host: &str| {
            let expected = (expected.to_owned(), host.to_owned());
            let what = format!("{path} to become {expected:?}, tls: {is_tls}");
            wait_everywhere(&what, async || received(&shop, path).await == expected).await;
        };
        let pattern = r"{ pattern: '/v[0-9]+/([a-z]+)/(items|parts)', substitution: '/\2/\1/of' }";
        site.manifests
            .write("policies.yaml", &policy("shop", &format!("urlRewrite: {{ path: {{ regex: {pattern} }} }}")));
        becomes("/v1/red/items/7?page=/v1/a/items", "/items/red/of/7?page=/v1/a/items", "shop.test").await;
        becomes("/v22/blue/parts", "/parts/blue/of", "shop.test").await;
        // The pattern is for the beginning of the path, and it is applied once.
        becomes("/v1/red/items/v1/red/items", "/items/red/of/v1/red/items", "shop.test").await;
        becomes("/x/v1/red/items", "/x/v1/red/items", "shop.test").await;
        becomes("/v1/Red/items", "/v1/Red/items", "shop.test").await;
        let whole =
            r"hostname: Inner.test, path: { regex: { pattern: '^/(?:old|older)(/.*)?$', substitution: '/new\1' } }";
        site.manifests.write("policies.yaml", &policy("shop", &format!("urlRewrite: {{ {whole} }}")));
        becomes("/old", "/new", "inner.test").await;
        becomes("/older/a/b?c=%20", "/new/a/b?c=%20", "inner.test").await;
        becomes("/oldest", "/oldest", "inner.test").await;
        site.manifests.remove("policies.yaml");
        becomes("/old", "/old", "shop.test").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn backends_receive_the_host_that_a_policy_takes_from_the_request() {
    receives_host("", "shop.test").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn backends_of_a_wildcard_host_receive_the_host_of_the_request() {
    receives_host("", "*.shop.test").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn backends_receive_the_host_of_the_request_without_scopes() {
    receives_host("routes: { discovery: rds }\n", "shop.test").await;
}

/// Checks the hosts that the backend of `host` receives from a header, and from the path.
async fn receives_host(settings: &str, host: &str) {
    let name = &host.replace('*', "a");
    let site =
        Site::open(Mode::Delta, settings, &[host], &[ingress("shop", &format!("'{host}'"), "echo", Some("cert"))])
            .await;
    let echo = Echo::start().await;
    site.manifests.write("services.yaml", &service("echo", "", &[echo.address]));
    for is_tls in [false, true] {
        let shop = site.target(name, is_tls);
        let with =
            |values: &[&str]| values.iter().fold(shop.clone(), |target, value| target.add_field("x-host", value));
        let status = async |target: &Target, path: &str| target.get(path).await.map_or(0, |answer| answer.status);
        site.manifests.write("policies.yaml", &policy("shop", "urlRewrite: { hostnameFrom: { header: X-Host } }"));
        let one = with(&["One.test:8080"]);
        wait_everywhere("the host of a header", async || received(&one, "/a").await.1 == "One.test:8080").await;
        assert_eq!(&received(&shop, "/a").await.1, name, "without the header");
        assert_eq!(&received(&with(&[""]), "/a").await.1, name, "with an empty header");
        assert_eq!(received(&with(&["one.test", "two.test"]), "/a").await.1, "one.test");
        let none = ["a b", "a/b", "a@b.test", "a:b", "a:1:b", "a\tb", "a,b", "a%00", "[::1]"];
        for value in none {
            for values in [&[value][..], &[value, "one.test"], &["one.test", value]] {
                assert_eq!(status(&with(values), "/a").await, 403, "{values:?}, tls: {is_tls}");
            }
        }
        let path = r"{ pattern: '/shops/([a-z0-9-]+)(?:/.*)?', substitution: '\1.shops.test' }";
        let path = policy("shop", &format!("urlRewrite: {{ hostnameFrom: {{ path: {path} }} }}"));
        site.manifests.write("policies.yaml", &path);
        let becomes = async |path: &str| received(&shop, path).await;
        let expected = ("/shops/red-1/a?b=/shops/x/".to_owned(), "red-1.shops.test".to_owned());
        wait_everywhere("the host of a path", async || becomes("/shops/red-1/a?b=/shops/x/").await == expected).await;
        assert_eq!(becomes("/shops/blue").await.1, "blue.shops.test");
        for other in
            ["/", "/shops/", "/shops/red%20a/b", "/shops/red@b/c", "/x/shops/red/a", "/shops/RED/a", "/?/shops/a"]
        {
            assert_eq!(status(&shop, other).await, 403, "{other}, tls: {is_tls}");
        }
        site.manifests.remove("policies.yaml");
        wait_everywhere("the host of the client", async || becomes("/a").await.1 == *name).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_copied_to_the_services_of_a_policy() {
    let site = Site::open(Mode::Delta, "", &["shop.test"], &[ingress("shop", "shop.test", "a", Some("cert"))]).await;
    let (copies, others) = (Faulty::start("copies").await, Faulty::start("others").await);
    let services = [service("copies", "", &[copies.address]), service("others", "", &[others.address])];
    site.manifests.write("services.yaml", &documents(&services));
    copies.set(Behavior::Failing);
    for is_tls in [false, true] {
        let shop = site.target("shop.test", is_tls);
        // Envoy counts a copy when it sends it. A Service without copies has no cluster.
        let sent = async || {
            let stats = site.envoy.stats("^cluster\\.default_(copies|others)_http\\.upstream_rq_total$").await;
            ["copies", "others"]
                .map(|name| stats.iter().filter(|(stat, _)| stat.contains(name)).map(|(_, n)| *n).sum::<u64>())
        };
        let copied = async |to_copies: u64, to_others: u64| {
            let what = format!("{to_copies} and {to_others} copies, tls: {is_tls}");
            wait_until(&what, async || {
                let before = sent().await;
                for _ in 0..REQUESTS {
                    assert_eq!(shop.backend("/").await.as_deref(), Some("a"), "the answer of a copy is dropped");
                }
                let expected = [before[0] + REQUESTS * to_copies, before[1] + REQUESTS * to_others];
                let is_used = before.map(|count| count > 0) == [to_copies > 0, to_others > 0];
                is_used && sent().await == expected
            })
            .await;
        };
        site.manifests.write("policies.yaml", &policy("shop", "mirrors: [{ backendRef: { name: copies, port: 80 } }]"));
        copied(1, 0).await;
        let several = "mirrors: [{ backendRef: { name: gone, port: 80 } }, { backendRef: { name: others, port: 80 } }, \
                       { backendRef: { name: copies, port: 80 }, percent: 0 }]";
        site.manifests.write("policies.yaml", &policy("shop", several));
        copied(0, 1).await;
        site.manifests.remove("policies.yaml");
        copied(0, 0).await;
    }
}
