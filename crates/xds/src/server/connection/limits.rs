//! Limits for clients, and the age of connections.

use std::time::Duration;

/// The limits for one client, or for all clients together. Requests beyond a limit are refused with a reason, and do not
/// affect other clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of connections. One address can use at most half of them, so it cannot lock out the others.
    pub connections: usize,
    /// The maximum number of streams and other requests on all connections. Others are answered with `ResourceExhausted`.
    pub streams: usize,
    /// The maximum number of streams and other requests on one connection, sent to the client as `MAX_CONCURRENT_STREAMS`.
    /// Envoy then opens another connection; other clients wait for the end of a stream.
    pub streams_per_connection: u32,
    /// The age at which a connection is closed gracefully, or `None` for no limit. A random tenth is added or subtracted, so
    /// that simultaneous clients do not reconnect simultaneously. The client opens new streams, on any replica.
    pub connection_age: Option<Duration>,
    /// The maximum number of connections with unidentified clients: TLS handshakes, and silent clients. One address can
    /// use half of them. A new connection evicts the oldest, so no client is locked out.
    pub arriving: usize,
    /// The time in which a client must identify itself.
    pub admission: Duration,
    /// The time from GOAWAY to closing the connection.
    pub grace: Duration,
    /// The time after which a new connection without a request is closed.
    pub first_request: Duration,
    /// The time after which a connection without open requests is closed gracefully.
    pub idle: Duration,
    /// The interval of keepalive pings to a silent client.
    pub keepalive: Duration,
    /// The time limit for the answer to a ping, after which the connection is closed.
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
    /// Returns the maximum number of connections of one address.
    pub(super) fn max_per_address(&self) -> usize {
        self.connections.div_ceil(2)
    }

    /// Returns the maximum age of one connection. `chance` is a random number.
    pub(super) fn age(&self, chance: u64) -> Option<Duration> {
        let part = chance as f64 / u64::MAX as f64;
        self.connection_age.map(|age| age.mul_f64(0.9 + 0.2 * part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simultaneous_connections_close_at_different_times() {
        let limits = Limits { connection_age: Some(Duration::from_secs(100)), ..Limits::default() };
        assert_eq!(limits.age(0), Some(Duration::from_secs(90)));
        assert_eq!(limits.age(u64::MAX), Some(Duration::from_secs(110)));
        assert_eq!(limits.age(u64::MAX / 2).map(|age| age.as_secs()), Some(100));
        assert_eq!(Limits { connection_age: None, ..limits }.age(7), None);
    }
}
