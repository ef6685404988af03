//! Leader election by a Lease of coordination.k8s.io: only the leader writes to the API server.
//!
//! Writers hold a [`Leader`]. [`Candidate`] reads and writes the Lease, and `election` makes all decisions. Every
//! replica translates and serves; only writing needs a leader.

mod election;

use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ObjectMeta, PostParams};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::metrics::Metrics;
use crate::source::cluster::reason;
use election::{Ask, Election};

pub use election::ElectionTiming;

/// The timeout of a request to the API server.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time that an ending process takes to release the Lease.
const RELEASE: Duration = Duration::from_secs(2);
/// A time longer than the lifetime of any process, without an overflow of the clock.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The leadership of this replica, for all writers.
#[derive(Debug, Clone)]
pub struct Leader {
    term: Arc<watch::Sender<Option<Instant>>>,
}

impl Leader {
    /// Creates the leadership of a single replica, which never ends.
    pub fn always() -> Self {
        Self::until(Some(Instant::now() + FOREVER))
    }

    fn until(term: Option<Instant>) -> Self {
        Self { term: Arc::new(watch::Sender::new(term)) }
    }

    /// Returns whether this replica leads now. It is true only until the renew deadline, even if no task has processed
    /// the end of the term yet.
    #[cfg(test)]
    fn leads(&self) -> bool {
        self.term.borrow().is_some_and(|until| Instant::now() < until)
    }

    /// Waits until this replica leads.
    pub async fn leading(&self) {
        let mut term = self.term.subscribe();
        let leads = |until: &Option<Instant>| until.is_some_and(|until| Instant::now() < until);
        // The sender lives as long as `self`.
        let _ = term.wait_for(leads).await;
    }

    /// Waits until this replica does not lead.
    pub async fn lost(&self) {
        let mut term = self.term.subscribe();
        loop {
            let until = *term.borrow_and_update();
            let Some(until) = until.filter(|until| Instant::now() < *until) else { return };
            tokio::select! {
                _ = term.changed() => {}
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    /// Runs `work` while this replica leads. Cancels it and returns `None` when the leadership ends.
    pub async fn while_leading<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.lost() => None,
            done = work => Some(done),
        }
    }

    /// Publishes a new term. Returns whether the leadership started or ended.
    fn set(&self, until: Option<Instant>) -> bool {
        self.term.send_replace(until).is_some() != until.is_some()
    }
}

/// A replica that takes part in the election.
pub struct Candidate {
    leases: Api<Lease>,
    name: String,
    election: Election,
    /// The Lease after the last read or write.
    last: Option<Lease>,
    leader: Leader,
    metrics: Metrics,
    /// Whether the last request failed, so that a series of failures is logged once.
    faulty: bool,
    /// The holder that was logged last.
    named: Option<String>,
}

impl Candidate {
    /// Creates a replica that competes for the Lease `name` in `namespace`. Each living process must have a different
    /// `identity`.
    pub fn new(
        client: kube::Client,
        namespace: &str,
        name: &str,
        identity: String,
        timing: ElectionTiming,
        metrics: Metrics,
    ) -> Self {
        Self {
            leases: Api::namespaced(client, namespace),
            name: name.to_owned(),
            election: Election::new(identity, timing),
            last: None,
            leader: Leader::until(None),
            metrics,
            faulty: false,
            named: None,
        }
    }

    /// Returns the leadership for writers.
    pub fn leader(&self) -> Leader {
        self.leader.clone()
    }

    /// Takes part until `stopping` is true. Then releases the Lease, so that another replica leads immediately.
    pub async fn run(mut self, mut stopping: watch::Receiver<bool>) {
        tokio::select! {
            never = self.campaign() => match never {},
            // If the sender is gone, the process stops, too.
            _ = stopping.wait_for(|stopping| *stopping) => {}
        }
        let released = self.election.release(Timestamp::now());
        // Writers must stop before another replica may start.
        self.announce();
        if let Some(spec) = released {
            match timeout(RELEASE, self.release(spec)).await {
                Ok(Ok(())) => tracing::info!(lease = %self.name, "released the Lease"),
                Ok(Err(error)) => tracing::warn!(lease = %self.name, "cannot release the Lease: {}", reason(&error)),
                Err(_) => tracing::warn!(lease = %self.name, "cannot release the Lease: no response in time"),
            }
        }
    }

    async fn campaign(&mut self) -> std::convert::Infallible {
        loop {
            let now = Instant::now();
            match self.election.ask(now, Timestamp::now(), chance()) {
                Ask::Rest(rest) => {
                    tokio::time::sleep(rest).await;
                    self.election.rested();
                }
                Ask::Read => match self.within_patience(now, self.leases.get_opt(&self.name)).await {
                    Ok(lease) => self.read(lease),
                    Err(error) => self.failed("read", &error),
                },
                Ask::Write(spec) => match self.within_patience(now, self.write(spec.clone())).await {
                    Ok(lease) => {
                        self.healed();
                        self.election.wrote(now, version(&lease), spec);
                        self.last = Some(lease);
                    }
                    Err(Failure::Api(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {
                        self.election.conflicted();
                    }
                    Err(error) => self.failed("write", &error),
                },
            }
            self.announce();
        }
    }

    /// Waits for a response, but at most until the end of the term, when this replica must step down.
    async fn within_patience<T>(
        &self,
        now: Instant,
        answer: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Failure> {
        let left = self.election.leads_until(now).map(|until| until - now);
        let patience = left.map_or(PATIENCE, |left| left.min(PATIENCE));
        match timeout(patience, answer).await {
            Ok(answer) => answer.map_err(Failure::Api),
            Err(_) => Err(Failure::Late(patience)),
        }
    }

    fn read(&mut self, lease: Option<Lease>) {
        self.healed();
        let found = lease.as_ref().map(|lease| (version(lease), lease.spec.clone().unwrap_or_default()));
        self.election.read(Instant::now(), found);
        self.last = lease;
    }

    async fn write(&self, spec: LeaseSpec) -> kube::Result<Lease> {
        let params = PostParams { field_manager: Some("lockgate".into()), ..PostParams::default() };
        match self.last.clone() {
            // The resource version makes one of two concurrent writes fail.
            Some(lease) => self.leases.replace(&self.name, &params, &Lease { spec: Some(spec), ..lease }).await,
            None => {
                let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
                self.leases.create(&params, &Lease { metadata, spec: Some(spec) }).await
            }
        }
    }

    async fn release(&mut self, spec: LeaseSpec) -> kube::Result<()> {
        match self.write(spec).await {
            // An earlier renewal may have succeeded without a response, so the current Lease is read and written again.
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let lease = self.leases.get_opt(&self.name).await?;
                self.read(lease);
                match self.election.release(Timestamp::now()) {
                    Some(spec) => self.write(spec).await.map(|_| ()),
                    None => Ok(()),
                }
            }
            written => written.map(|_| ()),
        }
    }

    /// Reports a change to waiting tasks and to the log.
    fn announce(&mut self) {
        let until = self.election.leads_until(Instant::now());
        let changed = self.leader.set(until);
        self.metrics.set_leader(until.is_some());
        let holder = self.election.holder();
        match (changed, until) {
            (true, Some(_)) => tracing::info!(lease = %self.name, "this replica leads"),
            (true, None) => tracing::warn!(lease = %self.name, "this replica no longer leads"),
            (false, None) if holder.is_some() && holder != self.named.as_deref() => {
                tracing::info!(lease = %self.name, leader = holder, "another replica leads");
            }
            _ => return,
        }
        self.named = holder.map(str::to_owned);
    }

    fn failed(&mut self, verb: &'static str, failure: &Failure) {
        self.election.failed();
        if !std::mem::replace(&mut self.faulty, true) {
            let until = self.election.leads_until(Instant::now());
            let left_s = until.map(|until| (until - Instant::now()).as_secs_f64().round());
            tracing::warn!(lease = %self.name, left_s, "cannot {verb} the Lease: {failure}; retrying");
        }
    }

    fn healed(&mut self) {
        if std::mem::take(&mut self.faulty) {
            tracing::info!(lease = %self.name, "the API server answers requests for the Lease again");
        }
    }
}

/// The reason why a request for the Lease failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The API server rejected the request, or is unreachable.
    #[error("{}", reason(.0))]
    Api(kube::Error),
    /// The API server did not respond in time.
    #[error("no answer in {:.1} s", .0.as_secs_f64())]
    Late(Duration),
}

fn version(lease: &Lease) -> String {
    lease.metadata.resource_version.clone().unwrap_or_default()
}

/// Returns a random number from 0 to 1.
fn chance() -> f64 {
    let random = RandomState::new().hash_one(0);
    (random >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests;
