//! The status of HTTPProxies, as the status writer reads and writes it.

use k8s_openapi::api::networking::v1::IngressLoadBalancerIngress;
use serde::{Deserialize, Serialize};

use crate::objects::gateway::Condition;

/// The status of an HTTPProxy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpProxyStatus {
    /// `valid`, `invalid`, `orphaned`, or the initial value of the CustomResourceDefinition.
    pub current_status: String,
    /// The message of the condition `Valid`.
    pub description: String,
    /// The addresses.
    pub load_balancer: LoadBalancer,
    /// The conditions.
    pub conditions: Vec<DetailedCondition>,
}

/// The addresses of the Envoys.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadBalancer {
    /// The addresses.
    pub ingress: Vec<IngressLoadBalancerIngress>,
}

/// A condition with its errors and warnings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DetailedCondition {
    /// The condition.
    #[serde(flatten)]
    pub condition: Condition,
    /// The errors. With one of them, the object is not valid.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<SubCondition>,
    /// The warnings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<SubCondition>,
}

/// An error or a warning.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SubCondition {
    /// The type, such as `RouteError`.
    pub r#type: String,
    /// `True`.
    pub status: String,
    /// The reason, CamelCase.
    pub reason: String,
    /// Details for people.
    pub message: String,
}
