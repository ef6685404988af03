//! The xDS protocol, without I/O: state of the world and delta, aggregated and by type, with one generic core.
//!
//! The protocol depends on resources, their versions, and their references. [`Stream`] is the state of one stream: its input
//! is requests, snapshots, and time, and its output is responses and notices. `order` is the push plan as a table, `gates`
//! delays routes and removals, and `subscription` is the state of one type at the client. The crate's
//! [`server`](crate::server) is a transport around it.

pub(crate) mod encode;
mod fetch;
mod gates;
mod locators;
mod message;
mod order;
mod pace;
mod push;
mod rejection;
mod stream;
mod subscription;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use fetch::Fetch;
pub use locators::Locator;
pub use message::{Node, Notice, Output, Request, Resources, Response, Variant};
pub use order::Timing;
pub use rejection::{Rejection, RejectionScope};
pub use stream::{Refusal, Stream};
pub(crate) use subscription::{Held, Standing};
