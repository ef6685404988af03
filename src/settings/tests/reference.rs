//! docs/settings.md and the schema are what the table of keys gives.

use serde_json::Value as Json;

use super::*;

#[test]
fn the_example_is_one() {
    assert_eq!(read(super::super::reference::DESCRIPTORS_EXAMPLE).settings.rate_limit.descriptors.len(), 2);
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

/// The schema at `path`.
fn at<'a>(schema: &'a Json, path: &str) -> &'a Json {
    let pointer: String = path.split('.').map(|part| format!("/properties/{part}")).collect();
    schema.pointer(&pointer).unwrap_or_else(|| panic!("{path} is not in the schema"))
}

#[test]
fn the_schema_has_every_key_and_nothing_else() {
    let schema = schema();
    for key in KEYS {
        let of_key = at(&schema, key.path);
        assert_eq!(of_key["description"], super::super::reference::effect(key));
        assert_eq!(of_key["default"], (key.show)(&Settings::default()), "{}", key.path);
    }
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(at(&schema, "listeners.http")["additionalProperties"], false);
}
