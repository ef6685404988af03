//! The fields of the definitions: their reference, and the golden cases that set them.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use lockgate_route::objects::Kind;
use serde_json::Value;

use super::definitions;
use crate::tidy::generated::assert_page;
use crate::tidy::{assert_none, files};

/// A field of a definition.
struct Field {
    /// The path below `spec`, such as `targetRefs[].name`.
    path: String,
    is_required: bool,
    schema: Value,
}

/// Returns the fields below `spec` of a definition in order, each before its own fields.
fn fields(definition: &Value) -> Vec<Field> {
    let mut all = Vec::new();
    add("", &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"], &mut all);
    all
}

fn add(outer: &str, schema: &Value, all: &mut Vec<Field>) {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        let path = if outer.is_empty() { name.clone() } else { format!("{outer}.{name}") };
        let is_required = required.contains(&name.as_str());
        all.push(Field { path: path.clone(), is_required, schema: schema.clone() });
        // They have the fields of `spec` itself.
        if ["defaults", "overrides"].contains(&path.as_str()) {
            continue;
        }
        match schema.get("items") {
            Some(items) => add(&format!("{path}[]"), items, all),
            None => add(&path, schema, all),
        }
    }
}

/// Returns the type of a field with its limits: `list of string, 1 to 16`.
fn described(schema: &Value) -> String {
    let kind = match (schema["type"].as_str(), &schema["items"]) {
        (Some("array"), items) => format!("list of {}", described(items)),
        (Some("object"), _) => "object".to_owned(),
        (Some(other), _) => other.to_owned(),
        (None, _) => "any".to_owned(),
    };
    let range = |least: &str, most: &str| match (schema[least].as_u64(), schema[most].as_u64()) {
        (None | Some(0), None) => None,
        (None | Some(0), Some(most)) => Some(format!("at most {most}")),
        (Some(least), None) => Some(format!("at least {least}")),
        (Some(least), Some(most)) => Some(format!("{least} to {most}")),
    };
    let values = schema["enum"].as_array().map(|values| {
        let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
        values.join(", ")
    });
    let length = range("minLength", "maxLength").map(|text| format!("{text} characters")).filter(|_| values.is_none());
    let limits = [values, range("minimum", "maximum"), range("minItems", "maxItems"), length];
    [Some(kind)].into_iter().chain(limits).flatten().collect::<Vec<_>>().join(", ")
}

/// Returns the messages of the rules of a field and of its entries.
fn rules(schema: &Value) -> Vec<&str> {
    let own = schema["x-kubernetes-validations"].as_array().into_iter().flatten();
    let of_items = schema["items"]["x-kubernetes-validations"].as_array().into_iter().flatten();
    own.chain(of_items).filter_map(|rule| rule["message"].as_str()).collect()
}

#[test]
fn the_reference_of_the_fields_is_up_to_date() {
    let mut page = String::from(
        "# Custom resources\n\nThis page is written by `make docs` from the types of the program. `kubectl explain` shows the same texts. \
         Fields marked with `*` are required.\n",
    );
    for (kind, _, definition) in definitions() {
        let info = kind.info();
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let description = schema["description"].as_str().unwrap();
        write!(page, "\n## {}\n\n`{}/{}`. {description}\n\n", info.name, info.group, info.version).unwrap();
        page.push_str("| field of `spec` | type | meaning |\n| --- | --- | --- |\n");
        for Field { path, is_required, schema } in fields(&definition) {
            let mark = if is_required { "*" } else { "" };
            let mut meaning = schema["description"].as_str().unwrap_or_default().to_owned();
            for rule in rules(&schema) {
                write!(meaning, " Rule: {rule}.").unwrap();
            }
            let meaning = meaning.trim().replace('|', "\\|");
            writeln!(page, "| `{path}`{mark} | {} | {meaning} |", described(&schema)).unwrap();
        }
    }
    assert_page("custom-resources.md", &page);
}

/// Adds the paths of all fields in a value. The fields of `defaults` and `overrides` count like those of `spec` itself.
fn set(outer: &str, value: &Value, all: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = if outer.is_empty() { name.clone() } else { format!("{outer}.{name}") };
                all.insert(path.clone());
                set(if ["defaults", "overrides"].contains(&path.as_str()) { "" } else { &path }, value, all);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| set(&format!("{outer}[]"), item, all)),
        _ => {}
    }
}

#[test]
fn every_field_of_a_policy_is_in_a_golden_case() {
    let cases = files("src/golden", &["yaml"]);
    let mut missing = Vec::new();
    let policies = definitions().into_iter().filter(|(kind, ..)| kind.as_str().ends_with("Policy"));
    let mut policies: Vec<_> = policies.map(|(kind, _, definition)| (kind, fields(&definition))).collect();
    // The schemas of `lockgate check` have the fields of the kinds of Gateway API.
    let schemas: Value = serde_json::from_str(include_str!("../check/schemas/gateway-api.json")).expect("JSON");
    let standard = Kind::X_BACKEND_TRAFFIC_POLICY;
    let mut of_standard = Vec::new();
    add(
        "",
        &schemas[format!("{} {}", standard.api_version(), standard.as_str())]["properties"]["spec"],
        &mut of_standard,
    );
    assert!(!of_standard.is_empty(), "no schema of {standard:?}");
    policies.push((standard, of_standard));
    for (kind, fields) in policies {
        let mut used = BTreeSet::new();
        for case in cases.iter().filter(|file| file.path.ends_with("in.yaml")) {
            for document in case.text.split("\n---\n") {
                let Ok(object) = serde_saphyr::from_str::<Value>(document) else { continue };
                if object["kind"] == kind.as_str() {
                    set("", &object["spec"], &mut used);
                }
            }
        }
        let unused = fields.into_iter().map(|field| field.path).filter(|path| !used.contains(path));
        missing.extend(unused.map(|path| format!("no golden case sets {path} of {}", kind.as_str())));
    }
    assert_none(missing);
}
