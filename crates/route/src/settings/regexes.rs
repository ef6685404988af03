//! Limits of regular expressions in the paths of Ingresses and in the matches of routes of Gateway API.

/// The maximum cost of the regular expressions of one host. A request is compared only with the expressions of its
/// host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Regexes {
    /// The maximum number of instructions of the compiled program of one path.
    pub max_size: u32,
    /// The maximum number of instructions of all paths of a host together.
    pub max_size_per_host: u32,
    /// The maximum number of steps of building the automaton of one path.
    pub max_steps: u32,
    /// The maximum number of steps of all paths of a host together.
    pub max_steps_per_host: u32,
    /// The maximum number of regular expressions in the paths of a host.
    pub max_per_host: u32,
}

impl Default for Regexes {
    fn default() -> Self {
        Self {
            max_size: 500,
            max_size_per_host: 2_500,
            max_steps: 20_000,
            max_steps_per_host: 100_000,
            max_per_host: 32,
        }
    }
}
