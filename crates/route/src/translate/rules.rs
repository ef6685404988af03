//! The rules of several objects for one host: conflicts, the limit of regular expressions, order. It is the same for all dialects.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{Host, PathMatch};
use crate::objects::Precedence;
use crate::settings::Regexes;

use super::dialect::{self, Dialect};
use super::merge::Merged;
use super::order::Order;
use super::problem::{Problem, Reason};
use super::unit::Unit;

/// A unit with its object.
#[derive(Debug, Clone, Copy)]
pub struct Contender<'a> {
    /// The rank of its object.
    pub precedence: &'a Precedence,
    /// The unit.
    pub unit: &'a Unit,
    /// Whether its namespace is not the first of the host.
    pub is_foreign: bool,
}

impl<'a> Contender<'a> {
    /// Returns the namespace of its object.
    pub fn namespace(&self) -> &'a Arc<str> {
        &self.precedence.key.namespace
    }
}

/// The units for one host that won their match.
#[derive(Debug, Default)]
pub struct Rules<'a> {
    winners: Merged<'a, Contender<'a>>,
    dialects: &'static [Dialect],
}

impl<'a> Rules<'a> {
    /// Merges the units of several objects for `host`. The first of several equal matches wins. The problem of another one depends on
    /// its dialect. Regular expressions beyond `limits` are left out.
    ///
    /// `contenders` are in the order of precedence, except that those of the first namespace precede others.
    pub fn merge(
        host: &Host,
        contenders: impl Iterator<Item = Contender<'a>>,
        dialects: &'static [Dialect],
        limits: &Regexes,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let mut winners = Merged::default();
        let mut expensive = Vec::new();
        // The prefixes of the first namespace, without a trailing slash.
        let mut prefixes = BTreeMap::<&str, Contender>::new();
        for one in contenders {
            let Some(dialect) = dialect::of(dialects, one.precedence.kind) else { continue };
            let path = one.unit.path();
            let is_guarded = dialect.competition.guards_prefixes;
            let winner = if is_guarded && one.is_foreign { taken(path, &prefixes) } else { None };
            let winner = winner.or_else(|| winners.offer(one.unit.matches(), one).err().copied());
            if let Some(winner) = winner {
                problems.extend((dialect.competition.conflict)(&one, host, &winner));
                continue;
            }
            if one.unit.cost.size > 0 {
                expensive.push(one);
            }
            if let (true, false, PathMatch::SeparatedPrefix(text) | PathMatch::Prefix(text)) =
                (is_guarded, one.is_foreign, path)
            {
                prefixes.entry(text.trim_end_matches('/')).or_insert(one);
            }
        }
        let mut rules = Self { winners, dialects };
        rules.apply(host, expensive, limits, problems);
        rules
    }

    /// Removes the units that exceed the budget of `host` for regular expressions, and reports each of them on its object.
    ///
    /// A worker of Envoy compares a request with the matches of its host in turn, and serves no other request during that time.
    /// `expensive` are the units with regular expressions. The first namespace uses the budget first, so that others cannot exhaust it.
    fn apply(&mut self, host: &Host, mut expensive: Vec<Contender<'a>>, limits: &Regexes, problems: &mut Vec<Problem>) {
        expensive.sort_by_key(|one| one.is_foreign);
        let (mut count, mut size, mut steps) = (0u32, 0u32, 0u32);
        for one in expensive {
            let (cost, copies) = (one.unit.cost, one.unit.route.copies());
            let more = |sum: u32, cost: u32| sum.saturating_add(cost.saturating_mul(copies));
            let after = (more(count, 1), more(size, cost.size), more(steps, cost.steps));
            let exceeded = if after.0 > limits.max_per_host {
                Some(format!("{} regular expressions", limits.max_per_host))
            } else if after.1 > limits.max_size_per_host {
                Some(format!("{} instructions in all regular expressions together", limits.max_size_per_host))
            } else if after.2 > limits.max_steps_per_host {
                Some(format!("{} steps in all regular expressions together", limits.max_steps_per_host))
            } else {
                None
            };
            match exceeded {
                None => (count, size, steps) = after,
                Some(limit) => {
                    self.winners.remove(one.unit.matches());
                    problems.extend(
                        dialect::of(self.dialects, one.precedence.kind)
                            .map(|dialect| too_expensive(&one, host, &limit, dialect)),
                    );
                }
            }
        }
    }

    /// Returns the winners in no particular order.
    pub fn winners(&self) -> impl Iterator<Item = &Contender<'a>> + Clone {
        self.winners.winners()
    }

    /// Returns the winners in the order in which their matches are tried.
    pub fn in_order(&self) -> Vec<&Contender<'a>> {
        let order = Order::new(&self.winners);
        self.winners.in_order(|_, one| {
            let path =
                dialect::of(self.dialects, one.precedence.kind).map(|dialect| (dialect.competition.rank)(&order, one));
            order.rank(path, one)
        })
    }
}

/// Returns the unit of the first namespace from which a foreign path would take requests, if any: a prefix with the same text. A foreign
/// regular expression is never reached behind `/`.
fn taken<'a>(path: &PathMatch, prefixes: &BTreeMap<&str, Contender<'a>>) -> Option<Contender<'a>> {
    let text = match path {
        PathMatch::Exact(text) | PathMatch::SeparatedPrefix(text) | PathMatch::Prefix(text) => {
            text.trim_end_matches('/')
        }
        PathMatch::Regex(_) => "",
    };
    prefixes.get(text).copied()
}

fn too_expensive(one: &Contender, host: &Host, limit: &str, dialect: &Dialect) -> Problem {
    let what = match one.unit.path() {
        PathMatch::Regex(text) => format!("regular expression {text:?} exceeds"),
        _ => "the regular expressions exceed".to_owned(),
    };
    Problem {
        object: one.unit.route.origin.clone(),
        field: format!("{}{}", one.unit.field, dialect.competition.field_of_path),
        reason: Reason::RegexTooExpensive,
        message: format!("{what} the limit of host \"{host}\": {limit}"),
        consequence: format!("{} left out", dialect.competition.name),
    }
}
