//! Pacing of expensive resources: the pause between two versions is a multiple of the cost of the previous version.
//!
//! A route configuration of 10,000 hosts takes Envoy 80 ms, regardless of the size of the change, and a large listener
//! takes longer. The cost of a response is the time from sending it to its answer, because the client answers when it has
//! applied the response. The first change is sent at once, and the newest version after the pause. Other resources do not
//! wait. First responses, and those that are in flight together with others, do not count as measurements, because a
//! starting client is busy.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::push::Push;
use crate::snapshot::{Resource, ResourceType};

/// The inverse of the maximum share of a client's time that one resource may use.
const SHARE: u32 = 5;
/// The maximum pause.
const LONGEST: Duration = Duration::from_secs(5);
/// The types whose resources or full state can be large, and that no other resource waits for.
const KINDS: [ResourceType; 3] = [ResourceType::LISTENER, ResourceType::ROUTES, ResourceType::SCOPED_ROUTES];

/// The paced part of a response: a name, or `None` for a type whose responses are full states.
pub(super) type Paced = Option<Arc<str>>;

/// The time at which each large resource of one type may be sent again.
#[derive(Debug, Default)]
pub(super) struct Pace(BTreeMap<Paced, Instant>);

impl Pace {
    /// Returns the paced parts of a changed response of type `kind` with `resources`. A part is paced if it has more than
    /// `large` bytes. With `full`, the response is the full state.
    pub fn paced_parts(
        kind: ResourceType,
        push: &Push,
        resources: &[Arc<Resource>],
        full: bool,
        large: usize,
    ) -> Vec<Paced> {
        let is_large = |resources: &[Arc<Resource>]| resources.iter().map(|one| one.size()).sum::<usize>() > large;
        if !KINDS.contains(&kind) {
            return Vec::new();
        }
        if full {
            return if is_large(resources) { vec![None] } else { Vec::new() };
        }
        let large = push.set.iter().filter(|one| is_large(std::slice::from_ref(one)));
        large.filter(|one| !push.asked.contains(one.name())).map(|one| Some(one.name().clone())).collect()
    }

    /// Starts the pause of the `paced` parts of a response that was sent at `sent` and is now answered.
    pub fn answered(&mut self, paced: &[Paced], sent: Instant, now: Instant) {
        let pause = (now.saturating_duration_since(sent) * SHARE).min(LONGEST);
        self.0.extend(paced.iter().map(|paced| (paced.clone(), sent + pause)));
    }

    /// Returns whether `name` has to wait.
    pub fn delays(&self, name: &Arc<str>, now: Instant) -> bool {
        let until = |paced: &Paced| self.0.get(paced).is_some_and(|until| *until > now);
        !self.0.is_empty() && (until(&None) || until(&Some(name.clone())))
    }

    /// Returns the end of the first pause of a dirty part.
    pub fn due(&self, dirty: impl Fn(&Paced) -> bool) -> Option<Instant> {
        self.0.iter().filter(|(paced, _)| dirty(paced)).map(|(_, until)| *until).min()
    }

    /// Removes the pauses that are over.
    pub fn on_time(&mut self, now: Instant) {
        self.0.retain(|_, until| *until > now);
    }
}
