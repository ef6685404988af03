//! A controller under test: its process and its resource use.

mod chart;
pub mod envoy_gateway;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use e2e::process::Process;
use e2e::{Lockgate, Source, ports};
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use serde_json::Value;

use self::envoy_gateway::EnvoyGateway;
use super::clients::Server;
use super::cluster::Cluster;
use super::names::{CLASS, NAMESPACE, gateway};

/// Which controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Which {
    /// Lockgate.
    Lockgate,
    /// Contour.
    Contour,
    /// Envoy Gateway.
    EnvoyGateway,
}

impl Which {
    /// The name in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Which::Lockgate => "Lockgate",
            Which::Contour => "Contour",
            Which::EnvoyGateway => "Envoy Gateway",
        }
    }
}

/// The programs.
#[derive(Debug, Clone, Default)]
pub struct Programs {
    /// Another build of Lockgate, for a comparison.
    pub against: Option<PathBuf>,
    /// Contour.
    pub contour: Option<PathBuf>,
    /// Envoy Gateway.
    pub envoy_gateway: Option<PathBuf>,
    /// nginx.
    pub nginx: Option<PathBuf>,
    /// The benchmark of a shared host.
    pub shared_host: Option<PathBuf>,
}

/// Options of a controller.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// Settings of Lockgate beside the defaults of the chart.
    pub settings: String,
    /// Whether the other build of Lockgate is started.
    pub against: bool,
    /// Whether it serves Gateways. Contour and a client of Envoy Gateway serve one, the first.
    pub gateways: bool,
    /// Whether Contour may write many statuses per second.
    pub many_statuses: bool,
}

/// A running controller. It stops when dropped.
pub struct Controller {
    /// Its kind.
    pub which: Which,
    /// Where it serves xDS.
    pub address: SocketAddr,
    /// When it was started.
    pub started: Instant,
    program: Program,
}

enum Program {
    Lockgate(Box<Lockgate>, #[expect(dead_code, reason = "removed with it")] tempfile::TempDir),
    Contour { process: Process, ports: Ports, path: PathBuf, _directory: tempfile::TempDir },
    EnvoyGateway(Box<EnvoyGateway>),
}

/// Where Envoy's listeners are.
#[derive(Debug, Clone, Copy)]
pub struct Ports {
    /// Plain text.
    pub http: u16,
    /// TLS.
    pub https: u16,
}

impl Controller {
    /// Starts `which` on a cluster.
    ///
    /// # Errors
    /// There is no such program.
    pub async fn start(which: Which, cluster: &Cluster, programs: &Programs, choice: &Choice) -> anyhow::Result<Self> {
        let kubeconfig = cluster.kubeconfig();
        let mut started = Instant::now();
        let (program, xds) = match which {
            Which::Lockgate => {
                let directory = tempfile::Builder::new().prefix("bench-lockgate-").tempdir()?;
                let settings = directory.path().join("settings.yaml");
                std::fs::write(&settings, chart::settings(&choice.settings)?)?;
                let path = settings.display().to_string();
                let own = e2e::lockgate::binary();
                let program = if choice.against { programs.against.clone().context("no other program")? } else { own };
                let lockgate =
                    Lockgate::launch_program(&program, &Source::Kubeconfig(kubeconfig), &["--config", &path]);
                let xds = lockgate.xds;
                (Program::Lockgate(Box::new(lockgate), directory), xds)
            }
            Which::Contour => {
                let path = programs.contour.clone().context("Contour was not built")?;
                let directory = tempfile::Builder::new().prefix("contour-").tempdir()?;
                let [xds, http, https, stats, health, metrics, debug] = [(); 7].map(|()| ports::free());
                let mut args = vec![
                    "serve".to_owned(),
                    format!("--kubeconfig={}", kubeconfig.display()),
                    "--insecure".into(),
                    "--xds-address=127.0.0.1".into(),
                    format!("--xds-port={xds}"),
                    format!("--ingress-class-name={CLASS}"),
                    "--envoy-service-http-address=127.0.0.1".into(),
                    format!("--envoy-service-http-port={http}"),
                    "--envoy-service-https-address=127.0.0.1".into(),
                    format!("--envoy-service-https-port={https}"),
                    "--stats-address=127.0.0.1".into(),
                    format!("--stats-port={stats}"),
                    "--health-address=127.0.0.1".into(),
                    format!("--health-port={health}"),
                    "--http-address=127.0.0.1".into(),
                    format!("--http-port={metrics}"),
                    "--debug-http-address=127.0.0.1".into(),
                    format!("--debug-http-port={debug}"),
                ];
                if choice.gateways {
                    let file = directory.path().join("contour.yaml");
                    let reference = format!("{{ namespace: {NAMESPACE}, name: {} }}", gateway(0));
                    std::fs::write(&file, format!("gateway: {{ gatewayRef: {reference} }}\n"))?;
                    args.push(format!("--config-path={}", file.display()));
                }
                if choice.many_statuses {
                    args.extend(["--kubernetes-client-qps=1000".into(), "--kubernetes-client-burst=2000".into()]);
                }
                let process = Process::start("contour", &path, &args, &directory.path().join("contour.log"));
                // The listeners of a Gateway on ports 80 and 443 are at these plus 8,000, whatever the flags say.
                let (http, https) = if choice.gateways { (8_080, 8_443) } else { (http, https) };
                (Program::Contour { process, ports: Ports { http, https }, path, _directory: directory }, xds)
            }
            Which::EnvoyGateway => {
                let path = programs.envoy_gateway.as_ref().context("Envoy Gateway was not built")?;
                let gateway = EnvoyGateway::start(path, cluster).await?;
                // Certificates and files are made before.
                started = gateway.started;
                (Program::EnvoyGateway(Box::new(gateway)), envoy_gateway::XDS_PORT)
            }
        };
        Ok(Self { which, address: (Ipv4Addr::LOCALHOST, xds).into(), started, program })
    }

    /// Its process id.
    fn id(&mut self) -> u32 {
        match &mut self.program {
            Program::Lockgate(lockgate, _) => lockgate.process().id(),
            Program::Contour { process, .. } => process.id(),
            Program::EnvoyGateway(gateway) => gateway.process.id(),
        }
    }

    /// The xDS server, as the Envoys of the first Gateway see it.
    pub fn server(&self) -> Server {
        let (tls, cluster) = match &self.program {
            Program::EnvoyGateway(own) => (Some(own.tls()), format!("{NAMESPACE}/{}", gateway(0))),
            _ => (None, String::new()),
        };
        Server { address: self.address, tls, cluster }
    }

    /// Whether it has not ended: a process that has, and was not waited for, has no memory.
    pub fn runs(&mut self) -> bool {
        self.memory().is_ok()
    }

    /// The last lines of its log.
    pub fn tail(&mut self) -> String {
        match &mut self.program {
            Program::Lockgate(lockgate, _) => lockgate.process().tail(),
            Program::Contour { process, .. } => process.tail(),
            Program::EnvoyGateway(gateway) => gateway.process.tail(),
        }
    }

    /// CPU time since its start, user and system, of all its threads, those that have ended too.
    ///
    /// # Errors
    /// It is gone.
    pub fn cpu(&mut self) -> anyhow::Result<Duration> {
        cpu_of(self.id()).context("the controller is gone")
    }

    /// How many pages of memory it has taken up since its start.
    ///
    /// # Errors
    /// It is gone.
    pub fn faults(&mut self) -> anyhow::Result<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id()))?;
        // The tenth field; the second, its name, is in brackets and may have blanks.
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        Ok(after_name.split_whitespace().nth(7).context("no minflt")?.parse()?)
    }

    /// How often it has taken in each kind as a whole, if it tells.
    pub async fn lists(&self) -> Vec<(String, f64)> {
        let Program::Lockgate(lockgate, _) = &self.program else { return Vec::new() };
        let all = lockgate.metrics().await.into_iter();
        all.filter(|(name, _)| name.starts_with("lockgate_source_lists_total")).collect()
    }

    /// Resident memory in bytes: now, and the most that it ever was.
    ///
    /// # Errors
    /// It is gone.
    pub fn memory(&mut self) -> anyhow::Result<(u64, u64)> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id()))?;
        let bytes = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).with_context(|| format!("no {key}"))?;
            anyhow::Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
        };
        Ok((bytes("VmRSS:")?, bytes("VmHWM:")?))
    }

    /// Where Envoy's listeners are.
    pub fn ports(&self) -> Ports {
        match &self.program {
            Program::Lockgate(lockgate, _) => Ports { http: lockgate.http, https: lockgate.https },
            Program::Contour { ports, .. } => *ports,
            // Those of the listeners of a Gateway.
            Program::EnvoyGateway(_) => Ports { http: 10_080, https: 10_443 },
        }
    }

    /// A bootstrap for an Envoy of it, as its user makes one. Contour's has its admin interface on a socket. Envoy Gateway
    /// writes it into the `deployment` of a Gateway.
    ///
    /// # Errors
    /// Its program fails.
    pub fn bootstrap(&self, node: &str, admin: u16, directory: &Path, deployment: &Value) -> anyhow::Result<String> {
        match &self.program {
            Program::EnvoyGateway(gateway) => gateway.bootstrap(deployment, admin),
            Program::Lockgate(lockgate, _) => Ok(lockgate.bootstrap(e2e::Mode::Delta, admin, node)),
            Program::Contour { path, .. } => {
                let file = directory.join("bootstrap.json");
                let socket = format!("--admin-address={}", directory.join("admin.sock").display());
                let port = format!("--xds-port={}", self.address.port());
                let output = std::process::Command::new(path)
                    .args(["bootstrap", "--xds-address=127.0.0.1", &port, &socket])
                    .arg(&file)
                    .output()?;
                anyhow::ensure!(
                    output.status.success(),
                    "contour bootstrap: {}",
                    String::from_utf8_lossy(&output.stderr)
                );
                Ok(std::fs::read_to_string(file)?)
            }
        }
    }
}

/// CPU time of a process since its start, user and system, of all its threads, those that have ended too.
///
/// # Errors
/// It is gone.
pub fn cpu_of(process: u32) -> anyhow::Result<Duration> {
    let id = Pid::from_raw(i32::try_from(process)?);
    Ok(clock_gettime(clock_getcpuclockid(id)?)?.into())
}
