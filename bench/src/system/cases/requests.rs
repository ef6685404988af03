//! The cost of a request in Envoy, relative to an Envoy with minimal configuration and nginx.

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use bytes::Bytes;
use e2e::client::Connection;
use e2e::{Backend, Envoy, Target, ports};
use futures::future::try_join_all;
use http::Method;
use serde_json::{Value, json};

use super::envoys::{self, Scheme, launch};
use super::session::Session;
use super::{Bench, Budget, Case, Figure, LIMIT, Party, SPARES, short};
use crate::report::Unit;
use crate::system::controller::cpu_of;
use crate::system::names::{FIRST_SPARE, host};
use crate::system::nginx::Nginx;
use crate::system::objects;
use crate::system::page::Page;

pub const ABOUT: &str = "\
    CPU time of a proxy with one worker (user and system) per answered request: GET without a body over HTTP/1.1, for 20 \
    hosts, over one persistent connection per host, 4 at a time. All proxies run at the same time and take turns of 2,000 \
    requests, in rotating order. The bare Envoy has only these 20 hosts, in its bootstrap, and no access log. \"÷ bare\" \
    is the median, over up to 15 rounds, of the ratio to the bare Envoy in the same round; it depends little on other \
    load. The other proxies have all hosts and write the access log that is their default. nginx has a `server` per host \
    and keeps connections to the backend open.";

/// The number of requested hosts, each with its own connection.
const HOSTS: usize = 20;
/// The number of concurrent requests.
const LANES: usize = 4;
const TURNS: usize = 15;
/// The number of requests in a turn, a multiple of [`HOSTS`].
const TURN: usize = 2_000;
/// The name of the bare Envoy in tables.
const BARE: &str = "bare Envoy";

/// A proxy and the processes that it needs.
struct Proxy {
    party: &'static str,
    process: u32,
    connections: Vec<Connection>,
    costs: Vec<f64>,
    _running: Running,
}

enum Running {
    Controlled(#[expect(dead_code, reason = "runs as long")] Box<(Session, envoys::Running)>),
    Bare(#[expect(dead_code, reason = "runs as long")] Box<Envoy>),
    Nginx(#[expect(dead_code, reason = "runs as long")] Box<Nginx>),
}

/// The configuration that all proxies of a run serve.
struct Site {
    hosts: Range<usize>,
    scheme: Scheme,
    backend: Backend,
    pair: Option<(String, String)>,
}

impl Bench {
    /// Measures requests through a bare Envoy, the Envoys of controllers, and nginx, by turns.
    pub(super) async fn requests(&mut self, parties: &[Party], size: usize, scheme: Scheme, page: &mut Page) {
        let started = Instant::now();
        let setting = (size, format!("{} {scheme}", short(size)));
        let guard = self.guard.clone();
        let hosts = FIRST_SPARE + SPARES - HOSTS..FIRST_SPARE + SPARES;
        let prepared = guard
            .over(async {
                let site = self.site(hosts, scheme).await?;
                let bare = self.bare(&site).await?;
                Ok((site, bare))
            })
            .await;
        match prepared {
            Err(error) => self.note(page, Case::Request, setting, BARE, started, Err(error)),
            Ok((site, bare)) => {
                let mut proxies = vec![bare];
                for party in parties {
                    match guard.over(self.controlled(party, size, &site)).await {
                        Ok(proxy) => proxies.push(proxy),
                        Err(error) => {
                            self.note(page, Case::Request, setting.clone(), party.name, started, Err(error));
                        }
                    }
                }
                if let Some(program) = self.options.programs.nginx.clone() {
                    match guard.over(self.nginx(&program, size, &site)).await {
                        Ok(proxy) => proxies.push(proxy),
                        Err(error) => self.note(page, Case::Request, setting.clone(), "nginx", started, Err(error)),
                    }
                }
                let one = self.options.budget;
                let budget = Budget { time: one.time * u32::try_from(proxies.len()).unwrap_or(1), ..one };
                match guard.over(rounds(&mut proxies, budget)).await {
                    Err(error) => self.note(page, Case::Request, setting, BARE, started, Err(error)),
                    Ok(()) => {
                        for proxy in &proxies {
                            let figures = figures(proxy, &proxies[0]);
                            self.note(page, Case::Request, setting.clone(), proxy.party, started, Ok(figures));
                        }
                    }
                }
            }
        }
        self.tidy().await;
    }

    /// Writes hosts with a live backend to the API server.
    async fn site(&mut self, hosts: Range<usize>, scheme: Scheme) -> anyhow::Result<Site> {
        let own = ports::own_address();
        let own = own.context("this machine has no address but loopback, and no controller takes endpoints there")?;
        let backend = Backend::start_at("backend", own).await;
        for index in hosts.clone() {
            self.cluster.point_to(index, backend.address).await?;
        }
        let mut api = self.cluster.api().await?;
        for index in hosts.clone() {
            let secret = (scheme == Scheme::Https).then(|| objects::secret(index));
            api.ingress(index, index, secret.as_deref()).await?;
        }
        let pair = self.cluster.authority.issue(&["*.bench.example"]);
        let pair = (scheme == Scheme::Https).then_some((pair.certificate, pair.key));
        Ok(Site { hosts, scheme, backend, pair })
    }

    async fn bare(&self, site: &Site) -> anyhow::Result<Proxy> {
        let (admin, port) = (ports::free(), ports::free());
        let bootstrap = bare(admin, port, site.hosts.clone(), &site.backend, site.pair.as_ref());
        let mut envoy = Envoy::launch_with_flags(&bootstrap.to_string(), admin, &["--concurrency", "1"]);
        let process = envoy.process().id();
        self.proxy(BARE, process, port, site, Running::Bare(Box::new(envoy))).await
    }

    async fn controlled(&mut self, party: &Party, size: usize, site: &Site) -> anyhow::Result<Proxy> {
        let (session, _) = self.open(party, size, 0).await?;
        let mut envoy = launch(&session.controller, 0, &["--concurrency", "1"], &Value::Null)?;
        let ports = session.controller.ports();
        let port = if site.scheme == Scheme::Http { ports.http } else { ports.https };
        let process = envoy.envoy.process().id();
        self.proxy(party.name, process, port, site, Running::Controlled(Box::new((session, envoy)))).await
    }

    async fn nginx(&self, program: &Path, size: usize, site: &Site) -> anyhow::Result<Proxy> {
        let nginx = Nginx::start(program, size, site.hosts.clone(), site.backend.address, site.pair.as_ref())?;
        let (process, port) = (nginx.process.id(), nginx.port);
        self.proxy("nginx", process, port, site, Running::Nginx(Box::new(nginx))).await
    }

    /// Connects to a proxy and waits until it answers 200 for each host.
    async fn proxy(
        &self,
        party: &'static str,
        process: u32,
        port: u16,
        site: &Site,
        running: Running,
    ) -> anyhow::Result<Proxy> {
        let mut connections = Vec::new();
        for index in site.hosts.clone() {
            let target = match site.scheme {
                Scheme::Http => Target::http(port, &host(index)),
                Scheme::Https => Target::https(port, &host(index), self.cluster.authority.der()),
            };
            connections.push(connection(&target).await.with_context(|| format!("through {party}"))?);
        }
        Ok(Proxy { party, process, connections, costs: Vec::new(), _running: running })
    }
}

/// Runs turns of all proxies until `budget` is used up, at least its fewest rounds.
async fn rounds(proxies: &mut [Proxy], budget: Budget) -> anyhow::Result<()> {
    let deadline = Instant::now() + budget.time;
    for number in 0..=TURNS {
        if number > budget.fewest && Instant::now() > deadline {
            break;
        }
        for place in 0..proxies.len() {
            let proxy = &mut proxies[(place + number) % proxies.len()];
            let cost = turn(&mut proxy.connections, proxy.process).await.with_context(|| proxy.party.to_owned())?;
            // The first one is for what is made with the first requests.
            if number > 0 {
                proxy.costs.push(cost);
            }
        }
    }
    Ok(())
}

fn figures(proxy: &Proxy, bare: &Proxy) -> Vec<Figure> {
    let ratios = proxy.costs.iter().zip(&bare.costs).map(|(own, bare)| own / bare).collect();
    vec![
        ("CPU", Unit::Us, middle(proxy.costs.clone())),
        ("÷ bare", Unit::Count, middle(ratios)),
        ("rounds", Unit::Count, proxy.costs.len() as f64),
    ]
}

/// Opens a connection and waits for a 200 over it.
async fn connection(target: &Target) -> anyhow::Result<Connection> {
    let started = Instant::now();
    loop {
        let opened = async {
            let mut connection = target.connect().await?;
            let status = connection.send(Method::GET, "/", Bytes::new()).await?.status;
            if status == 200 { Ok(connection) } else { Err(format!("status {status}").into()) }
        };
        let error: e2e::client::Error = match opened.await {
            Ok(connection) => return Ok(connection),
            Err(error) => error,
        };
        ensure!(started.elapsed() < LIMIT, "no 200 after {} s: {error}", LIMIT.as_secs());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Sends the requests of a turn. Returns the CPU time of `process` per request, in microseconds.
async fn turn(connections: &mut [Connection], process: u32) -> anyhow::Result<f64> {
    let before = cpu_of(process)?;
    let rounds = TURN / connections.len();
    let lanes = connections.chunks_mut(HOSTS / LANES).map(async |lane| {
        for _ in 0..rounds {
            for connection in &mut *lane {
                let answer =
                    connection.send(Method::GET, "/", Bytes::new()).await.map_err(|error| anyhow!("{error}"))?;
                ensure!(answer.status == 200, "status {}", answer.status);
            }
        }
        Ok(())
    });
    try_join_all(lanes).await?;
    Ok((cpu_of(process)? - before).as_secs_f64() * 1e6 / TURN as f64)
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Returns the bootstrap of an Envoy that serves only these hosts on `port`, with TLS if there is a certificate and a
/// key.
fn bare(
    admin: u16,
    port: u16,
    hosts: std::ops::Range<usize>,
    backend: &Backend,
    pair: Option<&(String, String)>,
) -> Value {
    let address = |ip: &str, port| json!({ "socket_address": { "address": ip, "port_value": port } });
    let backend = address(&backend.address.ip().to_string(), backend.port());
    let cluster = |index: usize| {
        let endpoint = json!({ "endpoint": { "address": backend } });
        let assignment = json!({ "cluster_name": host(index), "endpoints": [{ "lb_endpoints": [endpoint] }] });
        json!({ "name": host(index), "connect_timeout": "2s", "load_assignment": assignment })
    };
    let virtual_host = |index: usize| {
        let route = json!({ "match": { "prefix": "/" }, "route": { "cluster": host(index) } });
        json!({ "name": host(index), "domains": [host(index)], "routes": [route] })
    };
    let hosts: Vec<usize> = hosts.collect();
    let virtual_hosts: Vec<Value> = hosts.iter().map(|index| virtual_host(*index)).collect();
    let of_type = |name: &str| format!("type.googleapis.com/envoy.extensions.{name}");
    let router = json!({ "@type": of_type("filters.http.router.v3.Router") });
    let manager = json!({
        "@type": of_type("filters.network.http_connection_manager.v3.HttpConnectionManager"),
        "stat_prefix": "bare",
        "route_config": { "virtual_hosts": virtual_hosts },
        "http_filters": [{ "name": "router", "typed_config": router }],
    });
    let mut chain = json!({ "filters": [{ "name": "http", "typed_config": manager }] });
    if let Some((certificate, key)) = pair {
        let pair =
            json!({ "certificate_chain": { "inline_string": certificate }, "private_key": { "inline_string": key } });
        chain["transport_socket"] = json!({ "name": "tls", "typed_config": {
            "@type": of_type("transport_sockets.tls.v3.DownstreamTlsContext"),
            "common_tls_context": { "tls_certificates": [pair] },
        }});
    }
    json!({
        "admin": { "address": address("127.0.0.1", admin) },
        "static_resources": {
            "listeners": [{ "name": "bare", "address": address("127.0.0.1", port), "filter_chains": [chain] }],
            "clusters": hosts.iter().map(|index| cluster(*index)).collect::<Vec<_>>(),
        },
    })
}
