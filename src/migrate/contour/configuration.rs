//! Contour's configuration: a file, a ConfigMap with this file, or a ContourConfiguration.

use lockgate_route::objects::ObjectKey;
use serde_json::{Map, Value};

use super::keys::{ContourKey, KEYS};
use super::row::{ReportRow, Verdict};
use crate::source::decode::{flatten, join};
use crate::yaml::{Document, documents};

/// The ConfigMap of Contour's example deployment, and its key.
const CONFIG_MAP: &str = "contour";
const CONFIG_KEY: &str = "contour.yaml";

/// Contour's configuration.
#[derive(Debug)]
pub struct Configuration {
    /// The file. Empty for an object of a Kubernetes cluster.
    file: String,
    form: Form,
    /// The kind and the key of the object. Without an object, it is a file.
    object: Option<(&'static str, ObjectKey)>,
    value: Map<String, Value>,
    lines: Lines,
}

/// The names of the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Those of the configuration file.
    File,
    /// Those of a ContourConfiguration.
    Object,
}

/// The lines of the keys.
#[derive(Debug)]
struct Lines {
    document: Document,
    /// The path of the configuration in the document.
    outer: String,
    /// The line before the document. `None`: the document has no lines of its own, and all keys have the line `at`.
    before: Option<usize>,
    at: usize,
}

/// Parses a file that the user names: a configuration file, or the manifest of a ConfigMap or a ContourConfiguration.
///
/// Errors: a fault with its place.
pub fn parse(file: &str, text: &str) -> Result<Configuration, String> {
    match find([(file, text)])?.pop() {
        Some(found) => Ok(found),
        None => of_text(file, text, 0, None),
    }
}

/// Returns the configurations among manifests.
///
/// Errors: a configuration that is not valid YAML.
pub fn find<'a>(texts: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Vec<Configuration>, String> {
    let mut found = Vec::new();
    for (file, text) in texts {
        // Most files of a large input have no configuration. Parsing them again would double the time.
        if !text.contains(CONFIG_KEY) && !text.contains("ContourConfiguration") {
            continue;
        }
        for document in documents(text) {
            let Ok(value) = document.value() else { continue };
            for (outer, object) in flatten(value) {
                found.extend(of_object(file, text, &document, &outer, &object)?);
            }
        }
    }
    Ok(found)
}

/// Returns the configuration of an object, if it has one.
fn of_object(
    file: &str,
    text: &str,
    document: &Document,
    outer: &str,
    object: &Value,
) -> Result<Option<Configuration>, String> {
    let field = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let key = ObjectKey::new(field("/metadata/namespace"), field("/metadata/name"));
    match (field("/kind"), object.pointer("/data/contour.yaml").and_then(Value::as_str)) {
        ("ContourConfiguration", _) => {
            let value = object.pointer("/spec").and_then(Value::as_object).cloned().unwrap_or_default();
            let outer = join(outer, "spec");
            let lines = Lines { document: document.clone(), outer, before: Some(0), at: document.line };
            let object = Some(("ContourConfiguration", key));
            Ok(Some(Configuration { file: file.to_owned(), form: Form::Object, object, value, lines }))
        }
        ("ConfigMap", Some(inner)) if &*key.name == CONFIG_MAP => {
            let path = join(outer, &format!("data[{CONFIG_KEY:?}]"));
            let line = document.line_of(&path);
            let opens_block = |line: &str| line.contains(CONFIG_KEY) && line.trim_end().ends_with(['|', '-', '+']);
            // The lines of a block scalar follow its key.
            let mut texts = text.lines().enumerate().skip(line.saturating_sub(2)).take(3);
            let before = texts.find(|(_, line)| opens_block(line)).map(|(index, _)| index + 1);
            let found = of_text(file, inner, line, Some(("ConfigMap", key)))?;
            Ok(Some(Configuration { lines: Lines { before, ..found.lines }, ..found }))
        }
        _ => Ok(None),
    }
}

/// Parses the text of a configuration file.
fn of_text(
    file: &str,
    text: &str,
    at: usize,
    object: Option<(&'static str, ObjectKey)>,
) -> Result<Configuration, String> {
    let mut all = documents(text);
    let Some(document) = all.next() else {
        // An empty file stands for the defaults.
        let document = documents("{}").next().ok_or_else(|| format!("{file}: cannot be read"))?;
        let lines = Lines { document, outer: String::new(), before: Some(0), at };
        return Ok(Configuration { file: file.to_owned(), form: Form::File, object, value: Map::new(), lines });
    };
    if all.next().is_some() {
        return Err(format!("{file}: the configuration of Contour has more than one document"));
    }
    let value = match document.value() {
        Ok(Value::Object(value)) => value,
        Ok(_) => return Err(format!("{file}: the configuration of Contour is not an object with keys")),
        Err(fault) => return Err(format!("{file}: {fault}")),
    };
    let lines = Lines { document, outer: String::new(), before: Some(0), at };
    Ok(Configuration { file: file.to_owned(), form: Form::File, object, value, lines })
}

impl Configuration {
    /// Describes where the configuration is: `ConfigMap projectcontour/contour in all.yaml`.
    pub fn place(&self) -> String {
        match &self.object {
            Some((kind, key)) if self.file.is_empty() => format!("{kind} {key}"),
            Some((kind, key)) => format!("{kind} {key} in {}", self.file),
            None => self.file.clone(),
        }
    }

    /// Returns whether it is a ContourConfiguration.
    pub fn is_object(&self) -> bool {
        self.form == Form::Object
    }

    /// Returns the path of a key in this form. Empty if the form lacks the key.
    pub fn path(&self, key: &ContourKey) -> &'static str {
        match self.form {
            Form::File => key.file,
            Form::Object => key.object,
        }
    }

    /// Returns the path and the value of a key, if it is set.
    pub fn get(&self, key: &ContourKey) -> Option<(&'static str, &Value)> {
        let path = self.path(key);
        let mut parts = path.split('.').filter(|part| !part.is_empty());
        let first = self.value.get(parts.next()?)?;
        let value = parts.try_fold(first, |value, part| value.get(part))?;
        (!value.is_null()).then_some((path, value))
    }

    /// Returns the path and the value of the key with one of these names, if it is set.
    pub fn part(&self, file: &str, object: &str) -> Option<(&'static str, &Value)> {
        let key = KEYS.iter().find(|key| key.file == file && key.object == object)?;
        self.get(key)
    }

    /// Creates a row about a key.
    pub fn row(&self, path: &str, verdict: Verdict, message: impl Into<String>, remedy: &str) -> ReportRow {
        let Lines { document, outer, before, at } = &self.lines;
        let line = match before {
            _ if self.file.is_empty() => 0,
            Some(before) => before + document.line_of(&join(outer, path)),
            None => *at,
        };
        let (kind, key) = match &self.object {
            Some((kind, key)) => ((*kind).to_owned(), key.clone()),
            None => (String::new(), ObjectKey::new("", "")),
        };
        let field = if self.is_object() { format!("spec.{path}") } else { path.to_owned() };
        ReportRow {
            file: self.file.clone(),
            line,
            kind,
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            field,
            verdict,
            message: message.into(),
            remedy: remedy.to_owned(),
        }
    }

    /// Returns the rows of the keys that the table lacks.
    pub fn unknown(&self) -> Vec<ReportRow> {
        let mut rows = Vec::new();
        self.value.iter().for_each(|(name, value)| self.walk(name, value, &mut rows));
        rows
    }

    fn walk(&self, path: &str, value: &Value, rows: &mut Vec<ReportRow>) {
        let inner = format!("{path}.");
        let paths = || KEYS.iter().map(|key| self.path(key));
        if paths().any(|known| known == path) {
            return;
        }
        let is_group = paths().any(|known| known.starts_with(&inner));
        match value {
            Value::Null if is_group => {}
            Value::Object(fields) if is_group => {
                fields.iter().for_each(|(name, value)| self.walk(&format!("{inner}{name}"), value, rows));
            }
            _ if is_group => {
                let message = "the value is not an object with keys, so it has no effect";
                let remedy = "Correct the value, and run the command again.";
                rows.push(self.row(path, Verdict::Attention, message, remedy));
            }
            _ => {
                let name = path.rsplit('.').next().unwrap_or(path);
                let similar = paths().filter(|known| !known.is_empty()).min_by_key(|known| {
                    let last = known.rsplit('.').next().unwrap_or(known);
                    (strsim::osa_distance(last, name), strsim::osa_distance(known, path))
                });
                let close = similar.filter(|known| strsim::osa_distance(known, path) <= path.len() / 3);
                let hint = close.map_or_else(String::new, |known| format!("; a similar key is {known}"));
                let message = format!("this key of Contour is not known, and has no effect{hint}");
                let remedy = "Correct the name of the key. If your version of Contour has it, find its counterpart in \
                              docs/settings.md.";
                rows.push(self.row(path, Verdict::Attention, message, remedy));
            }
        }
    }
}
