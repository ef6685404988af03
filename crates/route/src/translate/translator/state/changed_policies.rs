//! The changes of policies in one update.

use std::collections::BTreeSet;

use crate::objects::{ObjectId, ObjectKey};

/// The changes of policies in one update.
#[derive(Debug, Default)]
pub struct ChangedPolicies {
    /// The policies whose conditions may have changed.
    pub policies: BTreeSet<ObjectKey>,
    /// The objects whose policies may have changed.
    pub targets: BTreeSet<ObjectId>,
    /// The objects with changed overrides, which can decide features of more specific policies.
    pub overridden: BTreeSet<ObjectId>,
}
