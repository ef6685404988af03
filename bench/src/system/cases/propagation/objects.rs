//! The objects of the public benchmark: <https://github.com/howardjohn/gateway-api-bench>.

use serde_json::{Value, json};

/// The namespace of backends and routes.
pub(super) const NAMESPACE: &str = "default";
/// The namespace of the Gateway.
pub(super) const GATEWAY_NAMESPACE: &str = "gateway";
/// The name of the Gateway.
pub(super) const GATEWAY: &str = "gateway";
/// The host of the route that changes.
pub(super) const CHANGING_HOST: &str = "route.example.com";

/// The kind of the routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    HttpRoute,
    Ingress,
}

impl Kind {
    pub const ALL: [Self; 2] = [Self::HttpRoute, Self::Ingress];

    /// Returns the name in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::HttpRoute => "HTTPRoute",
            Kind::Ingress => "Ingress",
        }
    }

    /// Returns the path of all routes of a namespace.
    pub fn path(self, namespace: &str) -> String {
        match self {
            Kind::HttpRoute => format!("/apis/gateway.networking.k8s.io/v1/namespaces/{namespace}/httproutes"),
            Kind::Ingress => format!("/apis/networking.k8s.io/v1/namespaces/{namespace}/ingresses"),
        }
    }

    /// Returns route number `index` of the test `probe`: `/INDEX` leads to the backend, and all other paths to a Service that does
    /// not exist. An Ingress has no filters.
    pub fn probed(self, index: usize, class: &str) -> Value {
        let name = format!("{index}-route");
        let path = format!("/{index}");
        match self {
            Kind::Ingress => {
                let path = |path: &str, service: &str| {
                    let service = json!({ "name": service, "port": { "number": 80 } });
                    json!({ "path": path, "pathType": "Prefix", "backend": { "service": service } })
                };
                let paths = json!([path(&format!("/{index}"), "backend"), path("/", "invalid-backend")]);
                ingress(&name, &host(index), class, &paths)
            }
            Kind::HttpRoute => {
                let add = |name: &str, value: &str| json!({ "add": [{ "name": name, "value": value }] });
                let rule = |path: &str, service: &str| {
                    json!({
                        "backendRefs": [{ "name": service, "port": 80 }],
                        "filters": [
                            {
                                "type": "RequestHeaderModifier",
                                "requestHeaderModifier": add("added-header", "added-value"),
                            },
                            {
                                "type": "ResponseHeaderModifier",
                                "responseHeaderModifier": add("added-resp-header", "added-resp-value"),
                            },
                        ],
                        "matches": [{ "path": { "type": "PathPrefix", "value": path } }],
                    })
                };
                http_route(
                    NAMESPACE,
                    &name,
                    &host(index),
                    &json!([rule(&path, "backend"), rule("/", "invalid-backend")]),
                )
            }
        }
    }

    /// Returns the route of the test `routechange`: to one port of the backend with a filter, or to the other port without it.
    pub fn changed(self, first: bool, class: &str) -> Value {
        let port = if first { 80 } else { 8080 };
        match self {
            Kind::Ingress => {
                let service = json!({ "name": "backend", "port": { "number": port } });
                let path = json!({ "path": "/", "pathType": "Prefix", "backend": { "service": service } });
                ingress("route", CHANGING_HOST, class, &json!([path]))
            }
            Kind::HttpRoute => {
                let mut backend = json!({ "name": "backend", "port": port });
                if first {
                    let add = json!({ "add": [{ "name": "my-added-header", "value": "added-value" }] });
                    backend["filters"] = json!([{ "type": "ResponseHeaderModifier", "responseHeaderModifier": add }]);
                }
                http_route(NAMESPACE, "route", CHANGING_HOST, &json!([{ "backendRefs": [backend] }]))
            }
        }
    }
}

/// Returns the host of route number `index`.
pub(super) fn host(index: usize) -> String {
    format!("{index}-route.example.com")
}

/// Returns the name of application number `index` of the test `attachedroutes`.
pub(super) fn application(index: usize) -> String {
    format!("app-{index}")
}

/// Returns the HTTPRoute and the Service, which has no pods, of an application of the test `attachedroutes`.
pub(super) fn attached(namespace: &str, index: usize) -> [Value; 2] {
    let name = application(index);
    let rule = json!({
        "backendRefs": [{ "name": name, "port": 80 }],
        "matches": [{ "path": { "type": "PathPrefix", "value": format!("/{index}") } }],
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": name, "namespace": namespace },
        "spec": { "selector": { "app": name }, "ports": [{ "name": "http", "port": 80 }] },
    });
    [http_route(namespace, &name, &format!("{name}.example.com"), &json!([rule])), service]
}

/// Returns the backend: one pod with the ports 8080 and 8081, as the ports 80 and 8080 of a Service.
pub(super) fn backend() -> String {
    let container = |name: &str, port: u16, http2: u16| {
        let variable = |name: &str, value: &str| json!({ "name": name, "value": value });
        let ports = [variable("HTTP_PORT", &port.to_string()), variable("H2C_PORT", &http2.to_string())];
        let names = [variable("POD_NAME", "backend"), variable("NAMESPACE", NAMESPACE)];
        let variables = [ports, names].concat();
        let probe = json!({ "httpGet": { "path": "/health", "port": port } });
        json!({ "name": name, "image": "echo-basic", "env": variables, "readinessProbe": probe })
    };
    let labels = json!({ "app": "backend" });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "backend", "namespace": NAMESPACE },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [container("backend", 8080, 9080), container("alternative", 8081, 9081)] },
            },
        },
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "backend", "namespace": NAMESPACE },
        "spec": {
            "selector": labels,
            "ports": [
                { "name": "http", "port": 80, "targetPort": 8080 },
                { "name": "http-alt", "port": 8080, "targetPort": 8081 },
            ],
        },
    });
    list(&[deployment, service])
}

/// Returns the Gateway, in a namespace of its own, and its class.
pub(super) fn gateway(class: &str, controller: &str) -> String {
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": GATEWAY_NAMESPACE } });
    let class_of_gateways = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass",
        "metadata": { "name": class }, "spec": { "controllerName": controller },
    });
    let listener = json!({
        "name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": { "namespaces": { "from": "All" } },
    });
    let gateway = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": { "name": GATEWAY, "namespace": GATEWAY_NAMESPACE },
        "spec": { "gatewayClassName": class, "listeners": [listener] },
    });
    list(&[namespace, class_of_gateways, gateway])
}

fn list(items: &[Value]) -> String {
    json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string()
}

fn http_route(namespace: &str, name: &str, host: &str, rules: &Value) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": { "name": name, "namespace": namespace },
        "spec": {
            "parentRefs": [{ "name": GATEWAY, "namespace": GATEWAY_NAMESPACE }],
            "hostnames": [host],
            "rules": rules,
        },
    })
}

fn ingress(name: &str, host: &str, class: &str, paths: &Value) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": { "ingressClassName": class, "rules": [{ "host": host, "http": { "paths": paths } }] },
    })
}
