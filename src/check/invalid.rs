//! Faults for which the API server would reject an object, as findings, and whether other findings report the same.

use std::sync::Arc;

use lockgate_route::objects::Kind;
use serde_json::Value;

use super::finding::{Finding, Rule};
use super::manifests::ManifestPlace;
use super::schema::{FaultForm, ObjectFault};

/// A fault of an object, and its place.
#[derive(Debug)]
pub struct Invalid {
    /// The place of the object.
    pub place: ManifestPlace,
    /// The finding, whose line is not known yet.
    pub finding: Finding,
    form: FaultForm,
    /// The field with the name of a listener instead of its index, as the translation names it: `spec.listeners["http"].tls`.
    by_name: String,
}

impl Invalid {
    /// Creates the finding about `fault` of `object`.
    pub fn new(file: &Arc<str>, place: ManifestPlace, object: &Value, fault: ObjectFault) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let kind = Kind::ALL.into_iter().find(|kind| kind.is(&text("/apiVersion"), &text("/kind")));
        let namespace = match text("/metadata/namespace") {
            _ if kind.is_some_and(|kind| !kind.info().namespaced) => String::new(),
            namespace if namespace.is_empty() => "default".to_owned(),
            namespace => namespace,
        };
        let rule = Rule::InvalidObject;
        let by_name = by_name(object, &fault.field);
        let finding = Finding {
            file: file.clone(),
            line: 0,
            level: rule.level(),
            rule,
            kind: text("/kind"),
            namespace,
            name: text("/metadata/name"),
            field: fault.field,
            message: fault.message,
            consequence: "the API server rejects the object".to_owned(),
            remedy: fault.remedy.unwrap_or_else(|| rule.remedy().to_owned()),
        };
        Self { place, finding, form: fault.form, by_name }
    }

    /// Returns whether this fault is the reason why the object cannot be decoded, with a fault of the field `field`.
    pub fn explains(&self, field: &str) -> bool {
        self.form == FaultForm::Value
            && (steps(&self.finding.field, field).is_some() || steps(field, &self.finding.field).is_some())
    }

    /// Returns whether an error about the field `field` of the same object tells the same fault. The translation may report a fault at
    /// a part of the field, or at the field that contains it.
    pub fn is_told_by(&self, field: &str) -> bool {
        let (outside, inside) = match self.form {
            FaultForm::UnknownField => (1, 0),
            FaultForm::Value => (2, 1),
            FaultForm::Rule => (2, 2),
        };
        let is_near = |own: &str| {
            steps(field, own).is_some_and(|steps| steps <= outside)
                || steps(own, field).is_some_and(|steps| steps <= inside)
        };
        !field.is_empty() && (is_near(&self.finding.field) || is_near(&self.by_name))
    }
}

/// Returns the number of steps from the field `outer` to the field `inner` within it.
fn steps(outer: &str, inner: &str) -> Option<usize> {
    let rest = inner.strip_prefix(outer)?;
    match rest.chars().next() {
        None => Some(0),
        Some('.' | '[') => Some(rest.matches(['.', '[']).count()),
        Some(_) if outer.is_empty() => Some(1 + rest.matches(['.', '[']).count()),
        Some(_) => None,
    }
}

/// Replaces the index of a listener in `field` by its name.
fn by_name(object: &Value, field: &str) -> String {
    let name = || {
        let (index, rest) = field.strip_prefix("spec.listeners[")?.split_once(']')?;
        let listener = object.pointer("/spec/listeners")?.get(index.parse::<usize>().ok()?)?;
        Some(format!("spec.listeners[{:?}]{rest}", listener.get("name")?.as_str()?))
    };
    name().unwrap_or_else(|| field.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn steps_lead_from_a_field_to_its_parts() {
        assert_eq!(steps("spec.rules", "spec.rules"), Some(0));
        assert_eq!(steps("spec.rules", "spec.rules[0].path"), Some(2));
        assert_eq!(steps("spec.rule", "spec.rules[0].path"), None);
        assert_eq!(steps("spec.rules[0]", "spec.rules"), None);
        assert_eq!(steps("", "spec.rules"), Some(2));
    }

    #[test]
    fn listeners_are_named() {
        let gateway = json!({"spec": {"listeners": [{"name": "a"}, {"name": "b"}]}});
        assert_eq!(by_name(&gateway, "spec.listeners[1].tls"), "spec.listeners[\"b\"].tls");
        assert_eq!(by_name(&gateway, "spec.listeners[2].tls"), "spec.listeners[2].tls");
        assert_eq!(by_name(&gateway, "spec.listeners"), "spec.listeners");
    }
}
