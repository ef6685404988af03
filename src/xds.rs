//! The xDS server: state of the world and delta, aggregated and by type, over one generic core.
//!
//! It knows resources, their versions and what they refer to, and nothing of Kubernetes. [`Stream`] is one stream's
//! state without I/O; `order` is the push plan as a table; the rest carries bytes.

mod connection;
mod encode;
mod fetch;
mod gates;
mod inbound;
mod locators;
mod message;
mod observer;
mod order;
mod push;
mod rest;
mod server;
mod service;
mod session;
mod status;
mod stream;
mod subscription;
#[cfg(test)]
mod tests;
mod v2;

pub use locators::Locator;
pub use message::{Node, Notice, Output, Request, Resources, Response, Variant};
pub use observer::{Observer, Registry, StreamInfo};
pub use order::Timing;
pub use server::{Access, Limits, Peer, ServerError, listen, serve, serve_within, tls_config};
pub use service::{Service, Stores};
pub use stream::{Refusal, Stream};
