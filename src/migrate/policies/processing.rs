//! The server of an HTTPPolicy that changes requests and responses.

use lockgate_route::model::{Processed, ProcessedBody, Processing};
use serde_json::{Value, json};

use super::super::rules::{RulePlace, duration};
use super::authorization::backend;
use crate::check::Translated;

/// Returns the feature.
pub fn written(source: &Translated, server: &Processing, place: RulePlace) -> Value {
    // Without `..`, so that a new field does not compile until it is considered.
    let Processing { cluster, request, response, timeout, fail_open } = server;
    let mut feature = json!({
        "backendRef": backend(source, cluster, place),
        "request": parts(*request),
        "response": parts(*response),
        "timeout": duration(Some(*timeout)),
    });
    if *fail_open {
        feature["failOpen"] = json!(true);
    }
    feature
}

fn parts(processed: Processed) -> Value {
    let Processed { headers, body } = processed;
    let (mode, limit) = match body {
        ProcessedBody::None => ("None", None),
        ProcessedBody::Buffered(limit) => ("Buffered", limit),
        ProcessedBody::Streamed => ("Streamed", None),
    };
    let mut written = json!({ "headers": if headers { "Send" } else { "Skip" }, "body": mode });
    if let Some(bytes) = limit {
        written["maxBytes"] = json!(format!("{bytes}B"));
    }
    written
}
