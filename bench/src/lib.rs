//! Benchmarks: of the whole system beside Contour ([`system`]), and of the xDS server alone beside go-control-plane, by one
//! client that knows neither. This page is about the latter.
//!
//! `bench-xds` is client and conductor in one process; a server runs in a process of its own and is driven through a
//! small control connection (see [`control`]): `lockgate-xds-bench-server` around the library, and
//! `go-control-plane/` around the other one. What is measured is in [`cases`], how it is told in [`report`].

pub mod cases;
pub mod control;
pub mod fleet;
pub mod http2;
pub mod machine;
pub mod news;
pub mod peer;
pub mod report;
pub mod resources;
pub mod stats;
pub mod stream;
pub mod system;
pub mod wire;
