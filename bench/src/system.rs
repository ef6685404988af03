//! Benchmarks of the whole system: the controller on a real API server, beside Contour on the same one, with the same
//! client.
//!
//! [`cluster`] has the API server and its objects, [`controller`] the processes under test, [`clients`] the clients, which
//! ask as Envoy does. What is measured is in [`cases`], how it is told in [`page`] and [`plot`].

pub mod bits;
pub mod cases;
pub mod client;
pub mod clients;
pub mod cluster;
pub mod controller;
pub mod guard;
pub mod lab;
pub mod names;
pub mod nginx;
pub mod objects;
pub mod page;
pub mod plot;
pub mod sight;
pub mod yardstick;
