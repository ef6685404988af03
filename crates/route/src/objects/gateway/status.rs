//! The status of objects of Gateway API, as the status writers read and write it.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::reference::ParentRef;

/// A condition of a status. Source: `metav1.Condition`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// The type, CamelCase.
    pub r#type: String,
    /// `True`, `False`, or `Unknown`.
    pub status: String,
    /// The reason, CamelCase.
    pub reason: String,
    /// Details for people.
    pub message: String,
    /// The `metadata.generation` of the spec that the condition describes.
    pub observed_generation: i64,
    /// The time when `status` last changed, in RFC 3339.
    pub last_transition_time: String,
}

/// The status of a GatewayClass.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayClassStatus {
    /// The conditions.
    pub conditions: Vec<Condition>,
    /// The supported features, sorted by name.
    #[serde(deserialize_with = "features")]
    pub supported_features: Vec<Feature>,
}

/// A supported feature.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Feature {
    /// The name.
    pub name: String,
}

/// Deserializes features. Before version 1.2 of Gateway API, a feature was a text. An entry of another form is left
/// out, because a malformed status must not make its object undecodable.
fn features<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Feature>, D::Error> {
    let name = |value: &Value| value.as_str().or_else(|| value.get("name")?.as_str()).map(str::to_owned);
    Ok(Vec::<Value>::deserialize(from)?.iter().filter_map(name).map(|name| Feature { name }).collect())
}

/// The status of a Gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayStatus {
    /// The assigned addresses.
    pub addresses: Vec<GatewayAddress>,
    /// The conditions.
    pub conditions: Vec<Condition>,
    /// The status of each listener.
    pub listeners: Vec<ListenerStatus>,
    /// The number of accepted ListenerSets.
    pub attached_listener_sets: Option<u32>,
}

/// The status of a listener.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListenerStatus {
    /// The name of the listener.
    pub name: String,
    /// The kinds of routes that the listener supports.
    pub supported_kinds: Vec<RouteKind>,
    /// The number of attached routes.
    pub attached_routes: u32,
    /// The conditions.
    pub conditions: Vec<Condition>,
}

/// A kind of routes.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct RouteKind {
    /// The API group. `None`: the group of Gateway API.
    pub group: Option<String>,
    /// The kind.
    pub kind: String,
}

/// The status of a route.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RouteStatus {
    /// The status of the route at each parent, by all controllers.
    pub parents: Vec<ParentStatus>,
}

/// The status of a route at one parent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ParentStatus {
    /// The reference, as in the spec of the route.
    pub parent_ref: ParentRef,
    /// The controller that wrote the entry.
    pub controller_name: String,
    /// The conditions.
    pub conditions: Vec<Condition>,
}

/// The status of a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PolicyStatus {
    /// The status of the policy at each ancestor, by all controllers.
    pub ancestors: Vec<AncestorStatus>,
}

/// The status of a policy at one ancestor, such as a Gateway with a route to the target of the policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AncestorStatus {
    /// The ancestor.
    pub ancestor_ref: ParentRef,
    /// The controller that wrote the entry.
    pub controller_name: String,
    /// The conditions.
    pub conditions: Vec<Condition>,
}

/// An address of a Gateway, requested or assigned.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GatewayAddress {
    /// `IPAddress`, which is the default, `Hostname`, or a name with a domain.
    pub r#type: Option<String>,
    /// The address. Empty: any address of the type.
    pub value: String,
}
