//! Whether Envoys may be served, and if not, what is missing.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// What is missing until this process may be sent Envoys. A clone is the same readiness.
#[derive(Debug, Clone)]
pub struct Readiness(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// The kinds whose first list is not in.
    unlisted: BTreeSet<&'static str>,
    /// What else is not there yet.
    needed: BTreeSet<&'static str>,
    listening: bool,
    stopping: bool,
}

impl Readiness {
    /// Not ready until the first list of each of `kinds` is in, xDS listens, and something is published.
    pub fn awaiting(kinds: impl IntoIterator<Item = &'static str>) -> Self {
        let unlisted = kinds.into_iter().collect();
        Self(Arc::new(Mutex::new(State { unlisted, needed: BTreeSet::new(), listening: false, stopping: false })))
    }

    /// The first list of `kind` is in.
    pub fn listed(&self, kind: &str) {
        self.change(|state| state.unlisted.retain(|unlisted| *unlisted != kind));
    }

    /// Not ready without `thing` either.
    pub fn need(&self, thing: &'static str) {
        self.change(|state| {
            state.needed.insert(thing);
        });
    }

    /// `thing` is there.
    pub fn has(&self, thing: &'static str) {
        self.change(|state| {
            state.needed.remove(thing);
        });
    }

    /// xDS listens.
    pub fn listening(&self) {
        self.change(|state| state.listening = true);
    }

    /// The process is about to end: no longer ready.
    pub fn stopping(&self) {
        self.change(|state| state.stopping = true);
    }

    /// What is missing, in words, given whether there is a snapshot; `None` when all is there.
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
