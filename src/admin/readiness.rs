//! Readiness: whether Envoys may be served, and the missing conditions.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The conditions that are missing before Envoys may connect to this process. Clones share the state.
#[derive(Debug, Clone)]
pub struct Readiness(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// The kinds without a complete initial list.
    unlisted: BTreeSet<&'static str>,
    /// The other missing conditions.
    needed: BTreeSet<&'static str>,
    listening: bool,
    stopping: bool,
}

impl Readiness {
    /// Creates a state that is not ready until each of `kinds` is listed, xDS listens, and a snapshot is published.
    pub fn awaiting(kinds: impl IntoIterator<Item = &'static str>) -> Self {
        let unlisted = kinds.into_iter().collect();
        Self(Arc::new(Mutex::new(State { unlisted, needed: BTreeSet::new(), listening: false, stopping: false })))
    }

    /// Records that the initial list of `kind` is complete.
    pub fn listed(&self, kind: &str) {
        self.change(|state| state.unlisted.retain(|unlisted| *unlisted != kind));
    }

    /// Adds the condition `thing`.
    pub fn need(&self, thing: &'static str) {
        self.change(|state| {
            state.needed.insert(thing);
        });
    }

    /// Records that the condition `thing` is met.
    pub fn has(&self, thing: &'static str) {
        self.change(|state| {
            state.needed.remove(thing);
        });
    }

    /// Records that xDS listens.
    pub fn listening(&self) {
        self.change(|state| state.listening = true);
    }

    /// Records that the process is about to end, so that it is no longer ready.
    pub fn stopping(&self) {
        self.change(|state| state.stopping = true);
    }

    /// Describes the missing conditions. `published` states whether there is a snapshot. Returns `None` if no condition
    /// is missing.
    pub fn missing(&self, published: bool) -> Option<String> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut missing = vec![];
        if state.stopping {
            missing.push("stopping".to_owned());
        }
        if !state.unlisted.is_empty() {
            let kinds: Vec<_> = state.unlisted.iter().copied().collect();
            missing.push(format!("the first list is missing of {}", kinds.join(", ")));
        } else if !published {
            missing.push("nothing is published yet".to_owned());
        }
        missing.extend(state.needed.iter().map(|thing| format!("{thing} is missing")));
        if !state.listening {
            missing.push("xDS does not listen yet".to_owned());
        }
        (!missing.is_empty()).then(|| missing.join("; "))
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
