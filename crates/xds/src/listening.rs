//! Shared parts of servers: sockets for IPv4 and IPv6, bounded pools of connections, and a small HTTP/1.1 server for health,
//! metrics, and hooks.
//!
//! A public port must use a bounded amount of memory, and must stay available. [`Slots`] ensures both: a full pool evicts its
//! oldest connection, so a new one can always connect.

pub mod http;
mod slots;
mod socket;

pub use slots::{Slot, Slots};
pub use socket::{BACKLOG, canonical, first_bytes, listen};
