//! The typed Envoy resources of one version, their differences, and how they are published.
//!
//! Usable without anything Kubernetes: it knows resources by type and name, the objects they came from only as
//! references. Everything here is immutable once made and shared, never copied per stream.
//!
//! A [`Resource`] is made of a message of `envoy-types` and a name, and from there on it is bytes with a version, the
//! hash of its content. A [`Store`] has the newest [`Snapshot`]; [`Store::replace`] publishes all there is,
//! [`Store::update`] a difference. Both compare: what is published again unchanged is news to nobody. [`Groups`] is a
//! store for each group of clients, over what is common to all.
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
//! One writer at a time may publish to a store; [`Groups`] sees to that itself. To serve one, see [`crate::server`].

mod asked;
mod bell;
mod body;
mod groups;
mod names;
mod part;
mod references;
mod resource;
mod store;
mod suspects;
mod watch;

pub use asked::Asked;
pub(crate) use bell::Bell;
pub use body::{Body, Limit};
pub use groups::Groups;
pub use names::{Glob, canonical, split_variant, variant_name};
pub use part::Part;
pub use references::References;
pub use resource::{ApiVersion, Lease, Resource, ResourceType, Version, resource_name};
pub use store::{Changes, Key, Snapshot, Store, Update};
pub use suspects::{Suspect, Suspects};
pub use watch::{Interest, Watch};

#[cfg(test)]
mod tests;
