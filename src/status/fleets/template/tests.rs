#![allow(clippy::unwrap_used)]

use lockgate_route::testing::objects::meta;

use super::*;

/// A template as the chart writes it, with the parts that fleets change.
pub fn template() -> Template {
    Template::new("lockgate", deployment()).unwrap()
}

fn deployment() -> Value {
    let labels = json!({ "app.kubernetes.io/name": "lockgate", "app.kubernetes.io/component": "fleet" });
    let spread = json!({ "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": labels } });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": "lockgate-fleet", "labels": labels },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "nodeSelector": { "pool": "edge" },
                    "topologySpreadConstraints": [spread],
                    "initContainers": [{ "name": "bootstrap", "args": ["bootstrap", "--max-heap=80"] }],
                    "containers": [
                        {
                            "name": "envoy",
                            "image": "envoy:1",
                            "args": ["--log-level", "info", "--concurrency", "2", "--drain"],
                            "resources": { "requests": { "cpu": "100m", "memory": "100Mi" }, "limits": { "memory": "1Gi" } },
                        },
                        { "name": "drain", "args": [] },
                    ],
                    "volumes": [{ "name": "certs", "secret": { "secretName": "lockgate-xds-fleets", "defaultMode": 288 } }],
                },
            },
        },
    })
}

pub fn gateway(name: &str) -> Meta {
    Meta { uid: format!("uid of {name}").as_str().into(), ..meta(name) }
}

fn pods(spec: Value) -> Value {
    let spec: EnvoyFleetSpec = serde_json::from_value(spec).unwrap();
    let deployment = template().deployment(&gateway("public"), &spec, &json!({ "name": "lockgate" }));
    deployment["spec"].clone()
}

#[test]
fn a_fleet_is_a_copy_of_the_template_with_its_identity() {
    let deployment =
        template().deployment(&gateway("public"), &EnvoyFleetSpec::default(), &json!({ "name": "lockgate" }));
    let name = deployment["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("lockgate-fleet-public-") && name.len() <= LABEL, "{name}");
    assert_eq!(deployment["metadata"]["namespace"], "lockgate", "not the namespace of the Gateway");
    assert_eq!(deployment["metadata"]["ownerReferences"], json!([{ "name": "lockgate" }]));
    assert_eq!(deployment["metadata"]["labels"][FLEETS], "lockgate-fleet");
    let spec = &deployment["spec"];
    assert_eq!(spec["replicas"], 2);
    for labels in [
        &spec["selector"]["matchLabels"],
        &spec["template"]["metadata"]["labels"],
        &spec["template"]["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"],
    ] {
        assert_eq!((&labels[FLEET], &labels["app.kubernetes.io/component"]), (&json!(name), &json!("fleet")));
    }
    let pod = &spec["template"]["spec"];
    let args = json!(["bootstrap", "--max-heap=80", "--node-cluster=fleet/shop/public"]);
    assert_eq!(pod["initContainers"][0]["args"], args);
    assert_eq!(pod["containers"], deployment_pod()["containers"], "the template sets the rest");
    let files = [("shop.public.crt", "tls.crt"), ("shop.public.key", "tls.key"), ("ca.crt", "ca.crt")];
    let files: Vec<Value> = files.iter().map(|(key, path)| json!({ "key": key, "path": path })).collect();
    let secret = json!({ "secretName": "lockgate-xds-fleets", "defaultMode": 288, "items": files });
    assert_eq!(pod["volumes"][0]["secret"], secret);
}

fn deployment_pod() -> Value {
    deployment()["spec"]["template"]["spec"].clone()
}

#[test]
fn an_envoy_fleet_changes_what_a_tenant_may_choose() {
    let spec = pods(json!({
        "replicas": 3,
        "concurrency": 4,
        "resources": { "limits": { "memory": "100" } },
        "nodeSelector": { "pool": "shop" },
        "tolerations": [{ "key": "shop", "operator": "Exists" }],
    }));
    let pod = &spec["template"]["spec"];
    assert_eq!((&spec["replicas"], &pod["nodeSelector"]), (&json!(3), &json!({ "pool": "shop" })));
    assert_eq!(pod["tolerations"], json!([{ "key": "shop", "operator": "Exists" }]));
    assert_eq!(pod["containers"][0]["args"], json!(["--log-level", "info", "--drain", "--concurrency", "4"]));
    let resources = json!({ "requests": { "cpu": "100m" }, "limits": { "memory": "100" } });
    assert_eq!(pod["containers"][0]["resources"], resources);
    assert_eq!(pod["initContainers"][0]["args"][2], "--max-heap=80", "80 % of the limit");

    let pod = pods(json!({ "resources": { "requests": { "memory": "1" }, "limits": { "cpu": "1500m" } } }));
    let pod = &pod["template"]["spec"];
    assert_eq!(pod["containers"][0]["args"][4], "2", "the CPU limit, rounded up");
    assert_eq!(pod["initContainers"][0]["args"][2], "--max-heap=0", "no limit of memory");
    assert_eq!(pod["nodeSelector"], json!({ "pool": "edge" }), "the node selector of the template");
}

#[test]
fn the_service_leads_to_the_pods_of_the_fleet() {
    let template = template();
    let service = template.service(&gateway("a.b"), &json!({}));
    let deployment = template.deployment(&gateway("a.b"), &EnvoyFleetSpec::default(), &json!({}));
    assert_eq!(service["spec"]["selector"], deployment["spec"]["selector"]["matchLabels"]);
    assert_eq!(service["spec"]["clusterIP"], "None");
    let name = service["metadata"]["name"].as_str().unwrap();
    assert!(lockgate_route::settings::is_label(name), "{name}");
    let long = template.key(&gateway(&"a".repeat(63)));
    assert!(lockgate_route::settings::is_label(&long.name), "{long}");
    // A Gateway that is deleted and created again has a different name.
    let again = Meta { uid: "other".into(), ..gateway("a.b") };
    assert_ne!(template.key(&again).name, template.key(&gateway("a.b")).name);
}

#[test]
fn a_template_without_the_parts_of_a_fleet_is_refused() {
    let without = |change: fn(&mut Value)| {
        let mut deployment = deployment();
        change(&mut deployment);
        Template::new("lockgate", deployment).unwrap_err()
    };
    assert_eq!(without(|one| one["kind"] = "Pod".into()), "kind: expected Deployment");
    let volumes = without(|one| one["spec"]["template"]["spec"]["volumes"] = json!([]));
    assert_eq!(volumes, "spec.template.spec.volumes: there is no \"certs\"");
}

#[test]
fn other_writers_may_add_fields_and_change_none() {
    let wanted = json!({ "spec": { "a": 1, "empty": {}, "list": [{ "name": "x", "b": 2 }], "args": ["1"] } });
    let mut is = json!({ "spec": { "a": 1, "more": 2, "list": [{ "name": "y" }, { "name": "x", "b": 2, "c": 3 }], "args": ["1"] } });
    assert!(has(&is, &wanted));
    is["spec"]["list"][1]["b"] = 3.into();
    assert!(!has(&is, &wanted));
    assert!(!has(&json!({ "spec": { "a": 1, "list": [], "args": ["1"] } }), &wanted));
    let amounts = |cpu: Value, memory: &str| json!({ "limits": { "cpu": cpu, "memory": memory } });
    assert!(has(&amounts("1".into(), "1Gi"), &amounts("1000m".into(), "1024Mi")));
    assert!(has(&amounts("500m".into(), "1Gi"), &amounts(json!(0.5), "1Gi")));
    assert!(!has(&amounts("1".into(), "1Gi"), &amounts("1".into(), "1G")));
    assert!(!has(&amounts("100m".into(), "1Gi"), &amounts("200m".into(), "1Gi")));
    let longer = json!({ "spec": { "a": 1, "list": [{ "name": "x", "b": 2 }], "args": ["1", "2"] } });
    assert!(!has(&longer, &wanted), "the order and the number of arguments matter");
}
