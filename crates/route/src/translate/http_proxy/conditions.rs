//! The conditions of includes and routes.
//!
//! The conditions of a chain of includes apply together. Their paths are concatenated. A regular expression below an include is one
//! group behind the quoted prefix, so an alternative in it cannot leave the prefix.

use std::sync::Arc;

use crate::model::{Conditions, HeaderMatch, HeaderName, Match, PathMatch, QueryMatch, ValueMatch, ValuePart};
use crate::objects::http_proxy::{MatchCondition, ValueCondition};
use crate::re2::{Cost, Rejection};
use crate::translate::patterns::Patterns;

/// The longest path of a route, in bytes. Each route below an include has a copy of its prefix.
const LONGEST_PATH: usize = 4096;
/// The maximum number of conditions of a route on headers and query parameters.
const MOST: usize = 32;
/// The longest text of a condition, in bytes.
const LONGEST_TEXT: usize = 4096;

/// The reason of a condition on a path that is not valid.
pub const PATH: &str = "PathMatchConditionsNotValid";
const HEADER: &str = "HeaderMatchConditionsNotValid";
const QUERY: &str = "QueryParameterMatchConditionsNotValid";

/// The fault of a condition.
#[derive(Debug, PartialEq)]
pub struct MatchConditionFault {
    /// The field, such as `.conditions[0].header`.
    pub field: String,
    /// The reason.
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

/// The match conditions of one include or route.
#[derive(Debug, Default, PartialEq)]
pub struct MatchConditions {
    path: Option<Path>,
    others: Others,
    cost: Cost,
}

/// The condition on the path of a block.
#[derive(Debug, PartialEq)]
enum Path {
    Prefix(Arc<str>),
    Exact(Arc<str>),
    Regex(Arc<str>),
}

/// The conditions on methods, headers, and query parameters.
#[derive(Debug, Clone, Default, PartialEq)]
struct Others {
    method: Option<Arc<str>>,
    headers: Vec<HeaderMatch>,
    query: Vec<QueryMatch>,
}

/// The match conditions of a chain of includes, which the routes below it inherit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InheritedConditions {
    prefix: String,
    others: Others,
    cost: Cost,
}

impl MatchConditions {
    /// Parses a block. `is_include`: the path can only be a prefix.
    pub fn parse(
        conditions: &[MatchCondition],
        is_include: bool,
        patterns: &mut Patterns,
    ) -> Result<Self, MatchConditionFault> {
        let mut block = Self::default();
        for (index, condition) in conditions.iter().enumerate() {
            let field = format!(".conditions[{index}]");
            let fault =
                |fault: MatchConditionFault| MatchConditionFault { field: format!("{field}{}", fault.field), ..fault };
            block.add(condition, is_include, patterns).map_err(fault)?;
        }
        Ok(block)
    }

    /// Returns whether it matches all requests that reach it, apart from a prefix `/`.
    pub fn is_plain(&self) -> bool {
        let is_root = |path: &Path| matches!(path, Path::Prefix(text) if **text == *"/");
        self.path.as_ref().is_none_or(is_root) && self.others == Others::default()
    }

    fn add(
        &mut self,
        condition: &MatchCondition,
        is_include: bool,
        patterns: &mut Patterns,
    ) -> Result<(), MatchConditionFault> {
        let MatchCondition { prefix, exact, regex, header, query_parameter, rest } = condition;
        let fault = |field: &str, reason, message| MatchConditionFault { field: field.to_owned(), reason, message };
        if let Some(name) = rest.names().next() {
            return Err(fault(&format!(".{name}"), PATH, format!("condition {name:?} is not supported")));
        }
        let paths = [prefix, exact, regex].iter().filter(|text| !text.is_empty()).count();
        let operators = paths + usize::from(header.is_some()) + usize::from(query_parameter.is_some());
        if operators > 1 {
            return Err(fault("", PATH, "more than one condition in an entry".to_owned()));
        }
        if paths > 0 {
            let path = path(condition, is_include, patterns).map_err(|message| fault("", PATH, message))?;
            if self.path.replace(path).is_some() {
                return Err(fault("", PATH, "more than one condition on the path".to_owned()));
            }
        }
        if let Some(header) = header {
            self.add_header(header, patterns).map_err(|message| fault(".header", HEADER, message))?;
        }
        if let Some(query) = query_parameter {
            self.add_query(query, patterns).map_err(|message| fault(".queryParameter", QUERY, message))?;
        }
        Ok(())
    }

    fn add_header(&mut self, condition: &ValueCondition, patterns: &mut Patterns) -> Result<(), String> {
        check_rest(condition)?;
        let ValueCondition { name, present, notpresent, contains, notcontains, exact, notexact, regex, .. } = condition;
        let ignore_case = condition.ignore_case;
        let operators = [contains, notcontains, exact, notexact, regex].iter().filter(|text| !text.is_empty()).count();
        if operators + usize::from(*present) + usize::from(*notpresent) != 1 {
            return Err("exactly one operator must be set".to_owned());
        }
        if name.eq_ignore_ascii_case(HeaderName::METHOD)
            && !exact.is_empty()
            && !ignore_case
            && self.others.method.is_none()
        {
            self.others.method = Some(exact.as_str().into());
            return Ok(());
        }
        if condition.treat_missing_as_empty && (*present || *notpresent || !regex.is_empty()) {
            let operators = "\"present\", \"notpresent\", or \"regex\"";
            return Err(format!("\"treatMissingAsEmpty\" has no meaning with {operators}"));
        }
        let parsed = match name.eq_ignore_ascii_case(HeaderName::METHOD) {
            true => Some(HeaderName::method()),
            false => HeaderName::parse(name),
        };
        let name = parsed.ok_or_else(|| format!("{name:?} is not the name of a header that can be matched"))?;
        let mut contained = |text: &str| contained(text, ignore_case, &mut self.cost, patterns);
        let (value, inverted) = if *present || *notpresent {
            (ValueMatch::Present, *notpresent)
        } else if !contains.is_empty() {
            (contained(contains)?, false)
        } else if !notcontains.is_empty() {
            (contained(notcontains)?, true)
        } else if !regex.is_empty() {
            if ignore_case {
                return Err("\"ignoreCase\" has no meaning with \"regex\"".to_owned());
            }
            (pattern(regex.clone(), &mut self.cost, patterns)?, false)
        } else {
            let (exact, inverted) = if exact.is_empty() { (notexact, true) } else { (exact, false) };
            (text(ValuePart::Whole, exact, ignore_case)?, inverted)
        };
        // An empty value equals and contains no text of a condition, so that only inverted conditions depend on the field.
        let missing_is_empty = condition.treat_missing_as_empty && inverted;
        self.others.headers.push(HeaderMatch { name, value, inverted, missing_is_empty });
        Ok(())
    }

    fn add_query(&mut self, condition: &ValueCondition, patterns: &mut Patterns) -> Result<(), String> {
        check_rest(condition)?;
        let ValueCondition { name, present, contains, exact, regex, prefix, suffix, ignore_case, .. } = condition;
        if condition.treat_missing_as_empty {
            return Err("\"treatMissingAsEmpty\" has no meaning for a query parameter".to_owned());
        }
        let operators = [contains, exact, regex, prefix, suffix].iter().filter(|text| !text.is_empty()).count();
        if operators + usize::from(*present) != 1 {
            return Err("exactly one operator must be set".to_owned());
        }
        if condition.treat_missing_as_empty {
            return Err("field \"treatMissingAsEmpty\" is not supported".to_owned());
        }
        if name.is_empty() || name.len() > 1024 {
            return Err("the name is empty or longer than 1024 bytes".to_owned());
        }
        let texts = [(ValuePart::End, suffix), (ValuePart::Start, prefix), (ValuePart::Whole, exact)];
        let value = match texts.into_iter().find(|(_, text)| !text.is_empty()) {
            Some((part, one)) => text(part, one, *ignore_case)?,
            None if *present => ValueMatch::Present,
            None if !contains.is_empty() => contained(contains, *ignore_case, &mut self.cost, patterns)?,
            None if *ignore_case => return Err("\"ignoreCase\" has no meaning with \"regex\"".to_owned()),
            None => pattern(regex.clone(), &mut self.cost, patterns)?,
        };
        self.others.query.push(QueryMatch { name: name.as_str().into(), value: Some(value) });
        Ok(())
    }
}

impl InheritedConditions {
    /// Returns the conditions of the chain and of the block of an include.
    pub fn below(&self, block: &MatchConditions) -> Result<Self, MatchConditionFault> {
        let prefix = match &block.path {
            Some(Path::Prefix(text) | Path::Exact(text) | Path::Regex(text)) => join(&self.prefix, text)?,
            None => self.prefix.clone(),
        };
        Ok(Self { prefix, others: self.others.and(&block.others)?, cost: sum(self.cost, block.cost) })
    }

    /// Returns the match of the block of a route below the chain, and the cost of its regular expressions.
    pub fn matches(
        &self,
        block: &MatchConditions,
        patterns: &mut Patterns,
    ) -> Result<(Match, Cost), MatchConditionFault> {
        let mut cost = sum(self.cost, block.cost);
        let path = match &block.path {
            None if self.prefix.is_empty() => PathMatch::root(),
            None => PathMatch::Prefix(self.prefix.as_str().into()),
            Some(Path::Prefix(text)) => PathMatch::Prefix(join(&self.prefix, text)?.into()),
            Some(Path::Exact(text)) => PathMatch::Exact(join(&self.prefix, text)?.into()),
            Some(Path::Regex(text)) => {
                let quoted = regex_syntax::escape(self.prefix.trim_end_matches('/'));
                let text = if quoted.is_empty() { text.to_string() } else { format!("{quoted}(?:{text})") };
                let fault = |message| MatchConditionFault { field: ".conditions".to_owned(), reason: PATH, message };
                pattern(text.clone(), &mut cost, patterns).map_err(fault)?;
                PathMatch::Regex(text.into())
            }
        };
        let Others { method, headers, query } = self.others.and(&block.others)?;
        Ok((Match::new(path, Conditions { method, headers, query, share: None }), cost))
    }

    /// Returns the match of all requests of the chain.
    pub fn everything(&self) -> Match {
        let path =
            if self.prefix.is_empty() { PathMatch::root() } else { PathMatch::Prefix(self.prefix.as_str().into()) };
        let Others { method, headers, query } = self.others.clone();
        Match::new(path, Conditions { method, headers, query, share: None })
    }

    /// Returns the cost of the regular expressions.
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// Returns the size of the conditions, in bytes.
    pub fn size(&self) -> usize {
        const CONDITION: usize = 64;
        let text = |value: &ValueMatch| match value {
            ValueMatch::Present => CONDITION,
            ValueMatch::Text { text, .. } | ValueMatch::Regex(text) => CONDITION + text.len(),
        };
        let headers = self.others.headers.iter().map(|one| text(&one.value) + one.name.as_str().len()).sum::<usize>();
        let query = self.others.query.iter();
        let query = query.map(|one| one.value.as_ref().map_or(CONDITION, text) + one.name.len()).sum::<usize>();
        self.prefix.len() + headers + query
    }
}

impl Others {
    /// Returns the conditions of both.
    fn and(&self, other: &Self) -> Result<Self, MatchConditionFault> {
        let fault = |reason, message: &str| {
            Err(MatchConditionFault { field: ".conditions".to_owned(), reason, message: message.to_owned() })
        };
        if self.method.is_some() && other.method.is_some() {
            return fault(HEADER, "more than one condition on the method");
        }
        let headers: Vec<HeaderMatch> = self.headers.iter().chain(&other.headers).cloned().collect();
        let query: Vec<QueryMatch> = self.query.iter().chain(&other.query).cloned().collect();
        if headers.len() + query.len() > MOST {
            return fault(HEADER, "more than 32 conditions on headers and query parameters");
        }
        for (index, one) in headers.iter().enumerate() {
            let before = || headers[..index].iter().filter(|before| before.name == one.name);
            let is_exact = |one: &HeaderMatch| one.value.is_exact() && !one.inverted;
            if is_exact(one) && before().any(is_exact) {
                return fault(HEADER, &format!("header {:?} has two exact values", one.name.as_str()));
            }
            if before().any(|before| before.value == one.value && before.inverted != one.inverted) {
                return fault(
                    HEADER,
                    &format!("the conditions on header {:?} contradict each other", one.name.as_str()),
                );
            }
        }
        for (index, one) in query.iter().enumerate() {
            let is_exact = |one: &QueryMatch| one.value.as_ref().is_some_and(ValueMatch::is_exact);
            let mut before = query[..index].iter().filter(|before| before.name == one.name);
            if is_exact(one) && before.any(is_exact) {
                return fault(QUERY, &format!("query parameter {:?} has two exact values", &*one.name));
            }
        }
        let method = self.method.clone().or_else(|| other.method.clone());
        Ok(Self { method, headers, query })
    }
}

/// Parses the condition on the path.
fn path(condition: &MatchCondition, is_include: bool, patterns: &mut Patterns) -> Result<Path, String> {
    let MatchCondition { prefix, exact, regex, .. } = condition;
    let text = [prefix, exact, regex].into_iter().find(|text| !text.is_empty()).map_or("", |text| text);
    if is_include && prefix.is_empty() {
        return Err("an include can only have a prefix".to_owned());
    }
    if !text.starts_with('/') {
        return Err(format!("path {text:?} does not start with \"/\""));
    }
    if text.chars().any(char::is_control) {
        return Err(format!("path {text:?} has a control character"));
    }
    if !regex.is_empty() {
        // The text must be an expression of its own, so that it stays in its group behind the prefix of an include.
        pattern(regex.clone(), &mut Cost::default(), patterns)?;
        return Ok(Path::Regex(text.into()));
    }
    Ok(if exact.is_empty() { Path::Prefix(text.into()) } else { Path::Exact(text.into()) })
}

/// Concatenates paths, with repeated slashes merged.
fn join(prefix: &str, path: &str) -> Result<String, MatchConditionFault> {
    let mut joined = String::with_capacity(prefix.len() + path.len());
    for one in prefix.chars().chain(path.chars()) {
        if one != '/' || !joined.ends_with('/') {
            joined.push(one);
        }
    }
    if joined.len() > LONGEST_PATH {
        let message = format!("the path is longer than {LONGEST_PATH} bytes");
        return Err(MatchConditionFault { field: ".conditions".to_owned(), reason: PATH, message });
    }
    Ok(joined)
}

/// Returns the match of values that contain a text: by a regular expression, so that it counts towards the budget of the host. Envoy's own search
/// takes up to 0.45 ms for a text such as `aab` in 50 KB of `a`, and a regular expression 0.06 ms.
fn contained(text: &str, ignores_case: bool, cost: &mut Cost, patterns: &mut Patterns) -> Result<ValueMatch, String> {
    let flags = if ignores_case { "(?i)" } else { "" };
    pattern(format!("{flags}.*{}.*", regex_syntax::escape(text)), cost, patterns)
}

/// Returns the match by a text at one place. Envoy compares it without a regular expression, so it costs nothing of the budget of the host.
fn text(part: ValuePart, text: &str, ignores_case: bool) -> Result<ValueMatch, String> {
    Ok(ValueMatch::Text { part, text: bounded(text)?.into(), ignores_case })
}

/// Returns the match by a regular expression, and adds its cost.
fn pattern(text: String, cost: &mut Cost, patterns: &mut Patterns) -> Result<ValueMatch, String> {
    bounded(&text)?;
    let added = patterns.cost(&text).map_err(|rejection| match rejection {
        Rejection::Invalid(why) => format!("regular expression {text:?} is not accepted by Envoy: {why}"),
        Rejection::TooExpensive(why) => format!("regular expression {text:?} would take Envoy too long: {why}"),
    })?;
    *cost = sum(*cost, added);
    Ok(ValueMatch::Regex(text.into()))
}

fn bounded(text: &str) -> Result<&str, String> {
    match text.len() > LONGEST_TEXT {
        true => Err(format!("a text is longer than {LONGEST_TEXT} bytes")),
        false => Ok(text),
    }
}

fn sum(one: Cost, other: Cost) -> Cost {
    Cost { size: one.size.saturating_add(other.size), steps: one.steps.saturating_add(other.steps) }
}

fn check_rest(condition: &ValueCondition) -> Result<(), String> {
    match condition.rest.names().next() {
        Some(name) => Err(format!("field {name:?} is not supported")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::settings::Regexes;

    fn block(is_include: bool, condition: MatchCondition) -> Result<MatchConditions, MatchConditionFault> {
        MatchConditions::parse(&[condition], is_include, &mut Patterns::new(&Regexes::default()))
    }

    fn matched(prefixes: &[&str], condition: MatchCondition) -> PathMatch {
        let mut reached = InheritedConditions::default();
        for prefix in prefixes {
            let include =
                block(true, MatchCondition { prefix: (*prefix).to_owned(), ..MatchCondition::default() }).unwrap();
            reached = reached.below(&include).unwrap();
        }
        let route = block(false, condition).unwrap();
        reached.matches(&route, &mut Patterns::new(&Regexes::default())).unwrap().0.path
    }

    fn prefix(text: &str) -> MatchCondition {
        MatchCondition { prefix: text.to_owned(), ..MatchCondition::default() }
    }

    fn regex(text: &str) -> MatchCondition {
        MatchCondition { regex: text.to_owned(), ..MatchCondition::default() }
    }

    #[test]
    fn paths_of_a_chain_are_concatenated() {
        assert_eq!(matched(&["/blog", "/a"], prefix("/b")), PathMatch::Prefix("/blog/a/b".into()));
        assert_eq!(matched(&["/blog"], MatchCondition::default()), PathMatch::Prefix("/blog".into()));
        assert_eq!(matched(&["/blog"], prefix("/")), PathMatch::Prefix("/blog/".into()));
        assert_eq!(matched(&["/", "/blog/"], prefix("/a")), PathMatch::Prefix("/blog/a".into()));
        let exact = MatchCondition { exact: "/a".into(), ..MatchCondition::default() };
        assert_eq!(matched(&["/blog"], exact), PathMatch::Exact("/blog/a".into()));
        assert_eq!(matched(&[], MatchCondition::default()), PathMatch::root());
    }

    #[test]
    fn no_regular_expression_leaves_the_prefix_of_its_include() {
        assert_eq!(matched(&["/a.b"], regex("/x|/admin")), PathMatch::Regex(r"/a\.b(?:/x|/admin)".into()));
        assert_eq!(matched(&[], regex("/x.*")), PathMatch::Regex("/x.*".into()));
        let leaving = block(false, regex("/x)|(?:/admin")).unwrap_err();
        assert_eq!((leaving.reason, &*leaving.field), (PATH, ".conditions[0]"));
    }

    #[test]
    fn an_include_has_only_a_prefix() {
        assert!(block(true, regex("/a")).is_err() && block(true, prefix("/a")).is_ok());
        assert!(block(true, prefix("a")).is_err());
    }

    #[test]
    fn contradicting_headers_are_not_valid() {
        let header = |exact: &str, notexact: &str| MatchCondition {
            header: Some(ValueCondition {
                name: "X-A".to_owned(),
                exact: exact.to_owned(),
                notexact: notexact.to_owned(),
                ..ValueCondition::default()
            }),
            ..MatchCondition::default()
        };
        let reached = InheritedConditions::default().below(&block(true, header("a", "")).unwrap()).unwrap();
        for other in [header("b", ""), header("", "a")] {
            assert_eq!(reached.below(&block(true, other).unwrap()).unwrap_err().reason, HEADER);
        }
        assert!(reached.below(&block(true, header("", "b")).unwrap()).is_ok());
    }
}
