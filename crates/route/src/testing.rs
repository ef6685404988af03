//! Builders of objects and models, and validation by a real Envoy, for tests of this crate and of its users.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

pub mod backend_policies;
pub mod envoy;
pub mod foreign_policies;
pub mod gateway;
pub mod host_grants;
pub mod http_proxies;
pub mod model;
pub mod objects;
pub mod shared_host;
