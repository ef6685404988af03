//! The services that Contour names by ExtensionServices: tracing, global rate limits, and global authorization.

use lockgate_route::objects::http_proxy::ExtensionService;
use lockgate_route::objects::{Object, ObjectKey};
use serde_json::{Map, Value, json};

use super::configuration::Configuration;
use super::convert::{How, convert, text};
use super::defaults;
use super::draft::Draft;
use super::parts::invalid;
use super::row::Verdict;

/// An address that refuses connections: the port `discard` of the own machine.
const NOWHERE: &str = "127.0.0.1:9";

/// The endpoint of an ExtensionService.
struct Endpoint {
    path: &'static str,
    /// The address and the time limit, or the reason why there is none.
    found: Result<(String, Option<String>), String>,
}

/// Sets the endpoints and what follows from them. `objects` are the objects of the input.
pub fn set(configuration: &Configuration, objects: &[Object], draft: &mut Draft) {
    tracing(configuration, objects, draft);
    rate_limit(configuration, objects, draft);
    authorization(configuration, objects, draft);
}

/// Returns the endpoint of the ExtensionService that a key names: `namespace/name`, or an object with both.
fn endpoint(configuration: &Configuration, objects: &[Object], file: &str, object: &str) -> Option<Endpoint> {
    let (path, value) = configuration.part(file, object)?;
    let named = match value {
        Value::Object(_) => {
            let of = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
            ObjectKey::new(of("namespace"), of("name"))
        }
        other => {
            let text = text(other).unwrap_or_default();
            let (namespace, name) = text.split_once('/').unwrap_or(("", &text));
            ObjectKey::new(namespace, name)
        }
    };
    if named.name.is_empty() {
        return None;
    }
    let found = objects.iter().filter_map(Object::get::<ExtensionService>).find(|one| one.meta.key == named);
    let found = match found {
        Some(service) => address(service),
        None => Err(format!("ExtensionService \"{named}\" is not in the input")),
    };
    Some(Endpoint { path, found })
}

/// Returns the address of the Service with the largest weight, and the time limit.
fn address(service: &ExtensionService) -> Result<(String, Option<String>), String> {
    let key = &service.meta.key;
    let weight = |index: usize| service.spec.services.get(index).and_then(|target| target.weight).unwrap_or(1);
    let heaviest = (0..service.spec.services.len()).rev().max_by_key(|index| weight(*index));
    let target = heaviest.and_then(|index| service.spec.services.get(index));
    let target = target.ok_or_else(|| format!("ExtensionService \"{key}\" names no Service"))?;
    if service.spec.protocol.as_deref().unwrap_or("h2") == "h2" {
        return Err(format!(
            "ExtensionService \"{key}\" has the protocol h2: Lockgate speaks to this service without TLS"
        ));
    }
    let limit = service.spec.timeout_policy.as_ref().map(|policy| policy.response.clone());
    let limit = limit.filter(|limit| !limit.is_empty());
    Ok((format!("{}.{}.svc.cluster.local:{}", target.name, key.namespace, target.port), limit))
}

/// Returns the time limit of an ExtensionService, or the default of Envoy.
fn limit_or(limit: Option<String>, path: &str, default: &str) -> Value {
    let limit = limit.and_then(|limit| convert(How::Limit, path, &json!(limit)).ok()?.value);
    limit.unwrap_or_else(|| json!(default))
}

fn tracing(configuration: &Configuration, objects: &[Object], draft: &mut Draft) {
    let key = "tracing.extensionService";
    let Some(Endpoint { path, found }) = endpoint(configuration, objects, key, key) else { return };
    match found {
        Ok((address, _)) => {
            draft.set("tracing.endpoint", json!(address), "", configuration.row(path, Verdict::Same, "", ""));
            draft.set("tracing.serviceName", json!("contour"), "", defaults::row("tracing.serviceName", ""));
        }
        Err(why) => {
            draft.close("tracing.");
            let remedy = "Set tracing.endpoint to a port without TLS, as HOST:PORT.";
            let message = format!("requests are not traced: {why}");
            draft.report(configuration.row(path, Verdict::Attention, message, remedy));
        }
    }
}

fn rate_limit(configuration: &Configuration, objects: &[Object], draft: &mut Draft) {
    let key = "rateLimitService.extensionService";
    let Some(Endpoint { path, found }) = endpoint(configuration, objects, key, key) else { return };
    match found {
        Ok((address, limit)) => {
            draft.set("rateLimit.endpoint", json!(address), "", configuration.row(path, Verdict::Same, "", ""));
            let default = defaults::row("rateLimit.domain", "");
            draft.set("rateLimit.domain", json!("contour"), "", default);
            let comment = "For rateLimitPolicy.global of HTTPProxies.";
            draft.set("tenants.globalRateLimits", json!(true), comment, defaults::row("tenants.globalRateLimits", ""));
            let limit = limit_or(limit, "rateLimit.timeout", "20ms");
            draft.set("rateLimit.timeout", limit, "", defaults::row("rateLimit.timeout", ""));
        }
        Err(why) => {
            draft.close("rateLimit.");
            let remedy = "Set rateLimit.endpoint to a port without TLS, as HOST:PORT, and tenants.globalRateLimits.";
            let message = format!("no request is limited by the service: {why}");
            draft.report(configuration.row(path, Verdict::Attention, message, remedy));
        }
    }
    let key = "rateLimitService.defaultGlobalRateLimitPolicy";
    let Some((path, policy)) = configuration.part(key, key) else { return };
    let is_disabled = policy.get("disabled") == Some(&Value::Bool(true));
    let descriptors = policy.get("descriptors").map(camel).filter(|_| !is_disabled);
    let Some(descriptors) = descriptors else {
        return draft.report(configuration.row(path, Verdict::Same, "no effect without descriptors", ""));
    };
    match crate::settings::check_json("rateLimit.descriptors", &descriptors) {
        Ok(()) => {
            let message = "the descriptors apply to all hosts; with Contour, an HTTPProxy can replace them, and Ingresses have none";
            let remedy = "Compare them with rateLimitPolicy.global of the HTTPProxies.";
            let row = configuration.row(path, Verdict::Attention, message, remedy);
            draft.set("rateLimit.descriptors", descriptors, "", row);
        }
        Err(why) => draft.report(invalid(configuration, path, &why)),
    }
}

/// Returns descriptors with the names of settings. The configuration file has some names in lower case.
fn camel(value: &Value) -> Value {
    const NAMES: [&str; 7] = [
        "genericKey",
        "requestHeader",
        "requestHeaderValueMatch",
        "remoteAddress",
        "headerName",
        "descriptorKey",
        "expectMatch",
    ];
    const OF_HEADERS: [&str; 2] = ["ignoreCase", "treatMissingAsEmpty"];
    let name = |name: &str| {
        let known = NAMES.iter().chain(&OF_HEADERS).find(|known| known.eq_ignore_ascii_case(name));
        known.map_or_else(|| name.to_owned(), |known| (*known).to_owned())
    };
    match value {
        Value::Object(fields) => {
            let has_effect = |value: &Value| !matches!(value, Value::Null | Value::Bool(false)) && value != "";
            let fields =
                fields.iter().filter(|(key, value)| has_effect(value) || key.eq_ignore_ascii_case("expectMatch"));
            Value::Object(fields.map(|(key, value)| (name(key), camel(value))).collect::<Map<_, _>>())
        }
        Value::Array(items) => items.iter().map(camel).collect(),
        other => other.clone(),
    }
}

fn authorization(configuration: &Configuration, objects: &[Object], draft: &mut Draft) {
    let found = endpoint(configuration, objects, "globalExtAuth.extensionService", "globalExtAuth.extensionRef");
    let Some(Endpoint { path, found }) = found else { return };
    let endpoint = "externalAuthorization.endpoint";
    match found {
        Ok((address, limit)) => {
            draft.set(endpoint, json!(address), "", configuration.row(path, Verdict::Same, "", ""));
            let permission = "tenants.disableAuthorization";
            let comment = "For authPolicy.disabled of HTTPProxies. Remove this line if the authors of all namespaces must be authorized.";
            draft.set(permission, json!(true), comment, defaults::row(permission, ""));
            let own = configuration.part("globalExtAuth.responseTimeout", "globalExtAuth.responseTimeout");
            if own.is_none() {
                let limit = limit_or(limit, "externalAuthorization.timeout", "200ms");
                let row = defaults::row("externalAuthorization.timeout", "");
                draft.set("externalAuthorization.timeout", limit, "", row);
            }
        }
        Err(why) => {
            // A file without authorization would serve what Contour denies.
            let message = format!("the service is unknown, so all requests are answered 403: {why}");
            let remedy = "Set externalAuthorization.endpoint to a port without TLS, as HOST:PORT, and the other keys below \
                          externalAuthorization.";
            let row = configuration.row(path, Verdict::Attention, message, remedy);
            draft.set(endpoint, json!(NOWHERE), "REPLACE: all requests are answered 403.", row);
            draft.close("externalAuthorization.");
        }
    }
}
