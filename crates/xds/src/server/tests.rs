//! Protocol cases. A test bears the id of the case that it shows: A, all streams; S, state of the world; D, delta;
//! O, order over an aggregated stream; P, gRPC without a proxy; R, REST. All but [`grpc`], [`fetch`] and [`rest`] drive [`super::Stream`] without a socket and with a clock of
//! their own.
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
