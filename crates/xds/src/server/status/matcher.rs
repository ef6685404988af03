//! The selection of clients in a status request: `envoy.type.matcher.v3.NodeMatcher`.

use envoy_types::pb::envoy::r#type::matcher::v3 as matcher_v3;
use matcher_v3::struct_matcher::path_segment::Segment;
use matcher_v3::{double_matcher, list_matcher, string_matcher, value_matcher};
use regex::Regex;
use serde_json::{Map, Value};

/// A validated matcher. A request with several matchers selects the clients that match any of them.
pub(super) struct NodeMatcher {
    id: Option<Text>,
    metadata: Vec<(Vec<String>, Metadata)>,
}

enum Text {
    Exact(String, Case),
    Prefix(String, Case),
    Suffix(String, Case),
    Contains(String, Case),
    Regex(Regex),
}

#[derive(Clone, Copy)]
struct Case {
    ignored: bool,
}

enum Metadata {
    Null,
    Exact(f64),
    Range(f64, f64),
    Text(Text),
    Bool(bool),
    Present(bool),
    OneOf(Box<Metadata>),
    Or(Vec<Metadata>),
}

impl NodeMatcher {
    /// Validates a matcher.
    ///
    /// # Errors
    /// The fault, with the path of its field.
    pub fn parse(matcher: matcher_v3::NodeMatcher) -> Result<Self, String> {
        let id = matcher.node_id.map(Text::parse).transpose().map_err(|problem| format!("node_id: {problem}"))?;
        let mut metadata = Vec::new();
        for (i, matcher) in matcher.node_metadatas.into_iter().enumerate() {
            let at = |problem: String| format!("node_metadatas[{i}].{problem}");
            let keys = matcher.path.into_iter().map(|segment| match segment.segment {
                Some(Segment::Key(key)) if !key.is_empty() => Ok(key),
                _ => Err(at("path: a segment without key".to_owned())),
            });
            let path = keys.collect::<Result<Vec<_>, _>>()?;
            if path.is_empty() {
                return Err(at("path: must not be empty".to_owned()));
            }
            let value = matcher.value.ok_or_else(|| at("value: is missing".to_owned()))?;
            metadata.push((path, Metadata::parse(value).map_err(|problem| at(format!("value: {problem}")))?));
        }
        Ok(Self { id, metadata })
    }

    /// Returns whether the matcher selects a node.
    pub fn matches(&self, id: &str, metadata: &Map<String, Value>) -> bool {
        self.id.as_ref().is_none_or(|matcher| matcher.matches(id))
            && self.metadata.iter().all(|(path, matcher)| matcher.matches(at(metadata, path)))
    }
}

fn at<'a>(metadata: &'a Map<String, Value>, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(metadata.get(first)?, |value, key| value.get(key))
}

impl Text {
    fn parse(matcher: matcher_v3::StringMatcher) -> Result<Self, String> {
        use string_matcher::MatchPattern;
        let case = Case { ignored: matcher.ignore_case };
        match matcher.match_pattern {
            Some(MatchPattern::Exact(text)) => Ok(Self::Exact(text, case)),
            Some(MatchPattern::Prefix(text)) => Ok(Self::Prefix(text, case)),
            Some(MatchPattern::Suffix(text)) => Ok(Self::Suffix(text, case)),
            Some(MatchPattern::Contains(text)) => Ok(Self::Contains(text, case)),
            Some(MatchPattern::SafeRegex(regex)) => {
                let whole = Regex::new(&format!("^(?:{})$", regex.regex));
                whole.map(Self::Regex).map_err(|error| format!("safe_regex: {error}"))
            }
            Some(MatchPattern::Custom(_)) => Err("custom: is not supported".to_owned()),
            None => Err("no pattern is set".to_owned()),
        }
    }

    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Exact(pattern, case) => case.of(text) == case.of(pattern),
            Self::Prefix(pattern, case) => case.of(text).starts_with(&*case.of(pattern)),
            Self::Suffix(pattern, case) => case.of(text).ends_with(&*case.of(pattern)),
            Self::Contains(pattern, case) => case.of(text).contains(&*case.of(pattern)),
            Self::Regex(regex) => regex.is_match(text),
        }
    }
}

impl Case {
    fn of(self, text: &str) -> std::borrow::Cow<'_, str> {
        if self.ignored { text.to_ascii_lowercase().into() } else { text.into() }
    }
}

impl Metadata {
    fn parse(matcher: matcher_v3::ValueMatcher) -> Result<Self, String> {
        use value_matcher::MatchPattern;
        match matcher.match_pattern {
            Some(MatchPattern::NullMatch(_)) => Ok(Self::Null),
            Some(MatchPattern::DoubleMatch(number)) => match number.match_pattern {
                Some(double_matcher::MatchPattern::Exact(number)) => Ok(Self::Exact(number)),
                Some(double_matcher::MatchPattern::Range(range)) => Ok(Self::Range(range.start, range.end)),
                None => Err("double_match: no pattern is set".to_owned()),
            },
            Some(MatchPattern::StringMatch(text)) => {
                Text::parse(text).map(Self::Text).map_err(|problem| format!("string_match: {problem}"))
            }
            Some(MatchPattern::BoolMatch(value)) => Ok(Self::Bool(value)),
            Some(MatchPattern::PresentMatch(value)) => Ok(Self::Present(value)),
            Some(MatchPattern::ListMatch(list)) => match list.match_pattern {
                Some(list_matcher::MatchPattern::OneOf(inner)) => Ok(Self::OneOf(Box::new(Self::parse(*inner)?))),
                None => Err("list_match: no pattern is set".to_owned()),
            },
            Some(MatchPattern::OrMatch(or)) => {
                or.value_matchers.into_iter().map(Self::parse).collect::<Result<_, _>>().map(Self::Or)
            }
            None => Err("no pattern is set".to_owned()),
        }
    }

    fn matches(&self, value: Option<&Value>) -> bool {
        match self {
            Self::Null => value.is_some_and(Value::is_null),
            Self::Exact(number) => value.and_then(Value::as_f64) == Some(*number),
            Self::Range(start, end) => {
                value.and_then(Value::as_f64).is_some_and(|number| *start <= number && number < *end)
            }
            Self::Text(text) => value.and_then(Value::as_str).is_some_and(|value| text.matches(value)),
            Self::Bool(expected) => value.and_then(Value::as_bool) == Some(*expected),
            Self::Present(expected) => {
                value.is_some_and(|value| !value.is_object() && !value.is_array() && !value.is_null()) == *expected
            }
            Self::OneOf(inner) => {
                value.and_then(Value::as_array).is_some_and(|list| list.iter().any(|item| inner.matches(Some(item))))
            }
            Self::Or(inner) => inner.iter().any(|matcher| matcher.matches(value)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::protobuf;

    fn matcher(json: Value) -> Result<NodeMatcher, String> {
        let mut json = json;
        json["@type"] = "type.googleapis.com/envoy.type.matcher.v3.NodeMatcher".into();
        let message = protobuf::from_json(&json).unwrap().message;
        NodeMatcher::parse(prost::Message::decode(&message[..]).unwrap())
    }

    fn matches(json: Value) -> bool {
        let metadata =
            serde_json::json!({"zone": "a", "weight": 7, "canary": true, "in": {"ns": "shop"}, "l": [1, "x"]});
        matcher(json).unwrap().matches("envoy-7.shop", metadata.as_object().unwrap())
    }

    #[test]
    fn ids() {
        for (pattern, expected) in [
            (r#"{"exact": "envoy-7.shop"}"#, true),
            (r#"{"exact": "envoy-7"}"#, false),
            (r#"{"exact": "ENVOY-7.shop"}"#, false),
            (r#"{"exact": "ENVOY-7.shop", "ignore_case": true}"#, true),
            (r#"{"prefix": "envoy-"}"#, true),
            (r#"{"suffix": ".shop"}"#, true),
            (r#"{"suffix": ".Shop"}"#, false),
            (r#"{"contains": "-7."}"#, true),
            (r#"{"safe_regex": {"regex": "envoy-[0-9]+\\.shop"}}"#, true),
            (r#"{"safe_regex": {"regex": "envoy-[0-9]+"}}"#, false),
        ] {
            let pattern: Value = serde_json::from_str(pattern).unwrap();
            assert_eq!(matches(serde_json::json!({"node_id": pattern})), expected, "{pattern}");
        }
    }

    #[test]
    fn metadata() {
        for (path, value, expected) in [
            (&["zone"][..], r#"{"string_match": {"exact": "a"}}"#, true),
            (&["zone"], r#"{"string_match": {"exact": "b"}}"#, false),
            (&["in", "ns"], r#"{"string_match": {"prefix": "sh"}}"#, true),
            (&["in"], r#"{"present_match": true}"#, false),
            (&["none"], r#"{"present_match": true}"#, false),
            (&["zone"], r#"{"present_match": true}"#, true),
            (&["weight"], r#"{"double_match": {"exact": 7}}"#, true),
            (&["weight"], r#"{"double_match": {"range": {"start": 1, "end": 7}}}"#, false),
            (&["canary"], r#"{"bool_match": true}"#, true),
            (&["zone"], r#"{"null_match": {}}"#, false),
            (&["l"], r#"{"list_match": {"one_of": {"string_match": {"exact": "x"}}}}"#, true),
            (
                &["weight"],
                r#"{"or_match": {"value_matchers": [{"bool_match": true}, {"double_match": {"exact": 7}}]}}"#,
                true,
            ),
        ] {
            let value: Value = serde_json::from_str(value).unwrap();
            let path: Vec<Value> = path.iter().map(|key| serde_json::json!({"key": key})).collect();
            let json = serde_json::json!({"node_metadatas": [{"path": path, "value": value}]});
            assert_eq!(matches(json.clone()), expected, "{json}");
        }
    }

    #[test]
    fn an_invalid_matcher_is_named() {
        let problem = |json| matcher(json).err().unwrap();
        assert_eq!(problem(serde_json::json!({"node_id": {}})), "node_id: no pattern is set");
        assert!(
            problem(serde_json::json!({"node_id": {"safe_regex": {"regex": "("}}}))
                .starts_with("node_id: safe_regex: ")
        );
        assert_eq!(problem(serde_json::json!({"node_metadatas": [{}]})), "node_metadatas[0].path: must not be empty");
    }
}
