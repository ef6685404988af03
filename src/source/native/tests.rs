#![allow(clippy::unwrap_used, clippy::panic)]

use lockgate_route::objects::ObjectKey;
use serde_json::json;

use super::*;
use crate::source::decode::flatten;
use crate::source::kinds::{ROWS, from_value};

fn decoded(value: Value) -> Object {
    from_value(value, &ROWS).unwrap().unwrap()
}

fn fault(value: Value) -> String {
    from_value(value, &ROWS).unwrap_err().to_string()
}

#[test]
fn metadata_is_cut_down_and_filled_in() {
    let class = "kubernetes.io/ingress.class";
    let object = decoded(json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": "cart", "annotations": {
            class: "public", "projectcontour.io/num-retries": "2", "kubectl.kubernetes.io/last-applied-configuration": "{}",
        }, "managedFields": [{"manager": "kubectl"}]},
    }));
    let meta = object.meta();
    assert_eq!(meta.key, ObjectKey::new("default", "cart"));
    assert_eq!((meta.generation, meta.created), (0, i64::MAX));
    assert_eq!(meta.annotations.keys().collect::<Vec<_>>(), [class, "projectcontour.io/num-retries"]);

    let class = decoded(json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
        "metadata": {"name": "public", "namespace": "ignored", "generation": 3, "creationTimestamp": "1970-01-01T00:01:00Z"},
        "spec": {"controller": "lockgate.dev/ingress-controller"},
    }));
    assert_eq!(class.object_ref().to_string(), "IngressClass public");
    assert_eq!((class.meta().generation, class.meta().created), (3, 60));
}

#[test]
fn a_service_has_the_defaults_of_the_api_server() {
    let service = decoded(json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "cart", "namespace": "shop"},
        "spec": {"ports": [{"port": 80, "appProtocol": "kubernetes.io/h2c"}], "externalName": "ignored"},
    }));
    let service: &Service = service.get().unwrap();
    assert_eq!(service.external_name, None);
    assert_eq!((&*service.ports[0].protocol, &*service.ports[0].name), ("TCP", ""));
}

#[test]
fn an_endpoint_slice_has_the_defaults_of_its_conditions() {
    let slice = decoded(json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "cart-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "cart"}},
        "ports": [{"name": "http", "port": 8080}, {"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "all"},
            {"name": "sctp", "port": 9, "protocol": "SCTP"}],
        "endpoints": [
            {"addresses": ["10.0.0.1", "10.0.0.9"], "targetRef": {"kind": "Pod", "name": "a"}, "zone": "z"},
            {"addresses": ["10.0.0.2"], "conditions": {"ready": false}, "zone": "z".repeat(64)},
            {"addresses": ["10.0.0.3"], "conditions": {"ready": false, "serving": true, "terminating": true}},
        ],
    }));
    let slice: &EndpointSlice = slice.get().unwrap();
    assert_eq!(&*slice.service, "cart");
    assert_eq!(slice.ports, [("http".into(), Some(8080)), ("dns".into(), Some(53)), ("all".into(), None)]);
    let states: Vec<_> = slice.endpoints.iter().map(|e| (&*e.address, e.ready, e.serving, e.terminating)).collect();
    let expected =
        [("10.0.0.1", true, true, false), ("10.0.0.2", false, false, false), ("10.0.0.3", false, true, true)];
    assert_eq!(states, expected);
    assert_eq!(slice.endpoints[0].pod.as_deref(), Some("shop/a"));
    let zones: Vec<&str> = slice.endpoints.iter().map(|endpoint| &*endpoint.zone).collect();
    assert_eq!(zones, ["z", "", ""], "a text that is no zone is left out");
}

#[test]
fn secrets_are_checked_and_others_dropped() {
    let (crt, key) = (include_str!("../secret/tests/p256.crt"), include_str!("../secret/tests/p256-sec1.key"));
    let secret = |kind: &str, data: Value| {
        let value = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cert"}, "type": kind, "stringData": data,
        });
        let object = from_value(value, &ROWS).unwrap();
        object.map(|object| object.get::<Secret>().unwrap().clone())
    };
    let good = secret("kubernetes.io/tls", json!({"tls.crt": crt, "tls.key": key})).unwrap();
    assert_eq!((good.pair.as_ref().unwrap().names.as_slice(), &good.fault), (["a.test".to_string()].as_slice(), &None));
    let half = secret("Opaque", json!({"tls.crt": crt})).unwrap();
    assert_eq!((&half.pair, half.fault.as_deref()), (&None, Some("data[\"tls.key\"] is missing")));
    assert_eq!((&half.authorities, half.authorities_fault.as_deref()), (&None, Some("data[\"ca.crt\"] is missing")));
    let issuer = secret("Opaque", json!({"ca.crt": crt})).unwrap();
    assert_eq!((issuer.authorities.as_deref(), &issuer.authorities_fault), (Some(crt), &None));
    let all = json!({"ca.crt": crt, "tls.crt": crt, "tls.key": key});
    let all = secret("kubernetes.io/tls", all).unwrap();
    assert_eq!((&all.pair, &all.fault), (&good.pair, &None));
    assert!(Arc::ptr_eq(all.authorities.as_ref().unwrap(), issuer.authorities.as_ref().unwrap()), "not shared");
    let bad = secret("", json!({"ca.crt": key})).unwrap();
    let result = "data[\"ca.crt\"]: a private key is in it; it belongs into data[\"tls.key\"]";
    assert_eq!((&bad.authorities, bad.authorities_fault.as_deref()), (&None, Some(result)));
    assert_eq!(secret("Opaque", json!({"password": "x"})), None);
    assert_eq!(secret("helm.sh/release.v1", json!({"tls.crt": crt, "tls.key": key})), None);

    let broken_lines = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cert"},
        "data": {"tls.crt": "aGVs\nbG8=\n", "tls.key": ""},
    });
    let secret = decoded(broken_lines);
    let secret: &Secret = secret.get().unwrap();
    assert_eq!(secret.fault.as_deref(), Some("data[\"tls.crt\"]: no PEM block \"CERTIFICATE\" in it"));
}

#[test]
fn faults_name_the_field_and_the_object() {
    let ingress = |spec: Value| json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "cart"}, "spec": spec});
    let no_type = ingress(json!({"rules": [{"http": {"paths": [{"path": "/", "backend": {}}]}}]}));
    assert_eq!(fault(no_type), "Ingress default/cart: spec.rules[0].http.paths[0].pathType: missing");
    let text = ingress(json!({"defaultBackend": {"service": {"name": 7}}}));
    assert_eq!(
        fault(text),
        r#"Ingress default/cart: spec.defaultBackend.service.name: invalid type: integer "7", expected a string"#
    );
    assert_eq!(fault(json!(["a"])), r#"not a Kubernetes object: expected fields such as "apiVersion" and "kind""#);
    assert_eq!(
        fault(json!({"kind": "Ingress"})),
        r#"apiVersion: missing; a Kubernetes object has "apiVersion" and "kind""#
    );
    assert_eq!(fault(json!({"apiVersion": "v1", "kind": "Service", "metadata": {}})), "metadata.name: missing");
    let port =
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": [{"port": 0}]}});
    assert_eq!(fault(port), "Service default/a: spec.ports[0].port: 0 is not between 1 and 65535");
    let tls = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "type": "kubernetes.io/tls"});
    assert!(fault(tls).starts_with(r#"Secret default/a: data["tls.crt"]: missing"#));
    let text = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"tls.crt": "!"}});
    let expected =
        r#"Secret default/a: data["tls.crt"]: the value is not base64; the field stringData takes plain text"#;
    assert_eq!(fault(text), expected);
    let old = json!({"apiVersion": "extensions/v1beta1", "kind": "Ingress", "metadata": {"name": "a"}});
    assert!(fault(old).contains("networking.k8s.io/v1"));
}

#[test]
fn other_kinds_are_ignored_and_lists_are_flattened() {
    assert_eq!(from_value(json!({"apiVersion": "apps/v1", "kind": "Deployment"}), &ROWS).unwrap(), None);
    let item = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [
        item("a"), {"apiVersion": "v1", "kind": "NamespaceList", "items": [item("b")]},
    ]});
    let paths: Vec<_> =
        flatten(list).into_iter().map(|(path, value)| (path, decoded(value).meta().key.name.to_string())).collect();
    assert_eq!(paths, [("items[0]".to_string(), "a".to_string()), ("items[1].items[0]".into(), "b".into())]);
    assert_eq!(flatten(item("a")).len(), 1);
}

#[test]
fn a_config_map_has_validated_authorities_or_is_not_stored() {
    let config_map = |data: Value| {
        let value = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ca", "namespace": "shop"}, "data": data});
        from_value(value, &ROWS).unwrap()
    };
    assert_eq!(config_map(json!({"config.yaml": "a"})), None);
    assert_eq!(config_map(Value::Null), None);
    let authorities = |text: &str| {
        let object = config_map(json!({"ca.crt": text, "other": "b"})).unwrap();
        object.get::<ConfigMap>().unwrap().authorities.clone()
    };
    assert_eq!(authorities("").unwrap_err().as_ref(), "data[\"ca.crt\"]: empty");
    assert_eq!(authorities("pem").unwrap_err().as_ref(), "data[\"ca.crt\"]: no PEM block \"CERTIFICATE\" in it");
    let made = rcgen::generate_simple_self_signed(["ca.test".to_owned()]).unwrap().cert.pem();
    let text = authorities(&format!("comment\n{made}{made}")).unwrap();
    assert_eq!(text.matches("BEGIN CERTIFICATE").count(), 1, "each once, without comments");
}
