//! HTTPRoutes: the same figures as for Ingresses, beside Contour and Envoy Gateway.

use std::time::{Duration, Instant};

use super::changes::Series;
use super::session::{Session, memory};
use super::{Bench, Case, Figure, LIMIT, Party, short};
use crate::report::Unit;
use crate::system::clients::Sight;
use crate::system::cluster::ENVOYS;
use crate::system::controller::{Choice, Which};
use crate::system::names::{NAMESPACE, name};
use crate::system::objects::Kind;
use crate::system::page::Page;

pub const ABOUT: &str = "\
    N times HTTPRoute, Service, and EndpointSlice, each route with a host of its own, on one Gateway, without Ingresses. \
    Each controller starts with routes that no controller has accepted yet, so Lockgate's cold start includes its \
    allocation of ports. \"Status writes\" are requests that write a status of Gateway API, counted by the API server's \
    metrics: per route until two seconds pass without one, and per change. Contour and Envoy Gateway may send 1,000 \
    requests per second to the API server; their defaults would delay the statuses. Envoy Gateway's xDS server requires \
    mutual TLS; the others use plain text, the default on loopback. Envoy Gateway writes a Deployment for the Gateway, \
    which does not run here. \"Idle CPU\" is CPU time per second without a change.";

/// The time limit of a first sync and of the statuses of all routes.
pub(super) const PATIENCE: Duration = Duration::from_secs(400);

impl Bench {
    /// Runs the cases with Gateways at this size, without the Ingresses of the cluster.
    pub(super) async fn routes_and_gateways(&mut self, size: usize, page: &mut Page, written: &mut impl FnMut(&Page)) {
        let (routes, gateways) = (self.wants(Case::Routes, size), self.wants(Case::Gateways, size));
        if !routes && !gateways {
            return;
        }
        if self.options.gateway_types.is_empty() {
            return self.say("no HTTPRoutes: the resource types of Gateway API are missing");
        }
        let own: Vec<Party> = self.options.parties.iter().filter(|party| !party.against).cloned().collect();
        if let Err(error) = self.guard.clone().over(self.cluster.clear(&[Kind::Ingress], 0..size)).await {
            return self.say(&format!("the Ingresses cannot be removed: {error:#}"));
        }
        for party in own.iter().filter(|_| routes) {
            self.routes(party, size, page).await;
            written(page);
        }
        for party in own.iter().filter(|_| gateways) {
            self.gateways(party, size, page).await;
            written(page);
        }
        if let Err(error) = self.guard.clone().over(self.cluster.fill(&[Kind::Ingress], 0..size, false)).await {
            self.say(&format!("the Ingresses cannot be written again: {error:#}"));
        }
    }

    /// Writes Gateways of a party's class and their routes, without status.
    pub(super) async fn prepare(&mut self, party: &Party, routes: usize, gateways: usize) -> anyhow::Result<()> {
        let (class, controller) = match party.which {
            Which::Lockgate => ("lockgate", "lockgate.dev/gateway-controller"),
            Which::Contour => ("contour", "projectcontour.io/gateway-controller"),
            Which::EnvoyGateway => ("envoy-gateway", "gateway.envoyproxy.io/gatewayclass-controller"),
        };
        self.cluster.replace_gateways(class, controller, gateways).await;
        self.cluster.fill(&[Kind::HttpRoute], 0..routes, false).await
    }

    /// Starts a controller of Gateways with a client.
    pub(super) async fn open_gateways(&mut self, party: &Party, size: usize) -> anyhow::Result<(Session, Vec<Figure>)> {
        self.open_with_statuses(party, size, true).await
    }

    /// Starts a controller with a client, and waits until it has written all statuses. Its Envoys have no address.
    pub(super) async fn open_with_statuses(
        &mut self,
        party: &Party,
        size: usize,
        gateways: bool,
    ) -> anyhow::Result<(Session, Vec<Figure>)> {
        let choice = Choice {
            settings: format!(
                "leaderElection: {{ enabled: true }}\nstatus: {{ envoyService: {NAMESPACE}/{} }}\n",
                name(ENVOYS)
            ),
            against: false,
            gateways,
            many_statuses: true,
        };
        self.open_until_settled(party, size, &choice).await
    }

    /// Starts a controller with a client, and waits until it has written all statuses.
    pub(super) async fn open_until_settled(
        &mut self,
        party: &Party,
        size: usize,
        choice: &Choice,
    ) -> anyhow::Result<(Session, Vec<Figure>)> {
        let before = self.cluster.status_writes().await?;
        let (session, start) = self.open_with(party, size, 1, choice, PATIENCE).await?;
        let (writes, last) = self.cluster.settled_after(before, PATIENCE).await?;
        let mut figures = start.figures();
        let took = last.saturating_duration_since(session.controller.started);
        figures.push(("last status", Unit::Ms, took.as_secs_f64() * 1e3));
        figures.push(("status writes", Unit::Count, (writes - before) / size as f64));
        Ok((session, figures))
    }

    async fn routes(&mut self, party: &Party, size: usize, page: &mut Page) {
        let setting = |what: &str| (size, format!("{}, {what}", short(size)));
        let started = Instant::now();
        let guard = self.guard.clone();
        let opened = guard
            .over(async {
                self.prepare(party, size, 1).await?;
                self.open_gateways(party, size).await
            })
            .await;
        match opened {
            Err(error) => self.note(page, Case::Routes, setting("cold start"), party.name, started, Err(error)),
            Ok((mut session, cold)) => {
                self.note(page, Case::Routes, setting("cold start"), party.name, started, Ok(cold));
                let started = Instant::now();
                let figures = guard.over(self.new_routes(&mut session)).await;
                self.note(page, Case::Routes, setting("new HTTPRoute"), party.name, started, figures);
                let started = Instant::now();
                let figures = guard.over(self.endpoint_changes_of_routes(&mut session)).await;
                self.note(page, Case::Routes, setting("endpoint change"), party.name, started, figures);
                let started = Instant::now();
                let figures = guard.over(at_rest(&mut session)).await;
                self.note(page, Case::Routes, setting("at rest"), party.name, started, figures);
            }
        }
        self.forget_routes(size).await;
    }

    /// Removes the routes of a party.
    pub(super) async fn forget_routes(&mut self, count: usize) {
        if let Err(error) = self.guard.clone().over(self.cluster.clear(&[Kind::HttpRoute], 0..count)).await {
            self.say(&format!("the HTTPRoutes cannot be removed: {error:#}"));
        }
        self.tidy().await;
    }

    pub(super) async fn new_routes(&mut self, session: &mut Session) -> anyhow::Result<Vec<Figure>> {
        // Beyond the longest wait of Contour.
        let pause = Duration::from_millis(if session.controller.which == Which::Lockgate { 100 } else { 600 });
        let (before, _) = self.cluster.settled(PATIENCE).await?;
        session.api = self.cluster.api().await?;
        let mut series = Series::start(session).await?;
        while series.goes_on(self.options.budget) {
            tokio::time::sleep(pause).await;
            let index = session.spare()?;
            let written = session.api.route(index).await?;
            let at = session.clients.saw(Sight::Host(index), LIMIT).await?;
            series.took(session, &written, at)?;
        }
        let figures = series.figures(session).await?;
        self.with_status_writes(figures, before).await
    }

    /// Measures changes of endpoints, with the writes of statuses.
    pub(super) async fn endpoint_changes_of_routes(&mut self, session: &mut Session) -> anyhow::Result<Vec<Figure>> {
        let (before, _) = self.cluster.settled(PATIENCE).await?;
        session.api = self.cluster.api().await?;
        let figures = self.endpoint_changes(session).await?;
        self.with_status_writes(figures, before).await
    }

    /// Adds the number of status writes for each change of a series.
    pub(super) async fn with_status_writes(
        &self,
        mut figures: Vec<Figure>,
        before: f64,
    ) -> anyhow::Result<Vec<Figure>> {
        let (after, _) = self.cluster.settled(PATIENCE).await?;
        let changes = figures.iter().find(|(metric, ..)| *metric == "changes").map_or(1.0, |(.., count)| *count);
        figures.push(("status writes", Unit::Count, (after - before) / changes));
        Ok(figures)
    }
}

pub(super) async fn at_rest(session: &mut Session) -> anyhow::Result<Vec<Figure>> {
    let idle = session.idle().await?;
    let mut figures = memory(session)?;
    figures.push(("idle CPU", Unit::Ms, idle * 1e3));
    Ok(figures)
}
