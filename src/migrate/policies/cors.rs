//! The permissions of scripts of other origins.

use std::time::Duration;

use lockgate_route::model::{Cors, HeaderValue, OriginMatch};
use serde_json::{Value, json};

use super::super::losses::{FindingText, Losses};
use super::super::rules::RulePlace;

/// The maximum numbers of origins and headers, and of methods, of an HTTPPolicy.
const MOST: usize = 32;
const METHODS: usize = 16;
/// The longest time that browsers keep an answer.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Reports a part of CORS, once for an object. Without CORS, no script of another origin reads a response.
fn report(place: RulePlace, losses: &mut Losses, [message, consequence, remedy]: [&str; 3]) {
    if losses.is_first(place.owner, message) {
        let text = FindingText { message: message.to_owned(), consequence, remedy };
        losses.add_changed(place.owner, losses.field_of_root(place.owner, "corsPolicy"), text);
    }
}

/// Returns the feature `cors` of an HTTPPolicy with the permissions of an HTTPProxy, and reports those that it cannot have.
pub fn written(cors: &Cors, place: RulePlace, losses: &mut Losses) -> Option<Value> {
    // Without `..`, so that a new field does not compile until it is considered.
    let Cors {
        allow_origins,
        allow_methods,
        allow_headers,
        expose_headers,
        max_age,
        allow_credentials,
        allow_private_network,
    } = cors;
    let mut origins = Vec::new();
    for origin in allow_origins {
        match origin {
            OriginMatch::Any => origins.push("*"),
            // With Contour, `*` in an origin is no pattern and permits nothing. In an HTTPPolicy, it would permit all subdomains.
            OriginMatch::Exact(origin) if is_of_a_page(origin) => origins.push(origin),
            OriginMatch::Exact(_) => {}
            OriginMatch::Regex(text) => {
                let message = format!("HTTPPolicies have no regular expression for origins, such as {text:?}");
                let remedy = "List the origins, such as https://*.example.com, and migrate again.";
                report(place, losses, [&message, "scripts of these origins do not read responses", remedy]);
            }
        }
    }
    if origins.is_empty() {
        return None;
    }
    if *allow_private_network {
        let texts = [
            "HTTPPolicies do not permit access from public to private networks",
            "scripts of public networks do not send requests to private addresses",
            "Answer preflight requests in the Service, or keep the HTTPProxy.",
        ];
        report(place, losses, texts);
    }
    let headers: Vec<&str> = expose_headers.iter().map(|name| name.as_str()).collect();
    let lists = [
        ("allowOrigins", origins.clone(), MOST),
        ("allowMethods", list(allow_methods.as_ref()), METHODS),
        ("allowHeaders", list(allow_headers.as_ref()), MOST),
        ("exposeHeaders", headers, MOST),
    ];
    let mut spec = json!({});
    for (name, mut entries, most) in lists {
        if entries.len() > most {
            let message = format!("an HTTPPolicy has at most {most} {name}");
            report(place, losses, [&message, "the others are left out", "Use fewer, or *, and migrate again."]);
            entries.truncate(most);
        }
        if !entries.is_empty() {
            spec[name] = json!(entries);
        }
    }
    // Without a value, browsers and HTTPPolicies have the default of 5 seconds.
    if let Some(age) = max_age.filter(|age| age.as_secs() > 0) {
        spec["maxAge"] = json!(format!("{}s", age.min(LONGEST).as_secs()));
    }
    if *allow_credentials && origins.contains(&"*") {
        let texts = [
            "HTTPPolicies permit no credentials to scripts of all origins",
            "scripts read the answers to requests without credentials only",
            "List the origins, and migrate again.",
        ];
        report(place, losses, texts);
    } else if *allow_credentials {
        spec["allowCredentials"] = json!(true);
    }
    Some(spec)
}

/// Returns whether browsers can send this text as the origin of a page.
fn is_of_a_page(origin: &str) -> bool {
    let Some((scheme, authority)) = origin.split_once("://") else { return false };
    let (name, port) = authority.rsplit_once(':').unwrap_or((authority, "0"));
    let is_name = name.split('.').all(|label| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    });
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_scheme && is_name && port.parse::<u16>().is_ok_and(|number| number.to_string() == port)
}

/// Returns the parts of a list in one header.
fn list(value: Option<&HeaderValue>) -> Vec<&str> {
    let text = value.map(HeaderValue::as_str).unwrap_or_default();
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect()
}
