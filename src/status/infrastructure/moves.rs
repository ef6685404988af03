//! The moves of Gateways from the shared Envoys to dedicated fleets, without an interruption. No I/O; time comes as an argument.
//!
//! The Service of the Gateway leads to the shared Envoys until an Envoy of the fleet is ready, and all of them have accepted the
//! Gateway. Then the EndpointSlices change. When the nodes and load balancers use them, the Service gets labels, and the shared
//! Envoys remove the listeners. They keep the clusters and certificates of open connections until these connections have ended.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lockgate_route::objects::{Kind, ObjectKey};
use tokio::time::Instant;

use super::plan::Needs;
use crate::inspection::{Inspection, Published};
use crate::status::waiting::Waiting;

/// The time in which nodes and load balancers apply changed endpoints.
const GRACE: Duration = Duration::from_secs(10);
/// The time in which Envoy ends the connections of a removed listener. Source: Envoy, `--drain-time-s`, 600 by default.
const DRAIN: Duration = Duration::from_secs(610);

/// The moves that are in progress.
#[derive(Debug, Default)]
pub struct Moves {
    /// The publication of each Gateway that the Envoys of its fleet have accepted.
    accepted: BTreeMap<ObjectKey, Published>,
    /// The time since which the Service of each Gateway leads to its fleet.
    since: BTreeMap<ObjectKey, Instant>,
    /// The time since which the shared Envoys drain the connections of each Gateway.
    draining: BTreeMap<ObjectKey, Instant>,
}

impl Moves {
    /// Records a publication that the Envoys of a fleet have accepted.
    pub fn accept(&mut self, gateway: ObjectKey, published: Published) {
        self.accepted.insert(gateway, published);
    }

    /// Updates the moves from a plan.
    pub fn update(&mut self, plan: &Needs, inspection: &Inspection, now: Instant) {
        self.accepted.retain(|key, published| inspection.published(Kind::GATEWAY, key) == Some(published));
        for (since, keys) in [(&mut self.since, &plan.led), (&mut self.draining, &plan.draining)] {
            since.retain(|key, _| keys.contains(key));
            for key in keys {
                since.entry(key.clone()).or_insert(now);
            }
        }
    }

    /// Returns the Gateways whose current publication the Envoys of their fleets have accepted.
    pub fn accepted(&self, inspection: &Inspection) -> BTreeSet<ObjectKey> {
        let is_current =
            |(key, published): &(&ObjectKey, &Published)| inspection.published(Kind::GATEWAY, key) == Some(*published);
        self.accepted.iter().filter(is_current).map(|(key, _)| key.clone()).collect()
    }

    /// Returns the Gateways whose listeners the shared Envoys can remove.
    pub fn released(&self, now: Instant) -> BTreeSet<ObjectKey> {
        elapsed(&self.since, GRACE, now)
    }

    /// Returns the Gateways whose open connections on the shared Envoys have ended.
    pub fn drained(&self, now: Instant) -> BTreeSet<ObjectKey> {
        elapsed(&self.draining, DRAIN, now)
    }

    /// Returns the time of the next step of a move.
    pub fn next(&self, now: Instant) -> Option<Instant> {
        let since = self.since.values().map(|since| *since + GRACE);
        since.chain(self.draining.values().map(|since| *since + DRAIN)).filter(|at| *at > now).min()
    }

    /// Returns the Gateways that wait for the Envoys of their fleets.
    pub fn waiting(&self, plan: &Needs, inspection: &Inspection) -> Waiting {
        let mut waiting = Waiting::default();
        for key in plan.moving.iter().filter(|key| !self.accepted.contains_key(*key)) {
            waiting.set(key, inspection.published(Kind::GATEWAY, key).cloned());
        }
        waiting
    }
}

/// Returns the Gateways whose time has passed.
fn elapsed(since: &BTreeMap<ObjectKey, Instant>, time: Duration, now: Instant) -> BTreeSet<ObjectKey> {
    since.iter().filter(|(_, since)| **since + time <= now).map(|(key, _)| key.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_leaves_the_shared_envoys_some_time_after_its_service_leads_to_the_fleet() {
        let key = ObjectKey::new("shop", "public");
        let published = |since| Published::example(1, since);
        let mut inspection = Inspection::default();
        inspection.sources.insert(Kind::GATEWAY.id(key.clone()), published(1));
        let (mut moves, now) = (Moves::default(), Instant::now());
        let moving = Needs { moving: [key.clone()].into(), ..Needs::default() };
        moves.update(&moving, &inspection, now);
        assert_eq!(moves.waiting(&moving, &inspection).len(), 1);
        moves.accept(key.clone(), published(1));
        assert!(moves.waiting(&moving, &inspection).is_empty() && moves.accepted(&inspection).contains(&key));
        assert_eq!(moves.next(now), None, "its Service does not lead to the fleet yet");

        let led = Needs { led: [key.clone()].into(), ..Needs::default() };
        moves.update(&led, &inspection, now);
        moves.update(&led, &inspection, now + GRACE / 2);
        assert_eq!((moves.next(now), moves.released(now + GRACE / 2).len()), (Some(now + GRACE), 0));
        assert!(moves.released(now + GRACE).contains(&key));

        let draining = Needs { draining: [key.clone()].into(), ..Needs::default() };
        moves.update(&draining, &inspection, now);
        assert_eq!((moves.released(now + DRAIN).len(), moves.drained(now + DRAIN / 2).len()), (0, 0));
        assert_eq!((moves.next(now), moves.drained(now + DRAIN).len()), (Some(now + DRAIN), 1));

        // The Gateway changes, so its Envoys must accept it again. Then it leaves the fleet.
        inspection.sources.insert(Kind::GATEWAY.id(key.clone()), published(2));
        assert!(moves.accepted(&inspection).is_empty());
        moves.update(&Needs::default(), &inspection, now + GRACE);
        assert_eq!(moves.released(now + GRACE).len(), 0);
    }
}
