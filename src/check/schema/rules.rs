//! The rules of CustomResourceDefinitions (`x-kubernetes-validations`), in the Common Expression Language.

use kube_cel::{CompiledSchema, ErrorKind, Validator};
use serde_json::Value;

use super::{FaultForm, ObjectFault};

/// Adds the rules that do not hold. A rule that cannot be evaluated here is left to the API server: the tests evaluate all rules.
pub fn check(validator: &Validator, rules: &CompiledSchema, object: &Value, faults: &mut Vec<ObjectFault>) {
    let Err(errors) = validator.validate_compiled(rules, object, None) else { return };
    for error in errors.into_iter().filter(|error| error.kind == ErrorKind::ValidationFailure) {
        let message = error.message.trim().trim_end_matches('.').to_owned();
        let fault = ObjectFault { field: error.field_path, message, remedy: None, form: FaultForm::Rule };
        if !faults.contains(&fault) {
            faults.push(fault);
        }
    }
}
