//! A Kubernetes cluster with pods as processes, into which a controller is installed as its users install it (`e2e/lab`).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use e2e::Target;
use e2e::process::{output, repository};
use nix::sched::{CloneFlags, setns};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use super::controller::cpu_of;

/// The time limit of a wait.
const LIMIT: Duration = Duration::from_secs(180);

/// A running cluster. It is removed when dropped.
pub struct Lab {
    name: String,
    directory: PathBuf,
}

/// The address of the API server and the token of its administrator.
#[derive(Clone)]
pub struct Access {
    authority: CertificateDer<'static>,
    token: String,
    namespace: PathBuf,
}

impl Lab {
    /// Starts a cluster with DNS. `lockgate` is the program behind its image. `images` maps other images to programs:
    /// `regular expression=command`, separated by `;`.
    ///
    /// # Errors
    /// The cluster does not start.
    pub async fn start(lockgate: &Path, images: &str) -> anyhow::Result<Self> {
        let name = std::env::var("LAB").unwrap_or_else(|_| "bench".into());
        let directory = std::env::var_os("DIR").map_or_else(|| Path::new("/tmp").join(&name), PathBuf::from);
        ensure!(!directory.exists(), "{} exists: `make lab-down LAB={name}` removes a former lab", directory.display());
        let lab = Self { name, directory };
        let mut up = lab.script(&["up"]);
        up.env("LOCKGATE", lockgate).env("IMAGES", images);
        // The programs of the cluster inherit the standard output, and never close it.
        let log = std::fs::File::create(std::env::temp_dir().join(format!("{}-up.log", lab.name)))?;
        up.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let status = tokio::task::spawn_blocking(move || up.status()).await??;
        ensure!(status.success(), "the lab does not start: {}-up.log in {}", lab.name, std::env::temp_dir().display());
        lab.run("kubectl", &["apply", "-f", "e2e/lab/coredns.yaml"], "").await?;
        lab.rolled_out("kube-system", "deployment/coredns").await?;
        Ok(lab)
    }

    fn script(&self, args: &[&str]) -> Command {
        let mut command = Command::new(repository().join("e2e/lab/cluster.sh"));
        command.current_dir(repository()).args(args).env("LAB", &self.name).env("DIR", &self.directory);
        for (variable, place) in
            [("HELM_CACHE_HOME", "cache"), ("HELM_CONFIG_HOME", "config"), ("HELM_DATA_HOME", "data")]
        {
            command.env(variable, self.directory.join("helm").join(place));
        }
        command
    }

    /// Runs a program inside of the cluster's network, and returns its output.
    ///
    /// # Errors
    /// It fails.
    pub async fn run(&self, program: &str, args: &[&str], stdin: &str) -> anyhow::Result<String> {
        let command = self.script(&[&["exec", program], args].concat());
        output(command, stdin).await.map_err(|error| anyhow!("{program} {}: {error}", args.join(" ")))
    }

    /// Applies objects, as JSON or YAML.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn apply(&self, objects: &str) -> anyhow::Result<()> {
        self.run("kubectl", &["apply", "--server-side", "--force-conflicts", "-f", "-"], objects).await.map(drop)
    }

    /// Applies all manifests of a directory or of a file, and waits for the definitions of resources among them.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn apply_files(&self, path: &Path) -> anyhow::Result<()> {
        let mut files = vec![path.to_owned()];
        if path.is_dir() {
            let entries = std::fs::read_dir(path).with_context(|| path.display().to_string())?;
            files = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
            // A policy in the directory of Gateway API forbids changes of the definitions.
            files.retain(|file| {
                let file = file.to_string_lossy();
                file.ends_with(".yaml") && !file.ends_with("kustomization.yaml") && !file.contains("_vap_")
            });
            files.sort();
        }
        for file in files {
            let file = file.display().to_string();
            self.run("kubectl", &["apply", "--server-side", "--force-conflicts", "-f", &file], "").await?;
        }
        self.run("kubectl", &["wait", "--for=condition=Established", "crd", "--all", "--timeout=120s"], "").await?;
        Ok(())
    }

    /// Waits until a Deployment or DaemonSet is rolled out: `deployment/backend`.
    ///
    /// # Errors
    /// It takes too long.
    pub async fn rolled_out(&self, namespace: &str, what: &str) -> anyhow::Result<()> {
        let args = ["--namespace", namespace, "rollout", "status", what, "--timeout=180s"];
        self.run("kubectl", &args, "").await.map(drop)
    }

    /// Waits for a field of an object: `service/envoy`, `.status.loadBalancer.ingress[0].ip`.
    ///
    /// # Errors
    /// It stays empty.
    pub async fn field(&self, namespace: &str, object: &str, path: &str) -> anyhow::Result<String> {
        let deadline = Instant::now() + LIMIT;
        let path = format!("jsonpath={{{path}}}");
        loop {
            let value = self.run("kubectl", &["--namespace", namespace, "get", object, "-o", &path], "").await;
            match value {
                Ok(value) if !value.is_empty() => return Ok(value),
                value => ensure!(Instant::now() < deadline, "no {path} in {object}: {value:?}"),
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Returns the addresses of the pods with labels.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn pods(&self, namespace: &str, selector: &str) -> anyhow::Result<Vec<String>> {
        let path = "jsonpath={.items[*].status.podIP}";
        let args = ["--namespace", namespace, "get", "pods", "-l", selector, "-o", path];
        Ok(self.run("kubectl", &args, "").await?.split_whitespace().map(ToOwned::to_owned).collect())
    }

    /// Returns the CPU time of all containers of a name.
    pub fn cpu(&self, container: &str) -> Duration {
        let pods = std::fs::read_dir(self.directory.join("pods")).into_iter().flatten();
        let files = pods.filter_map(|pod| Some(pod.ok()?.path().join(format!("{container}.pid"))));
        let ids = files.filter_map(|file| std::fs::read_to_string(file).ok()?.trim().parse().ok());
        ids.filter_map(|id| cpu_of(id).ok()).sum()
    }

    /// Returns the access to the API server.
    ///
    /// # Errors
    /// A file of the cluster is missing.
    pub fn access(&self) -> anyhow::Result<Access> {
        let file = |name: &str| self.directory.join("pki").join(name);
        let authority = CertificateDer::from_pem_file(file("ca.crt")).map_err(|error| anyhow!("ca.crt: {error}"))?;
        let tokens = std::fs::read_to_string(file("tokens.csv"))?;
        let token = tokens.split(',').next().unwrap_or_default().to_owned();
        Ok(Access { authority, token, namespace: Path::new("/run/netns").join(&self.name) })
    }
}

impl Access {
    /// Returns the API server, for requests inside of the cluster's network.
    pub fn api(&self) -> Target {
        Target::https(6443, "kubernetes.default.svc", self.authority.clone())
            .at([10, 244, 0, 1].into())
            .field("authorization", &format!("Bearer {}", self.token))
            .field("content-type", "application/json")
    }

    /// Runs `work` on a thread inside of the cluster's network.
    ///
    /// # Errors
    /// Those of `work`; the network does not exist.
    pub async fn inside<T, F>(&self, work: impl FnOnce() -> F + Send + 'static) -> anyhow::Result<T>
    where
        T: Send + 'static,
        F: Future<Output = anyhow::Result<T>>,
    {
        let (send, receive) = tokio::sync::oneshot::channel();
        let path = self.namespace.clone();
        let enter = move || {
            setns(std::fs::File::open(&path)?, CloneFlags::CLONE_NEWNET)?;
            tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work())
        };
        std::thread::Builder::new().name("lab".into()).spawn(move || send.send(enter()))?;
        receive.await.context("the measurement has panicked")?
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.script(&["down"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}
