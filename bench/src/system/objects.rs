//! The objects of the cluster: Ingress, Service, and EndpointSlice; HTTPRoute, HTTPProxy, and HTTPPolicy. They differ only in names, hosts, and addresses.

use serde_json::{Value, json};

use super::names::{CLASS, NAMESPACE, TEAM, address, gateway, host, marked_address, marked_path, name};

/// A kind of object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `Service`.
    Service,
    /// `EndpointSlice`.
    EndpointSlice,
    /// `Ingress`.
    Ingress,
    /// `HTTPRoute`.
    HttpRoute,
    /// An `HTTPProxy` with a host, which includes another one.
    HttpProxy,
    /// The included `HTTPProxy`, in a namespace of its own.
    IncludedProxy,
    /// An `HTTPPolicy` with five features for an Ingress.
    Policy,
    /// The same for an `HTTPRoute`.
    RoutePolicy,
}

impl Kind {
    /// The kinds of a cluster with Ingresses, in the order of writes.
    pub const ALL: [Self; 3] = [Self::Service, Self::EndpointSlice, Self::Ingress];

    /// The kinds of a cluster with HTTPProxies, in the order of writes.
    pub const PROXIES: [Self; 2] = [Self::IncludedProxy, Self::HttpProxy];

    fn namespace(self) -> &'static str {
        if self == Kind::IncludedProxy { TEAM } else { NAMESPACE }
    }

    /// Returns the path of the kind at the API server.
    pub fn path(self) -> String {
        let namespace = self.namespace();
        let (group, plural) = match self {
            Kind::Service => ("api/v1", "services"),
            Kind::EndpointSlice => ("apis/discovery.k8s.io/v1", "endpointslices"),
            Kind::Ingress => ("apis/networking.k8s.io/v1", "ingresses"),
            Kind::HttpRoute => ("apis/gateway.networking.k8s.io/v1", "httproutes"),
            Kind::HttpProxy | Kind::IncludedProxy => ("apis/projectcontour.io/v1", "httpproxies"),
            Kind::Policy | Kind::RoutePolicy => ("apis/lockgate.dev/v1alpha1", "httppolicies"),
        };
        format!("/{group}/namespaces/{namespace}/{plural}")
    }

    /// Returns the prefix of the kind's keys in etcd.
    pub fn key(self) -> String {
        let place = match self {
            Kind::Service => "services/specs",
            Kind::EndpointSlice => "endpointslices",
            Kind::Ingress => "ingress",
            Kind::HttpRoute => "gateway.networking.k8s.io/httproutes",
            Kind::HttpProxy | Kind::IncludedProxy => "projectcontour.io/httpproxies",
            Kind::Policy | Kind::RoutePolicy => "lockgate.dev/httppolicies",
        };
        format!("/registry/{place}/{}/", self.namespace())
    }

    /// Returns object number `index` as a user writes it.
    pub fn object(self, index: usize) -> Value {
        match self {
            Kind::Service => service(index),
            Kind::EndpointSlice => slice(index, [address(index, 0), address(index, 1)], 8080),
            Kind::Ingress => ingress(index, index, None),
            Kind::HttpRoute => route(index, index, &gateway(index)),
            Kind::HttpProxy => proxy(index),
            Kind::IncludedProxy => included_proxy(index, "/"),
            Kind::Policy => policy(index, "/"),
            Kind::RoutePolicy => route_policy(index),
        }
    }
}

/// Returns HTTPRoute number `index` of a Gateway, with the host of that number and the Service number `backend`.
pub fn route(index: usize, backend: usize, gateway: &str) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": { "name": name(index), "namespace": NAMESPACE },
        "spec": {
            "parentRefs": [{ "name": gateway }],
            "hostnames": [host(index)],
            "rules": [{
                "matches": [{ "path": { "type": "PathPrefix", "value": "/" } }],
                "backendRefs": [{ "name": name(backend), "port": 80 }],
            }],
        },
    })
}

/// Returns HTTPProxy number `index` with the host of that number, which includes the one of that number.
pub fn proxy(index: usize) -> Value {
    json!({
        "apiVersion": "projectcontour.io/v1", "kind": "HTTPProxy",
        "metadata": { "name": name(index), "namespace": NAMESPACE },
        "spec": {
            "ingressClassName": CLASS,
            "virtualhost": { "fqdn": host(index) },
            "includes": [{ "name": name(index), "namespace": TEAM, "conditions": [{ "prefix": "/team" }] }],
            "routes": [{ "services": [{ "name": name(index), "port": 80 }] }],
        },
    })
}

/// Returns the included HTTPProxy number `index`, whose route redirects to a path.
pub fn included_proxy(index: usize, path: &str) -> Value {
    json!({
        "apiVersion": "projectcontour.io/v1", "kind": "HTTPProxy",
        "metadata": { "name": name(index), "namespace": TEAM },
        "spec": {
            "ingressClassName": CLASS,
            "routes": [{ "requestRedirectPolicy": { "path": path } }],
        },
    })
}

/// Returns the HTTPPolicy of Ingress number `index`, with five features. A path is in a response header.
pub fn policy(index: usize, path: &str) -> Value {
    json!({
        "apiVersion": "lockgate.dev/v1alpha1", "kind": "HTTPPolicy",
        "metadata": { "name": name(index), "namespace": NAMESPACE },
        "spec": {
            "targetRefs": [{ "group": "networking.k8s.io", "kind": "Ingress", "name": name(index) }],
            "clientAddresses": { "deny": ["192.0.2.0/24"] },
            "localRateLimit": { "requests": 100, "unit": "second" },
            "cors": { "allowOrigins": ["https://shop.example.com"] },
            "maxRequestBody": "1MiB",
            "responseHeaders": { "set": [{ "name": "x-bench", "value": path }] },
        },
    })
}

/// Returns the HTTPPolicy of HTTPRoute number `index`, with the same features.
fn route_policy(index: usize) -> Value {
    let mut policy = policy(index, "/");
    let target = json!({ "group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": name(index) });
    policy["spec"]["targetRefs"] = json!([target]);
    policy
}

/// Returns a class and `count` Gateways with a listener on port 80.
pub fn gateways(class: &str, controller: &str, count: usize) -> String {
    let class_of_gateways = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass",
        "metadata": { "name": class }, "spec": { "controllerName": controller },
    });
    let one = |index| {
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
            "metadata": { "name": gateway(index), "namespace": NAMESPACE },
            "spec": {
                "gatewayClassName": class,
                "listeners": [{ "name": "http", "port": 80, "protocol": "HTTP" }],
            },
        })
    };
    let items: Vec<Value> = std::iter::once(class_of_gateways).chain((0..count).map(one)).collect();
    json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string()
}

/// The number of Secrets that the hosts of a cluster with TLS share.
pub const SECRETS: usize = 10;

/// Returns the name of the Secret of a host with TLS.
pub fn secret(index: usize) -> String {
    format!("tls-{}", index % SECRETS)
}

/// Returns Service number `index`, which is headless because nothing uses its address.
fn service(index: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": name(index), "namespace": NAMESPACE, "labels": { "app": name(index) } },
        "spec": {
            "clusterIP": "None", "selector": { "app": name(index) },
            "ports": [{ "name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP" }],
        },
    })
}

/// Returns the EndpointSlice of Service number `index`.
pub fn slice(index: usize, addresses: [String; 2], port: u16) -> Value {
    let endpoint = |(number, address): (usize, String)| {
        json!({
            "addresses": [address], "nodeName": "node", "zone": "zone",
            "conditions": { "ready": true, "serving": true, "terminating": false },
            "targetRef": { "kind": "Pod", "name": format!("{}-{number}", name(index)), "namespace": NAMESPACE },
        })
    };
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": name(index), "namespace": NAMESPACE,
            "labels": { "kubernetes.io/service-name": name(index), "app": name(index) },
        },
        "addressType": "IPv4",
        "endpoints": addresses.into_iter().enumerate().map(endpoint).collect::<Vec<_>>(),
        "ports": [{ "name": "http", "port": port, "protocol": "TCP" }],
    })
}

/// Returns the EndpointSlice after a change with a number.
pub fn changed_slice(index: usize, change: usize) -> Value {
    slice(index, [marked_address(change), address(index, 1)], 8080)
}

/// Returns Ingress number `index` with TLS, after a numbered change of its path.
pub fn edited_ingress(index: usize, change: usize) -> Value {
    let mut ingress = ingress(index, index, Some(&secret(index)));
    let path = &mut ingress["spec"]["rules"][0]["http"]["paths"][0];
    path["path"] = marked_path(change).into();
    path["pathType"] = "Exact".into();
    ingress
}

/// Returns Ingress number `index` with the host of that number, the Service number `backend`, and TLS from a Secret.
pub fn ingress(index: usize, backend: usize, secret: Option<&str>) -> Value {
    let service = json!({ "name": name(backend), "port": { "name": "http" } });
    let mut ingress = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": { "name": name(index), "namespace": NAMESPACE },
        "spec": {
            "ingressClassName": CLASS,
            "rules": [{
                "host": host(index),
                "http": { "paths": [{ "path": "/", "pathType": "Prefix", "backend": { "service": service } }] },
            }],
        },
    });
    if let Some(secret) = secret {
        ingress["spec"]["tls"] = json!([{ "hosts": [host(index)], "secretName": secret }]);
    }
    ingress
}
