//! A load generator with a fixed rate. The clock determines when a request is due, not the previous answer. A stall
//! therefore shows in the latencies of all requests that were due meanwhile.

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

/// The requests of a load.
#[derive(Clone)]
pub struct Plan {
    /// The target.
    pub target: Target,
    /// The path.
    pub path: String,
    /// Requests per second, over all connections.
    pub rate: u32,
    /// The number of connections. Each sends one request at a time.
    pub connections: u32,
    /// The number of requests after which a connection is renewed. `None`: it is kept as long as the server keeps it.
    pub renew_after: Option<u32>,
    /// The namespace of the lab's echo server that must answer, if any.
    pub namespace: Option<String>,
}

impl Plan {
    /// 1,000 requests per second over 20 kept connections.
    pub fn new(target: Target, path: &str) -> Self {
        Self { target, path: path.into(), rate: 1000, connections: 20, renew_after: None, namespace: None }
    }
}

/// A running load, on a separate thread.
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

/// The results of a load.
#[derive(Debug, Default)]
pub struct Report {
    /// The elapsed time.
    pub elapsed: Duration,
    /// The latencies of successful requests, from the time when each was due to its complete answer.
    pub latencies: Durations,
    /// The failures: the count, and the seconds from the start to the first one.
    pub failures: BTreeMap<String, (u64, f64)>,
    /// The number of connections.
    pub connections: u64,
}

impl Load {
    /// Starts a load, and waits for the first answer.
    ///
    /// # Panics
    /// If no answer arrives.
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

    /// Waits until this many more requests are answered.
    pub async fn answers(&self, count: u64) {
        let answered = || self.state.answered.load(Ordering::Relaxed);
        let goal = answered() + count;
        crate::wait_until("answers to the load", async || answered() >= goal).await;
    }

    /// Waits until this many requests have failed since the start.
    pub async fn failures(&self, count: u64) {
        crate::wait_until("failures of the load", async || self.state.failed.load(Ordering::Relaxed) >= count).await;
    }

    /// Ends the load.
    ///
    /// # Panics
    /// If the generator itself failed.
    pub async fn stop(self) -> Report {
        self.state.stop.store(true, Ordering::Relaxed);
        tokio::task::spawn_blocking(|| self.thread.join()).await.expect("a thread").expect("the load generator")
    }
}

impl Report {
    /// Returns the number of requests that were not answered 200, or by a wrong backend.
    pub fn failed(&self) -> u64 {
        self.failures.values().map(|(count, _)| count).sum()
    }
}

/// Formats `12,345 requests in 12.3 s (1000/s), 0 failed; median ...`, and a line for each kind of failure.
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

/// Formats an error with its causes.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Sends one request. A connection that the server has closed since the last answer is replaced, as by every client.
/// After the request is sent, any error is a failure.
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
