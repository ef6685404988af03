//! Settings whose effect is visible to clients, with the real program and a real Envoy.

mod authorization;
mod foreign;
mod http;
mod limits;
mod live;
mod log;
mod migration;
mod objects;
mod rate_limit;
mod stats;
mod tls;
mod tracing;

use e2e::manifests::{DEFAULT, SERVED, documents, ingress, ingress_class, service};
use e2e::{Authority, Echo, Envoy, Lockgate, Manifests, Source, Target, lockgate, ports, wait_everywhere};

/// The served host, with and without TLS.
const HOST: &str = "shop.test";

/// A controller with a settings file, an Envoy, and a backend that echoes requests.
struct Site {
    manifests: Manifests,
    config: Manifests,
    authority: Authority,
    lockgate: Lockgate,
    envoy: Envoy,
    _echo: Echo,
}

impl Site {
    /// Starts all programs, and waits until the host is served.
    async fn with(settings: &str) -> Self {
        Self::with_flags(settings, &[]).await
    }

    /// Like [`Site::start`], with flags for `lockgate bootstrap`.
    async fn with_flags(settings: &str, flags: &[&str]) -> Self {
        let (echo, authority) = (Echo::start().await, Authority::new());
        let (manifests, config) = (Manifests::new(), Manifests::new());
        let shop = [
            ingress_class(),
            authority.issue(&[HOST]).secret("default", "shop-tls"),
            service("shop", "", &[echo.address]),
            ingress("shop", HOST, "shop", Some("shop-tls")).replace(DEFAULT, SERVED),
        ];
        manifests.write("shop.yaml", &documents(&shop));
        config.write("lockgate.yaml", settings);
        let file = config.file("lockgate.yaml").display().to_string();
        let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &["--config", &file]).await;
        let admin = ports::free();
        let (xds, admin_address) = (format!("127.0.0.1:{}", lockgate.xds), format!("127.0.0.1:{admin}"));
        let bootstrap = ["bootstrap", "--xds-address", &xds, "--admin-address", &admin_address];
        let bootstrap = lockgate::run(&[&bootstrap, flags].concat());
        // By default, Envoy buffers lines of the access log for 10 s.
        let mut envoy = Envoy::launch_with_flags(&bootstrap, admin, &["--file-flush-interval-msec", "20"]);
        envoy.wait_ready().await;
        Self { manifests, config, authority, lockgate, envoy, _echo: echo }
    }

    /// Returns the target of the shop in clear text.
    fn plain(&self) -> Target {
        Target::http(self.lockgate.http, HOST)
    }

    /// Adds a host whose plain HTTP is redirected to https, and waits until it is served. Returns its target in clear
    /// text.
    async fn add_redirected_host(&self, host: &str) -> Target {
        let pair = self.authority.issue(&[host]).secret("default", "redirecting-tls");
        let ingress = ingress("redirecting", host, "shop", Some("redirecting-tls"));
        self.manifests.write("redirecting.yaml", &documents(&[pair, ingress]));
        let plain = Target::http(self.lockgate.http, host);
        wait_everywhere("a redirect", async || plain.get("/").await.is_ok_and(|answer| answer.status == 308)).await;
        // Each worker of Envoy adds the filter chain of the certificate at its own time.
        let tls = Target::https(self.lockgate.https, host, self.authority.der());
        wait_everywhere("the certificate of the redirected host", async || tls.connect().await.is_ok()).await;
        plain
    }

    /// Returns the target of the shop over TLS.
    fn tls(&self) -> Target {
        Target::https(self.lockgate.https, HOST, self.authority.der())
    }

    /// Waits for a line of the access log that contains all `parts`, and returns it.
    async fn logged(&self, parts: &[&str]) -> String {
        let what = format!("a line of Envoy's log with {parts:?}");
        let log = || self.envoy.log();
        let find = || log().lines().find(|line| parts.iter().all(|part| line.contains(part))).map(ToOwned::to_owned);
        e2e::wait_for(&what, async || find()).await.0
    }
}

/// Returns a header of the request that the backend received: `x-forwarded-for: 127.0.0.1`.
#[track_caller]
fn assert_asked(answer: &e2e::client::Answer, line: &str) {
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.text().lines().any(|one| one == line), "no line {line:?} in\n{}", answer.text());
}
