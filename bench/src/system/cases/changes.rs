//! Single changes, each awaited before the next.

use std::time::{Duration, Instant};

use super::session::Session;
use super::{Bench, Budget, Figure, LIMIT, Party};
use crate::report::Unit;
use crate::stats::percentile;
use crate::system::clients::Sight;
use crate::system::cluster::Written;
use crate::system::controller::Which;
use crate::system::yardstick::Yardstick;

pub const ABOUT_INGRESS: &str = "\
    One new Ingress with a new host, for a Service that no route references yet. Latency counts from before the request to \
    the API server until the client has the route. \"from the answer\" counts from the API server's answer. CPU is the \
    controller's CPU time minus its idle consumption; \"CPU p50\" is the median of the single changes, including idle \
    consumption. Bytes are those that the client received. The yardstick is the CPU time of a fixed walk through 256 KiB \
    of memory, which the benchmark runs after each change: a higher value means slower memory. Contour waits 100 ms for \
    more changes if its last one was less than 500 ms ago; here, changes are far enough apart.";

pub const ABOUT_ENDPOINT: &str = "\
    One EndpointSlice gets another address. Measured as above, until the client has the address.";

pub const ABOUT_EDIT: &str = "\
    All Ingresses have TLS, with ten Secrets in total. The path of one Ingress is edited. Measured as above, until the \
    client has the new path. The listener need not change if its filter chains refer to routes by name.";

/// The maximum number of changes in a series.
const MOST: usize = 100;

impl Bench {
    /// Measures new Ingresses.
    pub(super) async fn new_ingresses(&mut self, session: &mut Session) -> anyhow::Result<Vec<Figure>> {
        // Beyond Contour's longest wait.
        let pause = Duration::from_millis(if session.controller.which == Which::Contour { 600 } else { 100 });
        let budget = self.options.budget;
        let mut series = Series::start(session).await?;
        while series.goes_on(budget) {
            tokio::time::sleep(pause).await;
            let index = session.spare()?;
            let written = session.api.ingress(index, index, None).await?;
            let at = session.clients.saw(Sight::Host(index), LIMIT).await?;
            series.took(session, &written, at)?;
        }
        series.figures(session).await
    }

    /// Measures changes of endpoints.
    pub(super) async fn endpoint_changes(&mut self, session: &mut Session) -> anyhow::Result<Vec<Figure>> {
        let budget = self.options.budget;
        let mut series = Series::start(session).await?;
        while series.goes_on(budget) {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let (at, written) = self.change_endpoints(session).await?;
            series.took(session, &written, at)?;
        }
        series.figures(session).await
    }

    /// Measures edits of paths of Ingresses with TLS.
    pub(super) async fn edits(&mut self, party: &Party, size: usize) -> anyhow::Result<Vec<Figure>> {
        let (mut session, _) = self.open(party, size, 1).await?;
        // Beyond Contour's longest wait.
        let pause = Duration::from_millis(if party.which == Which::Contour { 600 } else { 100 });
        let budget = self.options.budget;
        let mut series = Series::start(&mut session).await?;
        while series.goes_on(budget) {
            tokio::time::sleep(pause).await;
            self.change += 1;
            let written = session.api.edit(self.change * 7919 % size, self.change).await?;
            let at = session.clients.saw(Sight::Change(self.change), LIMIT).await?;
            series.took(&mut session, &written, at)?;
        }
        series.figures(&mut session).await
    }

    /// Changes endpoints once, and returns the time when the last client had the change.
    pub(super) async fn change_endpoints(&mut self, session: &mut Session) -> anyhow::Result<(Instant, Written)> {
        self.change += 1;
        let written = session.api.endpoints(self.change * 7919 % session.size, self.change).await?;
        Ok((session.clients.saw(Sight::Change(self.change), LIMIT).await?, written))
    }
}

/// CPU time of Lockgate that no single change should reach.
const STRIKING: Duration = Duration::from_millis(30);

/// A series of changes.
pub(super) struct Series {
    idle: f64,
    started: Instant,
    cpu: Duration,
    /// The controller's CPU time and page faults after the last change.
    last: (Duration, u64),
    /// A more expensive change of Lockgate is printed with the other activity since the last change.
    striking: Duration,
    bytes: u64,
    /// Latencies from the request and from the answer.
    latencies: Vec<u64>,
    after: Vec<u64>,
    /// CPU time since the previous change.
    costs: Vec<u64>,
    yardstick: Yardstick,
    yards: Vec<u64>,
}

impl Series {
    pub async fn start(session: &mut Session) -> anyhow::Result<Self> {
        let idle = session.idle().await?;
        let cpu = session.controller.cpu()?;
        Ok(Self {
            idle,
            started: Instant::now(),
            cpu,
            last: (cpu, session.controller.faults()?),
            striking: STRIKING,
            bytes: session.clients.shared.bytes.get(),
            latencies: Vec::new(),
            after: Vec::new(),
            costs: Vec::new(),
            yardstick: Yardstick::default(),
            yards: Vec::new(),
        })
    }

    /// Returns whether time is left for another change.
    pub fn goes_on(&self, budget: Budget) -> bool {
        let count = self.latencies.len();
        count < budget.fewest || count < MOST && self.started.elapsed() < budget.time
    }

    /// Records a completed change.
    pub fn took(&mut self, session: &mut Session, written: &Written, at: Instant) -> anyhow::Result<()> {
        self.latencies.push(nanoseconds(at.saturating_duration_since(written.sent)));
        self.after.push(nanoseconds(at.saturating_duration_since(written.answered)));
        let now = (session.controller.cpu()?, session.controller.faults()?);
        let before = std::mem::replace(&mut self.last, now);
        let (cost, pages) = (now.0 - before.0, now.1 - before.1);
        self.costs.push(nanoseconds(cost));
        self.yards.push(nanoseconds(self.yardstick.measure()?));
        if cost > self.striking && session.controller.which == Which::Lockgate {
            self.striking = cost;
            let (count, elapsed) = (self.latencies.len(), self.started.elapsed());
            eprintln!(
                "== change {count}, {elapsed:.1?} after the first: since the one before it {cost:.1?} of CPU, {pages} pages"
            );
        }
        Ok(())
    }

    pub async fn figures(mut self, session: &mut Session) -> anyhow::Result<Vec<Figure>> {
        session.clients.silence(Duration::from_millis(300), LIMIT).await;
        let elapsed = self.started.elapsed().as_secs_f64();
        let cpu = (session.controller.cpu()? - self.cpu).as_secs_f64();
        // Before the series it may still have been busy with what came before.
        let cpu = cpu - self.idle.min(session.idle().await?) * elapsed;
        if self.striking > STRIKING {
            eprintln!("== lists so far: {:?}", session.controller.lists().await);
        }
        let count = self.latencies.len() as f64;
        let bytes = session.clients.shared.bytes.get() - self.bytes;
        let ms = crate::stats::ms;
        Ok(vec![
            ("p50", Unit::Ms, ms(percentile(&mut self.latencies, 0.5))),
            ("p99", Unit::Ms, ms(percentile(&mut self.latencies, 0.99))),
            ("p50 from the answer", Unit::Ms, ms(percentile(&mut self.after, 0.5))),
            ("CPU", Unit::Ms, cpu.max(0.0) * 1e3 / count),
            ("CPU p50", Unit::Ms, ms(percentile(&mut self.costs, 0.5))),
            ("yardstick", Unit::Ms, ms(self.yards.iter().sum::<u64>() / self.yards.len().max(1) as u64)),
            ("bytes", Unit::KiB, bytes as f64 / 1024.0 / count),
            ("changes", Unit::Count, count),
        ])
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
