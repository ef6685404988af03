//! ListenerSets: objects that add listeners to a Gateway.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::listener::GatewayListener;
use super::reference::ParentRef;
use super::status::{Condition, ListenerStatus};
use crate::model::ObjectKey;
use crate::objects::groups::GROUP;
use crate::objects::kind::Kind;
use crate::objects::meta::Meta;

/// A ListenerSet.
#[derive(Debug, Clone, PartialEq)]
pub struct ListenerSet {
    /// The metadata.
    pub meta: Meta,
    /// The spec.
    pub spec: ListenerSetSpec,
    /// The status. The translation does not read it.
    pub status: ListenerSetStatus,
    /// `metadata.resourceVersion`.
    pub version: Arc<str>,
}

/// The spec of a ListenerSet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListenerSetSpec {
    /// The Gateway.
    pub parent_ref: ParentRef,
    /// The listeners, each with a unique name.
    pub listeners: Vec<GatewayListener>,
}

/// The status of a ListenerSet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListenerSetStatus {
    /// The conditions.
    pub conditions: Vec<Condition>,
    /// The status of each listener.
    pub listeners: Vec<ListenerStatus>,
}

impl ListenerSet {
    /// Returns the Gateway that the ListenerSet names. Returns `None` for parents of other kinds.
    pub fn gateway(&self) -> Option<ObjectKey> {
        let ParentRef { group, kind, namespace, name, .. } = &self.spec.parent_ref;
        let is_gateway = group.as_deref().unwrap_or(GROUP) == GROUP
            && kind.as_deref().unwrap_or(Kind::GATEWAY.as_str()) == Kind::GATEWAY.as_str();
        let own = &self.meta.key.namespace;
        let namespace = namespace.as_deref().map_or_else(|| own.clone(), Arc::from);
        is_gateway.then(|| ObjectKey { namespace, name: name.as_str().into() })
    }
}
