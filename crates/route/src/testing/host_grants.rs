//! A builder of HostGrants.

use super::objects::{meta, with_meta};
use crate::objects::gateway::{LabelCondition, LabelSelector};
use crate::objects::{HostGrant, HostGrantSpec, Meta, Object, ObjectKey};

/// A HostGrant.
#[derive(Clone)]
pub struct HostGrantBuilder(HostGrant);
with_meta!(HostGrantBuilder);

/// Starts a HostGrant without hosts and namespaces.
pub fn host_grant(name: &str) -> HostGrantBuilder {
    let meta = Meta { key: ObjectKey::new("", name), ..meta(name) };
    HostGrantBuilder(HostGrant { meta, spec: HostGrantSpec::default(), status: Default::default(), version: "".into() })
}

impl HostGrantBuilder {
    /// Adds a host.
    pub fn host(mut self, host: &str) -> Self {
        self.0.spec.hosts.push(host.to_owned());
        self
    }

    /// Adds the name of a namespace.
    pub fn name(mut self, namespace: &str) -> Self {
        self.0.spec.namespaces.names.push(namespace.to_owned());
        self
    }

    /// Requires a label of further namespaces.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.selector().match_labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Adds a condition on a label of further namespaces.
    pub fn expression(mut self, key: &str, operator: &str, values: &[&str]) -> Self {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        let condition = LabelCondition { key: key.to_owned(), operator: operator.to_owned(), values };
        self.selector().match_expressions.push(condition);
        self
    }

    fn selector(&mut self) -> &mut LabelSelector {
        self.0.spec.namespaces.selector.get_or_insert_default()
    }
}
