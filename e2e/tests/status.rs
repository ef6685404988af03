//! The writes of the leader to a real API server, and leader election.

mod backend_policy;
pub mod broken;
mod claims;
mod election;
mod events;
mod fleets;
mod foreign_policies;
mod gateway;
mod http_proxy;
mod ingress;
mod many;
mod root_namespaces;
mod traffic_policy;

use e2e::{ApiServer, Lockgate, Source};
use serde_json::Value;

/// Starts a controller with all permissions that takes part in the election.
async fn start(server: &ApiServer, flags: &[&str]) -> Lockgate {
    let flags = [&["--leader-election", "on"], flags].concat();
    Lockgate::start(&Source::Kubeconfig(server.kubeconfig("admin")), &flags).await
}

/// Returns whether the replica leads. Returns `false` if it does not respond.
async fn is_leader(lockgate: &Lockgate) -> bool {
    lockgate.target().get("/metrics").await.is_ok_and(|answer| answer.text().contains("lockgate_leader 1\n"))
}

/// Runs `kubectl get` in the namespace `default`, and returns the JSON.
async fn get(server: &ApiServer, what: &[&str]) -> Value {
    let text = server.kubectl(&[&["get", "--output", "json"], what].concat(), "").await;
    serde_json::from_str(&text).expect("JSON of kubectl")
}

/// Formats an Ingress that answers 308 for its host, without a backend.
fn redirect(name: &str, host: &str) -> String {
    let ingress = e2e::manifests::ingress(name, host, "none", None);
    let annotation = "annotations: { ingress.kubernetes.io/force-ssl-redirect: \"true\" }";
    ingress.replace("namespace: default }", &format!("namespace: default, {annotation} }}"))
}
