//! WebAssembly modules.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::policy::{object, text};
use super::{ValueFormat, quoted};
use crate::settings::{Module, is_label};
use crate::yaml::{Field, Node, Wrong};

/// Modules by name.
pub struct Modules;

const EXPECTED: &str = "an object with `file`, and optionally `rootId` and `configuration`";

impl ValueFormat for Modules {
    type Value = BTreeMap<String, Module>;

    fn describe() -> String {
        "object of names and `{file, rootId, configuration}`".to_owned()
    }

    fn read(node: &Node, wrong: &mut Vec<Wrong>) -> Option<Self::Value> {
        let faults = wrong.len();
        let mut modules = BTreeMap::new();
        for Field { place, key, value } in object(node, "an object of names and modules", wrong)? {
            if !is_label(key) {
                wrong.push(place.wrong("expected a name of lowercase letters, digits, and `-`"));
            }
            modules.extend(module(value, wrong).map(|module| (key.clone(), module)));
        }
        (wrong.len() == faults).then_some(modules)
    }

    fn show(value: &Self::Value) -> Json {
        let shown = |(name, module): (&String, &Module)| {
            let Module { file, root_id, configuration } = module;
            let fields = [("file", file), ("rootId", root_id), ("configuration", configuration)];
            let fields = fields.into_iter().filter(|(_, text)| !text.is_empty());
            let fields: Json = fields.map(|(key, text)| (key.to_owned(), Json::from(text.as_str()))).collect();
            (name.clone(), fields)
        };
        value.iter().map(shown).collect()
    }

    fn schema() -> Json {
        json!({
            "type": "object",
            "propertyNames": {"pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"},
            "additionalProperties": {
                "type": "object",
                "properties": {
                    "file": {"type": "string", "pattern": "^/"},
                    "rootId": {"type": "string"},
                    "configuration": {"type": "string"},
                },
                "required": ["file"],
                "additionalProperties": false,
            },
        })
    }
}

/// Reads one module.
fn module(node: &Node, wrong: &mut Vec<Wrong>) -> Option<Module> {
    let mut module = Module::default();
    for Field { place, key, value } in object(node, EXPECTED, wrong)? {
        let part = match &**key {
            "file" => &mut module.file,
            "rootId" => &mut module.root_id,
            "configuration" => &mut module.configuration,
            _ => {
                wrong.push(place.wrong(format!("{} is not known here: expected {EXPECTED}", quoted(key))));
                continue;
            }
        };
        text(value, wrong).unwrap_or_default().clone_into(part);
    }
    if !module.file.starts_with('/') {
        wrong.push(node.place.wrong("expected `file` with an absolute path such as /wasm/waf/plugin.wasm"));
    }
    Some(module)
}
