//! Explanations of requests for `lockgate explain`, and the state of the controller for `lockgate status`.
//!
//! A controller answers with a [`Report`] or a [`State`] of its own Envoys. The client asks every replica, combines the
//! answers ([`combine`]), and prints them ([`text`]). Offline, the client translates manifests and has no Envoys. No
//! I/O.

pub mod claims;
pub mod combine;
mod describe;
pub mod envoys;
mod question;
mod related;
mod report;
mod state;
mod table;
#[cfg(test)]
mod tests;
pub mod text;

pub use question::Question;
pub use related::ObjectState;
pub use report::Report;
pub use state::State;
