//! Lists.

use serde_json::{Value as Json, json};

use super::{ValueFormat, found};
use crate::yaml::{Node, NodeContent, Wrong};

/// A list without duplicates.
pub struct List<F>(F);

impl<F: ValueFormat> ValueFormat for List<F> {
    type Value = Vec<F::Value>;

    fn describe() -> String {
        format!("list of {}", F::describe())
    }

    fn read(node: &Node, wrong: &mut Vec<Wrong>) -> Option<Self::Value> {
        let NodeContent::List(items) = &node.content else {
            let found = found(&node.content);
            wrong.push(node.place.wrong(format!("expected a {}, found {found}", Self::describe())));
            return None;
        };
        let faults = wrong.len();
        let mut values: Vec<F::Value> = Vec::new();
        for item in items {
            let Some(value) = F::read(item, wrong) else { continue };
            let shown = F::show(&value);
            if values.iter().any(|other| F::show(other) == shown) {
                wrong.push(item.place.wrong(format!("{shown} is given twice")));
            }
            values.push(value);
        }
        (wrong.len() == faults).then_some(values)
    }

    fn show(value: &Self::Value) -> Json {
        value.iter().map(F::show).collect()
    }

    fn schema() -> Json {
        json!({"type": "array", "items": F::schema(), "uniqueItems": true})
    }
}
