//! What clients may take up, and how long a connection lives.

use std::time::Duration;

/// What one client, or all of them together, may take up. What is beyond it is refused with a reason, and costs those
/// nothing who are within.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time. No address gets more than half of them, so that one client cannot shut out the others.
    pub connections: usize,
    /// Streams and other requests at a time, over all connections. What is more is answered with `ResourceExhausted`.
    pub streams: usize,
    /// Streams and other requests at a time on one connection, told to the client as `MAX_CONCURRENT_STREAMS`: Envoy
    /// opens another connection, others wait until one of theirs ends.
    pub streams_per_connection: u32,
    /// A connection this old is closed in an orderly manner, give or take a tenth by chance, so that clients that came
    /// together do not leave together; `None` is never. Its streams end, and the clients open new ones, on any replica.
    pub connection_age: Option<Duration>,
    /// Connections at a time whose client is not known yet: TLS handshakes, and those who say nothing. One address gets
    /// half of them. A new connection evicts the oldest, so they lock out nobody.
    pub arriving: usize,
    /// How long a client may take to be known.
    pub admission: Duration,
    /// From telling a client to go away to closing its connection.
    pub grace: Duration,
    /// A connection on which no request has come for this long since it was made is closed.
    pub first_request: Duration,
    /// A connection without any request under way for this long is closed in an orderly manner.
    pub idle: Duration,
    /// How often a silent client is asked whether it is still there.
    pub keepalive: Duration,
    /// How long it may take to say so, or its connection is closed.
    pub keepalive_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            streams: 100_000,
            streams_per_connection: 1_000,
            connection_age: Some(Duration::from_secs(30 * 60)),
            arriving: 1024,
            admission: Duration::from_secs(5),
            grace: Duration::from_secs(10),
            first_request: Duration::from_secs(5),
            idle: Duration::from_secs(300),
            keepalive: Duration::from_secs(30),
            keepalive_timeout: Duration::from_secs(20),
        }
    }
}

impl Limits {
    /// The most connections of one address.
    pub(super) fn of_one_address(&self) -> usize {
        self.connections.div_ceil(2)
    }

    /// The age of one connection; `chance` is any number.
    pub(super) fn age(&self, chance: u64) -> Option<Duration> {
        let part = chance as f64 / u64::MAX as f64;
        self.connection_age.map(|age| age.mul_f64(0.9 + 0.2 * part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_came_together_leave_one_by_one() {
        let limits = Limits { connection_age: Some(Duration::from_secs(100)), ..Limits::default() };
        assert_eq!(limits.age(0), Some(Duration::from_secs(90)));
        assert_eq!(limits.age(u64::MAX), Some(Duration::from_secs(110)));
        assert_eq!(limits.age(u64::MAX / 2).map(|age| age.as_secs()), Some(100));
        assert_eq!(Limits { connection_age: None, ..limits }.age(7), None);
    }
}
