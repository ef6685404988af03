//! The status of Gateways and routes, and the Services in front of Gateways.

use e2e::manifests::{documents, gateway_definitions, service};
use e2e::{ApiServer, Envoy, Lockgate, Mode, Source, Target, wait_until};
use serde_json::{Value, json};

use super::{get, is_leader};

const KINDS: [&str; 4] = ["gatewayclasses", "gateways", "httproutes", "referencegrants"];

/// Returns the CustomResourceDefinitions of Gateway API from the official module.
pub(super) async fn definitions() -> String {
    gateway_definitions(&KINDS).await
}

pub(super) const CLASS: &str = "{ apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: { name: edge }, \
                     spec: { controllerName: example.com/gateways } }\n";

/// A Gateway with HTTP listeners on these ports.
pub(super) fn gateway(name: &str, ports: &[u16]) -> String {
    let listener = |port: &u16| format!("{{ name: http-{port}, port: {port}, protocol: HTTP }}");
    let listeners = ports.iter().map(listener).collect::<Vec<_>>().join(", ");
    format!(
        "{{ apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {{ name: {name}, namespace: default }}, \
         spec: {{ gatewayClassName: edge, listeners: [{listeners}], infrastructure: {{ labels: {{ team: shop }} }} }} }}\n"
    )
}

/// An HTTPRoute that answers 301.
pub(super) const ROUTE: &str = "{ apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: { name: cart, namespace: default }, \
                     spec: { parentRefs: [{ name: public }], hostnames: [cart.test], rules: [{ filters: [{ \
                     type: RequestRedirect, requestRedirect: { scheme: https, statusCode: 301 } }] }] } }\n";

/// Starts a controller with its own GatewayClass.
pub(super) async fn start(server: &ApiServer) -> Lockgate {
    start_as(server, "admin").await
}

/// Starts it as a user of the API server.
async fn start_as(server: &ApiServer, user: &str) -> Lockgate {
    let kubeconfig = server.kubeconfig(user).display().to_string();
    let settings = "xds: { address: '127.0.0.1:XDS' }\nadmin: { address: '127.0.0.1:ADMIN' }\n\
                    leaderElection: { enabled: true }\nlisteners: { http: { port: HTTP_PORT }, https: { port: HTTPS_PORT }, \
                    stats: { port: STATS } }\ngateway: { controller: example.com/gateways }\n\
                    status: { envoyService: default/envoy }\n";
    let mut lockgate = Lockgate::launch_by_file(&["--kubeconfig", &kubeconfig], settings);
    lockgate.wait_ready().await;
    wait_until("the replica to lead", async || is_leader(&lockgate).await).await;
    lockgate
}

/// An object, or null if it does not exist.
pub(super) async fn find(server: &ApiServer, kind: &str, name: &str) -> Value {
    let list = get(server, &[kind]).await;
    let items = list["items"].as_array().cloned().unwrap_or_default();
    items.into_iter().find(|item| item["metadata"]["name"] == name).unwrap_or_default()
}

/// The ports of a Service: port and target port.
pub(super) fn ports(service: &Value) -> Vec<(u64, u64)> {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    ports.map(|port| (port["port"].as_u64().unwrap_or(0), port["targetPort"].as_u64().unwrap_or(0))).collect()
}

/// Status, reason, and message of a condition.
pub(super) fn condition(object: &Value, name: &str) -> String {
    let conditions = object["conditions"].as_array().into_iter().flatten();
    let one = conditions.into_iter().find(|one| one["type"] == name).cloned().unwrap_or_default();
    ["status", "reason", "message"].map(|field| one[field].as_str().unwrap_or_default().to_owned()).join(" ")
}

pub(super) async fn until_programmed(server: &ApiServer, name: &str, expected: &str) -> Value {
    wait_until(&format!("Programmed {expected}"), async || {
        condition(&find(server, "gateways", name).await["status"], "Programmed").starts_with(expected)
    })
    .await;
    find(server, "gateways", name).await
}

/// Simulates a load balancer.
pub(super) async fn assign(server: &ApiServer, service: &str, address: &str) {
    let status = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": address }] } } }).to_string();
    server.kubectl(&["patch", "service", service, "--subresource=status", "--type=merge", "-p", &status], "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_gets_a_service_an_address_and_a_status() {
    let server = ApiServer::start().await;
    server.kubectl(&["create", "-f", "-"], &definitions().await).await;
    let envoys = service("envoy", "", &["192.0.2.1:8080".parse().expect("an address")]);
    let taken = service("taken-edge", "", &[]);
    wait_until("the kinds of Gateway API", async || {
        server.kubectl(&["api-resources"], "").await.contains("httproutes")
    })
    .await;
    server.apply(&documents(&[CLASS.into(), envoys, taken, gateway("public", &[80]), gateway("taken", &[80])])).await;
    server.apply(ROUTE).await;
    let foreign = find(&server, "services", "taken-edge").await;
    let mut lockgate = start(&server).await;

    // The Service has ports of Envoy and no selector. The EndpointSlice contains the Envoys.
    until_programmed(&server, "public", "False AddressNotAssigned").await;
    let created = find(&server, "services", "public-edge").await;
    let [(80, target)] = ports(&created)[..] else { panic!("{created}") };
    assert!((10_000..30_000).contains(&target), "{target}");
    assert_eq!((&created["spec"]["type"], &created["spec"]["selector"]), (&json!("LoadBalancer"), &Value::Null));
    assert_eq!(created["metadata"]["labels"]["team"], "shop");
    assert_eq!(created["metadata"]["ownerReferences"][0]["name"], "public");
    wait_until("the EndpointSlice", async || {
        let slice = find(&server, "endpointslices", "public-edge-ipv4").await;
        slice["endpoints"][0]["addresses"] == json!(["192.0.2.1"]) && slice["ports"][0]["port"] == target
    })
    .await;

    // The address, and the acceptance by Envoy.
    assign(&server, "public-edge", "192.0.2.30").await;
    until_programmed(&server, "public", "False Pending not all Envoys").await;
    let envoy = Envoy::start(&lockgate, Mode::Delta).await;
    let public = until_programmed(&server, "public", "True Programmed accepted by 1 Envoy").await;
    println!("{:#}", public["status"]);
    assert_eq!(public["status"]["addresses"], json!([{ "type": "IPAddress", "value": "192.0.2.30" }]));
    let listener = &public["status"]["listeners"][0];
    assert!(condition(listener, "Programmed").starts_with("True"), "{listener}");
    assert_eq!((&listener["name"], &listener["attachedRoutes"]), (&json!("http-80"), &json!(1)));
    let port = u16::try_from(target).expect("a port");
    let answer = Target::http(port, "cart.test").get("/").await.expect("an answer, right after the status");
    assert_eq!(answer.status, 301);
    let route = find(&server, "httproutes", "cart").await;
    let parent = &route["status"]["parents"][0];
    assert_eq!(parent["controllerName"], "example.com/gateways");
    assert!(condition(parent, "Accepted").starts_with("True"), "{route}");
    let class = get(&server, &["gatewayclass", "edge"]).await;
    assert!(condition(&class["status"], "Accepted").starts_with("True"), "{class}");
    let features = class["status"]["supportedFeatures"].as_array().expect("features");
    assert!(features.iter().any(|feature| feature["name"] == "Gateway"), "{class}");

    // The Service of another owner is unchanged.
    let taken = until_programmed(&server, "taken", "False Invalid").await;
    assert!(condition(&taken["status"], "Programmed").contains("\"default/taken-edge\""), "{taken}");
    assert_eq!(find(&server, "services", "taken-edge").await, foreign);

    // A new leader writes nothing, because the status is current.
    let before = [find(&server, "services", "public-edge").await, find(&server, "gateways", "public").await];
    lockgate.kill();
    lockgate.restart();
    lockgate.wait_ready().await;
    wait_until("the new process to lead", async || is_leader(&lockgate).await).await;
    server.apply(&gateway("second", &[80])).await;
    wait_until("the Service of a new Gateway", async || {
        ports(&find(&server, "services", "second-edge").await).len() == 1
    })
    .await;
    let second = find(&server, "services", "second-edge").await;
    assert_ne!(ports(&second)[0].1, target);
    let after = [find(&server, "services", "public-edge").await, find(&server, "gateways", "public").await];
    assert_eq!(after, before);

    // Ports follow the listeners that are added and removed. The other ports stay.
    server.apply(&gateway("public", &[80, 8080])).await;
    let has = async |expected: &[u64]| {
        let ports = ports(&find(&server, "services", "public-edge").await);
        ports.iter().map(|(port, _)| *port).collect::<Vec<_>>() == expected
    };
    wait_until("the second port", async || has(&[80, 8080]).await).await;
    assert_eq!(ports(&find(&server, "services", "public-edge").await)[0], (80, target));
    let second = ports(&find(&server, "services", "public-edge").await)[1].1;
    server.apply(&gateway("public", &[8080])).await;
    wait_until("the first port to go", async || has(&[8080]).await).await;
    assert_eq!(ports(&find(&server, "services", "public-edge").await), [(8080, second)]);
    until_programmed(&server, "public", "True Programmed").await;

    // The leader repairs what somebody edits, and leaves the fields of other writers alone.
    let edit = async |patch: Value| {
        let patch = patch.to_string();
        server.kubectl(&["patch", "service", "public-edge", "--type=merge", "-p", &patch], "").await;
    };
    let others =
        json!({ "metadata": { "annotations": { "a.test/balancer": "1" } }, "spec": { "sessionAffinity": "ClientIP" } });
    edit(others).await;
    let before = find(&server, "services", "public-edge").await;
    let renamed = json!([{ "name": "web", "port": 8080, "targetPort": 8080, "nodePort": before["spec"]["ports"][0]["nodePort"] }]);
    for spec in [
        json!({ "type": "NodePort" }),
        json!({ "selector": { "app": "shop" } }),
        json!({ "ports": renamed }),
        json!({ "type": "ClusterIP", "ports": [{ "name": "tcp-8080", "port": 8080, "targetPort": second, "nodePort": null }] }),
    ] {
        edit(json!({ "spec": spec })).await;
        wait_until(&format!("the repair of {spec}"), async || {
            let spec = &find(&server, "services", "public-edge").await["spec"];
            (&spec["type"], &spec["selector"]) == (&json!("LoadBalancer"), &Value::Null)
                && spec["ports"][0]["name"] == "tcp-8080"
                && spec["ports"][0]["targetPort"] == second
        })
        .await;
    }
    let after = find(&server, "services", "public-edge").await;
    assert_eq!(after["metadata"]["annotations"], before["metadata"]["annotations"]);
    for field in ["clusterIP", "sessionAffinity"] {
        assert_eq!(after["spec"][field], before["spec"][field], "{field}");
    }

    // A Service that somebody deletes is created again with the same ports.
    server.kubectl(&["delete", "service", "public-edge"], "").await;
    wait_until("the Service to come back", async || has(&[8080]).await).await;
    assert_eq!(ports(&find(&server, "services", "public-edge").await), [(8080, second)]);
    drop(envoy);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_service_of_the_envoys_the_status_says_what_is_missing() {
    let server = ApiServer::start().await;
    server.kubectl(&["create", "-f", "-"], &definitions().await).await;
    wait_until("the kinds of Gateway API", async || {
        server.kubectl(&["api-resources"], "").await.contains("httproutes")
    })
    .await;
    let class = CLASS.replace("example.com/gateways", "lockgate.dev/gateway-controller");
    server.apply(&documents(&[class, gateway("public", &[80])])).await;
    let flags = ["--leader-election", "on"];
    let lockgate = Lockgate::start(&Source::Kubeconfig(server.kubeconfig("admin")), &flags).await;
    lockgate.logged(&["set `status.envoyService`"]).await;
    let public = until_programmed(&server, "public", "False AddressNotAssigned").await;
    assert!(condition(&public["status"], "Programmed").contains("`status.envoyService`"), "{public}");
    assert_eq!(find(&server, "services", "public-edge").await, Value::Null);
}

/// Everything that a controller may do without `gatewayAPI.manageServices`, and more: it cannot write Services and EndpointSlices.
const WITHOUT_SERVICES: &str = "apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: { name: controller }
rules:
  - { apiGroups: ['*'], resources: ['*'], verbs: [get, list, watch] }
  - { apiGroups: ['*'], resources: ['*/status'], verbs: [patch] }
  - { apiGroups: [coordination.k8s.io, events.k8s.io], resources: ['*'], verbs: ['*'] }
  - { apiGroups: [''], resources: [configmaps], verbs: ['*'] }
";

#[tokio::test(flavor = "multi_thread")]
async fn without_the_permission_to_write_services_gateways_state_what_is_missing() {
    const GATEWAYS: [&str; 3] = ["one", "two", "three"];
    let server = ApiServer::start().await;
    server.apply(&definitions().await).await;
    server.apply(WITHOUT_SERVICES).await;
    server
        .kubectl(&["create", "clusterrolebinding", "controller", "--clusterrole=controller", "--user=controller"], "")
        .await;
    server.apply(&documents(&[CLASS.to_owned(), e2e::manifests::ingress_class(), service("envoy", "", &[])])).await;
    let lockgate = start_as(&server, "controller").await;
    server.apply(&documents(&GATEWAYS.map(|name| gateway(name, &[80])))).await;
    for name in GATEWAYS {
        until_programmed(&server, name, "False NoResources").await;
        let message = condition(&find(&server, "gateways", name).await["status"], "Programmed");
        assert!(
            message.contains("grant create, patch, and delete on services")
                && message.contains("gatewayAPI.manageServices"),
            "{message}"
        );
    }
    // Several attempts have one line.
    let refused = ["kind=\"Service\"", "outcome=\"refused\""];
    wait_until("more attempts", async || lockgate.metric("lockgate_status_writes_total", &refused).await >= 9.0).await;
    let log = lockgate.log();
    assert_eq!(log.matches("cannot write the object of a Gateway").count(), 1, "{log}");
    // Ingresses are not affected.
    let address = ([10, 0, 0, 1], 80).into();
    server
        .apply(&documents(&[
            service("shop", "", &[address]),
            e2e::manifests::ingress("shop", "shop.test", "shop", None),
        ]))
        .await;
    wait_until("the host", async || lockgate.virtual_host("shop.test").await.is_some()).await;
    // With the permission, the Gateways get their Services.
    let admin = ["create", "clusterrolebinding", "all", "--clusterrole=cluster-admin", "--user=controller"];
    server.kubectl(&admin, "").await;
    for name in GATEWAYS {
        let service = format!("{name}-edge");
        wait_until(&service, async || !find(&server, "services", &service).await.is_null()).await;
    }
}
