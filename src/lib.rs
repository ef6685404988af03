//! Lockgate.

pub mod cmd;
pub mod envoy;
pub mod model;
pub mod protobuf;
pub mod provenance;
pub mod settings;
pub mod snapshot;
pub mod source;
pub mod translate;
pub mod xds;
