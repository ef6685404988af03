//! docs/settings.md and the schema are what the table of keys gives.

use serde_json::Value as Json;

use super::*;

#[test]
fn the_reference_is_up_to_date() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/settings.md");
    let reference = super::super::reference();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &reference).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == reference, "docs/settings.md is not what the table of keys gives: run `make docs`");
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
        assert_eq!(of_key["description"], key.doc);
        assert_eq!(of_key["default"], (key.show)(&Settings::default()), "{}", key.path);
    }
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(at(&schema, "listeners.http")["additionalProperties"], false);
}
