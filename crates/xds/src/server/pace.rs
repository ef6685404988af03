//! How often a client is sent what costs it much: not before a multiple of what the last one cost.
//!
//! A route configuration of 10,000 hosts keeps Envoy busy for 80 ms, however little of it has changed, and a large
//! listener longer. What a response costs its client is the time from sending it to its answer, which comes when the
//! client has worked it in. The first change goes at once, then the newest when its time has come; other resources do
//! not wait for it. First answers, and what is sent beside them, are no measure: a client that starts has much to do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::push::Push;
use crate::snapshot::{Resource, ResourceType};

/// Of a client's time, a resource takes at most this part.
const SHARE: u32 = 5;
/// Nothing is put off for longer.
const LONGEST: Duration = Duration::from_secs(5);
/// Types of which a single resource, or the full state, may be as large as what there is, and that nothing waits for.
const KINDS: [ResourceType; 3] = [ResourceType::LISTENER, ResourceType::ROUTES, ResourceType::SCOPED_ROUTES];

/// What of a response is paced: a name, or `None` for all of the type, of which each response is the full state.
pub(super) type Paced = Option<Arc<str>>;

/// When what is large of one type may be sent again.
#[derive(Debug, Default)]
pub(super) struct Pace(BTreeMap<Paced, Instant>);

impl Pace {
    /// What is to be paced of a response of type `kind` that is a change: it has `resources`, of which more than `large`
    /// bytes are large. `full`: they are all that the client is to have.
    pub fn of(kind: ResourceType, push: &Push, resources: &[Arc<Resource>], full: bool, large: usize) -> Vec<Paced> {
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

    /// The client has answered what it was sent at `sent`, of which `paced` was large.
    pub fn answered(&mut self, paced: &[Paced], sent: Instant, now: Instant) {
        let pause = (now.saturating_duration_since(sent) * SHARE).min(LONGEST);
        self.0.extend(paced.iter().map(|paced| (paced.clone(), sent + pause)));
    }

    /// Whether `name` has to wait.
    pub fn holds(&self, name: &Arc<str>, now: Instant) -> bool {
        let until = |paced: &Paced| self.0.get(paced).is_some_and(|until| *until > now);
        !self.0.is_empty() && (until(&None) || until(&Some(name.clone())))
    }

    /// When something of `dirty` may be sent that had to wait.
    pub fn due(&self, dirty: impl Fn(&Paced) -> bool) -> Option<Instant> {
        self.0.iter().filter(|(paced, _)| dirty(paced)).map(|(_, until)| *until).min()
    }

    /// Forgets what need wait no longer.
    pub fn on_time(&mut self, now: Instant) {
        self.0.retain(|_, until| *until > now);
    }
}
