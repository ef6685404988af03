//! The ConfigMaps in which the leader stores the claims of hosts.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use lockgate_route::objects::{HostClaims, Kind, Object};
use serde::Deserialize;

use super::decode::{Decode, meta};

/// The label of these ConfigMaps. Its value is the name of the installation.
pub const LABEL: &str = "lockgate.dev/claims";
/// The maximum length of the value of a label.
const MAX_LABEL: usize = 63;

/// The place of the claims of an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimsPlace {
    /// The namespace of the controller.
    pub namespace: String,
    /// The name of the installation.
    installation: String,
}

impl ClaimsPlace {
    /// Returns the place of the claims of the installation with this Lease.
    pub fn new(namespace: String, lease: &str) -> Self {
        let installation: String = lease.chars().take(MAX_LABEL).collect();
        let installation = installation.trim_end_matches(['-', '.']).to_owned();
        Self { namespace, installation }
    }

    /// Returns the label selector of the ConfigMaps.
    pub fn selector(&self) -> String {
        format!("{LABEL}={}", self.installation)
    }

    /// Returns the name of the installation, which is the value of the label.
    pub fn installation(&self) -> &str {
        &self.installation
    }

    /// Returns the name of a ConfigMap.
    pub fn name(&self, shard: usize) -> String {
        format!("{}-claims-{shard}", self.installation)
    }
}

/// A ConfigMap with claims.
#[derive(Deserialize)]
pub struct ClaimsConfigMap {
    metadata: ObjectMeta,
    data: Option<BTreeMap<String, String>>,
}

impl Decode for ClaimsConfigMap {
    const KIND: Kind = Kind::HOST_CLAIMS;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn decode(self) -> Option<Object> {
        let version = self.metadata.resource_version.as_deref().unwrap_or_default().into();
        let claims = HostClaims::new(meta(self.metadata, Self::KIND), version, &self.data.unwrap_or_default())?;
        Some(Object::new(claims))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_long_leases_are_valid_labels() {
        let place = ClaimsPlace::new("edge".into(), "lockgate");
        assert_eq!(
            (place.name(3), place.selector()),
            ("lockgate-claims-3".into(), "lockgate.dev/claims=lockgate".into())
        );
        let long = ClaimsPlace::new("edge".into(), &format!("{}-{}", "a".repeat(62), "b".repeat(62)));
        assert_eq!(long.installation(), "a".repeat(62));
    }
}
