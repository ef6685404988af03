//! The HTTP requests that call a method: `google.api.http`.
//!
//! Source: `google/api/http.proto`, which has the syntax of paths.

use super::types::{is_identifier, shown};
use super::wire::{DescribedTypes, FieldDescriptor, HttpRule, MESSAGE, REPEATED};

/// The longest path.
const LENGTH: usize = 256;
/// The maximum number of requests that call a method.
const RULES: usize = 9;

/// A request that calls a method.
#[derive(Debug, PartialEq)]
pub struct Binding {
    /// The rule, without additional ones.
    pub rule: HttpRule,
    /// The method of HTTP and the path, without the names of variables. Two methods cannot have the same.
    pub key: String,
}

/// Returns the requests of a rule. The error says why Envoy cannot use it.
pub fn bindings(rule: &HttpRule, input: &str, types: &DescribedTypes) -> Result<Vec<Binding>, String> {
    if rule.additional_bindings.len() >= RULES {
        return Err(format!("has more than {RULES} paths"));
    }
    [rule].into_iter().chain(&rule.additional_bindings).map(|rule| binding(rule, input, types)).collect()
}

fn binding(rule: &HttpRule, input: &str, types: &DescribedTypes) -> Result<Binding, String> {
    let HttpRule { get, put, post, delete, patch, body, custom, additional_bindings: _, response_body } = rule;
    let set = [("GET", get), ("PUT", put), ("POST", post), ("DELETE", delete), ("PATCH", patch)];
    let mut set = set.into_iter().filter_map(|(verb, path)| Some((verb, path.as_deref()?)));
    let (Some((verb, path)), None, None) = (set.next(), set.next(), custom) else {
        return Err("has a method of HTTP other than GET, PUT, POST, DELETE, and PATCH".to_owned());
    };
    if response_body.as_ref().is_some_and(|field| !field.is_empty()) {
        return Err("has a response_body".to_owned());
    }
    let fault = || format!("has a path {:?} that is not valid", shown(path));
    let (pattern, variables) = parsed(path).ok_or_else(fault)?;
    for variable in variables {
        if !is_scalar(variable, input, types) {
            return Err(format!("has a path with {:?}, which is no field with a single value", shown(variable)));
        }
    }
    let body = body.clone().unwrap_or_default();
    if !["", "*"].contains(&&*body) && field(&body, input, types).is_none() {
        return Err(format!("has a body {:?}, which is no field", shown(&body)));
    }
    let rule = HttpRule { additional_bindings: Vec::new(), response_body: None, body: Some(body), ..rule.clone() };
    Ok(Binding { rule, key: format!("{verb} {pattern}") })
}

/// Returns the pattern of a path without the names of its variables, and the variables. `None`: the syntax is wrong.
fn parsed(path: &str) -> Option<(String, Vec<&str>)> {
    let (mut pattern, mut variables) = (String::new(), Vec::new());
    let mut rest = path.strip_prefix('/').filter(|_| path.len() <= LENGTH)?;
    let is_literal =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.~".contains(c));
    // Nothing follows `**` but the verb.
    let mut has_end = false;
    let mut segments = |text: &str, pattern: &mut String| {
        text.split('/').all(|segment| {
            pattern.push('/');
            pattern.push_str(segment);
            !std::mem::replace(&mut has_end, segment == "**") && (["*", "**"].contains(&segment) || is_literal(segment))
        })
    };
    loop {
        let end = match rest.strip_prefix('{') {
            Some(inner) => {
                let (variable, after) = inner.split_once('}')?;
                let (name, value) = variable.split_once('=').unwrap_or((variable, "*"));
                variables.push(name);
                segments(value, &mut pattern).then_some(after)?
            }
            None => {
                let end = rest.find(['/', ':']).unwrap_or(rest.len());
                let (segment, after) = rest.split_at(end);
                segments(segment, &mut pattern).then_some(after)?
            }
        };
        match end.split_at_checked(1) {
            None => return Some((pattern, variables)),
            Some(("/", after)) => rest = after,
            Some((":", verb)) if is_literal(verb) => return Some((format!("{pattern}:{verb}"), variables)),
            Some(_) => return None,
        }
    }
}

fn field<'s>(name: &str, message: &str, types: &DescribedTypes<'s>) -> Option<&'s FieldDescriptor> {
    let message = types.messages.get(message)?;
    message.field.iter().find(|field| field.name() == name && is_identifier(name))
}

/// Returns whether the field of this path, such as `book.name`, has a single value.
fn is_scalar(path: &str, message: &str, types: &DescribedTypes) -> bool {
    let (name, rest) = path.split_once('.').unwrap_or((path, ""));
    match field(name, message, types).filter(|field| field.label() != REPEATED) {
        None => false,
        Some(field) if rest.is_empty() => field.r#type() != MESSAGE && !path.ends_with('.'),
        Some(field) => field.r#type() == MESSAGE && is_scalar(rest, field.type_name(), types),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]

    use super::*;

    #[test]
    fn paths_are_patterns_with_variables() {
        for (path, pattern, variables) in [
            ("/v1/books", "/v1/books", &[][..]),
            ("/v1/{name}", "/v1/*", &["name"]),
            ("/v1/{name=shelves/*/books/*}:read", "/v1/shelves/*/books/*:read", &["name"]),
            ("/v1/{a.b}/x/{c=**}", "/v1/*/x/**", &["a.b", "c"]),
            ("/v1/*/**", "/v1/*/**", &[]),
            ("/shop.v1.Books/Get", "/shop.v1.Books/Get", &[]),
        ] {
            let (parsed, names) = parsed(path).expect(path);
            assert_eq!((&*parsed, &*names), (pattern, variables));
        }
        for path in [
            "",
            "v1",
            "/",
            "/v1/",
            "//",
            "/v1/{name",
            "/v1/name}",
            "/v1/{a={b}}",
            "/v1/**/x",
            "/v1/{a=**}/x",
            "/v1/a*",
            "/v1/a b",
            "/v1/%2f",
            "/v1:",
            "/v1:a:b",
            "/v1:a/b",
            "/v1/{a=}",
            "/v1/{a}b",
        ] {
            assert_eq!(parsed(path), None, "{path}");
        }
        assert_eq!(parsed(&format!("/{}", "a".repeat(256))), None);
    }
}
