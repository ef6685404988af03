//! A controller, an Envoy, and a Service with several endpoints that can fail.

use e2e::load::Plan;
use e2e::manifests::{documents, ingress, ingress_class};
use e2e::{Envoy, Faulty, Load, Lockgate, Manifests, Mode, Source, Target, wait_until};

/// The host of the Ingress.
pub const HOST: &str = "shop.test";

/// All running programs. The Ingress `shop` leads to the Service `shop` with the endpoints.
pub struct Site {
    /// The objects: `base.yaml`, and `policy.yaml` of the test.
    pub manifests: Manifests,
    /// The settings.
    _config: Manifests,
    /// The controller.
    pub lockgate: Lockgate,
    /// The Envoy.
    pub envoy: Envoy,
    /// The endpoints `0`, `1`, and so on.
    pub backends: Vec<Faulty>,
}

impl Site {
    /// Starts all programs with this number of endpoints and these annotations of the Ingress, and waits until the
    /// Service is reachable.
    pub async fn open(endpoints: usize, annotations: &str) -> Self {
        let mut backends = Vec::new();
        for number in 0..endpoints {
            backends.push(Faulty::start(&number.to_string()).await);
        }
        let ingress = ingress("shop", HOST, "shop", None)
            .replace("namespace: default }", &format!("namespace: default, annotations: {{ {annotations} }} }}"));
        let manifests = Manifests::new();
        manifests.write("base.yaml", &documents(&[ingress_class(), service(&backends), ingress]));
        let config = Manifests::new();
        config.write("lockgate.yaml", "tenants: { activeHealthChecks: true }");
        let file = config.file("lockgate.yaml").display().to_string();
        let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &["--config", &file]).await;
        let envoy = Envoy::start(&lockgate, Mode::Delta).await;
        let site = Self { manifests, _config: config, lockgate, envoy, backends };
        wait_until("the shop to be served", async || site.target().backend("/").await.is_some()).await;
        site
    }

    /// Returns the shop.
    pub fn target(&self) -> Target {
        Target::http(self.lockgate.http, HOST)
    }

    /// Writes the BackendPolicy of the Service, and waits until routes lead to its cluster.
    pub async fn policy(&self, spec: &str) {
        let before = self.envoy.routes().await;
        self.manifests.write("policy.yaml", &policy(spec));
        wait_until("routes to another cluster", async || self.envoy.routes().await != before).await;
    }

    /// Starts 200 requests per second over 10 connections.
    pub async fn load(&self) -> Load {
        Load::start(Plan { rate: 200, connections: 10, ..Plan::new(self.target(), "/") }).await
    }

    /// Returns the sum of a statistic over the clusters of the Service.
    pub async fn stat(&self, name: &str) -> u64 {
        let stats = self.envoy.stats(&format!("^cluster.default_shop_http.*{name}$")).await;
        stats.values().sum()
    }

    /// Waits until Envoy has ejected this number of endpoints.
    pub async fn ejected(&self, count: u64) {
        let stat = "outlier_detection.ejections_active";
        wait_until("the number of ejected endpoints", async || self.stat(stat).await == count).await;
    }
}

/// Formats a BackendPolicy of the Service.
pub fn policy(spec: &str) -> String {
    format!(
        "apiVersion: lockgate.dev/v1alpha1\nkind: BackendPolicy\nmetadata: {{ name: shop, namespace: default }}\nspec:\n  \
         targetRefs: [{{ kind: Service, name: shop }}]\n  {spec}\n"
    )
}

/// Formats the Service, with an EndpointSlice for each endpoint, because each has another port.
fn service(backends: &[Faulty]) -> String {
    let service = "apiVersion: v1\nkind: Service\nmetadata: { name: shop, namespace: default }\n\
                   spec: { ports: [{ name: http, port: 80 }] }\n";
    let slice = |(number, backend): (usize, &Faulty)| {
        format!(
            "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{ name: shop-{number}, namespace: default, \
             labels: {{ kubernetes.io/service-name: shop }} }}\naddressType: IPv4\nports: [{{ name: http, port: {} }}]\n\
             endpoints: [{{ addresses: [{}] }}]\n",
            backend.address.port(),
            backend.address.ip()
        )
    };
    documents(&[service.to_owned()].into_iter().chain(backends.iter().enumerate().map(slice)).collect::<Vec<_>>())
}
