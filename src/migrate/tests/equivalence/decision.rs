//! The decision of Envoy on a request, from a model.

use std::collections::BTreeMap;

use lockgate_route::model::{
    Action, Conditions, Host, Match, Model, Others, PathMatch, Route, ValueMatch, ValuePart, VirtualHostRoutes,
};
use regex::Regex;

/// A request. Its server name is the host.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub name: &'a str,
    pub path: &'a str,
    pub is_tls: bool,
    pub headers: &'a [(&'a str, &'a str)],
}

/// The result of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// The connection is closed.
    Closed,
    /// No host or route matches.
    Nothing,
    /// A route serves the request.
    Route(Action),
}

impl Decision {
    /// Returns the status if Envoy itself answers. Misdirected requests count as requests without a route.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Nothing => Some(404),
            Self::Route(Action::Respond { status, .. }) => Some(*status),
            _ => None,
        }
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Route(Action::Forward(_)) => "forward",
            Self::Route(Action::Redirect(_)) => "redirect",
            Self::Nothing | Self::Route(Action::Respond { .. }) => "respond",
        }
    }
}

/// Returns the decision on a listener, and the pattern of the host that made it. With a default certificate, the hosts of
/// the listener `plain` are answered 404 unless they are behind TLS.
pub fn decide(model: &Model, listener: &str, request: Request, plain: Option<&str>) -> (Decision, Option<String>) {
    if !request.is_tls {
        let none = BTreeMap::new();
        let hosts = model.plain(listener).map_or(&none, |plain| &plain.hosts);
        return of_hosts(hosts, request);
    }
    let Some(tls) = model.tls(listener) else { return (Decision::Closed, None) };
    let refused: BTreeMap<Host, ()> = tls.refused.iter().map(|host| (host.clone(), ())).collect();
    let names: BTreeMap<Host, ()> = tls.hosts.keys().map(|host| (host.clone(), ())).collect();
    let (found, closed) = (best(&names, request.name), best(&refused, request.name));
    let Some((pattern, ())) = found else { return (Decision::Closed, None) };
    if closed.is_some_and(|(closed, ())| closed <= pattern) {
        return (Decision::Closed, Some(pattern.to_string()));
    }
    let host = &tls.hosts[pattern];
    if *pattern == Host::Any
        && let Some(plain) = plain.and_then(|plain| model.plain(plain))
        && best(&plain.hosts, request.name).is_some_and(|(host, _)| *host != Host::Any)
    {
        return (Decision::Nothing, Some(pattern.to_string()));
    }
    let virtual_hosts: BTreeMap<Host, VirtualHostRoutes> =
        host.virtual_hosts.iter().map(|(host, content)| (host.clone(), content.clone())).collect();
    let (decision, _) = of_hosts(&virtual_hosts, request);
    assert!(matches!(host.others, Others::Misdirected | Others::NotFound));
    (decision, Some(pattern.to_string()))
}

fn of_hosts(hosts: &BTreeMap<Host, VirtualHostRoutes>, request: Request) -> (Decision, Option<String>) {
    let Some((pattern, host)) = best(hosts, request.name) else { return (Decision::Nothing, None) };
    let is_one_label = match pattern {
        Host::Wildcard(suffix) => request.name.split_once('.').is_some_and(|(_, rest)| *rest == **suffix),
        Host::Exact(_) | Host::Any => true,
    };
    let of_labels = if is_one_label { &host.routes[..] } else { host.for_several_labels() };
    let route = first(of_labels.iter().map(AsRef::as_ref), request);
    (route.map_or(Decision::Nothing, |route| Decision::Route(route.action.clone())), Some(pattern.to_string()))
}

/// Returns the first route that takes a request.
pub fn first<'m>(mut routes: impl Iterator<Item = &'m Route>, request: Request) -> Option<&'m Route> {
    routes.find(|route| matches(&route.matches.path, request.path) && meets(&route.matches, request.headers))
}

/// Returns whether a request meets the conditions on headers.
fn meets(matches: &Match, headers: &[(&str, &str)]) -> bool {
    let Some(Conditions { method, headers: conditions, query, share }) = matches.conditions() else { return true };
    assert!(method.is_none() && query.is_empty() && share.is_none());
    conditions.iter().all(|condition| {
        let found = headers.iter().find(|(name, _)| *name == condition.name.as_str()).map(|(_, value)| *value);
        let found = found.or_else(|| condition.missing_is_empty.then_some(""));
        let is_met = found.is_some_and(|value| match &condition.value {
            ValueMatch::Present => true,
            ValueMatch::Text { part, text, ignores_case } => {
                assert!(!ignores_case, "no condition of the test does");
                match part {
                    ValuePart::Whole => **text == *value,
                    ValuePart::Start => value.starts_with(&**text),
                    ValuePart::End => value.ends_with(&**text),
                }
            }
            ValueMatch::Regex(text) => Regex::new(&format!("^(?:{text})$")).unwrap().is_match(value),
        });
        match (condition.inverted, &condition.value) {
            (false, _) => is_met,
            (true, ValueMatch::Present) => found.is_none(),
            (true, _) => found.is_some() && !is_met,
        }
    })
}

/// Returns the most specific host that `name` matches. In Envoy, a wildcard matches several labels.
pub fn best<'m, T>(hosts: &'m BTreeMap<Host, T>, name: &str) -> Option<(&'m Host, &'m T)> {
    let suffixes = name.match_indices('.').map(|(at, _)| Host::Wildcard(name[at + 1..].into()));
    let patterns = [Host::Exact(name.into())].into_iter().chain(suffixes).chain([Host::Any]);
    patterns.into_iter().find_map(|pattern| hosts.get_key_value(&pattern))
}

fn matches(pattern: &PathMatch, path: &str) -> bool {
    match pattern {
        PathMatch::Exact(text) => **text == *path,
        PathMatch::Regex(text) => Regex::new(&format!("^(?:{text})$")).unwrap().is_match(path),
        PathMatch::SeparatedPrefix(text) => {
            path.strip_prefix(&**text).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }
        PathMatch::Prefix(text) => path.starts_with(&**text),
    }
}
