//! The budget of a host for regular expressions: their number, and the cost of matching them in Envoy.
//!
//! A worker of Envoy compares a request with the paths of its host in turn. It serves no other request during that
//! time.

use lockgate_xds::provenance::ObjectRef;

use crate::model::{Host, PathMatch};
use crate::settings::Regexes;

use super::merge::Merged;
use super::problem::{Problem, Reason};
use super::source::PathRule;

/// Removes the regular expressions from `paths` that exceed the budget of `host`, and reports each of them on its
/// object.
///
/// `candidates` are the regular expressions of `paths` in the order of precedence. The expressions of the namespace
/// `owner` come first, so that other namespaces cannot exhaust its budget. All others follow by the age of their
/// Ingress.
pub fn within_budget<'a, R>(
    host: &Host,
    owner: &str,
    mut candidates: Vec<(&'a ObjectRef, &'a PathRule)>,
    paths: &mut Merged<'a, R>,
    limits: &Regexes,
    problems: &mut Vec<Problem>,
) {
    candidates.sort_by_key(|(origin, _)| *origin.namespace != *owner);
    let (mut count, mut size, mut steps) = (0u32, 0u32, 0u32);
    for (origin, rule) in candidates {
        let after = (count + 1, size.saturating_add(rule.cost.size), steps.saturating_add(rule.cost.steps));
        let exceeded = match after {
            (count, _, _) if count > limits.max_per_host => {
                Some(format!("{} regular expressions", limits.max_per_host))
            }
            (_, size, _) if size > limits.max_size_per_host => {
                Some(format!("{} instructions in all regular expressions together", limits.max_size_per_host))
            }
            (_, _, steps) if steps > limits.max_steps_per_host => {
                Some(format!("{} steps in all regular expressions together", limits.max_steps_per_host))
            }
            _ => None,
        };
        match exceeded {
            None => (count, size, steps) = after,
            Some(limit) => {
                paths.remove(rule.matches());
                problems.push(too_expensive(origin, host, rule, &limit));
            }
        }
    }
}

fn too_expensive(origin: &ObjectRef, host: &Host, rule: &PathRule, limit: &str) -> Problem {
    let text = match rule.path() {
        PathMatch::Regex(text) => &**text,
        _ => "",
    };
    Problem {
        object: origin.clone(),
        field: format!("{}.path", rule.field),
        reason: Reason::RegexTooExpensive,
        message: format!("regular expression {text:?} exceeds the limit of host \"{host}\": {limit}"),
        consequence: "path left out".to_owned(),
    }
}
