//! Random permissions of scripts of other origins (CORS).

use serde_json::{Value, json};

use super::Generator;

/// The origins of requests.
pub const ORIGINS: &[&str] =
    &["https://app.test", "https://a.b.test", "http://app.test:8080", "https://app.testing", "null"];
/// Entries of `allowOrigin`: origins, and regular expressions.
const ALLOWED: &[&str] = &[
    "*",
    "https://app.test",
    "https://APP.test",
    "http://app.test:8080",
    "https://.*\\.b\\.test",
    "https://app.test.*",
    ".*",
];

impl Generator<'_> {
    /// Returns a `corsPolicy`.
    pub fn scripts(&mut self) -> Value {
        let count = self.random.within(1..=2);
        let origins: Vec<&str> = (0..count).map(|_| *self.random.choose(ALLOWED)).collect();
        let methods: &[&str] = [&["GET"][..], &["GET", "PUT"], &["*"]][self.random.within(0..=2)];
        let mut policy = json!({ "allowOrigin": origins, "allowMethods": methods });
        if self.random.one_in(2) {
            policy["allowHeaders"] = json!([&["x-a"][..], &["X-A", "x-b"], &["*"]][self.random.within(0..=2)]);
        }
        if self.random.one_in(2) {
            policy["exposeHeaders"] = json!([&["x-backend"][..], &["X-R", "server"]][self.random.within(0..=1)]);
        }
        if self.random.one_in(2) {
            policy["maxAge"] = (*self.random.choose(&["0s", "10m", "1h30m"])).into();
        }
        if self.random.one_in(2) {
            policy["allowCredentials"] = self.random.one_in(2).into();
        }
        if self.random.one_in(5) {
            policy["allowPrivateNetwork"] = true.into();
        }
        policy
    }
}
