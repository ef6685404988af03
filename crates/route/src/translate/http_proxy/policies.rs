//! The policies of hosts and routes: CORS, time limits, retries, rewrites, redirects, and answers of Envoy itself.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use lockgate_xds::provenance::ObjectRef;

use super::report::ProxyReport;
use super::situation::{self, Block};
use super::tree::{Declaring, Tree};
use crate::duration::{self, TimeLimit};
use crate::model::{
    Action, Cors, HeaderName, HeaderValue, Host, OriginMatch, PathMatch, PathRewrite, Redirect, RedirectStatus, Retry,
    Rewrite, Scheme,
};
use crate::objects::http_proxy::{
    CorsPolicy, DirectResponsePolicy, PathRewritePolicy, RedirectPolicy, RetryPolicy, TimeoutPolicy,
};
use crate::settings::RETRY_CONDITIONS;
use crate::translate::host;
use crate::translate::patterns::Patterns;

/// The longest body of an answer of Envoy itself. Source: Envoy `max_direct_response_body_size_bytes`.
const LONGEST_BODY: usize = 4096;
/// The longest time for which a connection to an endpoint may be idle.
pub const LONGEST_IDLE: Duration = Duration::from_secs(24 * 3600);
/// The largest size of the texts of CORS, in bytes. Each route of the host has a copy.
const LARGEST_CORS: usize = 16 << 10;

/// The rewrites of a matched prefix.
pub struct PrefixRewrites {
    /// The rewrite of the paths that the route matches.
    pub own: PathRewrite,
    /// The prefix with or without a slash at the end, and its rewrite.
    pub pair: Option<(PathMatch, PathRewrite)>,
}

/// Parses CORS of a host. Without it, no script of another origin reads a response.
pub fn cors(
    policy: &CorsPolicy,
    object: &ObjectRef,
    report: &mut ProxyReport,
    patterns: &mut Patterns,
) -> Option<Cors> {
    let field = "spec.virtualhost.corsPolicy";
    report.add_rest(object, field, (&policy.rest, &[]), Block::Cors, "left out");
    let parsed = parse_cors(policy, patterns);
    match parsed {
        Ok(cors) => {
            if cors.allow_credentials && cors.allow_origins.contains(&OriginMatch::Any) {
                let message = "scripts of every origin may send requests with credentials";
                report.add(object, field, &situation::ALLOWED_FOR_ANY_ORIGIN, message, "served");
            }
            let is_idle = |text: &&String| is_origin(text) && !is_of_a_page(text);
            if let Some(text) = policy.allow_origin.iter().find(is_idle) {
                let message = format!("{text:?} is no origin of a page, and no regular expression either");
                report.add(object, field, &situation::ORIGIN_OF_NO_PAGE, message, "no script has this origin");
            }
            Some(cors)
        }
        Err(message) => {
            report.add(object, field, &situation::CORS_NOT_VALID, message, "CORS left out");
            None
        }
    }
}

fn parse_cors(policy: &CorsPolicy, patterns: &mut Patterns) -> Result<Cors, String> {
    let CorsPolicy {
        allow_credentials,
        allow_private_network,
        allow_origin,
        allow_methods,
        allow_headers,
        expose_headers,
        max_age,
        rest: _,
    } = policy;
    let lists = [allow_origin, allow_methods, allow_headers, expose_headers];
    if lists.into_iter().flatten().map(String::len).sum::<usize>() > LARGEST_CORS {
        return Err(format!("the policy has more than {LARGEST_CORS} bytes"));
    }
    if allow_origin.is_empty() || allow_methods.is_empty() {
        return Err("\"allowOrigin\" and \"allowMethods\" must not be empty".to_owned());
    }
    let list = |texts: &[String]| -> Result<Option<HeaderValue>, String> {
        let text = texts.join(",");
        let value = HeaderValue::parse(&text).ok_or(format!("{text:?} is not valid"))?;
        Ok((!texts.is_empty()).then_some(value))
    };
    let expose = expose_headers.iter();
    let expose = expose.map(|name| HeaderName::parse(name).ok_or_else(|| format!("{name:?} is not a header")));
    let max_age = match &**max_age {
        "" => None,
        text => Some(duration::parse(text).ok_or_else(|| format!("{text:?} is not a duration"))?),
    };
    let origins = allow_origin.iter().map(|origin| match is_origin(origin) {
        _ if origin == "*" => Ok(OriginMatch::Any),
        true => Ok(OriginMatch::Exact(origin.to_ascii_lowercase().into())),
        false => match patterns.cost(origin) {
            Ok(_) => Ok(OriginMatch::Regex(origin.as_str().into())),
            Err(_) => Err(format!("{origin:?} is neither an origin nor a regular expression that Envoy accepts")),
        },
    });
    Ok(Cors {
        allow_origins: origins.collect::<Result<_, _>>()?,
        allow_methods: list(allow_methods)?,
        allow_headers: list(allow_headers)?,
        expose_headers: expose.collect::<Result<_, _>>()?,
        max_age,
        allow_credentials: *allow_credentials,
        allow_private_network: *allow_private_network,
    })
}

/// Returns whether a text is an origin, `scheme://host` with an optional port, and not a regular expression. The host can have any
/// characters of a URL, such as `*`. As an expression, `https://*.example.com` would permit `https://xexample.com`. Source: Contour 1.33.
fn is_origin(text: &str) -> bool {
    let is_scheme = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=<>\"".contains(&byte);
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let (name, port) = rest.rsplit_once(':').unwrap_or((rest, ""));
    is_scheme(scheme)
        && !scheme.is_empty()
        && !name.is_empty()
        && name.bytes().all(is_name)
        && port.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether the host of an origin can be that of a page.
fn is_of_a_page(origin: &str) -> bool {
    let authority = origin.split_once("://").map_or(origin, |(_, rest)| rest);
    let (name, port) = authority.rsplit_once(':').unwrap_or((authority, "0"));
    port.parse::<u16>().is_ok() && matches!(host::parse(name), Ok(Host::Exact(_)))
}

/// Returns the time limit of a response, the time without data if the policy sets it, and whether the policy sets the former.
pub fn timeouts(
    tree: &mut Tree,
    object: &Declaring,
    field: &str,
    policy: Option<&TimeoutPolicy>,
) -> (Option<Duration>, Option<Option<Duration>>, bool) {
    let default = tree.resolver.context.settings.timeouts.response;
    let Some(policy) = policy else { return (default, None, false) };
    let field = format!("{field}.timeoutPolicy");
    tree.report.add_rest(&object.origin, &field, (&policy.rest, &[]), Block::Route, "left out");
    let mut limit = |name: &str, text: &str| match text {
        "" => None,
        text => duration::limit(text).or_else(|| {
            let message = format!("{text:?} is not a duration");
            let field = format!("{field}.{name}");
            tree.report.add(&object.origin, field, &situation::TIMEOUT_NOT_VALID, message, "default applied");
            None
        }),
    };
    let (response, is_own) = match limit("response", &policy.response) {
        None | Some(TimeLimit::Default) => (default, false),
        Some(TimeLimit::Infinite) => (None, true),
        Some(TimeLimit::After(limit)) => (Some(limit), true),
    };
    let idle = match limit("idle", &policy.idle) {
        None | Some(TimeLimit::Default) => None,
        Some(TimeLimit::Infinite) => Some(None),
        Some(TimeLimit::After(limit)) => Some(Some(limit)),
    };
    (response, idle, is_own)
}

/// Returns the time after which an idle connection to an endpoint is closed, if the policy sets it.
pub fn idle_connection(
    tree: &mut Tree,
    object: &Declaring,
    field: &str,
    policy: Option<&TimeoutPolicy>,
) -> Option<Duration> {
    let text = policy.map(|policy| policy.idle_connection.as_str()).filter(|text| !text.is_empty())?;
    let field = format!("{field}.timeoutPolicy.idleConnection");
    match duration::limit(text) {
        Some(TimeLimit::Default) => None,
        Some(TimeLimit::After(limit)) if limit <= LONGEST_IDLE => Some(limit),
        Some(TimeLimit::After(_) | TimeLimit::Infinite) => {
            let hours = LONGEST_IDLE.as_secs() / 3600;
            let (message, applied) = (format!("{text:?} is longer than {hours}h"), format!("{hours}h applied"));
            tree.report.add(&object.origin, field, &Block::Route.ignored(), message, &applied);
            Some(LONGEST_IDLE)
        }
        None => {
            let message = format!("{text:?} is not a duration");
            tree.report.add(&object.origin, field, &situation::TIMEOUT_NOT_VALID, message, "default applied");
            None
        }
    }
}

/// Returns the retry policy.
pub fn retry(tree: &mut Tree, object: &Declaring, field: &str, policy: Option<&RetryPolicy>) -> Option<Box<Retry>> {
    let policy = policy?;
    let field = format!("{field}.retryPolicy");
    tree.report.add_rest(&object.origin, &field, (&policy.rest, &[]), Block::Route, "left out");
    let most = tree.resolver.context.settings.tenants.max_retries;
    let mut report = |field: String, message: String, consequence: &str| {
        tree.report.add(&object.origin, field, &situation::RETRY_NOT_VALID, message, consequence);
    };
    let retries = match policy.count.unwrap_or(1) {
        -1 => return None,
        0 => 1,
        count => match u32::try_from(count) {
            Ok(count) if count <= most => count,
            Ok(count) => {
                let message = format!("{count} is larger than {most}, the setting tenants.maxRetries");
                report(format!("{field}.count"), message, &format!("{most} retries"));
                most
            }
            Err(_) => {
                report(format!("{field}.count"), format!("{count} is not a number of retries"), "1 retry");
                1
            }
        },
    };
    let mut conditions = BTreeSet::new();
    for (index, name) in policy.retry_on.iter().enumerate() {
        match RETRY_CONDITIONS.iter().find(|known| **known == *name) {
            Some(known) => drop(conditions.insert(*known)),
            None => report(format!("{field}.retryOn[{index}]"), format!("condition {name:?} is not known"), "left out"),
        }
    }
    if policy.retry_on.is_empty() {
        conditions.insert("5xx");
    }
    let codes = policy.retriable_status_codes.iter().filter_map(|code| u16::try_from(*code).ok());
    let codes: BTreeSet<u16> = codes.filter(|code| (100..600).contains(code)).collect();
    let per_try_timeout = match duration::limit(&policy.per_try_timeout) {
        Some(TimeLimit::After(limit)) => Some(limit),
        _ => None,
    };
    Some(Box::new(Retry {
        on: conditions.into_iter().collect::<Vec<_>>().join(","),
        retries: retries.min(most),
        per_try_timeout,
        status_codes: codes.into_iter().collect(),
        backoff: None,
    }))
}

/// Returns the rewrite of a matched prefix. The error is reported, and the route is not served.
///
/// Slashes stay whole: `/foo` and `/foo/` are rewritten to `/bar` and `/bar/`, and a replacement `/` leads to no `//`.
pub fn rewritten(
    tree: &mut Tree,
    object: &Declaring,
    field: &str,
    policy: Option<&PathRewritePolicy>,
    path: &PathMatch,
) -> Result<Option<PrefixRewrites>, ()> {
    let Some(policy) = policy else { return Ok(None) };
    let field = format!("{field}.pathRewritePolicy");
    let rests = policy.replace_prefix.iter().map(|one| &one.rest).chain([&policy.rest]);
    let closed = "answered 503";
    let mut is_closed = false;
    for rest in rests {
        is_closed |= tree.report.add_rest(&object.origin, &field, (rest, &[]), Block::Route, closed);
    }
    if is_closed {
        return Err(());
    }
    let mut fault = |situation, message: String| {
        tree.report.add(&object.origin, format!("{field}.replacePrefix"), &situation, message, closed);
        Err(())
    };
    let mut prefixes = BTreeSet::new();
    for one in &policy.replace_prefix {
        if !prefixes.insert(&one.prefix) {
            return match &*one.prefix {
                "" => fault(situation::PREFIX_AMBIGUOUS, "more than one replacement has no prefix".to_owned()),
                prefix => fault(situation::PREFIX_DUPLICATE, format!("prefix {prefix:?} is replaced twice")),
            };
        }
    }
    if policy.replace_prefix.is_empty() {
        return Ok(None);
    }
    let PathMatch::Prefix(matched) = path else {
        return fault(situation::PREFIX_MISSING, "the route has no condition on a prefix".to_owned());
    };
    let of = |prefix: &str| policy.replace_prefix.iter().find(|one| one.prefix == prefix);
    let Some(replacement) = of(matched).or_else(|| of("")).map(|one| &*one.replacement) else { return Ok(None) };
    let is_path =
        |text: &str| text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    let elements = replacement.trim_end_matches('/');
    let values = HeaderValue::parse(elements).zip(HeaderValue::parse(&format!("{elements}/")));
    let Some((without, with)) = values.filter(|_| is_path(replacement)) else {
        return fault(situation::PREFIX_NOT_VALID, format!("{replacement:?} is not a path"));
    };
    let (without, with) = (PathRewrite::Prefix(without), PathRewrite::Prefix(with));
    let stem = matched.trim_end_matches('/');
    Ok(Some(match () {
        () if stem.is_empty() => PrefixRewrites { own: with, pair: None },
        () if stem.len() == matched.len() => {
            PrefixRewrites { own: without, pair: Some((PathMatch::Prefix(format!("{stem}/").into()), with)) }
        }
        () => PrefixRewrites { own: with, pair: Some((PathMatch::Prefix(stem.into()), without)) },
    }))
}

/// Returns a redirect, or why it is not valid.
pub fn redirect(policy: &RedirectPolicy, path: &PathMatch) -> Result<Redirect, String> {
    let RedirectPolicy { scheme, hostname, port, status_code, path: full, prefix, rest: _ } = policy;
    let scheme = match scheme.as_deref() {
        None | Some("") => None,
        Some("http") => Some(Scheme::Http),
        Some("https") => Some(Scheme::Https),
        Some(other) => return Err(format!("scheme {other:?} is neither \"http\" nor \"https\"")),
    };
    let code = status_code.unwrap_or(302);
    let status = u16::try_from(code).ok().and_then(RedirectStatus::from_code);
    let status = status.ok_or_else(|| format!("status {code} is not one of 301, 302, 303, 307, and 308"))?;
    let port = port.map(|port| u16::try_from(port).ok().filter(|port| *port > 0).ok_or(port)).transpose();
    let port = port.map_err(|port| format!("port {port} is not a number from 1 to 65535"))?;
    let valid_host = |text: &str| match host::parse(text) {
        Ok(name @ Host::Exact(_)) => HeaderValue::parse(&name.to_string()),
        _ => None,
    };
    let hostname = hostname.as_deref().filter(|text| !text.is_empty());
    let host = hostname.map(|text| valid_host(text).ok_or_else(|| format!("hostname {text:?} is not a DNS name")));
    let host = host.transpose()?;
    let value = |text: &str| {
        let is_path = text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        HeaderValue::parse(text).filter(|_| is_path).ok_or_else(|| format!("{text:?} is not a path"))
    };
    let path = match (full.as_deref().unwrap_or_default(), prefix.as_deref().unwrap_or_default()) {
        ("", "") => None,
        (full, "") => Some(PathRewrite::Full(value(full)?)),
        ("", prefix) if matches!(path, PathMatch::Prefix(_)) => Some(PathRewrite::Prefix(value(prefix)?)),
        ("", _) => return Err("the route has no condition on a prefix that \"prefix\" could replace".to_owned()),
        _ => return Err("only one of \"path\" and \"prefix\" can be set".to_owned()),
    };
    let rewrite = (host.is_some() || path.is_some()).then(|| Arc::new(Rewrite { host, path }));
    Ok(Redirect { status, scheme, port, rewrite })
}

/// Returns an answer of Envoy itself, or why it is not valid.
pub fn direct_response(policy: &DirectResponsePolicy) -> Result<Action, String> {
    let DirectResponsePolicy { status_code, body, rest } = policy;
    if let Some(name) = rest.names().next() {
        return Err(format!("field {name:?} is not supported"));
    }
    let status = u16::try_from(*status_code).ok().filter(|status| (200..600).contains(status));
    let status = status.ok_or_else(|| format!("status {status_code} is not between 200 and 599"))?;
    if body.len() > LONGEST_BODY {
        return Err(format!("the body is longer than {LONGEST_BODY} bytes"));
    }
    Ok(Action::Respond { status, body: (!body.is_empty()).then(|| body.as_str().into()) })
}
