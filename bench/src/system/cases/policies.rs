//! Ingresses and HTTPRoutes without and with an HTTPPolicy each, of Lockgate alone.

use std::time::{Duration, Instant};

use super::changes::Series;
use super::routes::{PATIENCE, at_rest};
use super::session::Session;
use super::{Bench, Case, Figure, LIMIT, Party, SPARES, short};
use crate::system::clients::Sight;
use crate::system::controller::{Choice, Which};
use crate::system::names::FIRST_SPARE;
use crate::system::objects::Kind;
use crate::system::page::Page;

pub const ABOUT: &str = "\
    N times Ingress, Service, and EndpointSlice; then the same with an HTTPPolicy for each of the first 1,000 Ingresses: more than 3,000 exceed \
    the limit for the configuration of their namespace. A policy has a list of client addresses, a rate limit, CORS, a limit of bodies, and a \
    response header. Measured as HTTPRoutes, with the statuses of all objects. The policy of a new Ingress exists before it. \"Changed \
    feature\" is another value of the response header. The same for HTTPRoutes on one Gateway, instead of the Ingresses, at the main size.";

/// The maximum number of Ingresses with policies, apart from new ones.
const MOST: usize = 1000;

impl Bench {
    /// Runs the case at this size.
    pub(super) async fn all_policies(&mut self, size: usize, page: &mut Page, written: &mut impl FnMut(&Page)) {
        if !self.wants(Case::Policies, size) {
            return;
        }
        if self.options.own_types.is_none() {
            return self.say("no HTTPPolicies: the resource types of Lockgate are missing");
        }
        let is_own = |party: &&Party| party.which == Which::Lockgate && !party.against;
        let parties: Vec<Party> = self.options.parties.iter().filter(is_own).cloned().collect();
        for party in parties {
            for with_policies in [false, true] {
                self.policies(&party, size, Kind::Policy, with_policies, page).await;
                written(page);
            }
            if self.options.gateway_types.is_empty() || size != self.options.main {
                continue;
            }
            if let Err(error) = self.guard.clone().over(self.cluster.clear(&[Kind::Ingress], 0..size)).await {
                return self.say(&format!("the Ingresses cannot be removed: {error:#}"));
            }
            for with_policies in [false, true] {
                self.policies(&party, size, Kind::RoutePolicy, with_policies, page).await;
                written(page);
            }
            if let Err(error) = self.guard.clone().over(self.cluster.fill(&[Kind::Ingress], 0..size, false)).await {
                return self.say(&format!("the Ingresses cannot be written again: {error:#}"));
            }
        }
    }

    /// Measures one kind of target: Ingresses if `kind` is [`Kind::Policy`], HTTPRoutes if it is [`Kind::RoutePolicy`].
    async fn policies(&mut self, party: &Party, size: usize, kind: Kind, with_policies: bool, page: &mut Page) {
        let of_routes = kind == Kind::RoutePolicy;
        let name = if with_policies { "five features" } else { "no policy" };
        let of_kind = if of_routes { "HTTPRoutes, " } else { "" };
        let setting = |what: &str| (size, format!("{}, {of_kind}{name}, {what}", short(size)));
        let (guard, started) = (self.guard.clone(), Instant::now());
        let numbers = [0..size.min(MOST), FIRST_SPARE..FIRST_SPARE + SPARES];
        let opened = guard
            .over(async {
                for numbers in numbers.clone().into_iter().filter(|_| with_policies) {
                    self.cluster.fill(&[kind], numbers, false).await?;
                }
                if of_routes {
                    self.prepare(party, size, 1).await?;
                    return self.open_gateways(party, size).await;
                }
                // Without the statuses of the last controller.
                self.cluster.fill(&[Kind::Ingress], 0..size, false).await?;
                let settings = "leaderElection: { enabled: true }\nstatus: { addresses: [192.0.2.1] }\n".to_owned();
                let choice = Choice { settings, against: false, gateways: false, many_statuses: true };
                self.open_until_settled(party, size, &choice).await
            })
            .await;
        match opened {
            Err(error) => self.note(page, Case::Policies, setting("cold start"), party.name, started, Err(error)),
            Ok((mut session, cold)) => {
                self.note(page, Case::Policies, setting("cold start"), party.name, started, Ok(cold));
                let started = Instant::now();
                if of_routes {
                    let figures = guard.over(self.new_routes(&mut session)).await;
                    self.note(page, Case::Policies, setting("new HTTPRoute"), party.name, started, figures);
                } else {
                    let figures = guard.over(self.new_ingresses_with_statuses(&mut session)).await;
                    self.note(page, Case::Policies, setting("new Ingress"), party.name, started, figures);
                }
                if with_policies && !of_routes {
                    let started = Instant::now();
                    let figures = guard.over(self.changed_features(&mut session)).await;
                    self.note(page, Case::Policies, setting("changed feature"), party.name, started, figures);
                }
                let started = Instant::now();
                let figures = guard.over(at_rest(&mut session)).await;
                self.note(page, Case::Policies, setting("at rest"), party.name, started, figures);
            }
        }
        for numbers in numbers.into_iter().filter(|_| with_policies) {
            if let Err(error) = guard.over(self.cluster.clear(&[kind], numbers)).await {
                self.say(&format!("the HTTPPolicies cannot be removed: {error:#}"));
            }
        }
        match of_routes {
            true => self.forget_routes(size).await,
            false => self.tidy().await,
        }
    }

    async fn new_ingresses_with_statuses(&mut self, session: &mut Session) -> anyhow::Result<Vec<Figure>> {
        let (before, _) = self.cluster.settled(PATIENCE).await?;
        session.api = self.cluster.api().await?;
        let figures = self.new_ingresses(session).await?;
        self.with_status_writes(figures, before).await
    }

    async fn changed_features(&mut self, session: &mut Session) -> anyhow::Result<Vec<Figure>> {
        let (before, _) = self.cluster.settled(PATIENCE).await?;
        session.api = self.cluster.api().await?;
        let mut series = Series::start(session).await?;
        while series.goes_on(self.options.budget) {
            tokio::time::sleep(Duration::from_millis(100)).await;
            self.change += 1;
            let index = self.change * 7919 % session.size.min(MOST);
            let written = session.api.edit_policy(index, self.change).await?;
            let at = session.clients.saw(Sight::Change(self.change), LIMIT).await?;
            series.took(session, &written, at)?;
        }
        let figures = series.figures(session).await?;
        self.with_status_writes(figures, before).await
    }
}
