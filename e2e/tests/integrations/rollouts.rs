//! Argo Rollouts, whose Gateway API plugin shifts the weights of an HTTPRoute.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use e2e::lab::echo::Echoed;
use e2e::lab::{Namespace, echo};
use e2e::load::{Plan, Report};
use e2e::wait::wait_at_most;
use e2e::{Lab, Load, Target};
use serde_json::Value;

use super::flagger::{FAULTY, GATEWAY, HOST, PROMETHEUS, release};
use super::prometheus::Prometheus;
use super::{Page, lockgate};

/// The plugin on the page.
const PLUGIN: &str = "https://github.com/argoproj-labs/rollouts-plugin-trafficrouter-gatewayapi/releases/download/\
                      v0.15.0/gatewayapi-plugin-linux-amd64";
/// The manifest on the page.
const INSTALL: &str = "https://github.com/argoproj/argo-rollouts/releases/latest/download/install.yaml";

/// Types the commands of a console block.
async fn kubectl(lab: &Lab, block: &str, more: &[&str]) {
    for command in e2e::pages::commands(block) {
        let mut words = command.line.split_whitespace();
        assert_eq!(words.next(), Some("kubectl"));
        let args: Vec<&str> = words.chain(more.iter().copied()).collect();
        println!("{}", lab.kubectl(&args, "").await);
    }
}

/// Replaces a part of a block that the lab does not have.
fn replaced(block: &str, part: &str, by: &str) -> String {
    assert!(block.contains(part), "no {part} in {block}");
    block.replace(part, by)
}

/// Installs Argo Rollouts and its plugin.
async fn install(lab: &Lab, page: &Page) {
    let manifests = e2e::lab::program("rollouts-manifests").join("install.yaml").display().to_string();
    kubectl(lab, &replaced(&page.block("kubectl create namespace argo-rollouts"), INSTALL, &manifests), &[]).await;
    let plugin = std::env::var_os("GATEWAY_PLUGIN").map_or_else(|| e2e::lab::program("rollouts-plugin"), PathBuf::from);
    // Argo Rollouts copies a regular file.
    let plugin = plugin.canonicalize().expect("the plugin");
    println!("the plugin {}", plugin.display());
    let config = replaced(&page.block("trafficRouterPlugins:"), PLUGIN, &format!("file://{}", plugin.display()));
    lab.apply(&config).await;
    kubectl(lab, &page.block("kubectl rollout restart"), &[]).await;
    let status = ["--namespace=argo-rollouts", "rollout", "status", "deployment/argo-rollouts", "--timeout=120s"];
    lab.kubectl(&status, "").await;
}

/// Returns the weights of both versions in the HTTPRoute.
async fn weights(space: &Namespace<'_>) -> [Option<u64>; 2] {
    let path = format!("/apis/gateway.networking.k8s.io/v1/namespaces/{}/httproutes/shop", space.name);
    let route = space.lab().get(&path).await;
    let backends = route.pointer("/spec/rules/0/backendRefs").and_then(Value::as_array).cloned().unwrap_or_default();
    let weight = |name: &str| backends.iter().find(|backend| backend["name"] == name)?["weight"].as_u64();
    [weight("shop-stable"), weight("shop-canary")]
}

/// Waits until the Rollout is in a phase for the latest change of the Deployment. Returns the weights of the new version on the way.
async fn phase(space: &Namespace<'_>, expected: &str) -> BTreeSet<u64> {
    let (lab, name) = (space.lab(), &space.name);
    let mut seen = BTreeSet::new();
    let reached = async || {
        let rollout = lab.get(&format!("/apis/argoproj.io/v1alpha1/namespaces/{name}/rollouts/shop")).await;
        let deployment = lab.get(&format!("/apis/apps/v1/namespaces/{name}/deployments/shop")).await;
        let [_, canary] = weights(space).await;
        seen.extend(canary);
        let generation = deployment["metadata"]["generation"].to_string();
        let observed = &rollout["status"]["workloadObservedGeneration"];
        (rollout["status"]["phase"] == expected && *observed == *generation).then_some(())
    };
    let (_, time) =
        wait_at_most(Duration::from_secs(240), Duration::from_millis(200), &format!("the phase {expected}"), reached)
            .await;
    println!("{expected} after {:.0} s, weights {seen:?}", time.as_secs_f64());
    seen
}

/// Returns the percentage of requests that other pods than this one answer.
async fn share_of_others(target: &Target, pod: &str) -> usize {
    let mut others = 0;
    for _ in 0..200 {
        let answer = target.get("/").await.expect("an answer");
        others += usize::from(Echoed::of(&answer).expect("an answer of the backend").pod != pod);
    }
    others / 2
}

/// Requests `/` until `change` is complete.
async fn under_load(target: &Target, what: &str, change: impl Future<Output = ()>) -> Report {
    let load = Load::start(Plan { rate: 200, connections: 10, ..Plan::new(target.clone(), "/") }).await;
    change.await;
    let report = load.stop().await;
    println!("{what}: {report}");
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_promoted_or_aborted() {
    let lab = Lab::alone().await;
    lockgate(&lab).await;
    let page = Page::read("docs/tasks/canary.md");
    let space = lab.namespace("rollouts").await;
    Prometheus::start(&space).await;
    install(&lab, &page).await;

    let objects = echo("shop").container("lifecycle: { preStop: { exec: { command: [sleep, '10'] } } }").yaml();
    let (deployment, _) = objects.split_once("---\n").expect("a Deployment");
    space.apply(deployment).await;
    lab.apply(GATEWAY).await;
    let manifest = replaced(&page.block("kind: Rollout\n"), PROMETHEUS, &format!("prometheus.{}:", space.name));
    space
        .apply(&replaced(&replaced(&manifest, "duration: 2m", "duration: 15s"), "interval: 30s", "interval: 5s"))
        .await;
    phase(&space, "Healthy").await;
    let scaled = async || {
        let deployment = lab.get(&format!("/apis/apps/v1/namespaces/{}/deployments/shop", space.name)).await;
        (deployment["spec"]["replicas"] == 0).then_some(())
    };
    lab.until("the Deployment without pods of its own", scaled).await;
    let target = Target::http(80, HOST).at(lab.address("infra", "public-lockgate").await);
    lab.until("a 200", async || target.get("/").await.ok().filter(|answer| answer.status == 200)).await;

    let report = under_load(&target, "a promoted release", async {
        space.kubectl(&["set", "env", "deployment/shop", "RELEASE=second"], "").await;
        phase(&space, "Paused").await;
        let seen = phase(&space, "Healthy").await;
        assert!([20, 40, 60].iter().all(|weight| seen.contains(weight)), "{seen:?}");
        // The old pods end 30 s after the promotion.
        lab.until("the end of the old pods", async || (space.pods("app=shop").await.len() == 1).then_some(())).await;
    })
    .await;
    assert_eq!(report.failed(), 0, "{report}");
    assert_eq!(weights(&space).await, [Some(100), Some(0)]);
    assert_eq!(release(&space, &target).await, "second");

    let second = space.pods("app=shop").await.pop().expect("a pod").name;
    let commands = page.block("kubectl argo rollouts abort");
    let report = under_load(&target, "a release that a user aborts", async {
        space.kubectl(&["set", "env", "deployment/shop", "RELEASE=third"], "").await;
        phase(&space, "Paused").await;
        let third = async || (release(&space, &target).await == "third").then_some(());
        lab.until("an answer of the new version", third).await;
        let share = share_of_others(&target, &second).await;
        assert!((8..=35).contains(&share), "{share} % of the requests instead of 20 %");
        kubectl(&lab, &commands, &["--namespace", &space.name]).await;
        phase(&space, "Degraded").await;
        lab.until("the end of the new pods", async || (space.pods("app=shop").await.len() == 1).then_some(())).await;
    })
    .await;
    assert_eq!(report.failed(), 0, "{report}");
    assert_eq!(weights(&space).await, [Some(100), Some(0)]);
    assert_eq!(share_of_others(&target, &second).await, 0);

    let report = under_load(&target, "a release that the analysis aborts", async {
        space.kubectl(&["patch", "deployment", "shop", "--type=json", "--patch", FAULTY], "").await;
        phase(&space, "Paused").await;
        let seen = phase(&space, "Degraded").await;
        assert!(seen.iter().all(|weight| *weight <= 20), "{seen:?}");
    })
    .await;
    assert!(report.failed() > 0 && report.failures.keys().all(|failure| failure.starts_with("status 500")), "{report}");
    lab.until("the weights", async || (weights(&space).await == [Some(100), Some(0)]).then_some(())).await;
    e2e::wait_everywhere("200", async || target.get("/").await.is_ok_and(|answer| answer.status == 200)).await;
    assert_eq!(release(&space, &target).await, "second");
}
