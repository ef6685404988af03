//! The reference of all settings (docs/settings.md) and the JSON schema of the file, generated from the table of keys.

use std::fmt::Write as _;

use serde_json::{Map, Value as Json, json};

use super::Settings;
use super::access_log::known_fields;
use super::foreign::RENAMED;
use super::keys::{GROUPS, KEYS, SettingsKey};
use crate::yaml::written;

/// The maximum length of a default in the table. Longer defaults follow below the table.
const LONG: usize = 60;

/// Returns the content of docs/settings.md.
pub fn reference() -> String {
    let defaults = Settings::default();
    let mut text = INTRODUCTION.to_owned();
    for (group, about) in GROUPS {
        let _ = write!(
            text,
            "\n## `{group}`\n\n{about}\n\n| key | value | default | effect |\n| --- | --- | --- | --- |\n"
        );
        let mut long = String::new();
        for key in of_group(group) {
            let shown = (key.show)(&defaults);
            let default = match written(&shown) {
                default if default == "null" => "not set".to_owned(),
                default if default.len() > LONG => {
                    let _ = write!(long, "\nDefault of `{}`:\n\n```yaml\n{}```\n", key.path, nested(key.path, &shown));
                    "see below".to_owned()
                }
                default => format!("`{default}`"),
            };
            let value = (key.describe)().replace('|', "\\|");
            let _ = writeln!(text, "| `{}` | {value} | {default} | {} |", key.path, effect(key).replace('|', "\\|"));
        }
        text.push_str(&long);
        if *group == "rateLimit" {
            let _ = write!(text, "{DESCRIPTORS}```yaml\n{DESCRIPTORS_EXAMPLE}```\n");
        }
        if *group == "accessLog" {
            text.push_str(FIELDS);
            for (name, format) in known_fields() {
                let _ = writeln!(text, "| `{name}` | `{format}` |");
            }
        }
    }
    text
}

/// Returns the documentation of a key, including the restart that a change needs.
pub(super) fn effect(key: &SettingsKey) -> String {
    match key.restart {
        None => key.doc.to_owned(),
        Some(restart) => format!("{} A change {}.", key.doc, restart.as_str()),
    }
}

/// Returns the keys of a group.
fn of_group(group: &str) -> impl Iterator<Item = &'static SettingsKey> {
    KEYS.iter().filter(move |key| key.path.split('.').next() == Some(group))
}

/// Formats `path: value` like a settings file, with one line for each item of a list.
fn nested(path: &str, value: &Json) -> String {
    let mut text = String::new();
    let parts: Vec<&str> = path.split('.').collect();
    for (depth, part) in parts.iter().enumerate() {
        let _ = write!(text, "{}{part}:", "  ".repeat(depth));
        if depth + 1 < parts.len() {
            text.push('\n');
        }
    }
    match value {
        Json::Array(items) => {
            text.push('\n');
            for item in items {
                let _ = writeln!(text, "{}- {}", "  ".repeat(parts.len()), written(item));
            }
        }
        other => {
            let _ = writeln!(text, " {}", written(other));
        }
    }
    text
}

/// Returns the JSON schema of the file.
pub fn schema() -> Json {
    let defaults = Settings::default();
    let mut root = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Settings of Lockgate",
    });
    for key in KEYS {
        let mut schema = (key.schema)();
        if let Some(schema) = schema.as_object_mut() {
            schema.insert("description".to_owned(), effect(key).into());
            schema.insert("default".to_owned(), (key.show)(&defaults));
        }
        insert(&mut root, &key.path.split('.').collect::<Vec<_>>(), schema);
    }
    for (earlier, now) in RENAMED {
        let Some(key) = KEYS.iter().find(|key| key.path == *now) else { continue };
        let mut schema = (key.schema)();
        if let Some(schema) = schema.as_object_mut() {
            schema.insert("description".to_owned(), format!("The earlier name of `{now}`.").into());
            schema.insert("deprecated".to_owned(), true.into());
        }
        insert(&mut root, &earlier.split('.').collect::<Vec<_>>(), schema);
    }
    for (group, about) in GROUPS {
        if let Some(schema) = root.pointer_mut(&format!("/properties/{group}")).and_then(Json::as_object_mut) {
            schema.entry("description").or_insert_with(|| (*about).into());
        }
    }
    root
}

/// Inserts `schema` at `path` below the schema of an object.
fn insert(object: &mut Json, path: &[&str], schema: Json) {
    let (Some(fields), Some((first, rest))) = (object.as_object_mut(), path.split_first()) else { return };
    fields.insert("type".to_owned(), json!(["object", "null"]));
    fields.insert("additionalProperties".to_owned(), false.into());
    let properties = fields.entry("properties").or_insert_with(|| Json::Object(Map::new()));
    let Some(properties) = properties.as_object_mut() else { return };
    match rest.is_empty() {
        true => {
            properties.insert((*first).to_owned(), schema);
        }
        false => insert(properties.entry((*first).to_owned()).or_insert_with(|| json!({})), rest, schema),
    }
}

const INTRODUCTION: &str = "\
# Settings

This page lists every key of the settings file. `make docs` generates it from the program's own table; do not edit it.

`lockgate serve --config FILE` reads the file. The Helm chart creates it from the value `settings` and mounts it. Lockgate
watches the file. A valid change takes effect without a restart (hot reload), and no request fails;
[settings-live.md](settings-live.md) describes the effects on connections. An invalid change has no effect at all: the
previous settings stay in use, and the log names each line with a fault. The documentation of a key states whether a change
needs a restart. Most of these keys configure the controller process, and are at the end of this page. Until the restart,
their previous value stays in use, while the rest of the change takes effect. The log, `/debug/settings`, and the metric
`lockgate_settings_waiting` report such changes.

    lockgate config check FILE              # all faults, with line and column
    lockgate config print --config FILE     # every setting and its origin

A few options are flags only: the source of objects (`--kubeconfig` and `--context`, `--manifests`, `--resources`), the
path of this file (`--config`), and the name of a single replica (`--id`).

A flag with the same meaning takes precedence over the file, and the log reports the values that it overrides. A key with
the value `null` is not set. Durations are written `500ms`, `20s`, `1m30s`, `21d`; sizes `32KiB`, `1MiB`, `512B`. `off`
disables a feature that can be disabled.
";

const DESCRIPTORS: &str = "
An entry of a descriptor is one of:

- `genericKey: {key, value}`: a constant value. The key is `generic_key` if not set.
- `requestHeader: {headerName, descriptorKey}`: the value of this header of the request, including `:path`, `:method`, and
  `:authority`. No value if the header is missing.
- `requestHeaderValueMatch: {headers, expectMatch, value}`: the key `header_match` with this value if all `headers` match,
  or, with `expectMatch: false`, if they do not. Otherwise no value. Each of `headers` has a `name` and one of
  `present: true`, `notpresent: true`, `exact`, `notexact`, `contains`, `notcontains`, and `regex` (RE2, for the whole
  value). A missing header matches none of the last five, unless `treatMissingAsEmpty: true`. `ignoreCase: true` applies to
  texts.
- `remoteAddress: {}`: the key `remote_address` with the client's address, according to `http.trustedHops` and PROXY
  headers.

";

/// An example of descriptors in a settings file.
pub(super) const DESCRIPTORS_EXAMPLE: &str = "\
rateLimit:
  endpoint: limits.security.svc.cluster.local:8081
  descriptors:
  - entries: # Each client by itself.
    - remoteAddress: {}
  - entries: # Each tenant by itself, and each of its logins.
    - requestHeader: { headerName: x-tenant, descriptorKey: tenant }
    - requestHeaderValueMatch:
        headers: [{ name: ':path', regex: '/login(/.*)?' }]
        value: login
";

const FIELDS: &str = "
Named fields:

| field | operator |
| --- | --- |
";
