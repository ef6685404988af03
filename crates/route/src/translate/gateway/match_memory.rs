//! The memory that the matches of a route take in an Envoy, which has a copy for each host on each listener.

use super::http_route::Candidate;
use super::parser::Content;
use crate::model::{Action, Forward, ForwardFilter, Match, PathMatch, PathRewrite, Rewrite, Route, ValueMatch};
use crate::re2::Cost;

/// The memory of a host on a listener without its routes. All figures are in bytes, measured with Envoy 1.40 and rounded up.
const HOST: u64 = 4 << 10;
/// The memory of a server name of a listener for TLS, TCP, or UDP, without key pairs.
const CONNECTIONS: u64 = 12 << 10;
/// The memory of an ordinary key pair in a filter chain.
const KEY_PAIR: u64 = 32 << 10;
/// The memory of a match without its texts, with an action.
const MATCH: u64 = 2 << 10;
/// The further memory of a match that Envoy receives by VHDS. Envoy keeps these messages in addition to the routes.
const BY_VHDS: u64 = 1 << 10;
/// The memory of a condition on a header or a query parameter without its texts, and of a mirror or a session.
const ITEM: u64 = 512;
/// The memory of a further cluster.
const CLUSTER: u64 = 1 << 10;
/// The memory of a byte of a text. Envoy has the text in its configuration, and in the parsed form.
const TEXT: u64 = 4;
/// The memory of a regular expression, which Envoy compiles for each copy.
const PATTERN: u64 = 1 << 10;
/// The memory of an instruction of a regular expression.
const INSTRUCTION: u64 = 32;
/// The memory of a step of the automaton of a regular expression. Requests cause Envoy to build it for each copy.
const STEP: u64 = 4;

/// Returns the memory of the content of a route on one host of one listener. If the listener decrypts connections, each host has a
/// copy of its key pairs.
pub fn of_content(content: &Content, pair_memory: u64) -> u64 {
    match content {
        Content::Http(candidates) => candidates.iter().map(of_candidate).fold(HOST, u64::saturating_add),
        Content::Stream { .. } => CONNECTIONS.saturating_add(pair_memory),
    }
}

/// Returns the part of [`of_content`] that is proportional to the size of the route: its matches, and one action of each rule.
/// Envoy has the backends and mirrors of a rule once for each match. The key pairs belong to the listener; one ordinary pair is part
/// of the first copy.
pub fn proportional_to_size(content: &Content, pair_memory: u64) -> u64 {
    let mut last = None;
    let repeated = |candidate: &Candidate| -> u64 {
        let is_repeated = last.replace(candidate.rule) == Some(candidate.rule);
        if is_repeated { candidate.routes().map(|route| of_action(route)).sum() } else { 0 }
    };
    let repeated: u64 = match content {
        Content::Http(candidates) => candidates.iter().map(repeated).sum(),
        Content::Stream { .. } => 0,
    };
    of_content(content, pair_memory.min(KEY_PAIR)).saturating_sub(repeated)
}

fn of_candidate(candidate: &Candidate) -> u64 {
    candidate.routes().map(|route| (BY_VHDS + of_route(route, candidate.cost)) * u64::from(route.copies())).sum()
}

/// Returns the memory of a copy of a route in a route configuration. Its regular expressions have this cost.
pub fn of_route(route: &Route, Cost { size, steps }: Cost) -> u64 {
    let patterns = match size {
        0 => 0,
        size => PATTERN + INSTRUCTION * u64::from(size) + STEP * u64::from(steps),
    };
    MATCH + patterns + of_match(&route.matches) + of_action(route)
}

fn of_match(matches: &Match) -> u64 {
    let (PathMatch::Exact(path) | PathMatch::Regex(path) | PathMatch::SeparatedPrefix(path) | PathMatch::Prefix(path)) =
        &matches.path;
    let conditions = matches.conditions();
    let headers = conditions.into_iter().flat_map(|conditions| &conditions.headers);
    let headers = headers.map(|header| of_condition(header.name.as_str(), Some(&header.value)));
    let query = conditions.into_iter().flat_map(|conditions| &conditions.query);
    let query = query.map(|parameter| of_condition(&parameter.name, parameter.value.as_ref()));
    of_text(path) + headers.chain(query).sum::<u64>()
}

fn of_condition(name: &str, value: Option<&ValueMatch>) -> u64 {
    let value = match value {
        Some(ValueMatch::Exact(text) | ValueMatch::Prefix(text) | ValueMatch::Regex(text)) => of_text(text),
        Some(ValueMatch::Present) | None => 0,
    };
    ITEM + of_text(name) + value
}

fn of_action(route: &Route) -> u64 {
    match &route.action {
        Action::Forward(forward) => of_forward(forward),
        Action::Redirect(redirect) => redirect.rewrite.as_deref().map_or(0, of_rewrite),
        Action::Respond { .. } => 0,
    }
}

fn of_forward(forward: &Forward) -> u64 {
    let filters = forward.filters.iter().map(|filter| match filter {
        ForwardFilter::Mirror(_) | ForwardFilter::Session(_) => ITEM,
        ForwardFilter::Rewrite(rewrite) => of_rewrite(rewrite),
        // `filter_memory` counts them.
        ForwardFilter::RequestHeaders(_) | ForwardFilter::Cors(_) | ForwardFilter::IdleTimeout(_) => 0,
    });
    CLUSTER * forward.clusters.len().saturating_sub(1) as u64 + filters.sum::<u64>()
}

fn of_rewrite(rewrite: &Rewrite) -> u64 {
    let path = rewrite.path.as_ref().map(|path| match path {
        PathRewrite::Prefix(text) | PathRewrite::Full(text) => text.as_str(),
    });
    let host = rewrite.host.as_ref().map(|host| host.as_str());
    host.into_iter().chain(path).map(of_text).sum()
}

fn of_text(text: &str) -> u64 {
    TEXT * text.len() as u64
}
