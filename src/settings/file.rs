//! Parses a settings file and flags into [`Resolved`] settings. It checks every value, reports every fault, and records the
//! origin of each value.

use super::keys::{KEYS, SettingsKey, key};
use super::resolved::{Origin, Other, Override, Resolved, SettingsFault, SettingsFaults};
use super::values::{found, quoted};
use super::{check, foreign};
use crate::yaml::{self, DocumentFault, Location, Node, NodeContent, Wrong};

/// Parses the file `name` with the content `text`, and the flags, which take precedence. The error has all faults.
pub fn resolve(name: &str, text: &str, overrides: &[Override]) -> Result<Resolved, SettingsFaults> {
    let mut resolver = Resolver::default();
    match yaml::settings(text) {
        Ok(document) => resolver.group("", &document),
        Err(DocumentFault { place, field, message, .. }) => resolver.fault(Origin::File(place), &field, message),
    }
    for Override { key: path, flag, value } in overrides {
        if let Some(key) = key(path) {
            resolver.flag(key, flag, value);
        }
    }
    let Resolver { resolved, mut faults } = resolver;
    // Contradictions are checked only between valid values. Other contradictions would be consequences of the first fault.
    if faults.is_empty() {
        faults = check::all(&resolved);
    }
    match faults.is_empty() {
        true => Ok(resolved),
        false => {
            faults.sort_by_key(|fault| match fault.origin {
                Origin::File(place) => (0, place),
                Origin::Flag(_) | Origin::Default => (1, Location::default()),
            });
            Err(SettingsFaults { file: name.to_owned(), faults })
        }
    }
}

#[derive(Default)]
struct Resolver {
    resolved: Resolved,
    faults: Vec<SettingsFault>,
}

impl Resolver {
    fn fault(&mut self, origin: Origin, key: &str, message: impl Into<String>) {
        self.faults.push(SettingsFault { origin, key: key.to_owned(), message: message.into() });
    }

    /// Parses the keys below `path`, which is empty for the whole file.
    fn group(&mut self, path: &str, node: &Node) {
        let fields = match &node.content {
            NodeContent::Null => return,
            NodeContent::Object(fields) => fields,
            other => {
                let message =
                    format!("expected an object with the keys {}, found {}", children(path).join(", "), found(other));
                return self.fault(Origin::File(node.place), path, message);
            }
        };
        for field in fields {
            let inner = if path.is_empty() { field.key.clone() } else { format!("{path}.{}", field.key) };
            match key(&inner).or_else(|| key(foreign::renamed(&inner)?)) {
                Some(key) => self.leaf(key, &field.value, Origin::File(field.place)),
                None if is_group(&inner) => self.group(&inner, &field.value),
                None => {
                    let message = unknown(path, &field.key, &inner);
                    self.fault(Origin::File(field.place), &inner, message);
                    self.hints(&inner, &field.value);
                }
            }
        }
    }

    /// Reports the keys below an unknown key, with their equivalents.
    fn hints(&mut self, path: &str, node: &Node) {
        let NodeContent::Object(fields) = &node.content else { return };
        for field in fields {
            let inner = format!("{path}.{}", field.key);
            match foreign::of_contour(&inner) {
                Some(hint) => self.fault(Origin::File(field.place), &inner, hint),
                None => self.hints(&inner, &field.value),
            }
        }
    }

    /// Parses the value of `key` from `flag`. It overrides the value of the file, which is recorded.
    fn flag(&mut self, key: &'static SettingsKey, flag: &'static str, node: &Node) {
        let origin = self.resolved.origins.get(key.path).copied();
        let value = (key.show)(&self.resolved.settings);
        self.leaf(key, node, Origin::Flag(flag));
        if let Some(origin @ Origin::File(_)) = origin
            && value != (key.show)(&self.resolved.settings)
        {
            self.resolved.hidden.insert(key.path, Other { origin, value });
        }
    }

    /// Parses the value of `key`. An empty value counts as absent.
    fn leaf(&mut self, key: &'static SettingsKey, node: &Node, origin: Origin) {
        if node.content == NodeContent::Null {
            return;
        }
        let mut wrong = Vec::new();
        if (key.read)(&mut self.resolved.settings, node, &mut wrong) {
            self.resolved.origins.insert(key.path, origin);
        }
        for Wrong { place, message } in wrong {
            let origin = match origin {
                Origin::File(_) => Origin::File(place),
                other => other,
            };
            self.fault(origin, key.path, message);
        }
    }
}

/// Returns whether any key is below `path`.
fn is_group(path: &str) -> bool {
    KEYS.iter().any(|key| key.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
}

/// Returns the names directly below `path`, in the order of the table.
fn children(path: &str) -> Vec<&'static str> {
    let mut names: Vec<&str> = Vec::new();
    for key in KEYS {
        let below = match path {
            "" => Some(key.path),
            _ => key.path.strip_prefix(path).and_then(|rest| rest.strip_prefix('.')),
        };
        let name = below.map(|below| below.split('.').next().unwrap_or(below));
        if let Some(name) = name
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    names
}

/// Returns the message for the unknown key `name` below `path`.
fn unknown(path: &str, name: &str, whole: &str) -> String {
    if let Some(hint) = foreign::hint(whole) {
        return hint;
    }
    if let Some(near) = foreign::nearest(name, children(path)) {
        return format!("unknown key {}; did you mean {near}?", quoted(name));
    }
    // The name exists below another path.
    let folded = foreign::folded(name);
    let elsewhere = KEYS.iter().map(|key| key.path).find(|path| {
        let own = path.rsplit('.').next().unwrap_or(path);
        foreign::folded(own) == folded || foreign::folded(&path.replace('.', "")) == folded
    });
    match elsewhere {
        Some(place) => format!("unknown key {}; did you mean {place}?", quoted(name)),
        None => format!("unknown key {}; known here: {}", quoted(name), children(path).join(", ")),
    }
}
