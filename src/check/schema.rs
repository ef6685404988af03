//! The schemas of the kinds that Lockgate reads, and the faults of an object that the API server would reject.
//!
//! `src/check/schemas` contains the schemas: those of the CustomResourceDefinitions, and of the OpenAPI documents of Kubernetes,
//! without descriptions. `make schemas` writes them. [`node`] reads and applies them: structural schemas have few keywords, and the
//! errors of a general JSON Schema validator name neither the field as Kubernetes does nor the nearest known field. The crate
//! `kube-cel` evaluates the rules (`x-kubernetes-validations`).

mod node;
mod rules;
#[cfg(test)]
mod tests;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt;

use kube_cel::{CompiledSchema, Validator, apply_defaults, compile_schema};
use serde_json::{Map, Value};

use super::native;
use node::FieldSchema;

/// The files of schemas, by version and kind. A text as the value names the schema of another version.
const FILES: [&str; 3] = [
    include_str!("schemas/gateway-api.json"),
    include_str!("schemas/kubernetes.json"),
    include_str!("schemas/lockgate.json"),
];

/// The name of the schema of `metadata`.
const METADATA: &str = "metadata";

/// The maximum number of faults of one object.
const MAX_FAULTS: usize = 20;

/// A fault of an object that the API server would reject.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectFault {
    /// The path of the field: `spec.rules[0].backendRefs[1].port`.
    pub field: String,
    /// The fault: lower case, no full stop.
    pub message: String,
    /// The remedy, if the fault alone does not state it.
    pub remedy: Option<String>,
    /// The form of the fault.
    pub form: FaultForm,
}

/// The form of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultForm {
    /// A field that the kind does not have.
    UnknownField,
    /// A value of the wrong type, or out of range.
    Value,
    /// A rule about several fields does not hold. The field of the fault contains them.
    Rule,
}

/// The schemas, read once. Rules are compiled at the first object of their kind.
pub struct Schemas {
    kinds: BTreeMap<String, Schema>,
    validator: Validator,
}

/// The schema of a kind.
struct Schema {
    node: FieldSchema,
    /// The form that `kube-cel` reads.
    value: Value,
    rules: OnceCell<CompiledSchema>,
}

impl fmt::Debug for Schemas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schemas").field("kinds", &self.kinds.keys()).finish_non_exhaustive()
    }
}

impl Default for Schemas {
    fn default() -> Self {
        let read = |text: &&str| serde_json::from_str::<Map<String, Value>>(text).unwrap_or_default();
        let all: BTreeMap<String, Value> = FILES.iter().flat_map(read).collect();
        let metadata = all.get(METADATA).cloned().unwrap_or_default();
        let schema = |(name, value): (&String, &Value)| {
            let value = value.as_str().and_then(|other| all.get(other)).unwrap_or(value).clone();
            let node = serde_json::from_value(with_identity(value.clone(), &metadata)).unwrap_or_default();
            (name.clone(), Schema { node, value, rules: OnceCell::new() })
        };
        let kinds = all.iter().filter(|(name, _)| *name != METADATA).map(schema).collect();
        Self { kinds, validator: Validator::new() }
    }
}

/// Adds the fields that every object has to the schema of a kind.
fn with_identity(mut schema: Value, metadata: &Value) -> Value {
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        let text = Value::Object(Map::from_iter([("type".to_owned(), "string".into())]));
        properties.insert("apiVersion".to_owned(), text.clone());
        properties.insert("kind".to_owned(), text);
        properties.insert(METADATA.to_owned(), metadata.clone());
    }
    schema
}

impl Schemas {
    /// Returns the faults of an object in the order of its fields. An object of a kind without a schema has none.
    pub fn faults(&self, object: &Value) -> Vec<ObjectFault> {
        let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
        let Some(schema) = self.kinds.get(&format!("{} {}", text("apiVersion"), text("kind"))) else {
            return Vec::new();
        };
        // The API server sets defaults before it validates.
        let object = apply_defaults(&schema.value, &node::without_nulls(object));
        let mut faults = Vec::new();
        schema.node.check(&object, "", &mut faults);
        // Like the API server, which evaluates no rules on values of other types.
        if faults.iter().all(|fault| fault.form == FaultForm::UnknownField) {
            faults.extend(native::faults(text("kind"), &object));
            let rules = schema.rules.get_or_init(|| compile_schema(&schema.value));
            rules::check(&self.validator, rules, &object, &mut faults);
        }
        faults.dedup();
        faults.truncate(MAX_FAULTS);
        faults
    }
}
