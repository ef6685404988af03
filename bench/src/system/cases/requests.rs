//! What a request costs an Envoy, beside an Envoy with next to no configuration.

use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use bytes::Bytes;
use e2e::client::Connection;
use e2e::{Backend, Envoy, Target, ports};
use futures::future::try_join_all;
use http::Method;
use serde_json::{Value, json};

use super::envoys::{Scheme, launch};
use super::{Bench, Case, Figure, LIMIT, Party, SPARES, short};
use crate::report::Unit;
use crate::system::controller::cpu_of;
use crate::system::names::{FIRST_SPARE, host};
use crate::system::objects;
use crate::system::page::Page;

pub const ABOUT: &str = "CPU time of a real Envoy with one worker, user and system, divided by the requests that it has answered: \
    GET without a body, for 20 hosts, each over a connection that stays, 4 at a time. A turn of 2,000 requests is followed by one \
    through a bare Envoy, which has these 20 hosts in its bootstrap and nothing else, no access log either; the figures are the \
    middle of up to 15 turns. \"÷ bare\" is the middle of the ratios of a turn to the next one, so that it depends little on what else the \
    machine does. Envoys of Lockgate and Contour write the access log that is their default.";

/// How many hosts are asked for, each over a connection of its own.
const HOSTS: usize = 20;
/// How many requests are under way.
const LANES: usize = 4;
const TURNS: usize = 15;
/// Requests of a turn, a multiple of [`HOSTS`].
const TURN: usize = 2_000;

impl Bench {
    /// Requests through the Envoy of a controller.
    pub(super) async fn requests(&mut self, party: &Party, size: usize, scheme: Scheme, page: &mut Page) {
        let started = Instant::now();
        let figures = self.guard.clone().over(self.cost_of_requests(party, size, scheme)).await;
        self.note(page, Case::Request, (size, format!("{} {scheme}", short(size))), party, started, figures);
        self.tidy().await;
    }

    async fn cost_of_requests(&mut self, party: &Party, size: usize, scheme: Scheme) -> anyhow::Result<Vec<Figure>> {
        let own = ports::own_address();
        let own = own.context("this machine has no address but loopback, and no controller takes endpoints there")?;
        let backend = Backend::start_at("backend", own).await;
        let hosts = FIRST_SPARE + SPARES - HOSTS..FIRST_SPARE + SPARES;
        let (mut session, _) = self.open(party, size, 0).await?;
        for index in hosts.clone() {
            self.cluster.point_to(index, backend.address).await?;
            let secret = (scheme == Scheme::Https).then(|| objects::secret(index));
            session.api.ingress(index, index, secret.as_deref()).await?;
        }
        let mut envoy = launch(&session.controller, 0, &["--concurrency", "1"])?;
        let (admin, port) = (ports::free(), ports::free());
        let pair = self.cluster.authority.issue(&["*.bench.example"]);
        let pair = (scheme == Scheme::Https).then_some((pair.certificate, pair.key));
        let bare = bare(admin, port, hosts.clone(), &backend, pair.as_ref());
        let mut bare = Envoy::launch_with_flags(&bare.to_string(), admin, &["--concurrency", "1"]);

        let target = |port, index| match scheme {
            Scheme::Http => Target::http(port, &host(index)),
            Scheme::Https => Target::https(port, &host(index), self.cluster.authority.der()),
        };
        let there = session.controller.ports();
        let there = if scheme == Scheme::Http { there.http } else { there.https };
        let (mut through, mut direct) = (Vec::new(), Vec::new());
        for index in hosts {
            through.push(connection(&target(there, index)).await.context("through the controller's Envoy")?);
            direct.push(connection(&target(port, index)).await.context("through the bare Envoy")?);
        }
        let (ours, other) = (envoy.envoy.process().id(), bare.process().id());
        let (mut costs, mut bare_costs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        let deadline = Instant::now() + self.options.budget;
        for number in 0..=TURNS {
            if number > 1 && Instant::now() > deadline {
                break;
            }
            let cost = turn(&mut through, ours).await?;
            let bare_cost = turn(&mut direct, other).await?;
            // The first one is for what is made with the first requests.
            if number > 0 {
                costs.push(cost);
                bare_costs.push(bare_cost);
                ratios.push(cost / bare_cost);
            }
        }
        Ok(vec![
            ("CPU", Unit::Us, middle(costs)),
            ("CPU of a bare Envoy", Unit::Us, middle(bare_costs)),
            ("÷ bare", Unit::Count, middle(ratios)),
        ])
    }
}

/// A connection over which the target has answered 200.
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

/// Sends the requests of a turn; returns the CPU time that `process` took for each, in microseconds.
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

/// The bootstrap of an Envoy that serves these hosts on `port`, with TLS if there is a certificate and its key, and has nothing
/// else to do.
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
