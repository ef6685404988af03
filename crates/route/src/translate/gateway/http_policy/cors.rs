//! The permissions of scripts of other origins by an HTTPPolicy.

use std::sync::Arc;
use std::time::Duration;

use crate::duration;
use crate::model::{Cors, HeaderName, HeaderValue, Host, OriginMatch};
use crate::objects::gateway::CorsSpec;
use crate::translate::fault::FieldFault;
use crate::translate::host;

/// The maximum numbers of origins and headers, and of methods. Source: CustomResourceDefinition. Manifests are not validated against it.
const MOST: usize = 32;
const METHODS: usize = 16;
/// How long browsers keep the answer to a preflight request if the policy does not tell. Source: the Fetch standard.
const DEFAULT_AGE: Duration = Duration::from_secs(5);
/// The longest time that a browser keeps an answer.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Parses the permissions.
pub fn parse(spec: &CorsSpec) -> Result<Arc<Cors>, FieldFault> {
    let CorsSpec { allow_origins, allow_methods, allow_headers, expose_headers, allow_credentials, max_age } = spec;
    let lists = [
        ("allowOrigins", allow_origins, MOST),
        ("allowMethods", allow_methods, METHODS),
        ("allowHeaders", allow_headers, MOST),
        ("exposeHeaders", expose_headers, MOST),
    ];
    for (field, list, most) in lists {
        if list.len() > most {
            return Err(FieldFault::new(format!(".{field}"), format!("more than {most} entries")));
        }
    }
    if allow_origins.is_empty() {
        return Err(FieldFault::new(".allowOrigins", "no origin is allowed"));
    }
    let origin = |(i, text): (usize, &String)| {
        let fault = || {
            let message =
                format!("{text:?} is not an origin such as https://app.example.com, https://*.example.com, or *");
            FieldFault::new(format!(".allowOrigins[{i}]"), message)
        };
        origin_match(text).ok_or_else(fault)
    };
    let origins: Vec<OriginMatch> = allow_origins.iter().enumerate().map(origin).collect::<Result<_, _>>()?;
    if *allow_credentials && origins.contains(&OriginMatch::Any) {
        let message = "credentials need a list of origins, because every page could read what a user may read";
        return Err(FieldFault::new(".allowCredentials", message));
    }
    let max_age = match max_age {
        None => DEFAULT_AGE,
        Some(text) => {
            let age = duration::parse(text).filter(|age| *age <= LONGEST);
            age.ok_or_else(|| FieldFault::new(".maxAge", format!("{text:?} is not a time up to 24h, such as 10m")))?
        }
    };
    Ok(Arc::new(Cors {
        allow_origins: origins,
        allow_methods: joined(&tokens("allowMethods", allow_methods)?),
        allow_headers: joined(&tokens("allowHeaders", allow_headers)?),
        expose_headers: tokens("exposeHeaders", expose_headers)?
            .iter()
            .filter_map(|name| HeaderName::parse(name))
            .collect(),
        max_age: Some(max_age),
        allow_credentials: *allow_credentials,
        allow_private_network: false,
    }))
}

/// Returns names of methods or headers; `*` is one as well.
fn tokens<'a>(field: &str, texts: &'a [String]) -> Result<Vec<&'a str>, FieldFault> {
    let token = |(i, text): (usize, &'a String)| {
        HeaderName::parse(text)
            .map(|_| text.as_str())
            .ok_or_else(|| FieldFault::new(format!(".{field}[{i}]"), format!("{text:?} is not a name, or *")))
    };
    texts.iter().enumerate().map(token).collect()
}

fn joined(texts: &[&str]) -> Option<HeaderValue> {
    HeaderValue::parse(&texts.join(",")).filter(|_| !texts.is_empty())
}

/// Parses an origin as browsers send it: in lower case, without a path.
fn origin_match(text: &str) -> Option<OriginMatch> {
    if text == "*" {
        return Some(OriginMatch::Any);
    }
    let lower = text.to_ascii_lowercase();
    let (scheme, rest) = lower.split_once("://")?;
    let is_scheme = |text: &str| {
        text.starts_with(|first: char| first.is_ascii_lowercase())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    };
    let (name, port) = match rest.rsplit_once(':') {
        Some((name, port)) => (name, Some(port.parse::<u16>().ok().filter(|number| number.to_string() == port)?)),
        None => (rest, None),
    };
    let end = port.map(|port| format!(":{port}")).unwrap_or_default();
    match host::parse(name).ok().filter(|_| is_scheme(scheme))? {
        Host::Exact(name) => Some(OriginMatch::Exact(format!("{scheme}://{name}{end}").into())),
        Host::Wildcard(suffix) => {
            let escape = regex_syntax::escape;
            let pattern = format!("{}([a-z0-9_-]+\\.)+{}{end}", escape(&format!("{scheme}://")), escape(&suffix));
            Some(OriginMatch::Regex(pattern.into()))
        }
        Host::Any => None,
    }
}
