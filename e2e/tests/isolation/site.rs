//! The program, an Envoy, and two backends behind the host [`HOST`], in clear text, over TLS, and over HTTP/3.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use e2e::client::Answer;
use e2e::manifests::{documents, ingress_class, service};
use e2e::server::Server;
use e2e::{Authority, Echo, Envoy, Lockgate, Manifests, Mode, Source, Target, http3, wait_until};
use http_body_util::Full;
use hyper::{HeaderMap, Response};

/// The served host.
pub const HOST: &str = "shop.test";

/// `/` is served by a backend that echoes requests. `/failing` is served by one that answers 503, with and without
/// retries.
const INGRESSES: &str = "apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: { name: shop, namespace: default }
spec:
  tls: [{ hosts: [shop.test], secretName: shop-tls }]
  rules:
    - host: shop.test
      http:
        paths:
          - { path: /, pathType: Prefix, backend: { service: { name: shop, port: { name: http } } } }
          - { path: /failing, pathType: Prefix, backend: { service: { name: failing, port: { name: http } } } }
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: retried
  namespace: default
  annotations: { projectcontour.io/retry-on: 5xx, projectcontour.io/num-retries: '2' }
spec:
  rules:
    - host: shop.test
      http:
        paths:
          - { path: /retried, pathType: Prefix, backend: { service: { name: failing, port: { name: http } } } }
";

/// All running programs.
pub struct Site {
    /// The manifests.
    pub manifests: Manifests,
    /// The controller.
    pub lockgate: Lockgate,
    /// The Envoy.
    pub envoy: Envoy,
    authority: Authority,
    failed: Arc<AtomicU64>,
    _servers: (Echo, Server),
}

/// The transport of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// In clear text.
    Http,
    /// HTTP/2 in clear text.
    Http2,
    /// TLS.
    Https,
    /// QUIC.
    Http3,
}

impl Site {
    /// Starts all programs with a settings file, and waits until the host is served.
    pub async fn with(settings: &str) -> Self {
        Self::with_objects(settings, &[]).await
    }

    /// Like [`Site::start`], with additional objects.
    pub async fn with_objects(settings: &str, objects: &[String]) -> Self {
        let (echo, authority, failed) = (Echo::start().await, Authority::new(), Arc::new(AtomicU64::new(0)));
        let count = failed.clone();
        let failing = Server::http(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            async { Response::builder().status(503).body(Full::new(Bytes::new())).expect("an answer") }
        })
        .await;
        let manifests = Manifests::new();
        let shop = [
            ingress_class(),
            authority.issue(&[HOST]).secret("default", "shop-tls"),
            service("shop", "", &[echo.address]),
            service("failing", "", &[failing.address]),
            INGRESSES.to_owned(),
        ];
        manifests.write("shop.yaml", &documents(&[&shop, objects].concat()));
        let config = Manifests::new();
        // The tests send the same requests over plain HTTP and over TLS.
        config.write("lockgate.yaml", &format!("ingress: {{ httpsRedirect: false }}\n{settings}"));
        let file = config.file("lockgate.yaml").display().to_string();
        let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &["--config", &file]).await;
        let envoy = Envoy::start(&lockgate, Mode::Delta).await;
        Self { manifests, lockgate, envoy, authority, failed, _servers: (echo, failing) }
    }

    /// Sends a `GET` of `path` with these header fields.
    pub async fn get(&self, by: By, path: &str, fields: &[(&str, &str)]) -> Answer {
        let Lockgate { http, https, .. } = self.lockgate;
        let target = match by {
            By::Http => Target::http(http, HOST),
            By::Http2 => Target::http(http, HOST).over_http2(),
            By::Https => Target::https(https, HOST, self.authority.der()),
            By::Http3 => {
                let mut connection = http3::Connection::open(https, HOST, self.authority.der()).await.expect("QUIC");
                return connection.get_with(HOST, path, fields).await.expect("an answer by HTTP/3");
            }
        };
        let target = fields.iter().fold(target, |target, (name, value)| target.field(name, value));
        target.get(path).await.expect("an answer")
    }

    /// Returns the number of requests that the failing backend received while `requests` ran.
    pub async fn failures(&self, requests: impl AsyncFnOnce()) -> u64 {
        let before = self.failed.load(Ordering::Relaxed);
        requests().await;
        self.failed.load(Ordering::Relaxed) - before
    }

    /// Waits until the host is served over HTTP/3 too, if it is enabled.
    pub async fn wait_for(&self, by: By) {
        wait_until("the host by this way", async || match by {
            By::Http3 => http3::get(self.lockgate.https, HOST, "/", self.authority.der()).await.is_ok(),
            _ => self.get(by, "/", &[]).await.status == 200,
        })
        .await;
    }
}

/// Returns the header fields that the echoing backend received.
pub fn received(answer: &Answer) -> HeaderMap {
    let text = answer.text();
    let fields = text.lines().skip(1).filter_map(|line| line.split_once(": "));
    let field = |(name, value): (&str, &str)| Some((name.parse().ok()?, value.parse().ok()?));
    fields.filter_map(field).collect()
}
