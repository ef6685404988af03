//! Routes of a host that share a path.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::generator::{Proxy, Set};
use super::super::requests::Sent;

/// Returns whether a request is below a prefix that several routes of its host have, and that one of them replaces. Prefixes with and
/// without a slash at the end are equal.
pub fn is_shared(set: &Set, sent: &Sent) -> bool {
    let (path, prefixes) = (normalized(&sent.path), prefixes(set, sent));
    prefixes.iter().any(|(prefix, found)| found.routes > 1 && found.is_replaced && path.starts_with(prefix.as_str()))
}

/// Returns whether a request is below a text that is a replaced prefix without the slash at its end, and not below the prefix.
pub fn is_widened(set: &Set, sent: &Sent) -> bool {
    let (path, prefixes) = (normalized(&sent.path), prefixes(set, sent));
    prefixes.iter().any(|(prefix, found)| {
        let rest = path.strip_prefix(prefix.as_str());
        found.is_replaced && found.has_slash && rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
    })
}

/// Returns whether several routes with the path of a request have equally many conditions, but not the same. `exact` and `prefix` are
/// paths of their own.
pub fn is_tied(set: &Set, sent: &Sent) -> bool {
    let path = normalized(&sent.path);
    let mut found = BTreeMap::new();
    for proxy in set.proxies.iter().filter(|proxy| is_root_of(proxy, &sent.host)) {
        count(set, proxy, &Block::default(), 0, &mut found);
    }
    found.iter().any(|(block, count)| {
        *count > 1
            && block.conditions != (0, 0)
            && (block.is_regex || path.starts_with(block.path.trim_end_matches('/')))
    })
}

/// A path with the numbers of its conditions on headers and query parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Block {
    path: String,
    is_exact: bool,
    is_regex: bool,
    conditions: (usize, usize),
}

impl Block {
    /// Returns the block with the conditions of a route or an include.
    fn below(&self, block: &Value) -> Self {
        let mut found = Self { path: below(&self.path, block), ..self.clone() };
        for condition in list(&block["conditions"]) {
            found.conditions.0 += usize::from(!condition["header"].is_null());
            found.conditions.1 += usize::from(!condition["queryParameter"].is_null());
            if let Some(exact) = condition["exact"].as_str() {
                found.path += exact;
                found.is_exact = true;
            }
            if let Some(regex) = condition["regex"].as_str() {
                found.path += regex;
                found.is_regex = true;
            }
        }
        // An include of `/` adds nothing.
        found.path = found.path.replace("//", "/");
        found
    }
}

/// Counts the routes of each block.
fn count(set: &Set, proxy: &Proxy, above: &Block, depth: usize, found: &mut BTreeMap<Block, usize>) {
    if depth > 8 {
        return;
    }
    for route in list(&proxy.spec["routes"]) {
        let mut block = above.below(route);
        if !block.is_exact && !block.is_regex {
            block.path = block.path.trim_end_matches('/').to_owned();
        }
        *found.entry(block).or_default() += 1;
    }
    for include in list(&proxy.spec["includes"]) {
        if let Some(included) = set.included(include) {
            count(set, included, &above.below(include), depth + 1, found);
        }
    }
}

/// The routes with a prefix, with and without a slash at its end.
#[derive(Debug, Default)]
struct Found {
    routes: usize,
    is_replaced: bool,
    has_slash: bool,
}

/// Returns the prefixes of the host of a request, without slashes at the end.
fn prefixes(set: &Set, sent: &Sent) -> BTreeMap<String, Found> {
    let mut prefixes = BTreeMap::new();
    for proxy in set.proxies.iter().filter(|proxy| is_root_of(proxy, &sent.host)) {
        collect(set, proxy, "", 0, &mut prefixes);
    }
    prefixes
}

fn is_root_of(proxy: &Proxy, host: &str) -> bool {
    let fqdn = proxy.spec["virtualhost"]["fqdn"].as_str();
    fqdn.is_some_and(|fqdn| fqdn == host || fqdn.strip_prefix('*').is_some_and(|suffix| host.ends_with(suffix)))
}

/// Collects the prefixes of the routes of an object and of those that it includes.
fn collect(set: &Set, proxy: &Proxy, above: &str, depth: usize, prefixes: &mut BTreeMap<String, Found>) {
    if depth > 8 {
        return;
    }
    for route in list(&proxy.spec["routes"]) {
        let is_prefix = list(&route["conditions"]).iter().all(|one| one["exact"].is_null() && one["regex"].is_null());
        if is_prefix {
            let prefix = below(above, route);
            let entry = prefixes.entry(prefix.trim_end_matches('/').to_owned()).or_default();
            entry.routes += 1;
            entry.is_replaced |= !route["pathRewritePolicy"].is_null();
            entry.has_slash |= prefix.len() > 1 && prefix.ends_with('/');
        }
    }
    for include in list(&proxy.spec["includes"]) {
        if let Some(included) = set.included(include) {
            collect(set, included, &below(above, include), depth + 1, prefixes);
        }
    }
}

/// Returns a prefix with that of a route or an include.
fn below(above: &str, block: &Value) -> String {
    let own = list(&block["conditions"]).iter().find_map(|one| one["prefix"].as_str()).unwrap_or_default();
    let mut joined = format!("{above}{own}");
    while joined.contains("//") {
        joined = joined.replace("//", "/");
    }
    joined
}

/// Returns a path as Envoy matches it.
fn normalized(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('?').next().unwrap_or_default().split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
