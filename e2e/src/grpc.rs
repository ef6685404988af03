//! Proxyless gRPC peers: real grpcio, see `e2e/grpc/peer.py`.

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
    /// Starts a peer with environment variables.
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

/// Returns the Python interpreter with grpcio.
///
/// # Panics
/// If it does not exist.
fn python() -> PathBuf {
    let site = |version: &str| repository().join(".venv/lib").join(version).join("site-packages/grpc");
    let versions = std::fs::read_dir(repository().join(".venv/lib")).into_iter().flatten().flatten();
    let installed = versions.map(|entry| entry.file_name()).any(|name| site(&name.to_string_lossy()).exists());
    assert!(installed, "grpcio is missing in .venv: run `make grpc`");
    program(repository().join(".venv/bin/python3"), "make grpc")
}

/// A local gRPC server that answers every unary call with its name. If it is dropped without [`GrpcBackend::stop`], it
/// is killed, like a pod that crashes.
pub struct GrpcBackend {
    /// The address.
    pub address: SocketAddr,
    peer: Peer,
}

impl GrpcBackend {
    /// Starts a server and waits until it listens.
    pub async fn start(name: &str) -> Self {
        let mut backend = Self::launch("backend", name, &[]);
        backend.wait_listening(name).await;
        backend
    }

    /// Starts a server that is configured over xDS. It listens after its listener has arrived.
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

    /// Returns its log.
    pub fn log(&self) -> String {
        self.peer.process.log()
    }

    /// Stops it gracefully: it notifies clients and answers active calls.
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

/// The results of calls.
#[derive(Debug, Default)]
pub struct Calls {
    /// The number of answers per backend.
    pub answers: BTreeMap<String, u64>,
    /// The number of failures by status and message.
    pub failures: BTreeMap<String, u64>,
    /// The elapsed time.
    pub milliseconds: f64,
}

impl Calls {
    /// Returns the number of answers.
    pub fn answered(&self) -> u64 {
        self.answers.values().sum()
    }

    /// Returns the number of failures.
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    /// Returns the share of a backend among the answers.
    pub fn share(&self, backend: &str) -> f64 {
        self.answers.get(backend).copied().unwrap_or_default() as f64 / self.answered().max(1) as f64
    }

    /// Returns the only failure.
    ///
    /// # Panics
    /// If there are several kinds of failures, or an answer.
    pub fn failure(&self) -> &str {
        assert!(self.answers.is_empty() && self.failures.len() == 1, "{self:?}");
        self.failures.keys().next().expect("one failure")
    }
}

impl GrpcClient {
    /// Starts a client with the bootstrap of `lockgate bootstrap --grpc`. `errors` enables resource errors
    /// (`GRPC_EXPERIMENTAL_XDS_DATA_ERROR_HANDLING`).
    pub async fn start(lockgate: &crate::Lockgate, errors: bool) -> Self {
        Self::start_with(&lockgate.grpc_bootstrap("grpc-client"), errors).await
    }

    /// Starts a client with a bootstrap.
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

    /// Makes `n` concurrent calls of `/shop.Cart/Get`.
    pub async fn calls(&self, target: &str, n: u32) -> Calls {
        self.calls_with(target, &format!("n={n}")).await
    }

    /// Makes calls with `parameters`; see `peer.py`.
    pub async fn calls_with(&self, target: &str, parameters: &str) -> Calls {
        self.ask(&format!("/call?target={target}&{parameters}")).await
    }

    /// Makes a call and returns the backend that answers, or `None` if the call fails.
    pub async fn backend(&self, target: &str) -> Option<String> {
        self.calls(target, 1).await.answers.into_keys().next()
    }

    /// Waits until only this backend answers calls.
    pub async fn served_by(&self, target: &str, backend: &str) {
        wait_until(&format!("calls of {target} answered by {backend}"), async || {
            let calls = self.calls(target, 10).await;
            calls.failed() == 0 && calls.answers.keys().eq([backend])
        })
        .await;
    }

    /// Starts a load of `rate` calls per second.
    pub async fn start_load(&self, target: &str, rate: u32) {
        self.ask(&format!("/load/start?target={target}&rate={rate}")).await;
    }

    /// Returns the results of the load so far.
    pub async fn load(&self) -> Calls {
        self.ask("/load").await
    }

    /// Waits for `n` more answers of the load.
    pub async fn load_answers(&self, n: u64) {
        let before = self.load().await.answered();
        wait_until(&format!("{n} more answers"), async || self.load().await.answered() >= before + n).await;
    }

    /// Stops the load and waits for active calls.
    pub async fn stop_load(&self) -> Calls {
        self.ask("/load/stop").await
    }

    /// Closes the channel to a target.
    pub async fn forget(&self, target: &str) {
        self.ask(&format!("/forget?target={target}")).await;
    }

    /// Returns the log of gRPC.
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
    /// Returns the output of `lockgate bootstrap --grpc` for this controller.
    pub fn grpc_bootstrap(&self, node: &str) -> String {
        let xds = format!("127.0.0.1:{}", self.xds);
        let mut args = vec!["bootstrap", "--grpc", "--xds-address", &xds, "--node-id", node];
        if let Some(directory) = self.xds_tls() {
            args.extend(["--xds-tls", directory]);
        }
        lockgate::run(&args)
    }
}
