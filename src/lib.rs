//! A Kubernetes ingress controller that drives Envoy. Its xDS server is a library of its own, [`lockgate_xds`].
//!
#![doc = include_str!("../ARCHITECTURE.md")]

pub mod admin;
pub mod cmd;
pub mod controller;
pub mod drain;
pub mod export;
#[cfg(test)]
mod golden;
pub mod inspection;
pub mod leader;
pub mod metrics;
pub mod pki;
pub mod replicas;
pub mod settings;
pub mod source;
pub mod status;
pub mod telemetry;
#[cfg(test)]
mod tidy;
