//! A change of a cluster alone makes Envoy warm it again. It must not wait for endpoints that have not changed.

use std::time::{Duration, Instant};

use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::{Backend, Durations, Envoy, Lockgate, Manifests, Mode, Source, Target, wait_until};

const CHANGES: u32 = 10;

async fn a_cluster_alone(mode: Mode) {
    let backend = Backend::start("a").await;
    let shop = |seconds: u32| {
        let annotation = format!("lockgate.dev/connect-timeout: {seconds}s");
        documents(&[service("shop", &annotation, &[backend.address]), ingress("shop", "shop.test", "shop", None)])
    };
    let manifests = Manifests::new();
    manifests.write("class.yaml", &ingress_class());
    manifests.write("shop.yaml", &shop(60));
    let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &[]).await;
    let envoy = Envoy::start(&lockgate, mode).await;
    let target = Target::http(lockgate.http, "shop.test");
    wait_until("the shop to be served", async || target.backend("/").await.is_some()).await;

    let mut times = Durations::default();
    for seconds in 3..3 + CHANGES {
        let start = Instant::now();
        manifests.write("shop.yaml", &shop(seconds));
        wait_until("the new connect timeout in an active cluster", async || {
            let clusters = envoy.config_dump("dynamic_active_clusters").await;
            clusters.iter().any(|entry| entry["cluster"]["connect_timeout"] == format!("{seconds}s"))
                && envoy.stat("cluster_manager.warming_clusters").await == 0
        })
        .await;
        times.push(start.elapsed());
        assert_eq!(target.backend("/").await.as_deref(), Some("a"));
    }
    println!("a change of a cluster alone, {mode:?}, until it is active and nothing warms: {times}");
    assert!(times.max() < Duration::from_secs(1), "{times}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_alone_delta() {
    a_cluster_alone(Mode::Delta).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_alone_sotw() {
    a_cluster_alone(Mode::Sotw).await;
}
