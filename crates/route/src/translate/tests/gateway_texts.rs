//! A real Envoy accepts the resources of routes with any texts and numbers. Envoy would reject a host as a whole, with the routes
//! of other namespaces.

use super::gateway::{translated, world_of};
use crate::envoy::build;
use crate::objects::Object;
use crate::objects::gateway::{
    CorsFilter, Fraction, HeaderFilter, HttpFilter, HttpHeader, HttpMatch, HttpPathMatch, HttpRouteRetry,
    HttpRouteRule, HttpRouteTimeouts, MirrorFilter, NamedMatch, PathModifier, RedirectFilter, RewriteFilter,
};
use crate::settings::Settings;
use crate::testing::envoy::{standalone, validate};
use crate::testing::gateway::*;

/// Texts with and without a meaning for Envoy, HTTP, or regular expressions.
const TEXTS: &[&str] = &[
    "",
    " ",
    "a",
    "/",
    "//",
    "/a/../b",
    "/a?b",
    "/a#b",
    "/a%2fb",
    "*",
    "*.a.test",
    "a.test:80",
    "%",
    "%%",
    "%REQ(authorization)%",
    "%FILE_CONTENT(/etc/hostname)%",
    "%ENVIRONMENT(HOME)%",
    "\\",
    "\\0\\9",
    "/\\1",
    "(",
    "[a",
    "(?i)a",
    "{a}",
    "/{a=*}",
    "$",
    "a\tb",
    "a\nb",
    "a\r\nb: c",
    "a\0",
    "\u{7f}",
    "é",
    "\u{feff}",
    "😀",
    ":path",
    "host",
    "Host",
    "connection",
    "content-length",
    "transfer-encoding",
    "x-envoy-retry-on",
    "https://*",
    "https://*.a.test:*",
    "GET",
    "CONNECT",
    "null",
];

/// Returns rules with this text in every text field.
fn rules(text: &str) -> Vec<HttpRouteRule> {
    let one = || Some(text.to_owned());
    let path = |r#type: &str| HttpMatch {
        path: Some(HttpPathMatch { r#type: Some(r#type.to_owned()), value: one() }),
        ..HttpMatch::default()
    };
    let named = |r#type: &str, name: &str, value: &str| NamedMatch {
        r#type: Some(r#type.to_owned()),
        name: name.to_owned(),
        value: value.to_owned(),
    };
    let mut matches = vec![path("Exact"), path("PathPrefix"), path("RegularExpression"), path(text)];
    matches.push(HttpMatch { method: one(), ..HttpMatch::default() });
    for kind in ["Exact", "RegularExpression", text] {
        for condition in [named(kind, text, "a"), named(kind, "x-a", text)] {
            matches.push(HttpMatch { headers: vec![condition.clone()], ..HttpMatch::default() });
            matches.push(HttpMatch { query_params: vec![condition], ..HttpMatch::default() });
        }
    }
    let header = |name: &str, value: &str| vec![HttpHeader { name: name.to_owned(), value: value.to_owned() }];
    let changes = [
        HeaderFilter { set: header(text, "a"), ..HeaderFilter::default() },
        HeaderFilter { set: header("x-a", text), add: header("x-b", text), ..HeaderFilter::default() },
        HeaderFilter { add: header(text, text), ..HeaderFilter::default() },
        HeaderFilter { remove: vec![text.to_owned()], ..HeaderFilter::default() },
    ];
    let filter = |kind: &str| HttpFilter { r#type: kind.to_owned(), ..HttpFilter::default() };
    let mut filters = vec![filter(text)];
    for changes in changes {
        filters.push(HttpFilter { request_header_modifier: Some(changes.clone()), ..filter("RequestHeaderModifier") });
        filters.push(HttpFilter { response_header_modifier: Some(changes), ..filter("ResponseHeaderModifier") });
    }
    let full =
        PathModifier { r#type: "ReplaceFullPath".to_owned(), replace_full_path: one(), ..PathModifier::default() };
    let prefix = PathModifier {
        r#type: "ReplacePrefixMatch".to_owned(),
        replace_prefix_match: one(),
        ..PathModifier::default()
    };
    let paths = [None, Some(full), Some(prefix)];
    for path in paths {
        for hostname in [None, one()] {
            let redirect =
                RedirectFilter { hostname: hostname.clone(), path: path.clone(), ..RedirectFilter::default() };
            filters.push(HttpFilter { request_redirect: Some(redirect), ..filter("RequestRedirect") });
            let rewrite = RewriteFilter { hostname, path: path.clone() };
            filters.push(HttpFilter { url_rewrite: Some(rewrite), ..filter("URLRewrite") });
        }
    }
    let list = || vec![text.to_owned()];
    let all = [
        CorsFilter { allow_origins: list(), allow_credentials: Some(true), ..CorsFilter::default() },
        CorsFilter { allow_origins: list(), allow_methods: list(), allow_headers: list(), ..CorsFilter::default() },
        CorsFilter { allow_origins: list(), expose_headers: list(), max_age: Some(u32::MAX), ..CorsFilter::default() },
    ];
    filters.extend(all.map(|cors| HttpFilter { cors: Some(cors), ..filter("CORS") }));
    let limit = || Some(text.to_owned());
    let timeouts = HttpRouteTimeouts { request: limit(), backend_request: limit() };
    let retry = HttpRouteRetry { backoff: limit(), ..HttpRouteRetry::default() };
    let mut rules = vec![HttpRouteRule { matches, ..HttpRouteRule::default() }];
    rules.push(HttpRouteRule { timeouts: Some(timeouts), retry: Some(retry), ..HttpRouteRule::default() });
    rules.extend(filters.into_iter().map(|filter| HttpRouteRule { filters: vec![filter], ..HttpRouteRule::default() }));
    rules
}

/// Returns rules with extreme numbers.
fn extremes() -> Vec<HttpRouteRule> {
    let mut rules = Vec::new();
    for text in ["0s", "1ms", "99999h", "9999999999h", "0.1s", "-1s"] {
        let timeouts = HttpRouteTimeouts { request: Some(text.to_owned()), backend_request: Some(text.to_owned()) };
        for attempts in [0, 1, u32::MAX] {
            let codes = vec![0, 99, 100, 503, 599, 600, u16::MAX];
            let retry = HttpRouteRetry { codes, attempts: Some(attempts), backoff: Some(text.to_owned()) };
            rules.push(HttpRouteRule {
                timeouts: Some(timeouts.clone()),
                retry: Some(retry),
                ..HttpRouteRule::default()
            });
        }
    }
    for (numerator, denominator) in [(0, 1), (1, 0), (u32::MAX, u32::MAX), (1, u32::MAX), (2, 1)] {
        let fraction = Fraction { numerator, denominator: Some(denominator) };
        let mirror = MirrorFilter { backend_ref: backend_ref("b:80"), percent: None, fraction: Some(fraction) };
        let filter =
            HttpFilter { r#type: "RequestMirror".into(), request_mirror: Some(mirror), ..HttpFilter::default() };
        rules.push(HttpRouteRule { filters: vec![filter], ..HttpRouteRule::default() });
    }
    for (port, status_code) in [(0, 0), (1, 200), (65_535, 301), (80, 600)] {
        let redirect = RedirectFilter { port: Some(port), status_code: Some(status_code), ..RedirectFilter::default() };
        let filter =
            HttpFilter { r#type: "RequestRedirect".into(), request_redirect: Some(redirect), ..HttpFilter::default() };
        rules.push(HttpRouteRule { filters: vec![filter], ..HttpRouteRule::default() });
    }
    rules
}

/// Returns a route whose rules have prefixes of their own, and backends with these weights.
fn route(name: &str, rules: Vec<HttpRouteRule>, weights: [u32; 3]) -> Object {
    let mut route = http_route(name).parent("public").host("x.test");
    for (index, rule) in rules.into_iter().enumerate() {
        let has_matches = !rule.matches.is_empty();
        route = route.rule(if has_matches { "" } else { "/" }, "a:80").change(|new| {
            let HttpRouteRule { matches, backend_refs, .. } = std::mem::take(new);
            *new = HttpRouteRule { backend_refs, ..rule };
            if !has_matches {
                new.matches = matches;
            }
        });
        if !has_matches {
            route = route.change(|rule| {
                rule.matches[0].path.as_mut().unwrap().value = Some(format!("/{name}/{index}"));
            });
        }
        route = route.weight(weights[0]).backend("gone:80").weight(weights[1]).backend("b:80").weight(weights[2]);
    }
    route.into()
}

#[test]
fn no_text_and_no_number_of_a_route_is_rejected_by_envoy() {
    let public = [gateway("public").listener("http", 80, "HTTP").into(), gateway_service("public", &[(80, 10_000)])];
    let texts = TEXTS.iter().enumerate().map(|(index, text)| route(&format!("t{index}"), rules(text), [1, 0, 1]));
    let long = [8 * 1024, 70 * 1024].map(|length| route(&format!("l{length}"), rules(&"a".repeat(length)), [1, 0, 1]));
    let weights = [[0, 0, 0], [u32::MAX, u32::MAX, u32::MAX], [1, 1_000_000, 0], [1, u32::MAX, u32::MAX]];
    let weights =
        weights.into_iter().enumerate().map(|(index, weights)| route(&format!("w{index}"), extremes(), weights));
    let translator = translated(&world_of(public.into_iter().chain(texts).chain(long).chain(weights)));
    let plain = translator.model().plain("gateway/shop/public/80").unwrap();
    let routes = plain.hosts.values().map(|host| host.routes.len()).sum::<usize>();
    assert!(routes > 1500, "{routes}");
    let settings = Settings::default();
    let validated = validate(&standalone(&build(translator.model(), &settings), &settings));
    let end = |log: String| log.chars().rev().take(1000).collect::<Vec<_>>().into_iter().rev().collect::<String>();
    assert_eq!(validated.map_err(end), Ok(()));
}
