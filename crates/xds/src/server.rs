//! The xDS server: the transport of the [protocol](crate::protocol) over gRPC and REST.
//!
//! A [`Service`] answers the requests of each connection with a [`Stream`](crate::protocol::Stream) over a [`Store`](crate::snapshot::Store).
//!
//! # A custom server
//!
//! Put [resources](crate::snapshot::Resource) into a [`Store`](crate::snapshot::Store), create a [`Service`] with it,
//! and call [`serve`]. Then call [`Store::update`](crate::snapshot::Store::update) for each change. The server sends
//! the changes to the clients in an order in which no reference is ever unresolved.
//!
//! ```
//! use std::sync::Arc;
//! use envoy_types::pb::envoy::config::cluster::v3::Cluster;
//! use lockgate_xds::server::{self, Access, Service, Stores};
//! use lockgate_xds::snapshot::{Resource, ResourceType, Store, Update};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Arc::new(Store::default());
//! let (stop, stopping) = tokio::sync::watch::channel(false);
//! let service = Service::new(Stores::one(store.clone()), stopping).with_identifier("my control plane");
//! let listener = server::listen("127.0.0.1:0".parse()?).await?;
//! println!("xDS listens on {}", listener.local_addr()?);
//! let server = tokio::spawn(server::serve(listener, Access::PlainFromLoopback, Arc::new(service)));
//!
//! // Requests wait for the first publication.
//! let shop = Cluster { name: "shop".to_owned(), ..Cluster::default() };
//! store.replace(vec![Resource::new("shop", &shop, vec![])]);
//!
//! // A change by type and name. Subscribed clients receive it.
//! store.update(Update::<Resource>::removing(vec![(ResourceType::CLUSTER, "shop".into())]));
//!
//! stop.send_replace(true);
//! server.await??;
//! # Ok(())
//! # }
//! ```
//!
//! - **Groups of nodes**: [`Stores::by_node`] chooses a store by the cluster, the ID, or the metadata of a [`Node`](crate::protocol::Node);
//!   [`Groups`](crate::snapshot::Groups) contains the stores and their common resources. [`Stores::by_client`] also
//!   distinguishes protocol variants, for servers with resources in several forms.
//!
//!   ```
//!   # use std::sync::Arc;
//!   # use lockgate_xds::{server::Stores, snapshot::Groups};
//!   let groups = Arc::new(Groups::default());
//!   let stores = groups.clone();
//!   let by_cluster = Stores::by_node(move |node| stores.store(&node.cluster)); // others are refused: NotFound
//!   let stores = groups.clone();
//!   let by_metadata = Stores::by_node(move |node| {
//!       let fleet = node.metadata.get("fleet").and_then(|fleet| fleet.as_str());
//!       Some(fleet.and_then(|fleet| stores.store(fleet)).unwrap_or_else(|| stores.common()))
//!   });
//!   ```
//! - **Hooks**: an [`Observer`] is called for opened and closed streams, every request and response, and each ACK and
//!   [`Rejection`](crate::protocol::Rejection). A [`Registry`] lists the open streams.
//! - **Access**: [`Access::Tls`] with the [`tls_config`] of a directory and a [policy](crate::identity::Policy) of names, or
//!   with settings that change ([`Tls`]). Without TLS, only clients on this machine are served, because resources may
//!   contain private keys. [`Limits`] bound connections and their age, and [`Timing`](crate::protocol::Timing) bounds the waits of the push plan.
//!
//! `examples/hello.rs` is the smallest server. The program `examples/xds-server` at the top of the repository serves two
//! groups of Envoys.

mod acceptance;
mod connection;
mod fetch;
mod inbound;
mod observer;
mod past;
mod refusals;
mod rest;
mod serve;
mod service;
mod session;
mod status;
#[cfg(test)]
mod tests;
mod tls;
mod v2;
mod waits;

pub use crate::tls::TlsFault;
pub use acceptance::Acceptance;
pub use observer::{Observer, Registry, StreamInfo};
pub use refusals::Refused;
pub use serve::{Access, Limits, Peer, ServerError, listen, serve, serve_within};
pub use service::{Client, Service, Stores};
pub use tls::{Secured, Tls, tls_config, tls_config_of};
