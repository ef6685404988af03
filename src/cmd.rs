//! The commands.

pub mod bootstrap;
