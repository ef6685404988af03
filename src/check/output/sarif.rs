//! Findings as a SARIF 2.1.0 log, for code scanning services.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::super::finding::{Finding, Rule};

/// The schema of the log.
const SCHEMA: &str = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// Returns the findings as a SARIF log.
pub fn sarif(findings: &[Finding]) -> Value {
    let rules: Vec<Rule> = Rule::all().collect();
    let described: Vec<Value> = rules.iter().map(|rule| describe(*rule)).collect();
    let results: Vec<Value> = findings.iter().map(|finding| result(finding, &rules)).collect();
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {
                "driver": {
                    "name": "lockgate",
                    "informationUri": env!("CARGO_PKG_REPOSITORY"),
                    "semanticVersion": env!("CARGO_PKG_VERSION"),
                    "rules": described,
                },
            },
            "results": results,
        }],
    })
}

fn describe(rule: Rule) -> Value {
    json!({
        "id": rule.as_str(),
        "shortDescription": {"text": words(rule.as_str())},
        "help": {"text": rule.remedy()},
        "defaultConfiguration": {"level": rule.level().as_str()},
    })
}

/// Returns a name in CamelCase as words: `InvalidYaml` becomes `Invalid yaml`.
fn words(name: &str) -> String {
    let mut words = String::new();
    let mut after_lower = false;
    for c in name.chars() {
        if c.is_ascii_uppercase() && after_lower {
            words.push(' ');
            words.push(c.to_ascii_lowercase());
        } else {
            words.push(c);
        }
        after_lower = c.is_ascii_lowercase();
    }
    words
}

fn result(finding: &Finding, rules: &[Rule]) -> Value {
    let Finding { file, line, rule, kind, namespace, name, field, message, consequence, remedy, .. } = finding;
    let object: Vec<&str> = [&**kind, namespace, name].into_iter().filter(|text| !text.is_empty()).collect();
    let about: Vec<String> = [object.join("/"), field.clone()].into_iter().filter(|text| !text.is_empty()).collect();
    let about = if about.is_empty() { String::new() } else { format!("{}: ", about.join(" ")) };
    let mut result = json!({
        "ruleId": rule.as_str(),
        "ruleIndex": rules.iter().position(|known| known == rule),
        "level": finding.level.as_str(),
        "message": {"text": format!("{about}{message}; {consequence}. {remedy}")},
    });
    let mut location = json!({});
    if !file.is_empty() {
        location["physicalLocation"] = json!({"artifactLocation": {"uri": uri(file)}});
    }
    if *line > 0 {
        location["physicalLocation"]["region"] = json!({"startLine": line});
    }
    if !object.is_empty() {
        let name =
            format!("{}{}", object.join("/"), if field.is_empty() { String::new() } else { format!(" {field}") });
        location["logicalLocations"] = json!([{"fullyQualifiedName": name}]);
    }
    result["locations"] = json!([location]);
    result
}

/// Returns the URI of a file: relative, or with the scheme `file` for an absolute path.
fn uri(file: &str) -> String {
    if file == "-" {
        return "stdin".to_owned();
    }
    let path = file.strip_prefix("./").unwrap_or(file);
    let mut uri = if path.starts_with('/') { "file://".to_owned() } else { String::new() };
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => uri.push(byte.into()),
            other => drop(write!(uri, "%{other:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::check::output::text::tests::finding;

    #[test]
    fn a_log_has_the_required_fields() {
        let log = sarif(&[finding()]);
        assert_eq!(log["version"], "2.1.0");
        let run = &log["runs"][0];
        let driver = &run["tool"]["driver"];
        assert_eq!(driver["name"], "lockgate");
        let result = &run["results"][0];
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(driver["rules"][index]["id"], result["ruleId"]);
        assert_eq!(result["ruleId"], "HostNotValid");
        assert_eq!(result["level"], "error");
        assert!(result["message"]["text"].as_str().unwrap().starts_with("Ingress/shop/cart spec.rules[0].host: host"));
        let location = &result["locations"][0]["physicalLocation"];
        assert_eq!(location["artifactLocation"]["uri"], "shop.yaml");
        assert_eq!(location["region"]["startLine"], 7);
        for rule in driver["rules"].as_array().unwrap() {
            assert!(rule["shortDescription"]["text"].is_string() && rule["help"]["text"].is_string(), "{rule}");
        }
    }

    #[test]
    fn a_finding_without_a_line_or_a_file_has_no_region_or_no_place() {
        let log = sarif(&[Finding { line: 0, ..finding() }, Finding { line: 0, file: "".into(), ..finding() }]);
        let results = &log["runs"][0]["results"];
        let of_file = &results[0]["locations"][0]["physicalLocation"];
        assert!(of_file["artifactLocation"].is_object() && of_file.get("region").is_none());
        assert!(results[1]["locations"][0].get("physicalLocation").is_none());
    }

    #[test]
    fn files_are_uris() {
        assert_eq!(uri("./a b/ü.yaml"), "a%20b/%C3%BC.yaml");
        assert_eq!(uri("/srv/a.yaml"), "file:///srv/a.yaml");
        assert_eq!(uri("-"), "stdin");
        assert_eq!(words("TLSConfigNotValid"), "TLSConfig not valid");
    }
}
