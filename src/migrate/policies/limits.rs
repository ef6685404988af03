//! The features `retries` and `timeouts` of HTTPPolicies.

use lockgate_route::model::{Retry, TimeLimits};
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
