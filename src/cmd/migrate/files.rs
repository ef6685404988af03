//! The texts of the written objects, and their files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};

use super::Written;
use crate::cmd::output;

/// Returns the objects as one text.
pub fn text<'a>(objects: impl IntoIterator<Item = &'a Value>, form: Written) -> anyhow::Result<String> {
    if form == Written::Json {
        let items: Vec<&Value> = objects.into_iter().collect();
        return Ok(output::json(&json!({ "apiVersion": "v1", "kind": "List", "items": items })));
    }
    let mut text = String::new();
    for object in objects {
        if !text.is_empty() {
            text.push_str("---\n");
        }
        text.push_str(&serde_saphyr::to_string(object).context("cannot write YAML")?);
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    Ok(text)
}

/// Writes a file for each namespace, `NAMESPACE.yaml` or `NAMESPACE.json`.
///
/// Errors: the directory cannot be created, or a file cannot be written.
pub fn write(directory: &Path, objects: &[Value], form: Written) -> anyhow::Result<()> {
    let extension = if form == Written::Json { "json" } else { "yaml" };
    let mut of_namespaces = BTreeMap::<&str, Vec<&Value>>::new();
    for object in objects {
        let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
        of_namespaces.entry(namespace).or_default().push(object);
    }
    fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    for (namespace, objects) in of_namespaces {
        let path = directory.join(format!("{namespace}.{extension}"));
        fs::write(&path, text(objects, form)?).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Returns the number of objects of each kind: `1 Gateway, 3 HTTPRoutes`.
pub fn counted(objects: &[Value]) -> String {
    let mut counts = BTreeMap::<&str, usize>::new();
    for object in objects {
        *counts.entry(object["kind"].as_str().unwrap_or_default()).or_default() += 1;
    }
    let plural = |kind: &str| kind.strip_suffix('y').map_or(format!("{kind}s"), |stem| format!("{stem}ies"));
    let counts = counts.iter().map(|(kind, count)| match count {
        1 => format!("1 {kind}"),
        _ => format!("{count} {}", plural(kind)),
    });
    counts.collect::<Vec<_>>().join(", ")
}
