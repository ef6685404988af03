//! The writer: performs the writes of a plan while this replica leads. It contains the only checks of leadership, the only limits, and
//! the only log lines about failed writes.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use lockgate_xds::provenance::ObjectRef;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::failure::{ApiBackoff, Failure, WRITE_TIMEOUT, outcome};
use super::plan::{Limits, Performed, Plan};
use super::queue::{DueWrite, Queue, WriteOutcome, wait};
use super::sender::Sender;
use super::token_bucket::TokenBucket;
use crate::leader::Leader;
use crate::metrics::Metrics;

/// The first and the longest wait after a term could not begin.
const BEGIN_BACKOFF: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(15));
/// The maximum sleep.
const MAX_SLEEP: Duration = Duration::from_secs(60);
/// The maximum number of log lines about missing permissions in one term.
const MAX_FORBIDDEN: usize = 10;

/// The writer of a plan. Each plan has its own, so a fault of the writes of one plan, such as a broken webhook, pauses no other.
#[derive(Clone)]
pub(super) struct Writer {
    pub sender: Sender,
    pub leader: Leader,
    pub metrics: Metrics,
}

impl Writer {
    /// Writes while this replica leads, forever.
    pub async fn run<P: Plan>(self, mut plan: P) {
        let kinds = plan.kinds().to_vec();
        loop {
            tokio::select! {
                () = self.leader.leading() => {}
                never = plan.follow() => match never {},
            }
            self.leader.while_leading(self.write_all(&mut plan)).await;
            kinds.iter().for_each(|kind| self.metrics.set_status_pending(kind.as_str(), 0));
        }
    }

    /// Writes the statuses while this replica leads. The queue is dropped when another replica takes over.
    async fn write_all<P: Plan>(&self, plan: &mut P) {
        self.begin(plan).await;
        let Limits { rate, rate_of_namespace, parallel, debounce, rest } = P::LIMITS;
        let mut queue = Queue::new(rate_of_namespace);
        let (mut bucket, mut backoff) = (TokenBucket::new(rate.0, rate.1), ApiBackoff::default());
        let (mut writes, mut forbidden) = (FuturesUnordered::new(), BTreeSet::new());
        let (mut changed, mut update_at, mut next_update) = (true, Instant::now(), None::<Instant>);
        loop {
            let now = Instant::now();
            changed |= next_update.is_some_and(|at| at <= now);
            if changed && update_at <= now {
                next_update = plan.update(&mut queue, now);
                (changed, update_at) = (false, now + debounce.max(now.elapsed() * rest));
            }
            plan.publish(&queue);
            let mut wake = next_update.map_or(now + MAX_SLEEP, |at| at.min(now + MAX_SLEEP));
            if writes.len() < parallel {
                let at = bucket.next(now).max(backoff.until().unwrap_or(now));
                if at <= now
                    && let Some(write) = queue.start(now)
                {
                    bucket.take(now);
                    writes.push(self.perform(plan, write));
                    continue;
                }
                wake = queue.next(now).map_or(wake, |due| due.max(at).min(wake));
            }
            for kind in plan.kinds() {
                self.metrics.set_status_pending(kind.as_str(), queue.count(*kind));
            }
            tokio::select! {
                Some((write, result)) = writes.next() => {
                    let (now, result): (_, Result<Performed, Failure>) = (Instant::now(), result);
                    backoff.record(result.as_ref().err(), now);
                    let outcome = plan.outcome(&write, result.as_ref().copied());
                    let failures = queue.failures(&write.id) + 1;
                    self.report::<P>(&write, result.as_ref().copied(), (outcome, failures), &mut forbidden);
                    queue.finish(&write, outcome, now);
                    plan.finished(&mut queue, &write, result.as_ref().copied(), now);
                    changed = true;
                }
                // After one change, other changes have no effect until `update_at`, and must not wake each writer.
                () = plan.changed(), if !changed => changed = true,
                () = sleep_until(update_at), if changed => {}
                () = sleep_until(wake) => {}
            }
        }
    }

    /// Begins a term.
    async fn begin<P: Plan>(&self, plan: &mut P) {
        let mut failures = 0;
        while let Err(failure) = plan.begin(&self.sender).await {
            failures += 1;
            if u32::is_power_of_two(failures) {
                tracing::warn!(failures, "cannot begin to write {}: {failure}", P::NAME);
            }
            sleep(wait(failures, BEGIN_BACKOFF)).await;
        }
    }

    /// Returns a future that performs a write.
    fn perform<P: Plan>(
        &self,
        plan: &mut P,
        write: DueWrite<P::Goal>,
    ) -> impl Future<Output = (DueWrite<P::Goal>, Result<Performed, Failure>)> + use<P> {
        let performing = plan.perform(self.sender.clone(), &write);
        async move {
            let result = match timeout(WRITE_TIMEOUT, performing).await {
                Ok(result) => result,
                Err(_) => Err(Failure::Timeout),
            };
            (write, result)
        }
    }

    /// Reports the result of a write to the metrics, and a failure to the log.
    fn report<P: Plan>(
        &self,
        write: &DueWrite<P::Goal>,
        result: Result<Performed, &Failure>,
        (outcome, failures): (WriteOutcome, u32),
        forbidden: &mut BTreeSet<(&'static str, Arc<str>)>,
    ) {
        if !matches!(result, Ok(Performed::Unchanged)) {
            self.metrics.status_written(write.id.kind.as_str(), self::outcome(result.err()));
        }
        let Some(failure) = result.err().filter(|_| outcome != WriteOutcome::Done) else { return };
        let (name_of_plan, advice) = (P::NAME, P::advice(failure));
        let ObjectRef { kind, namespace, name, .. } = P::subject(write);
        let is_new = match failure.code() {
            Some(409) => false,
            // The first 404 is no fault: the object was deleted during the write. Every 404 delays the next write like another
            // failure, because an API server that starts answers 404 for kinds of CustomResourceDefinitions.
            Some(404) if failures == 1 => false,
            // A missing permission concerns every object of the kind.
            Some(403) => forbidden.insert((kind, namespace.clone())) && forbidden.len() <= MAX_FORBIDDEN,
            _ => failures.is_power_of_two(),
        };
        if is_new {
            tracing::warn!(kind, %namespace, %name, failures, "cannot write {name_of_plan}: {failure}{advice}");
        } else {
            tracing::debug!(kind, %namespace, %name, failures, "cannot write {name_of_plan}: {failure}");
        }
    }
}
