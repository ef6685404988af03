//! BackendTLSPolicies: TLS to the endpoints of Services.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::reference::ObjectReference;
use super::status::PolicyStatus;
use crate::objects::meta::Meta;

/// A BackendTLSPolicy.
#[derive(Debug, Clone, PartialEq)]
pub struct BackendTlsPolicy {
    /// The metadata.
    pub meta: Meta,
    /// The spec.
    pub spec: BackendTlsPolicySpec,
    /// The status. The translation does not read it.
    pub status: PolicyStatus,
    /// `metadata.resourceVersion`.
    pub version: Arc<str>,
}

/// The spec of a BackendTLSPolicy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackendTlsPolicySpec {
    /// The Services that it applies to, in its namespace.
    pub target_refs: Vec<PolicyTarget>,
    /// The verification of the endpoints.
    pub validation: BackendValidation,
    /// Options of implementations.
    pub options: BTreeMap<String, String>,
}

/// A target of a policy, in the namespace of the policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyTarget {
    /// The API group; empty is the core group.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// A part of the target, such as the name of a port of a Service. `None` and the empty text select the complete
    /// target.
    pub section_name: Option<Arc<str>>,
}

/// The verification of the endpoints of a Service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackendValidation {
    /// Objects with certificate authorities, in the namespace of the policy.
    pub ca_certificate_refs: Vec<ObjectReference>,
    /// A well-known set of certificate authorities, instead of objects: `System`.
    #[serde(rename = "wellKnownCACertificates")]
    pub well_known_ca_certificates: Option<String>,
    /// The server name (SNI). The certificate must cover it, unless there are alternative names.
    pub hostname: String,
    /// The names. The certificate must have at least one of them.
    pub subject_alt_names: Vec<SubjectAltName>,
}

/// A name in a certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SubjectAltName {
    /// `Hostname` or `URI`.
    pub r#type: String,
    /// The DNS name, exact or with a leading `*.`.
    pub hostname: String,
    /// The URI.
    pub uri: String,
}
