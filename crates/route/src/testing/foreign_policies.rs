//! A builder of policies of Envoy Gateway.

use super::objects::{meta, with_meta};
use crate::objects::gateway::LabelSelector;
use crate::objects::{ForeignPolicy, ForeignSelector, ForeignTarget, Kind, Object};

/// A policy of Envoy Gateway.
#[derive(Clone)]
pub struct ForeignPolicyBuilder(ForeignPolicy);
with_meta!(ForeignPolicyBuilder);

/// Starts the policy `shop/name` of `kind`, or `name` if it has a namespace. It restricts nothing and has no targets.
pub fn foreign_policy(kind: Kind, name: &str) -> ForeignPolicyBuilder {
    let (targets, selectors) = Default::default();
    ForeignPolicyBuilder(ForeignPolicy { kind, meta: meta(name), restricts: false, targets, selectors })
}

/// Starts a SecurityPolicy that restricts access.
pub fn security_policy(name: &str) -> ForeignPolicyBuilder {
    foreign_policy(Kind::SECURITY_POLICY, name).restricting(true)
}

impl ForeignPolicyBuilder {
    /// Sets whether it restricts access.
    pub fn restricting(mut self, restricts: bool) -> Self {
        self.0.restricts = restricts;
        self
    }

    /// Adds a target by name, with a listener or a rule.
    pub fn target(mut self, kind: Kind, name: &str, section: Option<&str>) -> Self {
        let target = ForeignTarget { kind, name: name.into(), section: section.map(Into::into) };
        self.0.targets = self.0.targets.iter().cloned().chain([target]).collect();
        self
    }

    /// Adds targets by label.
    pub fn select(mut self, kind: Kind, labels: &[(&str, &str)]) -> Self {
        let match_labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let labels = Some(LabelSelector { match_labels, ..LabelSelector::default() });
        self.0.selectors = self.0.selectors.iter().cloned().chain([ForeignSelector { kind, labels }]).collect();
        self
    }
}
