#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use lockgate_route::testing::gateway::gateway_service;
use lockgate_route::testing::objects::slice;

use super::*;
use crate::source::kinds::{ROWS, from_value};

const US: &str = "lockgate/ingress/lockgate";

fn wanted() -> DesiredService {
    DesiredService {
        key: ObjectKey::new("shop", "public-lockgate"),
        gateway: "public".into(),
        uid: "g".into(),
        class: "lockgate".into(),
        labels: [("team".to_owned(), "shop".to_owned())].into(),
        annotations: [("size".to_owned(), "small".to_owned())].into(),
        ports: vec![(Transport::Tcp, 80, 10_080), (Transport::Udp, 443, 10_443)],
        address: None,
        fleet: None,
        dedicated: None,
        draining: false,
    }
}

/// Returns the Service as the API server has it after its creation by `US`.
fn created(wanted: &DesiredService) -> core::Service {
    let mut is = wanted.object();
    is["metadata"]["resourceVersion"] = "7".into();
    is["metadata"]["uid"] = "s".into();
    let owned = |map: &Value| map.as_object().unwrap().keys().map(|key| (format!("f:{key}"), json!({}))).collect();
    let labels: Map<String, Value> = owned(&is["metadata"]["labels"]);
    let annotations: Map<String, Value> = owned(&is["metadata"]["annotations"]);
    let fields = json!({ "f:metadata": { "f:labels": labels, "f:annotations": annotations } });
    is["metadata"]["managedFields"] =
        json!([{ "manager": US, "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": fields }]);
    is["spec"]["clusterIP"] = "10.96.0.1".into();
    serde_json::from_value(is).expect("a Service")
}

#[test]
fn a_new_service_has_labels_an_owner_and_no_selector() {
    let mut wanted = wanted();
    wanted.labels.insert(GATEWAY_NAME.into(), "another".into());
    wanted.address = Some("192.0.2.9".into());
    let object = wanted.object();
    let labels = json!({
        "team": "shop",
        "app.kubernetes.io/managed-by": "lockgate",
        "gateway.networking.k8s.io/gateway-name": "public",
        "gateway.networking.k8s.io/gateway-class-name": "lockgate",
    });
    assert_eq!(object["metadata"]["labels"], labels, "the owner of the Gateway cannot replace ours");
    let owner = json!({ "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "name": "public", "uid": "g", "controller": true });
    assert_eq!(object["metadata"]["ownerReferences"], json!([owner]));
    let ports = json!([
        { "name": "tcp-80", "port": 80, "protocol": "TCP", "targetPort": 10_080 },
        { "name": "udp-443", "port": 443, "protocol": "UDP", "targetPort": 10_443 },
    ]);
    assert_eq!(object["spec"], json!({ "type": "LoadBalancer", "ports": ports, "loadBalancerIP": "192.0.2.9" }));
}

#[test]
fn an_equal_service_is_not_written() {
    let wanted = wanted();
    let mut is = created(&wanted);
    assert!(wanted.owns(&is));
    assert_eq!(wanted.patch(&is, US), None);
    // Other writers add what they like.
    is.metadata.labels.as_mut().unwrap().insert("other".into(), "1".into());
    is.spec.as_mut().unwrap().ports.as_mut().unwrap()[0].node_port = Some(30_080);
    is.spec.as_mut().unwrap().ports.as_mut().unwrap().reverse();
    assert_eq!(wanted.patch(&is, US), None);
}

#[test]
fn a_patch_has_the_differences_and_holds_for_one_version() {
    let before = wanted();
    let mut is = created(&before);
    is.metadata.labels.as_mut().unwrap().insert("other".into(), "1".into());
    let mut now = before.clone();
    now.labels = [("tier".to_owned(), "front".to_owned())].into();
    now.annotations.clear();
    now.ports.pop();
    now.address = Some("192.0.2.9".into());
    let expected = json!({
        "metadata": {
            "resourceVersion": "7",
            "labels": { "team": null, "tier": "front" },
            "annotations": { "size": null },
        },
        "spec": {
            "ports": [{ "name": "tcp-80", "port": 80, "protocol": "TCP", "targetPort": 10_080 }],
            "loadBalancerIP": "192.0.2.9",
        },
    });
    assert_eq!(now.patch(&is, US), Some(expected), "the label of another writer stays");
    // The request for an address is withdrawn, and the Gateway was created again.
    let mut is = created(&now);
    let fields = &mut is.metadata.managed_fields.as_mut().unwrap()[0].fields_v1.as_mut().unwrap().0;
    fields["f:spec"] = json!({ "f:loadBalancerIP": {} });
    let again = DesiredService { address: None, uid: "h".into(), ..now.clone() };
    let patch = again.patch(&is, US).expect("a patch");
    assert_eq!(patch["spec"], json!({ "loadBalancerIP": null }));
    let owners = patch["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!((owners.len(), &owners[0]["uid"]), (1, &json!("h")));
}

#[test]
fn an_envoy_fleet_states_how_the_service_is_exposed() {
    let fleet = |fleet: Value| {
        let fleet: FleetService = serde_json::from_value(fleet).expect("properties of a Service");
        DesiredService { fleet: Some(Box::new(fleet)), ..wanted() }
    };
    let local = fleet(json!({
        "externalTrafficPolicy": "Local", "loadBalancerClass": "a.test/b", "loadBalancerSourceRanges": ["192.0.2.0/24"],
    }));
    let spec = local.object()["spec"].clone();
    assert_eq!((&spec["externalTrafficPolicy"], &spec["loadBalancerClass"]), (&json!("Local"), &json!("a.test/b")));
    assert_eq!(spec["loadBalancerSourceRanges"], json!(["192.0.2.0/24"]));
    let mut is = created(&local);
    assert_eq!(local.patch(&is, US), None);
    assert_eq!(wanted().patch(&is, US), None, "without a fleet, other writers decide");

    // What another writer has written stays, and what we have written goes.
    let none = fleet(json!({}));
    assert_eq!(none.patch(&is, US), None);
    let fields = &mut is.metadata.managed_fields.as_mut().unwrap()[0].fields_v1.as_mut().unwrap().0;
    fields["f:spec"] =
        json!({ "f:externalTrafficPolicy": {}, "f:loadBalancerClass": {}, "f:loadBalancerSourceRanges": {} });
    let patch = none.patch(&is, US).expect("a patch");
    let expected = json!({ "externalTrafficPolicy": "Cluster", "loadBalancerSourceRanges": null });
    assert_eq!(patch["spec"], expected, "the class is immutable");
    let inside = fleet(json!({ "type": "ClusterIP" })).patch(&is, US).expect("a patch");
    assert_eq!(inside["spec"], json!({ "type": "ClusterIP", "loadBalancerSourceRanges": null }));
    let other = fleet(json!({ "type": "NodePort", "externalTrafficPolicy": "Local" }));
    let changed = wanted().patch(&created(&other), US).expect("a patch");
    assert_eq!(changed["spec"], json!({ "type": "LoadBalancer" }), "the Gateway has left the fleet");
}

#[test]
fn a_service_without_the_labels_is_not_ours() {
    let wanted = wanted();
    for label in [GATEWAY_NAME, MANAGED_BY.0] {
        let mut is = created(&wanted);
        is.metadata.labels.as_mut().unwrap().remove(label);
        assert!(!wanted.owns(&is), "{label}");
    }
}

#[test]
fn an_address_of_a_load_balancer_stays() {
    let wanted = wanted();
    let mut is = created(&wanted);
    is.spec.as_mut().unwrap().load_balancer_ip = Some("192.0.2.1".into());
    assert_eq!(wanted.patch(&is, US), None);
    assert!(DesiredObject::Service(wanted).matches(&observed(&is)));
}

/// Returns what the source reads of a Service.
fn observed(is: &core::Service) -> Object {
    let mut value = serde_json::to_value(is).expect("JSON");
    value["apiVersion"] = "v1".into();
    value["kind"] = "Service".into();
    from_value(value, &ROWS).unwrap().unwrap()
}

/// A Service that needs a patch is observed as different, and the others are not. Otherwise a change by another writer would stay, or
/// the leader would look at the Service again and again.
#[test]
fn a_service_is_observed_as_different_if_it_needs_a_patch() {
    let fleet: FleetService = serde_json::from_value(
        json!({ "externalTrafficPolicy": "Local", "loadBalancerSourceRanges": ["192.0.2.0/24"] }),
    )
    .expect("properties of a Service");
    let inside: FleetService = serde_json::from_value(json!({ "type": "ClusterIP" })).expect("properties of a Service");
    let of_fleet = |fleet| DesiredService { fleet: Some(Box::new(fleet)), ..wanted() };
    let all = [
        wanted(),
        DesiredService { address: Some("192.0.2.9".into()), ..wanted() },
        of_fleet(fleet),
        of_fleet(inside),
        of_fleet(FleetService::default()),
    ];
    let changes = [
        json!({ "type": "ClusterIP" }),
        json!({ "type": "NodePort" }),
        json!({ "externalTrafficPolicy": "Local" }),
        json!({ "externalTrafficPolicy": "Cluster" }),
        json!({ "loadBalancerIP": "192.0.2.1" }),
        json!({ "loadBalancerIP": "192.0.2.9" }),
        json!({ "loadBalancerSourceRanges": ["192.0.2.0/25"] }),
        json!({ "loadBalancerSourceRanges": ["192.0.2.0/24"] }),
        json!({ "selector": { "app": "shop" } }),
        json!({ "selector": {} }),
        json!({ "clusterIP": "10.96.0.9", "internalTrafficPolicy": "Local", "sessionAffinity": "ClientIP" }),
        json!({ "healthCheckNodePort": 30_000, "allocateLoadBalancerNodePorts": false }),
    ];
    let port = |name: &str, port: u16, target: u16| json!({ "name": name, "port": port, "targetPort": target, "protocol": "TCP" });
    let ports = [
        json!([port("tcp-80", 80, 10_080), port("udp-443", 443, 10_443)]),
        json!([port("web", 80, 10_080)]),
        json!([port("tcp-80", 80, 10_081)]),
        json!([port("tcp-80", 80, 10_080), { "name": "sctp", "port": 81, "targetPort": 81, "protocol": "SCTP" }]),
        json!([{ "name": "tcp-80", "port": 80, "targetPort": 10_080, "protocol": "TCP", "nodePort": 30_080 }]),
    ];
    let changes = changes.into_iter().chain(ports.map(|ports| json!({ "ports": ports })));
    let changes: Vec<Value> = changes.chain([json!({})]).collect();
    for wanted in all {
        let wanted = DesiredService { ports: vec![(Transport::Tcp, 80, 10_080)], ..wanted };
        for change in &changes {
            let mut is = serde_json::to_value(created(&wanted)).expect("JSON");
            let fields = change.as_object().expect("fields").iter();
            fields.for_each(|(field, value)| is["spec"][field] = value.clone());
            let is: core::Service = serde_json::from_value(is).expect("a Service");
            let is_right = DesiredObject::Service(wanted.clone()).matches(&observed(&is));
            assert_eq!(is_right, wanted.patch(&is, US).is_none(), "{change} of {wanted:?}");
        }
    }
}

#[test]
fn an_observed_service_is_compared_by_its_ports() {
    let mut wanted = wanted();
    wanted.ports = vec![(Transport::Tcp, 80, 10_080)];
    let content = DesiredObject::Service(wanted);
    assert!(content.matches(&gateway_service("public", &[(80, 10_080)])));
    assert!(!content.matches(&gateway_service("public", &[(80, 10_081)])));
    assert!(!content.matches(&gateway_service("public", &[(80, 10_080), (81, 10_081)])));
}

fn envoys() -> DesiredSlice {
    let endpoints: Object = slice("envoy", "envoy").ready("10.0.0.1").zone("a").node("n1").pod("infra/envoy-1").into();
    DesiredSlice {
        key: ObjectKey::new("shop", "public-lockgate-ipv4"),
        service: ("public-lockgate".into(), "s".into()),
        family: AddressType::Ipv4,
        ports: vec![(Transport::Tcp, 80, 10_080)],
        endpoints: endpoints.get::<EndpointSlice>().unwrap().endpoints.clone().into(),
    }
}

#[test]
fn an_endpoint_slice_leads_to_the_ports_of_envoy() {
    let object = envoys().object();
    assert_eq!(object["ports"], json!([{ "name": "tcp-80", "port": 10_080, "protocol": "TCP" }]));
    let endpoint = json!({
        "addresses": ["10.0.0.1"],
        "conditions": { "ready": true, "serving": true, "terminating": false },
        "zone": "a",
        "nodeName": "n1",
        "targetRef": { "kind": "Pod", "namespace": "infra", "name": "envoy-1" },
    });
    assert_eq!((&object["endpoints"], &object["addressType"]), (&json!([endpoint]), &json!("IPv4")));
    let labels = &object["metadata"]["labels"];
    assert_eq!(labels["kubernetes.io/service-name"], "public-lockgate");
    // The value of a label has no slash.
    assert_eq!(labels["endpointslice.kubernetes.io/managed-by"], "gateway-controller.lockgate.dev");
}

#[test]
fn an_endpoint_slice_is_patched_where_it_differs() {
    let mut wanted = envoys();
    let mut is: discovery::EndpointSlice = serde_json::from_value(wanted.object()).expect("an EndpointSlice");
    is.metadata.resource_version = Some("7".into());
    assert!(DesiredSlice::owns(&is));
    assert_eq!(wanted.patch(&is), None);
    wanted.endpoints = [SliceEndpoint { ready: false, ..wanted.endpoints[0].clone() }].into();
    let patch = wanted.patch(&is).expect("a patch");
    assert_eq!(patch["metadata"], json!({ "resourceVersion": "7" }));
    assert_eq!((patch["endpoints"][0]["conditions"]["ready"].clone(), patch.get("ports")), (json!(false), None));
    is.metadata.labels = None;
    assert!(!DesiredSlice::owns(&is));
}

#[test]
fn an_observed_endpoint_slice_is_compared_by_its_content() {
    let wanted = envoys();
    let observed = |port: u16, ready: bool| -> Object {
        let slice = slice("public-lockgate-ipv4", "public-lockgate").port("tcp-80", port);
        slice.endpoint("10.0.0.1", [ready, true, false]).zone("a").node("n1").pod("infra/envoy-1").into()
    };
    let content = DesiredObject::Slice(wanted);
    assert!(content.matches(&observed(10_080, true)));
    assert!(!content.matches(&observed(10_081, true)) && !content.matches(&observed(10_080, false)));
}

#[test]
fn an_observed_endpoint_slice_is_compared_by_its_ports_of_all_protocols() {
    let observed = |slice: &DesiredSlice| from_value(slice.object(), &ROWS).unwrap().unwrap();
    let tcp = envoys();
    let both = DesiredSlice { ports: vec![(Transport::Tcp, 80, 10_080), (Transport::Udp, 80, 10_081)], ..envoys() };
    let (of_tcp, of_both) = (observed(&tcp), observed(&both));
    let [tcp, both] = [tcp, both].map(DesiredObject::Slice);
    assert!(tcp.matches(&of_tcp) && both.matches(&of_both));
    assert!(!tcp.matches(&of_both) && !both.matches(&of_tcp));
}
