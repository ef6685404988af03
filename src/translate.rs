//! Objects to model, as a pure function: no I/O, no clock, no randomness, no logging. The order of objects never shows.

pub mod problem;
