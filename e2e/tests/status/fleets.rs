//! Gateways with dedicated fleets: the objects that the controller creates, and what each Envoy receives.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use e2e::manifests::{documents, service};
use e2e::process::repository;
use e2e::{ApiServer, Authority, Envoy, Lockgate, Mount, lockgate, ports, wait_until};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::gateway::{CLASS, assign, condition, definitions, find, until_programmed};
use super::{get, is_leader};

/// The template of the Deployments, with the fields that the API server requires.
const TEMPLATE: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: { name: lockgate-fleet, labels: { app: fleet } }
spec:
  selector: { matchLabels: { app: fleet } }
  template:
    metadata: { labels: { app: fleet } }
    spec:
      initContainers: [{ name: bootstrap, image: lockgate, args: [bootstrap] }]
      containers: [{ name: envoy, image: envoy, resources: { requests: { cpu: 1000m } } }]
      volumes: [{ name: certs, secret: { secretName: lockgate-xds-fleets } }]
";

/// The EnvoyFleet `own` with these fields.
fn fleet(spec: &str) -> String {
    format!(
        "{{ apiVersion: lockgate.dev/v1alpha1, kind: EnvoyFleet, metadata: {{ name: own, namespace: default }}, spec: {{ \
         resources: {{ limits: {{ memory: 1024Mi }} }}, {spec} }} }}\n"
    )
}

const PARAMETERS: &str = "parametersRef: { group: lockgate.dev, kind: EnvoyFleet, name: own }";

/// Formats a Gateway with an HTTPS listener whose key pair has the same name, and an HTTPRoute that answers 301.
fn gateway(name: &str, infrastructure: &str) -> String {
    let listener = format!(
        "{{ name: https, port: 443, protocol: HTTPS, hostname: {name}.test, tls: {{ certificateRefs: [{{ name: {name} }}] }} }}"
    );
    format!(
        "{{ apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {{ name: {name}, namespace: default }}, \
         spec: {{ gatewayClassName: edge, listeners: [{listener}], infrastructure: {{ {infrastructure} }} }} }}\n---\n\
         {{ apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {{ name: {name}, namespace: default }}, \
         spec: {{ parentRefs: [{{ name: {name} }}], rules: [{{ filters: [{{ type: RequestRedirect, requestRedirect: \
         {{ hostname: other.test, statusCode: 301 }} }}] }}] }} }}\n"
    )
}

/// Starts a controller that issues certificates and creates fleets.
async fn start(server: &ApiServer, template: &str) -> Lockgate {
    let kubeconfig = server.kubeconfig("admin").display().to_string();
    let settings = format!(
        "xds: {{ address: '127.0.0.1:XDS', tls: auto, service: localhost }}\nadmin: {{ address: '127.0.0.1:ADMIN' }}\n\
         leaderElection: {{ enabled: true }}\nlisteners: {{ http: {{ port: HTTP_PORT }}, https: {{ port: HTTPS_PORT }}, \
         stats: {{ port: STATS }} }}\ngateway: {{ controller: example.com/gateways, dedicatedFleets: {{ max: 2, \
         maxPerNamespace: 1, template: '{template}' }} }}\nstatus: {{ envoyService: default/envoy }}\n"
    );
    let mut lockgate = Lockgate::launch_by_file(&["--kubeconfig", &kubeconfig], &settings);
    lockgate.wait_ready().await;
    wait_until("the replica to lead", async || is_leader(&lockgate).await).await;
    lockgate
}

/// Returns the data of a Secret.
async fn secret(server: &ApiServer, name: &str) -> BTreeMap<String, String> {
    let secret = find(server, "secrets", name).await;
    let decode = |value: &Value| BASE64_STANDARD.decode(value.as_str().unwrap_or_default()).expect("base64");
    let data = secret["data"].as_object().into_iter().flatten();
    data.map(|(key, value)| (key.clone(), String::from_utf8(decode(value)).expect("PEM"))).collect()
}

/// Starts an Envoy with the key pair in these keys of the Secret. Its node claims to be of the fleet of the Gateway
/// `own`.
fn envoy(lockgate: &Lockgate, secret: &BTreeMap<String, String>, pair: [&str; 2]) -> (Envoy, (Mount, TempDir)) {
    let files = [("tls.crt", pair[0]), ("tls.key", pair[1]), ("ca.crt", "ca.crt")];
    let files = files.map(|(file, key)| (file, &*secret[key]));
    let (mount, admin) = (Mount::new(&files), ports::free());
    let (xds, at) = (format!("localhost:{}", lockgate.xds), format!("127.0.0.1:{admin}"));
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("envoy.yaml");
    let (output, node) = (file.display().to_string(), format!("envoy-{admin}"));
    let options =
        [["--xds-address", &xds], ["--admin-address", &at], ["--node-id", &node], ["--xds-tls", mount.text()]];
    let more = [["--node-cluster", "fleet/default/own"], ["--output", &output]];
    lockgate::run(&[&["bootstrap"], options.as_flattened(), more.as_flattened()].concat());
    let bootstrap = std::fs::read_to_string(&file).expect("the bootstrap");
    // Short, so that the listener and its key pair are removed soon.
    (Envoy::launch_with_flags(&bootstrap, admin, &["--drain-time-s", "1"]), (mount, directory))
}

/// Returns the names of the listeners for Gateways, and of the secrets of the controller.
async fn received(envoy: &Envoy) -> (Vec<String>, Vec<String>) {
    let names = async |resource: &str, part: &str| {
        let all = envoy.config_dump(resource).await;
        let all = all.iter().filter(|one| one["draining_state"].is_null() || one["active_state"].is_object());
        let mut names: Vec<String> = all.filter_map(|one| Some(one["name"].as_str()?.to_owned())).collect();
        names.retain(|name| name.contains(part));
        names.sort();
        names
    };
    (names("dynamic_listeners", "gateway/").await, names("dynamic_active_secrets", "default/").await)
}

async fn until_received(envoy: &Envoy, gateways: &[&str]) {
    let listeners: Vec<String> = gateways.iter().map(|name| format!("gateway/default/{name}/443")).collect();
    let is_of = |name: &String| gateways.iter().any(|gateway| name.contains(&format!("default/{gateway}")));
    wait_until(&format!("the listeners and key pairs of {gateways:?}"), async || {
        let (is, secrets) = received(envoy).await;
        is == listeners && secrets.len() == gateways.len() && secrets.iter().all(is_of)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_with_a_fleet_is_served_by_dedicated_envoys_alone() {
    let server = ApiServer::start().await;
    let fleets = repository().join("crds/lockgate.dev_envoyfleets.yaml");
    let fleets = std::fs::read_to_string(fleets).expect("the CustomResourceDefinition");
    server.kubectl(&["create", "-f", "-"], &documents(&[definitions().await, fleets])).await;
    wait_until("the kinds", async || {
        let kinds = server.kubectl(&["api-resources"], "").await;
        ["httproutes", "envoyfleets"].iter().all(|kind| kinds.contains(kind))
    })
    .await;
    let authority = Authority::new();
    let pair = |name: &str| authority.issue(&[&format!("{name}.test")]).secret("default", name);
    let envoys = service("envoy", "", &["192.0.2.1:8080".parse().expect("an address")]);
    // `own` is created first: it must be older, even if a second ends between the two.
    let gateways = [gateway("own", PARAMETERS), gateway("public", "")];
    server.apply(&documents(&[CLASS.into(), fleet("replicas: 3"), envoys, pair("public"), pair("own")])).await;
    server.apply(&documents(&gateways)).await;
    let directory = tempfile::tempdir().expect("a directory");
    let template = directory.path().join("deployment.yaml");
    std::fs::write(&template, TEMPLATE).expect("the template");
    let lockgate = start(&server, &template.display().to_string()).await;

    // The objects of the fleet.
    let find_fleet = async |kind: &str| {
        let list = get(&server, &[kind, "--selector", "lockgate.dev/gateway-name=own"]).await;
        list["items"][0].clone()
    };
    wait_until("the Deployment", async || find_fleet("deployments").await.is_object()).await;
    let (deployment, of_fleet) = (find_fleet("deployments").await, find_fleet("services").await);
    let name = deployment["metadata"]["name"].as_str().expect("a name").to_owned();
    assert_eq!((&of_fleet["metadata"]["name"], &of_fleet["spec"]["clusterIP"]), (&json!(name), &json!("None")));
    assert_eq!(deployment["metadata"]["ownerReferences"][0]["kind"], "Lease");
    assert_eq!(deployment["spec"]["replicas"], 3);
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["resources"]["limits"]["memory"], "1Gi", "as the API server writes it");
    assert_eq!(pod["volumes"][0]["secret"]["items"][0]["key"], "default.own.crt");
    // A change by another writer is repaired, and nothing else is written.
    let generation = deployment["metadata"]["generation"].clone();
    server.kubectl(&["scale", "deployment", &name, "--replicas", "9"], "").await;
    wait_until("the repair", async || find_fleet("deployments").await["spec"]["replicas"] == 3).await;
    let repaired = find_fleet("deployments").await["metadata"]["generation"].clone();
    assert_eq!(repaired.as_u64(), generation.as_u64().map(|number| number + 2), "one change and one repair");

    let budget = find_fleet("poddisruptionbudgets").await;
    let selector = &deployment["spec"]["selector"];
    assert_eq!((&budget["spec"]["maxUnavailable"], &budget["spec"]["selector"]), (&json!(1), selector));

    // The autoscaler starts with the current number of Envoys.
    let contradictory = fleet("replicas: 3, autoscaling: { maxReplicas: 4 }");
    let refused = server.try_kubectl(&["apply", "-f", "-"], &contradictory).await.expect_err("a contradiction");
    assert!(refused.contains("replicas and autoscaling exclude each other"), "{refused}");
    server.apply(&fleet("autoscaling: { maxReplicas: 4 }, podDisruptionBudget: { minAvailable: 50% }")).await;
    let scaled = async || find_fleet("horizontalpodautoscalers").await["spec"]["maxReplicas"] == 4;
    wait_until("the autoscaler", scaled).await;
    wait_until("the other budget", async || {
        let spec = find_fleet("poddisruptionbudgets").await["spec"].clone();
        spec["minAvailable"] == "50%" && spec["maxUnavailable"].is_null()
    })
    .await;
    assert_eq!(find_fleet("deployments").await["spec"]["replicas"], 3);
    server.kubectl(&["scale", "deployment", &name, "--replicas", "4"], "").await;
    let exposed = "service: { type: NodePort, externalTrafficPolicy: Local, annotations: { a.test/size: small } }";
    server.apply(&fleet(&format!("autoscaling: {{ maxReplicas: 4 }}, concurrency: 2, {exposed}"))).await;
    wait_until("two threads", async || {
        let pod = find_fleet("deployments").await["spec"]["template"]["spec"].clone();
        pod["containers"][0]["args"] == json!(["--concurrency", "2"])
    })
    .await;
    assert_eq!(find_fleet("deployments").await["spec"]["replicas"], 4, "the number of the autoscaler");

    // The EnvoyFleet specifies how the Service of the Gateway is exposed.
    wait_until("the type of the Service", async || {
        let service = find(&server, "services", "own-edge").await;
        let spec = &service["spec"];
        (&spec["type"], &spec["externalTrafficPolicy"]) == (&json!("NodePort"), &json!("Local"))
            && service["metadata"]["annotations"]["a.test/size"] == "small"
    })
    .await;
    let edited = json!({ "spec": { "externalTrafficPolicy": "Cluster" } }).to_string();
    server.kubectl(&["patch", "service", "own-edge", "--type=merge", "-p", &edited], "").await;
    wait_until("the repair of the Service", async || {
        find(&server, "services", "own-edge").await["spec"]["externalTrafficPolicy"] == "Local"
    })
    .await;
    server.apply(&fleet("replicas: 3")).await;
    wait_until("the default type of the Service", async || {
        let service = find(&server, "services", "own-edge").await;
        let spec = &service["spec"];
        (&spec["type"], &spec["externalTrafficPolicy"]) == (&json!("LoadBalancer"), &json!("Cluster"))
            && service["metadata"]["annotations"]["a.test/size"].is_null()
    })
    .await;
    wait_until("the fixed number", async || find_fleet("deployments").await["spec"]["replicas"] == 3).await;
    wait_until("no autoscaler", async || find_fleet("horizontalpodautoscalers").await.is_null()).await;

    // The Services of the Gateways lead to different Envoys.
    let slice = format!(
        "{{ apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {{ name: pods, namespace: default, labels: \
         {{ kubernetes.io/service-name: {name} }} }}, addressType: IPv4, ports: [], endpoints: [{{ addresses: \
         [192.0.2.5], nodeName: node-1, conditions: {{ ready: true }} }}] }}"
    );
    server.apply(&slice).await;
    for (gateway, address) in [("public", "192.0.2.1"), ("own", "192.0.2.5")] {
        wait_until("the EndpointSlice", async || {
            let slice = find(&server, "endpointslices", &format!("{gateway}-edge-ipv4")).await;
            slice["endpoints"][0]["addresses"] == json!([address])
        })
        .await;
        assign(&server, &format!("{gateway}-edge"), "192.0.2.30").await;
    }

    let slice = find(&server, "endpointslices", "own-edge-ipv4").await;
    assert_eq!(slice["endpoints"][0]["nodeName"], "node-1", "for externalTrafficPolicy Local");

    // Each Envoy receives its part, whatever it says about itself. Only the Envoys of the fleet count.
    let (shared, _files) = envoy(&lockgate, &secret(&server, "lockgate-xds-envoy").await, ["tls.crt", "tls.key"]);
    until_programmed(&server, "public", "True Programmed accepted by 1 Envoy").await;
    until_received(&shared, &["public"]).await;
    until_programmed(&server, "own", "False Pending").await;
    let keys = ["default.own.crt", "default.own.key"];
    let (own, _mount) = envoy(&lockgate, &secret(&server, "lockgate-xds-fleets").await, keys);
    until_programmed(&server, "own", "True Programmed accepted by 1 Envoy").await;
    until_received(&own, &["own"]).await;
    until_received(&shared, &["public"]).await;
    wait_until("the routes", async || {
        let accepted = async |name: &str| {
            condition(&find(&server, "httproutes", name).await["status"]["parents"][0], "Accepted").starts_with("True")
        };
        accepted("own").await && accepted("public").await
    })
    .await;

    // The limit of the namespace: the younger Gateway leaves the shared Envoys, and has no Envoys.
    server.apply(&gateway("public", PARAMETERS)).await;
    until_received(&shared, &[]).await;
    let refused = until_programmed(&server, "public", "False NoResources").await;
    let programmed = condition(&refused["status"], "Programmed");
    assert!(programmed.contains("maxPerNamespace"), "{programmed}");
    until_received(&own, &["own"]).await;

    // The older Gateway returns to the shared Envoys, so the younger one gets a fleet. The Deployment of the older one
    // is deleted.
    server.apply(&gateway("own", "")).await;
    until_received(&shared, &["own"]).await;
    wait_until("the end of the Deployment", async || find_fleet("deployments").await.is_null()).await;
    wait_until("the other Deployment", async || {
        let list = get(&server, &["deployments", "--selector", "lockgate.dev/gateway-name=public"]).await;
        list["items"].as_array().is_some_and(|items| items.len() == 1)
    })
    .await;
    wait_until("its key pair alone", async || {
        let secret = secret(&server, "lockgate-xds-fleets").await;
        secret.contains_key("default.public.crt") && !secret.contains_key("default.own.crt")
    })
    .await;
    server.kubectl(&["delete", "gateway", "public"], "").await;
    for kind in ["deployments", "poddisruptionbudgets"] {
        wait_until(&format!("no {kind}"), async || {
            get(&server, &[kind]).await["items"].as_array().is_some_and(Vec::is_empty)
        })
        .await;
    }

    // A Gateway of the shared Envoys moves when its fleet has accepted it. Until then, its Service leads to the shared Envoys.
    drop(own);
    let leads_to = async |address: &str| {
        let slice = find(&server, "endpointslices", "own-edge-ipv4").await;
        slice["endpoints"][0]["addresses"] == json!([address])
    };
    wait_until("the shared Envoys", async || leads_to("192.0.2.1").await).await;
    server.apply(&gateway("own", PARAMETERS)).await;
    wait_until("the Deployment of the fleet", async || find_fleet("deployments").await.is_object()).await;
    let has_pair = async || secret(&server, "lockgate-xds-fleets").await.contains_key(keys[0]);
    wait_until("the key pair of the fleet", has_pair).await;
    until_programmed(&server, "own", "False Pending").await;
    assert!(leads_to("192.0.2.1").await, "its fleet has no Envoy");
    until_received(&shared, &["own"]).await;
    let label =
        async || find(&server, "services", "own-edge").await["metadata"]["labels"]["lockgate.dev/fleet"].clone();
    assert!(label().await.is_null());
    let (own, _mount) = envoy(&lockgate, &secret(&server, "lockgate-xds-fleets").await, keys);
    until_programmed(&server, "own", "True Programmed accepted by 1 Envoy").await;
    until_received(&own, &["own"]).await;
    wait_until("the dedicated Envoys", async || leads_to("192.0.2.5").await).await;
    assert_eq!(received(&shared).await.0.len(), 1, "nodes have to learn of the other addresses first");
    wait_until("the removal from the shared Envoys", async || received(&shared).await.0.is_empty()).await;
    assert_eq!(label().await, json!(name));
    let labels = find(&server, "services", "own-edge").await["metadata"]["labels"].clone();
    assert_eq!(labels["lockgate.dev/draining"], "true", "open connections keep their routes");

    // With an invalid reference, the Gateway is not moved to the shared Envoys.
    server.kubectl(&["delete", "envoyfleet", "own"], "").await;
    wait_until("the condition", async || {
        let accepted = condition(&find(&server, "gateways", "own").await["status"], "Accepted");
        accepted.starts_with("False InvalidParameters") && accepted.contains("does not exist")
    })
    .await;
    until_received(&shared, &[]).await;
    let log = lockgate.log();
    assert!(!log.contains("panicked") && !log.contains("BEGIN"), "{log}");
}
