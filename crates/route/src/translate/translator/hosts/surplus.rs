//! The copies of a host that do not fit into the limit of its namespace.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::model::Host;
use crate::translate::charges::State;
use crate::translate::problem::Problem;
use crate::translate::translator::copies::{CopiedPart, Copies};
use crate::translate::translator::hosts::draft::HostDraft;
use crate::translate::translator::levels::Levels;

/// The rules of another host that do not fit. Requests that no other rule matches are answered 503 instead.
#[derive(Debug, Default)]
pub struct SurplusCopies {
    /// The namespaces whose rules are not copied.
    pub namespaces: BTreeSet<Arc<str>>,
    /// Whether nothing is copied. The rules of other namespaces are not copied without those of the first.
    pub is_all: bool,
    /// Whether the default backend is not copied.
    pub has_default_backend: bool,
    /// The problems of the objects that need the copy.
    pub problems: Vec<Problem>,
}

impl SurplusCopies {
    /// Returns the rules and the default backend that a host copies, but that do not fit.
    pub fn of(draft: &HostDraft, copies: &Copies, levels: &Levels) -> Self {
        let HostDraft { host, copied, copier, charges, .. } = draft;
        let mut surplus = Self::default();
        let Some(copier) = copier else { return surplus };
        let mut size = 0u64;
        for (part, charge) in charges.iter().filter(|(part, _)| copies.state(host, part) != State::Open) {
            match part {
                CopiedPart::Rules(namespace) => {
                    surplus.namespaces.insert(namespace.clone());
                    size = size.saturating_add(charge.size.open);
                }
                CopiedPart::DefaultBackend => {
                    surplus.has_default_backend = true;
                    let what = "the policies of the default backend";
                    surplus.problems.extend(copier.surplus(host, what, charge.size.open, false));
                }
                CopiedPart::KeyPair | CopiedPart::Clients => {}
            }
        }
        let first = copied.as_ref().and_then(|copied| levels.standing(copied)?.served.first());
        let (Some(copied), Some(first), false) = (copied, first, surplus.namespaces.is_empty()) else {
            surplus.namespaces = BTreeSet::new();
            return surplus;
        };
        surplus.is_all = surplus.namespaces.contains(&first.origin.namespace);
        let rules = match copied {
            Host::Any => "the rules without a host".to_owned(),
            other => format!("the rules of \"{other}\""),
        };
        let names = surplus.namespaces.iter().map(|namespace| format!("\"{namespace}\"")).collect::<Vec<_>>();
        let what = format!("{rules} of namespace {}", names.join(", "));
        surplus.problems.extend(copier.surplus(host, &what, size, surplus.is_all));
        surplus
    }
}
