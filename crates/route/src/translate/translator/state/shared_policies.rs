//! The sizes of policies on the shared listeners.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::objects::ObjectId;
use crate::translate::problem::Problem;
use crate::translate::scope::PolicySizes;

/// The sizes of the policies of all sources on the listeners that all objects share.
#[derive(Debug, Default)]
pub struct SharedPolicies {
    /// The sizes, and the sources beyond the limit of their namespace.
    pub sizes: PolicySizes,
    /// The problems of these sources.
    pub problems: BTreeMap<ObjectId, Arc<Problem>>,
}
