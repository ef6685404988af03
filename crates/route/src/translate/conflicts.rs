//! Conflicts between objects that share hosts.

use std::sync::Arc;

use super::gateway::attach::ListenerOwner;
use super::problem::Problem;
use crate::model::{Host, ListenerId};

/// A conflict of an object with others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    /// The place.
    pub place: ConflictPlace,
    /// The problem of the object that loses.
    pub problem: Arc<Problem>,
}

/// The place of a conflict.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConflictPlace {
    /// A host on a listener of a Gateway.
    Host(ListenerId, Host),
    /// All hosts of a route on the listeners of an owner.
    Listeners(ListenerOwner),
    /// A host on the listeners that all objects share.
    Shared,
}
