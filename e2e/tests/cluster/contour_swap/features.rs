//! HTTPProxies with a feature each.

use serde_json::{Value, json};

use super::objects::{Site, Teams, service};
use super::probes::Probe;

impl Site {
    /// Conditions, rewrites, redirects, direct responses, weights, and mirrors.
    pub(super) fn add_routes(&mut self, teams: &Teams) {
        let Teams { edge, shop, blog } = teams;
        let web = || [service("web")];
        let to = |service_name: &str, condition: Value| json!({ "conditions": [condition], "services": [service(service_name)] });
        let conditions = json!([
            { "services": web() },
            to("cart", json!({ "exact": "/exact" })),
            to("search", json!({ "regex": "/v[0-9]+/.*" })),
            to("cart", json!({ "header": { "name": "x-variant", "contains": "beta" } })),
            to("search", json!({ "queryParameter": { "name": "q", "present": true } })),
        ]);
        self.plain(shop, "conditions", conditions);
        for path in ["/", "/exact", "/exact/more", "/v1/x", "/?q=shoes"] {
            self.get("conditions.example.com", path);
        }
        self.probes.push(Probe::http("conditions.example.com", "/").field("x-variant", "a-beta"));

        let replace = |prefix: &str, to: &str| json!({ "conditions": [{ "prefix": prefix }], "services": web(), "pathRewritePolicy": { "replacePrefix": [{ "replacement": to }] } });
        self.plain(shop, "rewrite", json!([replace("/v1", "/api/v1"), replace("/old", "/"), { "services": web() }]));
        for path in ["/v1/users?id=1", "/old", "/old/page", "/other"] {
            self.get("rewrite.example.com", path);
        }

        let redirect = |policy: Value| json!([{ "requestRedirectPolicy": policy }]);
        self.plain(
            edge,
            "old",
            redirect(json!({ "hostname": "www.example.com", "scheme": "https", "statusCode": 301 })),
        );
        self.plain(edge, "moved", redirect(json!({ "path": "/new-place", "statusCode": 302 })));
        self.probes.extend([
            Probe::http("old.example.com", "/page?x=1").status(301),
            Probe::http("moved.example.com", "/page").status(302),
        ]);
        let direct =
            |path: &str, policy: Value| json!({ "conditions": [{ "prefix": path }], "directResponsePolicy": policy });
        let direct = json!([
            direct("/", json!({ "statusCode": 200, "body": "closed for today" })),
            direct("/gone", json!({ "statusCode": 410 }))
        ]);
        self.plain(blog, "direct", direct);
        self.get("direct.example.com", "/");
        self.probes.push(Probe::http("direct.example.com", "/gone/x").status(410));

        let weight = |name: &str, weight: u32| json!({ "name": name, "port": 80, "weight": weight });
        self.plain(shop, "canary", json!([{ "services": [weight("web", 90), weight("cart", 10)] }]));
        self.probes.push(Probe::http("canary.example.com", "/").any_service());
        self.plain(
            shop,
            "mirror",
            json!([{ "services": [service("web"), { "name": "search", "port": 80, "mirror": true }] }]),
        );
        self.get("mirror.example.com", "/");
    }

    /// Policies of routes.
    pub(super) fn add_policies(&mut self, teams: &Teams) {
        let Teams { edge, shop, blog } = teams;
        let mut with = |namespace: &str, name: &str, fields: Value| {
            let mut route = json!({ "services": [service("web")] });
            route.as_object_mut().expect("a route").extend(fields.as_object().expect("fields").clone());
            self.plain(namespace, name, json!([route]));
            self.get(&format!("{name}.example.com"), "/");
        };
        let set = |name: &str, value: &str| json!({ "name": name, "value": value });
        let headers = json!({
            "requestHeadersPolicy": { "set": [set("x-team", "shop"), set("x-agent", "%REQ(x-client)%")], "remove": ["x-secret"] },
            "responseHeadersPolicy": { "set": [set("x-served-by", "shop")], "remove": ["x-powered-by"] },
        });
        with(shop, "headers", headers);
        with(
            shop,
            "slow",
            json!({
                "timeoutPolicy": { "response": "10s", "idle": "30s" },
                "retryPolicy": { "count": 2, "perTryTimeout": "4s", "retryOn": ["5xx", "connect-failure"] },
            }),
        );
        with(blog, "websockets", json!({ "enableWebsockets": true }));
        with(
            edge,
            "limited",
            json!({ "rateLimitPolicy": { "local": { "requests": 100_000, "unit": "second", "burst": 1000 } } }),
        );
        with(shop, "sticky", json!({ "loadBalancerPolicy": { "strategy": "Cookie" } }));
        with(
            blog,
            "checked",
            json!({ "healthCheckPolicy": { "path": "/health", "intervalSeconds": 5, "timeoutSeconds": 2 } }),
        );
        with(
            blog,
            "cookies",
            json!({ "cookieRewritePolicies": [{ "name": "session", "secure": true, "sameSite": "Strict" }] }),
        );
        let cidr = |cidr: &str| json!({ "cidr": cidr, "source": "Peer" });
        with(edge, "internal", json!({ "ipAllowPolicy": [cidr("10.0.0.0/8"), cidr("fd00::/8")] }));
        let last = self.probes.iter_mut().find(|probe| probe.host == "headers.example.com").expect("a probe");
        *last = last.clone().field("x-client", "phone").field("x-secret", "s");
    }

    /// Virtual hosts with TLS and policies.
    pub(super) fn add_hosts(&mut self, teams: &Teams) {
        let Teams { edge, shop, blog } = teams;
        let routes = || json!([{ "services": [service("web")] }]);
        let cors = json!({ "corsPolicy": {
            "allowOrigin": ["https://www.example.com"], "allowMethods": ["GET", "POST"], "allowHeaders": ["x-token"], "maxAge": "10m",
        } });
        self.secure(teams, shop, "cors", &cors, routes());
        let preflight = Probe::https("cors.example.com", "/").method("OPTIONS");
        self.probes
            .push(preflight.field("origin", "https://www.example.com").field("access-control-request-method", "POST"));
        let limit = json!({ "rateLimitPolicy": { "local": { "requests": 100_000, "unit": "second" } } });
        self.secure(teams, blog, "limits", &limit, routes());
        self.secure(teams, shop, "modern", &json!({ "tls": { "minimumProtocolVersion": "1.3" } }), routes());
        let public =
            json!({ "conditions": [{ "prefix": "/public" }], "services": [service("cart")], "permitInsecure": true });
        self.secure(teams, edge, "mixed", &json!({}), json!([{ "services": [service("web")] }, public]));
        self.get("mixed.example.com", "/public/a");
        let spec = json!({
            "virtualhost": { "fqdn": "*.tenants.example.com", "tls": { "secretName": "tenants" } },
            "routes": routes(),
        });
        self.proxy(blog, "tenants", spec);
        for tenant in ["a", "b"] {
            self.probes.push(Probe::https(&format!("{tenant}.tenants.example.com"), "/"));
        }
    }
}
