//! The features of HTTPPolicies for limits, requests that are forwarded, and answers.

use std::ops::RangeInclusive;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use lockgate_route::model::{
    ErrorResponse, Faults, GlobalRateLimit, GrpcJson, HostRewrite, PathRewrite, PolicyRewrite, RateLimitEntry,
    RegexRewrite, ResponseLimit, Retry, Share, TimeLimits, WasmModule,
};
use serde_json::{Value, json};

use crate::check::Translated;
use crate::migrate::losses::{FindingText, Losses};
use crate::migrate::rules::{RulePlace, duration};

/// Returns the feature `globalRateLimit`, without the descriptors of the settings. A descriptor that a policy does not express is reported.
pub fn global_rate_limit_spec(
    limit: &GlobalRateLimit,
    source: &Translated,
    place: RulePlace,
    losses: &mut Losses,
) -> Option<Value> {
    const PART: &str = "rateLimitPolicy.global";
    let general = &source.settings.rate_limit.descriptors;
    let own = match limit.descriptors.strip_prefix(general.as_slice()) {
        Some(own) => own,
        None => {
            let texts = [
                "an HTTPPolicy adds its descriptors to those of the settings",
                "the service counts the descriptors of the settings too",
                "Remove rateLimit.descriptors from the settings.",
            ];
            place.report_change(losses, PART, texts);
            &limit.descriptors
        }
    };
    let mut descriptors = Vec::new();
    for descriptor in own {
        let entries: Option<Vec<Value>> = descriptor.iter().map(entry).collect();
        match entries {
            Some(entries) => descriptors.push(json!({ "entries": entries })),
            None => {
                let text = FindingText {
                    message: "HTTPPolicies have no descriptors with conditions on headers".to_owned(),
                    consequence: "the requests are not limited by this descriptor",
                    remedy: "Write a route for these requests with a policy of its own, or keep the HTTPProxy.",
                };
                losses.add_lost(place.owner, place.below(losses, PART), text);
            }
        }
    }
    if descriptors.is_empty() {
        return None;
    }
    let texts = [
        "the descriptors of an HTTPPolicy begin with the entry \"namespace\"",
        "the limits of the service do not apply until it knows these descriptors",
        "Add the entry \"namespace\" with the namespace of the HTTPPolicy to the configuration of the service.",
    ];
    place.report_change(losses, PART, texts);
    Some(json!({ "descriptors": descriptors }))
}

fn entry(entry: &RateLimitEntry) -> Option<Value> {
    Some(match entry {
        RateLimitEntry::GenericKey { key, value } => {
            json!({ "type": "Value", "key": key.as_deref().unwrap_or("generic_key"), "value": value })
        }
        RateLimitEntry::RequestHeader { header_name, descriptor_key } => {
            json!({ "type": "Header", "key": descriptor_key, "header": header_name })
        }
        RateLimitEntry::RemoteAddress => json!({ "type": "ClientAddress" }),
        RateLimitEntry::RequestHeaderValueMatch { .. } => return None,
    })
}

/// Returns the feature `retries`.
pub fn retries_spec(retry: &Retry) -> Value {
    let Retry { on, retries, per_try_timeout, status_codes, backoff } = retry;
    let mut spec = json!({ "attempts": retries, "conditions": on.split(',').collect::<Vec<_>>() });
    if !status_codes.is_empty() {
        spec["codes"] = json!(status_codes);
    }
    for (name, time) in [("perTryTimeout", per_try_timeout), ("backoff", backoff)] {
        if time.is_some() {
            spec[name] = json!(duration(*time));
        }
    }
    spec
}

/// Returns the feature `timeouts`.
pub fn timeouts_spec(limits: &TimeLimits) -> Value {
    let TimeLimits { request, idle } = limits;
    let mut spec = json!({});
    for (name, limit) in [("request", request), ("idle", idle)] {
        if let Some(limit) = limit {
            spec[name] = json!(duration(*limit));
        }
    }
    spec
}

/// Returns the feature `urlRewrite`.
pub fn rewrite_spec(rewrite: &PolicyRewrite) -> Value {
    let PolicyRewrite { host, path } = rewrite;
    let mut spec = json!({});
    match host {
        Some(HostRewrite::Name(name)) => spec["hostname"] = json!(name.as_str()),
        Some(HostRewrite::Header(name)) => spec["hostnameFrom"] = json!({ "header": name.as_str() }),
        Some(HostRewrite::Path(regex)) => {
            let RegexRewrite { pattern, substitution } = &**regex;
            spec["hostnameFrom"] = json!({ "path": { "pattern": &**pattern, "substitution": &**substitution } });
        }
        None => {}
    }
    // A policy has no other changes of paths.
    if let Some(PathRewrite::Regex(regex)) = path {
        spec["path"] = json!({ "regex": { "pattern": &*regex.pattern, "substitution": &*regex.substitution } });
    }
    spec
}

/// Returns the feature `errorResponses`.
pub fn error_responses_spec(answers: &[ErrorResponse]) -> Value {
    let answer = |answer: &ErrorResponse| {
        let ErrorResponse { statuses, status, content_type, body } = answer;
        let range = |range: &RangeInclusive<u16>| match range.start() == range.end() {
            true => json!(range.start()),
            false => json!(format!("{}-{}", range.start(), range.end())),
        };
        let statuses: Vec<Value> = statuses.iter().map(range).collect();
        let mut spec = json!({ "statuses": statuses, "contentType": content_type.as_str(), "body": &**body });
        if let Some(status) = status {
            spec["status"] = json!(status);
        }
        spec
    };
    answers.iter().map(answer).collect()
}

/// Returns the feature `wasm`.
pub fn wasm_spec(module: &WasmModule) -> Value {
    json!({ "module": &*module.name })
}

/// Returns the feature `grpcJson`.
pub fn grpc_json_spec(json: &GrpcJson) -> Value {
    let GrpcJson { descriptors, services, max_bytes: _ } = json;
    let services: Vec<&str> = services.iter().map(|service| &**service).collect();
    json!({ "descriptors": BASE64_STANDARD.encode(descriptors), "services": services })
}

/// Returns the feature `maxResponseBody`.
pub fn max_response_body_spec(limit: ResponseLimit) -> Value {
    let ResponseLimit { bytes, allows_unknown } = limit;
    let unknown = if allows_unknown { "Allow" } else { "Refuse" };
    json!({ "size": format!("{bytes}B"), "unknownLength": unknown })
}

/// Returns the feature `faults`. A policy has shares in percent.
pub fn faults_spec(faults: Faults) -> Value {
    let Faults { delay, abort } = faults;
    let percent = |share: Share| share.millionths() / 10_000;
    let mut spec = json!({});
    if let Some((time, share)) = delay {
        spec["delay"] = json!({ "duration": duration(Some(time)), "percent": percent(share) });
    }
    if let Some((status, share)) = abort {
        spec["abort"] = json!({ "status": status, "percent": percent(share) });
    }
    spec
}
