//! Each xDS transport with one Envoy under load: start, change, removal, an outage of the controller, and rejection.
//!
//! No transport may fail a request during changes that need no order, or whose author has ordered them. A change that
//! needs an order between types fails no request over an aggregated stream. Over other transports, no server can keep
//! the order. Failures are only counted there, and the final state is checked.

mod site;

use std::time::{Duration, Instant};

use e2e::{Backend, Durations, Fetch, wait_until};
use serde_json::Value;
use site::{Cluster, HOST, Promise, Site};

const SWAPS: usize = 10;
const RENAMES: usize = 5;
const RETIMINGS: u32 = 3;
const ROTATIONS: usize = 3;
const CLUSTERS: usize = 300;

/// Runs all steps with one transport and one Envoy.
async fn every_step(fetch: Fetch) {
    let mut backend = Backend::start("first").await;
    let mut site = Site::open(fetch, &backend).await;
    endpoints_change(&mut site, &mut backend).await;
    a_cluster_alone_changes(&mut site).await;
    a_certificate_is_rotated(&mut site).await;
    a_host_comes_and_goes(&mut site, &backend).await;
    renames_in_order(&mut site, &backend).await;
    renames_at_one_stroke(&mut site, &backend).await;
    an_outage_without_a_change(&mut site).await;
    an_outage_with_other_endpoints(&mut site, &mut backend).await;
    an_outage_with_a_rename(&mut site, &backend).await;
    a_rejected_cluster(&mut site, &mut backend).await;
    rejected_routes(&mut site, &mut backend).await;
    everything_is_removed(&mut site).await;
    println!("{}", site.results());
}

async fn endpoints_change(site: &mut Site, backend: &mut Backend) {
    let load = site.load().await;
    for _ in 0..SWAPS {
        site.swap(&load, backend).await;
    }
    site.check(&format!("{SWAPS} swaps of a backend"), Promise::NoFailure, load).await;
}

async fn a_cluster_alone_changes(site: &mut Site) {
    let load = site.load().await;
    let mut times = Durations::default();
    for seconds in 3..3 + RETIMINGS {
        let start = Instant::now();
        site.world.clusters.get_mut("shop").expect("the cluster shop").connect_timeout = seconds;
        site.publish();
        wait_until("the new connect timeout in an active cluster", async || {
            let clusters = site.envoy.config_dump("dynamic_active_clusters").await;
            clusters.iter().any(|entry| entry["cluster"]["connect_timeout"] == format!("{seconds}s"))
                && site.envoy.stat("cluster_manager.warming_clusters").await == 0
        })
        .await;
        times.push(start.elapsed());
        load.answers(60).await;
    }
    site.check(&format!("{RETIMINGS} changes of a cluster alone"), Promise::NoFailure, load).await;
    site.result(format!("    until it is active and nothing warms: {times}"));
    assert!(times.max() < Duration::from_secs(5), "without its endpoints it warms for 15 s: {times}");
}

async fn a_certificate_is_rotated(site: &mut Site) {
    let target = site.tls_target();
    wait_until("the host to be served over TLS", async || target.backend("/").await.is_some()).await;
    let load = site.tls_load().await;
    for _ in 0..ROTATIONS {
        site.world.pair = site.authority.issue(&[HOST]);
        site.publish();
        wait_until("the new certificate", async || {
            let connection = target.connect().await.expect("a TLS connection");
            connection.certificate.as_ref() == Some(&site.world.pair.der)
        })
        .await;
        load.answers(60).await;
    }
    site.check(&format!("{ROTATIONS} rotations of a certificate"), Promise::NoFailure, load).await;
}

/// Adds and removes another host with its cluster. The host under load must not be affected.
async fn a_host_comes_and_goes(site: &mut Site, backend: &Backend) {
    let load = site.load().await;
    site.world.clusters.insert("other".into(), Cluster::of(backend));
    site.world.hosts.insert("other.test".into(), "other".into());
    site.publish();
    site.wait_served("other.test").await;
    site.world.clusters.remove("other");
    site.world.hosts.remove("other.test");
    site.publish();
    let target = site.target("other.test");
    wait_until("the end of other.test", async || target.get("/").await.is_ok_and(|a| a.status == 404)).await;
    site.wait_without_cluster("other").await;
    site.check("a host comes and goes", Promise::NoFailure, load).await;
}

/// Returns the names of the next and of the current cluster of the host.
fn next_name(site: &Site, i: usize, step: &str) -> (String, String) {
    (format!("{step}-{i}"), site.world.hosts[HOST].clone())
}

/// Adds the new cluster, moves the route, and removes the old cluster, each after Envoy has applied the previous
/// change. An aggregated stream has this order by itself.
async fn renames_in_order(site: &mut Site, backend: &Backend) {
    let load = site.load().await;
    for i in 1..=RENAMES {
        let (new, old) = next_name(site, i, "ordered");
        site.world.clusters.insert(new.clone(), Cluster::of(backend));
        site.publish();
        site.wait_for_cluster(&new).await;
        site.world.hosts.insert(HOST.into(), new.clone());
        site.publish();
        site.wait_routed_to(&new).await;
        load.answers(100).await;
        site.world.clusters.remove(&old);
        site.publish();
        site.wait_without_cluster(&old).await;
    }
    site.check(&format!("{RENAMES} renames of a cluster, in order"), Promise::NoFailure, load).await;
}

/// Renames the cluster of the host in one change.
fn rename(site: &mut Site, new: &str, old: &str, backend: &Backend) {
    site.world.clusters.remove(old);
    site.world.clusters.insert(new.into(), Cluster::of(backend));
    site.world.hosts.insert(HOST.into(), new.into());
    site.publish();
}

async fn wait_renamed(site: &Site, new: &str, old: &str) {
    site.wait_routed_to(new).await;
    site.wait_for_cluster(new).await;
    site.wait_without_cluster(old).await;
    site.wait_served(HOST).await;
}

async fn renames_at_one_stroke(site: &mut Site, backend: &Backend) {
    let load = site.load().await;
    for i in 1..=RENAMES {
        let (new, old) = next_name(site, i, "stroke");
        rename(site, &new, &old, backend);
        wait_renamed(site, &new, &old).await;
        load.answers(60).await;
    }
    let promise = Promise::no_failure_if(site.fetch.aggregated());
    site.check(&format!("{RENAMES} renames of a cluster, at one stroke"), promise, load).await;
}

/// Kills the controller, runs `meanwhile`, and restarts the controller.
async fn outage(site: &mut Site, load: &e2e::Load, meanwhile: impl FnOnce(&mut Site)) {
    site.lockgate.kill();
    load.answers(100).await;
    meanwhile(site);
    site.lockgate.restart();
    site.lockgate.wait_ready().await;
}

async fn an_outage_without_a_change(site: &mut Site) {
    let load = site.load().await;
    let streams = site.streams().await;
    outage(site, &load, |_| {}).await;
    if site.fetch == Fetch::Rest {
        let before = site.envoy.stat("cluster_manager.cds.update_attempt").await;
        site.wait_counted("cluster_manager.cds.update_attempt", before + 3).await;
    } else {
        wait_until("all of Envoy's streams", async || site.streams().await == streams).await;
    }
    load.answers(100).await;
    let sent = site.lockgate.metric("lockgate_xds_pushed_resources_total", &[]).await as u64;
    site.check("kill -9 of the controller and restart", Promise::NoFailure, load).await;
    site.result(format!("    resources sent again: {sent}"));
    if site.fetch.delta() {
        assert_eq!(sent, 0, "Envoy has them all");
    }
}

async fn an_outage_with_other_endpoints(site: &mut Site, backend: &mut Backend) {
    let load = site.load().await;
    let next = Backend::start("after the outage").await;
    let cluster = site.world.hosts[HOST].clone();
    outage(site, &load, |site| {
        site.world.clusters.insert(cluster, Cluster::of(&next));
        site.publish();
    })
    .await;
    site.finish_swap(&load, backend, next).await;
    site.check("kill -9, and other endpoints after it", Promise::NoFailure, load).await;
}

async fn an_outage_with_a_rename(site: &mut Site, backend: &Backend) {
    let load = site.load().await;
    let old = site.world.hosts[HOST].clone();
    outage(site, &load, |site| rename(site, "shop", &old, backend)).await;
    wait_renamed(site, "shop", &old).await;
    // The clusters of Envoy must stay until the routes no longer use them. A new delta stream contains their names. For
    // state of the world, the controller identifies them by the version, because the renamed cluster has the settings
    // of a served cluster.
    let promise = Promise::no_failure_if([Fetch::AdsDelta, Fetch::AdsSotw].contains(&site.fetch));
    site.check("kill -9, and a rename after it", promise, load).await;
}

/// Envoy rejects two clusters: a change of the one under load, and a new one. Everything else works, including the
/// previous version of the first.
async fn a_rejected_cluster(site: &mut Site, backend: &mut Backend) {
    let rejected = "cluster_manager.cds.update_rejected";
    let (load, before) = (site.load().await, site.envoy.stat(rejected).await);
    site.world.clusters.get_mut("shop").expect("the cluster shop").broken = true;
    let bad = Cluster { broken: true, ..Cluster::of(backend) };
    site.world.clusters.insert("bad".into(), bad);
    site.publish();
    site.wait_counted(rejected, before).await;

    site.swap(&load, backend).await;
    site.world.clusters.insert("healthy".into(), Cluster::of(backend));
    site.world.hosts.insert("healthy.test".into(), "healthy".into());
    site.publish();
    site.wait_for_cluster("healthy").await;
    site.wait_served("healthy.test").await;
    site.world.clusters.insert("bad".into(), Cluster::of(backend));
    site.world.clusters.insert("healthy".into(), Cluster::of(backend));
    site.world.clusters.insert("shop".into(), Cluster { connect_timeout: 9, ..Cluster::of(backend) });
    site.world.hosts.insert("bad.test".into(), "bad".into());
    site.publish();
    site.wait_served("bad.test").await;
    site.wait_served("healthy.test").await;
    wait_until("the good cluster shop", async || {
        let clusters = site.envoy.config_dump("dynamic_active_clusters").await;
        clusters.iter().any(|entry| entry["cluster"]["connect_timeout"] == "9s")
    })
    .await;
    site.check("two rejected clusters, healed", Promise::NoFailure, load).await;
}

/// Envoy rejects the routes. It keeps the previous ones, and clusters and endpoints still change.
async fn rejected_routes(site: &mut Site, backend: &mut Backend) {
    let rejected = "http.http.rds.web.update_rejected";
    let (load, before) = (site.load().await, site.envoy.stat(rejected).await);
    site.world.broken_routes = true;
    site.world.clusters.insert("late".into(), Cluster::of(backend));
    site.world.hosts.insert("late.test".into(), "late".into());
    site.publish();
    site.wait_counted(rejected, before).await;
    site.wait_for_cluster("late").await;
    site.swap(&load, backend).await;
    site.world.broken_routes = false;
    let endpoints: Vec<String> = site.world.clusters.keys().cloned().collect();
    for name in endpoints {
        site.world.clusters.get_mut(&name).expect("a cluster").at = backend.address;
    }
    site.publish();
    site.wait_served("late.test").await;
    site.check("rejected routes, healed", Promise::NoFailure, load).await;
}

async fn everything_is_removed(site: &mut Site) {
    site.world.listening = false;
    site.publish();
    let target = site.target(HOST);
    wait_until("no listener", async || target.get("/").await.is_err()).await;
    let names: Vec<String> = site.world.clusters.keys().cloned().collect();
    site.world.clusters.clear();
    site.world.hosts.clear();
    site.publish();
    for name in names {
        site.wait_without_cluster(&name).await;
    }
    assert_eq!(site.envoy.stat("listener_manager.total_listeners_active").await, 0);
}

/// Envoy opens a stream for the endpoints of each cluster, over one connection. Each stream costs as much as one name.
async fn many_streams(fetch: Fetch) {
    let backend = Backend::start("first").await;
    let mut site = Site::open(fetch, &backend).await;
    let (streams, memory) = (site.streams().await, site.lockgate.process().memory());
    for i in 0..CLUSTERS {
        site.world.clusters.insert(format!("many-{i}"), Cluster::of(&backend));
    }
    site.publish();
    let time = wait_until("all clusters with their endpoints", async || {
        let healthy = site.envoy.stats("^cluster\\.many-[0-9]+\\.membership_healthy$").await;
        healthy.values().sum::<u64>() == CLUSTERS as u64
    })
    .await;
    assert_eq!(site.streams().await, streams + CLUSTERS);
    let open = site.lockgate.get("/debug/xds").await;
    let open: Value = serde_json::from_slice(&open.body).expect("JSON of /debug/xds");
    let open = open.as_array().into_iter().flatten();
    let named: Vec<u64> = open.filter_map(|s| s["types"]["ClusterLoadAssignment"]["named"].as_u64()).collect();
    assert_eq!(named, vec![1; CLUSTERS + 1], "each stream has one name");
    let each = (site.lockgate.process().memory() - memory) / CLUSTERS as u64;
    println!("{CLUSTERS} streams of one Envoy, {fetch:?}: all served after {} ms, {each} bytes each", time.as_millis());
    assert!(each < 150_000, "{each} bytes a stream");

    let pushed = async || site.lockgate.metric("lockgate_xds_pushed_resources_total", &["ClusterLoadAssignment"]).await;
    let before = pushed().await;
    let next = Backend::start("next").await;
    site.world.clusters.insert("many-7".into(), Cluster::of(&next));
    site.publish();
    let own = format!("many-7::{}::", next.address);
    wait_until("the new endpoint", async || site.envoy.get("/clusters").await.text().contains(&own)).await;
    assert_eq!(pushed().await - before, 1.0, "only the stream of that name is told");
}

#[tokio::test(flavor = "multi_thread")]
async fn s31_a_delta_stream_for_each_name() {
    many_streams(Fetch::StreamsDelta).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s31_a_sotw_stream_for_each_name() {
    many_streams(Fetch::StreamsSotw).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_step_over_an_aggregated_delta_stream() {
    every_step(Fetch::AdsDelta).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_step_over_an_aggregated_sotw_stream() {
    every_step(Fetch::AdsSotw).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_step_over_delta_streams_of_one_type() {
    every_step(Fetch::StreamsDelta).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_step_over_sotw_streams_of_one_type() {
    every_step(Fetch::StreamsSotw).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_step_by_polling() {
    every_step(Fetch::Rest).await;
}
