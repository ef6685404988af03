//! The Service of a Gateway with a fleet.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Properties of the Service of a Gateway. Source: Kubernetes v1, `ServiceSpec`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct FleetService {
    /// `LoadBalancer`, which is the default, `NodePort`, or `ClusterIP`. The address of a Gateway without a load balancer is the
    /// cluster IP.
    #[cfg_attr(feature = "testing", schemars(with = "String", extend("enum" = ["LoadBalancer", "NodePort", "ClusterIP"])))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<String>,
    /// `Local` preserves the client's address, and sends traffic only to nodes with an Envoy. `Cluster`, which is the default, sends
    /// it to all nodes.
    #[cfg_attr(feature = "testing", schemars(with = "String", extend("enum" = ["Local", "Cluster"])))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_traffic_policy: Option<String>,
    /// Annotations, which configure the load balancer in most clouds. Annotations in `spec.infrastructure` of the
    /// Gateway take precedence.
    #[cfg_attr(feature = "testing", schemars(length(max = 16)))]
    pub annotations: BTreeMap<String, String>,
    /// The load balancer class. It cannot be changed while the Service exists.
    #[cfg_attr(feature = "testing", schemars(with = "String", length(min = 1, max = 253)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancer_class: Option<String>,
    /// The client address ranges of the load balancer, in CIDR form. Empty: all.
    #[cfg_attr(feature = "testing", schemars(length(max = 64)))]
    pub load_balancer_source_ranges: Vec<String>,
}

impl FleetService {
    /// The type of a Service without one.
    pub const LOAD_BALANCER: &str = "LoadBalancer";

    /// Returns the type.
    pub fn kind(&self) -> &str {
        self.r#type.as_deref().unwrap_or(Self::LOAD_BALANCER)
    }
}
