//! The reference of all settings, docs/settings.md, and the JSON schema of the file, both from the table of keys.

use std::fmt::Write as _;

use serde_json::{Map, Value as Json, json};

use super::Settings;
use super::access_log::known_fields;
use super::keys::{GROUPS, KEYS, Key};
use super::print::written;

/// Defaults that are longer stand below the table, not in it.
const LONG: usize = 60;

/// docs/settings.md.
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

/// What a key does, and what a change of it costs.
pub(super) fn effect(key: &Key) -> String {
    match key.restart {
        None => key.doc.to_owned(),
        Some(restart) => format!("{} A change {}.", key.doc, restart.as_str()),
    }
}

/// The keys of a group.
fn of_group(group: &str) -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(move |key| key.path.split('.').next() == Some(group))
}

/// `path: value` as a file has it, a list one item a line.
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

/// The JSON schema of the file.
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
    for (group, about) in GROUPS {
        if let Some(schema) = root.pointer_mut(&format!("/properties/{group}")).and_then(Json::as_object_mut) {
            schema.entry("description").or_insert_with(|| (*about).into());
        }
    }
    root
}

/// Puts `schema` at `path` below the schema of an object.
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

Every key of the settings file, written by `make docs` from the program's own table; not to be edited by hand.

The file is given by `lockgate serve --config FILE`; the Helm chart makes it from the value `settings` and mounts it. It
is watched: a valid change holds without a restart, and no request fails for it (settings-live.md says what becomes of
connections). Of one that is not valid nothing is taken: the settings of before stay, and the log names each line with a
fault. A few keys say that a change needs a restart, mostly those of the controller's own process, at the end. Until then
the value of before holds, while everything else of the edit is applied; the log, `/debug/settings` and the metric
`lockgate_settings_waiting` tell of it.

    lockgate config check FILE              # all faults, with line and column
    lockgate config print --config FILE     # every setting, and where it comes from

Not in this file is what says where everything else comes from: the source of objects (`--kubeconfig` and `--context`,
`--manifests`, `--resources`), this file itself (`--config`), and the name of a single replica (`--id`).

A flag of the same meaning wins over the file, and the log tells what it hides. A key without a value (`null`) is one that
is not set. Times are written `500ms`, `20s`, `1m30s`, `21d`; sizes `32KiB`, `1MiB`, `512B`. What can be switched off is
switched off by `off`.
";

const DESCRIPTORS: &str = "
An entry of a descriptor is one of

- `genericKey: {key, value}`: always the same; the key is `generic_key` if not given;
- `requestHeader: {headerName, descriptorKey}`: what the request has in that header, which may be `:path`, `:method` or
  `:authority` too; nothing if there is no such header;
- `requestHeaderValueMatch: {headers, expectMatch, value}`: the key `header_match` with that value if all `headers` match, or,
  with `expectMatch: false`, if not; else nothing. Each of `headers` has a `name` and one of `present: true`,
  `notpresent: true`, `exact`, `notexact`, `contains`, `notcontains` and `regex` (RE2, for the whole value). A header that is not
  there matches none of the last five, unless `treatMissingAsEmpty: true`; `ignoreCase: true` is for those that are texts;
- `remoteAddress: {}`: the key `remote_address` with the client's address, as `http.trustedHops` and PROXY headers have it.

";

/// What is said above, as a file has it.
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
Fields with a name of their own:

| field | operator |
| --- | --- |
";
