//! The parts that the specs of several policies share.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// A port of a Service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyBackend {
    /// The name of the Service.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 253)))]
    pub name: String,
    /// The namespace of the Service; the namespace of the policy if not set. Another namespace needs a ReferenceGrant
    /// from the kind HTTPPolicy of the group lockgate.dev.
    #[cfg_attr(feature = "testing", schemars(length(min = 1, max = 63)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The port of the Service.
    #[cfg_attr(feature = "testing", schemars(range(min = 1)))]
    pub port: u16,
}

/// A feature, or the reason why it cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Lenient<T> {
    /// The feature.
    Valid(T),
    /// The reason why it cannot be decoded.
    Invalid(String),
}

impl<T> From<T> for Lenient<T> {
    fn from(feature: T) -> Self {
        Self::Valid(feature)
    }
}

impl<'de, T: serde::de::DeserializeOwned> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Ok(serde_json::from_value(value).map_or_else(|fault| Self::Invalid(fault.to_string()), Self::Valid))
    }
}
