//! The namespace of a spec.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use super::{Lab, address_in};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A namespace that is removed when dropped. If the spec fails, its objects and Events are printed first.
pub struct Namespace<'a> {
    lab: &'a Lab,
    /// The name.
    pub name: String,
}

/// A pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// The name.
    pub name: String,
    /// The address, if it has one.
    pub ip: Option<IpAddr>,
    /// The node.
    pub node: String,
    /// Whether it is ready and not terminating.
    pub ready: bool,
    /// The number of container restarts.
    pub restarts: u64,
}

impl<'a> Namespace<'a> {
    pub(super) async fn create(lab: &'a Lab, prefix: &str) -> Self {
        let name = format!("{prefix}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        lab.kubectl(&["create", "namespace", &name], "").await;
        Self { lab, name }
    }

    /// The lab.
    pub fn lab(&self) -> &'a Lab {
        self.lab
    }

    /// Runs kubectl in this namespace.
    pub async fn kubectl(&self, args: &[&str], stdin: &str) -> String {
        self.lab.kubectl(&[&["--namespace", &self.name], args].concat(), stdin).await
    }

    /// Applies YAML with kubectl.
    pub async fn apply(&self, yaml: &str) {
        self.kubectl(&["apply", "-f", "-"], yaml).await;
    }

    /// Waits until a Deployment or DaemonSet (`deployment/echo`) is rolled out: all pods are new and ready.
    pub async fn rolled_out(&self, what: &str) {
        self.kubectl(&["rollout", "status", what, "--timeout=120s"], "").await;
    }

    /// Waits until a Service has this many ready endpoints.
    pub async fn endpoints(&self, service: &str, count: usize) {
        let path = format!(
            "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3D{service}",
            self.name
        );
        let ready = async || {
            let slices = self.lab.list(&path).await;
            let endpoints = slices.iter().flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
            let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] != Value::Bool(false));
            // An endpoint may be in two slices for a while.
            let addresses = ready.map(|endpoint| endpoint["addresses"].to_string()).collect::<BTreeSet<_>>();
            (addresses.len() == count).then_some(())
        };
        self.lab.until(&format!("{count} endpoints of the Service {service}"), ready).await;
    }

    /// Returns its pods with these labels (`app=echo`), including terminating ones.
    pub async fn pods(&self, labels: &str) -> Vec<Pod> {
        self.lab.pods(&self.name, labels).await
    }

    /// Returns an Ingress.
    pub async fn ingress(&self, name: &str) -> Value {
        self.lab.get(&format!("/apis/networking.k8s.io/v1/namespaces/{}/ingresses/{name}", self.name)).await
    }

    /// Waits for the first address in an Ingress's status.
    pub async fn ingress_address(&self, name: &str) -> IpAddr {
        let address = async || address_in(&self.ingress(name).await);
        self.lab.until(&format!("an address in the status of the Ingress {}/{name}", self.name), address).await.0
    }
}

impl Lab {
    /// Returns the pods of a namespace with these labels (`app=echo`), including terminating ones.
    pub async fn pods(&self, namespace: &str, labels: &str) -> Vec<Pod> {
        let selector = labels.replace('/', "%2F").replace('=', "%3D").replace(',', "%2C");
        let pods = self.list(&format!("/api/v1/namespaces/{namespace}/pods?labelSelector={selector}")).await;
        pods.iter().map(pod).collect()
    }

    /// Returns the log of a container.
    pub async fn logs(&self, namespace: &str, pod: &str, container: &str) -> String {
        self.kubectl(&["--namespace", namespace, "logs", pod, "--container", container], "").await
    }
}

impl Drop for Namespace<'_> {
    fn drop(&mut self) {
        let kubectl = |args: &[&str]| {
            Command::new(crate::apiserver::lab("kubectl")).args(["--namespace", &self.name]).args(args).output()
        };
        if std::thread::panicking() {
            for args in [&["get", "pods,services,ingresses", "-o", "wide"][..], &["get", "events"]] {
                let text = kubectl(args).map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
                eprintln!("--- kubectl --namespace {} {}\n{}---", self.name, args.join(" "), text.unwrap_or_default());
            }
        }
        let _ = kubectl(&["delete", "namespace", &self.name, "--wait=false"]);
    }
}

fn pod(object: &Value) -> Pod {
    let is = |kind: &str| {
        let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        conditions.filter(|condition| condition["type"] == kind).any(|condition| condition["status"] == "True")
    };
    let statuses = object["status"]["containerStatuses"].as_array().into_iter().flatten();
    Pod {
        name: object["metadata"]["name"].as_str().unwrap_or_default().into(),
        ip: object["status"]["podIP"].as_str().and_then(|ip| ip.parse().ok()),
        node: object["spec"]["nodeName"].as_str().unwrap_or_default().into(),
        ready: is("Ready") && object["metadata"]["deletionTimestamp"].is_null(),
        restarts: statuses.filter_map(|status| status["restartCount"].as_u64()).sum(),
    }
}
