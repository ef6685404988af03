//! Real Envoys: the time from the write to the first 200.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use e2e::{Backend, Envoy, Target, ports};
use http::Method;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::session::Session;
use super::{Bench, Case, Figure, LIMIT, MIB, Party, SPARES, short};
use crate::report::Unit;
use crate::stats::{ms, percentile};
use crate::system::controller::{Controller, Which};
use crate::system::names::{FIRST_SPARE, host};
use crate::system::objects;
use crate::system::page::Page;

pub const ABOUT: &str = "\
    Real Envoys replace the client. Their bootstrap is written by `lockgate bootstrap` and `contour bootstrap`. One \
    Ingress is added, and its host is requested until the last Envoy answers 200: over one persistent connection without \
    TLS, and over a new connection per attempt with TLS, because the server name selects the filter chain. The pause \
    between attempts is a twentieth of the elapsed time, at least 1 ms; shorter pauses would take the CPU time that is \
    measured. \"ready\" is the time from the start of an Envoy to its first 200. Memory is resident memory at the end, of \
    the largest Envoy and of the controller. Contour's Envoys open one stream per cluster for endpoints: 10,000 at 10k.";

/// The maximum number of new hosts.
const MOST: usize = 20;

/// The requests to the Envoys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    Http,
    Https,
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Scheme::Http { "http" } else { "https" })
    }
}

impl Bench {
    /// Measures new hosts through several Envoys.
    pub(super) async fn envoys(&mut self, party: &Party, size: usize, count: usize, scheme: Scheme, page: &mut Page) {
        let started = Instant::now();
        let figures = self.guard.clone().over(self.first_answers(party, size, count, scheme)).await;
        let envoys = if count == 1 { "1 Envoy".to_owned() } else { format!("{count} Envoys") };
        let setting = (size, format!("{} {scheme} × {envoys}", short(size)));
        self.note(page, Case::Envoy, setting, party.name, started, figures);
        self.tidy().await;
    }

    async fn first_answers(
        &mut self,
        party: &Party,
        size: usize,
        count: usize,
        scheme: Scheme,
    ) -> anyhow::Result<Vec<Figure>> {
        let own = ports::own_address();
        let own = own.context("this machine has no address but loopback, and no controller takes endpoints there")?;
        let backend = Backend::start_at("backend", own).await;
        let first = FIRST_SPARE + SPARES - MOST - 1;
        for index in first..FIRST_SPARE + SPARES {
            self.cluster.point_to(index, backend.address).await?;
        }
        let (mut session, _) = self.open(party, size, 0).await?;
        let secret = |index| (scheme == Scheme::Https).then(|| objects::secret(index));
        session.api.ingress(first, first, secret(first).as_deref()).await?;
        let started = Instant::now();
        let mut envoys = (0..count)
            .map(|number| launch(&session.controller, number, &[], &Value::Null))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let mut pollers = self.pollers(&session, &mut envoys, scheme).await?;
        for poller in &mut pollers {
            poller.first_200(first, LIMIT).await?;
        }
        let ready = started.elapsed();
        tokio::time::sleep(Duration::from_secs(1)).await;

        let budget = self.options.budget;
        let deadline = Instant::now() + budget.time;
        let mut latencies = Vec::new();
        for index in first + 1..FIRST_SPARE + SPARES {
            if latencies.len() >= budget.fewest && Instant::now() > deadline {
                break;
            }
            let secret = secret(index);
            let written = session.api.ingress(index, index, secret.as_deref());
            let sent = Instant::now();
            let mut polls = tokio::task::JoinSet::new();
            for mut poller in pollers.drain(..) {
                polls.spawn_local(async move {
                    let at = poller.first_200(index, LIMIT).await;
                    (poller, at)
                });
            }
            written.await?;
            let mut last = sent;
            while let Some(polled) = polls.join_next().await {
                let (poller, at) = polled.context("a poller")?;
                last = last.max(at?);
                pollers.push(poller);
            }
            latencies.push(u64::try_from((last - sent).as_nanos())?);
            tokio::time::sleep(Duration::from_millis(650)).await;
        }
        let many = latencies.len() as f64;
        let memory = envoys.iter_mut().map(|envoy| envoy.envoy.process().memory()).max().unwrap_or_default();
        Ok(vec![
            ("p50", Unit::Ms, ms(percentile(&mut latencies, 0.5))),
            ("p99", Unit::Ms, ms(percentile(&mut latencies, 0.99))),
            ("ready", Unit::Ms, ready.as_secs_f64() * 1e3),
            ("new hosts", Unit::Count, many),
            ("RSS of an Envoy", Unit::MiB, memory as f64 / MIB),
            ("RSS of the controller", Unit::MiB, session.controller.memory()?.0 as f64 / MIB),
        ])
    }

    /// Creates one poller per Envoy. All Envoys listen on the same port, so the kernel chooses one for each connection;
    /// its socket tells which.
    async fn pollers(&self, session: &Session, envoys: &mut [Running], scheme: Scheme) -> anyhow::Result<Vec<Poller>> {
        let ports = session.controller.ports();
        if scheme == Scheme::Https {
            ensure!(envoys.len() == 1, "which Envoy takes a new connection cannot be chosen");
            return Ok(vec![Poller::Tls { port: ports.https, authority: self.cluster.authority.der() }]);
        }
        let deadline = Instant::now() + LIMIT;
        let mut found: Vec<Option<TcpStream>> = envoys.iter().map(|_| None).collect();
        while found.iter().any(Option::is_none) {
            ensure!(Instant::now() < deadline, "no connection to each Envoy: a listener does not open");
            for envoy in envoys.iter_mut() {
                envoy.envoy.process().assert_running();
            }
            let Ok(stream) = TcpStream::connect(("127.0.0.1", ports.http)).await else {
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            stream.set_nodelay(true)?;
            let own = stream.local_addr()?.port();
            // The server's side may not have been taken up yet, and is nobody's until then.
            tokio::time::sleep(Duration::from_millis(5)).await;
            for (envoy, place) in envoys.iter_mut().zip(&mut found) {
                if place.is_none() && owns(envoy.envoy.process().id(), ports.http, own)? {
                    *place = Some(stream);
                    break;
                }
            }
        }
        Ok(found.into_iter().flatten().map(Poller::Plain).collect())
    }
}

/// An Envoy and the directory of its bootstrap.
pub(super) struct Running {
    pub envoy: Envoy,
    _directory: tempfile::TempDir,
}

/// Starts an Envoy of a controller with `more` flags. For Envoy Gateway, `deployment` is the Deployment of a Gateway.
pub(super) fn launch(
    controller: &Controller,
    number: usize,
    more: &[&str],
    deployment: &Value,
) -> anyhow::Result<Running> {
    let directory = tempfile::Builder::new().prefix("bench-envoy-").tempdir()?;
    let admin = ports::free();
    let node = format!("envoy-{number}");
    let bootstrap = controller.bootstrap(&node, admin, directory.path(), deployment)?;
    let cluster = controller.server().cluster;
    let flags: &[&str] = match controller.which {
        Which::Lockgate => &[],
        Which::Contour => &["--service-cluster", "bench", "--service-node", &node],
        Which::EnvoyGateway => &["--service-cluster", &cluster, "--service-node", &node],
    };
    Ok(Running { envoy: Envoy::launch_with_flags(&bootstrap, admin, &[flags, more].concat()), _directory: directory })
}

/// Returns whether a process has the server side of a connection from port `peer` to `port`.
fn owns(process: u32, port: u16, peer: u16) -> anyhow::Result<bool> {
    let (local, remote) = (format!("0100007F:{port:04X}"), format!("0100007F:{peer:04X}"));
    let table =
        std::fs::read_to_string("/proc/net/tcp")? + &std::fs::read_to_string("/proc/net/tcp6").unwrap_or_default();
    let inode = table.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let both = words.get(1)?.ends_with(&local) && words.get(2)?.ends_with(&remote);
        both.then(|| words.get(9).map(ToString::to_string))?
    });
    let Some(inode) = inode else { return Ok(false) };
    let wanted = format!("socket:[{inode}]");
    let files = std::fs::read_dir(format!("/proc/{process}/fd"))?;
    let mut links = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    Ok(links.any(|link| link.to_string_lossy() == wanted))
}

/// Requests a host until it is served.
enum Poller {
    Plain(TcpStream),
    Tls { port: u16, authority: rustls_pki_types::CertificateDer<'static> },
}

impl Poller {
    async fn first_200(&mut self, index: usize, limit: Duration) -> anyhow::Result<Instant> {
        let host = host(index);
        let started = Instant::now();
        loop {
            let there = match self {
                Poller::Plain(stream) => status(stream, &host).await? == 200,
                Poller::Tls { port, authority } => {
                    let target = Target::https(*port, &host, authority.clone());
                    let answer = async { target.connect().await?.send(Method::GET, "/", Default::default()).await };
                    answer.await.is_ok_and(|answer| answer.status == 200)
                }
            };
            if there {
                return Ok(Instant::now());
            }
            ensure!(started.elapsed() < limit, "{host} is not there after {} s", limit.as_secs());
            // What is measured shares the cores, so no more often than it takes to know the time to a twentieth.
            tokio::time::sleep((started.elapsed() / 20).max(Duration::from_millis(1))).await;
        }
    }
}

/// Returns the status of a request over a persistent connection. It does little work, because the measured processes
/// share the cores.
pub(super) async fn status(stream: &mut TcpStream, host: &str) -> anyhow::Result<u16> {
    stream.write_all(format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes()).await?;
    let mut answer = Vec::with_capacity(512);
    let head = loop {
        ensure!(stream.read_buf(&mut answer).await? > 0, "Envoy has closed the connection");
        if let Some(end) = memchr::memmem::find(&answer, b"\r\n\r\n") {
            break end + 4;
        }
    };
    let text = String::from_utf8_lossy(&answer[..head]).to_lowercase();
    let code = text.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(|| anyhow!("no status: {text}"))?;
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.map_or(Ok(0), |length| length.trim().parse())?;
    while answer.len() < head + length {
        ensure!(stream.read_buf(&mut answer).await? > 0, "Envoy has closed the connection");
    }
    Ok(code)
}
