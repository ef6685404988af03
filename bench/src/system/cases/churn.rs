//! Many changes: all at once, and at a fixed rate.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::sync::mpsc;

use super::session::Session;
use super::{Bench, Figure, LIMIT, MIB};
use crate::report::Unit;
use crate::stats::{ms, percentile};
use crate::system::clients::Sight;
use crate::system::cluster::Api;

pub const ABOUT_BURST: &str = "\
    200 Ingresses with new hosts are written over eight connections, as fast as the API server accepts them. Time from \
    before the first request until the client has the last route.";

pub const ABOUT: &str = "\
    100 changes per second: eight of ten change endpoints, one adds an Ingress, and one deletes such an Ingress. Latency \
    counts from before each request. \"lost\" changes did not arrive within 30 s after the end.";

const BURST: usize = 200;
const WRITERS: usize = 8;
const RATE: u64 = 100;

/// A write.
#[derive(Debug, Clone, Copy)]
enum Job {
    Endpoints(usize, usize),
    Ingress(usize),
    Delete(usize),
}

/// Writes over several connections, and the send times of the requests that clients see.
struct Writers {
    jobs: mpsc::UnboundedSender<Job>,
    sent: Rc<RefCell<BTreeMap<Sight, Instant>>>,
    tasks: Vec<tokio::task::JoinHandle<anyhow::Result<()>>>,
}

impl Writers {
    async fn start(bench: &Bench) -> anyhow::Result<Self> {
        let (jobs, received) = mpsc::unbounded_channel();
        let received = Rc::new(tokio::sync::Mutex::new(received));
        let sent = Rc::new(RefCell::new(BTreeMap::new()));
        let mut tasks = Vec::new();
        for _ in 0..WRITERS {
            let api = bench.cluster.api().await?;
            tasks.push(tokio::task::spawn_local(write(api, received.clone(), sent.clone())));
        }
        Ok(Self { jobs, sent, tasks })
    }

    /// Waits until everything is written, and returns the send times.
    async fn finished(self) -> anyhow::Result<BTreeMap<Sight, Instant>> {
        drop(self.jobs);
        for task in self.tasks {
            task.await.context("a writer")??;
        }
        Ok(self.sent.take())
    }
}

async fn write(
    mut api: Api,
    jobs: Rc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Job>>>,
    sent: Rc<RefCell<BTreeMap<Sight, Instant>>>,
) -> anyhow::Result<()> {
    loop {
        let job = jobs.lock().await.recv().await;
        let (sight, written) = match job {
            None => return Ok(()),
            Some(Job::Endpoints(index, change)) => (Sight::Change(change), api.endpoints(index, change).await?),
            Some(Job::Ingress(index)) => (Sight::Host(index), api.ingress(index, index, None).await?),
            Some(Job::Delete(index)) => {
                api.delete_ingress(index).await?;
                continue;
            }
        };
        sent.borrow_mut().insert(sight, written.sent);
    }
}

impl Bench {
    /// Measures 200 new Ingresses.
    pub(super) async fn burst(&mut self, session: &mut Session) -> anyhow::Result<Vec<Figure>> {
        let idle = session.idle().await?;
        let writers = Writers::start(self).await?;
        let (cpu, bytes) = (session.controller.cpu()?, session.clients.shared.bytes.get());
        let started = Instant::now();
        let spares: Vec<usize> = (0..BURST).map(|_| session.spare()).collect::<anyhow::Result<_>>()?;
        for &index in &spares {
            writers.jobs.send(Job::Ingress(index))?;
        }
        writers.finished().await?;
        let written = started.elapsed();
        for &index in &spares {
            session.clients.saw(Sight::Host(index), LIMIT).await?;
        }
        let last = spares.iter().filter_map(|index| session.clients.sighted(Sight::Host(*index))).max();
        let took = last.context("nothing came")? - started;
        session.clients.silence(Duration::from_millis(300), LIMIT).await;
        let cpu = (session.controller.cpu()? - cpu).as_secs_f64() - idle * started.elapsed().as_secs_f64();
        Ok(vec![
            ("last at the client", Unit::Ms, took.as_secs_f64() * 1e3),
            ("of that, writing", Unit::Ms, written.as_secs_f64() * 1e3),
            ("CPU", Unit::Ms, cpu.max(0.0) * 1e3),
            ("bytes", Unit::KiB, (session.clients.shared.bytes.get() - bytes) as f64 / 1024.0),
        ])
    }

    /// Measures changes at a fixed rate.
    pub(super) async fn churn(&mut self, session: &mut Session) -> anyhow::Result<Vec<Figure>> {
        let seconds = self.options.churn_seconds;
        let idle = session.idle().await?;
        let writers = Writers::start(self).await?;
        let (cpu, bytes) = (session.controller.cpu()?, session.clients.shared.bytes.get());
        let messages = session.clients.shared.messages.get();
        let started = Instant::now();
        let mut ticks = tokio::time::interval(Duration::from_millis(1000 / RATE));
        let mut young = std::collections::VecDeque::new();
        let first_spare = session.spare;
        let mut next_spare = 0;
        for number in 0..seconds * RATE {
            ticks.tick().await;
            let job = match number % 10 {
                4 => {
                    // Round and round, so that few spare Services are enough; a host counts when it comes first.
                    let spares = super::SPARES - (first_spare - crate::system::names::FIRST_SPARE);
                    let index = first_spare + next_spare % spares;
                    next_spare += 1;
                    young.push_back(index);
                    Job::Ingress(index)
                }
                // Not before it has surely been seen.
                9 if young.len() > 100 => young.pop_front().map_or(Job::Delete(0), Job::Delete),
                _ => {
                    self.change += 1;
                    Job::Endpoints(self.change * 7919 % session.size, self.change)
                }
            };
            writers.jobs.send(job)?;
        }
        let sent = writers.finished().await?;
        let deadline = Instant::now() + Duration::from_secs(30);
        let missing =
            |session: &Session| sent.keys().filter(|sight| session.clients.sighted(**sight).is_none()).count();
        while missing(session) > 0 && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let lost = missing(session);
        let took = started.elapsed().as_secs_f64();
        let cpu = (session.controller.cpu()? - cpu).as_secs_f64() - idle * took;
        let since = |(sight, sent): (&Sight, &Instant)| {
            let at = session.clients.sighted(*sight)?;
            u64::try_from(at.saturating_duration_since(*sent).as_nanos()).ok()
        };
        let mut latencies: Vec<u64> = sent.iter().filter_map(since).collect();
        let count = (seconds * RATE) as f64;
        Ok(vec![
            ("p50", Unit::Ms, ms(percentile(&mut latencies, 0.5))),
            ("p99", Unit::Ms, ms(percentile(&mut latencies, 0.99))),
            ("max", Unit::Ms, ms(percentile(&mut latencies, 1.0))),
            ("CPU per change", Unit::Ms, cpu.max(0.0) * 1e3 / count),
            ("messages", Unit::Count, (session.clients.shared.messages.get() - messages) as f64),
            ("bytes", Unit::KiB, (session.clients.shared.bytes.get() - bytes) as f64 / 1024.0),
            ("RSS", Unit::MiB, session.controller.memory()?.0 as f64 / MIB),
            ("lost", Unit::Count, lost as f64),
        ])
    }
}
