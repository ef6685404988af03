//! `lockgate explain` against a real Envoy: for generated objects and requests, the explanation is what Envoy does.

pub mod backend;
mod generated;
mod listeners;
mod output;
mod paths;
mod shares;
mod site;
