//! Changes of headers, of routes and of Services.

use std::collections::BTreeSet;

use super::situation;
use super::tree::{Declaring, Tree};
use crate::model::{HeaderChange, HeaderName, HeaderValue, Host};
use crate::objects::http_proxy::{HeadersPolicy, ProxyService};
use crate::translate::host;

/// The messages that a policy changes.
#[derive(Debug, Clone, Copy)]
pub enum Changes<'a> {
    /// The requests of a route.
    Requests,
    /// The responses of a route.
    Responses,
    /// The requests to a Service, or its responses.
    OfService {
        /// The Service.
        service: &'a ProxyService,
        /// Whether requests are changed.
        of_requests: bool,
    },
}

/// Returns the changes of headers, and the host that replaces that of requests. A change that is not valid is left out.
pub fn parse(
    tree: &mut Tree,
    object: &Declaring,
    field: &str,
    policy: &HeadersPolicy,
    changes: Changes,
) -> (Vec<HeaderChange>, Option<HeaderValue>) {
    let (of_service, of_requests) = match changes {
        Changes::Requests => (false, true),
        Changes::Responses => (false, false),
        Changes::OfService { of_requests, .. } => (true, of_requests),
    };
    let situation = situation::headers_not_valid(of_service, of_requests);
    let block = if of_service { situation::Block::Service } else { situation::Block::Route };
    // An unknown change of headers restricts no access, but is no part of a message that is served.
    let mut faults: Vec<(String, String)> = Vec::new();
    let (mut parsed, mut new_host, mut names) = (Vec::new(), None, BTreeSet::new());
    for (index, setting) in policy.set.iter().enumerate() {
        let field = format!("{field}.set[{index}]");
        if !names.insert(setting.name.to_ascii_lowercase()) {
            faults.push((format!("{field}.name"), format!("header {:?} is set twice", setting.name)));
            continue;
        }
        let value = match value(&setting.value, object, changes) {
            Ok(value) => value,
            Err(message) => {
                faults.push((format!("{field}.value"), message));
                continue;
            }
        };
        if setting.name.eq_ignore_ascii_case("host") {
            match host_value(&value).filter(|_| matches!(changes, Changes::Requests)) {
                Some(value) => new_host = Some(value),
                None => {
                    let message = "\"Host\" can be set for the requests of a route, to a DNS name";
                    faults.push((field, message.to_owned()));
                }
            }
            continue;
        }
        match HeaderName::parse_changeable(&setting.name) {
            Ok(name) => parsed.push(HeaderChange::Set(name, value)),
            Err(message) => faults.push((format!("{field}.name"), message)),
        }
    }
    for (index, text) in policy.remove.iter().enumerate() {
        match HeaderName::parse_changeable(text) {
            Ok(name) => parsed.push(HeaderChange::Remove(name)),
            Err(message) => faults.push((format!("{field}.remove[{index}]"), message)),
        }
    }
    for (field, message) in faults {
        tree.report.add(&object.origin, field, &situation, message, "header left out");
    }
    let rests = policy.set.iter().map(|setting| &setting.rest).chain([&policy.rest]);
    for rest in rests {
        for name in rest.names() {
            let message = format!("field {name:?} is not supported");
            tree.report.add(&object.origin, format!("{field}.{name}"), &block.ignored(), message, "left out");
        }
    }
    (parsed, new_host)
}

fn host_value(value: &HeaderValue) -> Option<HeaderValue> {
    match host::parse(value.as_str()) {
        Ok(name @ Host::Exact(_)) => HeaderValue::parse(&name.to_string()),
        _ => None,
    }
}

/// Returns the value of a header. The names of the object and its Service are replaced, and Envoy's operators are not supported.
fn value(text: &str, object: &Declaring, changes: Changes) -> Result<HeaderValue, String> {
    let mut text = text.replace("%CONTOUR_NAMESPACE%", &object.proxy.meta.key.namespace);
    if let Changes::OfService { service, .. } = changes {
        text = text.replace("%CONTOUR_SERVICE_NAME%", &service.name);
        text = text.replace("%CONTOUR_SERVICE_PORT%", &service.port.to_string());
    }
    if let Some(operator) = operator(&text) {
        return Err(format!("the operator {operator:?} is not supported"));
    }
    HeaderValue::parse(&text).ok_or_else(|| format!("{text:?} is not the value of a header"))
}

/// Returns the first operator of Envoy in a text: `%REQ(X-Name)%`.
fn operator(text: &str) -> Option<&str> {
    text.match_indices('%').find_map(|(start, _)| {
        let rest = &text[start + 1..];
        let name = rest.find(|one: char| !one.is_ascii_uppercase() && one != '_')?;
        let after = &rest[name..];
        let end = match after.strip_prefix('(') {
            Some(arguments) => name + 1 + arguments.find(')')? + 1,
            None => name,
        };
        (name > 0 && rest[end..].starts_with('%')).then(|| &text[start..=start + 1 + end])
    })
}

#[cfg(test)]
mod tests {
    use super::operator;

    #[test]
    fn only_operators_are_found() {
        assert_eq!(operator("a %REQ(X-Name)% b"), Some("%REQ(X-Name)%"));
        assert_eq!(operator("50%%HOSTNAME%"), Some("%HOSTNAME%"));
        for text in ["50%", "100% of it%", "%abc%", "%REQ(X", "%%", "a"] {
            assert_eq!(operator(text), None, "{text}");
        }
    }
}
