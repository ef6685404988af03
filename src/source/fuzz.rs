//! Fuzz target `yaml`: damaged manifests, hostile YAML, and their decoded objects.

use fuzzing::Random;
use serde_json::Value;

use super::kinds::{ROWS, from_value};
use super::{decode, resources};
use crate::yaml::documents;

/// The limit of memory that aliases add to a file, twice: an anchor stores a copy of its value.
const ALIASED: usize = 16 << 20;

/// Parts of YAML that are expensive to parse when repeated.
const PARTS: [&str; 40] = [
    "[",
    "]",
    "{",
    "}",
    "- ",
    "? ",
    ": ",
    "a: ",
    "&a ",
    "*a ",
    "*a, ",
    "&b [*a, *a, *a, *a]\n",
    "<<: *a\n",
    "!!str ",
    "!<tag:x> ",
    "%YAML 1.1\n",
    "%TAG ! x\n",
    "---\n",
    "...\n",
    "\n",
    "\n  ",
    "\t",
    "\"",
    "'",
    "|\n",
    ">-\n  ",
    "# ",
    "x",
    "\u{feff}",
    "\u{85}",
    "\\",
    "\\u0000",
    ",",
    "é",
    "0x",
    "1e999",
    "~",
    "k: v\n",
    "  k: &k [1]\n",
    "<<: [*k, *k]\n",
];

/// A resource file, beside the manifests.
const RESOURCES: &str = r#"
"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
name: cart
type: EDS
connect_timeout: 1.5s
eds_cluster_config: {eds_config: &config {ads: {}, resource_api_version: V3}}
---
resources:
- name: web
  ttl: 3s
  resource:
    "@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
    name: web
    virtual_hosts: [{name: a, domains: ["*"], routes: [{match: {prefix: /}, route: {cluster: cart}}]}]
"#;

fn hostile(random: &mut Random) -> String {
    let parts: Vec<&str> = (0..random.within(1..=4)).map(|_| *random.choose(&PARTS)).collect();
    // An occasional large input shows quadratic cost as the slowest input.
    let most = if random.one_in(200) { 1 << 16 } else { 256 };
    let body = parts.concat().repeat(random.within(1..=most) / parts.len());
    let (head, tail) = (*random.choose(&PARTS), *random.choose(&PARTS));
    format!("{head}{body}{tail}")
}

/// Returns the approximate memory of a value.
fn weight(value: &Value) -> usize {
    let inner = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + weight(value)).sum(),
        _ => 0,
    };
    32 + inner
}

#[test]
fn fuzz_yaml() {
    let mut corpus: Vec<String> = vec![RESOURCES.to_owned()];
    corpus.extend(fuzzing::files("src/golden", "in.yaml").into_iter().filter(|text| text.len() < 4096));
    corpus.extend(fuzzing::files("examples", ".yaml"));
    assert!(corpus.len() > 100, "the manifests were not found");
    fuzzing::run("yaml", 500, |random| {
        let text = match random.one_in(4) {
            true => hostile(random),
            false => {
                let bytes = random.choose(&corpus).as_bytes();
                String::from_utf8_lossy(&random.mutate(bytes, &corpus)).into_owned()
            }
        };
        let (mut total, mut good, mut objects, mut all) = (0, 0, 0, 0);
        for document in documents(&text) {
            all += 1;
            document.line_of("spec.rules[0].http.paths[1].path");
            let Ok(value) = document.value() else { continue };
            good += 1;
            total += weight(&value);
            for (path, value) in decode::flatten(value) {
                match from_value(value, &ROWS) {
                    Ok(object) => objects += usize::from(object.is_some()),
                    Err(fault) => {
                        let fault = document.fault(&decode::join(&path, &fault.path), fault.message);
                        assert!(fault.to_string().len() < 2048 + 2 * text.len());
                    }
                }
            }
        }
        assert!(total <= ALIASED + 64 * text.len(), "{total} bytes of values from {} of text", text.len());
        let (resources, _) = resources::parse("fuzz.yaml", &text);
        match (objects + resources.len(), good == all) {
            (0, true) => "read without an object",
            (0, false) => "refused",
            (_, true) => "read",
            (_, false) => "read in part",
        }
    });
}
