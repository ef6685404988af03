//! Kubernetes objects to Envoy resources, as a pure function: no I/O, no clock, no randomness.
//!
//! [`objects`] hold what the translation reads of each object, [`translate`] makes the [`model`] of them, and [`envoy`]
//! makes resources of the model. [`settings`] choose among the ways.

pub mod duration;
pub mod envoy;
pub mod model;
pub mod objects;
mod parallel;
pub mod re2;
pub mod settings;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod translate;
