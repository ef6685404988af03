//! Gateways with dedicated fleets: the objects that the controller creates, and which Envoys serve which Gateway.

use std::net::IpAddr;

use e2e::lab::echo::Echoed;
use e2e::lab::{Installation, Namespace, Pod, echo};
use e2e::load::Plan;
use e2e::manifests::gateway_definitions;
use e2e::{Lab, Load, Target};
use serde_json::Value;

use super::rbac::{Account, assert_same, documented, rights};

/// The name of the release, its namespace, and its GatewayClass.
const RELEASE: &str = "fleets";

/// A release that creates fleets. Its classes differ from the classes of the shared installation.
const FLAGS: [&str; 9] = [
    "--set=gatewayAPI.dedicatedFleets.enabled=true",
    "--set=gatewayAPI.gatewayClass.create=true",
    "--set=gatewayAPI.gatewayClass.name=fleets",
    "--set=settings.gateway.controller=fleets.test/gateways",
    "--set=ingressClass.create=false",
    "--set=settings.ingress.controllerName=fleets.test/ingresses",
    "--set=envoy.replicas=1",
    "--set=envoy.drain.minSeconds=1",
    "--set=envoy.drain.deadlineSeconds=10",
];

/// The kinds of a fleet, by their paths.
const PARTS: [&str; 4] = [
    "/apis/apps/v1/namespaces/fleets/deployments",
    "/api/v1/namespaces/fleets/services",
    "/apis/policy/v1/namespaces/fleets/poddisruptionbudgets",
    "/apis/autoscaling/v2/namespaces/fleets/horizontalpodautoscalers",
];

/// A Gateway for `NAME.test`, and its HTTPRoute to the echo servers.
fn gateway(name: &str, class: &str, infrastructure: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{ name: {name} }}\nspec:\n  gatewayClassName: \
         {class}\n  listeners: [{{ name: http, port: 80, protocol: HTTP }}]\n  infrastructure: {{ {infrastructure} }}\n---\n\
         apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{ name: {name} }}\nspec:\n  parentRefs: [{{ \
         name: {name} }}]\n  hostnames: [{name}.test]\n  rules: [{{ backendRefs: [{{ name: echo, port: 8080 }}] }}]\n"
    )
}

const OWN: &str = "parametersRef: { group: lockgate.dev, kind: EnvoyFleet, name: small }";

fn fleet(spec: &str) -> String {
    format!("apiVersion: lockgate.dev/v1alpha1\nkind: EnvoyFleet\nmetadata: {{ name: small }}\nspec: {{ {spec} }}\n")
}

/// The objects of one kind that the controller created for a Gateway.
async fn objects(lab: &Lab, path: &str, gateway: &str) -> Vec<Value> {
    lab.list(&format!("{path}?labelSelector=lockgate.dev%2Fgateway-name%3D{gateway}")).await
}

/// Waits for the only object of one kind that the controller created for a Gateway.
async fn object(lab: &Lab, path: &str, gateway: &str) -> Value {
    let one = async || objects(lab, path, gateway).await.pop();
    lab.until(&format!("{path} for the Gateway {gateway}"), one).await.0
}

/// Waits until nothing is left that the controller created for a Gateway, its pods included.
async fn until_gone(lab: &Lab, gateway: &str) {
    let mut left = Vec::new();
    let gone = async || {
        left.clear();
        for path in PARTS {
            left.extend(objects(lab, path, gateway).await);
        }
        (left.is_empty() && envoys(lab, gateway).await.is_empty()).then_some(())
    };
    lab.until(&format!("the end of the fleet of {gateway}"), gone).await;
}

async fn envoys(lab: &Lab, gateway: &str) -> Vec<Pod> {
    lab.pods(RELEASE, &format!("lockgate.dev/gateway-name={gateway}")).await
}

/// Waits for a 200 of the echo server at the address of the Service of a Gateway. Returns the port of the Envoys.
async fn served(space: &Namespace<'_>, gateway: &str, class: &str) -> u16 {
    let (lab, service) = (space.lab(), format!("{gateway}-{class}"));
    let address = lab.address(&space.name, &service).await;
    let target = Target::http(80, &format!("{gateway}.test")).at(address);
    let ok = async || target.get("/").await.ok().filter(|answer| answer.status == 200);
    let (answer, time) = lab.until(&format!("a 200 through the Service {service}"), ok).await;
    println!("{gateway}: 200 through its Service {:.1} s after its address", time.as_secs_f64());
    assert_eq!(Echoed::of(&answer).expect("an answer of the echo server").service, "echo");
    let service = lab.get(&format!("/api/v1/namespaces/{}/services/{service}", space.name)).await;
    let port = service["spec"]["ports"][0]["targetPort"].as_u64();
    port.and_then(|port| u16::try_from(port).ok()).expect("a port")
}

/// Whether an Envoy serves a host at a port.
async fn serves(pod: &Pod, port: u16, host: &str) -> bool {
    let address: IpAddr = pod.ip.expect("an address");
    Target::http(port, host).at(address).get("/").await.is_ok_and(|answer| answer.status == 200)
}

/// Waits until a Gateway is programmed. Returns the message.
async fn programmed(space: &Namespace<'_>, gateway: &str) -> String {
    let path = format!("/apis/gateway.networking.k8s.io/v1/namespaces/{}/gateways/{gateway}", space.name);
    let message = async || {
        let gateway = space.lab().get(&path).await;
        let conditions = gateway["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let is_programmed = |one: &&Value| {
            one["type"] == "Programmed"
                && one["status"] == "True"
                && one["observedGeneration"] == gateway["metadata"]["generation"]
        };
        conditions.iter().find(is_programmed).and_then(|one| Some(one["message"].as_str()?.to_owned()))
    };
    space.lab().until(&format!("the Gateway {gateway} to be programmed"), message).await.0
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_with_a_fleet_is_served_by_dedicated_envoys() {
    let lab = Lab::alone().await;
    let kinds = gateway_definitions(&["gatewayclasses", "gateways", "httproutes"]).await;
    lab.kubectl(&["apply", "--server-side", "-f", "-"], &kinds).await;
    lab.kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "-f", "-"], &kinds).await;
    let lockgate = Installation::new(&lab, RELEASE, RELEASE, &FLAGS).await;
    let space = lab.namespace("fleet").await;
    space.apply(&echo("echo").yaml()).await;
    space.endpoints("echo", 1).await;
    space.apply(&fleet("replicas: 1")).await;
    space.apply(&gateway("public", RELEASE, "")).await;
    space.apply(&gateway("own", RELEASE, OWN)).await;

    // Each Gateway is served by its Envoys, and by no others.
    let public = served(&space, "public", RELEASE).await;
    let own = served(&space, "own", RELEASE).await;
    let (shared, dedicated) = (lockgate.envoys().await, envoys(&lab, "own").await);
    assert_eq!((shared.len(), dedicated.len()), (1, 1), "{shared:?} {dedicated:?}");
    for (pods, port, host, expected) in [
        (&dedicated, own, "own.test", true),
        (&shared, public, "public.test", true),
        (&shared, own, "own.test", false),
        (&dedicated, public, "public.test", false),
    ] {
        assert_eq!(serves(&pods[0], port, host).await, expected, "{host} at {}", pods[0].name);
    }
    let message = programmed(&space, "own").await;
    assert!(message.starts_with("accepted by 1"), "{message}");
    assert_eq!(dedicated[0].restarts, 0, "{dedicated:?}");
    let budget = object(&lab, PARTS[2], "own").await;
    assert_eq!(budget["spec"]["maxUnavailable"], 1);

    // The controller has the documented permissions, and needs no others.
    let account = Account::new(&lab, RELEASE, &lockgate.name()).await;
    let places = ["cluster", "watched", "own"];
    assert_same(&rights(&lab, &account, RELEASE).await, &documented(&lockgate.name(), &places, 3), RELEASE);

    // The autoscaler of the Kubernetes cluster sets the number of Envoys, and the controller leaves it.
    space
        .apply(&fleet("autoscaling: { minReplicas: 2, maxReplicas: 3 }, service: { externalTrafficPolicy: Local }"))
        .await;
    let autoscaler = object(&lab, PARTS[3], "own").await;
    let limits = (&autoscaler["spec"]["minReplicas"], &autoscaler["spec"]["maxReplicas"]);
    assert_eq!(limits, (&2.into(), &3.into()));
    let scaled = async || {
        let ready = envoys(&lab, "own").await.into_iter().filter(|pod| pod.ready).count();
        (ready == 2).then_some(())
    };
    lab.until("two Envoys", scaled).await;
    assert_eq!(object(&lab, PARTS[0], "own").await["spec"]["replicas"], 2);
    let service = format!("/api/v1/namespaces/{}/services/own-{RELEASE}", space.name);
    let local = async || (lab.get(&service).await["spec"]["externalTrafficPolicy"] == "Local").then_some(());
    lab.until("the externalTrafficPolicy", local).await;
    space.endpoints(&format!("own-{RELEASE}"), 2).await;
    let slices = format!("/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices", space.name);
    let slices = lab.list(&format!("{slices}?labelSelector=kubernetes.io%2Fservice-name%3Down-{RELEASE}")).await;
    let endpoints = slices.iter().flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
    assert!(endpoints.clone().all(|endpoint| endpoint["nodeName"].is_string()), "{slices:?}");
    served(&space, "own", RELEASE).await;

    // A class gives each of its Gateways a fleet.
    let class = format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {{ name: dedicated }}\nspec:\n  \
         controllerName: fleets.test/gateways\n  parametersRef: {{ group: lockgate.dev, kind: EnvoyFleet, name: small, \
         namespace: {} }}\n",
        space.name
    );
    space.apply(&fleet("replicas: 1")).await;
    lab.apply(&class).await;
    space.apply(&gateway("other", "dedicated", "")).await;
    let other = served(&space, "other", "dedicated").await;
    assert!(!serves(&shared[0], other, "other.test").await, "by the shared Envoy");
    let autoscaler_gone = async || objects(&lab, PARTS[3], "own").await.is_empty().then_some(());
    lab.until("the end of the autoscaler", autoscaler_gone).await;

    // A Gateway of the shared Envoys moves to a fleet without a failed request.
    let target = Target::http(80, "public.test").at(lab.address(&space.name, &format!("public-{RELEASE}")).await);
    let load = Load::start(Plan::new(target, "/")).await;
    load.answers(200).await;
    space.apply(&gateway("public", RELEASE, OWN)).await;
    let service = format!("/api/v1/namespaces/{}/services/public-{RELEASE}", space.name);
    let label = async || lab.get(&service).await["metadata"]["labels"]["lockgate.dev/fleet"].is_string().then_some(());
    let (_, time) = lab.until("the end of the move", label).await;
    let gone = async || (!serves(&shared[0], public, "public.test").await).then_some(());
    lab.until("the end of the listener of the shared Envoy", gone).await;
    load.answers(200).await;
    let report = load.stop().await;
    println!("move to a dedicated fleet in {:.1} s: {report}", time.as_secs_f64());
    assert_eq!(report.failed(), 0, "{report}");
    assert!(serves(&envoys(&lab, "public").await[0], public, "public.test").await);

    // The fleet goes with its Gateway, and with it the key pair.
    space.kubectl(&["delete", "gateway", "own"], "").await;
    until_gone(&lab, "own").await;
    let secret = format!("/api/v1/namespaces/{RELEASE}/secrets/{}-xds-fleets", lockgate.name());
    let keys = async || {
        let data = lab.get(&secret).await["data"].clone();
        let has = |gateway: &str| data.get(format!("{}.{gateway}.key", space.name)).is_some();
        (has("other") && !has("own")).then_some(())
    };
    lab.until("the end of the key pair", keys).await;
    served(&space, "public", RELEASE).await;
    let refused: Vec<String> =
        lab.refused().iter().filter(|one| one.user.contains(":fleets:")).map(ToString::to_string).collect();
    assert!(refused.is_empty(), "{}", refused.join("\n"));

    // The other fleet goes with the installation.
    assert_eq!(envoys(&lab, "other").await.len(), 1);
    lockgate.uninstall().await;
    until_gone(&lab, "other").await;
    lab.kubectl(&["delete", "-f", "-"], &kinds).await;
    lab.kubectl(&["delete", "namespace", RELEASE, "--wait=false"], "").await;
}
