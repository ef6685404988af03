//! Two tenants of a host on a shared Gateway, with requests to the route of one of them.

use e2e::load::Plan;
use e2e::manifests::{documents, service};
use e2e::{Load, Mode, wait_everywhere};

use super::site::{Listener, Site, assert_no_failure, gateway, route};

/// The host that two tenants share.
pub const SHARED: &str = "shared.test";

/// Two tenants of a host: the routes of `anna` must not suffer from the routes of `bert`.
pub struct Tenants {
    /// All running programs.
    pub site: Site,
    /// Requests to the route of `anna`.
    clients: Load,
}

impl Tenants {
    /// Starts all programs, and the requests. `gateway_objects` are more objects of the owner of the Gateway.
    pub async fn open(mode: Mode, gateway_objects: &str) -> Self {
        let site = Site::open(mode).await;
        let shared = gateway("one", &[Listener::http("http", site.ports[0])])
            .replace("protocol: HTTP", "protocol: HTTP, allowedRoutes: { namespaces: { from: All } }");
        site.manifests.write("one.yaml", &documents(&[shared, gateway_objects.to_owned()]));
        let plan = Plan { rate: 300, connections: 10, ..Plan::new(site.target(0, SHARED), "/anna") };
        for name in ["anna", "bert"] {
            let backend = of_tenant(name, &service("a", "", &[site.backends[0].address]));
            site.manifests.write(&format!("{name}-backend.yaml"), &backend);
            site.manifests.write(&format!("{name}.yaml"), &tenant_route(name, name));
            answers(&site, &format!("/{name}"), 200).await;
        }
        Self { clients: Load::start(plan).await, site }
    }

    /// Waits until every worker of Envoy answers a path with this status.
    pub async fn answers(&self, path: &str, status: u16) {
        answers(&self.site, path, status).await;
    }

    /// Ends the requests to the route of `anna`. None of them may have failed.
    pub async fn assert_no_failure(self, what: &str) {
        assert_no_failure(what, self.clients).await;
    }
}

async fn answers(site: &Site, path: &str, status: u16) {
    let (target, what) = (site.target(0, SHARED), format!("status {status} of {path} from every worker"));
    wait_everywhere(&what, async || target.get(path).await.is_ok_and(|answer| answer.status == status)).await;
}

/// Moves an object from `default` to the namespace of a tenant, with a reference to the Gateway in `default`.
fn of_tenant(namespace: &str, text: &str) -> String {
    text.replace("namespace: default", &format!("namespace: {namespace}"))
        .replace("parentRefs: [{ name: one }]", "parentRefs: [{ name: one, namespace: default }]")
}

/// Returns a route of a tenant for a prefix of the shared host.
pub fn tenant_route(namespace: &str, name: &str) -> String {
    let matches = format!("- matches: [{{ path: {{ type: PathPrefix, value: /{name} }} }}]\n      backendRefs");
    of_tenant(namespace, &route(name, &["one"], SHARED, &[("a", 1)]).replace("- backendRefs", &matches))
}
