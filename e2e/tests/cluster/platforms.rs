//! Installations for kind, OpenShift, and clouds, with Helm 3 and Helm 4.

use std::time::Instant;

use e2e::lab::{Namespace, Pod, echo};
use e2e::{Lab, Target};
use serde_json::Value;

use super::first::ingress;

/// The versions of helm.
const HELMS: [&str; 2] = ["helm", "helm3"];

/// Returns the flags of a release with its own classes.
fn classes(name: &str) -> [String; 4] {
    [
        format!("--set=ingressClass.name={name}"),
        format!("--set=settings.ingress.controllerName={name}.test/lockgate"),
        "--set=envoy.drain.minSeconds=1".to_owned(),
        "--set=envoy.drain.deadlineSeconds=10".to_owned(),
    ]
}

/// Runs `helm install --wait`.
async fn install(helm: &str, space: &Namespace<'_>, release: &str, flags: &[&str]) -> Result<String, String> {
    let classes = classes(release);
    let fixed = ["install", release, "charts/lockgate", "--namespace", &space.name, "--wait"];
    let all = fixed.into_iter().chain(flags.iter().copied()).chain(classes.iter().map(String::as_str));
    space.lab().try_helm_of(helm, &all.collect::<Vec<_>>()).await
}

async fn pods(space: &Namespace<'_>, release: &str, component: &str) -> Vec<Pod> {
    let labels = format!("app.kubernetes.io/instance={release},app.kubernetes.io/component={component}");
    space.pods(&labels).await
}

/// Serves an Ingress of the class `release`, and requests it from each Envoy at its own port.
async fn serve(space: &Namespace<'_>, release: &str) -> usize {
    space.endpoints("echo", 1).await;
    let host = format!("{release}.test");
    space.apply(&ingress("echo", &host, "echo").replace("ClassName: lockgate", &format!("ClassName: {release}"))).await;
    let envoys = pods(space, release, "envoy").await;
    for envoy in &envoys {
        let target = Target::http(8080, &host).at(envoy.ip.expect("an address"));
        let ok = async || target.get("/").await.ok().filter(|answer| answer.status == 200);
        space.lab().until(&format!("200 from {}", envoy.name), ok).await;
    }
    envoys.len()
}

/// The lab gives no address to a Service with a load balancer class, like kind to any Service.
#[tokio::test(flavor = "multi_thread")]
async fn helm_waits_for_kind_with_its_values_and_helm_3_in_vain_without() {
    let lab = Lab::shared().await;
    for helm in HELMS {
        let (space, release) = (lab.namespace("kind").await, format!("{helm}-kind"));
        space.apply(&echo("echo").yaml()).await;
        let start = Instant::now();
        let values = ["--values=charts/lockgate/examples/kind.yaml", "--timeout=120s"];
        let notes = install(helm, &space, &release, &values).await.unwrap_or_else(|error| panic!("{helm}: {error}"));
        println!("{helm} install --wait with the values for kind: {:.1} s", start.elapsed().as_secs_f64());
        assert!(notes.contains("for kind, localhost"), "{notes}");
        // A DaemonSet: one Envoy on each of the two nodes.
        assert_eq!(serve(&space, &release).await, 2);
        let status = async || {
            let ingress = space.ingress("echo").await;
            (ingress["status"]["loadBalancer"]["ingress"][0]["ip"] == "127.0.0.1").then_some(())
        };
        lab.until("the address in the status", status).await;
        let path = format!("/apis/apps/v1/namespaces/{}/daemonsets/{release}-lockgate-envoy", space.name);
        let ports = lab.get(&path).await["spec"]["template"]["spec"]["containers"][0]["ports"].clone();
        let ports: Vec<&Value> = ports.as_array().into_iter().flatten().map(|port| &port["hostPort"]).collect();
        assert_eq!(ports[..2], [80, 443]);
        let upgrade = ["upgrade", &release, "charts/lockgate", "--namespace", &space.name, "--wait", "--timeout=120s"];
        let change = ["--reset-then-reuse-values", "--set=settings.http.trustedHops=1"];
        let upgraded = lab.try_helm_of(helm, &[&upgrade[..], &change].concat()).await;
        upgraded.unwrap_or_else(|error| panic!("{helm} upgrade: {error}"));
        let uninstall = ["uninstall", &release, "--namespace", &space.name, "--wait", "--timeout=120s"];
        lab.try_helm_of(helm, &uninstall).await.unwrap_or_else(|error| panic!("{helm} uninstall: {error}"));
    }

    let space = lab.namespace("pending").await;
    let pending = ["--set=envoy.service.loadBalancerClass=example.com/none", "--timeout=20s"];
    let error = install("helm3", &space, "pending", &pending).await.expect_err("a Service that stays pending");
    assert!(error.contains("context deadline exceeded") || error.contains("timed out"), "{error}");
    // All pods are ready: helm waits for the address alone.
    for component in ["controller", "envoy"] {
        let pods = pods(&space, "pending", component).await;
        assert!(pods.len() == 2 && pods.iter().all(|pod| pod.ready), "{pods:?}");
    }
    lab.try_helm_of("helm3", &["uninstall", "pending", "--namespace", &space.name])
        .await
        .expect("the end of the release");
}

/// Any user, the group 0, and any group of the volumes, as the constraints `restricted-v2` of OpenShift assign them, in a
/// namespace that enforces the strictest pod security standard.
#[tokio::test(flavor = "multi_thread")]
async fn pods_run_as_the_user_that_openshift_assigns() {
    const USER: &str = "1000680000";
    let lab = Lab::shared().await;
    for helm in HELMS {
        let (space, release) = (lab.namespace("openshift").await, format!("{helm}-os"));
        // The echo server does not comply, so it is older than the label.
        space.apply(&echo("echo").yaml()).await;
        space.endpoints("echo", 1).await;
        let enforce = ["label", "namespace", &space.name, "pod-security.kubernetes.io/enforce=restricted"];
        lab.kubectl(&enforce, "").await;
        // helm renders the values of OpenShift, and the admission of OpenShift sets these fields afterwards.
        let user = ["controller", "envoy"].map(|who| {
            format!("--set={who}.podSecurityContext.runAsUser={USER},{who}.podSecurityContext.runAsGroup=0,{who}.podSecurityContext.fsGroup={USER}")
        });
        let flags = [&user[0], &user[1], "--timeout=120s"];
        install(helm, &space, &release, &flags).await.unwrap_or_else(|error| panic!("{helm}: {error}"));
        assert_eq!(serve(&space, &release).await, 2);
        for (component, container) in [("controller", "lockgate"), ("envoy", "envoy"), ("envoy", "drain")] {
            let pod = &pods(&space, &release, component).await[0];
            let process = lab.process_of(&space.name, &pod.name, container);
            let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("the process");
            let ids = status.lines().find_map(|line| line.strip_prefix("Uid:")).expect("Uid");
            assert!(ids.split_whitespace().all(|id| id == USER), "{container}: {ids}");
            assert_eq!(pod.restarts, 0, "{container}");
        }
        let test = ["test", &release, "--namespace", &space.name, "--timeout=60s"];
        lab.try_helm_of(helm, &test).await.unwrap_or_else(|error| panic!("{helm} test: {error}"));
        let uninstall = ["uninstall", &release, "--namespace", &space.name, "--wait", "--timeout=120s"];
        lab.try_helm_of(helm, &uninstall).await.unwrap_or_else(|error| panic!("{helm} uninstall: {error}"));
    }
}

/// The values for clouds. The lab plays the cloud: it gives addresses of its own network, to Services without a class.
#[tokio::test(flavor = "multi_thread")]
async fn values_for_clouds_are_installed() {
    const CLOUDS: [(&str, &str); 3] = [
        ("aws", "--set=envoy.service.loadBalancerClass="),
        ("azure", "--set=envoy.replicas=2"),
        ("gke", "--set=envoy.service.loadBalancerIP=10.245.77.7"),
    ];
    let lab = Lab::shared().await;
    for helm in HELMS {
        for (cloud, of_the_lab) in CLOUDS {
            let (space, release) = (lab.namespace(cloud).await, format!("{helm}-{cloud}"));
            let values = format!("--values=charts/lockgate/examples/{cloud}.yaml");
            let flags = [&values, of_the_lab, "--timeout=120s"];
            install(helm, &space, &release, &flags).await.unwrap_or_else(|error| panic!("{helm}, {cloud}: {error}"));
            let address = lab.address(&space.name, &format!("{release}-lockgate-envoy")).await.to_string();
            assert!(cloud != "gke" || address == "10.245.77.7", "{address}");
            // With PROXY headers, `helm test` runs nc, which few machines have. Pods of the lab run programs of the machine.
            if cloud != "aws" {
                let test = ["test", &release, "--namespace", &space.name, "--timeout=60s"];
                lab.try_helm_of(helm, &test).await.unwrap_or_else(|error| panic!("{helm} test, {cloud}: {error}"));
            }
            let uninstall = ["uninstall", &release, "--namespace", &space.name, "--wait", "--timeout=120s"];
            lab.try_helm_of(helm, &uninstall).await.unwrap_or_else(|error| panic!("{helm} uninstall: {error}"));
        }
    }
}
