//! docs/settings.md and the schema equal the output of the table of keys.

use serde_json::Value as Json;

use super::*;

#[test]
fn the_example_is_valid() {
    assert_eq!(read(super::super::reference::DESCRIPTORS_EXAMPLE).settings.route.rate_limit.descriptors.len(), 2);
}

#[test]
fn the_reference_and_the_schema_are_up_to_date() {
    let schema = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    for (name, text) in [("settings.md", super::super::reference()), ("settings.schema.json", schema)] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name);
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(written == text, "docs/{name} is not what the table of keys gives: run `make docs`");
    }
}

/// The examples of docs/defaults.md are valid settings, and its table names existing keys.
#[test]
fn the_comparison_of_defaults_names_existing_keys() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/defaults.md");
    let text = std::fs::read_to_string(path).unwrap();
    let examples: Vec<&str> = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(examples.len(), 2);
    for example in examples {
        assert!(!read(example).origins.is_empty(), "{example}");
    }
    let rows = text.lines().filter_map(|line| line.strip_suffix(" |")?.rsplit_once(" | ").map(|(_, last)| last));
    let names = rows.flat_map(|cell| cell.split('`').skip(1).step_by(2)).filter(|name| !name.contains('/'));
    let mut found = 0;
    for name in names.filter(|name| name.contains('.') || *name == "namespaceOwnership") {
        assert!(super::super::keys::key(name).is_some(), "{name} is no key");
        found += 1;
    }
    assert!(found > 20, "only {found} keys");
}

/// Returns the schema at `path`.
fn at<'a>(schema: &'a Json, path: &str) -> &'a Json {
    let pointer: String = path.split('.').map(|part| format!("/properties/{part}")).collect();
    schema.pointer(&pointer).unwrap_or_else(|| panic!("{path} is not in the schema"))
}

#[test]
fn the_schema_contains_exactly_the_keys() {
    let schema = schema();
    for key in KEYS {
        let of_key = at(&schema, key.path);
        assert_eq!(of_key["description"], super::super::reference::effect(key));
        assert_eq!(of_key["default"], (key.show)(&Settings::default()), "{}", key.path);
    }
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(at(&schema, "listeners.http")["additionalProperties"], false);
}
