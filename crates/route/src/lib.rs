//! Translates Kubernetes objects to Envoy resources. The translation is a pure function: no I/O, no clock, no
//! randomness.
//!
//! [`objects`] stores the fields of each object that the translation reads. [`translate`] builds the [`model`] from
//! them, and [`envoy`] builds resources from the model. [`settings`] configures both.

pub mod duration;
pub mod envoy;
pub mod explain;
mod few;
pub mod model;
pub mod objects;
mod parallel;
pub mod re2;
pub mod settings;
pub mod size;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod translate;
