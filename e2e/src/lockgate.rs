//! The real program, as its user starts it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use serde_json::Value;

use crate::client::{Answer, Target};
use crate::envoy::Mode;
use crate::process::{Process, program};
use crate::{ports, wait_until};

/// Where its objects come from.
#[derive(Debug, Clone)]
pub enum Source {
    /// `--manifests`
    Manifests(PathBuf),
    /// `--resources`
    Resources(PathBuf),
    /// `--kubeconfig`
    Kubeconfig(PathBuf),
}

/// All series of a page of metrics: name with labels, and value.
pub fn series(page: &str) -> BTreeMap<String, f64> {
    page.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            Some((series.to_owned(), value.parse().ok()?))
        })
        .collect()
}

/// The settings file of one that has one.
const FILE: &str = "lockgate.yaml";

/// `text` with ports for the names of these.
fn with_ports(text: &str, ports: [u16; 5]) -> String {
    let names = ["XDS", "ADMIN", "HTTP_PORT", "HTTPS_PORT", "STATS"];
    names.iter().zip(ports).fold(text.to_owned(), |text, (name, port)| text.replace(name, &port.to_string()))
}

/// `lockgate serve`.
pub struct Lockgate {
    process: Process,
    args: Vec<String>,
    directory: tempfile::TempDir,
    /// Port of xDS.
    pub xds: u16,
    /// Port of `/readyz`, `/metrics` and `/debug`.
    pub admin: u16,
    /// Port of Envoy's plain-text listener.
    pub http: u16,
    /// Port of Envoy's TLS listener.
    pub https: u16,
    /// Port of Envoy's listener for `/ready` and `/stats`.
    pub stats: u16,
}

impl Lockgate {
    /// Starts it and waits until it is ready.
    pub async fn start(source: &Source, flags: &[&str]) -> Self {
        let mut lockgate = Self::launch(source, flags);
        lockgate.wait_ready().await;
        lockgate
    }

    /// Starts it. With the ports of Envoy's listeners among `flags`, [`Lockgate::http`] and its like are not the true ones.
    ///
    /// # Panics
    /// If it was not built.
    pub fn launch(source: &Source, flags: &[&str]) -> Self {
        Self::launch_program(&binary(), source, flags)
    }

    /// The same with another build of the program.
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
        Self { process, args, directory, xds, admin, http, https, stats }
    }

    /// Starts it with no flags but `source` and a settings file, as [`Lockgate::write`] has it.
    ///
    /// # Panics
    /// If it was not built.
    pub fn launch_by_file(source: &[&str], text: &str) -> Self {
        let directory = tempfile::Builder::new().prefix("lockgate-").tempdir().expect("a temporary directory");
        let [xds, admin, http, https, stats] = [(); 5].map(|()| ports::free());
        let file = directory.path().join(FILE).display().to_string();
        let args: Vec<String> = ["serve", "--config", &file].iter().chain(source).map(ToString::to_string).collect();
        std::fs::write(&file, with_ports(text, [xds, admin, http, https, stats])).expect("the settings file");
        let process = Process::start("lockgate", &binary(), &args, &directory.path().join("lockgate.log"));
        Self { process, args, directory, xds, admin, http, https, stats }
    }

    /// Writes its settings file, in which `XDS`, `ADMIN`, `HTTP_PORT`, `HTTPS_PORT` and `STATS` stand for its ports.
    ///
    /// # Panics
    /// If that cannot be done.
    pub fn write(&self, text: &str) {
        let Self { xds, admin, http, https, stats, .. } = self;
        let whole = self.directory.path().join("written");
        std::fs::write(&whole, with_ports(text, [*xds, *admin, *http, *https, *stats])).expect("the settings file");
        std::fs::rename(whole, self.directory.path().join(FILE)).expect("the settings file");
    }

    /// Waits until `/readyz` says so.
    pub async fn wait_ready(&mut self) -> Duration {
        let target = self.target();
        let process = &mut self.process;
        wait_until("the controller's /readyz", async || {
            process.assert_running();
            target.get("/readyz").await.is_ok_and(|answer| answer.status == 200)
        })
        .await
    }

    /// Ends it without a warning.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again, with the same flags and ports; the log goes on.
    pub fn restart(&mut self) {
        self.process.kill();
        self.process = Process::start("lockgate", &binary(), &self.args, &self.directory.path().join("lockgate.log"));
    }

    /// Asks it to end and waits until it has.
    pub async fn terminate(&mut self) -> ExitStatus {
        self.process.signal("TERM");
        self.process.ended().await
    }

    /// Its process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Its log.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Waits until its log has a line that holds all of these; gives that line.
    pub async fn logged(&self, parts: &[&str]) -> String {
        let what = format!("a line in the controller's log with {parts:?}");
        let find =
            || self.log().lines().find(|line| parts.iter().all(|part| line.contains(part))).map(ToOwned::to_owned);
        crate::wait_for(&what, async || find()).await.0
    }

    /// Its admin address.
    pub fn target(&self) -> Target {
        Target::http(self.admin, "localhost")
    }

    /// What its admin address answers.
    ///
    /// # Panics
    /// If it does not.
    pub async fn get(&self, path: &str) -> Answer {
        self.target().get(path).await.unwrap_or_else(|error| panic!("{path} of the controller: {error}"))
    }

    /// The sum of all series of a metric whose labels hold all of these: `("lockgate_pushes_total", &["type=\"cluster\""])`.
    pub async fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let sum = |series: &BTreeMap<String, f64>| {
            let chosen = series.iter().filter(|(key, _)| {
                key.split('{').next() == Some(name) && labels.iter().all(|label| key.contains(label))
            });
            chosen.map(|(_, value)| value).sum()
        };
        sum(&self.metrics().await)
    }

    /// All series of `/metrics`: name with labels, and value.
    pub async fn metrics(&self) -> BTreeMap<String, f64> {
        series(&self.get("/metrics").await.text())
    }

    /// Version of every resource in the newest snapshot, by type and name: `Cluster default/shop/http`.
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

    /// The virtual host of plain HTTP that has this domain, as Envoys by delta are sent it.
    pub async fn virtual_host(&self, domain: &str) -> Option<Value> {
        const HOSTS: &str = "/debug/resources?type=VirtualHost";
        if self.get(HOSTS).await.status != 200 {
            return None;
        }
        let list = self.json(HOSTS).await;
        for host in list.as_array().into_iter().flatten() {
            let name = host["name"].as_str().unwrap_or_default().replace('*', "%2A");
            // One that is there no more is not the one.
            let page = self.get(&format!("{HOSTS}&name={name}")).await;
            let Ok(mut host) = serde_json::from_slice::<Value>(&page.body) else { continue };
            let domains = host["resource"]["domains"].as_array();
            if domains.is_some_and(|domains| domains.iter().any(|own| own == domain)) {
                return Some(host["resource"].take());
            }
        }
        None
    }

    async fn json(&self, path: &str) -> Value {
        let answer = self.get(path).await;
        serde_json::from_slice(&answer.body).unwrap_or_else(|error| panic!("{path}: {error}: {}", answer.text()))
    }

    /// `lockgate bootstrap` for an Envoy of this controller.
    ///
    /// # Panics
    /// If it fails.
    pub fn bootstrap(&self, mode: Mode, admin: u16, node: &str) -> String {
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
        run(&args)
    }

    /// The directory of certificates that it was started with.
    pub fn xds_tls(&self) -> Option<&str> {
        let at = self.args.iter().position(|flag| flag == "--xds-tls")?;
        self.args.get(at + 1).map(String::as_str)
    }

    /// The directory of its log, removed with it.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}

/// Runs the program to its end; what it wrote.
///
/// # Panics
/// If it fails.
pub fn run(args: &[&str]) -> String {
    let output = Command::new(binary()).args(args).output().expect("the program");
    assert!(
        output.status.success(),
        "lockgate {args:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}

/// The program: `$LOCKGATE`, else what cargo built beside this test.
///
/// # Panics
/// If it was not built.
pub fn binary() -> PathBuf {
    let beside = || {
        let test = std::env::current_exe().expect("the path of this test");
        test.parent().and_then(Path::parent).expect("the target directory").join("lockgate")
    };
    let path = std::env::var_os("LOCKGATE").map_or_else(beside, PathBuf::from);
    program(path, "cargo build --workspace --bin lockgate")
}
