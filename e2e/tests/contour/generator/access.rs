//! Random lists of addresses, and changes of the cookies of backends.

use serde_json::{Value, json};

use super::{Generator, insert};

/// The cookies that the backends set.
pub const COOKIES: &[&str] = &["one", "two"];
/// Ranges of addresses. Requests come from 127.0.0.1.
const RANGES: &[&str] = &["127.0.0.1", "127.0.0.0/8", "10.0.0.0/8", "192.0.2.7", "2001:db8::/32", "0.0.0.0/0"];

impl Generator<'_> {
    /// Sets a list of addresses of a host or a route, or none. Both kinds of lists are a fault.
    pub fn addresses(&mut self, block: &mut Value) {
        let name = *self.random.choose(&["ipAllowPolicy", "ipDenyPolicy"]);
        let count = self.random.within(1..=2);
        let list: Vec<Value> = (0..count)
            .map(|_| {
                let source = *self.random.choose(&["Peer", "Remote"]);
                json!({ "source": source, "cidr": self.random.choose(RANGES) })
            })
            .collect();
        block[name] = list.into();
    }

    /// Sets the changes of cookies of a route or a Service.
    pub fn cookies(&mut self, block: &mut Value) {
        let mut policies = Vec::new();
        for name in COOKIES.iter().chain(&["three"]) {
            if self.random.one_in(2) {
                policies.push(self.cookie(name));
            }
        }
        insert(block, "cookieRewritePolicies", policies);
    }

    fn cookie(&mut self, name: &str) -> Value {
        let mut policy = json!({ "name": name });
        // One change at least.
        match self.random.below(4) {
            0 => policy["pathRewrite"] = json!({ "value": self.random.choose(&["/", "/new", "/a/b"]) }),
            1 => policy["domainRewrite"] = json!({ "value": self.random.choose(&["a.test", "sub.a.test"]) }),
            2 => policy["secure"] = self.random.one_in(2).into(),
            _ => policy["sameSite"] = (*self.random.choose(&["Strict", "Lax", "None"])).into(),
        }
        if self.random.one_in(2) {
            policy["secure"] = self.random.one_in(2).into();
        }
        if self.random.one_in(3) {
            policy["pathRewrite"] = json!({ "value": "/other" });
        }
        policy
    }
}
