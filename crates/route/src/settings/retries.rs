//! Retries of requests to backends.

use std::time::Duration;

/// The retry policy, unless the Ingress sets one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retries {
    /// Envoy's retry conditions. An empty list disables retries.
    pub conditions: Vec<String>,
    /// The maximum number of retries after the first attempt.
    pub count: u32,
    /// The timeout of each attempt. `None` sets no limit.
    pub per_try_timeout: Option<Duration>,
}

impl Default for Retries {
    fn default() -> Self {
        Self { conditions: Vec::new(), count: 1, per_try_timeout: None }
    }
}

/// Envoy's retry conditions, of HTTP and gRPC. Source: Envoy router filter, `x-envoy-retry-on`, `x-envoy-retry-grpc-on`.
pub const RETRY_CONDITIONS: [&str; 16] = [
    "5xx",
    "cancelled",
    "connect-failure",
    "deadline-exceeded",
    "envoy-ratelimited",
    "gateway-error",
    "http3-post-connect-failure",
    "internal",
    "refused-stream",
    "reset",
    "reset-before-request",
    "resource-exhausted",
    "retriable-4xx",
    "retriable-headers",
    "retriable-status-codes",
    "unavailable",
];
