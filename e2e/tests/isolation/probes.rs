//! A pod sends expensive or unfinished requests to the port for statistics and probes.

use std::time::{Duration, Instant};

use e2e::{Target, ports, wait_until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::site::Site;

/// A regular expression that the admin interface evaluates for each statistic in its main thread.
const EXPENSIVE: &str = "/stats?filter=%5CpL%7B300%7D";

#[tokio::test(flavor = "multi_thread")]
async fn no_query_reaches_the_admin_interface() {
    let site = Site::with("").await;
    let port = Target::http(site.lockgate.stats, "localhost");
    let status = async |path: &str| port.get(path).await.expect("an answer").status;
    for path in ["/stats", "/stats?usedonly", "/stats/prometheus", "/stats/prometheus?usedonly", "/ready", "/ready?now"]
    {
        assert_eq!(status(path).await, 200, "{path}");
    }
    for path in [
        EXPENSIVE,
        "/stats?usedonly&filter=a",
        "/stats/prometheus?filter=a",
        "/stats?",
        "/config_dump",
        "/quitquitquit",
    ] {
        assert_eq!(status(path).await, 404, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_main_thread_delays_no_probe() {
    let site = Site::with("").await;
    let probe = Target::http(site.lockgate.stats, "localhost");
    let ask = async |target: &Target, path: &str| {
        let start = Instant::now();
        let status = target.get(path).await.expect("an answer").status;
        (status, start.elapsed())
    };
    // The administration interface itself has no limit.
    let request = async || {
        loop {
            site.envoy.get(EXPENSIVE).await;
        }
    };
    let busy = async { tokio::join!(request(), request(), request(), request(), request(), request()) };
    let probes = async {
        wait_until("a busy main thread", async || ask(&probe, "/stats").await.1 > Duration::from_millis(300)).await;
        let statistics = async { ask(&probe, "/stats").await.1 };
        let ready = async {
            let mut slowest = Duration::ZERO;
            for _ in 0..20 {
                let (status, took) = ask(&probe, "/ready").await;
                assert_eq!(status, 200);
                slowest = slowest.max(took);
            }
            slowest
        };
        tokio::join!(statistics, ready)
    };
    tokio::select! {
        _ = busy => {}
        (statistics, ready) = probes => {
            println!("with a busy main thread: /stats after {statistics:?}, the slowest /ready after {ready:?}");
            assert!(ready < statistics, "the main thread answered probes");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_requests_delay_no_probe_and_hold_little_memory() {
    let site = Site::with("").await;
    let before = site.envoy.memory().await;
    let mut open = Vec::new();
    for _ in 0..2000 {
        let Ok(mut connection) = TcpStream::connect(("127.0.0.1", site.lockgate.stats)).await else { continue };
        let _ = connection.write_all(b"GET /stats HTTP/1.1\r\nhost: a\r\nx-unfinished: ").await;
        open.push(connection);
    }
    let held = site.envoy.memory().await.saturating_sub(before);
    println!("2,000 unfinished requests hold {} KiB", held / 1024);
    assert!(held < open.len() as u64 * (32 << 10), "{held} bytes");
    // The connections end after two seconds, so a probe that waits for them would succeed too.
    let probe = Target::http(site.lockgate.stats, "localhost");
    let start = Instant::now();
    let status = probe.get("/ready").await.expect("an answer").status;
    assert_eq!(status, 200);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

/// The kubelet has a port of its own. Its probes would fail on the port for scrapers.
#[tokio::test(flavor = "multi_thread")]
async fn all_connections_for_scrapers_in_use_do_not_make_an_envoy_unready() {
    let own = ports::free();
    let site = Site::with(&format!("listeners: {{ readiness: {{ port: {own} }} }}\n")).await;
    let shared = site.lockgate.stats;
    let is_ready =
        async |port| Target::http(port, "localhost").get("/ready").await.is_ok_and(|answer| answer.status == 200);
    assert!(is_ready(own).await && is_ready(shared).await);
    let hold = move || async move {
        loop {
            let Ok(mut connection) = TcpStream::connect(("127.0.0.1", shared)).await else { continue };
            let _ = connection.write_all(b"GET /stats HTTP/1.1\r\nhost: a\r\nx-unfinished: ").await;
            let _ = connection.read(&mut [0; 512]).await;
        }
    };
    let mut attack = tokio::task::JoinSet::new();
    // The limit is 4,096.
    (0..4_300).for_each(|_| drop(attack.spawn(hold())));
    wait_until("all connections for scrapers to be in use", async || !is_ready(shared).await).await;
    let (mut failed, mut failed_of_shared, mut slowest) = (0, 0, Duration::ZERO);
    for _ in 0..50 {
        let start = Instant::now();
        failed += u32::from(!is_ready(own).await);
        slowest = slowest.max(start.elapsed());
        failed_of_shared += u32::from(!is_ready(shared).await);
    }
    println!(
        "of 50 probes, {failed} failed, the slowest after {slowest:?}; beside scrapers, {failed_of_shared} failed"
    );
    assert_eq!(failed, 0);
}
