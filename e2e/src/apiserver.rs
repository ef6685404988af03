//! A real Kubernetes API server and etcd on loopback ports, without root and network namespaces.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Process, output, program, repository};
use crate::{Authority, Target, ports, wait_for, wait_until};

/// A new API server.
pub struct ApiServer {
    server: Process,
    _etcd: Process,
    args: Vec<String>,
    directory: tempfile::TempDir,
    target: Target,
    etcd: Target,
}

/// The token of the user `admin`, who has all permissions.
const ADMIN: &str = "admin-token";
/// The token of the user `controller`, whose permissions each test grants.
const CONTROLLER: &str = "controller-token";

impl ApiServer {
    /// Starts both programs and waits until objects can be written.
    ///
    /// # Panics
    /// If the programs are missing or do not start.
    pub async fn start() -> Self {
        Self::start_with(&[], &[]).await
    }

    /// Like [`ApiServer::start`], with additional flags for etcd and the API server.
    ///
    /// # Panics
    /// If the programs are missing or do not start.
    pub async fn start_with(etcd_flags: &[&str], flags: &[&str]) -> Self {
        let directory = tempfile::Builder::new().prefix("apiserver-").tempdir().expect("a temporary directory");
        let path = |name: &str| directory.path().join(name).display().to_string();
        let write =
            |name: &str, content: &str| std::fs::write(directory.path().join(name), content).expect("a file written");
        let [client, peer, port] = [(); 3].map(|()| ports::free());
        let etcd_target = Target::http(client, "localhost");

        let authority = Authority::new();
        let pair = authority.issue(&["127.0.0.1", "localhost", "kubernetes.default.svc"]);
        write("ca.crt", &authority.pem());
        write("api.crt", &pair.certificate);
        write("api.key", &pair.key);
        let accounts = authority.issue(&["service-accounts"]);
        write("sa.crt", &accounts.certificate);
        write("sa.key", &accounts.key);
        write("tokens.csv", &format!("{ADMIN},admin,admin,\"system:masters\"\n{CONTROLLER},controller,controller\n"));
        for (user, token) in [("admin", ADMIN), ("controller", CONTROLLER)] {
            write(user, &kubeconfig(port, &path("ca.crt"), token));
        }

        let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let etcd_args = [
            ["--data-dir", &path("etcd")],
            ["--listen-client-urls", &client],
            ["--advertise-client-urls", &client],
            ["--listen-peer-urls", &peer],
            ["--initial-advertise-peer-urls", &peer],
            ["--initial-cluster", &format!("default={peer}")],
        ];
        let etcd_args = [&["--unsafe-no-fsync"], etcd_args.as_flattened(), etcd_flags].concat();
        let etcd = Process::start("etcd", &lab("etcd"), &etcd_args, &directory.path().join("etcd.log"));

        // The advertised address must not be loopback, but nothing uses it, because there is no Endpoints reconciler.
        let mut args = [
            format!("--etcd-servers={client}"),
            format!("--secure-port={port}"),
            format!("--tls-cert-file={}", path("api.crt")),
            format!("--tls-private-key-file={}", path("api.key")),
            format!("--service-account-key-file={}", path("sa.crt")),
            format!("--service-account-signing-key-file={}", path("sa.key")),
            format!("--token-auth-file={}", path("tokens.csv")),
            format!("--cert-dir={}", path("certs")),
            "--bind-address=127.0.0.1".into(),
            "--advertise-address=192.0.2.1".into(),
            "--endpoint-reconciler-type=none".into(),
            "--service-account-issuer=https://kubernetes.default.svc".into(),
            "--service-cluster-ip-range=10.96.0.0/16".into(),
            "--authorization-mode=RBAC".into(),
            "--disable-admission-plugins=ServiceAccount".into(),
            // A third of the CPU time of a start. The lab has it.
            "--enable-priority-and-fairness=false".into(),
        ]
        .to_vec();
        args.extend(flags.iter().map(ToString::to_string));
        let server = start_server(&args, directory.path());
        let target =
            Target::https(port, "localhost", authority.der()).field("authorization", &format!("Bearer {ADMIN}"));
        let mut this = Self { server, _etcd: etcd, args, directory, target, etcd: etcd_target };
        this.wait_ready().await;
        this
    }

    /// Waits until the API server is ready and has the namespace `default`.
    pub async fn wait_ready(&mut self) {
        let (server, target) = (&mut self.server, &self.target);
        let found = async |path| target.get(path).await.is_ok_and(|answer| answer.status == 200);
        wait_until("the API server", async || {
            server.assert_running();
            found("/readyz").await && found("/api/v1/namespaces/default").await
        })
        .await;
    }

    /// Kills the API server, but not etcd.
    pub fn kill(&mut self) {
        self.server.kill();
    }

    /// Starts the API server again.
    pub fn restart(&mut self) {
        self.server.kill();
        self.server = start_server(&self.args, self.directory.path());
    }

    /// Returns the kubeconfig file of a user: `admin` or `controller`.
    pub fn kubeconfig(&self, user: &str) -> PathBuf {
        self.directory.path().join(user)
    }

    /// Returns the target for requests as `admin`.
    pub fn target(&self) -> Target {
        self.target.clone()
    }

    /// Returns the address of etcd.
    pub fn etcd(&self) -> Target {
        self.etcd.clone()
    }

    /// Runs kubectl as `admin` and returns its output.
    ///
    /// # Panics
    /// If it fails.
    pub async fn kubectl(&self, args: &[&str], stdin: &str) -> String {
        self.try_kubectl(args, stdin).await.unwrap_or_else(|error| panic!("kubectl {args:?}: {error}"))
    }

    /// The same.
    ///
    /// # Errors
    /// The error output of kubectl.
    pub async fn try_kubectl(&self, args: &[&str], stdin: &str) -> Result<String, String> {
        let run = async || {
            let output = kubectl(&self.kubeconfig("admin"), args, stdin).await;
            // `kubectl wait` fails at an object whose status has no conditions yet.
            let is_early = output.as_ref().is_err_and(|error| error.contains("conditions accessor error"));
            (!is_early || args.first() != Some(&"wait")).then_some(output)
        };
        wait_for("conditions in the status of each object", run).await.0
    }

    /// Applies YAML with kubectl.
    pub async fn apply(&self, yaml: &str) {
        self.kubectl(&["apply", "-f", "-"], yaml).await;
    }
}

async fn kubectl(kubeconfig: &Path, args: &[&str], stdin: &str) -> Result<String, String> {
    let mut command = Command::new(lab("kubectl"));
    command.env("KUBECONFIG", kubeconfig).args(args);
    output(command, stdin).await
}

fn start_server(args: &[String], directory: &Path) -> Process {
    Process::start("kube-apiserver", &lab("kube-apiserver"), args, &directory.join("kube-apiserver.log"))
}

fn kubeconfig(port: u16, ca: &str, token: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{ name: e2e, cluster: {{ server: \"https://127.0.0.1:{port}\", \
         certificate-authority: {ca} }} }}]\nusers: [{{ name: user, user: {{ token: {token} }} }}]\n\
         contexts: [{{ name: e2e, context: {{ cluster: e2e, user: user }} }}]\ncurrent-context: e2e\n"
    )
}

/// Returns a program of the lab, from `$BIN` or from the output of `make lab-build`.
pub fn lab(name: &str) -> PathBuf {
    let directory = std::env::var_os("BIN").map_or_else(|| repository().join("e2e/lab/bin"), PathBuf::from);
    program(directory.join(name), "make lab-build")
}
