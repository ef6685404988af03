//! A real Envoy.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use hyper::Method;
use serde_json::Value;

use crate::client::{Answer, Target};
use crate::process::{Process, program, repository};
use crate::{Lockgate, ports, wait_until};

/// The variant of the xDS protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Incremental xDS.
    Delta,
    /// State of the world.
    Sotw,
}

/// An Envoy with a bootstrap of `lockgate bootstrap`.
pub struct Envoy {
    process: Process,
    directory: tempfile::TempDir,
    flags: Vec<String>,
    /// The port of the admin interface.
    pub admin: u16,
}

impl Envoy {
    /// Starts Envoy, and waits until it is ready: it has received its initial resources.
    pub async fn start(lockgate: &Lockgate, mode: Mode) -> Self {
        let mut envoy = Self::launch(lockgate, mode);
        envoy.wait_ready().await;
        envoy
    }

    /// Starts Envoy.
    pub fn launch(lockgate: &Lockgate, mode: Mode) -> Self {
        let admin = ports::free();
        Self::launch_with(&lockgate.bootstrap(mode, admin, &format!("envoy-{admin}")), admin)
    }

    /// Starts Envoy with a bootstrap with this admin port.
    pub fn launch_with(bootstrap: &str, admin: u16) -> Self {
        Self::launch_with_flags(bootstrap, admin, &[])
    }

    /// Starts Envoy with additional flags: `--drain-time-s`, or `--concurrency` instead of 2.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn launch_with_flags(bootstrap: &str, admin: u16, flags: &[&str]) -> Self {
        let directory = tempfile::Builder::new().prefix("envoy-").tempdir().expect("a temporary directory");
        std::fs::write(directory.path().join("bootstrap.yaml"), bootstrap).expect("a file written");
        let flags: Vec<String> = flags.iter().map(ToString::to_string).collect();
        let process = launch(&directory, &flags);
        Self { process, directory, flags, admin }
    }

    /// Waits until Envoy is ready.
    pub async fn wait_ready(&mut self) -> Duration {
        self.wait_status(|status| status == 200).await
    }

    /// Waits until a route uses this cluster.
    pub async fn wait_routed_to(&self, cluster: &str) {
        wait_until(&format!("a route to {cluster}"), async || self.routes().await.contains(cluster)).await;
    }

    /// Returns Envoy's route configurations, those of scopes included, as text.
    pub async fn routes(&self) -> String {
        let part = async |name: &str| self.get(&format!("/config_dump?resource={name}")).await.text();
        part("dynamic_route_configs").await + &part("dynamic_scoped_route_configs").await
    }

    /// Waits until the admin address responds, even if Envoy is not ready.
    pub async fn wait_answering(&mut self) -> Duration {
        self.wait_status(|_| true).await
    }

    async fn wait_status(&mut self, expected: impl Fn(u16) -> bool) -> Duration {
        let target = Target::http(self.admin, "localhost");
        let process = &mut self.process;
        wait_until("Envoy's /ready", async || {
            process.assert_running();
            target.get("/ready").await.is_ok_and(|answer| expected(answer.status))
        })
        .await
    }

    /// Kills Envoy and starts it again.
    pub fn restart(&mut self) {
        self.process.kill();
        self.process = launch(&self.directory, &self.flags);
    }

    /// Returns the number of its inotify instances.
    ///
    /// # Panics
    /// If the process does not exist.
    pub fn inotify_instances(&self) -> usize {
        let fds = std::fs::read_dir(format!("/proc/{}/fd", self.process.id())).expect("Envoy's open files");
        let targets = fds.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
        targets.filter(|target| target.to_string_lossy().contains("inotify")).count()
    }

    /// Returns the process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Returns the log.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Returns the log lines of level warning and above.
    pub fn warnings(&self) -> Vec<String> {
        let severe = |line: &&str| ["[warning]", "[error]", "[critical]"].iter().any(|level| line.contains(level));
        self.log().lines().filter(severe).map(ToOwned::to_owned).collect()
    }

    /// Requests a page of the admin address.
    ///
    /// # Panics
    /// If there is no answer.
    pub async fn get(&self, path: &str) -> Answer {
        let answer = Target::http(self.admin, "localhost").get(path).await;
        answer.unwrap_or_else(|error| panic!("{path} of Envoy: {error}"))
    }

    /// Sets the level of all loggers.
    ///
    /// # Panics
    /// If Envoy does not accept it.
    pub async fn log_level(&self, level: &str) {
        let path = format!("/logging?level={level}");
        let answer = Target::http(self.admin, "localhost").send(Method::POST, &path, "").await;
        assert_eq!(answer.map(|answer| answer.status).ok(), Some(200), "POST {path}");
    }

    /// Returns the counters and gauges whose names match a regular expression.
    pub async fn stats(&self, filter: &str) -> BTreeMap<String, u64> {
        let text = self.get(&format!("/stats?filter={filter}")).await.text();
        text.lines()
            .filter_map(|line| {
                let (name, value) = line.split_once(": ")?;
                Some((name.to_owned(), value.parse().ok()?))
            })
            .collect()
    }

    /// Returns the allocated memory in bytes. The gauge of the same name is some seconds old.
    ///
    /// # Panics
    /// If the answer is not JSON with the number.
    pub async fn memory(&self) -> u64 {
        let memory: Value = serde_json::from_str(&self.get("/memory").await.text()).expect("JSON");
        memory["allocated"].as_str().and_then(|text| text.parse().ok()).expect("the allocated memory")
    }

    /// Returns a counter or gauge, or 0 if it does not exist.
    pub async fn stat(&self, name: &str) -> u64 {
        self.stats(&format!("^{}$", name.replace('.', "\\."))).await.get(name).copied().unwrap_or_default()
    }

    /// Returns the entries of one list of the configuration: `dynamic_active_clusters`, `dynamic_route_configs`,
    /// `dynamic_listeners`, `dynamic_active_secrets`, `dynamic_warming_clusters`.
    ///
    /// # Panics
    /// If the answer is not JSON.
    pub async fn config_dump(&self, resource: &str) -> Vec<Value> {
        let answer = self.get(&format!("/config_dump?resource={resource}")).await;
        let dump: Value = serde_json::from_slice(&answer.body).expect("JSON of /config_dump");
        dump["configs"].as_array().cloned().unwrap_or_default()
    }
}

/// Runs `envoy --mode validate` for a bootstrap.
///
/// # Errors
/// The output if Envoy rejects the bootstrap.
///
/// # Panics
/// If Envoy cannot be run.
pub fn validate(bootstrap: &str) -> Result<String, String> {
    let directory = tempfile::Builder::new().prefix("envoy-").tempdir().expect("a temporary directory");
    let path = directory.path().join("bootstrap.yaml");
    std::fs::write(&path, bootstrap).expect("a file written");
    let output =
        Command::new(binary()).args(["--mode", "validate", "--config-path"]).arg(&path).output().expect("Envoy");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(text) } else { Err(text) }
}

fn launch(directory: &tempfile::TempDir, flags: &[String]) -> Process {
    let bootstrap = directory.path().join("bootstrap.yaml").display().to_string();
    let mut args = vec!["--config-path", &bootstrap, "--use-dynamic-base-id", "--log-level", "info"];
    // Envoy accepts each flag once.
    if !flags.iter().any(|flag| flag == "--concurrency") {
        args.extend(["--concurrency", "2"]);
    }
    args.extend(flags.iter().map(String::as_str));
    Process::start("envoy", &binary(), &args, &directory.path().join("envoy.log"))
}

/// Returns the path of the program.
pub fn binary() -> PathBuf {
    let path = std::env::var_os("ENVOY").map_or_else(|| repository().join(".venv/bin/envoy-bin"), PathBuf::from);
    program(path, "make envoy")
}
