//! Gates on a real Envoy under load: a route never leads to a cluster that Envoy has not accepted.
//!
//! Clusters that warm slowly are behind a health check whose first answer takes seconds: Envoy holds its ACK until then.

mod histories;
mod kept;
mod rejected;
mod returning;
mod world;
