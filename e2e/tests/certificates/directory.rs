//! Certificates in directories that change like mounts. The controller and Envoy reload them.

use e2e::certificates::Pair;
use e2e::load::Plan;
use e2e::{Authority, Load, Mount, Source};

use super::*;

/// The issuing and the trusted authorities of each side.
struct World {
    authorities: Vec<Authority>,
    server: Mount,
    envoy: Mount,
    pairs: [Pair; 2],
}

fn files<'a>(pair: &'a Pair, trusted: &'a str) -> [(&'a str, &'a str); 3] {
    [("tls.crt", &pair.certificate), ("tls.key", &pair.key), ("ca.crt", trusted)]
}

impl World {
    fn new() -> Self {
        let authority = Authority::new();
        let pairs = [authority.issue(&["127.0.0.1"]), authority.issue(&["envoy"])];
        let trusted = authority.pem();
        let [server, envoy] = [0, 1].map(|side: usize| Mount::new(&files(&pairs[side], &trusted)));
        Self { authorities: vec![authority], server, envoy, pairs }
    }

    fn trusted(&self) -> String {
        self.authorities.iter().map(Authority::pem).collect()
    }

    /// Updates the mounts like the kubelets of two nodes, at different times: Envoy's first, or the server's first.
    async fn update_mounts(&mut self, envoy: &Envoy, lockgate: &Lockgate, envoy_first: bool) {
        let trusted = self.trusted();
        for first in [true, false] {
            if first == envoy_first {
                let before = exchanges(envoy).await;
                self.envoy.swap(&files(&self.pairs[1], &trusted));
                wait_until("Envoy to take it up", async || exchanges(envoy).await > before).await;
            } else {
                let reloads = async || lockgate.metric("lockgate_xds_certificate_reloads_total", &[]).await;
                let before = reloads().await;
                self.server.swap(&files(&self.pairs[0], &trusted));
                wait_until("the controller to take it up", async || reloads().await > before).await;
            }
        }
    }

    /// The three steps of a complete rotation. `between` runs after each step.
    async fn rotate(&mut self, envoy: &Envoy, lockgate: &Lockgate, mut between: impl AsyncFnMut()) {
        self.authorities.push(Authority::new());
        self.update_mounts(envoy, lockgate, true).await;
        between().await;
        let new = &self.authorities[1];
        self.pairs = [new.issue(&["127.0.0.1"]), new.issue(&["envoy"])];
        self.update_mounts(envoy, lockgate, false).await;
        between().await;
        self.authorities.remove(0);
        self.update_mounts(envoy, lockgate, true).await;
        between().await;
    }
}

/// A controller whose connections end twice per second, and an Envoy that it serves, with the certificates of `world`.
struct Served {
    backend: Backend,
    manifests: Manifests,
    world: World,
    lockgate: Lockgate,
    envoy: Envoy,
    _files: tempfile::TempDir,
}

impl Served {
    async fn start() -> Self {
        let backend = Backend::start("a").await;
        let manifests = manifests(&backend);
        let world = World::new();
        let flags = ["--xds-tls", world.server.text(), "--xds-max-connection-age", "500ms"];
        let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &flags).await;
        let (mut envoy, _files) = envoy(&lockgate, "127.0.0.1", world.envoy.text());
        envoy.wait_ready().await;
        Self { backend, manifests, world, lockgate, envoy, _files }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_exchanged_under_load_while_connections_come_and_go() {
    let Served { backend, manifests, mut world, lockgate, envoy, _files } = Served::start().await;
    let target = Target::http(lockgate.http, HOST);
    wait_until("the shop to be served", async || target.backend("/").await.is_some()).await;
    let load = Load::start(Plan::new(target, "/")).await;

    let connections = async || envoy.stat("cluster.lockgate-xds.upstream_cx_total").await;
    let mut renames = 0;
    let rotations = 4;
    for _ in 0..rotations {
        world
            .rotate(&envoy, &lockgate, async || {
                // A new connection with the current certificates, and a change over it.
                let before = connections().await;
                wait_until("a new connection", async || connections().await > before).await;
                renames += 1;
                let name = format!("shop-{renames}");
                manifests.write("shop.yaml", &shop(&name, &backend));
                envoy.wait_routed_to(&format!("default/{name}/http")).await;
            })
            .await;
    }
    let report = load.stop().await;
    let total = connections().await;
    println!("{rotations} rotations in 3 steps, {total} connections, {renames} renames: {report}");
    assert_eq!(report.failed(), 0, "{report}");
    assert_no_handshake_failed(&envoy, &lockgate).await;
    let opened = lockgate.log().matches("stream closed").count();
    let aged = lockgate.log().matches("its connection is to be closed").count();
    assert_eq!(opened, aged, "streams end by their age alone\n{}", lockgate.log());
    // The last certificates are in use.
    let certificates = envoy.get("/certs").await.text();
    assert_eq!(certificates.matches("\"ca_cert\"").count(), 1, "{certificates}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_ends_no_stream_and_bad_files_change_nothing() {
    let backend = Backend::start("a").await;
    let manifests = manifests(&backend);
    let mut world = World::new();
    let flags = ["--xds-tls", world.server.text()];
    let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &flags).await;
    let expiry = lockgate.metric("lockgate_xds_certificate_expiry_timestamp_seconds", &["server"]).await;
    assert!(expiry > 1e9, "{expiry}");
    let (mut envoy, _files) = envoy(&lockgate, "127.0.0.1", world.envoy.text());
    envoy.wait_ready().await;
    world.rotate(&envoy, &lockgate, async || {}).await;

    // Each unusable file is logged once.
    let other = Authority::new().issue(&["127.0.0.1"]);
    let good = world.pairs[0].clone();
    let trusted = world.trusted();
    let mixed = Pair { key: other.key.clone(), ..good.clone() };
    let broken = Pair { certificate: "-----BEGIN".into(), ..good.clone() };
    for (i, (files, part)) in [
        (files(&mixed, &trusted), "tls.crt: keys may not be consistent"),
        (files(&broken, &trusted), "tls.crt: "),
        (files(&good, ""), "ca.crt: it contains no certificate"),
    ]
    .iter()
    .enumerate()
    {
        world.server.swap(files);
        let failures = async || lockgate.metric("lockgate_xds_certificate_reload_failures_total", &[]).await;
        wait_until("a failure to be counted", async || failures().await == (i + 1) as f64).await;
        lockgate.logged(&["ERROR", world.server.text(), part, "the previous certificates stay in use"]).await;
    }

    // After the complete rotation, the first stream is still open and receives changes.
    manifests.write("shop.yaml", &shop("renamed", &backend));
    envoy.wait_routed_to("default/renamed/http").await;
    assert_eq!(lockgate.log().matches("stream opened").count(), 1, "{}", lockgate.log());
    // Another Envoy connects with the last valid certificates.
    let (mut late, _late_files) = super::envoy(&lockgate, "127.0.0.1", world.envoy.text());
    late.wait_ready().await;
}

/// Shows that the steps are necessary, so that "no handshake failed" is meaningful.
#[tokio::test(flavor = "multi_thread")]
async fn an_authority_that_takes_over_without_notice_is_refused() {
    let Served { backend, manifests, mut world, lockgate: _lockgate, envoy, _files } = Served::start().await;
    let new = Authority::new();
    world.pairs = [new.issue(&["127.0.0.1"]), new.issue(&["envoy"])];
    world.authorities = vec![new];
    let before = envoy.stat("cluster.lockgate-xds.ssl.fail_verify_error").await;
    world.server.swap(&files(&world.pairs[0], &world.trusted()));
    let refused = async || envoy.stat("cluster.lockgate-xds.ssl.fail_verify_error").await > before;
    wait_until("Envoy to refuse the controller", refused).await;
    // Envoy connects again as soon as it trusts the new authority.
    world.envoy.swap(&files(&world.pairs[1], &world.trusted()));
    manifests.write("shop.yaml", &shop("renamed", &backend));
    envoy.wait_routed_to("default/renamed/http").await;
}
