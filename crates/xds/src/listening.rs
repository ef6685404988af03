//! What our servers share: sockets for both families of addresses, bounded pools of connections, and a small HTTP/1.1 server for health, metrics, and hooks.
//!
//! A port that anybody can reach must not cost more than a fixed amount of memory, and must stay open for those who need
//! it. Both follow from [`Slots`]: a full pool evicts its oldest connection, so a new one always gets in.

pub mod http;
mod slots;
mod socket;

pub use slots::{Slot, Slots};
pub use socket::{BACKLOG, canonical, listen};
