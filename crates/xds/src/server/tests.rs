//! Protocol cases. The name of a test contains the ID of its case: A, all streams; S, state of the world; D, delta; O,
//! order over an aggregated stream; P, gRPC without a proxy; R, REST. Most tests run [`super::Stream`] without a socket
//! and with a simulated clock. The exceptions are [`grpc`], [`fetch`], and [`rest`].
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod acceptance;
mod all_streams;
mod bad_input;
mod client;
mod delta;
mod envoy;
mod fetch;
mod fuzz;
mod grpc;
mod harness;
mod isolation;
mod leases;
mod locators;
mod order;
mod pace;
mod proxyless;
mod random;
mod rejection;
mod rest;
mod sotw;
mod versions;
mod virtual_hosts;
