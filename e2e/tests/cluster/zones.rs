//! Zones: the nodes of the lab are in zones, and Kubernetes copies the zone of a node to its pods.

use std::collections::BTreeSet;

use e2e::lab::echo;
use e2e::lab::echo::Echoed;
use e2e::{Lab, Target, wait_everywhere_at_most};

use super::first::ingress;

/// The time limit of a change in a busy lab.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(100);

#[tokio::test(flavor = "multi_thread")]
async fn an_envoy_uses_the_endpoints_in_the_zone_of_its_node() {
    let lab = Lab::shared().await;
    let lockgate = lab.lockgate().await;
    let space = lab.namespace("zones").await;
    let host = format!("{}.test", space.name);
    // One pod on each node.
    let objects = echo("echo").replicas(2).yaml();
    let preferring = objects.replace(
        "spec:\n  selector: { app: echo }",
        "spec:\n  trafficDistribution: PreferSameZone\n  selector: { app: echo }",
    );
    assert_ne!(objects, preferring);
    space.apply(&preferring).await;
    space.endpoints("echo", 2).await;
    space.apply(&ingress("echo", &host, "echo")).await;

    let pods = space.pods("app=echo").await;
    let on = |node: &str| -> BTreeSet<String> {
        pods.iter().filter(|pod| node.is_empty() || pod.node == node).map(|pod| pod.name.clone()).collect()
    };
    let served_by = async |target: &Target, expected: &BTreeSet<String>| {
        let same = async || {
            let mut found = BTreeSet::new();
            for _ in 0..8 {
                let answer = target.get("/").await.ok();
                found.extend(answer.and_then(|answer| Echoed::of(&answer)).map(|echoed| echoed.pod));
            }
            found == *expected
        };
        wait_everywhere_at_most(LIMIT, &format!("an Envoy whose requests {expected:?} serve"), same).await;
    };
    let envoys: Vec<(Target, String)> = lockgate
        .envoys()
        .await
        .into_iter()
        .map(|envoy| (Target::http(8080, &host).at(envoy.ip.expect("the address of an Envoy")), envoy.node))
        .collect();
    assert!(envoys.len() > 1);
    for (target, node) in &envoys {
        assert_eq!(on(node).len(), 1, "{node}: {pods:?}");
        served_by(target, &on(node)).await;
    }
    space
        .apply(&objects.replace(
            "spec:\n  selector: { app: echo }",
            "spec:\n  trafficDistribution: null\n  selector: { app: echo }",
        ))
        .await;
    for (target, _) in &envoys {
        served_by(target, &on("")).await;
    }
}
