//! The dashboard uses existing statistics of Envoy. `metrics` checks the metrics of the controller.

use std::collections::BTreeSet;

use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::process::repository;
use e2e::{Backend, Envoy, Lockgate, Manifests, Mode, Source, Target, wait_until};

/// Returns the names of Envoy's statistics in the queries of the dashboard.
fn asked() -> BTreeSet<String> {
    let file = repository().join("charts/lockgate/dashboards/lockgate.json");
    let text = std::fs::read_to_string(file).expect("the dashboard");
    let dashboard: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let mut names = BTreeSet::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().into_iter().flatten() {
            // Braces contain labels, and brackets contain durations.
            let query = target["expr"].as_str().expect("a query");
            let query = query
                .split('{')
                .map(|part| part.split_once('}').map_or(part, |(_, rest)| rest))
                .collect::<Vec<_>>()
                .join(" ");
            let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            names.extend(words.filter(|word| word.starts_with("envoy_")).map(str::to_owned));
        }
    }
    names.retain(|name| {
        !["envoy_cluster_name", "envoy_response_code_class", "envoy_http_conn_manager_prefix"].contains(&&**name)
    });
    assert!(names.len() > 9, "{names:?}");
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn it_asks_for_what_envoy_counts() {
    let backend = Backend::start("shop").await;
    let manifests = Manifests::new();
    let shop = [ingress_class(), service("shop", "", &[backend.address]), ingress("shop", "shop.test", "shop", None)];
    manifests.write("shop.yaml", &documents(&shop));
    let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &[]).await;
    let mut envoy = Envoy::start(&lockgate, Mode::Delta).await;
    envoy.wait_ready().await;
    let target = Target::http(lockgate.http, "shop.test");
    wait_until("an answer", async || target.get("/").await.is_ok_and(|answer| answer.status == 200)).await;

    let stats = Target::http(lockgate.stats, "localhost");
    let asked = asked();
    let mut missing = BTreeSet::new();
    // The variable `tenant` of the dashboard is the text before the first `_`: the namespace of the Service.
    let text = stats.get("/stats/prometheus").await.expect("statistics").text();
    assert!(text.contains("envoy_cluster_membership_healthy{envoy_cluster_name=\"default_shop_"), "{text}");
    // Workers publish their counters every few seconds.
    wait_until("all numbers of Envoy", async || {
        let text = stats.get("/stats/prometheus").await.expect("statistics").text();
        let names: BTreeSet<&str> = text.lines().filter_map(|line| line.split(['{', ' ']).next()).collect();
        let now = asked.iter().filter(|name| !names.contains(&***name)).cloned().collect();
        if missing != now {
            println!("Envoy does not have: {now:?}");
            missing = now;
        }
        missing.is_empty()
    })
    .await;
    println!("{} numbers of Envoy", asked.len());
}
