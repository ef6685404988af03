//! The listeners of a Gateway: their validity, the ports on which Envoy listens, and the routes that may attach.
//!
//! A Gateway has its own listeners, and the listeners of its ListenerSets (`sets`). `complete` parses a whole Gateway,
//! `fields` a single listener, and `certificates` its key pairs. `conflicts` decides which of two conflicting listeners
//! is served.

mod certificates;
mod complete;
mod conflicts;
mod declared;
mod fields;
mod merged;
mod parsed;
mod ports;
mod sets;

pub use complete::parse;
pub use conflicts::{PORTS, most_parsed};
pub use merged::{ParsedGateway, is_owner};
pub use parsed::{ListenerProtocol, Namespaces, ParsedListener};
pub use sets::AddedSet;
