//! The lab: a Kubernetes cluster with two nodes and pods as processes (`lab/README.md`). `make e2e` starts it and runs
//! the specs of `tests/cluster/` in its network, with `lab/cluster.sh exec`.

pub mod audit;
pub mod echo;
pub mod installation;
pub mod namespace;

use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::Value;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::client::{Answer, Target};
use crate::process::{output, repository};
use crate::wait::wait_at_most;

pub use crate::apiserver::lab as program;
pub use echo::{Echo, echo};
pub use installation::Installation;
pub use namespace::{Namespace, Pod};

/// The time limit in the lab. Pods start in seconds, but the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(120);
/// The polling interval.
const INTERVAL: Duration = Duration::from_millis(50);

static TURNS: RwLock<()> = RwLock::const_new(());

/// The lab of this test.
pub struct Lab {
    directory: PathBuf,
    api: Target,
    _turn: Turn,
}

/// The lock that a spec holds until its end.
#[allow(dead_code)] // by nobody but the lock
enum Turn {
    Shared(RwLockReadGuard<'static, ()>),
    Alone(RwLockWriteGuard<'static, ()>),
}

impl Lab {
    /// Joins the lab for a spec in its own namespace, concurrently with others.
    pub async fn shared() -> Self {
        Self::here(Turn::Shared(TURNS.read().await))
    }

    /// Joins the lab alone, for a spec that measures or stops shared programs.
    pub async fn alone() -> Self {
        Self::here(Turn::Alone(TURNS.write().await))
    }

    fn here(turn: Turn) -> Self {
        let inside = || {
            let (name, directory) = (std::env::var("LAB").ok()?, PathBuf::from(std::env::var_os("DIR")?));
            let lab = std::fs::metadata(Path::new("/run/netns").join(name)).ok()?;
            let own = std::fs::metadata("/proc/self/ns/net").ok()?;
            (lab.ino() == own.ino() && directory.join("kubeconfig").exists()).then_some(directory)
        };
        let directory = inside().expect(
            "this spec runs in a cluster: `make e2e T=cluster`, or `e2e/lab/cluster.sh exec cargo test ...` in a lab that is up",
        );
        let read = |name: &str| std::fs::read_to_string(directory.join("pki").join(name)).expect("a file of the lab");
        let authority = CertificateDer::from_pem_slice(read("ca.crt").as_bytes()).expect("the lab's certificate");
        let token = read("tokens.csv").split(',').next().expect("a token").to_owned();
        let api = Target::https(6443, "kubernetes.default.svc", authority)
            .at(node())
            .field("authorization", &format!("Bearer {token}"))
            .field("user-agent", audit::OWN_AGENT);
        Self { directory, api, _turn: turn }
    }

    /// Returns the API server as a target without a token.
    pub fn api_with_token(&self, token: &str) -> Target {
        let ca = std::fs::read(self.directory.join("pki/ca.crt")).expect("a file of the lab");
        Target::https(6443, "kubernetes.default.svc", CertificateDer::from_pem_slice(&ca).expect("a certificate"))
            .at(node())
            .field("authorization", &format!("Bearer {token}"))
            .field("user-agent", audit::OWN_AGENT)
    }

    /// Runs kubectl and returns its output.
    ///
    /// # Panics
    /// If it fails.
    pub async fn kubectl(&self, args: &[&str], stdin: &str) -> String {
        self.try_kubectl(args, stdin)
            .await
            .unwrap_or_else(|error| panic!("kubectl {}: {error}\n{stdin}", args.join(" ")))
    }

    /// Like [`Lab::kubectl`], and returns failures.
    ///
    /// # Errors
    /// The error output of kubectl.
    pub async fn try_kubectl(&self, args: &[&str], stdin: &str) -> Result<String, String> {
        self.run("kubectl", args, stdin).await
    }

    /// Applies YAML with kubectl.
    pub async fn apply(&self, yaml: &str) {
        self.kubectl(&["apply", "-f", "-"], yaml).await;
    }

    /// Returns the namespaces in a phase.
    pub async fn namespaces(&self, phase: &str) -> Vec<String> {
        let phases = "jsonpath={range .items[*]}{.metadata.name}={.status.phase} {end}";
        let all = self.kubectl(&["get", "namespaces", "-o", phases], "").await;
        let with_phase = all.split_whitespace().filter_map(|one| one.split_once('='));
        with_phase.filter(|(_, its)| *its == phase).map(|(name, _)| name.to_owned()).collect()
    }

    /// Evicts all pods of a node, except those in terminating namespaces, which the API server does not evict.
    ///
    /// # Panics
    /// If pods stay.
    pub async fn drain(&self, node: &str) {
        for namespace in self.namespaces("Terminating").await {
            // The pod may be gone, or the node may have no pods.
            let _ = self.try_kubectl(&["label", "pods", "--all", "--namespace", &namespace, "going=true"], "").await;
        }
        let all = ["--ignore-daemonsets", "--delete-emptydir-data", "--pod-selector=!going", "--timeout=120s"];
        self.kubectl(&[["drain", node].as_slice(), &all].concat(), "").await;
    }

    /// Runs helm and returns its output.
    ///
    /// # Panics
    /// If it fails.
    pub async fn helm(&self, args: &[&str]) -> String {
        self.try_helm(args).await.unwrap_or_else(|error| panic!("helm {}: {error}", args.join(" ")))
    }

    /// Like [`Lab::helm`], and returns failures.
    ///
    /// # Errors
    /// The error output of helm.
    pub async fn try_helm(&self, args: &[&str]) -> Result<String, String> {
        self.run("helm", args, "").await
    }

    /// Like [`Lab::try_helm`], with another version of helm: `helm` or `helm3`.
    ///
    /// # Errors
    /// The error output of helm.
    pub async fn try_helm_of(&self, program: &str, args: &[&str]) -> Result<String, String> {
        self.run(program, args, "").await
    }

    async fn run(&self, name: &str, args: &[&str], stdin: &str) -> Result<String, String> {
        let mut command = Command::new(crate::apiserver::lab(name));
        command.current_dir(repository()).args(args);
        for (variable, directory) in
            [("HELM_CACHE_HOME", "cache"), ("HELM_CONFIG_HOME", "config"), ("HELM_DATA_HOME", "data")]
        {
            command.env(variable, self.directory.join("helm").join(directory));
        }
        output(command, stdin).await
    }

    /// Returns an object or a list by path: `/api/v1/namespaces/shop/pods?labelSelector=app%3Decho`. Returns `None` on
    /// 404.
    ///
    /// # Panics
    /// If the API server answers neither 200 nor 404.
    pub async fn find(&self, path: &str) -> Option<Value> {
        let answer = self.ask(path).await.unwrap_or_else(|error| panic!("{path}: {error}"));
        match answer.status {
            200 => Some(serde_json::from_slice(&answer.body).expect("JSON of the API server")),
            404 => None,
            _ => panic!("{path}: {}", answer.text()),
        }
    }

    /// Returns an existing object or a list by path.
    ///
    /// # Panics
    /// If it does not exist.
    pub async fn get(&self, path: &str) -> Value {
        self.find(path).await.unwrap_or_else(|| panic!("{path}: not found"))
    }

    /// Sends a request to the API server as `admin`.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn ask(&self, path: &str) -> Result<Answer, crate::client::Error> {
        self.api.connect().await?.send(Method::GET, path, Bytes::new()).await
    }

    /// Returns the items of a list.
    pub async fn list(&self, path: &str) -> Vec<Value> {
        self.get(path).await["items"].as_array().cloned().unwrap_or_default()
    }

    /// Polls a condition for two minutes at most. Returns its value and the elapsed time.
    pub async fn until<T>(&self, what: &str, check: impl AsyncFnMut() -> Option<T>) -> (T, Duration) {
        wait_at_most(PATIENCE, INTERVAL, what, check).await
    }

    /// Creates a namespace, which is removed when dropped.
    pub async fn namespace(&self, prefix: &str) -> Namespace<'_> {
        Namespace::create(self, prefix).await
    }

    /// Waits for the address of a LoadBalancer Service.
    pub async fn address(&self, namespace: &str, service: &str) -> IpAddr {
        let path = format!("/api/v1/namespaces/{namespace}/services/{service}");
        let address = async || address_in(&self.find(&path).await?);
        self.until(&format!("the address of the Service {namespace}/{service}"), address).await.0
    }

    /// Returns the shared installation of Lockgate. The first spec installs it.
    pub async fn lockgate(&self) -> Installation<'_> {
        Installation::shared(self).await
    }

    /// Sends a signal to a program of the control plane: `etcd`, `kube-apiserver`, `kube-controller-manager`.
    pub async fn stop(&self, program: &str, signal: &str) {
        self.cluster(&["stop", program, signal]).await;
    }

    /// Starts the program again with its data, and waits until it serves.
    pub async fn start(&self, program: &str) {
        self.cluster(&["start", program]).await;
    }

    async fn cluster(&self, args: &[&str]) {
        let mut command = Command::new(repository().join("e2e/lab/cluster.sh"));
        command.args(args);
        output(command, "").await.unwrap_or_else(|error| panic!("cluster.sh {}: {error}", args.join(" ")));
    }

    /// Returns the path of a file in the lab's directory, such as `kube-apiserver.log`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Returns the process ID of a container on the machine.
    ///
    /// # Panics
    /// If it does not exist.
    pub fn process_of(&self, namespace: &str, pod: &str, container: &str) -> u32 {
        let directory = self.pod_directory(namespace, pod).unwrap_or_else(|| panic!("no pod {namespace}/{pod}"));
        let path = directory.join(format!("{container}.pid"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        text.trim().parse().expect("a process id")
    }

    /// Kills the process of a container.
    ///
    /// # Panics
    /// If it does not exist.
    pub fn kill(&self, namespace: &str, pod: &str, container: &str) {
        let id = self.process_of(namespace, pod, container).to_string();
        let status = Command::new("kill").args(["-9", &id]).status().expect("the program kill");
        assert!(status.success(), "kill -9 {id} ({namespace}/{pod})");
    }

    fn pod_directory(&self, namespace: &str, pod: &str) -> Option<PathBuf> {
        let wanted = format!("{namespace}/{pod}");
        let entries = std::fs::read_dir(self.file("pods")).ok()?.filter_map(Result::ok);
        entries.map(|entry| entry.path()).find(|path| {
            let line = std::fs::read_to_string(path.join("pod")).unwrap_or_default();
            line.split_whitespace().nth(2) == Some(&wanted)
        })
    }
}

/// Returns the address of the node with the API server.
fn node() -> IpAddr {
    let ipv6_alone = std::env::var("FAMILIES").is_ok_and(|families| families == "ipv6");
    if ipv6_alone { "fd00:244::1" } else { "10.244.0.1" }.parse().expect("an address")
}

/// Returns the first address in `status.loadBalancer` of a Service or an Ingress.
pub(crate) fn address_in(object: &Value) -> Option<IpAddr> {
    addresses_in(object).first().copied()
}

/// Returns all addresses in `status.loadBalancer`.
pub fn addresses_in(object: &Value) -> Vec<IpAddr> {
    let ingress = object["status"]["loadBalancer"]["ingress"].as_array().into_iter().flatten();
    ingress.filter_map(|one| one["ip"].as_str()?.parse().ok()).collect()
}
