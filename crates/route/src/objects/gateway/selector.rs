//! Selectors of labels.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A selector of labels.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Labels that are required.
    pub match_labels: BTreeMap<String, String>,
    /// Additional conditions. All of them must hold.
    pub match_expressions: Vec<LabelCondition>,
}

/// A condition on a label.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LabelCondition {
    /// The name of the label.
    pub key: String,
    /// `In`, `NotIn`, `Exists`, or `DoesNotExist`.
    pub operator: String,
    /// The values of `In` and `NotIn`.
    pub values: Vec<String>,
}

impl LabelSelector {
    /// Returns whether `labels` meet all conditions. An unknown operator never holds.
    pub fn selects(&self, labels: &BTreeMap<Arc<str>, Arc<str>>) -> bool {
        let value = |key: &str| labels.get(key).map(|value| &**value);
        let meets = |condition: &LabelCondition| {
            let listed = |value: &str| condition.values.iter().any(|one| one == value);
            match condition.operator.as_str() {
                "In" => value(&condition.key).is_some_and(listed),
                "NotIn" => !value(&condition.key).is_some_and(listed),
                "Exists" => value(&condition.key).is_some(),
                "DoesNotExist" => value(&condition.key).is_none(),
                _ => false,
            }
        };
        self.match_labels.iter().all(|(key, wanted)| value(key) == Some(wanted))
            && self.match_expressions.iter().all(meets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_requires_all_its_conditions() {
        let labels = [("team", "shop"), ("tier", "front")].map(|(key, value)| (key.into(), value.into())).into();
        let condition = |key: &str, operator: &str, values: &[&str]| LabelCondition {
            key: key.into(),
            operator: operator.into(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        let selects = |conditions: &[LabelCondition]| {
            LabelSelector { match_expressions: conditions.to_vec(), ..LabelSelector::default() }.selects(&labels)
        };
        assert!(selects(&[]), "an empty selector selects everything");
        assert!(selects(&[condition("team", "In", &["cart", "shop"]), condition("tier", "Exists", &[])]));
        assert!(selects(&[condition("team", "NotIn", &["cart"]), condition("other", "NotIn", &["cart"])]));
        assert!(!selects(&[condition("team", "In", &["shop"]), condition("tier", "DoesNotExist", &[])]));
        assert!(!selects(&[condition("team", "Like", &["shop"])]));
        let by_label = |value: &str| LabelSelector {
            match_labels: [("team".to_owned(), value.to_owned())].into(),
            ..LabelSelector::default()
        };
        assert!(by_label("shop").selects(&labels) && !by_label("cart").selects(&labels));
    }
}
