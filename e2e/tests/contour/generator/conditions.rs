//! Random conditions of routes and includes, from few words, so that they match often and overlap.

use serde_json::{Value, json};

use super::Generator;

/// Prefixes and exact paths.
pub const PATHS: &[&str] = &["/", "/a", "/a/", "/ab", "/a/b", "/b", "/b/", "/api", "/api/v1", "/a.b"];
/// Regular expressions of paths.
const PATTERNS: &[&str] = &["/a.*", "/a|/b", "/api/v[0-9]+", "/(a|b)/x?", "/b+", "/a.b", "/[a-c]/.*b"];
/// The headers of routes.
pub const HEADERS: &[&str] = &["x-a", "X-B"];
/// The query parameters of routes.
pub const PARAMETERS: &[&str] = &["q", "r"];
/// The values of headers and parameters.
pub const VALUES: &[&str] = &["one", "two", "One", "onetwo", "o.e", "twone"];
/// Regular expressions of values.
const VALUE_PATTERNS: &[&str] = &["one", "o.e", "(one|two)+", ".*", "[a-z]+", "tw.*"];

impl Generator<'_> {
    /// Returns the conditions of a route.
    pub fn route_conditions(&mut self) -> Vec<Value> {
        let mut conditions = Vec::new();
        match self.random.below(10) {
            0 => {}
            1 | 2 => conditions.push(json!({ "exact": self.random.choose(PATHS) })),
            3 => conditions.push(json!({ "regex": self.random.choose(PATTERNS) })),
            _ => conditions.push(json!({ "prefix": self.random.choose(PATHS) })),
        }
        for name in HEADERS {
            if self.random.one_in(5) {
                conditions.push(self.header(name));
            }
        }
        if self.random.one_in(8) {
            let method = *self.random.choose(&["GET", "POST", "DELETE"]);
            conditions.push(json!({ "header": { "name": ":method", "exact": method } }));
        }
        for name in PARAMETERS {
            if self.random.one_in(8) {
                conditions.push(self.parameter(name));
            }
        }
        // With Contour, an exact path has to be the last condition.
        if conditions.iter().any(|one| one.get("exact").is_some()) || self.random.one_in(4) {
            conditions.reverse();
        }
        conditions
    }

    /// Returns the conditions of an include at a level of a tree.
    pub fn include_conditions(&mut self, level: usize) -> Vec<Value> {
        let mut conditions = Vec::new();
        if !self.random.one_in(6) {
            conditions.push(json!({ "prefix": self.random.choose(PATHS) }));
        }
        if self.random.one_in(8) {
            conditions.push(self.header(&format!("x-{level}")));
        }
        if self.random.one_in(12) {
            conditions.push(self.parameter(&format!("q{level}")));
        }
        conditions
    }

    fn header(&mut self, name: &str) -> Value {
        let value = *self.random.choose(VALUES);
        let mut header = match self.random.below(8) {
            0 => json!({ "present": true }),
            1 => json!({ "notpresent": true }),
            2 => json!({ "contains": value }),
            3 => json!({ "notcontains": value }),
            4 | 5 => json!({ "exact": value }),
            6 => json!({ "notexact": value }),
            _ => json!({ "regex": self.random.choose(VALUE_PATTERNS) }),
        };
        header["name"] = name.into();
        let is_text = ["contains", "notcontains", "exact", "notexact"].iter().any(|one| header.get(one).is_some());
        if is_text && self.random.one_in(3) {
            header["ignoreCase"] = true.into();
        }
        let is_negative = header.get("notcontains").is_some() || header.get("notexact").is_some();
        if is_negative && self.random.one_in(3) {
            header["treatMissingAsEmpty"] = true.into();
        }
        json!({ "header": header })
    }

    fn parameter(&mut self, name: &str) -> Value {
        let value = *self.random.choose(VALUES);
        let mut parameter = match self.random.below(7) {
            0 => json!({ "present": true }),
            1 => json!({ "prefix": value }),
            2 => json!({ "suffix": value }),
            3 => json!({ "contains": value }),
            4 => json!({ "regex": self.random.choose(VALUE_PATTERNS) }),
            _ => json!({ "exact": value }),
        };
        parameter["name"] = name.into();
        let is_text = parameter.get("present").is_none() && parameter.get("regex").is_none();
        if is_text && self.random.one_in(3) {
            parameter["ignoreCase"] = true.into();
        }
        json!({ "queryParameter": parameter })
    }
}
