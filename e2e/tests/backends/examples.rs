//! The examples of docs/backends.md: Envoy accepts each as the page shows it, and endpoints fail as the page states.

use e2e::manifests::{documents, ingress, ingress_class};
use e2e::pages;
use e2e::{Behavior, Envoy, Faulty, Lockgate, Manifests, Mode, Source, Target, wait_everywhere, wait_until};
use serde_json::Value;

const PAGE: &str = "docs/backends.md";
/// The mark of the examples.
const MARK: &str = "tested by backends::examples::the_examples_of_the_page_reach_envoy";
/// The features whose effect takes minutes or needs other endpoints, with a part of the cluster that Envoy has accepted.
/// Other tests send requests.
const CONFIGURED: [(&str, &str); 7] = [
    ("tcpKeepalive", r#""tcp_keepalive":{"keepalive_interval":5,"keepalive_probes":6,"keepalive_time":120"#),
    ("idleTimeout", r#""idle_timeout":"4s""#),
    ("maxConnectionAge", r#""max_connection_duration":"600s""#),
    ("proxyProtocol", r#""version":"V2""#),
    ("retryBudget", r#""retry_budget":{"#),
    ("zones", r#""force_local_zone":{"min_size":2}"#),
    ("http3", r#""http3_protocol_options":{"#),
];

/// A controller, an Envoy, and the Service `cart` of the examples with two endpoints.
struct Shop {
    manifests: Manifests,
    lockgate: Lockgate,
    envoy: Envoy,
    endpoints: [Faulty; 2],
}

impl Shop {
    async fn open() -> Self {
        let endpoints = [Faulty::start("0").await, Faulty::start("1").await];
        let slice = |endpoint: &Faulty| {
            let (address, port) = (endpoint.address.ip(), endpoint.address.port());
            format!(
                "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{ name: cart-{port}, namespace: shop, labels: {{ \
                 kubernetes.io/service-name: cart }} }}\naddressType: IPv4\nports: [{{ name: http, port: {port} }}]\n\
                 endpoints: [{{ addresses: [{address}] }}]\n"
            )
        };
        let service = "apiVersion: v1\nkind: Service\nmetadata: { name: cart, namespace: shop }\n\
                       spec: { ports: [{ name: http, port: 80 }] }\n";
        let [one, other] = [&endpoints[0], &endpoints[1]].map(slice);
        let route = |name: &str, port: &str| {
            let ingress = ingress(name, &host(name), name, None).replace("namespace: default", "namespace: shop");
            ingress.replace("name: http }", &format!("name: {port} }}"))
        };
        let routes = [route("cart", "http"), route("search", "https")];
        let manifests = Manifests::new();
        let [cart, search] = routes;
        manifests.write("base.yaml", &documents(&[ingress_class(), service.to_owned(), one, other, cart, search]));
        let settings = Manifests::new();
        settings.write("lockgate.yaml", "tenants: { activeHealthChecks: true }");
        let file = settings.file("lockgate.yaml").display().to_string();
        let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &["--config", &file]).await;
        let envoy = Envoy::start(&lockgate, Mode::Delta).await;
        let shop = Self { manifests, lockgate, envoy, endpoints };
        wait_until("the cart to be served", async || shop.target().backend("/").await.is_some()).await;
        shop
    }

    fn target(&self) -> Target {
        Target::http(self.lockgate.http, &host("cart"))
    }

    async fn stat(&self, name: &str) -> u64 {
        self.envoy.stats(&format!("^cluster\\.shop_cart_.*{name}$")).await.values().sum()
    }

    /// Returns whether a cluster of Envoy contains this text as JSON.
    async fn is_configured(&self, part: &str) -> bool {
        let clusters = self.envoy.config_dump("dynamic_active_clusters").await;
        clusters.iter().map(Value::to_string).any(|cluster| cluster.contains("shop_") && cluster.contains(part))
    }

    /// Observes a feature of the example that is in effect.
    async fn check(&self, feature: &str, example: &str) {
        let [stays, fails] = &self.endpoints;
        match feature {
            "outlierDetection" => {
                fails.set(Behavior::Gone);
                wait_until("an ejected endpoint", async || {
                    let _ = self.target().get("/").await;
                    self.stat("outlier_detection.ejections_active").await == 1
                })
                .await;
                let served = async || self.target().backend("/").await.as_deref() == Some("0");
                wait_everywhere("the other endpoint", served).await;
            }
            "healthCheck" => {
                fails.set(Behavior::Failing);
                wait_until("an unhealthy endpoint", async || {
                    self.stat("health_check.failure").await >= 2 && self.stat("membership_healthy").await == 1
                })
                .await;
                let served = async || self.target().backend("/").await.as_deref() == Some("0");
                wait_everywhere("the healthy endpoint", served).await;
            }
            "panicThreshold" => {
                stays.set(Behavior::Failing);
                wait_until("no healthy endpoint", async || self.stat("membership_healthy").await == 0).await;
                let reached = async || {
                    let before = stays.requests() + fails.requests();
                    let answer = self.target().get("/").await.expect("an answer");
                    answer.status == 503 && stays.requests() + fails.requests() > before
                };
                wait_everywhere("requests to unhealthy endpoints", reached).await;
            }
            "loadBalancing" if example.contains("slowStart:") => {
                let part = r#""slow_start_config":{"min_weight_percent":{"value":10},"slow_start_window":"30s"}"#;
                wait_until(part, async || self.is_configured(part).await).await;
            }
            "loadBalancing" => {
                let has_cookie = async || {
                    let answer = self.target().get("/").await;
                    answer.is_ok_and(|answer| answer.header("set-cookie").starts_with("cart="))
                };
                wait_everywhere("a cookie", has_cookie).await;
            }
            other => {
                let configured = CONFIGURED.iter().find(|(feature, _)| *feature == other);
                let (_, part) = configured.unwrap_or_else(|| panic!("{PAGE}: nothing checks {other}"));
                wait_until(part, async || self.is_configured(part).await).await;
            }
        }
    }
}

fn host(service: &str) -> String {
    format!("{service}.example.com")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_of_the_page_reach_envoy() {
    let shop = Shop::open().await;
    let text = std::fs::read_to_string(pages::file(PAGE)).expect("the page");
    let mut checked = 0;
    for block in pages::blocks(PAGE, &text).iter().filter(|block| block.marks.iter().any(|mark| mark == MARK)) {
        let before = shop.envoy.routes().await;
        shop.manifests.write("example.yaml", &block.text);
        wait_until("routes to another cluster", async || shop.envoy.routes().await != before).await;
        let policy = block.text.split("---\n").next().expect("a policy");
        let spec = policy.split_once("\nspec:\n").expect("a spec").1;
        let fields = spec.lines().filter_map(|line| line.strip_prefix("  ")?.split_once(':').map(|(name, _)| name));
        let is_feature = |name: &&str| name.starts_with(|c: char| c.is_ascii_lowercase()) && *name != "targetRefs";
        for feature in fields.filter(is_feature) {
            println!("{}: {feature}", block.place);
            shop.check(feature, &block.text).await;
            checked += 1;
        }
        let before = shop.envoy.routes().await;
        shop.endpoints.iter().for_each(|endpoint| endpoint.set(Behavior::Serving));
        shop.manifests.remove("example.yaml");
        wait_until("the routes without a policy", async || shop.envoy.routes().await != before).await;
    }
    assert!(checked > 10, "only {checked} features");
}
