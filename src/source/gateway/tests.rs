#![allow(clippy::unwrap_used, clippy::panic)]

use lockgate_route::objects::gateway::{
    BackendTlsPolicy, Feature, HttpPolicy, Lenient, TcpRoute, TlsRoute, UdpRoute, XBackendTrafficPolicy,
};
use lockgate_route::objects::gateway::{HttpRoute, HttpRouteSpec};
use lockgate_route::objects::{ForeignPolicy, Misencoded, Namespace, ObjectKey, Service};
use serde_json::json;

use super::*;
use crate::source::cluster::custom::reduced::reduce;
use crate::source::kinds::{ROWS, from_value};

/// Decodes the object `shop/a` of Gateway API.
fn object(version: &str, kind: &str, spec: Value) -> Result<Object, String> {
    let value = json!({
        "apiVersion": format!("gateway.networking.k8s.io/{version}"), "kind": kind, "spec": spec,
        "metadata": {"name": "a", "namespace": "shop", "resourceVersion": "7", "generation": 2},
    });
    from_value(value, &ROWS).map(Option::unwrap).map_err(|fault| fault.to_string())
}

fn fault(kind: &str, spec: Value) -> String {
    object("v1", kind, spec).unwrap_err()
}

#[test]
fn every_served_version_is_decoded() {
    for version in ["v1", "v1beta1"] {
        let class = object(version, "GatewayClass", json!({"controllerName": "example.com/edge"})).unwrap();
        let class: &GatewayClass = class.get().unwrap();
        assert_eq!((&class.meta.key, &*class.spec.controller_name), (&ObjectKey::new("", "a"), "example.com/edge"));
        assert_eq!((&*class.version, class.meta.generation), ("7", 2));

        let listener = json!({"name": "web", "port": 443, "protocol": "HTTPS", "hostname": "*.example.com",
            "tls": {"certificateRefs": [{"name": "pair"}]},
            "allowedRoutes": {"namespaces": {"from": "Selector", "selector": {"matchLabels": {"team": "shop"}}}}});
        let spec = json!({"gatewayClassName": "edge", "listeners": [listener], "addresses": [{"value": "192.0.2.1"}],
            "infrastructure": {"labels": {"team": "edge"}}});
        let gateway = object(version, "Gateway", spec).unwrap();
        let gateway: &Gateway = gateway.get().unwrap();
        assert_eq!((&gateway.meta.key, &*gateway.version), (&ObjectKey::new("shop", "a"), "7"));
        let listener = &gateway.spec.listeners[0];
        assert_eq!((&*listener.name, listener.port, &*listener.protocol), ("web", 443, "HTTPS"));
        assert_eq!(listener.tls.as_ref().unwrap().certificate_refs[0].name, "pair");
        assert_eq!(gateway.spec.infrastructure.as_ref().unwrap().labels["team"], "edge");

        let backend = json!({"name": "cart", "port": 80, "weight": 3, "filters": [{"type": "RequestHeaderModifier",
            "requestHeaderModifier": {"set": [{"name": "a", "value": "b"}]}}]});
        let rule = json!({"matches": [{"path": {"value": "/cart"}, "queryParams": [{"name": "q", "value": "1"}]}],
            "backendRefs": [backend], "timeouts": {"backendRequest": "1s"}});
        let spec = json!({"parentRefs": [{"name": "edge", "sectionName": "web"}], "hostnames": ["a.example.com"],
            "rules": [rule, {}]});
        let route = object(version, "HTTPRoute", spec).unwrap();
        let HttpRoute { spec, version: resource_version, .. } = route.get().unwrap();
        assert_eq!((&**resource_version, spec.parent_refs[0].section_name.as_deref()), ("7", Some("web")));
        let rules = spec.rules.as_ref().unwrap();
        let backend = &rules[0].backend_refs[0];
        assert_eq!((&*backend.backend.name, backend.backend.port, backend.backend.weight), ("cart", Some(80), Some(3)));
        assert_eq!(backend.filters[0].request_header_modifier.as_ref().unwrap().set[0].value, "b");
        assert_eq!((rules[0].matches[0].query_params[0].name.as_str(), &rules[1]), ("q", &HttpRouteRule::default()));

        let from = json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "web"});
        let grant = json!({"from": [from], "to": [{"group": "", "kind": "Service"}]});
        let grant = object(version, "ReferenceGrant", grant).unwrap();
        let grant: &ReferenceGrant = grant.get().unwrap();
        assert_eq!((&*grant.spec.from[0].namespace, &grant.spec.to[0].name), ("web", &None));
    }
    let other = json!({"apiVersion": "gateway.networking.k8s.io/v1alpha2", "kind": "HTTPRoute"});
    assert_eq!(from_value(other, &ROWS).unwrap(), None);
}

#[test]
fn unset_fields_have_no_defaults() {
    let route = object("v1", "HTTPRoute", json!({"parentRefs": null, "hostnames": null, "rules": []})).unwrap();
    let route: &HttpRoute = route.get().unwrap();
    assert_eq!(route.spec, HttpRouteSpec { rules: Some(Vec::new()), ..HttpRouteSpec::default() });
    let listener = json!({"name": "web", "port": 80, "protocol": "HTTP"});
    let gateway = object("v1", "Gateway", json!({"gatewayClassName": "edge", "listeners": [listener]})).unwrap();
    let listener = &gateway.get::<Gateway>().unwrap().spec.listeners[0];
    assert_eq!((&listener.hostname, &listener.tls, &listener.allowed_routes), (&None, &None, &None));
}

#[test]
fn a_manifest_that_the_api_server_would_reject_is_refused() {
    assert_eq!(fault("GatewayClass", json!({})), "GatewayClass a: spec.controllerName: missing");
    let gateway = |listener: Value| fault("Gateway", json!({"gatewayClassName": "edge", "listeners": [listener]}));
    let listener = json!({"name": "web", "port": 80, "protocol": "HTTP"});
    let without = |field: &str| {
        let mut listener = listener.clone();
        listener.as_object_mut().unwrap().remove(field);
        gateway(listener)
    };
    for field in ["name", "port", "protocol"] {
        assert_eq!(without(field), format!("Gateway shop/a: spec.listeners[0].{field}: missing"));
    }
    for spec in [json!({"gatewayClassName": null}), json!({"gatewayClassName": ""}), json!({})] {
        assert_eq!(fault("Gateway", spec), "Gateway shop/a: spec.gatewayClassName: missing");
    }
    let port = json!({"name": "web", "port": 70000, "protocol": "HTTP"});
    assert_eq!(gateway(port), "Gateway shop/a: spec.listeners[0].port: 70000 is not between 1 and 65535");
    let twice = fault("Gateway", json!({"gatewayClassName": "edge", "listeners": [listener.clone(), listener]}));
    assert_eq!(twice, "Gateway shop/a: spec.listeners[1].name: \"web\" is the name of another listener");

    let parent = fault("HTTPRoute", json!({"parentRefs": [{"name": "a"}, {"namespace": "b"}]}));
    assert_eq!(parent, "HTTPRoute shop/a: spec.parentRefs[1].name: missing");
    let backend = fault("HTTPRoute", json!({"rules": [{}, {"backendRefs": [{"name": "b", "port": 0}]}]}));
    assert_eq!(backend, "HTTPRoute shop/a: spec.rules[1].backendRefs[0].port: 0 is not between 1 and 65535");
    let wrong_type = fault("HTTPRoute", json!({"rules": [{"matches": [{"method": 7}]}]}));
    let expected = "HTTPRoute shop/a: spec.rules[0].matches[0].method: invalid type: integer \"7\", expected a string";
    assert_eq!(wrong_type, expected);

    let grant = |from: Value, to: Value| fault("ReferenceGrant", json!({"from": [from], "to": [to]}));
    let from = json!({"group": "", "kind": "HTTPRoute", "namespace": "web"});
    assert_eq!(grant(from, json!({"group": ""})), "ReferenceGrant shop/a: spec.to[0].kind: missing");
    let everyone = json!({"group": "", "kind": "HTTPRoute", "namespace": ""});
    assert_eq!(grant(everyone, json!({})), "ReferenceGrant shop/a: spec.from[0].namespace: missing");
}

#[test]
fn a_malformed_object_of_the_api_server_is_reported_with_its_field() {
    let metadata = json!({"name": "a", "namespace": "shop", "resourceVersion": "7"});
    let text = json!({"metadata": metadata, "spec": {"rules": 7}}).to_string();
    let item = reduce::<Custom<HttpRouteSpec, RouteStatus>>(&text);
    assert_eq!((item.key, &*item.version), (ObjectKey::new("shop", "a"), "7"));
    let object = item.object.unwrap();
    let Misencoded { field, message, readable, .. } = object.get().unwrap();
    assert_eq!((field.as_str(), readable), ("spec.rules", &None));
    assert!(message.contains("integer \"7\""), "{message}");
}

#[test]
fn the_status_of_other_controllers_is_kept_for_its_writers() {
    let condition = json!({"type": "Accepted", "status": "True", "reason": "Accepted", "message": "",
        "observedGeneration": 2, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let parent = json!({"parentRef": {"name": "edge", "port": 80}, "controllerName": "example.com/other",
        "conditions": [condition]});
    let text = json!({"metadata": {"name": "a", "namespace": "shop"}, "status": {"parents": [parent]}}).to_string();
    let route = reduce::<Custom<HttpRouteSpec, RouteStatus>>(&text).object.unwrap();
    let parent = &route.get::<HttpRoute>().unwrap().status.parents[0];
    assert_eq!((&*parent.controller_name, parent.parent_ref.port), ("example.com/other", Some(80)));
    assert_eq!((parent.conditions[0].observed_generation, &*parent.conditions[0].status), (2, "True"));

    // Version 1.1 of Gateway API has texts, and later versions have objects.
    let text = json!({"metadata": {"name": "a"}, "spec": {"controllerName": "b"},
        "status": {"supportedFeatures": ["Gateway", {"name": "HTTPRoute"}, 7]}});
    let class = reduce::<Custom<GatewayClassSpec, GatewayClassStatus>>(&text.to_string()).object.unwrap();
    let features = ["Gateway", "HTTPRoute"].map(|name| Feature { name: name.into() });
    assert_eq!(class.get::<GatewayClass>().unwrap().status.supported_features, features);
}

/// Decodes a Service with these labels.
fn labeled_service(labels: Value) -> Option<GatewayService> {
    service_of_type(labels, "LoadBalancer")
}

fn service_of_type(labels: Value, kind: &str) -> Option<GatewayService> {
    let ports = json!([
        {"name": "udp-443", "port": 443, "targetPort": 10443, "protocol": "UDP"},
        {"name": "tcp-80", "port": 80, "targetPort": 10080},
        {"name": "same", "port": 81},
        {"name": "named", "port": 82, "targetPort": "web"},
        {"name": "sctp", "port": 83, "targetPort": 10083, "protocol": "SCTP"},
    ]);
    let value = json!({
        "apiVersion": "v1", "kind": "Service",
        "spec": {"type": kind, "ports": ports, "clusterIPs": ["10.96.0.9", "fd00::9"]},
        "metadata": {"name": "a", "namespace": "shop", "resourceVersion": "7", "labels": labels},
        "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP"}, {"hostname": "lb.example.com"}]}},
    });
    let object = from_value(value, &ROWS).unwrap().unwrap();
    object.get::<Service>().unwrap().gateway.as_deref().cloned()
}

#[test]
fn two_labels_make_the_service_of_a_gateway() {
    let service = labeled_service(json!({GATEWAY_NAME: "edge", MANAGED_BY: MANAGER})).unwrap();
    assert_eq!((&*service.name, &*service.version), ("edge", "7"));
    let expected = [(Transport::Tcp, 80, 10080), (Transport::Tcp, 81, 81), (Transport::Udp, 443, 10443)];
    assert_eq!(service.ports, expected);
    let addresses: Vec<_> = service.addresses.iter().map(|at| (at.ip.as_deref(), at.hostname.as_deref())).collect();
    assert_eq!(addresses, [(Some("192.0.2.1"), None), (None, Some("lb.example.com"))]);
    let inside = service_of_type(json!({GATEWAY_NAME: "edge", MANAGED_BY: MANAGER}), "ClusterIP").unwrap();
    let addresses: Vec<_> = inside.addresses.iter().map(|at| (at.ip.as_deref(), at.hostname.as_deref())).collect();
    assert_eq!(addresses, [(Some("10.96.0.9"), None), (Some("fd00::9"), None)], "without a load balancer");
    for labels in [json!({GATEWAY_NAME: "edge"}), json!({MANAGED_BY: MANAGER}), json!({}), json!(null)] {
        assert_eq!(labeled_service(labels), None);
    }
    assert_eq!(labeled_service(json!({GATEWAY_NAME: "edge", MANAGED_BY: "Helm"})), None);
}

#[test]
fn the_labels_of_a_namespace_are_shared_texts() {
    let namespace = |name: &str| {
        let metadata = json!({"name": name, "labels": {"team-of-this-test": "shop-of-this-test"}});
        let value = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        let object = from_value(value, &ROWS).unwrap().unwrap();
        object.get::<Namespace>().unwrap().labels.clone().into_iter().collect::<Vec<_>>()
    };
    let (a, b) = (namespace("a"), namespace("b"));
    assert_eq!((&*a[0].0, &*a[0].1), ("team-of-this-test", "shop-of-this-test"));
    assert!(Arc::ptr_eq(&a[0].0, &b[0].0) && Arc::ptr_eq(&a[0].1, &b[0].1));
}

#[test]
fn routes_of_connections_and_datagrams_are_decoded() {
    let spec = |hostnames: Value| {
        json!({"parentRefs": [{"name": "edge", "port": 53}], "hostnames": hostnames,
            "rules": [{"name": "all", "backendRefs": [{"name": "dns", "port": 53, "weight": 3}]}]})
    };
    for version in ["v1", "v1alpha2"] {
        let tcp = object(version, "TCPRoute", spec(Value::Null)).unwrap();
        let TcpRoute { spec: of_tcp, version: resource_version, .. } = tcp.get().unwrap();
        assert_eq!((&**resource_version, of_tcp.parent_refs[0].port), ("7", Some(53)));
        let udp = object(version, "UDPRoute", spec(Value::Null)).unwrap();
        let backend = &udp.get::<UdpRoute>().unwrap().spec.rules[0].backend_refs[0];
        assert_eq!((&*backend.name, backend.port, backend.weight), ("dns", Some(53), Some(3)));
        let tls = object(version, "TLSRoute", spec(json!(["a.test"]))).unwrap();
        assert_eq!(tls.get::<TlsRoute>().unwrap().spec.hostnames, ["a.test"]);
    }
    let nameless = json!({"rules": [{"backendRefs": [{"port": 1}]}]});
    for kind in ["TCPRoute", "UDPRoute", "TLSRoute"] {
        let fault = fault(kind, nameless.clone());
        assert!(fault.contains("spec.rules[0].backendRefs[0].name"), "{fault}");
    }
}

#[test]
fn a_policy_of_gateway_api_for_services_is_decoded() {
    let target = json!({"group": "", "kind": "Service", "name": "web", "sectionName": "http"});
    let retries =
        json!({"budget": {"percent": 20, "interval": "10s"}, "minRetryRate": {"count": 10, "interval": "1s"}});
    let session = json!({"type": "Cookie", "cookieConfig": {"lifetimeType": "Session"}});
    let spec = json!({"targetRefs": [target], "retryConstraint": retries, "sessionPersistence": session});
    let decoded = |spec: Value| {
        let json = json!({
            "apiVersion": "gateway.networking.x-k8s.io/v1alpha1", "kind": "XBackendTrafficPolicy",
            "metadata": {"name": "a", "namespace": "shop"}, "spec": spec,
        });
        from_value(json, &ROWS).map(Option::unwrap).map_err(|fault| fault.to_string())
    };
    let policy = decoded(spec).unwrap();
    let XBackendTrafficPolicy { spec, .. } = policy.get().unwrap();
    assert_eq!(spec.target_refs[0].section_name, None, "the API has no such field");
    let Some(Lenient::Valid(constraint)) = &spec.retry_constraint else { panic!("{spec:?}") };
    assert_eq!(constraint.budget.as_ref().and_then(|budget| budget.percent), Some(20));
    assert!(matches!(spec.session_persistence, Some(Lenient::Valid(_))));
    // A field that cannot be decoded does not hide the others.
    let odd = decoded(json!({"targetRefs": [{"group": "", "kind": "Service", "name": "web"}], "retryConstraint": 7}));
    let policy = odd.unwrap();
    let XBackendTrafficPolicy { spec, .. } = policy.get().unwrap();
    assert!(matches!(spec.retry_constraint, Some(Lenient::Invalid(_))));
    assert!(decoded(json!({"targetRefs": []})).is_err());
}

#[test]
fn a_backend_tls_policy_is_decoded() {
    let target = json!({"group": "", "kind": "Service", "name": "cart", "sectionName": "https"});
    let validation = json!({"caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "ca"}],
        "hostname": "cart.example.com", "subjectAltNames": [{"type": "URI", "uri": "spiffe://example.com/cart"}]});
    for version in ["v1", "v1alpha3"] {
        let policy =
            object(version, "BackendTLSPolicy", json!({"targetRefs": [target], "validation": validation})).unwrap();
        let BackendTlsPolicy { spec, version, .. } = policy.get().unwrap();
        let port = spec.target_refs[0].section_name.as_deref();
        assert_eq!((&**version, port, &*spec.validation.hostname), ("7", Some("https"), "cart.example.com"));
        assert_eq!(spec.validation.ca_certificate_refs[0].name, "ca");
        assert_eq!(spec.validation.subject_alt_names[0].uri, "spiffe://example.com/cart");
    }
    let system = json!({"targetRefs": [target], "validation": {"wellKnownCACertificates": "System", "hostname": "a"}});
    let policy = object("v1", "BackendTLSPolicy", system).unwrap();
    let BackendTlsPolicy { spec, .. } = policy.get().unwrap();
    assert_eq!(spec.validation.well_known_ca_certificates.as_deref(), Some("System"));
    let missing = json!({"targetRefs": [{"kind": "Service"}], "validation": validation});
    assert_eq!(fault("BackendTLSPolicy", missing), "BackendTLSPolicy shop/a: spec.targetRefs[0].name: missing");
    let no_name = json!({"targetRefs": [target], "validation": {}});
    assert_eq!(fault("BackendTLSPolicy", no_name), "BackendTLSPolicy shop/a: spec.validation.hostname: missing");
}

#[test]
fn the_group_of_a_namespace_is_empty() {
    let policy = |target: Value| {
        let spec = json!({"targetRefs": [target], "maxRequestBody": "1MiB"});
        let metadata = json!({"name": "a", "namespace": "shop"});
        let value =
            json!({"apiVersion": "lockgate.dev/v1alpha1", "kind": "HTTPPolicy", "metadata": metadata, "spec": spec});
        from_value(value, &ROWS).map(Option::unwrap).map_err(|fault| fault.to_string())
    };
    let object = policy(json!({"group": "", "kind": "Namespace", "name": "shop"})).unwrap();
    assert_eq!(object.get::<HttpPolicy>().unwrap().spec.target_refs[0].kind, "Namespace");
    let fault = policy(json!({"kind": "Namespace", "name": "shop"})).unwrap_err();
    assert_eq!(fault, "HTTPPolicy shop/a: spec.targetRefs[0].group: missing");
}

#[test]
fn the_tls_configuration_of_a_gateway_is_decoded() {
    let reference = json!({"group": "", "kind": "ConfigMap", "name": "ca", "namespace": "other"});
    let tls = json!({"backend": {"clientCertificateRef": {"name": "pair"}}, "frontend": {
        "default": {"validation": {"caCertificateRefs": [reference]}},
        "perPort": [{"port": 8443, "tls": {"validation": {"caCertificateRefs": [reference], "mode": "AllowInsecureFallback"}}}]}});
    let gateway = object("v1", "Gateway", json!({"gatewayClassName": "edge", "listeners": [], "tls": tls})).unwrap();
    let tls = gateway.get::<Gateway>().unwrap().spec.tls.clone().unwrap();
    assert_eq!(tls.backend.unwrap().client_certificate_ref.unwrap().name, "pair");
    let frontend = tls.frontend.unwrap();
    let default = frontend.default.validation.unwrap();
    assert_eq!((default.ca_certificate_refs[0].namespace.as_deref(), default.mode), (Some("other"), None));
    let of_port = &frontend.per_port[0];
    let mode = of_port.tls.validation.as_ref().unwrap().mode.as_deref();
    assert_eq!((of_port.port, mode), (8443, Some("AllowInsecureFallback")));
}

#[test]
fn policies_of_envoy_gateway_and_the_labels_of_their_targets_are_read() {
    let decoded = |api_version: &str, kind: &str, spec: Value| {
        let metadata = json!({"name": "a", "namespace": "shop", "labels": {"team": "front"}});
        let value = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec});
        from_value(value, &ROWS).unwrap().unwrap()
    };
    let target = json!([{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "a"}]);
    for (kind, spec, restricts) in [
        ("SecurityPolicy", json!({"targetRefs": target, "basicAuth": {"users": {"name": "b"}}}), true),
        ("SecurityPolicy", json!({"targetRefs": target, "cors": {}, "jwt": null}), false),
        ("ClientTrafficPolicy", json!({"targetRefs": target, "tls": {"clientValidation": {}}}), true),
        ("BackendTrafficPolicy", json!({"targetRefs": target}), false),
    ] {
        let object = decoded("gateway.envoyproxy.io/v1alpha1", kind, spec);
        let policy: &ForeignPolicy = object.get().unwrap();
        assert_eq!((policy.kind.as_str(), policy.restricts, policy.targets.len()), (kind, restricts, 1));
    }
    let labels = |kind: &str, spec: Value| decoded("gateway.networking.k8s.io/v1", kind, spec).meta().labels.len();
    assert_eq!(labels("HTTPRoute", json!({})), 1);
    assert_eq!(labels("Gateway", json!({"gatewayClassName": "edge"})), 1);
    assert_eq!(labels("GatewayClass", json!({"controllerName": "a.dev/b"})), 0, "no policy selects it");
}
