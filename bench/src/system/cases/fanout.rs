//! One change for many clients.

use std::time::{Duration, Instant};

use super::changes::Series;
use super::{Bench, Case, Figure, MIB, Party, short};
use crate::report::Unit;
use crate::system::page::Page;

pub const ABOUT: &str = "\
    Many clients, each with the whole configuration and a connection of its own. One EndpointSlice gets another address. \
    Latency until the last client has the address, CPU of the controller per change, and resident memory with all clients \
    connected. \"first sync\" is the time from the start of the process until all clients have the whole configuration, \
    with 20 clients at a time.";

impl Bench {
    /// Measures endpoint changes with many clients.
    pub(super) async fn fan_out(&mut self, party: &Party, size: usize, clients: usize, page: &mut Page) {
        if !self.wants(Case::FanOut, size) {
            return;
        }
        let started = Instant::now();
        let figures = self.guard.clone().over(self.endpoint_changes_of_many(party, size, clients)).await;
        self.note(
            page,
            Case::FanOut,
            (size, format!("{} × {clients} clients", short(size))),
            party.name,
            started,
            figures,
        );
    }

    async fn endpoint_changes_of_many(
        &mut self,
        party: &Party,
        size: usize,
        clients: usize,
    ) -> anyhow::Result<Vec<Figure>> {
        let (mut session, start) = self.open(party, size, clients).await?;
        let budget = self.options.budget;
        let mut series = Series::start(&mut session).await?;
        while series.goes_on(budget) {
            tokio::time::sleep(Duration::from_millis(150)).await;
            let (at, written) = self.change_endpoints(&mut session).await?;
            series.took(&mut session, &written, at)?;
        }
        let mut figures = series.figures(&mut session).await?;
        let (now, peak) = session.controller.memory()?;
        figures.push(("RSS", Unit::MiB, now as f64 / MIB));
        figures.push(("peak RSS", Unit::MiB, peak as f64 / MIB));
        figures.push(("first sync of all", Unit::Ms, start.complete_ms()));
        Ok(figures)
    }
}
