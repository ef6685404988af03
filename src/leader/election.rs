//! Who leads, as a state machine: no I/O, and time comes as an argument.
//!
//! Nobody's wall clock is believed. A replica notes, on its own steady clock, when it first saw a version of the Lease,
//! and takes that Lease to be held for as long as it says, from then on. The holder counts from before it asked for its
//! last renewal, and gives up after the shorter renew deadline. So two replicas never lead at a time, as long as one
//! clock does not run more than lease / renew deadline (half as fast again, by default) faster than the other.
//! Source: the package leaderelection of Kubernetes' client-go, which judges in the same way.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

/// Writes in one round, before it is over: who loses a race may try once more, and not for ever.
const WRITES_A_ROUND: u32 = 2;

/// How long things take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How long others wait, after the last change of the Lease, before they take it.
    pub lease: Duration,
    /// How long the holder leads after its last renewal. Shorter than `lease`: in between, nobody leads.
    pub renew_deadline: Duration,
    /// How often the holder renews, and the others look; a little less, by chance.
    pub retry: Duration,
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Ask {
    /// Read the Lease; then [`Election::read`] or [`Election::failed`].
    Read,
    /// Write this, over the version that was read last, or create it if there was none; then [`Election::wrote`],
    /// [`Election::conflicted`] or [`Election::failed`].
    Write(LeaseSpec),
    /// Nothing, for this long.
    Rest(Duration),
}

/// One replica's view of the election.
#[derive(Debug)]
pub(super) struct Election {
    identity: String,
    timing: Timing,
    /// The Lease as it was seen last, and since when it has been like that.
    seen: Option<Seen>,
    /// Whether `seen` is still what a write may be based on.
    current: bool,
    /// Until when this replica leads, if nothing more happens.
    until: Option<Instant>,
    /// Writes in this round; `None` between two rounds.
    writes: Option<u32>,
}

#[derive(Debug, Clone)]
struct Seen {
    version: String,
    spec: LeaseSpec,
    since: Instant,
}

impl Election {
    /// A replica that knows nothing yet. `identity` must be no other living process's.
    pub fn new(identity: String, timing: Timing) -> Self {
        debug_assert!(timing.renew_deadline < timing.lease && timing.retry < timing.renew_deadline);
        Self { identity, timing, seen: None, current: false, until: None, writes: None }
    }

    /// Until when this replica leads; `None` if it does not at `now`.
    pub fn leads_until(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| now < *until)
    }

    /// Who holds the Lease, as far as is known.
    pub fn holder(&self) -> Option<&str> {
        self.seen.as_ref().map(|seen| holder(&seen.spec)).filter(|holder| !holder.is_empty())
    }

    /// What to do at `now`. `wall` is what other people's tools are told; `chance`, from 0 to 1, spreads replicas.
    pub fn ask(&mut self, now: Instant, wall: Timestamp, chance: f64) -> Ask {
        let leads = self.leads_until(now).is_some();
        // The holder writes over what it wrote last; whoever else wants to write reads first.
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

    /// The Lease was read: its version and content, or that there is none. `now` is when the answer was there.
    pub fn read(&mut self, now: Instant, found: Option<(String, LeaseSpec)>) {
        self.current = true;
        // A Lease that somebody deleted is still held by whoever held it: it will be made again by its holder.
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

    /// A write that was sent at `sent` succeeded, and made this version.
    pub fn wrote(&mut self, sent: Instant, version: String, spec: LeaseSpec) {
        self.until = Some(sent + self.timing.renew_deadline);
        self.seen = Some(Seen { version, spec, since: sent });
        self.current = true;
        self.writes = Some(WRITES_A_ROUND);
    }

    /// A write was refused, for somebody else wrote first. It has to be read who.
    pub fn conflicted(&mut self) {
        self.current = false;
        if self.writes.is_some_and(|writes| writes >= WRITES_A_ROUND) {
            self.failed();
        }
    }

    /// A read or a write failed, or nobody knows whether it did. The round is over.
    pub fn failed(&mut self) {
        self.writes = Some(WRITES_A_ROUND);
        // The holder need not read before the next write: if this one was done after all, the next is a conflict.
        self.current = true;
    }

    /// The round is over, and so is the rest after it.
    pub fn rested(&mut self) {
        self.writes = None;
    }

    /// Steps down; what to write so that others need not wait, if this replica holds the Lease.
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

    /// When a Lease may be taken from its holder.
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

    /// How long to rest: until the next round, or until something happens by itself before that.
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
