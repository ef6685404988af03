//! Limits of the regular expressions that Ingresses have as paths.

/// What matching the regular expressions of one host may cost. A request is compared with those of its own host alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Regexes {
    /// Instructions of the compiled program of one path.
    pub max_size: u32,
    /// The same of all paths of a host together.
    pub max_size_per_host: u32,
    /// Steps of building the automaton of one path.
    pub max_steps: u32,
    /// The same of all paths of a host together.
    pub max_steps_per_host: u32,
    /// Paths of a host that are regular expressions.
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
