//! Ingresses, IngressClasses, Namespaces, and ConfigMaps, the built-in kinds of which few fields are read.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::networking::v1::{IngressLoadBalancerIngress, IngressSpec};

use super::meta::Meta;

/// An Ingress.
#[derive(Debug, Clone, PartialEq)]
pub struct Ingress {
    /// The metadata.
    pub meta: Meta,
    /// The spec, as in the API.
    pub spec: IngressSpec,
    /// The status. The translation does not read it.
    pub status: IngressStatus,
}

/// `IngressSpec` has no floats, so `Eq` is sound.
impl Eq for Ingress {}

/// The status of an Ingress, for the status writer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct IngressStatus {
    /// `status.loadBalancer.ingress`.
    pub addresses: Vec<IngressLoadBalancerIngress>,
    /// The field managers that wrote the addresses.
    pub writers: Vec<Arc<str>>,
    /// `metadata.resourceVersion` of the whole object.
    pub version: Arc<str>,
}

/// An IngressClass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngressClass {
    /// The metadata.
    pub meta: Meta,
    /// `spec.controller`, empty if absent.
    pub controller: String,
}

/// A Namespace. The translation reads its existence, its labels, and whether it is being deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// The metadata.
    pub meta: Meta,
    /// The labels.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
}

/// A ConfigMap with certificate authorities. Others are not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigMap {
    /// The metadata.
    pub meta: Meta,
    /// The validated certificate authorities (`ca.crt`) in PEM, or their fault: lower case, no full stop, names the data
    /// key. ConfigMaps with equal authorities share the text.
    pub authorities: Result<Arc<str>, Arc<str>>,
}
