//! Filters of HTTPRoutes.

use std::sync::Arc;
use std::time::Duration;

use super::parser::Parser;
use super::{backend, external_auth};
use crate::model::{
    ClusterFilter, Cors, Filters, ForwardFilter, HeaderChange, HeaderName, HeaderValue, Mirror, OriginMatch,
    PathRewrite, Redirect, RedirectStatus, Rewrite, RouteFilter, Scheme, Share,
};
use crate::objects::gateway::{CorsFilter, HeaderFilter, HttpFilter, MirrorFilter, PathModifier, RedirectFilter};
use crate::translate::problem::Reason;

/// The filters of a rule.
#[derive(Debug, Default)]
pub struct Filtered {
    /// The changes of responses of every action.
    pub responses: Filters<RouteFilter>,
    /// The filters of forwarded requests.
    pub forward: Vec<ForwardFilter>,
    /// The redirect that answers the requests.
    pub redirect: Option<Redirect>,
    /// Whether a filter is not supported. Requests are then answered 500: skipping a filter could be unsafe.
    pub is_unsupported: bool,
}

/// Parses the filters of a rule. Source: Gateway API v1, `HTTPRouteRule.filters`.
pub fn filters(field: &str, filters: &[HttpFilter], parser: &mut Parser) -> Filtered {
    let mut filtered = Filtered::default();
    let mut responses = Vec::new();
    for (index, filter) in filters.iter().enumerate() {
        let field = format!("{field}.filters[{index}]");
        match parse(&field, filter, parser) {
            Ok(Parsed::Responses(changes)) => responses.push(RouteFilter::ResponseHeaders(changes)),
            Ok(Parsed::Forward(filter)) => filtered.forward.push(filter),
            Ok(Parsed::Redirect(redirect)) => filtered.redirect = Some(redirect),
            Ok(Parsed::Nothing) => {}
            Ok(Parsed::Unsupported) => filtered.is_unsupported = true,
            Err(message) => {
                parser.left_out(field, Reason::RouteFilterNotValid, message, "requests of the rule are answered 500");
                filtered.is_unsupported = true;
            }
        }
    }
    let asked = filtered.forward.iter().filter(|filter| matches!(filter, ForwardFilter::Authorization(_))).count();
    let fault = match asked {
        // A redirect has no filters of forwarded requests.
        1 if filtered.redirect.is_some() => Some("filter \"ExternalAuth\" is not supported beside a redirect"),
        0 | 1 => None,
        // A request can wait for two servers, and a policy may require one of them.
        _ => Some("filter \"ExternalAuth\" cannot be repeated"),
    };
    if let Some(message) = fault {
        let message = message.to_owned();
        parser.left_out(
            format!("{field}.filters"),
            Reason::RouteFilterNotValid,
            message,
            "requests of the rule are answered 500",
        );
        filtered.is_unsupported = true;
    }
    filtered.responses = responses.into();
    filtered
}

/// Parses the filters of a backend. Returns `None` if a filter is unsupported or invalid, because the backend must not
/// receive unfiltered requests. Source: Gateway API v1, `HTTPBackendRef.filters`.
pub fn cluster_filters(field: &str, filters: &[HttpFilter], parser: &mut Parser) -> Option<Vec<ClusterFilter>> {
    let (mut parsed, mut is_valid) = (Vec::new(), true);
    for (index, filter) in filters.iter().enumerate() {
        let changes = match (filter.r#type.as_str(), &filter.request_header_modifier, &filter.response_header_modifier)
        {
            ("RequestHeaderModifier", Some(changes), _) => changed(changes).map(ClusterFilter::RequestHeaders),
            ("ResponseHeaderModifier", _, Some(changes)) => changed(changes).map(ClusterFilter::ResponseHeaders),
            (other, ..) => Err(format!("filter {other:?} is not supported for a backend")),
        };
        match changes {
            Ok(filter) => parsed.push(filter),
            Err(message) => {
                let field = format!("{field}.filters[{index}]");
                let instead = "the backend's share of the requests is answered 500";
                parser.left_out(field, Reason::RouteFilterNotValid, message, instead);
                is_valid = false;
            }
        }
    }
    is_valid.then_some(parsed)
}

enum Parsed {
    Responses(Vec<HeaderChange>),
    Forward(ForwardFilter),
    Redirect(Redirect),
    /// A valid filter without effect.
    Nothing,
    /// A filter that is not valid, which is already reported.
    Unsupported,
}

fn parse(field: &str, filter: &HttpFilter, parser: &mut Parser) -> Result<Parsed, String> {
    let missing = || format!("the configuration of filter {:?} is missing", filter.r#type);
    Ok(match filter.r#type.as_str() {
        "RequestHeaderModifier" => {
            let changes = changed(filter.request_header_modifier.as_ref().ok_or_else(missing)?)?;
            Parsed::Forward(ForwardFilter::RequestHeaders(changes))
        }
        "ResponseHeaderModifier" => {
            Parsed::Responses(changed(filter.response_header_modifier.as_ref().ok_or_else(missing)?)?)
        }
        "RequestRedirect" => Parsed::Redirect(redirect(filter.request_redirect.as_ref().ok_or_else(missing)?)?),
        "URLRewrite" => {
            let rewrite = filter.url_rewrite.as_ref().ok_or_else(missing)?;
            let path = rewrite.path.as_ref().map(path_rewrite).transpose()?;
            Parsed::Forward(ForwardFilter::Rewrite(Rewrite { host: host(rewrite.hostname.as_deref())?, path }))
        }
        "RequestMirror" => mirror(field, filter.request_mirror.as_ref().ok_or_else(missing)?, parser)?,
        "ExternalAuth" => external_auth::parse(field, filter.external_auth.as_ref().ok_or_else(missing)?, parser)?
            .map_or(Parsed::Unsupported, |authorization| {
                Parsed::Forward(ForwardFilter::Authorization(Arc::new(authorization)))
            }),
        "CORS" => Parsed::Forward(ForwardFilter::Cors(Box::new(cors(filter.cors.as_ref().ok_or_else(missing)?)?))),
        other => return Err(format!("filter {other:?} is not supported")),
    })
}

fn changed(filter: &HeaderFilter) -> Result<Vec<HeaderChange>, String> {
    let name = HeaderName::parse_changeable;
    let value = |text: &str| HeaderValue::parse(text).ok_or_else(|| format!("{text:?} is not the value of a header"));
    let set = filter.set.iter().map(|header| Ok(HeaderChange::Set(name(&header.name)?, value(&header.value)?)));
    let add = filter.add.iter().map(|header| Ok(HeaderChange::Add(name(&header.name)?, value(&header.value)?)));
    let remove = filter.remove.iter().map(|text| Ok(HeaderChange::Remove(name(text)?)));
    set.chain(add).chain(remove).collect()
}

fn host(text: Option<&str>) -> Result<Option<HeaderValue>, String> {
    let valid = |text: &str| {
        let name = crate::translate::host::parse(text).ok()?;
        HeaderValue::parse(&name.to_string()).filter(|_| matches!(name, crate::model::Host::Exact(_)))
    };
    text.map(|text| valid(text).ok_or_else(|| format!("hostname {text:?} is not a DNS name"))).transpose()
}

fn path_rewrite(modifier: &PathModifier) -> Result<PathRewrite, String> {
    let value = |text: &Option<String>| {
        let text = text.as_deref().ok_or("the new path is missing")?;
        // Not a URL, and nothing that ends the first line of a request. An empty prefix removes the matched one.
        let is_path = (text.is_empty() || text.starts_with('/'))
            && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        HeaderValue::parse(text).filter(|_| is_path).ok_or_else(|| format!("{text:?} is not a path"))
    };
    match modifier.r#type.as_str() {
        "ReplaceFullPath" => Ok(PathRewrite::Full(value(&modifier.replace_full_path)?)),
        "ReplacePrefixMatch" => Ok(PathRewrite::Prefix(value(&modifier.replace_prefix_match)?)),
        other => Err(format!("path type {other:?} is not known")),
    }
}

fn redirect(filter: &RedirectFilter) -> Result<Redirect, String> {
    let code = filter.status_code.unwrap_or(302);
    let status = RedirectStatus::from_code(code).ok_or_else(|| format!("status code {code} is not a redirect"))?;
    let scheme = match filter.scheme.as_deref() {
        None => None,
        Some("http") => Some(Scheme::Http),
        Some("https") => Some(Scheme::Https),
        Some(other) => return Err(format!("scheme {other:?} is not known")),
    };
    let (host, path) = (host(filter.hostname.as_deref())?, filter.path.as_ref().map(path_rewrite).transpose()?);
    let rewrite = (host.is_some() || path.is_some()).then(|| Arc::new(Rewrite { host, path }));
    Ok(Redirect { status, scheme, port: filter.port, rewrite })
}

fn mirror(field: &str, filter: &MirrorFilter, parser: &mut Parser) -> Result<Parsed, String> {
    let share = match (&filter.fraction, filter.percent) {
        (Some(fraction), _) => Share::new(fraction.numerator, fraction.denominator.unwrap_or(100)),
        (None, Some(percent)) => Share::new(percent, 100),
        (None, None) => Some(Share::ALL),
    };
    let share = share.ok_or("the share of the requests is not between 0 and 1")?;
    match backend::cluster(&filter.backend_ref, parser) {
        Ok(cluster) if share.millionths() > 0 => Ok(Parsed::Forward(ForwardFilter::Mirror(Mirror { cluster, share }))),
        Ok(_) => Ok(Parsed::Nothing),
        // A mirror without a receiver must not fail the request.
        Err(fault) => {
            fault.report(&format!("{field}.requestMirror.backendRef"), parser, "requests are not copied");
            Ok(Parsed::Nothing)
        }
    }
}

/// Source: Gateway API v1, `HTTPCORSFilter`; the Fetch standard.
fn cors(filter: &CorsFilter) -> Result<Cors, String> {
    let credentials = filter.allow_credentials.unwrap_or(false);
    let list = |texts: &[String]| -> Result<Option<HeaderValue>, String> {
        let text = texts.join(", ");
        HeaderValue::parse(&text)
            .map(|value| (!texts.is_empty()).then_some(value))
            .ok_or(format!("{text:?} is not valid"))
    };
    let expose = filter.expose_headers.iter();
    let expose = expose.map(|name| HeaderName::parse(name).ok_or_else(|| format!("{name:?} is not a header")));
    Ok(Cors {
        allow_origins: filter.allow_origins.iter().map(|origin| origin_match(origin)).collect(),
        allow_methods: list(&filter.allow_methods)?,
        allow_headers: list(&filter.allow_headers)?,
        expose_headers: expose.collect::<Result<_, _>>()?,
        max_age: Some(Duration::from_secs(filter.max_age.unwrap_or(5).into())),
        allow_credentials: credentials,
        allow_private_network: false,
    })
}

/// Parses an origin. Its host may be `*`, or begin with `*`, which matches one or several labels.
fn origin_match(origin: &str) -> OriginMatch {
    if origin == "*" {
        return OriginMatch::Any;
    }
    match origin.split_once("*") {
        None => OriginMatch::Exact(origin.into()),
        Some((before, after)) => {
            let escape = regex_syntax::escape;
            OriginMatch::Regex(format!("{}[^/]+{}", escape(before), escape(after)).into())
        }
    }
}
