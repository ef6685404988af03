//! Many Gateways: their Deployments and memory.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use e2e::{Backend, ports};
use serde_json::Value;
use tokio::net::TcpStream;

use super::envoys::{Running, launch, status};
use super::{Bench, Case, Figure, LIMIT, MIB, Party, short};
use crate::report::Unit;
use crate::system::controller::Which;
use crate::system::names::{gateway, host};
use crate::system::objects::Kind;
use crate::system::page::Page;

pub const ABOUT: &str = "\
    100 Gateways with one listener on port 80 each, and 1,000 HTTPRoutes, ten per Gateway. \"Deployments\" is the number \
    that the controller wrote. Envoy Gateway needs an Envoy for each. A Contour serves one Gateway, so its provisioner \
    runs a Contour and an Envoy per Gateway; here, Contour serves the first Gateway. In Lockgate, all Gateways share one \
    fleet of Envoys. One Envoy with one worker runs: with the configuration of all Gateways for Lockgate, and of the first \
    for the others. \"RSS of all\" is the RSS of one instance times the number of instances (computed, not measured). A \
    second replica for availability doubles each.";

/// The number of HTTPRoutes per Gateway.
const EACH: usize = 10;

impl Bench {
    /// Measures many Gateways of a party.
    pub(super) async fn gateways(&mut self, party: &Party, size: usize, page: &mut Page) {
        let started = Instant::now();
        // Each route has a Service of its own, and there are `size` of them.
        let count = self.options.gateways.min(size);
        let each = (size / count).min(EACH);
        let setting = (size, format!("{} × {each}", short(count)));
        let figures = self.guard.clone().over(self.cost_of_gateways(party, count, each)).await;
        self.note(page, Case::Gateways, setting, party.name, started, figures);
        // The first Service has a backend that answers, for this case alone.
        if let Err(error) = self.guard.clone().over(self.cluster.fill(&[Kind::EndpointSlice], 0..1, false)).await {
            self.say(&format!("the first EndpointSlice cannot be written again: {error:#}"));
        }
        self.forget_routes(count * each).await;
    }

    async fn cost_of_gateways(&mut self, party: &Party, count: usize, each: usize) -> anyhow::Result<Vec<Figure>> {
        let own = ports::own_address();
        let own = own.context("this machine has no address but loopback, and no controller takes endpoints there")?;
        let backend = Backend::start_at("backend", own).await;
        self.cluster.point_to(0, backend.address).await?;
        self.prepare(party, count * each, count).await?;
        let shared = party.which == Which::Lockgate;
        let hosts = if shared { count * each } else { each };
        let (mut session, cold) = self.open_gateways(party, hosts).await?;
        if party.which == Which::EnvoyGateway {
            self.until_deployed(count).await?;
        }
        let deployments = self.deployments("").await?;
        let own = self.deployments(&format!("gateway.envoyproxy.io/owning-gateway-name={}", gateway(0))).await?;
        let deployment = own.first().cloned().unwrap_or_default();
        let mut envoy = launch(&session.controller, 0, &["--concurrency", "1"], &deployment)?;
        let port = if shared { self.port_of_first_gateway().await? } else { session.controller.ports().http };
        until_routed(&mut envoy, port).await?;
        let envoy = settled_memory(&mut envoy).await? / MIB;
        let controller = session.controller.memory()?.0 as f64 / MIB;
        let copies = if shared { 1.0 } else { count as f64 };
        let controllers = if party.which == Which::Contour { count as f64 } else { 1.0 };
        let complete = cold.iter().find(|(metric, ..)| *metric == "complete client").copied();
        let mut figures = vec![
            ("Deployments", Unit::Count, deployments.len() as f64),
            ("Envoys", Unit::Count, copies),
            ("RSS of an Envoy", Unit::MiB, envoy),
            ("RSS of all Envoys", Unit::MiB, envoy * copies),
            ("controllers", Unit::Count, controllers),
            ("RSS of a controller", Unit::MiB, controller),
            ("RSS of all controllers", Unit::MiB, controller * controllers),
        ];
        figures.extend(complete);
        Ok(figures)
    }

    /// Lists the Deployments with a label.
    async fn deployments(&self, selector: &str) -> anyhow::Result<Vec<Value>> {
        let text = self.cluster.kubectl(&["get", "deployments", "-A", "-l", selector, "-o", "json"]).await;
        let list: Value = serde_json::from_str(&text)?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    async fn until_deployed(&self, count: usize) -> anyhow::Result<()> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let found = self.deployments("").await?.len();
            if found >= count {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "Envoy Gateway wrote {found} Deployments for {count} Gateways");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Returns the port of the first Gateway on Lockgate's Envoys: the target port of its Service.
    async fn port_of_first_gateway(&self) -> anyhow::Result<u16> {
        let selector = format!("gateway.networking.k8s.io/gateway-name={}", gateway(0));
        let text = self.cluster.kubectl(&["get", "services", "-l", &selector, "-o", "json"]).await;
        let list: Value = serde_json::from_str(&text)?;
        let port = list["items"][0]["spec"]["ports"][0]["targetPort"].as_u64().context("no Service of a Gateway")?;
        Ok(u16::try_from(port)?)
    }
}

/// Waits until an Envoy answers 200 for the first host.
async fn until_routed(envoy: &mut Running, port: u16) -> anyhow::Result<()> {
    let deadline = Instant::now() + LIMIT;
    loop {
        envoy.envoy.process().assert_running();
        let answer = async {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
            status(&mut stream, &host(0)).await
        };
        match tokio::time::timeout(Duration::from_secs(20), answer).await {
            Ok(Ok(200)) => return Ok(()),
            result => {
                let result = result.map(|answer| answer.map_err(|error| error.to_string()));
                ensure!(Instant::now() < deadline, "the Envoy does not route {}: {result:?}", host(0));
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Returns the resident memory of an Envoy in bytes, after it has changed by less than one percent for two seconds.
async fn settled_memory(envoy: &mut Running) -> anyhow::Result<f64> {
    let deadline = Instant::now() + LIMIT;
    let (mut last, mut since) = (0.0, Instant::now());
    while since.elapsed() < Duration::from_secs(2) {
        ensure!(Instant::now() < deadline, "the memory of the Envoy does not settle");
        let now = envoy.envoy.process().memory() as f64;
        if (now - last).abs() > last * 0.01 {
            (last, since) = (now, Instant::now());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(last)
}
