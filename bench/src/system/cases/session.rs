//! A controller with one complete client, and the cases that need no more.

use std::time::{Duration, Instant};

use super::{Bench, Case, Figure, LIMIT, MIB, Party, SPARES, short};
use crate::report::Unit;
use crate::system::clients::Clients;
use crate::system::cluster::Api;
use crate::system::controller::{Choice, Controller};
use crate::system::names::FIRST_SPARE;
use crate::system::objects::Kind;
use crate::system::page::Page;

/// A running controller and its clients.
pub(super) struct Session {
    pub controller: Controller,
    pub clients: Clients,
    pub api: Api,
    /// The number of Ingresses.
    pub size: usize,
    /// The next Service that no route references.
    pub spare: usize,
}

impl Session {
    /// CPU use of the idle controller, as a fraction of one core.
    pub async fn idle(&mut self) -> anyhow::Result<f64> {
        self.clients.silence(Duration::from_millis(300), LIMIT).await;
        let (before, from) = (self.controller.cpu()?, Instant::now());
        tokio::time::sleep(Duration::from_millis(500)).await;
        Ok((self.controller.cpu()? - before).as_secs_f64() / from.elapsed().as_secs_f64())
    }

    /// Returns the numbers of a new Ingress and its Service.
    pub fn spare(&mut self) -> anyhow::Result<usize> {
        anyhow::ensure!(self.spare < FIRST_SPARE + SPARES, "there is no Service left for a new Ingress");
        self.spare += 1;
        Ok(self.spare - 1)
    }
}

/// The cost of a start.
pub(super) struct Start {
    complete: Duration,
    cpu: Duration,
    bytes: u64,
    peak: u64,
}

impl Bench {
    /// Starts a controller and waits until `count` clients are complete.
    pub(super) async fn open(&mut self, party: &Party, size: usize, count: usize) -> anyhow::Result<(Session, Start)> {
        let limit = LIMIT + Duration::from_millis(300) * u32::try_from(count)?;
        self.open_with(party, size, count, &Self::choice(party), limit).await
    }

    /// Like [`Bench::open`], with options and a time limit.
    pub(super) async fn open_with(
        &mut self,
        party: &Party,
        size: usize,
        count: usize,
        choice: &Choice,
        limit: Duration,
    ) -> anyhow::Result<(Session, Start)> {
        let mut controller = Controller::start(party.which, &self.cluster, &self.options.programs, choice).await?;
        let clients = Clients::open(&controller.server(), party.variant, count, size, limit);
        let ended = async {
            while controller.runs() {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        };
        let complete = tokio::select! {
            complete = clients.complete(limit) => complete,
            () = ended => Err(anyhow::anyhow!("the controller has ended")),
        };
        let complete = match complete {
            Ok(at) if controller.runs() => at.saturating_duration_since(controller.started),
            result => {
                let reason = result.err().map_or("it has ended".into(), |error| format!("{error:#}"));
                let log = controller.tail();
                let last: Vec<&str> = log.lines().rev().take(3).collect();
                anyhow::bail!("{reason}; the log ends with: {}", last.join(" / "));
            }
        };
        clients.silence(Duration::from_millis(300), Duration::from_secs(20)).await;
        // Not before: the API server closes connections that are silent for long.
        let api = self.cluster.api().await?;
        let start =
            Start { complete, cpu: controller.cpu()?, bytes: clients.shared.bytes.get(), peak: controller.memory()?.1 };
        Ok((Session { controller, clients, api, size, spare: FIRST_SPARE }, start))
    }

    /// Runs all cases of one party at one size.
    pub(super) async fn session(&mut self, party: &Party, size: usize, page: &mut Page) {
        let cases: Vec<Case> =
            Case::ALL.into_iter().filter(|case| case.in_session() && self.wants(*case, size)).collect();
        if cases.is_empty() {
            return;
        }
        let setting = (size, short(size));
        let started = Instant::now();
        let (mut session, start) = match self.guard.clone().over(self.open(party, size, 1)).await {
            Ok(opened) => opened,
            Err(error) => return self.note(page, Case::Cold, setting, party.name, started, Err(error)),
        };
        for case in cases {
            let started = Instant::now();
            let figures = match case {
                Case::Cold => Ok(start.figures()),
                Case::Ingress => self.guard.clone().over(self.new_ingresses(&mut session)).await,
                Case::Endpoint => self.guard.clone().over(self.endpoint_changes(&mut session)).await,
                Case::Burst => self.guard.clone().over(self.burst(&mut session)).await,
                Case::Churn => self.guard.clone().over(self.churn(&mut session)).await,
                Case::Memory => memory(&mut session),
                _ => continue,
            };
            self.note(page, case, setting.clone(), party.name, started, figures);
        }
        drop(session);
        self.tidy().await;
    }

    /// Removes the objects of the last party, so that all parties start alike.
    pub(super) async fn tidy(&mut self) {
        let mut kinds = vec![Kind::Ingress];
        kinds.extend((!self.options.gateway_types.is_empty()).then_some(Kind::HttpRoute));
        kinds.extend(self.options.contour_types.iter().flat_map(|_| Kind::PROXIES));
        let cleared = self.cluster.clear(&kinds, FIRST_SPARE..FIRST_SPARE + SPARES);
        if let Err(error) = self.guard.clone().over(cleared).await {
            self.say(&format!("new objects could not be removed: {error:#}"));
        }
    }
}

impl Start {
    pub fn complete_ms(&self) -> f64 {
        self.complete.as_secs_f64() * 1e3
    }

    pub fn figures(&self) -> Vec<Figure> {
        vec![
            ("complete client", Unit::Ms, self.complete.as_secs_f64() * 1e3),
            ("CPU", Unit::Ms, self.cpu.as_secs_f64() * 1e3),
            ("bytes", Unit::KiB, self.bytes as f64 / 1024.0),
            ("peak RSS", Unit::MiB, self.peak as f64 / MIB),
        ]
    }
}

pub(super) fn memory(session: &mut Session) -> anyhow::Result<Vec<Figure>> {
    let (now, peak) = session.controller.memory()?;
    Ok(vec![("RSS", Unit::MiB, now as f64 / MIB), ("peak RSS", Unit::MiB, peak as f64 / MIB)])
}
