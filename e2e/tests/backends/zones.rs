//! The preference of endpoints in the zone of an Envoy, by the Service and by a BackendPolicy.

use std::collections::BTreeSet;

use e2e::load::Plan;
use e2e::manifests::{documents, ingress, ingress_class};
use e2e::{Behavior, Envoy, Faulty, Load, Lockgate, Manifests, Mode, Source, Target, ports, wait_everywhere};

use super::site::{HOST, policy};

/// The zones of the endpoints `0` to `3`.
const ZONES: [&str; 4] = ["a", "a", "b", "c"];

/// A controller, and a Service with an endpoint in each of [`ZONES`].
struct Site {
    manifests: Manifests,
    lockgate: Lockgate,
    backends: Vec<Faulty>,
}

impl Site {
    /// Starts the controller, with this field of the Service.
    async fn open(spec: &str) -> Self {
        let mut backends = Vec::new();
        for number in 0..ZONES.len() {
            backends.push(Faulty::start(&number.to_string()).await);
        }
        let manifests = Manifests::new();
        manifests.write("class.yaml", &documents(&[ingress_class(), ingress("shop", HOST, "shop", None)]));
        let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &[]).await;
        let site = Self { manifests, lockgate, backends };
        site.serve(spec, &[0, 1, 2, 3]);
        site
    }

    /// Writes the Service with this field, and with these endpoints.
    fn serve(&self, spec: &str, endpoints: &[usize]) {
        let service = format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{ name: shop, namespace: default }}\n\
             spec: {{ ports: [{{ name: http, port: 80 }}]{spec} }}\n"
        );
        let slice = |number: &usize| {
            let (address, zone) = (self.backends[*number].address, ZONES[*number]);
            format!(
                "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{ name: shop-{number}, namespace: default, \
                 labels: {{ kubernetes.io/service-name: shop }} }}\naddressType: IPv4\nports: [{{ name: http, port: {} }}]\n\
                 endpoints: [{{ addresses: [{}], zone: {zone} }}]\n",
                address.port(),
                address.ip()
            )
        };
        let all: Vec<String> = [service].into_iter().chain(endpoints.iter().map(slice)).collect();
        self.manifests.write("service.yaml", &documents(&all));
    }

    fn policy(&self, spec: &str) {
        self.manifests.write("policy.yaml", &policy(spec));
    }

    /// Starts an Envoy with this `--node-locality`.
    async fn envoy_at(&self, locality: &str, mode: Mode) -> Envoy {
        let admin = ports::free();
        let bootstrap = self.lockgate.bootstrap_with(mode, admin, "envoy", &["--node-locality", locality]);
        let mut envoy = Envoy::launch_with(&bootstrap, admin);
        envoy.wait_ready().await;
        envoy
    }

    fn target(&self) -> Target {
        Target::http(self.lockgate.http, HOST)
    }

    /// Waits until these endpoints, and no others, receive the requests.
    async fn served_by(&self, what: &str, expected: &[usize]) {
        let expected: BTreeSet<String> = expected.iter().map(ToString::to_string).collect();
        let mut last = BTreeSet::new();
        let same = async || {
            last.clear();
            for _ in 0..12 {
                last.extend(self.target().backend("/").await);
            }
            last == expected
        };
        wait_everywhere(&format!("{what}: {expected:?}"), same).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envoy_uses_the_endpoints_of_its_zone_if_the_service_prefers_them() {
    let site = Site::open(", trafficDistribution: PreferSameZone").await;
    let all = [0, 1, 2, 3];
    for (locality, mode, expected) in [
        ("/a", Mode::Delta, &[0, 1][..]),
        ("/c", Mode::Sotw, &[3]),
        // No endpoint is in the zone, the zone is not known, or the endpoints have no region.
        ("/d", Mode::Delta, &all),
        ("/", Mode::Delta, &all),
        ("eu/a", Mode::Delta, &all),
    ] {
        let _envoy = site.envoy_at(locality, mode).await;
        site.served_by(locality, expected).await;
    }

    let _envoy = site.envoy_at("/a", Mode::Delta).await;
    site.served_by("a", &[0, 1]).await;
    let load = Load::start(Plan { rate: 200, connections: 8, ..Plan::new(site.target(), "/") }).await;
    site.serve("", &all);
    site.served_by("no preference", &all).await;
    site.serve(", trafficDistribution: PreferClose", &all);
    site.served_by("PreferClose", &[0, 1]).await;
    site.serve(", trafficDistribution: example.com/other", &all);
    site.served_by("a value of another product", &all).await;
    site.serve(", trafficDistribution: PreferSameNode", &all);
    site.served_by("PreferSameNode", &[0, 1]).await;
    // The endpoints of the zone go and come back.
    site.serve(", trafficDistribution: PreferSameNode", &[2, 3]);
    site.served_by("no endpoint in the zone", &[2, 3]).await;
    site.serve(", trafficDistribution: PreferSameNode", &[1, 2, 3]);
    site.served_by("one endpoint in the zone", &[1]).await;
    let report = load.stop().await;
    println!("changes of the preference: {report}");
    assert_eq!(report.failed(), 0, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_prefers_the_zone_with_each_algorithm_and_as_long_as_enough_endpoints_are_healthy() {
    let site = Site::open("").await;
    let _envoy = site.envoy_at("/a", Mode::Delta).await;
    site.served_by("no policy", &[0, 1, 2, 3]).await;
    for algorithm in ["RoundRobin", "LeastRequest", "Random"] {
        let slow_start = if algorithm == "Random" { "" } else { ", slowStart: { window: 1s }" };
        let balancing = format!("loadBalancing: {{ algorithm: {algorithm}{slow_start} }}");
        site.policy(&format!("{balancing}\n  zones: {{ prefer: Local }}"));
        site.served_by(algorithm, &[0, 1]).await;
        site.policy(&balancing);
        site.served_by(&format!("{algorithm} in all zones"), &[0, 1, 2, 3]).await;
    }

    // The Service prefers the zone, and the policy does not.
    site.serve(", trafficDistribution: PreferSameZone", &[0, 1, 2, 3]);
    site.policy("zones: { prefer: Any }");
    site.served_by("Any", &[0, 1, 2, 3]).await;
    site.policy("zones: { prefer: Local, minLocalEndpoints: 2 }");
    site.served_by("two of two", &[0, 1]).await;
    site.serve(", trafficDistribution: PreferSameZone", &[0, 2, 3]);
    site.served_by("one of two", &[0, 2, 3]).await;

    // Ejected endpoints are not healthy.
    site.serve("", &[0, 1, 2, 3]);
    site.policy(
        "zones: { prefer: Local }\n  outlierDetection: { consecutiveLocalOriginFailures: 1, baseEjectionTime: 60s, maxEjectionPercent: 100 }",
    );
    site.served_by("healthy endpoints", &[0, 1]).await;
    for backend in &site.backends[..2] {
        backend.set(Behavior::Gone);
    }
    site.served_by("ejected endpoints", &[2, 3]).await;
}
