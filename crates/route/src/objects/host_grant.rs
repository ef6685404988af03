//! HostGrants: the namespaces that may define hosts. `make crds` writes the CustomResourceDefinition from these types.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::gateway::{Condition, LabelSelector};
use super::meta::Meta;

/// A HostGrant.
#[derive(Debug, Clone, PartialEq)]
pub struct HostGrant {
    /// The metadata.
    pub meta: Meta,
    /// The spec.
    pub spec: HostGrantSpec,
    /// The status. The translation does not read it.
    pub status: HostGrantStatus,
    /// `metadata.resourceVersion`.
    pub version: Arc<str>,
}

/// The hosts, and the namespaces that may define them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct HostGrantSpec {
    /// The hosts: `shop.example.com` is this name, `*.example.com` each name with one more label, and `**.example.com` each name with one
    /// or several more labels. `**` is every host, and rules without a host. Of the entries of all HostGrants that cover a host, the most
    /// specific one decides: the name itself, then `*.`, then the longest `**.`.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 1024)))]
    pub hosts: Vec<String>,
    /// The namespaces whose Ingresses and routes may define the hosts. Other namespaces must not define them, unless another HostGrant with
    /// the same host names them.
    pub namespaces: GrantedNamespaces,
}

/// The namespaces of a HostGrant: those of both fields. Without fields, no namespace may define the hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct GrantedNamespaces {
    /// The names of namespaces.
    #[cfg_attr(feature = "testing", schemars(length(max = 1024)))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The labels of further namespaces. An empty selector selects every namespace.
    #[cfg_attr(feature = "testing", schemars(with = "LabelSelector"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// The status of a HostGrant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostGrantStatus {
    /// The conditions.
    pub conditions: Vec<Condition>,
}
