//! Flagger, which shifts the weights of an HTTPRoute by the metrics of Envoy.

use std::collections::BTreeSet;

use e2e::lab::echo::Echoed;
use e2e::lab::{Namespace, echo};
use e2e::load::Plan;
use e2e::{Lab, Load, Target};
use serde_json::Value;

use super::prometheus::Prometheus;
use super::{Page, lockgate};

pub(super) const HOST: &str = "shop.example.com";
/// The address of Prometheus on the page.
pub(super) const PROMETHEUS: &str = "prometheus.monitoring:";

/// The Gateway of the page.
pub(super) const GATEWAY: &str = "apiVersion: v1\nkind: Namespace\nmetadata: { name: infra }\n---\n\
    apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: { name: public, namespace: infra }\nspec:\n  \
    gatewayClassName: lockgate\n  listeners:\n  - { name: http, port: 80, protocol: HTTP, allowedRoutes: { namespaces: { from: All } } }\n";

/// A release that is healthy, and answers all other requests 500.
pub(super) const FAULTY: &str = r#"[{"op": "add", "path": "/spec/template/spec/containers/0/command", "value": ["python3", "-c",
"import http.server as h\nclass H(h.BaseHTTPRequestHandler):\n  protocol_version = 'HTTP/1.1'\n  def do_GET(self):\n    self.send_response(200 if self.path == '/health' else 500)\n    self.send_header('content-length', '0')\n    self.end_headers()\nh.ThreadingHTTPServer(('', 3000), H).serve_forever()\n"]}]"#;

/// Waits until the Canary is in a phase. Returns the weights of the new version on the way.
async fn phase(space: &Namespace<'_>, expected: &str) -> BTreeSet<u64> {
    let (lab, name) = (space.lab(), &space.name);
    let mut weights = BTreeSet::new();
    let reached = async || {
        let canary = lab.get(&format!("/apis/flagger.app/v1beta1/namespaces/{name}/canaries/shop")).await;
        let route = lab.find(&format!("/apis/gateway.networking.k8s.io/v1/namespaces/{name}/httproutes/shop")).await;
        let backends = route.and_then(|route| route.pointer("/spec/rules/0/backendRefs").cloned()).unwrap_or_default();
        let canaries = backends.as_array().into_iter().flatten().filter(|backend| backend["name"] == "shop-canary");
        weights.extend(canaries.filter_map(|backend| backend["weight"].as_u64()));
        (canary["status"]["phase"] == expected).then_some(())
    };
    let (_, time) = e2e::wait::wait_at_most(
        std::time::Duration::from_secs(240),
        std::time::Duration::from_millis(200),
        &format!("the phase {expected}"),
        reached,
    )
    .await;
    println!("{expected} after {:.0} s, weights {weights:?}", time.as_secs_f64());
    weights
}

/// Returns the environment variable that the answering pods have in their template.
pub(super) async fn release(space: &Namespace<'_>, target: &Target) -> Value {
    let answer = target.get("/").await.expect("an answer");
    let pod = Echoed::of(&answer).unwrap_or_else(|| panic!("{} {}", answer.status, answer.text())).pod;
    let pod = space.lab().get(&format!("/api/v1/namespaces/{}/pods/{pod}", space.name)).await;
    let variables = pod["spec"]["containers"][0]["env"].as_array().cloned().unwrap_or_default();
    variables.into_iter().find(|one| one["name"] == "RELEASE").map_or(Value::Null, |one| one["value"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_promoted_or_withdrawn_by_its_error_rate() {
    let lab = Lab::alone().await;
    lockgate(&lab).await;
    let page = Page::read("docs/tasks/canary.md");
    let space = lab.namespace("canary").await;
    Prometheus::start(&space).await;
    let here = format!("prometheus.{}:", space.name);
    let chart = e2e::lab::program("flagger-chart").display().to_string();
    let values: Vec<String> =
        page.values("helm install flagger ").iter().map(|value| value.replace(PROMETHEUS, &here)).collect();
    let mut args =
        vec!["upgrade", "--install", "flagger", &chart, "--namespace", "flagger-system", "--create-namespace"];
    args.extend(values.iter().map(String::as_str).chain(["--wait"]));
    lab.helm(&args).await;

    // Flagger creates the Services. It replaces the pods of the old release, which have to end slowly. This version of Flagger drops
    // handlers of the type `sleep`.
    let objects = echo("shop").container("lifecycle: { preStop: { exec: { command: [sleep, '10'] } } }").yaml();
    let (deployment, _) = objects.split_once("---\n").expect("a Deployment");
    space.apply(deployment).await;
    lab.apply(GATEWAY).await;
    let manifest = page.block("kind: Canary\n").replace(PROMETHEUS, &here);
    space.apply(&manifest.replace("interval: 1m", "interval: 15s")).await;
    phase(&space, "Initialized").await;
    let target = Target::http(80, HOST).at(lab.address("infra", "public-lockgate").await);
    lab.until("a 200", async || target.get("/").await.ok().filter(|answer| answer.status == 200)).await;

    let load = Load::start(Plan { rate: 200, connections: 10, ..Plan::new(target.clone(), "/") }).await;
    space.kubectl(&["set", "env", "deployment/shop", "RELEASE=second"], "").await;
    phase(&space, "Progressing").await;
    let weights = phase(&space, "Succeeded").await;
    assert!([20, 40, 60].iter().all(|weight| weights.contains(weight)), "{weights:?}");
    let report = load.stop().await;
    println!("a promoted release: {report}");
    assert_eq!(report.failed(), 0, "{report}");
    assert_eq!(release(&space, &target).await, "second");

    let load = Load::start(Plan { rate: 200, connections: 10, ..Plan::new(target.clone(), "/") }).await;
    space.kubectl(&["patch", "deployment", "shop", "--type=json", "--patch", FAULTY], "").await;
    let weights = phase(&space, "Failed").await;
    let report = load.stop().await;
    println!("a withdrawn release: {report}");
    assert!(weights.iter().all(|weight| *weight <= 20), "{weights:?}");
    assert!(report.failed() > 0 && report.failures.keys().all(|failure| failure.starts_with("status 500")), "{report}");
    e2e::wait_everywhere("200", async || target.get("/").await.is_ok_and(|answer| answer.status == 200)).await;
    assert_eq!(release(&space, &target).await, "second");
}
