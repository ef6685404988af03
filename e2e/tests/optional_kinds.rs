//! The kinds of Gateway API with a real API server: they may be absent, installed later, removed, and forbidden.

use std::time::Duration;

use e2e::manifests::{documents, ingress, ingress_class};
use e2e::wait::wait_at_most;
use e2e::{ApiServer, Lockgate, Relay, Source};
use serde_json::Value;

/// Kind, name of the definition, scope, and the version that Lockgate reads.
const KINDS: [(&str, &str, &str, &str); 6] = [
    ("GatewayClass", "gatewayclasses.gateway.networking.k8s.io", "Cluster", "v1"),
    ("Gateway", "gateways.gateway.networking.k8s.io", "Namespaced", "v1"),
    ("HTTPRoute", "httproutes.gateway.networking.k8s.io", "Namespaced", "v1"),
    ("ReferenceGrant", "referencegrants.gateway.networking.k8s.io", "Namespaced", "v1beta1"),
    ("ListenerSet", "listenersets.gateway.networking.k8s.io", "Namespaced", "v1"),
    ("XBackendTrafficPolicy", "xbackendtrafficpolicies.gateway.networking.x-k8s.io", "Namespaced", "v1alpha1"),
];

const OBJECTS: &str = r#"
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: { name: other }
spec: { controllerName: example.com/other }
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: edge, namespace: default }
spec: { gatewayClassName: other, listeners: [{ name: web, port: 80, protocol: HTTP }] }
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: { name: good, namespace: default }
spec: { parentRefs: [{ name: edge }] }
---
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: { name: grant, namespace: default }
spec: { from: [], to: [] }
---
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: { name: more, namespace: default }
spec: { parentRef: { name: edge }, listeners: [{ name: web, port: 81, protocol: HTTP }] }
---
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackendTrafficPolicy
metadata: { name: retries, namespace: default }
spec: { targetRefs: [{ group: "", kind: Service, name: shop }], retryConstraint: {} }
"#;

/// A route with the schema of another version: the value of `rules` has another type.
const MALFORMED: &str = "{ apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: { name: bad, \
                         namespace: default }, spec: { parentRefs: [{ name: edge }], rules: 7 } }";

/// The roles of a controller before Gateway API, and those for Gateway API.
const ROLES: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: { name: before }
rules:
- apiGroups: ["", networking.k8s.io, discovery.k8s.io]
  resources: [ingresses, ingressclasses, namespaces, services, endpointslices, secrets]
  verbs: [list, watch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: { name: gateways }
rules:
- { apiGroups: [gateway.networking.k8s.io, gateway.networking.x-k8s.io, lockgate.dev], resources: ["*"], verbs: [list, watch] }
- { apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [list, watch] }
- { apiGroups: [""], resources: [configmaps], verbs: [list, watch] }
"#;

/// The source requests an absent kind at least every 30 s. Objects stay for 30 s after their kind is gone.
const PATIENCE: Duration = Duration::from_secs(120);

/// A CustomResourceDefinition that accepts every spec.
fn definition((kind, name, scope, version): (&str, &str, &str, &str)) -> String {
    let (plural, group) = name.split_once('.').expect("a plural and a group");
    format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  \
         name: {name}\n  annotations: {{ api-approved.kubernetes.io: \
         \"https://github.com/kubernetes-sigs/gateway-api\" }}\nspec:\n  group: {group}\n  \
         names: {{ kind: {kind}, plural: {plural} }}\n  scope: {scope}\n  versions:\n  - name: {version}\n    \
         served: true\n    storage: true\n    schema: {{ openAPIV3Schema: {{ type: object, \
         x-kubernetes-preserve-unknown-fields: true }} }}\n"
    )
}

async fn install(server: &ApiServer, kinds: &[(&str, &str, &str, &str)]) {
    server.apply(&kinds.iter().map(|kind| definition(*kind)).collect::<Vec<_>>().join("---\n")).await;
    server.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"], "").await;
}

/// The names of the objects of a kind.
async fn objects(lockgate: &Lockgate, kind: &str) -> Vec<String> {
    let all: Value = serde_json::from_str(&lockgate.get("/debug/objects").await.text()).expect("JSON");
    let names = all[kind].as_array().unwrap_or_else(|| panic!("{kind} in {all}"));
    names.iter().map(|name| name.as_str().unwrap_or_default().to_owned()).collect()
}

async fn eventually(what: &str, mut check: impl AsyncFnMut() -> bool) {
    let (_, took) =
        wait_at_most(PATIENCE, Duration::from_millis(100), what, async || check().await.then_some(())).await;
    println!("{what}: {:.1} s", took.as_secs_f64());
}

fn logged(lockgate: &Lockgate, part: &str) -> usize {
    lockgate.log().lines().filter(|line| line.contains(part)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_are_watched_while_they_are_installed() {
    let server = ApiServer::start().await;
    server.apply(&ingress_class()).await;
    let lockgate = Lockgate::start(&Source::Kubeconfig(server.kubeconfig("admin")), &[]).await;
    let line = |name: &str, installed: bool| match installed {
        true => format!("Gateway API: watching {name}"),
        false => format!("Gateway API: {name} are not installed in this cluster"),
    };
    for (kind, definition, ..) in KINDS {
        assert_eq!(logged(&lockgate, &line(definition, false)), 1, "{}", lockgate.log());
        assert_eq!(objects(&lockgate, kind).await, [""; 0]);
    }

    install(&server, &KINDS).await;
    server.apply(OBJECTS).await;
    let names = ["other", "default/edge", "default/good", "default/grant", "default/more", "default/retries"];
    for ((kind, definition, ..), name) in KINDS.into_iter().zip(names) {
        eventually(&format!("the {kind}"), async || objects(&lockgate, kind).await == [name]).await;
        assert_eq!(logged(&lockgate, &line(definition, true)), 1, "{}", lockgate.log());
    }

    // The definitions have no annotations, as in an unknown version.
    let version = "found Gateway API in a version other than v1.6";
    eventually("the version in the log", async || logged(&lockgate, version) >= 1).await;

    // A malformed object affects only itself, in the watch and in a list.
    server.apply(MALFORMED).await;
    server.apply(&OBJECTS.replace("name: good", "name: better")).await;
    eventually("the next HTTPRoute", async || objects(&lockgate, "HTTPRoute").await.len() == 2).await;
    let again = Lockgate::start(&Source::Kubeconfig(server.kubeconfig("admin")), &[]).await;
    for lockgate in [&lockgate, &again] {
        assert_eq!(objects(lockgate, "HTTPRoute").await, ["default/better", "default/good"]);
        assert_eq!(logged(lockgate, "left out an object of a list"), 0, "{}", lockgate.log());
    }
    assert_eq!(logged(&again, &line("httproutes.gateway.networking.k8s.io", true)), 1, "also at the start");

    server.kubectl(&["delete", "crd", "httproutes.gateway.networking.k8s.io"], "").await;
    eventually("no HTTPRoute", async || objects(&lockgate, "HTTPRoute").await.is_empty()).await;
    assert_eq!(objects(&lockgate, "Gateway").await, ["default/edge"]);
    eventually("the log to say so", async || {
        logged(&lockgate, &line("httproutes.gateway.networking.k8s.io", false)) == 2
    })
    .await;
    install(&server, &KINDS[2..3]).await;
    server.apply(OBJECTS).await;
    eventually("the HTTPRoute again", async || objects(&lockgate, "HTTPRoute").await == ["default/good"]).await;
    assert_eq!(logged(&lockgate, &line("httproutes.gateway.networking.k8s.io", true)), 2, "{}", lockgate.log());
    assert_eq!(lockgate.metric("lockgate_source_faults_total", &[]).await, 0.0, "{}", lockgate.log());
}

/// The number of objects of each kind behind a bad network.
const MANY: usize = 300;

/// Returns an Ingress and an HTTPRoute with this number.
fn one_of_each(number: usize) -> String {
    let route = format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{ name: r{number}, namespace: default }}\n\
         spec: {{ parentRefs: [{{ name: edge }}] }}\n"
    );
    documents(&[ingress(&format!("i{number}"), &format!("i{number}.test"), "none", None), route])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_cuts_connections_hides_no_object() {
    let server = ApiServer::start().await;
    server.apply(&ingress_class()).await;
    install(&server, &KINDS[2..3]).await;
    server.kubectl(&["create", "-f", "-"], &documents(&(0..MANY).map(one_of_each).collect::<Vec<_>>())).await;
    let directory = tempfile::tempdir().expect("a temporary directory");
    let kubeconfig = directory.path().join("kubeconfig");
    let direct = std::fs::read_to_string(server.kubeconfig("admin")).expect("a kubeconfig");
    let port = direct.split("https://127.0.0.1:").nth(1).and_then(|rest| rest.split('"').next()).expect("an address");
    let port: u16 = port.parse().expect("a port");
    let relay = Relay::start(&[port]).await;
    std::fs::write(&kubeconfig, direct.replace(&format!(":{port}"), &format!(":{}", relay.port))).expect("a file");
    let lockgate = Lockgate::start(&Source::Kubeconfig(kubeconfig.clone()), &[]).await;
    let count = async |lockgate: &Lockgate, kind: &str| {
        lockgate.metric("lockgate_objects", &[&format!("kind=\"{kind}\"")]).await as usize
    };
    // Another controller lists everything while connections are cut.
    let late = Lockgate::launch(&Source::Kubeconfig(kubeconfig), &[]);
    let (mut all, start) = (MANY, std::time::Instant::now());
    for turn in 0.. {
        relay.cut();
        // The time in which a list or a part of it can arrive.
        tokio::time::sleep(Duration::from_millis(20 + turn * 37 % 280)).await;
        for kind in ["Ingress", "HTTPRoute"] {
            let found = count(&lockgate, kind).await;
            assert!(
                found >= MANY,
                "{found} of {MANY} objects of the kind {kind} after {turn} cuts: {}",
                lockgate.log()
            );
        }
        if turn % 10 == 0 {
            server.apply(&one_of_each(all)).await;
            all += 1;
        }
        if start.elapsed() > Duration::from_secs(12) {
            println!("{turn} cuts, {} objects more", all - MANY);
            break;
        }
    }
    for (lockgate, name) in [(&lockgate, "the first"), (&late, "the late")] {
        let found = async || {
            let counts = (count(lockgate, "Ingress").await, count(lockgate, "HTTPRoute").await);
            counts == (all, all)
        };
        eventually(&format!("all objects at {name} controller"), found).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_waits_for_permission_to_read_gateway_api() {
    let server = ApiServer::start().await;
    server.apply(&ingress_class()).await;
    install(&server, &KINDS).await;
    server.apply(OBJECTS).await;
    server.apply(ROLES).await;
    let bind = async |role: &str| {
        let role_flag = format!("--clusterrole={role}");
        server.kubectl(&["create", "clusterrolebinding", role, &role_flag, "--user=controller"], "").await;
    };
    bind("before").await;
    let kubeconfig = server.kubeconfig("controller");
    let lockgate = Lockgate::start(&Source::Kubeconfig(kubeconfig.clone()), &[]).await;
    let hint = "grant list and watch in a ClusterRole, or set watch.gatewayApi to false";
    lockgate.logged(&["cannot list customresourcedefinitions", "the version of Gateway API is unknown"]).await;
    for (_, definition, ..) in KINDS {
        lockgate.logged(&[&format!("cannot list {definition}"), hint]).await;
    }
    let file = "xds: { address: '127.0.0.1:XDS' }\nadmin: { address: '127.0.0.1:ADMIN' }\n\
                listeners: { http: { port: HTTP_PORT }, https: { port: HTTPS_PORT }, stats: { port: STATS } }\n\
                watch: { gatewayApi: false }\n";
    let source = ["--kubeconfig", kubeconfig.to_str().expect("a path in UTF-8")];
    let mut without = Lockgate::launch_by_file(&source, file);
    without.wait_ready().await;
    assert_eq!(without.metric("lockgate_source_faults_total", &[]).await, 0.0, "{}", without.log());
    assert!(!without.log().contains("gateway.networking.k8s.io"), "{}", without.log());

    bind("gateways").await;
    eventually("the Gateway", async || objects(&lockgate, "Gateway").await == ["default/edge"]).await;
    eventually("no fault", async || lockgate.metric("lockgate_source_faulty", &[]).await == 0.0).await;
}
