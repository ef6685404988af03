//! Protocol cases. The name of a test contains the ID of its case: A, all streams; S, state of the world; D, delta; O,
//! order over an aggregated stream; P, gRPC without a proxy. The tests run [`super::Stream`] without a socket and with a
//! simulated clock.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod all_streams;
mod bad_input;
mod client;
mod delta;
mod envoy;
pub(crate) mod harness;
mod isolation;
mod leases;
mod order;
mod pace;
mod proxyless;
mod random;
mod rejection;
mod sotw;
