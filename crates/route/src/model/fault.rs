//! Faults that are injected into the requests of a route.

use std::time::Duration;

use super::Share;

/// The faults, each of a share of the requests. A request that has both is delayed first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// The time by which requests are delayed.
    pub delay: Option<(Duration, Share)>,
    /// The status with which requests are answered instead of being forwarded.
    pub abort: Option<(u16, Share)>,
}
