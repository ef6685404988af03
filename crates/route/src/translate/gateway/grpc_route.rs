//! GRPCRoutes: their rules as rules of HTTPRoutes.
//!
//! The path of a request is `/service/method`. Source: gRPC over HTTP/2, "Requests".

use crate::objects::gateway::{GrpcMatch, GrpcMethod, GrpcRule, HttpMatch, HttpPathMatch, HttpRouteRule};
use crate::re2;

/// A service or a method that no condition restricts.
const ANY: &str = "[^/]+";

/// Returns the rule of an HTTPRoute that matches the same requests.
pub fn rule(rule: &GrpcRule) -> HttpRouteRule {
    let GrpcRule { name, matches, filters, backend_refs, session_persistence } = rule;
    HttpRouteRule {
        name: name.clone(),
        matches: matches.iter().map(http_match).collect(),
        filters: filters.clone(),
        backend_refs: backend_refs.clone(),
        session_persistence: session_persistence.clone(),
        ..HttpRouteRule::default()
    }
}

fn http_match(one: &GrpcMatch) -> HttpMatch {
    HttpMatch { path: one.method.as_ref().map(path), headers: one.headers.clone(), ..HttpMatch::default() }
}

fn path(condition: &GrpcMethod) -> HttpPathMatch {
    let text = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let (service, method) = (text(&condition.service), text(&condition.method));
    let (kind, value) = match (condition.r#type.as_deref().unwrap_or("Exact"), service, method) {
        (_, None, None) => ("PathPrefix", "/".to_owned()),
        ("Exact", Some(service), Some(method)) => ("Exact", format!("/{service}/{method}")),
        ("Exact", Some(service), None) => ("PathPrefix", format!("/{service}/")),
        ("Exact", None, Some(method)) => ("RegularExpression", format!("/{ANY}/{}", regex_syntax::escape(&method))),
        ("RegularExpression", service, method) => {
            // Each text must be valid on its own. Otherwise, `a)|(?:b` would end the enclosing group.
            if let Some(invalid) = [&service, &method].into_iter().flatten().find(|text| re2::check(text).is_err()) {
                return HttpPathMatch { r#type: Some("RegularExpression".to_owned()), value: Some(invalid.clone()) };
            }
            let any = |text: Option<String>| text.map_or_else(|| ANY.to_owned(), |text| format!("(?:{text})"));
            ("RegularExpression", format!("/{}/{}", any(service), any(method)))
        }
        (other, ..) => (other, String::new()),
    };
    HttpPathMatch { r#type: Some(kind.to_owned()), value: Some(value) }
}

/// Returns whether a regular expression of a GRPCRoute is an exact method of any service.
pub fn is_method_of_any_service(path: &str) -> bool {
    let method = path.strip_prefix('/').and_then(|path| path.strip_prefix(ANY)?.strip_prefix('/'));
    // A pattern is in a group, and the text of an exact method is escaped.
    method.is_some_and(|method| !method.starts_with("(?:") && method != ANY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_a_path() {
        let path = |kind: Option<&str>, service: Option<&str>, method: Option<&str>| {
            let text = |text: Option<&str>| text.map(str::to_owned);
            let one = GrpcMethod { r#type: text(kind), service: text(service), method: text(method) };
            let HttpPathMatch { r#type, value } = super::path(&one);
            format!("{} {}", r#type.unwrap_or_default(), value.unwrap_or_default())
        };
        let regex = Some("RegularExpression");
        assert_eq!(path(None, Some("a.B"), Some("C")), "Exact /a.B/C");
        assert_eq!(path(None, Some("a.B"), None), "PathPrefix /a.B/");
        assert_eq!(path(Some("Exact"), None, Some("C")), "RegularExpression /[^/]+/C");
        assert_eq!(path(regex, Some("a|b"), None), "RegularExpression /(?:a|b)/[^/]+");
        assert_eq!(path(regex, Some(""), Some("")), "PathPrefix /");
        assert_eq!(path(Some("Like"), Some("a"), None), "Like ");
        for one in [path(regex, Some("a)|.*|(b"), None), path(regex, None, Some("a)|.*|(b"))] {
            assert_eq!(one, "RegularExpression a)|.*|(b", "it is not valid, so it cannot end its group");
        }
    }

    #[test]
    fn an_exact_method_of_any_service_is_recognized() {
        for (path, expected) in [
            ("/[^/]+/C", true),
            ("/[^/]+/\\(\\?:C\\)", true),
            ("/[^/]+/(?:C)", false),
            ("/(?:a)/[^/]+", false),
            ("/C", false),
        ] {
            assert_eq!(is_method_of_any_service(path), expected, "{path}");
        }
    }
}
