//! HTTPProxies: the same figures as for Ingresses, beside Contour.

use std::time::{Duration, Instant};

use super::changes::Series;
use super::routes::{PATIENCE, at_rest};
use super::session::Session;
use super::{Bench, Case, Figure, LIMIT, Party, short};
use crate::system::clients::Sight;
use crate::system::controller::Which;
use crate::system::names::FIRST_SPARE;
use crate::system::objects::Kind;
use crate::system::page::Page;

pub const ABOUT: &str = "\
    N times two HTTPProxies, Service, and EndpointSlice, without Ingresses: a root with a host of its own, and an HTTPProxy of another \
    namespace that it includes. Measured as HTTPRoutes. \"Changed include\" is another path of the redirect of an included HTTPProxy. \"Status \
    writes\" are those of HTTPProxies: per root until two seconds pass without one, and per change. Contour may send 1,000 requests per \
    second to the API server.";

impl Bench {
    /// Runs the case at this size, without the Ingresses of the cluster.
    pub(super) async fn all_proxies(&mut self, size: usize, page: &mut Page, written: &mut impl FnMut(&Page)) {
        if !self.wants(Case::Proxies, size) {
            return;
        }
        if self.options.contour_types.is_none() {
            return self.say("no HTTPProxies: the resource types of Contour are missing");
        }
        let parties = self.options.parties.iter().filter(|party| party.which != Which::EnvoyGateway && !party.against);
        let parties: Vec<Party> = parties.cloned().collect();
        if let Err(error) = self.guard.clone().over(self.cluster.clear(&[Kind::Ingress], 0..size)).await {
            return self.say(&format!("the Ingresses cannot be removed: {error:#}"));
        }
        for party in parties {
            self.proxies(&party, size, page).await;
            written(page);
        }
        if let Err(error) = self.guard.clone().over(self.cluster.fill(&[Kind::Ingress], 0..size, false)).await {
            self.say(&format!("the Ingresses cannot be written again: {error:#}"));
        }
    }

    async fn proxies(&mut self, party: &Party, size: usize, page: &mut Page) {
        let setting = |what: &str| (size, format!("{}, {what}", short(size)));
        let started = Instant::now();
        let guard = self.guard.clone();
        let opened = guard
            .over(async {
                self.cluster.fill(&Kind::PROXIES, 0..size, false).await?;
                self.open_with_statuses(party, size, false).await
            })
            .await;
        match opened {
            Err(error) => self.note(page, Case::Proxies, setting("cold start"), party.name, started, Err(error)),
            Ok((mut session, cold)) => {
                self.note(page, Case::Proxies, setting("cold start"), party.name, started, Ok(cold));
                let started = Instant::now();
                let figures = guard.over(self.new_proxies(&mut session)).await;
                self.note(page, Case::Proxies, setting("new HTTPProxy"), party.name, started, figures);
                let started = Instant::now();
                let figures = guard.over(self.changed_includes(&mut session)).await;
                self.note(page, Case::Proxies, setting("changed include"), party.name, started, figures);
                let started = Instant::now();
                let figures = guard.over(self.endpoint_changes_of_routes(&mut session)).await;
                self.note(page, Case::Proxies, setting("endpoint change"), party.name, started, figures);
                let started = Instant::now();
                let figures = guard.over(at_rest(&mut session)).await;
                self.note(page, Case::Proxies, setting("at rest"), party.name, started, figures);
            }
        }
        for numbers in [0..size, FIRST_SPARE..FIRST_SPARE + super::SPARES] {
            if let Err(error) = guard.over(self.cluster.clear(&Kind::PROXIES, numbers)).await {
                self.say(&format!("the HTTPProxies cannot be removed: {error:#}"));
            }
        }
    }

    async fn new_proxies(&mut self, session: &mut Session) -> anyhow::Result<Vec<Figure>> {
        let (before, _) = self.cluster.settled(PATIENCE).await?;
        session.api = self.cluster.api().await?;
        let mut series = Series::start(session).await?;
        while series.goes_on(self.options.budget) {
            tokio::time::sleep(pause(session)).await;
            let index = session.spare()?;
            let written = session.api.proxy(index).await?;
            let at = session.clients.saw(Sight::Host(index), LIMIT).await?;
            series.took(session, &written, at)?;
        }
        let figures = series.figures(session).await?;
        self.with_status_writes(figures, before).await
    }

    async fn changed_includes(&mut self, session: &mut Session) -> anyhow::Result<Vec<Figure>> {
        let (before, _) = self.cluster.settled(PATIENCE).await?;
        session.api = self.cluster.api().await?;
        let mut series = Series::start(session).await?;
        while series.goes_on(self.options.budget) {
            tokio::time::sleep(pause(session)).await;
            self.change += 1;
            let written = session.api.edit_included(self.change * 7919 % session.size, self.change).await?;
            let at = session.clients.saw(Sight::Change(self.change), LIMIT).await?;
            series.took(session, &written, at)?;
        }
        let figures = series.figures(session).await?;
        self.with_status_writes(figures, before).await
    }
}

/// Returns the time between two changes, beyond the longest wait of Contour.
fn pause(session: &Session) -> Duration {
    Duration::from_millis(if session.controller.which == Which::Contour { 600 } else { 100 })
}
