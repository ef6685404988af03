//! Operation of the program: readiness, metrics, log, and shutdown.

use std::time::{Duration, Instant};

use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::{ApiServer, Backend, Envoy, Lockgate, Manifests, Mode, Source, Target, wait_for, wait_until};
use hyper::Method;
use serde_json::{Value, json};

fn shop(backend: &Backend) -> Manifests {
    let manifests = Manifests::new();
    manifests.write("class.yaml", &ingress_class());
    let shop = [service("shop", "", &[backend.address]), ingress("shop", "shop.test", "shop", None)];
    manifests.write("shop.yaml", &documents(&shop));
    manifests
}

/// Returns the body of `/readyz` while the program is not ready.
async fn not_ready(lockgate: &mut Lockgate) -> String {
    let target = lockgate.target();
    let answered = async || {
        lockgate.process().assert_running();
        target.get("/readyz").await.ok()
    };
    let (answer, _) = wait_for("an answer of /readyz", answered).await;
    assert_eq!(answer.status, 503, "{}", answer.text());
    answer.text()
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_names_what_the_api_server_refuses() {
    let mut server = ApiServer::start().await;
    let mut lockgate = Lockgate::launch(&Source::Kubeconfig(server.kubeconfig("controller")), &[]);
    let missing = not_ready(&mut lockgate).await;
    println!("without any permission: {missing}");
    for kind in ["Ingress", "IngressClass", "Service", "EndpointSlice", "Secret", "Namespace"] {
        assert!(missing.contains(kind), "{kind} is missing in: {missing}");
    }
    let line = lockgate.logged(&["Ingress", "forbidden"]).await;
    println!("{line}");

    let role = |resources: &str| {
        format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {{ name: controller }}\nrules:\n- {{ apiGroups: \
             ['', networking.k8s.io, discovery.k8s.io], resources: [{resources}], verbs: [get, list, watch] }}\n---\n\
             apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {{ name: controller }}\nroleRef: {{ apiGroup: \
             rbac.authorization.k8s.io, kind: ClusterRole, name: controller }}\nsubjects: [{{ apiGroup: \
             rbac.authorization.k8s.io, kind: User, name: controller }}]\n"
        )
    };
    server.apply(&role("ingresses, ingressclasses, services, endpointslices, namespaces")).await;
    wait_until("only Secrets to be missing", async || {
        let text = lockgate.get("/readyz").await.text();
        text.contains("Secret") && !text.contains("EndpointSlice")
    })
    .await;
    server.apply(&role("'*'")).await;
    lockgate.wait_ready().await;

    // Served resources stay when the API server becomes unavailable.
    server.kill();
    server.restart();
    server.wait_ready().await;
    server.apply(&ingress("late", "late.test", "nothing", None)).await;
    let counted = async || lockgate.metric("lockgate_objects", &["kind=\"Ingress\""]).await == 1.0;
    wait_until("the Ingress made after the API server's restart", counted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_cannot_be_reached_is_waited_for() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let kubeconfig = directory.path().join("kubeconfig");
    let nowhere = e2e::ports::free();
    let content = format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{ name: c, cluster: {{ server: 'http://127.0.0.1:{nowhere}' }} }}]\n\
         users: [{{ name: u, user: {{}} }}]\ncontexts: [{{ name: x, context: {{ cluster: c, user: u }} }}]\ncurrent-context: x\n"
    );
    std::fs::write(&kubeconfig, content).expect("a file written");
    let mut lockgate = Lockgate::launch(&Source::Kubeconfig(kubeconfig), &[]);
    assert!(not_ready(&mut lockgate).await.contains("Ingress"));
    println!("{}", lockgate.logged(&["cannot list ingresses", "retrying"]).await);
    assert_eq!(lockgate.get("/healthz").await.status, 200);
    assert!(lockgate.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_what_happens() {
    let backend = Backend::start("a").await;
    let manifests = shop(&backend);
    let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &[]).await;
    let _envoy = Envoy::start(&lockgate, Mode::Delta).await;
    let target = Target::http(lockgate.http, "shop.test");
    wait_until("the shop to be served", async || target.backend("/").await.is_some()).await;

    for kind in ["Ingress", "IngressClass", "Service", "EndpointSlice"] {
        assert_eq!(lockgate.metric("lockgate_objects", &[&format!("kind=\"{kind}\"")]).await, 1.0, "{kind}");
    }
    assert_eq!(lockgate.metric("lockgate_xds_streams", &["delta"]).await, 1.0);
    assert_eq!(lockgate.metric("lockgate_problems", &[]).await, 0.0);
    let acks = lockgate.metric("lockgate_xds_acks_total", &[]).await;
    assert!(acks >= 4.0, "{acks} acknowledgements");
    let timed = lockgate.metric("lockgate_xds_push_to_ack_seconds_count", &[]).await;
    assert!(timed >= 4.0, "{timed} times from push to acknowledgement");

    manifests.write("faulty.yaml", &ingress("faulty", "faulty.test", "nothing", None));
    wait_until("a problem", async || lockgate.metric("lockgate_problems", &[]).await == 1.0).await;
    wait_until("more acknowledgements", async || lockgate.metric("lockgate_xds_acks_total", &[]).await > acks).await;
    assert_eq!(lockgate.metric("lockgate_xds_nacks_total", &[]).await, 0.0);
}

/// Adds and removes 1,000 pods behind 20 Services that no served object references. Each change of a pod is a new
/// version of its EndpointSlice, as the controller of Kubernetes writes it.
#[tokio::test(flavor = "multi_thread")]
async fn pods_that_nothing_served_depends_on_leave_the_log_alone() {
    const SERVICES: usize = 20;
    const PODS: usize = 50;
    let server = ApiServer::start().await;
    let address = "10.1.2.3:80".parse().expect("an address");
    let shop = [ingress_class(), service("shop", "", &[address]), ingress("shop", "shop.test", "shop", None)];
    server.apply(&documents(&shop)).await;
    let lockgate = Lockgate::start(&Source::Kubeconfig(server.kubeconfig("admin")), &[]).await;
    lockgate.logged(&["published"]).await;
    let lines = || lockgate.log().lines().count();

    let target = server.target().field("content-type", "application/json");
    let write = async |method: Method, path: &str, object: Value| {
        let answer = target.send(method, path, object.to_string()).await.expect("an answer of the API server");
        assert!(answer.status < 300, "{path}: {} {}", answer.status, answer.text());
    };
    let slice = |name: &str, pods: usize| {
        let pods = (1..=pods).map(|pod| json!({ "addresses": [format!("10.0.0.{pod}")] }));
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": { "name": name, "labels": { "kubernetes.io/service-name": name } },
            "ports": [{ "name": "http", "port": 80 }], "endpoints": pods.collect::<Vec<_>>(),
        })
    };
    let (services, slices) =
        ("/api/v1/namespaces/default/services", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices");
    let (before, start) = (lines(), Instant::now());
    for noise in (0..SERVICES).map(|noise| format!("noise-{noise}")) {
        let ports = json!({ "ports": [{ "name": "http", "port": 80 }] });
        let object = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": noise }, "spec": ports });
        write(Method::POST, services, object).await;
        write(Method::POST, slices, slice(&noise, 0)).await;
        for pods in (1..=PODS).chain((0..PODS).rev()) {
            write(Method::PUT, &format!("{slices}/{noise}"), slice(&noise, pods)).await;
        }
        write(Method::DELETE, &format!("{slices}/{noise}"), Value::Null).await;
        write(Method::DELETE, &format!("{services}/{noise}"), Value::Null).await;
    }
    // A later change of the shop is logged.
    server.kubectl(&["annotate", "ingress", "shop", "projectcontour.io/response-timeout=7s"], "").await;
    lockgate.logged(&["object changed", "Ingress", "shop"]).await;
    let (elapsed, log) = (start.elapsed(), lockgate.log());
    let told: Vec<&str> = log.lines().skip(before).filter(|line| line.contains("noise-")).collect();
    let changes = SERVICES * (2 * PODS + 4);
    println!(
        "{changes} changes of objects that nothing served depends on, in {:.1} s: {} lines, {} a minute; {} about the shop",
        elapsed.as_secs_f64(),
        told.len(),
        told.len() as f64 / elapsed.as_secs_f64() * 60.0,
        lines() - before - told.len()
    );
    assert!(told.is_empty(), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_when_told_to_and_envoy_goes_on() {
    let backend = Backend::start("a").await;
    let manifests = shop(&backend);
    let mut lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &[]).await;
    let _envoy = Envoy::start(&lockgate, Mode::Delta).await;
    let target = Target::http(lockgate.http, "shop.test");
    wait_until("the shop to be served", async || target.backend("/").await.is_some()).await;

    let start = Instant::now();
    let status = lockgate.terminate().await;
    println!("from SIGTERM to the end, with an Envoy connected: {:.0} ms", start.elapsed().as_secs_f64() * 1000.0);
    assert!(status.success(), "{status}");
    assert!(start.elapsed() < Duration::from_secs(10));
    assert_eq!(target.backend("/").await.as_deref(), Some("a"));
}

#[tokio::test(flavor = "multi_thread")]
async fn json_logs_are_json() {
    let backend = Backend::start("a").await;
    let manifests = shop(&backend);
    let mut lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &["--log-format", "json"]).await;
    let _envoy = Envoy::start(&lockgate, Mode::Delta).await;
    manifests.write("broken.yaml", "apiVersion: v1\nkind: Service\nmetadata: [\n");
    lockgate.logged(&["broken.yaml"]).await;
    assert!(lockgate.terminate().await.success());
    let log = lockgate.log();
    assert!(log.lines().count() > 5, "{log}");
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(line["message"].is_string() && line["level"].is_string(), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_level_changes_while_it_runs() {
    let backend = Backend::start("a").await;
    let manifests = shop(&backend);
    let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &[]).await;
    let put = async |filter: &str| {
        let answer = lockgate.target().send(Method::PUT, "/debug/log", filter.to_owned()).await;
        answer.unwrap_or_else(|error| panic!("PUT /debug/log: {error}"))
    };
    assert!(!lockgate.log().contains("DEBUG"), "{}", lockgate.log());
    assert_eq!(put("info,lockgate=debug").await.status, 200);
    manifests.write("other.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: { name: shop }\n");
    lockgate.logged(&["DEBUG", "Deployment"]).await;

    let refused = put("lockgate=loud").await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    assert_eq!(lockgate.get("/debug/log").await.text().trim(), "info,lockgate=debug");
}
