//! TLSCertificateDelegations: the namespaces that may refer to the Secrets of another namespace.

use serde::{Deserialize, Serialize};

use crate::objects::meta::Meta;

/// A TLSCertificateDelegation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsCertificateDelegation {
    /// The metadata.
    pub meta: Meta,
    /// The spec.
    pub spec: TlsCertificateDelegationSpec,
}

/// The spec of a TLSCertificateDelegation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct TlsCertificateDelegationSpec {
    /// The delegated Secrets.
    pub delegations: Vec<CertificateDelegation>,
}

/// A delegated Secret of the namespace of the object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct CertificateDelegation {
    /// The name of the Secret.
    pub secret_name: String,
    /// The namespaces whose objects may refer to the Secret. `*` is every namespace.
    pub target_namespaces: Vec<String>,
}

impl CertificateDelegation {
    /// Returns whether the objects of `namespace` may refer to the Secret `name`.
    pub fn permits(&self, name: &str, namespace: &str) -> bool {
        self.secret_name == name && self.target_namespaces.iter().any(|target| target == "*" || target == namespace)
    }
}
