//! A load generator at a fixed rate: the clock decides when a request is due, not the answer to the one before, so that a
//! stall shows in the latencies of all the requests that were due in it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::Method;
use tokio::time::MissedTickBehavior;

use crate::client::{Connection, Target, Unsent};
use crate::figures::Durations;
use crate::lab::echo::Echoed;

/// What is sent.
#[derive(Clone)]
pub struct Plan {
    /// Where to.
    pub target: Target,
    /// The path.
    pub path: String,
    /// Requests a second, over all connections.
    pub rate: u32,
    /// Connections, each with one request at a time.
    pub connections: u32,
    /// Every how many requests a connection is closed and a new one made; `None` keeps it as long as the server does.
    pub renew_after: Option<u32>,
    /// The namespace of the lab's echo server that must answer, if it must be one.
    pub namespace: Option<String>,
}

impl Plan {
    /// 1,000 requests a second over 20 connections that are kept.
    pub fn new(target: Target, path: &str) -> Self {
        Self { target, path: path.into(), rate: 1000, connections: 20, renew_after: None, namespace: None }
    }
}

/// Load that is under way, on a thread of its own.
pub struct Load {
    state: Arc<State>,
    thread: std::thread::JoinHandle<Report>,
}

#[derive(Default)]
struct State {
    stop: AtomicBool,
    answered: AtomicU64,
    failed: AtomicU64,
}

/// What became of it.
#[derive(Debug, Default)]
pub struct Report {
    /// How long it ran.
    pub elapsed: Duration,
    /// From the moment when a request was due to its complete answer, of those answered right.
    pub latencies: Durations,
    /// What else happened to a request: how often, and how many seconds after the start for the first time.
    pub failures: BTreeMap<String, (u64, f64)>,
    /// Connections made.
    pub connections: u64,
}

impl Load {
    /// Starts; the first answer has come when this returns.
    ///
    /// # Panics
    /// If no answer comes.
    pub async fn start(plan: Plan) -> Self {
        let state = Arc::new(State::default());
        let thread = std::thread::spawn({
            let state = state.clone();
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
                runtime.block_on(run(plan, state))
            }
        });
        let load = Self { state, thread };
        load.answers(1).await;
        load
    }

    /// Waits until this many more requests have been answered.
    pub async fn answers(&self, count: u64) {
        let answered = || self.state.answered.load(Ordering::Relaxed);
        let goal = answered() + count;
        crate::wait_until("answers to the load", async || answered() >= goal).await;
    }

    /// Waits until this many requests have failed since the start.
    pub async fn failures(&self, count: u64) {
        crate::wait_until("failures of the load", async || self.state.failed.load(Ordering::Relaxed) >= count).await;
    }

    /// Ends it.
    ///
    /// # Panics
    /// If the generator itself failed.
    pub async fn stop(self) -> Report {
        self.state.stop.store(true, Ordering::Relaxed);
        tokio::task::spawn_blocking(|| self.thread.join()).await.expect("a thread").expect("the load generator")
    }
}

impl Report {
    /// Requests that were not answered 200, or by a wrong backend.
    pub fn failed(&self) -> u64 {
        self.failures.values().map(|(count, _)| count).sum()
    }
}

/// `12,345 requests in 12.3 s (1000/s), 0 failed; median ...`, then a line a kind of failure.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requests = self.latencies.count() as u64 + self.failed();
        let seconds = self.elapsed.as_secs_f64();
        write!(
            f,
            "{requests} requests in {seconds:.1} s ({:.0}/s) over {} connections, {} failed; {}",
            requests as f64 / seconds,
            self.connections,
            self.failed(),
            self.latencies
        )?;
        for (what, (count, first)) in &self.failures {
            write!(f, "\n    {count} x {what} (first after {first:.1} s)")?;
        }
        Ok(())
    }
}

async fn run(plan: Plan, state: Arc<State>) -> Report {
    let start = Instant::now();
    let interval = Duration::from_secs(1) * plan.connections / plan.rate;
    let workers: Vec<_> = (0..plan.connections)
        .map(|i| {
            let offset = interval * i / plan.connections;
            tokio::spawn(worker(plan.clone(), start, offset, interval, state.clone()))
        })
        .collect();
    let mut total = Report::default();
    for worker in workers {
        let report = worker.await.expect("a worker of the load");
        total.latencies.extend(report.latencies);
        total.connections += report.connections;
        for (what, (count, first)) in report.failures {
            let entry = total.failures.entry(what).or_insert((0, first));
            *entry = (entry.0 + count, entry.1.min(first));
        }
    }
    total.elapsed = start.elapsed();
    total
}

async fn worker(plan: Plan, start: Instant, offset: Duration, interval: Duration, state: Arc<State>) -> Report {
    let mut report = Report::default();
    let mut ticks = tokio::time::interval_at((start + offset).into(), interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut connection = None;
    let mut sent_on_it = 0;
    while !state.stop.load(Ordering::Relaxed) {
        let due = ticks.tick().await.into_std();
        if plan.renew_after.is_some_and(|limit| sent_on_it >= limit) {
            connection = None;
        }
        if connection.is_none() {
            sent_on_it = 0;
        }
        sent_on_it += 1;
        match request(&plan, &mut connection, &mut report.connections).await {
            Ok(()) => {
                report.latencies.push(due.elapsed());
                state.answered.fetch_add(1, Ordering::Relaxed);
            }
            Err(what) => {
                connection = None;
                state.failed.fetch_add(1, Ordering::Relaxed);
                report.failures.entry(what).or_insert((0, start.elapsed().as_secs_f64())).0 += 1;
            }
        }
    }
    report
}

/// An error and what is behind it.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// One request. A connection that the server has closed since the last answer is replaced, as every client does; once
/// the request is on its way, whatever happens to it counts.
async fn request(plan: &Plan, slot: &mut Option<Connection>, connections: &mut u64) -> Result<(), String> {
    let mut kept = slot.take();
    if let Some(connection) = &mut kept
        && !connection.usable().await
    {
        kept = None;
    }
    let mut connection = match kept {
        Some(connection) => connection,
        None => {
            *connections += 1;
            plan.target.connect().await.map_err(|error| format!("no connection: {error}"))?
        }
    };
    let mut sent = connection.send(Method::GET, &plan.path, Bytes::new()).await;
    if sent.as_ref().is_err_and(|error| error.is::<Unsent>()) {
        *connections += 1;
        connection = plan.target.connect().await.map_err(|error| format!("no connection: {error}"))?;
        sent = connection.send(Method::GET, &plan.path, Bytes::new()).await;
    }
    let answer = sent.map_err(|error| format!("no answer: {}", causes(&*error)))?;
    if answer.status != 200 {
        return Err(format!("status {}: {}", answer.status, answer.text()));
    }
    let expected = plan.namespace.as_ref();
    if expected.is_some() && Echoed::of(&answer).map(|echoed| echoed.namespace).as_ref() != expected {
        return Err(format!("answered by another backend: {}", answer.text()));
    }
    if !answer.header("connection").eq_ignore_ascii_case("close") {
        *slot = Some(connection);
    }
    Ok(())
}
