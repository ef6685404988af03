//! The features `retries`, `timeouts`, and `urlRewrite` of HTTPPolicies.

use lockgate_route::model::{PathRewrite, Retry, Rewrite, TimeLimits};
use serde_json::{Value, json};

use crate::migrate::rules::duration;

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
pub fn rewrite_spec(rewrite: &Rewrite) -> Value {
    let Rewrite { host, path } = rewrite;
    let mut spec = json!({});
    if let Some(host) = host {
        spec["hostname"] = json!(host.as_str());
    }
    // A policy has no other changes of paths.
    if let Some(PathRewrite::Regex(regex)) = path {
        spec["path"] = json!({ "regex": { "pattern": &*regex.pattern, "substitution": &*regex.substitution } });
    }
    spec
}
