//! Routes that move on from a cluster that Envoy has rejected, and errors that Envoy reports late.

use std::time::{Duration, Instant};

use e2e::load::Plan;
use e2e::{Fetch, Load};

use super::world::{Form, World, all_answered};

/// The route moves to a cluster that Envoy rejects, then on to a third, which warms slowly, while the rejected cluster is
/// removed: the old route serves until the third is warm.
async fn a_route_moves_on_from_a_rejected_cluster(fetch: Fetch, form: Form) {
    let world = World::of(fetch, form).await;
    let lockgate = world.controller().await;
    let envoy = world.envoy(&lockgate).await;
    let load = Load::start(Plan::new(world.target(), "/")).await;
    world.publish("bad", &[world.bad("bad")]);
    lockgate.logged(&["NACK", "type_url=Cluster", "bad"]).await;
    load.answers(500).await;
    let start = Instant::now();
    world.publish("good", &[world.slow("good", Duration::from_secs(3))]);
    envoy.wait_routed_to("good").await;
    assert!(start.elapsed() >= Duration::from_secs(3), "the cluster warms for {:?} only", start.elapsed());
    load.answers(500).await;
    all_answered(&load.stop().await, "a route moves on from a rejected cluster", &world);
}

#[tokio::test(flavor = "multi_thread")]
async fn o18_a_route_moves_on_from_a_rejected_cluster_delta() {
    a_route_moves_on_from_a_rejected_cluster(Fetch::AdsDelta, Form::Rds).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o18_a_route_moves_on_from_a_rejected_cluster_sotw() {
    a_route_moves_on_from_a_rejected_cluster(Fetch::AdsSotw, Form::Rds).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o18_a_virtual_host_moves_on_from_a_rejected_cluster() {
    a_route_moves_on_from_a_rejected_cluster(Fetch::AdsDelta, Form::Vhds).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o18_a_scope_moves_on_from_a_rejected_cluster_delta() {
    a_route_moves_on_from_a_rejected_cluster(Fetch::AdsDelta, Form::Srds).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o18_a_scope_moves_on_from_a_rejected_cluster_sotw() {
    a_route_moves_on_from_a_rejected_cluster(Fetch::AdsSotw, Form::Srds).await;
}

/// Envoy holds its reply while a cluster warms. It rejects `bad` meanwhile, and applies a second response after the gate
/// timeout. Its only reply then has the version of the second response and the error of the first.
async fn an_old_error(gate_timeout: Duration, warm_up: Duration) -> (Duration, String) {
    let world = World::new(Fetch::AdsSotw).await;
    let lockgate = world.controller_with(&["--gate-timeout", &format!("{}ms", gate_timeout.as_millis())]).await;
    let envoy = world.envoy(&lockgate).await;
    let load = Load::start(Plan::new(world.target(), "/")).await;
    let warming = || world.slow("warming", warm_up);
    world.publish("a", &[world.cluster("a"), world.bad("bad"), warming()]);
    lockgate.logged(&["no answer in time", "Cluster"]).await;
    assert_eq!(envoy.stat("cluster_manager.warming_clusters").await, 1);
    let start = Instant::now();
    world.publish("good", &[world.cluster("good"), warming()]);
    let line = lockgate.logged(&["its error is about an earlier response", "Cluster"]).await;
    assert!(line.contains("WARN") && line.contains("bad"), "{line}");
    envoy.wait_routed_to("good").await;
    let time = start.elapsed();
    // The next change is served too: nothing counts as rejected.
    world.publish("next", &[world.cluster("next"), warming()]);
    envoy.wait_routed_to("next").await;
    load.answers(500).await;
    all_answered(&load.stop().await, &format!("an old error, gate timeout {gate_timeout:?}"), &world);
    (time, lockgate.log())
}

#[tokio::test(flavor = "multi_thread")]
async fn s23_a_real_envoy_reports_an_old_error_with_the_version_that_was_sent() {
    let gate_timeout = Duration::from_secs(4);
    let (time, log) = an_old_error(gate_timeout, Duration::from_secs(6)).await;
    println!("the route moved after {time:?}");
    assert!(time < gate_timeout, "the route waited for {time:?}");
    assert_eq!(log.matches("NACK").count(), 0, "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn s23_a_real_envoy_reports_an_old_error_after_the_second_gate_timeout() {
    let (_, log) = an_old_error(Duration::from_secs(1), Duration::from_secs(5)).await;
    assert_eq!(log.matches("NACK").count(), 0, "{log}");
}
