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
use super::source::Source;
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
    dialect: &'static Dialect,
}

impl<'a> Contender<'a> {
    /// Returns the namespace of its object.
    pub fn namespace(&self) -> &'a Arc<str> {
        &self.precedence.key.namespace
    }
}

/// The units for one host that won their match.
#[derive(Debug, Default)]
pub struct Rules<'a>(Merged<'a, Contender<'a>>);

impl<'a> Rules<'a> {
    /// Merges the units of several objects for `host`. The first of several equal matches wins. The problem of another one depends on
    /// its dialect. Regular expressions beyond `limits` are left out.
    ///
    /// `sources` are in the order of precedence, except that those of one namespace, the owner of the host, may precede others. The first
    /// namespace of the host is that of the first source with a unit. `units_of` returns the units of a source for the host.
    pub fn merge<U: Iterator<Item = &'a Unit>>(
        host: &Host,
        sources: &[&'a Source],
        units_of: impl Fn(&'a Source) -> U,
        dialects: &'static [Dialect],
        limits: &Regexes,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let mut winners = Merged::default();
        let mut expensive = Vec::new();
        // The prefixes of the first namespace, without a trailing slash.
        let mut prefixes = BTreeMap::<&str, Contender>::new();
        for one in contenders(sources, units_of, dialects) {
            let (path, competition) = (one.unit.path(), &one.dialect.competition);
            let is_guarded = competition.guards_prefixes;
            let winner = if is_guarded && one.is_foreign { taken(path, &prefixes) } else { None };
            let winner = winner.or_else(|| winners.offer(one.unit.matches(), one).err().copied());
            if let Some(winner) = winner {
                problems.extend((competition.conflict)(&one, host, &winner));
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
        let mut rules = Self(winners);
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
                    self.0.remove(one.unit.matches());
                    problems.push(too_expensive(&one, host, &limit));
                }
            }
        }
    }

    /// Returns the winners in no particular order.
    pub fn winners(&self) -> impl Iterator<Item = &Contender<'a>> + Clone {
        self.0.winners()
    }

    /// Returns the winners in the order in which their matches are tried.
    pub fn in_order(&self) -> Vec<&Contender<'a>> {
        let order = Order::new(&self.0);
        self.0.in_order(|_, one| order.rank((one.dialect.competition.rank)(&order, one), one))
    }
}

/// Returns the units of several objects, in the order of the objects.
fn contenders<'a, U: Iterator<Item = &'a Unit>>(
    sources: &[&'a Source],
    units_of: impl Fn(&'a Source) -> U,
    dialects: &'static [Dialect],
) -> impl Iterator<Item = Contender<'a>> {
    let first = sources.iter().find(|source| units_of(source).next().is_some());
    let first = first.map(|source| &source.origin.namespace);
    sources.iter().flat_map(move |&source| {
        let (precedence, is_foreign) = (&source.precedence, Some(&source.origin.namespace) != first);
        let dialect = dialect::of(dialects, precedence.kind);
        units_of(source).filter_map(move |unit| Some(Contender { precedence, unit, is_foreign, dialect: dialect? }))
    })
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

fn too_expensive(one: &Contender, host: &Host, limit: &str) -> Problem {
    let competition = &one.dialect.competition;
    let what = match one.unit.path() {
        PathMatch::Regex(text) => format!("regular expression {text:?} exceeds"),
        _ => "the regular expressions exceed".to_owned(),
    };
    Problem {
        object: one.unit.route.origin.clone(),
        field: format!("{}{}", one.unit.field, competition.field_of_path),
        reason: Reason::RegexTooExpensive,
        message: format!("{what} the limit of host \"{host}\": {limit}").into(),
        consequence: format!("{} left out", competition.name),
    }
}
