//! The filter for CORS.

use lockgate_route::model::{Cors, HeaderValue, OriginMatch};
use serde_json::{Value, json};

use super::super::losses::{Losses, Text};
use super::super::rules::Place;

/// Reports a part of CORS, once for an object. Without CORS, no script of another origin reads a response.
fn report(place: Place, losses: &mut Losses, [message, consequence, remedy]: [&str; 3]) {
    if losses.is_first(place.owner, message) {
        let text = Text { message: message.to_owned(), consequence, remedy };
        losses.add_changed(place.owner, losses.field_of_root(place.owner, "corsPolicy"), text);
    }
}

/// Returns the filter `CORS` with these permissions, and reports those that no filter can have.
pub fn written(cors: &Cors, experimental: bool, place: Place, losses: &mut Losses) -> Option<Value> {
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
    if !experimental {
        let texts = [
            "CORS is a filter of the experimental channel of Gateway API",
            "scripts of other origins do not read responses",
            "Write an HTTPPolicy with cors, or install the experimental channel and migrate with --experimental.",
        ];
        report(place, losses, texts);
        return None;
    }
    let mut origins = Vec::new();
    for origin in allow_origins {
        match origin {
            OriginMatch::Any => origins.push("*"),
            // With Contour, this is no pattern and permits nothing. In an HTTPRoute, it would permit all subdomains.
            OriginMatch::Exact(origin) if origin.contains('*') => {}
            OriginMatch::Exact(origin) => origins.push(origin),
            OriginMatch::Regex(text) => {
                let message = format!("HTTPRoutes have no regular expression for origins, such as {text:?}");
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
            "HTTPRoutes do not permit access from public to private networks",
            "scripts of public networks do not send requests to private addresses",
            "Answer preflight requests in the Service, or keep the HTTPProxy.",
        ];
        report(place, losses, texts);
    }
    let mut filter = json!({ "allowOrigins": origins });
    for (name, value) in [("allowMethods", allow_methods), ("allowHeaders", allow_headers)] {
        if let Some(value) = value {
            filter[name] = json!(list(value));
        }
    }
    if !expose_headers.is_empty() {
        filter["exposeHeaders"] = expose_headers.iter().map(|name| json!(name.as_str())).collect();
    }
    // Without a value, browsers and HTTPRoutes have the default of 5 seconds.
    if let Some(age) = max_age.filter(|age| age.as_secs() > 0) {
        filter["maxAge"] = json!(age.as_secs());
    }
    if *allow_credentials {
        filter["allowCredentials"] = json!(true);
    }
    Some(json!({ "type": "CORS", "cors": filter }))
}

/// Returns the parts of a list in one header.
fn list(value: &HeaderValue) -> Vec<&str> {
    value.as_str().split(',').map(str::trim).filter(|part| !part.is_empty()).collect()
}
