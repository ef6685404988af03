//! Rotation of the certificates between controller and Envoy, with mounted Secrets that a kubelet updates.

use e2e::lab::{Installation, echo};
use e2e::load::Plan;
use e2e::{Lab, Load};

use super::first::ingress;

const PATCH: &str = r#"[{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--xds-rotation-pause=10s"},
    {"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--xds-max-connection-age=2s"}]"#;

/// Returns Envoy's certificate and the number of trusted authorities in its Secret.
async fn envoys(lab: &Lab, lockgate: &Installation<'_>) -> (String, usize) {
    use base64::Engine;
    let secret = lab.get(&format!("/api/v1/namespaces/{}/secrets/lockgate-xds-envoy", lockgate.namespace)).await;
    let text = |key: &str| {
        let decoded = base64::prelude::BASE64_STANDARD.decode(secret["data"][key].as_str().unwrap_or_default());
        String::from_utf8(decoded.expect("base64")).expect("PEM")
    };
    (text("tls.crt"), text("ca.crt").matches("BEGIN CERTIFICATE").count())
}

#[tokio::test(flavor = "multi_thread")]
async fn all_of_them_are_exchanged_under_load() {
    let lab = Lab::alone().await;
    let lockgate = lab.lockgate().await;
    let shop = lab.namespace("certificates").await;
    shop.apply(&echo("echo").yaml()).await;
    shop.endpoints("echo", 1).await;
    shop.apply(&ingress("echo", "certificates.test", "echo")).await;
    let target = lockgate.http("certificates.test");
    lab.until("the first 200", async || target.get("/").await.ok().filter(|answer| answer.status == 200)).await;

    // Short rotation intervals and short-lived connections.
    let at = ["--namespace", &*lockgate.namespace];
    let kubectl = async |args: &[&str]| lab.kubectl(&[&at[..], args].concat(), "").await;
    kubectl(&["patch", "deployment", "lockgate", "--type=json", "--patch", PATCH]).await;
    kubectl(&["rollout", "status", "deployment/lockgate", "--timeout=120s"]).await;
    let load = Load::start(Plan::new(target, "/")).await;
    let (before, _) = envoys(&lab, &lockgate).await;
    kubectl(&["annotate", "secret", "lockgate-xds-ca", "lockgate.dev/rotate=now"]).await;
    for (what, trusted) in [("the new authority to be known", 2), ("the old one to be gone", 1)] {
        let (_, time) = lab.until(what, async || (envoys(&lab, &lockgate).await.1 == trusted).then_some(())).await;
        println!("{what}: {:.1} s", time.as_secs_f64());
    }
    assert_ne!(envoys(&lab, &lockgate).await.0, before);
    // A served change shows that the last certificates work.
    shop.apply(&ingress("late", "late.certificates.test", "echo")).await;
    let late = lockgate.http("late.certificates.test");
    lab.until("the late host", async || late.get("/").await.ok().filter(|answer| answer.status == 200)).await;
    let report = load.stop().await;
    println!("a new authority and new key pairs: {report}");
    assert_eq!(report.failed(), 0, "{report}");
    for pod in lockgate.controllers().await {
        let log = lab.logs(&lockgate.namespace, &pod.name, "lockgate").await;
        // Envoy sends an alert if it refuses a certificate. Without one, it has ended the connection because the machine is busy.
        let is_refusal = |line: &&str| line.contains("TLS handshake failed") && !line.contains("tls handshake eof");
        let refused: Vec<_> = log.lines().filter(is_refusal).collect();
        assert!(refused.is_empty(), "{refused:?}");
    }
    let before: Vec<String> = lockgate.controllers().await.into_iter().map(|pod| pod.name).collect();
    kubectl(&["rollout", "undo", "deployment/lockgate"]).await;
    kubectl(&["rollout", "status", "deployment/lockgate", "--timeout=120s"]).await;
    // The next spec expects that the status counts all Envoys.
    let connected = async || {
        let controllers = lockgate.controllers().await;
        if controllers.iter().any(|pod| before.contains(&pod.name)) {
            return None;
        }
        let mut logs = String::new();
        for pod in controllers {
            logs += &lab.logs(&lockgate.namespace, &pod.name, "lockgate").await;
        }
        let is_connected = |name: &str| logs.contains(&format!("stream opened node_id={name} "));
        lockgate.envoys().await.iter().all(|envoy| is_connected(&envoy.name)).then_some(())
    };
    lab.until("the Envoys at the new controllers", connected).await;
}
