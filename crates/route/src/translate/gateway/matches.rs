//! Matches of HTTPRoutes.

use crate::model::{Conditions, HeaderMatch, HeaderName, Match, PathMatch, QueryMatch, ValueMatch};
use crate::objects::gateway::{HttpMatch, NamedMatch};
use crate::re2::{Cost, Rejection};
use crate::translate::patterns::Patterns;
use crate::translate::problem::Reason;

/// The fault of a match.
#[derive(Debug)]
pub struct MatchFault {
    /// The path of the field below the match, such as `.path`.
    pub field: String,
    /// The reason of the problem.
    pub reason: Reason,
    /// The fault, with values in quotes: lower case, no full stop.
    pub message: String,
}

impl MatchFault {
    fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), reason: Reason::RouteMatchNotValid, message: message.into() }
    }
}

/// Methods that a match may name. Source: Gateway API v1, `HTTPMethod`.
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/// Parses a match. Returns it with the cost of all its regular expressions.
pub fn parse(one: &HttpMatch, patterns: &mut Patterns) -> Result<(Match, Cost), MatchFault> {
    let mut cost = Cost::default();
    let path = path(one, patterns, &mut cost)?;
    if let Some(method) = one.method.as_deref().filter(|method| !METHODS.contains(method)) {
        return Err(MatchFault::new(".method", format!("method {method:?} is not known")));
    }
    let mut headers = Vec::<HeaderMatch>::new();
    for (index, header) in one.headers.iter().enumerate() {
        let field = format!(".headers[{index}]");
        let Some(name) = HeaderName::parse(&header.name) else {
            let message = format!("{:?} is not the name of a header that can be matched", header.name);
            return Err(MatchFault::new(format!("{field}.name"), message));
        };
        let value = value(header, &field, patterns, &mut cost)?;
        // If a match has two conditions on one header, the first condition applies. Source: Gateway API v1,
        // `HTTPHeaderMatch.name`.
        if headers.iter().all(|other| other.name != name) {
            headers.push(HeaderMatch { name, value, inverted: false, missing_is_empty: false });
        }
    }
    let mut query = Vec::<QueryMatch>::new();
    for (index, parameter) in one.query_params.iter().enumerate() {
        let field = format!(".queryParams[{index}]");
        if parameter.name.is_empty() || parameter.name.len() > 1024 {
            let message = "the name is empty or longer than 1024 bytes";
            return Err(MatchFault::new(format!("{field}.name"), message));
        }
        let value = value(parameter, &field, patterns, &mut cost)?;
        if query.iter().all(|other| *other.name != *parameter.name) {
            query.push(QueryMatch { name: parameter.name.as_str().into(), value: Some(value) });
        }
    }
    let method = one.method.as_deref().map(Into::into);
    Ok((Match::new(path, Conditions { method, headers, query, share: None }), cost))
}

fn path(one: &HttpMatch, patterns: &mut Patterns, cost: &mut Cost) -> Result<PathMatch, MatchFault> {
    let path = one.path.as_ref();
    let text = path.and_then(|path| path.value.as_deref()).unwrap_or("/");
    let fault = |message: String| MatchFault::new(".path", message);
    let kind = path.and_then(|path| path.r#type.as_deref()).unwrap_or("PathPrefix");
    if kind == "RegularExpression" {
        return regex(text, ".path", patterns, cost).map(|()| PathMatch::Regex(text.into()));
    }
    if !text.starts_with('/') || text.chars().any(char::is_control) {
        return Err(fault(format!("path {text:?} does not start with \"/\", or has a control character")));
    }
    match kind {
        "Exact" => Ok(PathMatch::Exact(text.into())),
        "PathPrefix" => Ok(match text.trim_end_matches('/') {
            "" => PathMatch::root(),
            elements if elements.contains(['?', '#']) => {
                return Err(fault(format!("path {text:?} has a character that is not part of paths")));
            }
            elements => PathMatch::SeparatedPrefix(elements.into()),
        }),
        other => Err(fault(format!("type {other:?} is not known"))),
    }
}

fn value(one: &NamedMatch, field: &str, patterns: &mut Patterns, cost: &mut Cost) -> Result<ValueMatch, MatchFault> {
    match one.r#type.as_deref().unwrap_or("Exact") {
        "Exact" => Ok(ValueMatch::exact(&one.value)),
        "RegularExpression" => regex(&one.value, &format!("{field}.value"), patterns, cost)
            .map(|()| ValueMatch::Regex(one.value.as_str().into())),
        other => Err(MatchFault::new(format!("{field}.type"), format!("type {other:?} is not known"))),
    }
}

/// Checks a regular expression, and adds its cost.
fn regex(text: &str, field: &str, patterns: &mut Patterns, cost: &mut Cost) -> Result<(), MatchFault> {
    let fault = |message: String| MatchFault::new(field, format!("regular expression {text:?} {message}"));
    if text.is_empty() {
        return Err(fault("is empty".to_owned()));
    }
    let added = patterns.cost(text).map_err(|rejection| match rejection {
        Rejection::Invalid(why) => fault(format!("is not accepted by Envoy: {why}")),
        Rejection::TooExpensive(why) => {
            MatchFault { reason: Reason::RegexTooExpensive, ..fault(format!("would take Envoy too long: {why}")) }
        }
    })?;
    cost.size = cost.size.saturating_add(added.size);
    cost.steps = cost.steps.saturating_add(added.steps);
    Ok(())
}
