//! The size of the automaton (DFA) that RE2 builds for a pattern during matching.
//!
//! RE2 reads a path with one lookup per byte as long as the automaton fits into its memory. A state of the automaton is
//! a set of places in the pattern, so the number of states may be exponential: `.*a.{30}` has a billion. RE2 then
//! builds new states for each request, and finally falls back to an algorithm that is a hundred times slower. Only
//! patterns with a small automaton are therefore accepted.

use std::collections::HashSet;

use regex_automata::nfa::thompson::{Config, NFA, State};
use regex_automata::util::primitives::StateID;
use regex_automata::util::syntax;

/// The cost of a new state in addition to its transitions: memory, and an entry in RE2's table of states.
const NEW_STATE: u32 = 16;

/// The memory limit for the places of one pattern, in bytes. The limit of the compiled size applies first.
const MAX_PLACES: usize = 1 << 20;

/// Returns the steps of building the complete automaton: the visited places for each transition of each state. The
/// error states that they exceed `limit`.
pub fn steps(pattern: &str, limit: u32) -> Result<u32, String> {
    explored(pattern, limit).map(|explored| explored.steps)
}

/// The size of an automaton.
#[derive(Debug, Clone, Copy)]
pub struct Explored {
    /// The steps of building it.
    pub steps: u32,
    /// The largest number of places that a transition visits.
    pub width: u32,
}

/// Explores the automaton of a pattern. The error states that it takes more steps than `limit`.
pub fn explored(pattern: &str, limit: u32) -> Result<Explored, String> {
    let bytes = syntax::Config::new().unicode(false).utf8(false);
    let config = Config::new().utf8(false).nfa_size_limit(Some(MAX_PLACES));
    let nfa = NFA::compiler().syntax(bytes).configure(config).build(pattern).map_err(|error| error.to_string())?;
    let too_many = || format!("its automaton takes more than {limit} steps to build: it has too many states");
    Automaton::new(&nfa, limit).explore().ok_or_else(too_many)
}

/// A set of places that consume a byte or end the match, sorted.
type Places = Box<[StateID]>;

struct Automaton<'a> {
    nfa: &'a NFA,
    /// The states that have been found.
    known: HashSet<Places>,
    /// The known states whose transitions have not been followed.
    open: Vec<Places>,
    /// For each place, the number of the last transition that visited it.
    visited: Vec<u32>,
    transition: u32,
    spent: u32,
    widest: u32,
    limit: u32,
}

impl<'a> Automaton<'a> {
    fn new(nfa: &'a NFA, limit: u32) -> Self {
        let visited = vec![0; nfa.states().len()];
        Self { nfa, known: HashSet::new(), open: Vec::new(), visited, transition: 0, spent: 0, widest: 0, limit }
    }

    /// Follows all transitions of all states. Returns the size, or `None` if the steps exceed the limit.
    fn explore(mut self) -> Option<Explored> {
        self.enter(&[self.nfa.start_anchored()])?;
        while let Some(state) = self.open.pop() {
            for byte in self.bytes_of(&state) {
                let targets: Vec<StateID> = state.iter().filter_map(|place| self.after(*place, byte)).collect();
                self.spend(state.iter().map(|place| self.instructions(*place)).sum())?;
                if !targets.is_empty() {
                    self.enter(&targets)?;
                }
            }
        }
        Some(Explored { steps: self.spent, width: self.widest })
    }

    /// Returns one byte for each range of bytes that `state` does not distinguish.
    fn bytes_of(&self, state: &[StateID]) -> Vec<u8> {
        let mut starts = Vec::new();
        let mut range = |start: u8, end: u8| starts.extend([Some(start), end.checked_add(1)].into_iter().flatten());
        for place in state {
            match self.nfa.state(*place) {
                State::ByteRange { trans } => range(trans.start, trans.end),
                State::Sparse(sparse) => sparse.transitions.iter().for_each(|trans| range(trans.start, trans.end)),
                State::Dense(_) => (0..=u8::MAX).for_each(|byte| range(byte, byte)),
                _ => {}
            }
        }
        starts.sort_unstable();
        starts.dedup();
        starts
    }

    /// Returns the place after `place` and `byte`.
    fn after(&self, place: StateID, byte: u8) -> Option<StateID> {
        match self.nfa.state(place) {
            State::ByteRange { trans } => trans.matches_byte(byte).then_some(trans.next),
            State::Sparse(sparse) => sparse.matches_byte(byte),
            State::Dense(dense) => dense.matches_byte(byte),
            _ => None,
        }
    }

    /// Returns the number of RE2's instructions for a place.
    fn instructions(&self, place: StateID) -> usize {
        match self.nfa.state(place) {
            State::Sparse(sparse) => sparse.transitions.len(),
            _ => 1,
        }
    }

    /// Records the state of the places that are reachable from `targets` without a byte.
    fn enter(&mut self, targets: &[StateID]) -> Option<()> {
        self.transition += 1;
        let mut stack = targets.to_vec();
        let mut places = Vec::new();
        let mut width = 0;
        while let Some(place) = stack.pop() {
            if std::mem::replace(&mut self.visited[place.as_usize()], self.transition) == self.transition {
                continue;
            }
            self.spend(1)?;
            width += self.instructions(place);
            match self.nfa.state(place) {
                State::ByteRange { .. } | State::Sparse(_) | State::Dense(_) | State::Match { .. } => {
                    places.push(place)
                }
                // An assertion is treated as always true: RE2 visits the place behind the assertion, and may add the
                // place to the state.
                State::Look { next, .. } | State::Capture { next, .. } => stack.push(*next),
                State::Union { alternates } => stack.extend_from_slice(alternates),
                State::BinaryUnion { alt1, alt2 } => stack.extend([*alt1, *alt2]),
                State::Fail => {}
            }
        }
        self.widest = self.widest.max(u32::try_from(width).unwrap_or(u32::MAX));
        places.sort_unstable();
        let places: Places = places.into();
        if self.known.insert(places.clone()) {
            self.spend(NEW_STATE as usize)?;
            self.open.push(places);
        }
        Some(())
    }

    fn spend(&mut self, steps: usize) -> Option<()> {
        self.spent = self.spent.saturating_add(u32::try_from(steps).unwrap_or(u32::MAX));
        (self.spent <= self.limit).then_some(())
    }
}
