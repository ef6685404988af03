//! A Kubernetes ingress controller that drives Envoy, and the xDS server in it as a library: [`snapshot`] holds what is to
//! be served, [`xds`] serves it; both have examples, and know nothing of Kubernetes. The other modules are the program, and
//! change with it.
//!
#![doc = include_str!("ARCHITECTURE.md")]

pub mod admin;
pub mod cmd;
pub mod controller;
pub mod drain;
pub mod envoy;
pub mod export;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod golden;
pub mod identity;
pub mod inspection;
pub mod leader;
pub mod listening;
pub mod metrics;
pub mod model;
mod parallel;
pub mod pki;
pub mod protobuf;
pub mod provenance;
mod re2;
pub mod replicas;
pub mod settings;
pub mod snapshot;
pub mod source;
pub mod status;
pub mod telemetry;
#[cfg(test)]
mod tidy;
mod tls;
pub mod translate;
pub mod xds;
