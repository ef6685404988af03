//! Changes under load: no request may fail at 1,000 requests per second through a real Envoy.
//!
//! A request fails without an answer, or with another status than 200. The tests of this file take turns, because they measure times.
//!
//! They can fail: if `protocol::order` sends `ROUTES` without waiting for clusters, 102 of 3,819 requests are answered
//! 503 during the renames.

use std::time::{Duration, Instant};

use e2e::load::Plan;
use e2e::manifests::{DEFAULT, SERVED, documents, ingress, ingress_class, service};
use e2e::{Authority, Backend, Durations, Envoy, Load, Lockgate, Manifests, Mode, Source, Target, Turn, wait_until};

const HOST: &str = "shop.test";
const RENAMES: u64 = 200;
const SWAPS: usize = 200;
const ROTATIONS: usize = 50;
const KILLS: usize = 5;

/// A controller and an Envoy that serve one host.
struct Shop {
    manifests: Manifests,
    lockgate: Lockgate,
    envoy: Envoy,
    _turn: Turn,
}

impl Shop {
    /// Starts a shop with one backend behind a Service of this name.
    async fn open(mode: Mode, service: &str, backend: &Backend, tls: Option<&str>) -> Self {
        let turn = e2e::turn().await;
        let manifests = Manifests::new();
        manifests.write("class.yaml", &ingress_class());
        if let Some(secret) = tls {
            manifests.write("secret.yaml", secret);
        }
        manifests.write("shop.yaml", &shop(service, backend, tls.is_some()));
        let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &[]).await;
        let envoy = Envoy::start(&lockgate, mode).await;
        let shop = Self { manifests, lockgate, envoy, _turn: turn };
        let target = shop.target();
        wait_until("the shop to be served", async || target.backend("/").await.is_some()).await;
        shop
    }

    fn target(&self) -> Target {
        Target::http(self.lockgate.http, HOST)
    }

    /// Renames the Service in one change of one file, and waits until Envoy's routes use the new name.
    async fn rename(&self, name: &str, backend: &Backend) -> Duration {
        let start = Instant::now();
        self.manifests.write("shop.yaml", &shop(name, backend, false));
        let cluster = format!("default/{name}/http");
        self.envoy.wait_routed_to(&cluster).await;
        start.elapsed()
    }
}

/// Formats a Service with its endpoints, and an Ingress, in one file that is replaced atomically.
fn shop(name: &str, backend: &Backend, tls: bool) -> String {
    documents(&[
        service(name, "", &[backend.address]),
        ingress("shop", HOST, name, tls.then_some("cert")).replace(DEFAULT, SERVED),
    ])
}

async fn renames(mode: Mode) {
    let backend = Backend::start("a").await;
    let shop = Shop::open(mode, "shop-0", &backend, None).await;
    let added = shop.envoy.stat("cluster_manager.cluster_added").await;
    let removed = shop.envoy.stat("cluster_manager.cluster_removed").await;
    let load = Load::start(Plan::new(shop.target(), "/")).await;
    let mut times = Durations::default();
    for i in 1..=RENAMES {
        times.push(shop.rename(&format!("shop-{i}"), &backend).await);
        load.answers(10).await;
    }
    // The load continues until Envoy has removed all old names.
    wait_until("the removal of all the old clusters", async || {
        shop.envoy.stat("cluster_manager.cluster_removed").await - removed >= RENAMES
    })
    .await;
    let report = load.stop().await;
    println!("{RENAMES} renames of a Service, {mode:?}: {report}");
    println!("    from the file to Envoy's routes: {times}");
    assert_eq!(report.failed(), 0, "{report}");
    assert_eq!(shop.envoy.stat("cluster_manager.cluster_added").await - added, RENAMES, "each was served");
}

#[tokio::test(flavor = "multi_thread")]
async fn renames_of_a_service_delta() {
    renames(Mode::Delta).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn renames_of_a_service_sotw() {
    renames(Mode::Sotw).await;
}

/// Moves the endpoint to a new backend. The old backend shuts down gracefully when it receives no more requests.
async fn swaps(mode: Mode) {
    let mut backend = Backend::start("b-0").await;
    let shop = Shop::open(mode, "shop", &backend, None).await;
    let load = Load::start(Plan::new(shop.target(), "/")).await;
    let mut times = Durations::default();
    for i in 1..=SWAPS {
        let next = Backend::start(&format!("b-{i}")).await;
        let start = Instant::now();
        shop.manifests.write("shop.yaml", &self::shop("shop", &next, false));
        wait_until("a request to the new backend", async || next.requests() > 0).await;
        times.push(start.elapsed());
        backend.stop_when_unused(async || load.answers(100).await).await;
        backend = next;
    }
    let report = load.stop().await;
    println!("{SWAPS} swaps of a backend, {mode:?}: {report}");
    println!("    from the file to the first request at the new backend: {times}");
    assert_eq!(report.failed(), 0, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn swaps_of_a_backend_delta() {
    swaps(Mode::Delta).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn swaps_of_a_backend_sotw() {
    swaps(Mode::Sotw).await;
}

async fn rotations(mode: Mode) {
    let authority = Authority::new();
    let backend = Backend::start("a").await;
    let first = authority.issue(&[HOST]);
    let shop = Shop::open(mode, "shop", &backend, Some(&first.secret("default", "cert"))).await;
    let target = Target::https(shop.lockgate.https, HOST, authority.der());
    wait_until("the shop to be served over TLS", async || target.backend("/").await.is_some()).await;
    // Each connection is renewed after 20 requests. There are 50 handshakes per second throughout the rotation.
    let load = Load::start(Plan { renew_after: Some(20), ..Plan::new(target.clone(), "/") }).await;
    let mut times = Durations::default();
    for _ in 0..ROTATIONS {
        let pair = authority.issue(&[HOST]);
        let start = Instant::now();
        shop.manifests.write("secret.yaml", &pair.secret("default", "cert"));
        wait_until("the new certificate", async || {
            let connection = target.connect().await.expect("a TLS connection");
            connection.certificate.as_ref() == Some(&pair.der)
        })
        .await;
        times.push(start.elapsed());
        load.answers(100).await;
    }
    let report = load.stop().await;
    println!("{ROTATIONS} rotations of a certificate, {mode:?}: {report}");
    println!("    from the file to the first handshake with the new certificate: {times}");
    assert_eq!(report.failed(), 0, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rotations_of_a_certificate_delta() {
    rotations(Mode::Delta).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rotations_of_a_certificate_sotw() {
    rotations(Mode::Sotw).await;
}

async fn kills_of_the_controller(mode: Mode) {
    let backend = Backend::start("a").await;
    let mut shop = Shop::open(mode, "shop-0", &backend, None).await;
    let load = Load::start(Plan::new(shop.target(), "/")).await;
    let mut times = Durations::default();
    for i in 1..=KILLS {
        shop.lockgate.kill();
        load.answers(500).await;
        let start = Instant::now();
        shop.lockgate.restart();
        shop.lockgate.wait_ready().await;
        if mode == Mode::Sotw {
            // The rename must follow the reconnection. `o30_*` covers renames while Envoy is disconnected, which need a served
            // cluster with the same settings in state of the world.
            wait_until("Envoy's stream", async || {
                shop.lockgate.metric("lockgate_xds_acks_total", &["ClusterLoadAssignment"]).await > 0.0
            })
            .await;
        }
        shop.rename(&format!("shop-{i}"), &backend).await;
        times.push(start.elapsed());
        load.answers(500).await;
    }
    let report = load.stop().await;
    println!("{KILLS} x kill -9 of the controller and restart, {mode:?}: {report}");
    println!("    from its start to a rename that Envoy has taken over: {times}");
    assert_eq!(report.failed(), 0, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_of_the_controller_delta() {
    kills_of_the_controller(Mode::Delta).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_of_the_controller_sotw() {
    kills_of_the_controller(Mode::Sotw).await;
}

/// The Service is renamed while the controller is down. Envoy reconnects with a cluster that no longer exists.
async fn renames_while_the_controller_is_down(mode: Mode) {
    let backend = Backend::start("a").await;
    let mut shop = Shop::open(mode, "shop-0", &backend, None).await;
    let load = Load::start(Plan::new(shop.target(), "/")).await;
    for i in 1..=KILLS {
        shop.lockgate.kill();
        load.answers(100).await;
        shop.manifests.write("shop.yaml", &self::shop(&format!("shop-{i}"), &backend, false));
        shop.lockgate.restart();
        shop.lockgate.wait_ready().await;
        shop.envoy.wait_routed_to(&format!("default/shop-{i}/http")).await;
        load.answers(500).await;
    }
    let report = load.stop().await;
    println!("{KILLS} x a rename of a Service while the controller is down, {mode:?}: {report}");
    assert_eq!(report.failed(), 0, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn o30_renames_while_the_controller_is_down_delta() {
    renames_while_the_controller_is_down(Mode::Delta).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o30_renames_while_the_controller_is_down_sotw() {
    renames_while_the_controller_is_down(Mode::Sotw).await;
}

/// A restarting Envoy cannot answer. The test measures when it answers again, and that all later requests succeed.
async fn restart_of_envoy(mode: Mode) {
    let backend = Backend::start("a").await;
    let mut shop = Shop::open(mode, "shop", &backend, None).await;
    let load = Load::start(Plan::new(shop.target(), "/")).await;
    load.answers(500).await;
    let start = Instant::now();
    shop.envoy.restart();
    shop.envoy.wait_ready().await;
    load.answers(1).await;
    println!("a restart of Envoy, {mode:?}: answers again after {:.0} ms", start.elapsed().as_secs_f64() * 1000.0);
    println!("    {}", load.stop().await);
    let load = Load::start(Plan::new(shop.target(), "/")).await;
    load.answers(1000).await;
    shop.rename("renamed", &backend).await;
    let report = load.stop().await;
    println!("    afterwards: {report}");
    assert_eq!(report.failed(), 0, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn restart_of_envoy_delta() {
    restart_of_envoy(Mode::Delta).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn restart_of_envoy_sotw() {
    restart_of_envoy(Mode::Sotw).await;
}
