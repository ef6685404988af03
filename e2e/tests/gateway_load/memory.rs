//! Policies of a tenant that could use up Envoy's memory cost the other tenants of a Gateway nothing.

use e2e::load::Plan;
use e2e::manifests::{documents, service};
use e2e::{Load, Mode, wait_everywhere, wait_until};

use super::site::{Listener, Site, assert_no_failure, gateway};
use super::web_keys::{SHARED, of_tenant, tenant_route};

/// A rate limit of the owner of the Gateway, which no test exceeds.
const LIMIT: &str = "apiVersion: lockgate.dev/v1alpha1\nkind: HTTPPolicy\nmetadata: { name: limit, namespace: default }\nspec:\n  \
                     targetRefs: [{ group: gateway.networking.k8s.io, kind: Gateway, name: one }]\n  localRateLimit: { requests: \
                     100000, unit: second, perClientAddress: true }\n";

/// The most memory that the closed route may add to an Envoy.
const MOST: u64 = 64 << 20;

/// Two tenants of a host on a shared Gateway: the routes of `anna` must not suffer from those of `bert`.
struct Tenants {
    site: Site,
    clients: Load,
}

impl Tenants {
    /// `gateway` are more objects of the owner of the Gateway.
    async fn open(gateway_objects: &str) -> Self {
        let site = Site::open(Mode::Delta).await;
        let shared = gateway("one", &[Listener::http("http", site.ports[0])])
            .replace("protocol: HTTP", "protocol: HTTP, allowedRoutes: { namespaces: { from: All } }");
        site.manifests.write("one.yaml", &documents(&[shared, gateway_objects.to_owned()]));
        // The update adds the filters for policies, and drains the listener once.
        wait_until("the filters", async || {
            site.envoy.get("/config_dump?resource=dynamic_listeners").await.text().contains("envoy.filters.http.cors")
        })
        .await;
        for name in ["anna", "bert"] {
            let backend = of_tenant(name, &service("a", "", &[site.backends[0].address]));
            site.manifests.write(&format!("{name}-backend.yaml"), &backend);
            site.manifests.write(&format!("{name}.yaml"), &tenant_route(name, name));
            answers(&site, &format!("/{name}"), 200).await;
        }
        let clients = Plan { rate: 300, connections: 10, ..Plan::new(site.target(0, SHARED), "/anna") };
        Self { clients: Load::start(clients).await, site }
    }

    /// Replaces the route of `bert` by one that takes too much memory, and then by the first one.
    async fn exceed(self, wide: &str, status: u16, problem: [&str; 3]) {
        let Self { site, clients } = self;
        let narrow = tenant_route("bert", "bert");
        assert_ne!(wide.len(), narrow.len());
        let before = site.envoy.memory().await;
        site.manifests.write("bert.yaml", wide);
        answers(&site, "/bert", status).await;
        answers(&site, "/anna", 200).await;
        let more = site.envoy.memory().await.saturating_sub(before);
        assert!(more < MOST, "{more} bytes");
        let problems = site.lockgate.get("/debug/problems").await.text();
        assert!(problem.iter().all(|part| problems.contains(part)), "{problems}");
        site.manifests.write("bert.yaml", &narrow);
        answers(&site, "/bert", 200).await;
        assert_no_failure("a tenant that asks for too much memory", clients).await;
    }
}

async fn answers(site: &Site, path: &str, status: u16) {
    let (target, what) = (site.target(0, SHARED), format!("status {status} of {path} from every worker"));
    wait_everywhere(&what, async || target.get(path).await.is_ok_and(|answer| answer.status == status)).await;
}

/// Returns the route of `bert` with 16 hosts and these prefixes.
fn wide(prefixes: &[String]) -> String {
    let hosts: Vec<String> = (1..16).map(|i| format!("'h{i}.test'")).collect();
    let prefix = |value: &String| format!("{{ path: {{ type: PathPrefix, value: {value} }} }}");
    let matches: Vec<String> = prefixes.iter().map(prefix).collect();
    tenant_route("bert", "bert")
        .replace(&format!("['{SHARED}']"), &format!("['{SHARED}', {}]", hosts.join(", ")))
        .replace("[{ path: { type: PathPrefix, value: /bert } }]", &format!("[{}]", matches.join(", ")))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_with_many_copies_of_a_policy_is_closed_alone() {
    // 48 copies, of which 38 fit.
    let wide = wide(&["/bert", "/b", "/c"].map(str::to_owned));
    Tenants::open(LIMIT).await.exceed(&wide, 403, ["PolicyTooExpensive", "spec.rules[0]", "can take 321 MiB"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_with_many_copies_of_large_filters_fails_alone() {
    // The limits of an HTTPRoute: 64 matches of a rule, 16 headers in a list, and 4096 characters in a value.
    let prefixes: Vec<String> = (1..64).map(|i| format!("/b{i}")).chain(["/bert".to_owned()]).collect();
    let headers = |list: &str| {
        let header = |i: usize| format!("{{ name: x-{list}-{i}, value: {} }}", "v".repeat(4096));
        (0..16).map(header).collect::<Vec<_>>().join(", ")
    };
    let filter = format!(
        "filters: [{{ type: RequestHeaderModifier, requestHeaderModifier: {{ set: [{}], add: [{}] }} }}]\n      backendRefs",
        headers("set"),
        headers("add")
    );
    let wide = wide(&prefixes).replace("backendRefs", &filter);
    Tenants::open("")
        .await
        .exceed(&wide, 500, ["FilterTooExpensive", "spec.rules[0].filters", "can take 529 MiB"])
        .await;
}
