//! Protocol cases over sockets: gRPC, fetch, REST (R), and the progress of the open streams. The other cases are tests of
//! [`protocol`](crate::protocol).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod acceptance;
mod fetch;
mod fuzz;
mod grpc;
mod locators;
mod rest;
mod versions;
mod virtual_hosts;
