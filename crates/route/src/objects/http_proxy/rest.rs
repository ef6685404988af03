//! The fields of a block that its type does not contain.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// The sorted names of the fields of a block that its type does not contain. A field without an effect is left out: `null`, `false`, and
/// an empty list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rest(Box<[Box<str>]>);

impl Rest {
    /// Returns the names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|name| &**name)
    }

    /// Returns whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether there is a field with this name.
    pub fn has(&self, name: &str) -> bool {
        self.names().any(|other| other == name)
    }
}

impl<'de> Deserialize<'de> for Rest {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let fields = BTreeMap::<String, Value>::deserialize(from)?;
        let has_effect = |value: &Value| match value {
            Value::Null | Value::Bool(false) => false,
            Value::Array(items) => !items.is_empty(),
            _ => true,
        };
        Ok(Self(fields.into_iter().filter(|(_, value)| has_effect(value)).map(|(name, _)| name.into()).collect()))
    }
}

/// Serializes the names, for revisions.
impl Serialize for Rest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.names().map(|name| (name, true)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use crate::objects::http_proxy::HttpProxySpec;

    #[test]
    fn every_field_of_a_block_is_typed_or_named() {
        let spec: HttpProxySpec = serde_json::from_value(json!({
            "virtualhost": { "fqdn": "a.test", "other": {}, "empty": [], "new": 1 },
            "routes": [{ "conditions": [{ "prefix": "/a" }], "otherPolicy": [{ "cidr": "10.0.0.1" }] }],
            "tcpproxy": { "services": [], "laterPolicy": {} },
            "later": {},
        }))
        .unwrap();
        assert_eq!(spec.rest.names().collect::<Vec<_>>(), ["later"]);
        assert!(spec.tcpproxy.as_ref().unwrap().rest.has("laterPolicy"));
        let host = spec.virtualhost.as_ref().unwrap();
        assert_eq!((&*host.fqdn, host.rest.names().collect::<Vec<_>>()), ("a.test", vec!["new", "other"]));
        assert!(spec.routes[0].rest.has("otherPolicy") && spec.routes[0].conditions[0].prefix == "/a");
        let again: HttpProxySpec = serde_json::from_value(serde_json::to_value(&spec).unwrap()).unwrap();
        assert_eq!(again, spec);
    }
}
