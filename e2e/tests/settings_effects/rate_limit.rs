//! A rate limit service, and clients that exceed the limit.

use std::net::SocketAddr;

use bytes::Bytes;
use e2e::client::Answer;
use e2e::load::Plan;
use e2e::{Authorizer, Limiter, Load, Target, http3, ports, wait_until};
use hyper::Method;

use super::{HOST, Site};

fn settings(address: SocketAddr, more: &str, descriptors: &[&str]) -> String {
    let descriptors: String = descriptors.iter().map(|entries| format!("  - entries: [{entries}]\n")).collect();
    format!("rateLimit:\n  endpoint: {address}\n{more}  descriptors:\n{descriptors}")
}

async fn get(target: &Target, path: &str) -> Answer {
    target.get(path).await.expect("an answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_more_than_the_limit_is_refused() {
    let limiter = Limiter::start(3).await;
    let descriptors = ["{ remoteAddress: {} }, { requestHeader: { headerName: X-Tenant, descriptorKey: tenant } }"];
    let more = "  domain: edge\n  headers: true\n";
    let http3 = "http: { http3: { enabled: true } }\n";
    let site = Site::with(&(settings(limiter.address, more, &descriptors) + http3)).await;
    let tenant = |target: Target, name: &str| target.field("x-tenant", name);
    for left in ["2", "1", "0"] {
        let answer = get(&tenant(site.plain(), "a"), "/").await;
        assert_eq!((answer.status, answer.header("x-ratelimit-remaining")), (200, left));
        assert_eq!((answer.header("x-ratelimit-limit"), answer.header("x-ratelimit-reset")), ("3, 3;w=3600", "60"));
    }
    for shop in [site.plain(), site.tls(), site.plain().over_http2()] {
        let answer = get(&tenant(shop, "a"), "/").await;
        assert_eq!((answer.status, answer.header("x-envoy-ratelimited")), (429, "true"));
    }
    // Another tenant has its own limit. Requests without a tenant have no limit.
    assert_eq!(get(&tenant(site.tls(), "b"), "/").await.status, 200);
    for _ in 0..5 {
        assert_eq!(get(&site.plain(), "/").await.status, 200);
    }
    let counts = limiter.counts();
    let expected = [("edge remote_address=127.0.0.1 tenant=a", 6), ("edge remote_address=127.0.0.1 tenant=b", 1)];
    assert_eq!(counts.iter().map(|(name, count)| (&**name, *count)).collect::<Vec<_>>(), expected);
    // Requests without a backend are not counted.
    let redirect = site.add_redirected_host("secure.test").await;
    assert_eq!(get(&tenant(redirect, "a"), "/").await.status, 308);
    assert_eq!(limiter.counts(), counts);
    let over_quic = http3::get(site.lockgate.https, HOST, "/", site.authority.der()).await.expect("an answer");
    assert_eq!(over_quic.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_of_entry_tells_what_it_says() {
    let limiter = Limiter::start(1000).await;
    let matching = |header: &str, more: &str| {
        format!("{{ requestHeaderValueMatch: {{ headers: [{header}], value: v, {more} }} }}")
    };
    let one = |condition: &str| matching(&format!("{{ name: x-a, {condition} }}"), "");
    let marked = |number: usize, entry: &str| format!("{{ genericKey: {{ key: n, value: '{number}' }} }}, {entry}");
    let entries = [
        "{ genericKey: { value: all } }".to_owned(),
        one("present: true"),
        one("notpresent: true"),
        one("exact: Blue"),
        one("exact: Blue, ignoreCase: true"),
        one("notexact: blue"),
        one("notexact: blue, treatMissingAsEmpty: true"),
        one("contains: lu"),
        one("notcontains: lu"),
        one("regex: '[a-z]{4}'"),
        one("regex: '[a-z]{3}'"),
        matching("{ name: x-a, present: true }", "expectMatch: false"),
        matching("{ name: x-a, present: true }, { name: x-b, present: true }", ""),
        "{ requestHeader: { headerName: ':path', descriptorKey: path } }".to_owned(),
    ];
    let entries: Vec<String> = (0..).zip(&entries).map(|(number, entry)| marked(number, entry)).collect();
    let entries: Vec<&str> = entries.iter().map(String::as_str).collect();
    let site = Site::with(&settings(limiter.address, "", &entries)).await;
    // The counts of all descriptors, and their entries.
    let mut before = limiter.counts();
    let mut told = async |target: Target| {
        assert_eq!(get(&target, "/cart").await.status, 200);
        let now = limiter.counts();
        let new = now.iter().filter(|(name, count)| before.get(*name) != Some(*count));
        let mut new: Vec<(u32, String)> = new
            .map(|(name, _)| {
                let (number, entry) =
                    name.strip_prefix("lockgate n=").and_then(|rest| rest.split_once(' ')).expect(name);
                (number.parse().expect("a number"), entry.to_owned())
            })
            .collect();
        new.sort();
        before = now;
        assert!(new.remove(0) == (0, "generic_key=all".to_owned()) && new.pop() == Some((13, "path=/cart".to_owned())));
        assert!(new.iter().all(|(_, entry)| entry == "header_match=v"), "{new:?}");
        new.into_iter().map(|(number, _)| number).collect::<Vec<_>>()
    };
    assert_eq!(told(site.plain().field("x-a", "blue").field("x-b", "")).await, [1, 4, 7, 9, 12]);
    assert_eq!(told(site.plain().field("x-a", "Red")).await, [1, 5, 6, 8]);
    assert_eq!(told(site.plain()).await, [2, 6, 11]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_service_nothing_passes_unless_it_shall() {
    let address = SocketAddr::from(([127, 0, 0, 1], ports::free()));
    let of = |more: &str| settings(address, more, &["{ remoteAddress: {} }"]);
    let site = Site::with(&of("")).await;
    for shop in [site.plain(), site.tls()] {
        assert_eq!(get(&shop, "/").await.status, 500);
    }
    site.config.write("lockgate.yaml", &of("  failOpen: true\n"));
    for shop in [site.plain(), site.tls()] {
        wait_until("requests that pass", async || get(&shop, "/").await.status == 200).await;
    }
    let _limiter = Limiter::start_at(address, 0).await;
    wait_until("a service that is asked", async || get(&site.plain(), "/").await.status == 429).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_not_pass_is_not_counted() {
    let (server, limiter) = (Authorizer::start().await, Limiter::start(1).await);
    let authorization = format!("externalAuthorization: {{ endpoint: '{}' }}\n", server.address);
    let site = Site::with(&(authorization + &settings(limiter.address, "", &["{ remoteAddress: {} }"]))).await;
    for _ in 0..3 {
        assert_eq!(get(&site.plain(), "/?deny").await.status, 401);
    }
    assert!(limiter.counts().is_empty(), "{:?}", limiter.counts());
    assert_eq!((get(&site.plain(), "/").await.status, get(&site.plain(), "/").await.status), (200, 429));
}

#[tokio::test(flavor = "multi_thread")]
async fn services_come_and_go_without_a_failed_request() {
    let (server, limiter) = (Authorizer::start().await, Limiter::start(1_000_000).await);
    let authorization = format!("externalAuthorization: {{ endpoint: '{}' }}\n", server.address);
    let both = authorization + &settings(limiter.address, "", &["{ remoteAddress: {} }"]);
    let site = Site::with("").await;
    let load = Load::start(Plan { rate: 200, connections: 8, ..Plan::new(site.plain(), "/") }).await;
    load.answers(100).await;
    site.config.write("lockgate.yaml", &both);
    wait_until("services that are asked", async || !server.seen().is_empty() && !limiter.counts().is_empty()).await;
    load.answers(200).await;
    // A connection that is then idle for a while.
    let mut old = site.plain().connect().await.expect("a connection");
    assert_eq!(old.send(Method::GET, "/", Bytes::new()).await.expect("an answer").status, 200);
    site.config.write("lockgate.yaml", "");
    let mut tries = 0;
    wait_until("requests about which nobody is asked", async || {
        tries += 1;
        let path = format!("/{tries}");
        assert_eq!(get(&site.plain(), &path).await.status, 200);
        !server.was_asked(&path)
    })
    .await;
    // Longer than the removal grace of unused clusters.
    load.answers(400).await;
    let report = load.stop().await;
    assert_eq!(report.failed(), 0, "{report}");
    // Requests over existing connections are still checked until the connections are drained.
    assert_eq!(old.send(Method::GET, "/old", Bytes::new()).await.expect("an answer").status, 200);
    assert!(server.was_asked("/old"));
    assert!(site.envoy.warnings().is_empty(), "{:?}", site.envoy.warnings());
}
