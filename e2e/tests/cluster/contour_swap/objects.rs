//! The objects that Contour serves: 50 HTTPProxies and Ingresses of three teams, and what they refer to.

use e2e::Authority;
use serde_json::{Value, json};

use super::probes::Probe;

/// The number of HTTPProxies and Ingresses.
pub const COUNT: usize = 50;
/// The number of ordinary applications. The other objects have a feature each.
const APPLICATIONS: usize = 20;
/// The Services of each team.
pub const SERVICES: [&str; 3] = ["web", "cart", "search"];

/// The namespaces of the teams.
pub struct Teams {
    /// The platform team, with the certificate for all hosts.
    pub edge: String,
    /// The team of the shop.
    pub shop: String,
    /// The team of the blog.
    pub blog: String,
}

/// The objects and the requests for them.
pub struct Site {
    /// HTTPProxies and Ingresses.
    pub objects: Vec<Value>,
    /// At least one request for each host.
    pub probes: Vec<Probe>,
}

/// Returns the Secrets and the TLSCertificateDelegation, as YAML.
pub fn certificates(teams: &Teams, authority: &Authority) -> String {
    let secret = |namespace: &str, name: &str, host: &str| authority.issue(&[host]).secret(namespace, name);
    let delegation = json!({
        "apiVersion": "projectcontour.io/v1",
        "kind": "TLSCertificateDelegation",
        "metadata": { "name": "example-com", "namespace": teams.edge },
        "spec": { "delegations": [{ "secretName": "example-com", "targetNamespaces": [teams.shop, teams.blog] }] },
    });
    [
        secret(&teams.edge, "example-com", "*.example.com"),
        secret(&teams.edge, "www", "www.example.com"),
        secret(&teams.blog, "tenants", "*.tenants.example.com"),
        secret(&teams.shop, "legacy", "*.example.com"),
        delegation.to_string(),
    ]
    .join("---\n")
}

impl Site {
    /// Creates all objects.
    pub fn new(teams: &Teams) -> Self {
        let mut site = Self { objects: Vec::new(), probes: Vec::new() };
        site.add_tree(teams);
        site.add_routes(teams);
        site.add_policies(teams);
        site.add_hosts(teams);
        site.add_applications(teams);
        site.add_ingresses(teams);
        assert_eq!(site.objects.len(), COUNT);
        site
    }

    pub(super) fn proxy(&mut self, namespace: &str, name: &str, mut spec: Value) {
        // Contour serves the class `contour`, and objects without a class.
        if self.objects.len().is_multiple_of(2) {
            spec["ingressClassName"] = json!("contour");
        }
        self.objects.push(json!({
            "apiVersion": "projectcontour.io/v1",
            "kind": "HTTPProxy",
            "metadata": { "name": name, "namespace": namespace },
            "spec": spec,
        }));
    }

    /// Adds a root without TLS whose name is the first label of its host.
    pub(super) fn plain(&mut self, namespace: &str, name: &str, routes: Value) {
        let spec = json!({ "virtualhost": { "fqdn": format!("{name}.example.com") }, "routes": routes });
        self.proxy(namespace, name, spec);
    }

    /// Adds a root with the certificate of the platform team, and requests for its plain HTTP and its path `/`.
    pub(super) fn secure(&mut self, teams: &Teams, namespace: &str, name: &str, fields: &Value, routes: Value) {
        let host = format!("{name}.example.com");
        let secret = if namespace == teams.edge { "example-com".into() } else { format!("{}/example-com", teams.edge) };
        let mut virtual_host = json!({ "fqdn": host, "tls": { "secretName": secret } });
        for (field, value) in fields.as_object().into_iter().flatten() {
            match virtual_host[field].as_object_mut() {
                Some(existing) => {
                    existing.extend(value.as_object().into_iter().flatten().map(|(k, v)| (k.clone(), v.clone())))
                }
                None => virtual_host[field] = value.clone(),
            }
        }
        self.proxy(namespace, name, json!({ "virtualhost": virtual_host, "routes": routes }));
        self.probes.extend([Probe::http(&host, "/").status(301), Probe::https(&host, "/")]);
    }

    pub(super) fn get(&mut self, host: &str, path: &str) {
        self.probes.push(Probe::http(host, path));
    }

    /// A root that includes objects of other teams, which include others.
    fn add_tree(&mut self, teams: &Teams) {
        let include = |name: &str, namespace: &str, prefix: &str| json!({ "name": name, "namespace": namespace, "conditions": [{ "prefix": prefix }] });
        let host = "www.example.com";
        let spec = json!({
            "virtualhost": { "fqdn": host, "tls": { "secretName": "www" } },
            "includes": [include("catalog", &teams.shop, "/shop"), include("posts", &teams.blog, "/blog")],
            "routes": [{ "services": [service("web")] }],
        });
        self.proxy(&teams.edge, "www", spec);
        let spec = json!({
            "includes": [include("cart", &teams.shop, "/cart")],
            "routes": [
                { "services": [service("web")] },
                { "conditions": [{ "prefix": "/search" }], "services": [service("search")] },
            ],
        });
        self.proxy(&teams.shop, "catalog", spec);
        let rewrite = json!({ "replacePrefix": [{ "replacement": "/v2/cart" }] });
        self.proxy(
            &teams.shop,
            "cart",
            json!({ "routes": [{ "services": [service("cart")], "pathRewritePolicy": rewrite }] }),
        );
        let header = json!({ "header": { "name": "x-preview", "exact": "yes" } });
        let drafts = json!({ "name": "drafts", "conditions": [header] });
        self.proxy(&teams.blog, "posts", json!({ "includes": [drafts], "routes": [{ "services": [service("web")] }] }));
        self.proxy(&teams.blog, "drafts", json!({ "routes": [{ "services": [service("search")] }] }));
        self.probes.push(Probe::http(host, "/").status(301));
        for path in ["/", "/shop", "/shop/search/shoes?page=2", "/shop/cart/1", "/blog/2026"] {
            self.probes.push(Probe::https(host, path));
        }
        self.probes.push(Probe::https(host, "/blog/2027").field("x-preview", "yes"));
    }

    /// Applications with two routes, of which every second one has TLS.
    fn add_applications(&mut self, teams: &Teams) {
        for number in 0..APPLICATIONS {
            let namespace = [&teams.edge, &teams.shop, &teams.blog][number % 3];
            let (name, host) = (format!("app-{number}"), format!("app-{number}.example.com"));
            let api = json!({ "conditions": [{ "prefix": "/api" }], "services": [service("cart")], "timeoutPolicy": { "response": "20s" } });
            let routes = json!([{ "services": [service("web")] }, api]);
            if number % 2 == 0 {
                self.secure(teams, namespace, &name, &json!({}), routes);
                self.probes.push(Probe::https(&host, "/api/items"));
            } else {
                self.plain(namespace, &name, routes);
                self.get(&host, "/");
                self.get(&host, "/api/items");
            }
        }
    }

    /// Ingresses from the time before HTTPProxies.
    fn add_ingresses(&mut self, teams: &Teams) {
        for number in 0..5 {
            let (name, host) = (format!("legacy-{number}"), format!("legacy-{number}.example.com"));
            let path = |path: &str, kind: &str, name: &str| json!({ "path": path, "pathType": kind, "backend": { "service": { "name": name, "port": { "number": 80 } } } });
            let paths = [path("/", "Prefix", "web"), path("/cart", "Exact", "cart"), path("/find", "Prefix", "search")];
            let mut spec = json!({ "rules": [{ "host": host, "http": { "paths": paths } }] });
            let mut annotations = json!({ "projectcontour.io/response-timeout": "20s" });
            if number % 2 == 0 {
                spec["ingressClassName"] = json!("contour");
            }
            if number > 1 {
                spec["tls"] = json!([{ "hosts": [host], "secretName": "legacy" }]);
                self.probes.push(Probe::https(&host, "/find/x"));
            }
            let is_redirected = number == 4;
            if is_redirected {
                annotations["ingress.kubernetes.io/force-ssl-redirect"] = json!("true");
            }
            self.probes.push(Probe::http(&host, "/").status(if is_redirected { 301 } else { 200 }));
            self.probes.push(Probe::http(&host, "/cart").status(if is_redirected { 301 } else { 200 }));
            self.objects.push(json!({
                "apiVersion": "networking.k8s.io/v1",
                "kind": "Ingress",
                "metadata": { "name": name, "namespace": teams.shop, "annotations": annotations },
                "spec": spec,
            }));
        }
    }
}

/// Returns port 80 of a Service.
pub fn service(name: &str) -> Value {
    json!({ "name": name, "port": 80 })
}
