//! What the controller's loop last worked on, for those who look at it: the debug pages, and who writes status.

use std::sync::Arc;

use imbl::OrdMap;

use crate::source::objects::{ObjectKey, Objects};
use crate::translate::problem::Problems;

/// What the controller's loop last worked on.
#[derive(Debug, Clone, Default)]
pub struct Inspection {
    /// All objects.
    pub objects: Objects,
    /// What is wrong with them.
    pub problems: Problems,
    /// The Ingresses that are ours, by class. Empty before the first lists are in.
    pub ingresses: OrdMap<ObjectKey, Published>,
    /// Whether all first lists are in, so that what is not here does not exist.
    pub complete: bool,
}

/// Since when an object is a part of what Envoys are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The object's uid.
    pub uid: Arc<str>,
    /// Its generation.
    pub generation: i64,
    /// The number of the publication ([`Snapshot::generation`](crate::snapshot::Snapshot::generation)) to Envoys that
    /// first had it in this generation.
    pub since: u64,
}
