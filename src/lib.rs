//! A Kubernetes ingress controller that drives Envoy. Its xDS server is a library of its own, [`lockgate_xds`].
//!
#![doc = include_str!("../ARCHITECTURE.md")]

mod admin;
mod channel;
mod check;
pub mod cmd;
mod controller;
#[cfg(test)]
mod crds;
mod drain;
mod explain;
mod export;
mod fleet;
#[cfg(test)]
mod golden;
mod inspection;
mod leader;
mod metrics;
mod migrate;
mod pki;
mod replicas;
pub mod settings;
pub mod source;
mod status;
mod telemetry;
#[cfg(test)]
mod tidy;
mod yaml;
