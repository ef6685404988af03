//! `lockgate status` and `lockgate explain` in a cluster: requests to all replicas through port-forwards of the API
//! server, with exactly the permissions in docs/explain.md.

use std::os::unix::fs::symlink;
use std::process::Command;

use e2e::Lab;
use e2e::lab::echo;
use e2e::process::{output, repository};
use serde_json::{Value, json};

use super::first::ingress;

/// Returns the Role and its binding from docs/explain.md, for a service account `explain` instead of the user `jane`.
fn documented() -> String {
    let page = std::fs::read_to_string(repository().join("docs/explain.md")).expect("docs/explain.md");
    let (_, rest) = page.split_once("```yaml\napiVersion: rbac").expect("the Role in docs/explain.md");
    let (yaml, _) = rest.split_once("```").expect("the end of the Role");
    let user = "- { kind: User, name: jane, apiGroup: rbac.authorization.k8s.io }";
    assert!(yaml.contains(user), "{yaml}");
    format!("apiVersion: rbac{}", yaml.replace(user, "- { kind: ServiceAccount, name: explain, namespace: lockgate }"))
}

#[tokio::test(flavor = "multi_thread")]
async fn all_replicas_are_asked_through_port_forwards_with_few_permissions() {
    let lab = Lab::shared().await;
    let lockgate = lab.lockgate().await;
    let space = lab.namespace("explain").await;
    space.apply(&echo("web").yaml()).await;
    space.endpoints("web", 1).await;
    space.apply(&ingress("web", "explain.test", "web")).await;
    let target = lockgate.http("explain.test");
    lab.until("the first 200", async || target.get("/").await.ok().filter(|answer| answer.status == 200)).await;

    // A user with only these permissions.
    lab.kubectl(&["--namespace", "lockgate", "create", "serviceaccount", "explain"], "").await;
    let token = lab.kubectl(&["--namespace", "lockgate", "create", "token", "explain"], "").await;
    let config = lab.kubectl(&["config", "view", "--raw", "--minify", "--output", "json"], "").await;
    let mut config: Value = serde_json::from_str(&config).expect("JSON");
    config["users"][0]["user"] = json!({ "token": token.trim() });
    let directory = tempfile::tempdir().expect("a temporary directory");
    let kubeconfig = directory.path().join("kubeconfig");
    std::fs::write(&kubeconfig, config.to_string()).expect("a kubeconfig");
    let file = kubeconfig.display().to_string();
    let run = async |args: &[&str]| {
        let mut command = Command::new(e2e::lockgate::binary());
        command.args(args).args(["--kubeconfig", &file]);
        output(command, "").await
    };
    let refused = run(&["status"]).await.expect_err("no permission yet");
    assert!(
        refused.contains("cannot list the pods of namespace \"lockgate\"") && refused.contains("forbidden"),
        "{refused}"
    );
    lab.apply(&documented()).await;
    let can = async |verb: &str, resource: &str| {
        lab.try_kubectl(&["--kubeconfig", &file, "auth", "can-i", verb, resource, "--namespace", "lockgate"], "")
            .await
            .is_ok()
    };
    assert!(can("list", "pods").await && !can("get", "secrets").await && !can("list", "ingresses").await);

    // All replicas and all Envoys.
    let (controllers, envoys) = (lockgate.controllers().await.len(), lockgate.envoys().await.len());
    assert!(controllers >= 2 && envoys >= 2, "{controllers} replicas, {envoys} Envoys");
    // Other tests may have objects with problems, which are exit code 1.
    let status = async |args: &[&str]| {
        let mut command = Command::new(e2e::lockgate::binary());
        command.arg("status").args(args).args(["--kubeconfig", &file]);
        let answer = tokio::task::spawn_blocking(move || command.output()).await.expect("a task").expect("an answer");
        assert!(matches!(answer.status.code(), Some(0 | 1)), "{answer:?}");
        String::from_utf8_lossy(&answer.stdout).into_owned()
    };
    let state: Value = serde_json::from_str(&status(&["-o", "json"]).await).expect("JSON");
    let replicas = state["replicas"].as_array().cloned().unwrap_or_default();
    assert_eq!(replicas.len(), controllers, "{state:#}");
    assert!(replicas.iter().all(|replica| replica["error"] == "" && replica["missing"] == ""), "{state:#}");
    assert_eq!(state["envoys"], envoys, "{state:#}");
    let text = status(&[]).await;
    println!("{text}");
    assert!(text.contains(&format!("{controllers} of {controllers} replicas answer")), "{text}");

    let accepted = format!("accepted by {envoys} of {envoys}");
    let explained = async || {
        let text = run(&["explain", "http://explain.test/cart"]).await.unwrap_or_else(|error| panic!("{error}"));
        text.contains(&accepted).then_some(text)
    };
    let (text, _) = lab.until("all Envoys to accept the Ingress", explained).await;
    println!("{text}");
    let object = format!("Ingress {}/web spec.rules[0].http.paths[0]", space.name);
    assert!(text.contains(&object) && text.contains(&format!("Service {}/web port http", space.name)), "{text}");
    assert!(!text.contains("Note:"), "{text}");

    // As a kubectl plugin.
    symlink(e2e::lockgate::binary(), directory.path().join("kubectl-lockgate")).expect("a link");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(e2e::lab::program("kubectl"));
    command.args(["lockgate", "explain", "http://explain.test/cart"]);
    command.env("PATH", format!("{}:{path}", directory.path().display())).env("KUBECONFIG", &kubeconfig);
    let by_plugin = output(command, "").await.unwrap_or_else(|error| panic!("{error}"));
    assert!(by_plugin.contains(&accepted), "{by_plugin}");

    let none = run(&["status", "--selector", "app=none"]).await.expect_err("no pods");
    assert!(none.contains("has no pods with the labels \"app=none\""), "{none}");
    for kind in ["rolebinding", "role", "serviceaccount"] {
        let name = if kind == "serviceaccount" { "explain" } else { "lockgate-explain" };
        lab.kubectl(&["--namespace", "lockgate", "delete", kind, name], "").await;
    }
}
