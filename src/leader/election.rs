//! Leader election as a state machine, without I/O. Time is an argument.
//!
//! The election trusts no wall clock. A replica records on its own monotonic clock when it first sees a version of the Lease,
//! and assumes that the Lease is valid from then on for its duration. The holder counts from the time before it sends a renewal,
//! and steps down after the shorter renew deadline. Two replicas never lead at the same time, unless the rates of their clocks
//! differ by the factor lease / renew deadline (1.5 by default). Source: the package leaderelection of Kubernetes' client-go,
//! which uses the same rules.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

/// The maximum number of writes in one round. The loser of a race may try once more.
const WRITES_A_ROUND: u32 = 2;

/// The durations of the election.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElectionTiming {
    /// The time after the last change of the Lease at which other replicas take it.
    pub lease: Duration,
    /// The time for which the holder leads after its last renewal. It is shorter than `lease`. In between, no replica leads.
    pub renew_deadline: Duration,
    /// The interval at which the holder renews the Lease and the others read it, slightly reduced at random.
    pub retry: Duration,
}

/// The next action.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Ask {
    /// Read the Lease. Then call [`Election::read`] or [`Election::failed`].
    Read,
    /// Replace the version of the last read by this spec, or create the Lease if it did not exist. Then call
    /// [`Election::wrote`], [`Election::conflicted`], or [`Election::failed`].
    Write(LeaseSpec),
    /// Wait for this long.
    Rest(Duration),
}

/// One replica's view of the election.
#[derive(Debug)]
pub(super) struct Election {
    identity: String,
    timing: ElectionTiming,
    /// The last known Lease, and the time since which it is unchanged.
    seen: Option<Seen>,
    /// Whether a write may be based on `seen`.
    current: bool,
    /// The time until which this replica leads without further events.
    until: Option<Instant>,
    /// The number of writes in this round. `None` between rounds.
    writes: Option<u32>,
}

#[derive(Debug, Clone)]
struct Seen {
    version: String,
    spec: LeaseSpec,
    since: Instant,
}

impl Election {
    /// Creates the state of a replica without any knowledge. Each living process must have a different `identity`.
    pub fn new(identity: String, timing: ElectionTiming) -> Self {
        debug_assert!(timing.renew_deadline < timing.lease && timing.retry < timing.renew_deadline);
        Self { identity, timing, seen: None, current: false, until: None, writes: None }
    }

    /// Returns the time until which this replica leads, or `None` if it does not lead at `now`.
    pub fn leads_until(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| now < *until)
    }

    /// Returns the last known holder of the Lease.
    pub fn holder(&self) -> Option<&str> {
        self.seen.as_ref().map(|seen| holder(&seen.spec)).filter(|holder| !holder.is_empty())
    }

    /// Returns the next action at `now`. `wall` is the written time, for other tools. `chance`, a random number from 0 to 1, spreads
    /// the requests of the replicas.
    pub fn ask(&mut self, now: Instant, wall: Timestamp, chance: f64) -> Ask {
        let leads = self.leads_until(now).is_some();
        // The holder overwrites its own last write. All other replicas read first.
        if self.writes.is_none() {
            self.writes = Some(0);
            self.current &= leads;
        }
        if !self.current {
            return Ask::Read;
        }
        match self.writes {
            Some(writes) if writes < WRITES_A_ROUND && self.may_claim(now) => {
                self.writes = Some(writes + 1);
                Ask::Write(self.claim(wall))
            }
            _ => Ask::Rest(self.rest(now, chance)),
        }
    }

    /// Records the version and the content of the Lease, or that it does not exist. `now` is the time of the response.
    pub fn read(&mut self, now: Instant, found: Option<(String, LeaseSpec)>) {
        self.current = true;
        // A deleted Lease still belongs to its holder, who creates it again.
        let Some((version, spec)) = found else {
            if let Some(seen) = &mut self.seen {
                seen.version = String::new();
            }
            return;
        };
        if holder(&spec) != self.identity {
            self.until = None;
        }
        if self.seen.as_ref().is_none_or(|seen| seen.version != version) {
            self.seen = Some(Seen { version, spec, since: now });
        }
    }

    /// Records the success of a write: the time at which it was `sent`, and the new version.
    pub fn wrote(&mut self, sent: Instant, version: String, spec: LeaseSpec) {
        self.until = Some(sent + self.timing.renew_deadline);
        self.seen = Some(Seen { version, spec, since: sent });
        self.current = true;
        self.writes = Some(WRITES_A_ROUND);
    }

    /// Records that a write failed because another replica wrote first. The Lease must be read again.
    pub fn conflicted(&mut self) {
        self.current = false;
        if self.writes.is_some_and(|writes| writes >= WRITES_A_ROUND) {
            self.failed();
        }
    }

    /// Records that a read or a write failed, or that its result is unknown. It ends the round.
    pub fn failed(&mut self) {
        self.writes = Some(WRITES_A_ROUND);
        // The holder need not read before the next write: if this write succeeded, the next write is a conflict.
        self.current = true;
    }

    /// Records that the pause after a round has ended.
    pub fn rested(&mut self) {
        self.writes = None;
    }

    /// Steps down. If this replica holds the Lease, returns the write that releases it.
    pub fn release(&mut self, wall: Timestamp) -> Option<LeaseSpec> {
        self.until = None;
        let spec = self.seen.as_ref().map(|seen| &seen.spec).filter(|spec| holder(spec) == self.identity)?;
        Some(LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            renew_time: Some(MicroTime(wall)),
            ..spec.clone()
        })
    }

    fn may_claim(&self, now: Instant) -> bool {
        self.seen.as_ref().is_none_or(|seen| {
            let holder = holder(&seen.spec);
            holder.is_empty() || holder == self.identity || self.expiry(seen) <= now
        })
    }

    /// Returns the time at which a Lease may be taken from its holder.
    fn expiry(&self, seen: &Seen) -> Instant {
        let told = seen.spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        seen.since + told.map_or(self.timing.lease, Duration::from_secs)
    }

    fn claim(&self, wall: Timestamp) -> LeaseSpec {
        let now = Some(MicroTime(wall));
        let before = self.seen.as_ref().map(|seen| &seen.spec);
        let renewal = before.is_some_and(|spec| holder(spec) == self.identity);
        let transitions = before.map(|spec| spec.lease_transitions.unwrap_or(0));
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(self.timing.lease.as_secs().max(1)).ok(),
            acquire_time: before.filter(|_| renewal).map_or(now.clone(), |spec| spec.acquire_time.clone()),
            renew_time: now,
            lease_transitions: transitions.map_or(Some(0), |n| Some(if renewal { n } else { n.saturating_add(1) })),
            ..before.cloned().unwrap_or_default()
        }
    }

    /// Returns the time until the next round, or until the term of the holder ends if that is earlier.
    fn rest(&self, now: Instant, chance: f64) -> Duration {
        let rest = self.timing.retry.mul_f64(0.6 + 0.3 * chance.clamp(0.0, 1.0));
        let event = match self.leads_until(now) {
            Some(until) => Some(until),
            None => self.seen.as_ref().filter(|seen| !holder(&seen.spec).is_empty()).map(|seen| self.expiry(seen)),
        };
        let event = event.map(|event| event.saturating_duration_since(now)).filter(|wait| !wait.is_zero());
        event.map_or(rest, |wait| rest.min(wait))
    }
}

fn holder(spec: &LeaseSpec) -> &str {
    spec.holder_identity.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests;
