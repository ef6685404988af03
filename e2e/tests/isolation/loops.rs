//! A backend leads back to Envoy through another proxy, whose address nobody knows: a load balancer, a node.

use e2e::manifests::{ingress, service};
use e2e::{Relay, wait_until};

use super::site::{By, HOST, Site, received};

/// The Namespace whose uid identifies the Kubernetes cluster.
const CLUSTER: &str =
    "apiVersion: v1\nkind: Namespace\nmetadata: { name: kube-system, uid: 1b4e28ba-2fa1-11d2-883f-0016d3cca427 }\n";

/// Starts an Envoy with a backend that leads back to it, and asserts that each request passes `passes` times.
async fn site_with_loop(settings: &str, passes: u64) -> Site {
    // The connections, requests, and retries of the tenant's Service have no limits.
    let limits = ["connections", "pending-requests", "requests", "retries"];
    let limits: Vec<String> = limits.iter().map(|name| format!("projectcontour.io/max-{name}: '4294967295'")).collect();
    let proxy = Relay::start(&[]).await;
    let around = service("around", &limits.join(", "), &[([127, 0, 0, 1], proxy.port).into()]);
    let site = Site::with_objects(
        settings,
        &[CLUSTER.to_owned(), around, ingress("around", HOST, "around", None).replace("path: /\n", "path: /around\n")],
    )
    .await;
    proxy.set_remote_targets(vec![([127, 0, 0, 1], site.lockgate.http).into()]);
    for by in [By::Http, By::Http2, By::Https] {
        let answer = site.get(by, "/around", &[]).await;
        assert_eq!(
            (answer.status, answer.text().trim()),
            (502, "The server has detected a loop between CDNs."),
            "{by:?}"
        );
    }
    let passed = site.envoy.stat("cluster.default_around_http.upstream_rq_total").await;
    assert_eq!(passed, 3 * passes, "each request passes {passes} times");
    site
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_returns_as_often_as_the_settings_allow() {
    site_with_loop("http: { returns: 2 }\n", 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_passes_an_installation_once() {
    let site = site_with_loop("", 1).await;
    // A request of another installation passes, and so do other proxies' marks. A tenant's header changes nothing.
    let other = "other; v=1, lockgate-0000000000000000, lockgate-0000000000000000";
    let answer = site.get(By::Http, "/", &[("cdn-loop", other)]).await;
    assert_eq!(answer.status, 200);
    let marks = received(&answer)["cdn-loop"].to_str().expect("text").to_owned();
    let own = marks.strip_prefix(other).expect("the other marks").trim_start_matches(',');
    assert!(own.starts_with("lockgate-") && !other.contains(own), "{marks}");
    for (value, status) in
        [("cloudflare; loops=1; subreqs=1", 200), ("Fastly, cloudflare", 200), ("a b", 400), ("", 200)]
    {
        assert_eq!(site.get(By::Http, "/", &[("cdn-loop", value)]).await.status, status, "{value:?}");
    }
    let forged = [("cdn-loop", own)];
    wait_until("the answer to a forged mark", async || site.get(By::Https, "/", &forged).await.status == 502).await;
}
