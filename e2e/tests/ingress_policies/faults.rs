//! Faults that policies inject: delayed and aborted requests.

use std::time::{Duration, Instant};

use e2e::manifests::{documents, ingress, service};
use e2e::{Echo, Mode, Target, wait_everywhere, wait_until};
use hyper::Method;

use super::{Site, answers, host, policy};

/// The policies by the name of their Ingress.
const POLICIES: [(&str, &str); 6] = [
    ("aborted", "faults: { abort: { status: 503 } }"),
    ("half", "faults: { abort: { status: 429, percent: 50 } }"),
    ("never", "faults: { abort: { status: 503, percent: 0 }, delay: { duration: 30s, percent: 0 } }"),
    ("delayed", "faults: { delay: { duration: 200ms } }"),
    (
        "both",
        "faults: { delay: { duration: 200ms }, abort: { status: 504 } }\n  errorResponses: [{ statuses: [504], body: replaced }]",
    ),
    ("held", "faults: { delay: { duration: 200ms } }\n  requestBuffering: { maxSize: 1KiB }"),
];
/// The delay of the policies is 200 ms, but the timers of Envoy can be early by some milliseconds.
const DELAY: Duration = Duration::from_millis(190);

/// Returns the status of a request, and the time to its answer.
async fn timed(target: &Target, method: Method, size: usize) -> (u16, Duration) {
    let start = Instant::now();
    let answer = target.send(method, "/", vec![b'a'; size]).await;
    (answer.map_or(0, |answer| answer.status), start.elapsed())
}

async fn injects(settings: &str, named: fn(&str) -> String, asked: fn(&str) -> String) {
    let names = POLICIES.map(|(name, _)| name);
    let ingresses = names.map(|name| {
        ingress(name, &named(name), "echo", Some("cert")).replace(&named(name), &format!("'{}'", named(name)))
    });
    let hosts: Vec<String> = names.iter().flat_map(|name| [host(name), format!("*.{}", host(name))]).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let site = Site::open(Mode::Delta, settings, &hosts, &ingresses).await;
    let echo = Echo::start().await;
    site.manifests.write("services.yaml", &service("echo", "", &[echo.address]));
    for name in names {
        answers(&site.target(&asked(name), false), 200).await;
    }
    site.manifests.write("policies.yaml", &documents(&POLICIES.map(|(name, spec)| policy(name, spec))));
    for is_tls in [false, true] {
        let target = |name: &str| site.target(&asked(name), is_tls);
        answers(&target("aborted"), 503).await;
        let call = target("aborted").field("content-type", "application/grpc");
        let answer = call.send(Method::POST, "/", "").await.expect("an answer");
        assert_eq!((answer.status, answer.header("grpc-status")), (200, "14"));
        let (mut seen, half) = (Vec::new(), target("half"));
        wait_until("both answers", async || {
            seen.push(half.get("/").await.map_or(0, |answer| answer.status));
            seen.contains(&200) && seen.contains(&429)
        })
        .await;
        for (name, size, status) in [("delayed", 0, 200), ("both", 0, 504), ("held", 1024, 200), ("held", 1025, 413)] {
            let (what, target) = (format!("{name} to be delayed, tls: {is_tls}"), target(name));
            wait_everywhere(&what, async || {
                let (seen, time) = timed(&target, Method::POST, size).await;
                // A known length is refused at once.
                seen == status && (time >= DELAY || status == 413)
            })
            .await;
        }
        assert_eq!(target("both").get("/").await.expect("an answer").text(), "replaced");
        // Headers of clients inject no fault, and prevent none.
        let wanted = |name: &str, value: &str| target("never").field(name, value);
        for client in [wanted("x-envoy-fault-abort-request", "503"), wanted("x-envoy-fault-delay-request", "30000")] {
            let (status, time) = timed(&client, Method::GET, 0).await;
            assert!(status == 200 && time < Duration::from_secs(10), "{status} after {time:?}");
        }
        let unwanted = target("aborted").field("x-envoy-fault-abort-request-percentage", "0");
        assert_eq!(timed(&unwanted, Method::GET, 0).await.0, 503);
    }
    let stats = site.envoy.stats("fault\\.delays_injected$").await;
    assert!(stats.values().sum::<u64>() > 0, "{stats:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_delayed_and_aborted() {
    injects("", host, host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_to_wildcard_hosts_are_delayed_and_aborted() {
    injects("", |name| format!("*.{}", host(name)), |name| format!("a.{}", host(name))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_delayed_and_aborted_without_scopes() {
    injects("routes: { discovery: rds }\n", host, host).await;
}
