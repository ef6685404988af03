//! gRPC peers without a proxy: real grpcio, see `e2e/grpc/peer.py`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde_json::Value;

use crate::process::{Process, program, repository};
use crate::{Target, lockgate, ports, wait_until};

/// A process of `peer.py`.
struct Peer {
    process: Process,
    _directory: tempfile::TempDir,
}

impl Peer {
    /// Starts one with these variables in its environment.
    fn start(name: &str, variables: &[(&str, &str)], args: &[&str]) -> Self {
        let directory = tempfile::Builder::new().prefix("grpc-").tempdir().expect("a temporary directory");
        let variables = variables.iter().map(|(key, value)| format!("{key}={value}"));
        let python = python().display().to_string();
        let script = repository().join("e2e/grpc/peer.py").display().to_string();
        let all: Vec<String> = variables.chain([python, script]).chain(args.iter().map(ToString::to_string)).collect();
        let log = directory.path().join("peer.log");
        let process = Process::start(name, &PathBuf::from("/usr/bin/env"), &all, &log);
        Self { process, _directory: directory }
    }

    async fn wait_logged(&mut self, text: &str) {
        let process = &mut self.process;
        wait_until(text, async || {
            process.assert_running();
            process.log().contains(text)
        })
        .await;
    }
}

/// The Python that has grpcio.
///
/// # Panics
/// If it is not there.
fn python() -> PathBuf {
    let site = |version: &str| repository().join(".venv/lib").join(version).join("site-packages/grpc");
    let versions = std::fs::read_dir(repository().join(".venv/lib")).into_iter().flatten().flatten();
    let installed = versions.map(|entry| entry.file_name()).any(|name| site(&name.to_string_lossy()).exists());
    assert!(installed, "grpcio is missing in .venv: run `make grpc`");
    program(repository().join(".venv/bin/python3"), "make grpc")
}

/// A gRPC server on a port of this machine that answers every unary call with its name. Dropped without
/// [`GrpcBackend::stop`] it ends at once, as a pod that crashes.
pub struct GrpcBackend {
    /// Where it listens.
    pub address: SocketAddr,
    peer: Peer,
}

impl GrpcBackend {
    /// Starts one and waits until it listens.
    pub async fn start(name: &str) -> Self {
        let mut backend = Self::launch("backend", name, &[]);
        backend.wait_listening(name).await;
        backend
    }

    /// Starts one that is configured over xDS; it listens once its listener has come.
    pub fn launch_configured(name: &str, bootstrap: &str) -> Self {
        Self::launch("server", name, &[("GRPC_XDS_BOOTSTRAP_CONFIG", bootstrap)])
    }

    fn launch(kind: &str, name: &str, variables: &[(&str, &str)]) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], ports::free()));
        let peer = Peer::start(name, variables, &[kind, name, &address.port().to_string()]);
        Self { address, peer }
    }

    /// Waits until it listens.
    pub async fn wait_listening(&mut self, name: &str) {
        self.peer.wait_logged(&format!("{name} serves")).await;
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        self.peer.process.log()
    }

    /// Ends it as a pod ends that shuts down in good order: clients are told, calls under way are answered.
    pub async fn stop(mut self) {
        self.peer.process.signal("TERM");
        self.peer.process.ended().await;
    }
}

/// A process that makes gRPC calls to targets like `xds:///shop.test`.
pub struct GrpcClient {
    peer: Peer,
    target: Target,
}

/// What became of calls.
#[derive(Debug, Default)]
pub struct Calls {
    /// How many each backend answered.
    pub answers: BTreeMap<String, u64>,
    /// How many failed, by status and message.
    pub failures: BTreeMap<String, u64>,
    /// How long all of it took.
    pub milliseconds: f64,
}

impl Calls {
    /// How many were answered.
    pub fn answered(&self) -> u64 {
        self.answers.values().sum()
    }

    /// How many failed.
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    /// The share of a backend among the answers.
    pub fn share(&self, backend: &str) -> f64 {
        self.answers.get(backend).copied().unwrap_or_default() as f64 / self.answered().max(1) as f64
    }

    /// The one failure.
    ///
    /// # Panics
    /// If there are several kinds of them, or an answer.
    pub fn failure(&self) -> &str {
        assert!(self.answers.is_empty() && self.failures.len() == 1, "{self:?}");
        self.failures.keys().next().expect("one failure")
    }
}

impl GrpcClient {
    /// Starts one with the bootstrap that `lockgate bootstrap --grpc` writes; `errors` is whether it takes resource errors
    /// (`GRPC_EXPERIMENTAL_XDS_DATA_ERROR_HANDLING`).
    pub async fn start(lockgate: &crate::Lockgate, errors: bool) -> Self {
        Self::start_with(&lockgate.grpc_bootstrap("grpc-client"), errors).await
    }

    /// Starts one with this bootstrap.
    pub async fn start_with(bootstrap: &str, errors: bool) -> Self {
        let port = ports::free();
        let variables = [
            ("GRPC_XDS_BOOTSTRAP_CONFIG", bootstrap),
            ("GRPC_EXPERIMENTAL_XDS_DATA_ERROR_HANDLING", if errors { "true" } else { "false" }),
        ];
        let peer = Peer::start("the gRPC client", &variables, &["client", &port.to_string()]);
        let mut client = Self { peer, target: Target::http(port, "localhost") };
        let (process, target) = (&mut client.peer.process, &client.target);
        wait_until("the gRPC client", async || {
            process.assert_running();
            target.get("/ready").await.is_ok()
        })
        .await;
        client
    }

    /// Makes `n` calls of `/shop.Cart/Get` at once.
    pub async fn calls(&self, target: &str, n: u32) -> Calls {
        self.calls_with(target, &format!("n={n}")).await
    }

    /// Makes calls as `parameters` say: see `peer.py`.
    pub async fn calls_with(&self, target: &str, parameters: &str) -> Calls {
        self.ask(&format!("/call?target={target}&{parameters}")).await
    }

    /// The backend that answers a call; `None` if it fails.
    pub async fn backend(&self, target: &str) -> Option<String> {
        self.calls(target, 1).await.answers.into_keys().next()
    }

    /// Waits until calls are answered by this backend and no other.
    pub async fn served_by(&self, target: &str, backend: &str) {
        wait_until(&format!("calls of {target} answered by {backend}"), async || {
            let calls = self.calls(target, 10).await;
            calls.failed() == 0 && calls.answers.keys().eq([backend])
        })
        .await;
    }

    /// Begins to make `rate` calls a second.
    pub async fn start_load(&self, target: &str, rate: u32) {
        self.ask(&format!("/load/start?target={target}&rate={rate}")).await;
    }

    /// What became of the load's calls so far.
    pub async fn load(&self) -> Calls {
        self.ask("/load").await
    }

    /// Waits for `n` more answers to the load's calls.
    pub async fn load_answers(&self, n: u64) {
        let before = self.load().await.answered();
        wait_until(&format!("{n} more answers"), async || self.load().await.answered() >= before + n).await;
    }

    /// Ends the load, and waits for what is under way.
    pub async fn stop_load(&self) -> Calls {
        self.ask("/load/stop").await
    }

    /// Closes the channel to a target.
    pub async fn forget(&self, target: &str) {
        self.ask(&format!("/forget?target={target}")).await;
    }

    /// What gRPC has logged.
    pub fn log(&self) -> String {
        self.peer.process.log()
    }

    async fn ask(&self, path: &str) -> Calls {
        let answer = self.target.get(path).await.unwrap_or_else(|error| panic!("{path}: {error}\n{}", self.log()));
        let value: Value = serde_json::from_slice(&answer.body).unwrap_or_else(|_| panic!("{path}\n{}", self.log()));
        let counts = |field: &str| {
            let fields = value[field].as_object().into_iter().flatten();
            fields.map(|(key, count)| (key.clone(), count.as_u64().unwrap_or_default())).collect()
        };
        Calls {
            answers: counts("answers"),
            failures: counts("failures"),
            milliseconds: value["milliseconds"].as_f64().unwrap_or_default(),
        }
    }
}

impl crate::Lockgate {
    /// `lockgate bootstrap --grpc` for a gRPC peer of this controller.
    pub fn grpc_bootstrap(&self, node: &str) -> String {
        let xds = format!("127.0.0.1:{}", self.xds);
        let mut args = vec!["bootstrap", "--grpc", "--xds-address", &xds, "--node-id", node];
        if let Some(directory) = self.xds_tls() {
            args.extend(["--xds-tls", directory]);
        }
        lockgate::run(&args)
    }
}
