//! The conditions of HTTPRoutes on methods, headers, and query parameters.

use std::cmp::Reverse;

use lockgate_route::model::{Conditions, HeaderMatch, HeaderName, Match, QueryMatch, ValueMatch, ValuePart};
use serde_json::{Map, Value, json};

use super::paths::regex_escape;

// Limits of HTTPRoutes. Source: Gateway API v1, `HTTPRouteMatch`, `HTTPHeaderMatch`, and `HTTPQueryParamMatch`.
const MOST: usize = 16;
const LONGEST_HEADER: usize = 4096;
const LONGEST_PARAMETER: usize = 1024;
const LONGEST_NAME: usize = 256;
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/// Conditions in addition to the path.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OtherConditions {
    /// The fields of a match: `method`, `headers`, and `queryParams`.
    pub fields: Map<String, Value>,
}

impl OtherConditions {
    /// Returns the conditions of a match, or the condition that HTTPRoutes do not have.
    pub fn new(matches: &Match) -> Result<Self, String> {
        let mut fields = Map::new();
        let Some(Conditions { method, headers, query, share }) = matches.conditions() else {
            return Ok(Self { fields });
        };
        if share.is_some() {
            return Err("HTTPRoutes do not match a share of the requests".to_owned());
        }
        if let Some(method) = method {
            if !METHODS.contains(&&**method) {
                return Err(format!("HTTPRoutes do not match the method {method:?}"));
            }
            fields.insert("method".to_owned(), json!(**method));
        }
        let headers = list(headers.iter().map(|one| (one.name.as_str(), header(one))))?;
        let query = list(query.iter().map(|one| (&*one.name, parameter(one))))?;
        for (name, list) in [("headers", headers), ("queryParams", query)] {
            if !list.is_empty() {
                fields.insert(name.to_owned(), Value::Array(list));
            }
        }
        Ok(Self { fields })
    }

    /// Returns the rank among the matches of a path: a method, more headers, and more query parameters come first. Source: Gateway
    /// API v1, `HTTPRouteRule.matches`.
    pub fn rank(&self) -> (bool, Reverse<usize>, Reverse<usize>) {
        (
            !self.fields.contains_key("method"),
            Reverse(self.list("headers").len()),
            Reverse(self.list("queryParams").len()),
        )
    }

    /// Returns whether no request meets both conditions.
    pub fn excludes(&self, other: &Self) -> bool {
        let differs = |one: &Value, other: &Value| {
            let is_exact = |one: &Value| one["type"] == "Exact";
            one["name"] == other["name"] && is_exact(one) && is_exact(other) && one["value"] != other["value"]
        };
        let methods = (self.fields.get("method"), other.fields.get("method"));
        let by_method = matches!(methods, (Some(one), Some(other)) if one != other);
        let by_list = |name| self.list(name).iter().any(|one| other.list(name).iter().any(|other| differs(one, other)));
        by_method || by_list("headers") || by_list("queryParams")
    }

    fn list(&self, name: &str) -> &[Value] {
        self.fields.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Returns conditions with their names. A name may occur once: of several conditions, HTTPRoutes consider the first.
fn list<'a>(conditions: impl Iterator<Item = (&'a str, Result<Value, String>)>) -> Result<Vec<Value>, String> {
    let mut list = Vec::<Value>::new();
    for (name, condition) in conditions {
        let mut condition = condition?;
        if list.iter().any(|other| other["name"] == name) {
            return Err(format!("HTTPRoutes have one condition on {name:?}, not several"));
        }
        if name.len() > LONGEST_NAME || list.len() == MOST {
            return Err(format!("HTTPRoutes have at most {MOST} conditions, with names of {LONGEST_NAME} characters"));
        }
        condition["name"] = json!(name);
        list.push(condition);
    }
    Ok(list)
}

fn header(condition: &HeaderMatch) -> Result<Value, String> {
    let HeaderMatch { name, value, inverted, missing_is_empty } = condition;
    if name.as_str() == HeaderName::METHOD {
        return Err("HTTPRoutes match one method, without operators".to_owned());
    }
    if *inverted {
        return Err(format!("HTTPRoutes have no negative condition on header {name:?}", name = name.as_str()));
    }
    // A missing header meets no condition on a text that is not empty.
    if *missing_is_empty && !matches!(value, ValueMatch::Text { text, .. } if !text.is_empty()) {
        return Err(format!("HTTPRoutes do not treat a missing header {name:?} as empty", name = name.as_str()));
    }
    matched(value, name.as_str(), LONGEST_HEADER)
}

fn parameter(condition: &QueryMatch) -> Result<Value, String> {
    let QueryMatch { name, value } = condition;
    let value = value.as_ref().ok_or(format!("HTTPRoutes have no negative condition on query parameter {name:?}"))?;
    matched(value, name, LONGEST_PARAMETER)
}

fn matched(value: &ValueMatch, name: &str, longest: usize) -> Result<Value, String> {
    let (kind, text) = match value {
        ValueMatch::Text { text, .. } if text.is_empty() => {
            return Err(format!("HTTPRoutes do not match an empty value of {name:?}"));
        }
        ValueMatch::Text { part: ValuePart::Whole, text, ignores_case: false } => ("Exact", text.to_string()),
        ValueMatch::Text { part, text, ignores_case } => {
            let (flags, text) = (if *ignores_case { "(?i)" } else { "" }, regex_escape(text));
            let text = match part {
                ValuePart::Whole => format!("{flags}{text}"),
                ValuePart::Start => format!("{flags}{text}.*"),
                ValuePart::End => format!("{flags}.*{text}"),
            };
            ("RegularExpression", text)
        }
        ValueMatch::Present => ("RegularExpression", ".*".to_owned()),
        ValueMatch::Regex(text) => ("RegularExpression", text.to_string()),
    };
    match text.len() <= longest {
        true => Ok(json!({ "type": kind, "value": text })),
        false => Err(format!("the condition on {name:?} is longer than HTTPRoutes permit, {longest} characters")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use lockgate_route::model::PathMatch;

    use super::*;

    fn with(headers: Vec<HeaderMatch>) -> Match {
        Match::new(PathMatch::root(), Conditions { headers, ..Conditions::default() })
    }

    fn named(name: &str, value: ValueMatch) -> HeaderMatch {
        HeaderMatch { name: HeaderName::parse(name).unwrap(), value, inverted: false, missing_is_empty: false }
    }

    #[test]
    fn conditions_that_would_match_more_requests_are_refused() {
        let exact = named("a", ValueMatch::exact("1"));
        let inverted = HeaderMatch { inverted: true, ..exact.clone() };
        let twice = vec![exact.clone(), named("a", ValueMatch::Present)];
        let missing = HeaderMatch { missing_is_empty: true, ..named("a", ValueMatch::Regex(".*".into())) };
        for refused in [vec![inverted], twice, vec![missing], vec![named("a", ValueMatch::exact(""))]] {
            assert!(OtherConditions::new(&with(refused)).is_err());
        }
        let kept = HeaderMatch { missing_is_empty: true, ..exact };
        let fields = OtherConditions::new(&with(vec![kept])).unwrap().fields;
        assert_eq!(json!(fields), json!({ "headers": [{ "name": "a", "type": "Exact", "value": "1" }] }));
    }

    #[test]
    fn different_values_of_a_header_exclude_each_other() {
        let of = |value: &str| OtherConditions::new(&with(vec![named("a", ValueMatch::exact(value))])).unwrap();
        assert!(of("1").excludes(&of("2")) && !of("1").excludes(&of("1")));
        assert!(!of("1").excludes(&OtherConditions::default()));
        assert!(of("1").rank() < OtherConditions::default().rank());
    }
}
