//! The program `lockgate serve`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use serde_json::Value;

use crate::client::{Answer, Target};
use crate::envoy::Mode;
use crate::process::{Process, program};
use crate::{ports, wait_until};

/// The source of the objects.
#[derive(Debug, Clone)]
pub enum Source {
    /// `--manifests`
    Manifests(PathBuf),
    /// `--resources`
    Resources(PathBuf),
    /// `--kubeconfig`
    Kubeconfig(PathBuf),
}

/// Parses a page of metrics into series: name with labels, and value.
pub fn series(page: &str) -> BTreeMap<String, f64> {
    page.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            Some((series.to_owned(), value.parse().ok()?))
        })
        .collect()
}

/// The name of the settings file.
const FILE: &str = "lockgate.yaml";

/// Replaces names of ports in `text` by numbers.
fn with_ports(text: &str, ports: [u16; 5]) -> String {
    let names = ["XDS", "ADMIN", "HTTP_PORT", "HTTPS_PORT", "STATS"];
    names.iter().zip(ports).fold(text.to_owned(), |text, (name, port)| text.replace(name, &port.to_string()))
}

/// `lockgate serve`.
pub struct Lockgate {
    process: Process,
    program: PathBuf,
    args: Vec<String>,
    directory: tempfile::TempDir,
    /// The port of xDS.
    pub xds: u16,
    /// The port of `/readyz`, `/metrics`, and `/debug`.
    pub admin: u16,
    /// The port of Envoy's listener for plain HTTP.
    pub http: u16,
    /// The port of Envoy's TLS listener.
    pub https: u16,
    /// The port of Envoy's listener for `/ready` and `/stats`.
    pub stats: u16,
}

impl Lockgate {
    /// Starts it and waits until it is ready.
    pub async fn start(source: &Source, flags: &[&str]) -> Self {
        let mut lockgate = Self::launch(source, flags);
        lockgate.wait_ready().await;
        lockgate
    }

    /// Starts it. If `flags` contain ports of Envoy's listeners, fields such as [`Lockgate::http`] are wrong.
    ///
    /// # Panics
    /// If the program was not built.
    pub fn launch(source: &Source, flags: &[&str]) -> Self {
        Self::launch_program(&binary(), source, flags)
    }

    /// Starts another build of the program.
    pub fn launch_program(program: &Path, source: &Source, flags: &[&str]) -> Self {
        let directory = tempfile::Builder::new().prefix("lockgate-").tempdir().expect("a temporary directory");
        let [xds, admin, http, https, stats] = [(); 5].map(|()| ports::free());
        let (flag, path) = match source {
            Source::Manifests(path) => ("--manifests", path),
            Source::Resources(path) => ("--resources", path),
            Source::Kubeconfig(path) => ("--kubeconfig", path),
        };
        let mut args = vec!["serve".to_owned(), flag.into(), path.display().to_string()];
        args.extend(["--xds-address".to_owned(), format!("127.0.0.1:{xds}")]);
        args.extend(["--admin-address".to_owned(), format!("127.0.0.1:{admin}")]);
        for (flag, port) in [("--http-port", http), ("--https-port", https), ("--stats-port", stats)] {
            if !flags.contains(&flag) {
                args.extend([flag.to_owned(), port.to_string()]);
            }
        }
        args.extend(flags.iter().map(ToString::to_string));
        let process = Process::start("lockgate", program, &args, &directory.path().join("lockgate.log"));
        Self { process, program: program.into(), args, directory, xds, admin, http, https, stats }
    }

    /// Starts it with the flags of `source` and a settings file in the format of [`Lockgate::write`].
    ///
    /// # Panics
    /// If the program was not built.
    pub fn launch_by_file(source: &[&str], text: &str) -> Self {
        let directory = tempfile::Builder::new().prefix("lockgate-").tempdir().expect("a temporary directory");
        let [xds, admin, http, https, stats] = [(); 5].map(|()| ports::free());
        let file = directory.path().join(FILE).display().to_string();
        let args: Vec<String> = ["serve", "--config", &file].iter().chain(source).map(ToString::to_string).collect();
        std::fs::write(&file, with_ports(text, [xds, admin, http, https, stats])).expect("the settings file");
        let program = binary();
        let process = Process::start("lockgate", &program, &args, &directory.path().join("lockgate.log"));
        Self { process, program, args, directory, xds, admin, http, https, stats }
    }

    /// Writes the settings file. `XDS`, `ADMIN`, `HTTP_PORT`, `HTTPS_PORT`, and `STATS` are replaced by its ports.
    ///
    /// # Panics
    /// If the file cannot be written.
    pub fn write(&self, text: &str) {
        let Self { xds, admin, http, https, stats, .. } = self;
        let whole = self.directory.path().join("written");
        std::fs::write(&whole, with_ports(text, [*xds, *admin, *http, *https, *stats])).expect("the settings file");
        std::fs::rename(whole, self.directory.path().join(FILE)).expect("the settings file");
    }

    /// Waits until `/readyz` answers 200. Returns the elapsed time.
    pub async fn wait_ready(&mut self) -> Duration {
        let target = self.target();
        let process = &mut self.process;
        wait_until("the controller's /readyz", async || {
            process.assert_running();
            target.get("/readyz").await.is_ok_and(|answer| answer.status == 200)
        })
        .await
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again with the same flags, ports, and log file.
    pub fn restart(&mut self) {
        self.process.kill();
        self.process =
            Process::start("lockgate", &self.program, &self.args, &self.directory.path().join("lockgate.log"));
    }

    /// Stops it gracefully and waits for its end.
    pub async fn terminate(&mut self) -> ExitStatus {
        self.process.signal("TERM");
        self.process.ended().await
    }

    /// Returns the process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Returns the log.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Waits for a log line that contains all of these texts, and returns it.
    pub async fn logged(&self, parts: &[&str]) -> String {
        let what = format!("a line in the controller's log with {parts:?}");
        let find =
            || self.log().lines().find(|line| parts.iter().all(|part| line.contains(part))).map(ToOwned::to_owned);
        crate::wait_for(&what, async || find()).await.0
    }

    /// Returns the admin address.
    pub fn target(&self) -> Target {
        Target::http(self.admin, "localhost")
    }

    /// Requests a page of the admin address.
    ///
    /// # Panics
    /// If there is no answer.
    pub async fn get(&self, path: &str) -> Answer {
        self.target().get(path).await.unwrap_or_else(|error| panic!("{path} of the controller: {error}"))
    }

    /// Returns the sum of all series of a metric that have these labels: `("lockgate_pushes_total",
    /// &["type=\"cluster\""])`.
    pub async fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let sum = |series: &BTreeMap<String, f64>| {
            let chosen = series.iter().filter(|(key, _)| {
                key.split('{').next() == Some(name) && labels.iter().all(|label| key.contains(label))
            });
            chosen.map(|(_, value)| value).sum()
        };
        sum(&self.metrics().await)
    }

    /// Returns all series of `/metrics`: name with labels, and value.
    pub async fn metrics(&self) -> BTreeMap<String, f64> {
        series(&self.get("/metrics").await.text())
    }

    /// Returns the version of every resource in the newest snapshot, by type and name: `Cluster default/shop/http`.
    pub async fn resources(&self) -> BTreeMap<String, String> {
        let mut versions = BTreeMap::new();
        let types = self.json("/debug/resources").await;
        for kind in types["types"].as_object().into_iter().flat_map(serde_json::Map::keys) {
            let list = self.json(&format!("/debug/resources?type={kind}")).await;
            for resource in list.as_array().into_iter().flatten() {
                let text = |field: &str| resource[field].as_str().unwrap_or_default();
                versions.insert(format!("{kind} {}", text("name")), text("version").to_owned());
            }
        }
        versions
    }

    /// Returns the virtual host of an exact host for plain HTTP.
    pub async fn virtual_host(&self, host: &str) -> Option<Value> {
        let page = self.get(&format!("/debug/resources?type=ScopedRouteConfiguration&name=http/{host}")).await;
        let mut scope = serde_json::from_slice::<Value>(&page.body).ok()?;
        scope["resource"]["route_configuration"]["virtual_hosts"].get_mut(0).map(Value::take)
    }

    async fn json(&self, path: &str) -> Value {
        let answer = self.get(path).await;
        serde_json::from_slice(&answer.body).unwrap_or_else(|error| panic!("{path}: {error}: {}", answer.text()))
    }

    /// Returns the output of `lockgate bootstrap` for this controller.
    ///
    /// # Panics
    /// If it fails.
    pub fn bootstrap(&self, mode: Mode, admin: u16, node: &str) -> String {
        self.bootstrap_with(mode, admin, node, &[])
    }

    /// Like [`Lockgate::bootstrap`], with more flags.
    ///
    /// # Panics
    /// If it fails.
    pub fn bootstrap_with(&self, mode: Mode, admin: u16, node: &str, flags: &[&str]) -> String {
        let (xds, admin) = (format!("127.0.0.1:{}", self.xds), format!("127.0.0.1:{admin}"));
        let mode = match mode {
            Mode::Delta => "delta",
            Mode::Sotw => "sotw",
        };
        let mut args =
            vec!["bootstrap", "--xds-address", &xds, "--admin-address", &admin, "--mode", mode, "--node-id", node];
        if let Some(directory) = self.xds_tls() {
            args.extend(["--xds-tls", directory]);
        }
        args.extend(flags);
        run_program(&self.program, &args)
    }

    /// Returns the directory of its certificates.
    pub fn xds_tls(&self) -> Option<&str> {
        let at = self.args.iter().position(|flag| flag == "--xds-tls")?;
        self.args.get(at + 1).map(String::as_str)
    }

    /// Returns the directory of its log, which is removed with it.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}

/// Runs the program and returns its output.
///
/// # Panics
/// If it fails.
pub fn run(args: &[&str]) -> String {
    run_program(&binary(), args)
}

fn run_program(program: &Path, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().expect("the program");
    assert!(
        output.status.success(),
        "lockgate {args:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}

/// Returns the path of the program: `$LOCKGATE`, or the build next to this test.
///
/// # Panics
/// If the program was not built.
pub fn binary() -> PathBuf {
    let beside = || {
        let test = std::env::current_exe().expect("the path of this test");
        test.parent().and_then(Path::parent).expect("the target directory").join("lockgate")
    };
    let path = std::env::var_os("LOCKGATE").map_or_else(beside, PathBuf::from);
    program(path, "cargo build --workspace --bin lockgate")
}
