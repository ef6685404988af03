//! Retry conditions.

use serde_json::{Value as Json, json};

use super::Scalar;
use crate::settings::RETRY_CONDITIONS;

/// A retry condition.
pub struct RetryCondition;

impl Scalar for RetryCondition {
    type Value = String;
    const NAME: &'static str = "retry condition of Envoy";

    fn parse(text: &str) -> Result<String, String> {
        match RETRY_CONDITIONS.contains(&text) {
            true => Ok(text.to_owned()),
            false => Err(format!("expected {}", RETRY_CONDITIONS.join(", "))),
        }
    }

    fn show(value: &String) -> Json {
        value.as_str().into()
    }

    fn schema() -> Json {
        json!({"enum": RETRY_CONDITIONS})
    }
}
