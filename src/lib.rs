//! Lockgate.

pub mod admin;
pub mod cmd;
pub mod envoy;
pub mod metrics;
pub mod model;
pub mod protobuf;
pub mod provenance;
pub mod settings;
pub mod snapshot;
pub mod source;
pub mod telemetry;
pub mod translate;
pub mod xds;
