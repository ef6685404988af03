//! Compares a request with the conditions of routes, as Envoy does.

use std::borrow::Cow;

use regex::Regex;

use super::hosts::without_port;
use super::{Outcome, Request, path};
use crate::model::{
    ClusterId, HeaderMatch, HeaderName, Host, Match, PathMatch, QueryMatch, Route, SessionCookie, ValueMatch, ValuePart,
};
use crate::settings::{EscapedSlashes, Settings, Underscores};

/// A request in the form that Envoy compares with routes.
pub struct Compared<'r> {
    /// The host name in lower case, without a port.
    pub name: String,
    /// The normalized path without its query.
    pub path: String,
    method: &'r str,
    headers: Vec<(String, &'r str)>,
    /// The query parameters, in their order and not decoded.
    query: Vec<(&'r str, &'r str)>,
}

impl<'r> Compared<'r> {
    /// Applies the rules that precede routes. Errors: Envoy answers the request at once.
    pub fn new(request: &'r Request, settings: &Settings) -> Result<Self, Outcome<'static>> {
        let headers = headers(request, settings)?;
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        let chosen = settings.http.escaped_slashes;
        let is_escaped = path::has_escaped_slash(path) && chosen != EscapedSlashes::Keep;
        let redirects = chosen == EscapedSlashes::UnescapeAndRedirect;
        if is_escaped && (chosen == EscapedSlashes::Reject || redirects && is_grpc(&request.headers)) {
            return Err(Outcome::Answered(400, "the path has an escaped slash"));
        }
        let path = if is_escaped { path::unescape_slashes(path).into() } else { Cow::Borrowed(path) };
        let normal = path::normalize(&path).ok_or(Outcome::Answered(400, "the path cannot be normalized"))?;
        let path = if settings.http.merge_slashes { path::merge_slashes(&normal) } else { normal };
        if is_escaped && redirects {
            let query = if query.is_empty() { String::new() } else { format!("?{query}") };
            return Err(Outcome::RedirectedTo(path + &query));
        }
        let name = match settings.http.strip_trailing_host_dot {
            true => without_dot(&request.authority),
            false => request.authority.clone(),
        };
        let name = without_port(&name).to_ascii_lowercase();
        let parameters = query.split('&').filter(|parameter| !parameter.is_empty());
        let query = parameters.map(|parameter| parameter.split_once('=').unwrap_or((parameter, ""))).collect();
        Ok(Self { name, path, method: &request.method, headers, query })
    }

    /// Returns whether the host name has exactly one label below a wildcard. Other domains have no such condition.
    pub fn has_one_label_below(&self, domain: &Host) -> bool {
        let Host::Wildcard(suffix) = domain else { return true };
        let label = self.name.strip_suffix(&**suffix).and_then(|label| label.strip_suffix('.'));
        label.is_some_and(|label| !label.is_empty() && !label.contains(['.', ':']))
    }

    /// Returns whether the request meets all conditions except for a random share.
    pub fn meets(&self, matches: &Match) -> bool {
        let path = match &matches.path {
            PathMatch::Exact(path) => self.path == **path,
            PathMatch::Prefix(prefix) => self.path.starts_with(&**prefix),
            PathMatch::SeparatedPrefix(prefix) => {
                let rest = self.path.strip_prefix(&**prefix);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
            PathMatch::Regex(pattern) => matches_whole(pattern, &self.path),
        };
        path && matches.conditions().is_none_or(|conditions| {
            conditions.method.as_deref().is_none_or(|method| method == self.method)
                && conditions.headers.iter().all(|header| self.has_header(header))
                && conditions.query.iter().all(|parameter| self.has_parameter(parameter))
        })
    }

    /// Returns the cluster that a session cookie selects. Source: [`envoy::session`](crate::envoy), `by_cluster`.
    pub fn session<'a>(&self, route: &'a Route) -> Option<&'a ClusterId> {
        let (cookie, forward) = route.divided()?;
        let sent = self.cookie(&cookie.cluster_name())?;
        let mut clusters = forward.clusters.iter().map(|one| &one.cluster);
        clusters.find(|cluster| sent == SessionCookie::value_of(cluster))
    }

    fn has_header(&self, HeaderMatch { name, value, inverted, missing_is_empty }: &HeaderMatch) -> bool {
        let found = match name.as_str() {
            HeaderName::METHOD => Some(self.method.to_owned()),
            name => self.header(name),
        };
        match (found, value) {
            (found, ValueMatch::Present) => found.is_none() == *inverted,
            (None, value) => *missing_is_empty && is_met(value, "") != *inverted,
            (Some(found), value) => is_met(value, &found) != *inverted,
        }
    }

    /// Returns the value of a header. Envoy compares all values of a header as one.
    fn header(&self, name: &str) -> Option<String> {
        let values = self.headers.iter().filter(|(other, _)| other == name).map(|(_, value)| *value);
        let values: Vec<&str> = values.collect();
        (!values.is_empty()).then(|| values.join(","))
    }

    /// Returns the value of the first cookie with this name.
    fn cookie(&self, name: &str) -> Option<&'r str> {
        let headers = self.headers.iter().filter(|(header, _)| header == "cookie").map(|(_, value)| *value);
        let mut cookies = headers.flat_map(|header| header.split(';')).filter_map(|cookie| cookie.split_once('='));
        let (_, value) = cookies.find(|(other, _)| other.trim_start() == name)?;
        Some(value.strip_prefix('"').and_then(|quoted| quoted.strip_suffix('"')).unwrap_or(value))
    }

    fn has_parameter(&self, QueryMatch { name, value }: &QueryMatch) -> bool {
        let found = self.query.iter().find(|(other, _)| *other == &**name).map(|(_, value)| value);
        match (found, value) {
            (found, None) => found.is_none(),
            (None, Some(_)) => false,
            (Some(found), Some(value)) => is_met(value, found),
        }
    }
}

/// Returns whether Envoy answers a request with these headers like a gRPC server. Source: Envoy,
/// `Grpc::Common::hasGrpcContentType`.
pub fn is_grpc(headers: &[(String, String)]) -> bool {
    headers.iter().any(|(name, value)| {
        let rest = value.trim().strip_prefix("application/grpc");
        name.eq_ignore_ascii_case("content-type") && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('+'))
    })
}

/// Returns the headers that routes see.
fn headers<'r>(request: &'r Request, settings: &Settings) -> Result<Vec<(String, &'r str)>, Outcome<'static>> {
    let mut headers = Vec::new();
    for (name, value) in &request.headers {
        let name = name.to_ascii_lowercase();
        let is_untrusted = name.starts_with("x-envoy-") || settings.http.untrusted_headers.contains(&name);
        match settings.http.headers_with_underscores {
            Underscores::Reject if name.contains('_') => {
                return Err(Outcome::Answered(400, "a header has an underscore in its name"));
            }
            Underscores::Drop if name.contains('_') => {}
            _ if is_untrusted && settings.http.trusted_hops == 0 => {}
            _ => headers.push((name, value.trim())),
        }
    }
    let has = |headers: &[(String, &str)], name: &str| headers.iter().any(|(other, _)| other == name);
    // Envoy adds these headers to each request, and trusts no client with the scheme.
    if settings.http.trusted_hops == 0 || !has(&headers, "x-forwarded-proto") {
        headers.retain(|(name, _)| name != "x-forwarded-proto");
        headers.push(("x-forwarded-proto".to_owned(), if request.tls { "https" } else { "http" }));
    }
    for added in ["x-request-id", "x-forwarded-for"] {
        if !has(&headers, added) {
            headers.push((added.to_owned(), ""));
        }
    }
    Ok(headers)
}

/// Returns an authority without the dot at the end of its host.
fn without_dot(authority: &str) -> String {
    let host = without_port(authority);
    let port = &authority[host.len()..];
    format!("{}{port}", host.strip_suffix('.').unwrap_or(host))
}

fn is_met(value: &ValueMatch, text: &str) -> bool {
    match value {
        ValueMatch::Present => true,
        ValueMatch::Text { part, text: wanted, ignores_case } => {
            let case = |text: &str| if *ignores_case { text.to_ascii_lowercase() } else { text.to_owned() };
            let (text, wanted) = (case(text), case(wanted));
            match part {
                ValuePart::Whole => text == wanted,
                ValuePart::Start => text.starts_with(&wanted),
                ValuePart::End => text.ends_with(&wanted),
            }
        }
        ValueMatch::Regex(pattern) => matches_whole(pattern, text),
    }
}

/// Returns whether a pattern of RE2 matches a whole text. [`re2`](crate::re2) has accepted the pattern.
fn matches_whole(pattern: &str, text: &str) -> bool {
    Regex::new(&format!(r"\A(?:{pattern})\z")).is_ok_and(|regex| regex.is_match(text))
}
