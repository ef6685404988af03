//! The life cycle of a helm release: install, upgrade, roll back, uninstall.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use e2e::Lab;
use e2e::lab::echo;
use e2e::load::Plan;
use e2e::process::{output, repository};
use e2e::wasm::{MARK, module};
use e2e::{Load, Target};
use serde_json::Value;

/// The name of the release. Its objects are named `edge-lockgate…`.
const RELEASE: &str = "edge";
const NAMESPACE: &str = "edge";

/// The kinds of objects that exist in every namespace, or that the cluster creates itself.
const OF_THE_CLUSTER: [&str; 4] =
    ["Event ", "ConfigMap edge/kube-root-ca.crt", "ServiceAccount edge/default", "Namespace /edge"];

/// Returns every object of every kind, as `KIND NAMESPACE/NAME`.
async fn inventory(lab: &Lab) -> BTreeSet<String> {
    let kinds = lab.kubectl(&["api-resources", "--verbs=list", "--output=name"], "").await;
    let kinds = kinds.split_whitespace().collect::<Vec<_>>().join(",");
    let columns = "--output=custom-columns=KIND:.kind,NAMESPACE:.metadata.namespace,NAME:.metadata.name";
    let table = lab.kubectl(&["get", &kinds, "--all-namespaces", "--no-headers", columns], "").await;
    let objects = table.lines().filter_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [kind, "<none>", name] => Some(format!("{kind} /{name}")),
        [kind, namespace, name] => Some(format!("{kind} {namespace}/{name}")),
        _ => None,
    });
    objects.filter(|object| !OF_THE_CLUSTER.iter().any(|known| object.starts_with(known))).collect()
}

/// Returns the data of a Secret that the controller writes.
async fn secret(lab: &Lab, name: &str) -> Value {
    lab.get(&format!("/api/v1/namespaces/{NAMESPACE}/secrets/{RELEASE}-lockgate-xds-{name}")).await["data"].clone()
}

async fn pods(lab: &Lab, component: &str) -> BTreeSet<String> {
    let labels = format!("app.kubernetes.io/instance={RELEASE},app.kubernetes.io/component={component}");
    lab.pods(NAMESPACE, &labels).await.into_iter().filter(|pod| pod.ready).map(|pod| pod.name).collect()
}

/// Runs `helm upgrade` with these flags, and waits for the rollout.
async fn upgrade(lab: &Lab, flags: &[&str]) -> Result<String, String> {
    let fixed =
        ["upgrade", RELEASE, "charts/lockgate", "--namespace", NAMESPACE, "--reuse-values", "--wait", "--timeout=120s"];
    lab.try_helm(&[&fixed, flags].concat()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_installed_upgraded_rolled_back_and_leaves_nothing() {
    let lab = Lab::alone().await;
    let shop = lab.namespace("helm").await;
    shop.apply(&echo("echo").yaml()).await;
    shop.endpoints("echo", 1).await;
    shop.apply(
        &super::first::ingress("echo", "edge.test", "echo")
            .replace("ingressClassName: lockgate", "ingressClassName: edge"),
    )
    .await;
    // The chart in the form of a release: one file.
    let package = tempfile::tempdir().expect("a temporary directory");
    let mut packaging = std::process::Command::new(repository().join("scripts/release.sh"));
    packaging.args(["check", "chart"]).env("DIST", package.path());
    output(packaging, "").await.unwrap_or_else(|error| panic!("{error}"));
    let chart =
        std::fs::read_dir(package.path()).expect("packages").next().expect("a package").expect("an entry").path();
    let before = inventory(&lab).await;
    let earlier = lab.requests().len();

    // From the installation to the first 200 at the address of the load balancer.
    let start = Instant::now();
    let notes = lab
        .helm(&[
            "install",
            RELEASE,
            chart.to_str().expect("a path"),
            "--namespace",
            NAMESPACE,
            "--create-namespace",
            "--set",
            "ingressClass.name=edge",
            "--set",
            "settings.ingress.controllerName=edge.test/lockgate",
            "--set",
            "envoy.drain.minSeconds=2",
            "--set",
            "envoy.drain.deadlineSeconds=20",
        ])
        .await;
    let installed = start.elapsed();
    // The pods are not ready yet, as for users who install without `--wait`.
    let serving = async {
        let address = lab.address(NAMESPACE, "edge-lockgate-envoy").await;
        let target = Target::http(80, "edge.test").at(address);
        let ok = async || target.get("/").await.ok().filter(|answer| answer.status == 200);
        lab.until("the first 200 through the load balancer's address", ok).await;
        (address, target, start.elapsed())
    };
    let test = ["test", RELEASE, "--namespace", NAMESPACE, "--logs", "--timeout=60s"];
    let ((address, target, first), tested) = tokio::join!(serving, lab.helm(&test));
    println!("helm test:\n{tested}");
    assert!(tested.contains("edge-lockgate is ready"), "{tested}");
    println!(
        "helm install: {:.1} s; to the first 200: {:.1} s (goal: 10 s)",
        installed.as_secs_f64(),
        first.as_secs_f64()
    );
    assert!(first < Duration::from_secs(60), "{first:?}");
    assert!(notes.contains("kubectl --namespace edge rollout status deployment/edge-lockgate-envoy"), "{notes}");

    // The status contains the address as soon as Envoy serves the Ingress.
    assert_eq!(shop.ingress_address("echo").await, address);
    let [ca, server, envoy] = [secret(&lab, "ca").await, secret(&lab, "server").await, secret(&lab, "envoy").await];
    assert!(ca["ca.crt"].is_string() && server["tls.key"].is_string() && envoy["tls.key"].is_string());

    // A change of settings restarts no pod. A change of the number of Envoys affects only Envoys. Neither fails a
    // request.
    let load = Load::start(Plan::new(target.clone(), "/")).await;
    load.answers(500).await;
    lab.until("two controllers", async || (pods(&lab, "controller").await.len() == 2).then_some(())).await;
    let controllers = pods(&lab, "controller").await;
    let envoys = pods(&lab, "envoy").await;
    upgrade(&lab, &["--set", "settings.headers.response.set.x-edge=upgraded"])
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    let upgraded = async || target.get("/").await.ok()?.headers.get("x-edge").map(|value| value == "upgraded");
    let (_, time) = lab.until("the new setting", upgraded).await;
    println!("a setting, from the end of helm upgrade to a response: {:.1} s", time.as_secs_f64());
    assert_eq!(pods(&lab, "envoy").await, envoys);
    upgrade(&lab, &["--set", "envoy.replicas=3"]).await.unwrap_or_else(|error| panic!("{error}"));
    let three = pods(&lab, "envoy").await;
    assert!(three.len() == 3 && three.is_superset(&envoys), "{envoys:?} became {three:?}");
    assert_eq!(pods(&lab, "controller").await, controllers);

    // A module reaches the Envoys by a volume, and the pods are replaced.
    let module = serde_json::json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": "modules", "namespace": NAMESPACE },
        "binaryData": { "mark.wasm": BASE64_STANDARD.encode(module()) },
    });
    lab.kubectl(&["apply", "--filename=-"], &module.to_string()).await;
    let values = [
        "--set=settings.headers.response.set.x-edge=modules",
        "--set-json=settings.wasm.modules={\"mark\": {\"file\": \"/wasm/mark.wasm\", \"configuration\": \"seen\"}}",
        "--set-json=envoy.extraVolumes=[{\"name\": \"modules\", \"configMap\": {\"name\": \"modules\"}}]",
        "--set-json=envoy.extraVolumeMounts=[{\"name\": \"modules\", \"mountPath\": \"/wasm\"}]",
    ];
    upgrade(&lab, &values).await.unwrap_or_else(|error| panic!("{error}"));
    // Until each controller has the new settings, it closes the routes of a policy that names the module.
    e2e::wait_everywhere("the settings with the module", async || {
        target.get("/").await.is_ok_and(|answer| answer.header("x-edge") == "modules")
    })
    .await;
    shop.apply(
        "apiVersion: lockgate.dev/v1alpha1\nkind: HTTPPolicy\nmetadata: { name: mark }\nspec:\n  targetRefs: \
         [{ group: networking.k8s.io, kind: Ingress, name: echo }]\n  wasm: { module: mark }\n",
    )
    .await;
    let marked = async || target.get("/").await.ok().filter(|answer| answer.header(MARK) == "seen");
    lab.until("a response of the module", marked).await;
    lab.kubectl(&["delete", "httppolicy", "mark", "--namespace", &shop.name], "").await;
    // Both controllers: one that loses the module before it knows of the deletion closes the routes.
    e2e::wait_everywhere("responses without the module", async || {
        target.get("/").await.is_ok_and(|answer| answer.header(MARK).is_empty())
    })
    .await;

    // An invalid value changes nothing.
    let error = upgrade(&lab, &["--set", "envoy.replica=4"]).await.expect_err("a value that does not exist");
    assert!(error.contains("replica"), "{error}");

    lab.helm(&["rollback", RELEASE, "1", "--namespace", NAMESPACE, "--wait", "--timeout=120s"]).await;
    lab.until("two Envoys again", async || (pods(&lab, "envoy").await.len() == 2).then_some(())).await;
    assert_eq!(pods(&lab, "controller").await, controllers);
    let report = load.stop().await;
    println!("upgrades and a rollback: {report}");
    assert_eq!(report.failed(), 0, "{report}");
    // helm does not change the content that the controller has written.
    assert_eq!(
        [secret(&lab, "ca").await, secret(&lab, "server").await, secret(&lab, "envoy").await],
        [ca, server, envoy]
    );
    // Its permissions are removed before its pods.
    let requests = lab.requests().into_iter().skip(earlier);
    let refused: Vec<_> = requests.filter(|request| request.user.contains(":edge:") && request.status == 403).collect();
    assert!(refused.is_empty(), "{refused:?}");

    lab.kubectl(&["delete", "configmap", "modules", "--namespace", NAMESPACE], "").await;
    let start = Instant::now();
    lab.helm(&["uninstall", RELEASE, "--namespace", NAMESPACE, "--wait", "--timeout=120s"]).await;
    let mut left = BTreeSet::new();
    let gone = async || {
        left = inventory(&lab).await.difference(&before).cloned().collect();
        // helm keeps the definition of HTTPPolicies and its APIService, and with them the policies of users.
        left.retain(|object: &String| !object.ends_with(".lockgate.dev"));
        left.is_empty().then_some(())
    };
    lab.until("an end that leaves nothing", gone).await;
    println!("helm uninstall, until nothing is left: {:.1} s", start.elapsed().as_secs_f64());
    lab.kubectl(&["delete", "namespace", NAMESPACE, "--wait=false"], "").await;
}
