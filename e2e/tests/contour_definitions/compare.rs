//! The comparison of definitions, field by field. A definition may be stricter than the other, and have more fields.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use serde_json::{Map, Value, json};

/// Where the definitions may differ: the end of the path of a field, a keyword, and the reason.
const DIFFERENCES: &[(&str, &str, &str)] = &[
    ("authorization", "+httpSettings", "a field of later versions: servers over HTTP"),
    ("authorization", "+serviceType", "a field of later versions: servers over HTTP"),
    ("jwtProviders[]", "+localJWKS", "a field of later versions: keys in a Secret"),
    ("jwtProviders[]", "required", "a provider with localJWKS has no remoteJWKS; the rule demands one of them"),
    ("jwtProviders[]", "x-kubernetes-validations", "one of remoteJWKS and localJWKS"),
    ("ExtensionService.spec.protocol", "enum", "a protocol of later versions: servers over HTTP"),
    ("ExtensionService", "required", "an ExtensionService without a spec has no server"),
    ("ExtensionService.spec.services[].weight", "minimum", "a weight is not negative"),
    ("circuitBreakerPolicy.maxConnections", "minimum", "a limit is not negative"),
    ("circuitBreakerPolicy.maxPendingRequests", "minimum", "a limit is not negative"),
    ("circuitBreakerPolicy.maxRequests", "minimum", "a limit is not negative"),
    ("circuitBreakerPolicy.maxRetries", "minimum", "a limit is not negative"),
    ("circuitBreakerPolicy.perHostMaxConnections", "minimum", "a limit is not negative"),
    ("rateLimitPolicy.local.burst", "minimum", "a number of requests is not negative"),
    ("validation", "x-kubernetes-validations", "the same rule in other words"),
    ("virtualhost.fqdn", "maxLength", "a DNS name has at most 253 bytes"),
    ("virtualhost.fqdn", "pattern", "a label of a DNS name has at most 63 bytes"),
    ("corsPolicy.allowHeaders[]", "pattern", "the same characters"),
    ("corsPolicy.allowMethods[]", "pattern", "the same characters"),
    ("corsPolicy.exposeHeaders[]", "pattern", "the same characters"),
    ("corsPolicy.maxAge", "pattern", "a unit needs a number"),
    ("authorization.responseTimeout", "pattern", "a unit needs a number"),
    ("remoteJWKS.cacheDuration", "pattern", "a unit needs a number"),
    ("remoteJWKS.timeout", "pattern", "a unit needs a number"),
    ("retryPolicy.perTryTimeout", "pattern", "a unit needs a number"),
    ("slowStartPolicy.window", "pattern", "a unit needs a number"),
    ("timeoutPolicy.idle", "pattern", "a unit needs a number"),
    ("timeoutPolicy.idleConnection", "pattern", "a unit needs a number"),
    ("timeoutPolicy.response", "pattern", "a unit needs a number"),
    ("slowStartPolicy.aggression", "pattern", "the same numbers"),
    ("cookieRewritePolicies[].name", "pattern", "the name of a cookie is ASCII"),
    ("pathRewrite.value", "pattern", "the same characters"),
    ("requestRedirectPolicy.path", "pattern", "a path has no control characters"),
    ("requestRedirectPolicy.prefix", "pattern", "a path has no control characters"),
];

/// The keywords of which a higher value is stricter, and those of which a lower value is.
const LOWER_BOUNDS: [&str; 3] = ["minimum", "minLength", "minItems"];
const UPPER_BOUNDS: [&str; 3] = ["maximum", "maxLength", "maxItems"];

/// A difference: the path of a field, the keyword, and the two values.
struct Difference {
    path: String,
    keyword: String,
    values: [Value; 2],
}

/// Fails unless `ours` differ from `theirs` exactly in the [`DIFFERENCES`].
pub fn assert_as_strict(ours: &BTreeMap<String, Value>, theirs: &BTreeMap<String, Value>) {
    let mut all = Vec::new();
    for (name, ours) in ours {
        let [ours, theirs] = [ours, &theirs[name]].map(definition);
        compare(ours["names"]["kind"].as_str().expect("a kind"), &ours, &theirs, &mut all);
    }
    let mut used = BTreeSet::new();
    let (mut patterns, mut faults) = (BTreeSet::new(), Vec::new());
    for Difference { path, keyword, values: [ours, theirs] } in all {
        let text = format!("{path}: {keyword}: {ours} instead of {theirs} of Contour");
        let entry = DIFFERENCES.iter().find(|(end, of, _)| {
            *of == keyword && path.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        });
        match entry {
            None => faults.push(text),
            Some(_) if !is_stricter(&keyword, &ours, &theirs) => faults.push(format!("{text}, which is not stricter")),
            Some(entry) => {
                println!("{text}: {}", entry.2);
                used.insert(entry);
                if keyword == "pattern" {
                    patterns.insert([ours, theirs].map(|one| one.as_str().unwrap_or_default().to_owned()));
                }
            }
        }
    }
    for [ours, theirs] in patterns {
        faults.extend(looser(&ours, &theirs).map(|text| format!("{ours} accepts {text:?}, and {theirs} does not")));
    }
    let unused = DIFFERENCES.iter().filter(|one| !used.contains(one));
    faults.extend(unused.map(|one| format!("no difference: {one:?}")));
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// Returns the number of fields of a definition.
pub fn count(definition: &Value) -> usize {
    fn fields(schema: &Value) -> usize {
        let own = schema["properties"].as_object().into_iter().flatten().map(|(_, field)| 1 + fields(field));
        own.sum::<usize>() + schema.get("items").map_or(0, fields)
    }
    fields(&definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
}

/// Returns the parts of a definition that count for its users: names, scope, and the only version, whose schema is merged into it.
fn definition(whole: &Value) -> Value {
    let spec = &whole["spec"];
    let versions = spec["versions"].as_array().expect("versions");
    assert_eq!(versions.len(), 1, "{versions:?}");
    let version = &versions[0];
    let mut columns = version["additionalPrinterColumns"].clone();
    for column in columns.as_array_mut().into_iter().flatten() {
        column.as_object_mut().expect("a column").remove("description");
    }
    let mut schema = version["schema"]["openAPIV3Schema"].clone();
    for (name, value) in [
        ("names", &spec["names"]),
        ("group", &spec["group"]),
        ("scope", &spec["scope"]),
        ("version", &version["name"]),
        ("served", &version["served"]),
        ("storage", &version["storage"]),
        ("subresources", &version["subresources"]),
        ("columns", &columns),
    ] {
        schema[name] = value.clone();
    }
    schema
}

/// Adds the differences of two schemas and of the fields in them.
fn compare(path: &str, ours: &Value, theirs: &Value, all: &mut Vec<Difference>) {
    let [ours, theirs] = [ours, theirs].map(normalized);
    let keywords: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    for keyword in keywords {
        let values = [&ours, &theirs].map(|one| one.get(keyword).cloned().unwrap_or_default());
        match (&**keyword, &values) {
            ("properties", [our, their]) => {
                let [our, their] = [our, their].map(|one| one.as_object().cloned().unwrap_or_default());
                let names: BTreeSet<&String> = our.keys().chain(their.keys()).collect();
                for name in names {
                    match (our.get(name), their.get(name)) {
                        (Some(our), Some(their)) => compare(&format!("{path}.{name}"), our, their, all),
                        (our, _) => {
                            let keyword = format!("{}{name}", if our.is_some() { '+' } else { '-' });
                            let values = [json!(our.is_some()), json!(our.is_none())];
                            all.push(Difference { path: path.to_owned(), keyword, values });
                        }
                    }
                }
            }
            ("items" | "additionalProperties", [our, their]) if our.is_object() && their.is_object() => {
                compare(&format!("{path}[]"), our, their, all);
            }
            (_, [our, their]) if our == their => {}
            _ => all.push(Difference { path: path.to_owned(), keyword: keyword.clone(), values }),
        }
    }
}

/// Returns a schema without texts for people, with sorted lists whose order has no effect, and with inclusive bounds.
fn normalized(schema: &Value) -> Map<String, Value> {
    let mut schema = schema.as_object().cloned().unwrap_or_default();
    schema.remove("description");
    for keyword in ["enum", "required"] {
        if let Some(Value::Array(values)) = schema.get_mut(keyword) {
            values.sort_by_key(Value::to_string);
        }
    }
    if schema.remove("exclusiveMaximum") == Some(json!(true)) && schema["type"] == "integer" {
        let maximum = schema["maximum"].as_i64().expect("a maximum");
        schema.insert("maximum".to_owned(), json!(maximum - 1));
    }
    schema
}

/// Returns whether a value of a keyword can be stricter than another one. Patterns are compared by [`looser`].
fn is_stricter(keyword: &str, ours: &Value, theirs: &Value) -> bool {
    if LOWER_BOUNDS.contains(&keyword) {
        return ours.as_i64() > theirs.as_i64();
    }
    if UPPER_BOUNDS.contains(&keyword) {
        return ours.as_i64().is_some_and(|ours| theirs.as_i64().is_none_or(|theirs| ours < theirs));
    }
    !keyword.starts_with('-') && !ours.is_null()
}

/// Returns a pattern of Go as one of Rust, where `[` in a class is escaped.
fn escaped(pattern: &str) -> String {
    let (mut text, mut in_class, mut is_escaped) = (String::new(), false, false);
    for character in pattern.chars() {
        if in_class && !is_escaped && character == '[' {
            text.push('\\');
        }
        in_class = if is_escaped { in_class } else { character == '[' || in_class && character != ']' };
        is_escaped = character == '\\' && !is_escaped;
        text.push(character);
    }
    text
}

/// Returns a text that `ours` accepts and `theirs` does not, among all short texts of characters and of parts of durations and names.
fn looser(ours: &str, theirs: &str) -> Option<String> {
    let [ours, theirs] = [ours, theirs].map(|pattern| Regex::new(&escaped(pattern)).expect("a pattern"));
    let parts = ["1", "20", ".", "h", "ms", "µs", "infinity", "infinite", "0", "-", "+", "a", "*.", "/", " "];
    let characters: Vec<String> = (0..=255u8).map(|byte| char::from(byte).to_string()).collect();
    let parts = parts.map(str::to_owned);
    let mut accepted = 0;
    for (alphabet, most) in [(&characters[..], 2), (&parts[..], 4)] {
        let mut texts = vec![String::new()];
        for length in 0..=most {
            for text in texts.iter().filter(|text| ours.is_match(text)) {
                accepted += 1;
                if !theirs.is_match(text) {
                    return Some(text.clone());
                }
            }
            if length < most {
                texts =
                    texts.iter().flat_map(|text| alphabet.iter().map(move |part| format!("{text}{part}"))).collect();
            }
        }
    }
    assert!(accepted > 10, "{ours} accepts {accepted} of the texts");
    None
}
