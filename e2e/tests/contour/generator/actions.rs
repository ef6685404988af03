//! Random actions of routes.

use serde_json::{Value, json};

use super::Generator;

/// The Services of each namespace.
pub const SERVICES: &[&str] = &["s0", "s1", "s2"];
/// Replacements of prefixes.
const REPLACEMENTS: &[&str] = &["/", "/x", "/x/", "/x/y", "/a"];
/// Values of headers that policies set.
const NEW_VALUES: &[&str] =
    &["one", "100%", "%CONTOUR_NAMESPACE%", "%REQ(x-a)%", "%PROTOCOL%", "a%%b", "%REQ(x-a?x-b)%"];

impl Generator<'_> {
    /// Sets the action of a route and the policies that belong to it.
    pub fn action(&mut self, route: &mut Value, is_prefix: bool) {
        match self.random.below(10) {
            0 => route["requestRedirectPolicy"] = self.redirect(is_prefix),
            1 => route["directResponsePolicy"] = self.direct_response(),
            _ => self.forward(route, is_prefix),
        }
        if self.random.one_in(8) {
            self.addresses(route);
        }
        if self.random.one_in(5) {
            route["responseHeadersPolicy"] = self.header_policy(&["x-r", "X-Served-By", "server"]);
        }
    }

    fn redirect(&mut self, is_prefix: bool) -> Value {
        let mut policy = json!({});
        if self.random.one_in(2) {
            policy["scheme"] = (*self.random.choose(&["http", "https"])).into();
        }
        if self.random.one_in(2) {
            policy["hostname"] = "other.test".into();
        }
        if self.random.one_in(3) {
            policy["port"] = (*self.random.choose(&[80, 443, 8080])).into();
        }
        if self.random.one_in(2) {
            policy["statusCode"] = (*self.random.choose(&[301, 302, 303, 307, 308])).into();
        }
        match self.random.below(3) {
            0 => policy["path"] = (*self.random.choose(&["/", "/new", "/new?q=1"])).into(),
            1 if is_prefix => policy["prefix"] = (*self.random.choose(REPLACEMENTS)).into(),
            _ => {}
        }
        policy
    }

    fn direct_response(&mut self) -> Value {
        let status = *self.random.choose(&[200, 204, 401, 404, 418, 500, 503]);
        let mut policy = json!({ "statusCode": status });
        if self.random.one_in(2) && status != 204 {
            policy["body"] = (*self.random.choose(&["short", "100% %REQ(x-a)%", "{\"a\": 1}"])).into();
        }
        policy
    }

    fn forward(&mut self, route: &mut Value, is_prefix: bool) {
        let first = *self.random.choose(SERVICES);
        let mut services = vec![json!({ "name": first, "port": 80 })];
        if self.random.one_in(4) {
            let second = *self.random.choose(&["s0", "s1", "s2", "missing"]);
            services.push(json!({ "name": second, "port": 80 }));
            let weights = *self.random.choose(&[[100, 0], [0, 100], [1, 1], [3, 1]]);
            if self.random.one_in(3) {
                services[0]["weight"] = 5.into();
            } else {
                services[0]["weight"] = weights[0].into();
                services[1]["weight"] = weights[1].into();
            }
        } else if self.random.one_in(12) {
            services[0]["name"] = "missing".into();
        } else if self.random.one_in(12) {
            services[0]["port"] = 81.into();
        }
        for service in &mut services {
            if self.random.one_in(8) {
                service["requestHeadersPolicy"] = self.header_policy(&["x-s", "X-A", "Host"]);
            }
            if self.random.one_in(8) {
                service["responseHeadersPolicy"] = self.header_policy(&["x-r", "X-Served-By", "x-t"]);
            }
            if self.random.one_in(8) {
                self.cookies(service);
            }
        }
        route["services"] = services.into();
        if self.random.one_in(5) {
            route["requestHeadersPolicy"] = self.header_policy(&["x-n", "X-B", "user-agent", "Host"]);
        }
        if self.random.one_in(6) {
            self.cookies(route);
        }
        if is_prefix && self.random.one_in(4) {
            route["pathRewritePolicy"] = json!({ "replacePrefix": self.replacements() });
        }
        if self.random.one_in(10) {
            let response = *self.random.choose(&["5s", "infinity", "1m", "0s"]);
            route["timeoutPolicy"] = json!({ "response": response, "idle": "1m" });
        }
        if self.random.one_in(10) {
            route["retryPolicy"] = json!({ "count": self.random.within(0..=2), "perTryTimeout": "1s" });
        }
        if self.random.one_in(10) {
            route["enableWebsockets"] = true.into();
        }
    }

    /// Returns replacements of prefixes without equal prefixes. Without a prefix, an entry is the default.
    fn replacements(&mut self) -> Vec<Value> {
        let mut entries: Vec<Value> = Vec::new();
        for _ in 0..self.random.within(1..=3) {
            let mut entry = json!({ "replacement": self.random.choose(REPLACEMENTS) });
            if !self.random.one_in(3) {
                entry["prefix"] = (*self.random.choose(super::PATHS)).into();
            }
            if entries.iter().all(|other| other.get("prefix") != entry.get("prefix")) {
                entries.push(entry);
            }
        }
        entries
    }

    fn header_policy(&mut self, names: &[&str]) -> Value {
        let mut set: Vec<Value> = Vec::new();
        let mut remove: Vec<&str> = Vec::new();
        for name in names {
            match self.random.below(4) {
                0 if *name == "Host" => set.push(json!({ "name": name, "value": "rewritten.test" })),
                0 | 1 if *name != "Host" => {
                    let value = *self.random.choose(NEW_VALUES);
                    set.push(json!({ "name": name, "value": value }));
                }
                2 if *name != "Host" => remove.push(name),
                _ => {}
            }
        }
        let mut policy = json!({});
        super::insert(&mut policy, "set", set);
        if !remove.is_empty() {
            policy["remove"] = json!(remove);
        }
        policy
    }
}
