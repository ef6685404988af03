//! Typed Envoy resources: snapshots of them, their differences, and their publication.
//!
//! This module does not depend on Kubernetes. It identifies resources by type and name, and the objects behind them by
//! references. Snapshots and resources are immutable, and all streams share them.
//!
//! A [`Resource`] is built from a name and a message of `envoy-types`, and is encoded once. Its version is a hash of its
//! content. A [`Store`] holds the newest [`Snapshot`]. [`Store::replace`] publishes a complete content, [`Store::update`] a
//! difference. Both notify streams only of resources that changed. A [`StoreMap`] holds one store for each class of clients.
//! [`Groups`] fills such stores with the resources of a group, on top of the resources that all groups share.
//!
//! ```
//! use envoy_types::pb::envoy::config::cluster::v3::Cluster;
//! use lockgate_xds::snapshot::{Resource, ResourceType, Store, Update};
//!
//! let cluster = |name: &str| Resource::new(name, &Cluster { name: name.to_owned(), ..Cluster::default() }, vec![]);
//! let store = Store::default();
//! store.replace(vec![cluster("cart"), cluster("shop")]);
//! let changes = store.update(Update {
//!     set: vec![cluster("shop"), cluster("welcome")],
//!     remove: vec![(ResourceType::CLUSTER, "cart".into())],
//! });
//! assert_eq!((changes.added.len(), changes.changed.len(), changes.removed.len()), (1, 0, 1));
//! assert_eq!(store.newest().map(|snapshot| snapshot.len(ResourceType::CLUSTER)), Some(2));
//! ```
//!
//! Only one writer at a time may publish to a store. [`Groups`] ensures this itself. To serve a store, see
//! [`crate::server`].

mod bell;
mod body;
mod content;
mod groups;
mod named;
mod names;
mod references;
mod resource;
mod resource_type;
mod store;
mod store_map;
mod suspects;
mod watch;
mod watchers;

pub(crate) use bell::Bell;
pub use body::{Body, Limit};
pub use content::{Changes, Snapshot, Update};
pub use groups::Groups;
pub use named::NamedResources;
pub use names::{Glob, canonical, split_variant, variant_name};
pub use references::References;
pub use resource::{Lease, Resource, Version, resource_name};
pub use resource_type::{ApiVersion, Key, ResourceType};
pub use store::Store;
pub use store_map::StoreMap;
pub use suspects::{Suspect, Suspects};
pub use watch::Watch;
pub use watchers::Interest;

#[cfg(test)]
mod tests;
