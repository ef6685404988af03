//! Policies of Envoy Gateway, reduced to their targets and to whether they restrict access.
//!
//! Lockgate does not apply these policies. It reads them to close their routes: otherwise, a protected route would become public
//! when Lockgate replaces Envoy Gateway.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::content::{Content, Object};
use super::gateway::LabelSelector;
use super::groups::GROUP;
use super::kind::Kind;
use super::meta::Meta;

/// The kinds of policies of Envoy Gateway that are read.
pub const FOREIGN_POLICIES: [Kind; 3] =
    [Kind::SECURITY_POLICY, Kind::CLIENT_TRAFFIC_POLICY, Kind::BACKEND_TRAFFIC_POLICY];

/// The kinds of targets.
const TARGETS: [Kind; 7] = [
    Kind::GATEWAY,
    Kind::LISTENER_SET,
    Kind::HTTP_ROUTE,
    Kind::GRPC_ROUTE,
    Kind::TLS_ROUTE,
    Kind::TCP_ROUTE,
    Kind::UDP_ROUTE,
];

/// The fields of a SecurityPolicy that do not restrict access: its targets, and the response headers for browsers. A field that a
/// later version adds counts as a restriction.
const HARMLESS: [&str; 5] = ["targetRef", "targetRefs", "targetSelectors", "mergeType", "cors"];

/// A policy of Envoy Gateway.
#[derive(Debug, Clone, PartialEq)]
pub struct ForeignPolicy {
    /// The kind.
    pub kind: Kind,
    /// The metadata.
    pub meta: Meta,
    /// Whether it restricts access.
    pub restricts: bool,
    /// The objects that it targets by name. They are in its namespace.
    pub targets: Box<[ForeignTarget]>,
    /// The objects that it targets by label. They are in its namespace.
    pub selectors: Box<[ForeignSelector]>,
}

/// A target by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignTarget {
    /// The kind.
    pub kind: Kind,
    /// The name.
    pub name: Arc<str>,
    /// The name of a listener or of a rule. `None`: the complete object.
    pub section: Option<Arc<str>>,
}

/// Targets by label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignSelector {
    /// The kind.
    pub kind: Kind,
    /// The labels. `None`: the condition cannot be read, so it selects every object.
    pub labels: Option<LabelSelector>,
}

/// A reference as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reference {
    #[serde(default)]
    group: Option<String>,
    kind: String,
    name: String,
    #[serde(default)]
    section_name: Option<String>,
}

impl ForeignPolicy {
    /// Reads the spec of a policy of `kind`.
    pub fn new(kind: Kind, meta: Meta, spec: &Map<String, Value>) -> Self {
        let of = |field: &str| spec.get(field).filter(|value| !value.is_null());
        let list = |field: &str| of(field).and_then(Value::as_array).into_iter().flatten();
        let restricts = if kind == Kind::SECURITY_POLICY {
            spec.iter().any(|(field, value)| !value.is_null() && !HARMLESS.contains(&field.as_str()))
        } else {
            let validation = of("tls").and_then(|tls| tls.get("clientValidation"));
            kind == Kind::CLIENT_TRAFFIC_POLICY && validation.is_some_and(|value| !value.is_null())
        };
        let targets = of("targetRef").into_iter().chain(list("targetRefs")).filter_map(target).collect();
        let selectors = list("targetSelectors").filter_map(selector).collect();
        Self { kind, meta, restricts, targets, selectors }
    }

    /// Returns whether it selects the object of `kind` with this metadata, which is in its namespace, by label.
    pub fn selects(&self, kind: Kind, meta: &Meta) -> bool {
        self.selectors.iter().any(|selector| selector.kind == kind && selector.selects(&meta.labels))
    }
}

/// Returns the kind of a target.
fn kind_of(group: Option<&str>, kind: &str) -> Option<Kind> {
    TARGETS.into_iter().find(|one| group.unwrap_or(GROUP) == GROUP && one.as_str() == kind)
}

fn target(value: &Value) -> Option<ForeignTarget> {
    let Reference { group, kind, name, section_name } = Reference::deserialize(value).ok()?;
    let section = section_name.filter(|name| !name.is_empty()).map(Into::into);
    Some(ForeignTarget { kind: kind_of(group.as_deref(), &kind)?, name: name.into(), section })
}

fn selector(value: &Value) -> Option<ForeignSelector> {
    let text = |field: &str| value.get(field).and_then(Value::as_str);
    let labels = LabelSelector::deserialize(value).ok();
    Some(ForeignSelector { kind: kind_of(text("group"), text("kind")?)?, labels })
}

impl ForeignSelector {
    /// Returns whether it selects the objects with these labels.
    fn selects(&self, labels: &BTreeMap<Arc<str>, Arc<str>>) -> bool {
        self.labels.as_ref().is_none_or(|selector| selector.selects(labels))
    }
}

impl Content for ForeignPolicy {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn with_meta(&self, meta: Meta) -> Object {
        Object::new(Self { meta, ..self.clone() })
    }

    fn is_same(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::objects::meta;

    fn read(kind: Kind, spec: Value) -> ForeignPolicy {
        ForeignPolicy::new(kind, meta("one"), spec.as_object().unwrap_or(&Map::new()))
    }

    #[test]
    fn a_policy_restricts_access_unless_its_fields_are_known_to_be_harmless() {
        for (kind, spec, expected) in [
            (Kind::SECURITY_POLICY, json!({"basicAuth": {"users": {"name": "a"}}}), true),
            (Kind::SECURITY_POLICY, json!({"cors": {}, "jwt": {}}), true),
            (Kind::SECURITY_POLICY, json!({"ofALaterVersion": 1}), true),
            (Kind::SECURITY_POLICY, json!({"cors": {}, "targetRefs": [], "jwt": null}), false),
            (Kind::SECURITY_POLICY, json!({}), false),
            (Kind::CLIENT_TRAFFIC_POLICY, json!({"tls": {"clientValidation": {}}}), true),
            (Kind::CLIENT_TRAFFIC_POLICY, json!({"tls": {"minVersion": "1.3", "clientValidation": null}}), false),
            (Kind::CLIENT_TRAFFIC_POLICY, json!({"timeout": {}}), false),
            (Kind::BACKEND_TRAFFIC_POLICY, json!({"rateLimit": {}}), false),
        ] {
            assert_eq!(read(kind, spec.clone()).restricts, expected, "{kind:?} {spec}");
        }
    }

    #[test]
    fn targets_of_gateway_api_are_read_in_each_form() {
        let policy = read(
            Kind::SECURITY_POLICY,
            json!({
                "targetRef": {"group": GROUP, "kind": "Gateway", "name": "a", "sectionName": "https"},
                "targetRefs": [
                    {"group": GROUP, "kind": "HTTPRoute", "name": "b"},
                    {"group": "other.dev", "kind": "HTTPRoute", "name": "c"},
                    {"kind": "Service", "name": "d"},
                    {"kind": "HTTPRoute"},
                ],
                "targetSelectors": [
                    {"group": GROUP, "kind": "GRPCRoute", "matchLabels": {"team": "shop"}},
                    {"kind": "HTTPRoute", "matchLabels": ["?"]},
                ],
            }),
        );
        let targets = policy.targets.iter().map(|one| (one.kind, &*one.name, one.section.as_deref()));
        assert!(targets.eq([(Kind::GATEWAY, "a", Some("https")), (Kind::HTTP_ROUTE, "b", None)]));
        assert_eq!(policy.selectors.len(), 2);
        let (by_label, unreadable) = (&policy.selectors[0], &policy.selectors[1]);
        let labels = [("team".into(), "shop".into())].into();
        assert!(by_label.kind == Kind::GRPC_ROUTE && by_label.selects(&labels) && !by_label.selects(&BTreeMap::new()));
        assert!(unreadable.kind == Kind::HTTP_ROUTE && unreadable.selects(&BTreeMap::new()));
    }
}
